//! Stubs in a running program: no result changes, and no call is missed. Needs root and uprobes.

mod owners;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::{AsFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wakepath_functions::{ProcessCallee, ProcessCode, Unwinding};
use wakepath_harness::live::skip;
use wakepath_inject::{Frame, Injection, Node, SHARED_BYTES, Site, Unwinder, needs_its_return_address};
use wakepath_unwind::{Base, Module, Rule};

/// A program under test, killed at the end.
struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    functions: BTreeMap<String, u64>,
}

impl Program {
    fn start(path: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = output.next().expect("a line").expect("text");
        let words: Vec<&str> = line.split_whitespace().collect();
        let functions = words.chunks(2).map(|pair| (pair[0].to_owned(), hex(pair[1]))).collect();
        Self { child, input, output, functions }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Vec<String> {
        let line = self.output.next().expect("a line").expect("text");
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn say(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("it reads");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number")
}

/// Compiles the program into a folder.
fn compiled(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_root_inject").join(name);
    let program = folder.join(name).with_extension("");
    let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
    let status = Command::new(compiler)
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .args(["-pthread", "-lm"])
        .status();
    assert!(status.expect("a compiler").success(), "{name}");
    program
}

/// A function's sites, each with the called function's name and address.
fn sites(code: &mut ProcessCode, address: u64) -> Vec<(String, u64, Site)> {
    let function = code.function_at(address).unwrap_or_else(|why| panic!("{why:?}"));
    let file = function.function.probe.file.clone();
    let tables = Module::new(File::open(&file).expect("a file"), false);
    let found = code.sites(&function).expect("sites").sites;
    let of_site = |site: wakepath_functions::ProcessSite| {
        site.returns_to?;
        let (name, callee) = match &site.callee {
            ProcessCallee::Function(callee) => (callee.function.readable.clone(), callee.address),
            ProcessCallee::Unbound => ("(unbound)".to_owned(), 0),
            ProcessCallee::Refused(why) => (why.name.clone(), 0),
            ProcessCallee::Computed(_) | ProcessCallee::OfKernel => return None,
        };
        let frame = match tables.place(site.offset, true).rule {
            Rule::Frame { base: Base::Sp, words, .. } => Frame::AboveStack(u64::from(words) * 8),
            Rule::Frame { base: Base::Bp, words, .. } => Frame::AboveFramePointer(i64::from(words) * 8 - 8),
            _ => Frame::Unknown,
        };
        let site =
            Site { address: site.address, file: file.clone(), offset: site.offset, frame, nodes: Vec::new() };
        Some((name, callee, site))
    };
    // A place that two parts of a function share is listed twice.
    let mut addresses = BTreeSet::new();
    found
        .into_iter()
        .filter_map(of_site)
        .filter(|(name, ..)| name != "(unbound)" && !needs_its_return_address(name))
        .filter(|(.., site)| addresses.insert(site.address))
        .collect()
}

/// All code bytes that the program has mapped from files, by address. A library that it is just unloading is left
/// out.
fn code_bytes(pid: u32) -> BTreeMap<u64, Vec<u8>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    let lines = maps.lines().filter(|line| line.contains(" r-xp ") && line.contains(" /"));
    let of_line = |line: &str| {
        let (from, to) = line.split_whitespace().next().expect("addresses").split_once('-').expect("two");
        let mut bytes = vec![0; (hex(to) - hex(from)) as usize];
        memory.read_exact_at(&mut bytes, hex(from)).ok()?;
        Some((hex(from), bytes))
    };
    lines.filter_map(of_line).collect()
}

/// Whether the code is unchanged: the program's own, and all libraries mapped both times. Prints what changed.
fn is_as_before(before: &BTreeMap<u64, Vec<u8>>, after: &BTreeMap<u64, Vec<u8>>) -> bool {
    let own = before.keys().next().expect("a program has code");
    let mut is_same = after.contains_key(own);
    for (start, bytes) in before {
        let Some(now) = after.get(start) else { continue };
        for (at, (was, now)) in (*start..).zip(bytes.iter().zip(now)).filter(|(_, (was, now))| was != now) {
            println!("changed: {at:#x} of the code at {start:#x}: {was:#x}, now {now:#x}");
            is_same = false;
        }
        is_same &= now.len() == bytes.len();
    }
    is_same
}

/// Memory for the threads' states, in place of a BPF map.
fn memory() -> File {
    // SAFETY: makes a descriptor that no other code has.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"states".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(SHARED_BYTES).expect("memory");
    file
}

/// A time of the time stamp counter, far from now.
fn later() -> u64 {
    u64::MAX
}

/// Only one test runs at a time: some start processes all the time, which keeps the other tests' break points in the
/// code longer.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root(would_show: &str) -> bool {
    // SAFETY: reads a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        skip("not root", would_show);
    }
    is_root
}

#[test]
fn each_call_is_measured_once_and_nothing_else_changes() {
    if !is_root("that stubs measure each call of a program, and change no result") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    for options in [
        &["-O2"][..],
        &["-O0"],
        &["-O2", "-fno-plt", "-fcf-protection=full"],
        &["-O2", "-static"],
        &["-O1", "-no-pie"],
    ] {
        let path = compiled(folder.path(), "called.c", options);
        let rounds = 1000;
        let mut program = Program::start(&path, &[&rounds.to_string()]);
        let pid = program.pid();
        let line = program.line();
        let (thread, slot) = (hex(&line[1]), hex(&line[2]));
        let before = code_bytes(pid);
        let mut code = ProcessCode::of(pid, false).expect("code");
        let mut injection = Injection::begin(pid, memory().as_fd(), &[]).expect("it is taken");
        // f0 calls once (1), which calls others (2 and on), which call themselves.
        let mut names = vec!["f0".to_owned(), "once".to_owned()];
        let mut all = Vec::new();
        for (name, callee, mut site) in sites(&mut code, program.functions["f0"]) {
            if callee == program.functions["once"] {
                site.nodes.push(Node { parent: 0, node: 1 });
                all.push(site);
            }
            let _ = name;
        }
        assert_eq!(all.len(), 1, "{options:?}: f0 calls once at one place");
        let mut below = Vec::new();
        for (name, callee, mut site) in sites(&mut code, program.functions["once"]) {
            site.nodes.push(Node { parent: 1, node: names.len() as u32 });
            let has_more = ["deep", "registers", "turn", "again"];
            if has_more.iter().any(|more| name.starts_with(more)) {
                below.push((callee, names.len() as u32));
            }
            names.push(name);
            all.push(site);
        }
        for (callee, parent) in below {
            // Recursion goes through `middle`, which is not measured.
            let found = sites(&mut code, callee);
            for (name, _, mut site) in found.into_iter().filter(|(name, ..)| name != "middle") {
                let node = Node { parent, node: names.len() as u32 };
                names.push(format!("{name} below {parent}"));
                // A function with two call sites has each of its own sites on two paths.
                match all.iter_mut().find(|known: &&mut Site| known.address == site.address) {
                    Some(known) => known.nodes.push(node),
                    None => {
                        site.nodes.push(node);
                        all.push(site);
                    }
                }
            }
        }
        let began = Instant::now();
        let answers = injection.redirect(&all).expect("the process is there");
        let took = began.elapsed();
        for (site, answer) in all.iter().zip(&answers) {
            let name = &names[site.nodes[0].node as usize];
            assert_eq!(answer, &Ok(()), "{options:?}: {name} at {:#x}", site.address);
        }
        assert_ne!(code_bytes(pid), before, "{options:?}");
        injection.measure_until(later()).expect("there");
        injection.begin_call(thread, slot).expect("there").expect("room");
        program.say("g");
        assert_eq!(program.line(), ["done", "0"], "{options:?}: no result is another one");
        let times = injection.end_call(thread).expect("there").expect("a state");
        println!("{options:?}: {} sites in {took:?}", all.len());
        for (name, node) in names.iter().zip(&times.nodes).skip(1) {
            println!("  {name}: {node:?}");
        }
        let count = |wanted: &str| {
            let it = names.iter().position(|name| name == wanted || name.starts_with(&format!("{wanted}.")));
            it.map(|at| times.nodes[at].count)
        };
        for name in ["once", "nine", "half", "longer", "large", "listed", "deep", "registers", "turn"] {
            assert_eq!(count(name), Some(rounds), "{options:?}: {name}");
        }
        let called = |part: &str| {
            let nodes = names.iter().zip(&times.nodes).filter(|(name, _)| name.contains(part));
            nodes.map(|(_, node)| node.count).sum::<u64>()
        };
        // Only the outermost of four activations of `again` was called at a measured place.
        assert_eq!(called("leaf below"), rounds, "{options:?}");
        // Each child returns from `fork` too, in its own memory.
        assert_eq!(called("fork"), rounds.div_ceil(64), "{options:?}");
        assert_eq!((times.left, times.crowded), (rounds, 0), "{options:?}: one `longjmp` each");
        assert!(
            times.nodes.iter().all(|node| node.longest <= node.sum && (node.count == 0) == (node.sum == 0))
        );
        assert_eq!(injection.open_calls().expect("there"), 0, "{options:?}");
        let left = injection.end().expect("there");
        assert_eq!((left.gone, left.open), (0, 0), "{options:?}");
        let after = code_bytes(pid);
        assert!(is_as_before(&before, &after), "{options:?}: the code is as it was");
        program.say("x");
        assert!(program.child.wait().expect("ends").success(), "{options:?}");
    }
}

#[test]
fn a_busy_program_lives_through_many_insertions_and_removals() {
    let rounds: usize =
        std::env::var("WAKEPATH_INSERTIONS").map_or(400, |text| text.parse().expect("a number"));
    if !is_root("that a program of many threads survives stubs that come and go") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "called.c", &["-O2"]);
    let mut program = Program::start(&path, &[]);
    let pid = program.pid();
    let before = code_bytes(pid);
    let mut code = ProcessCode::of(pid, false).expect("code");
    let mut all = Vec::new();
    let mut functions = vec!["f0", "once", "handler", "brief", "registers"];
    functions.dedup();
    for name in functions {
        for (_, _, mut site) in sites(&mut code, program.functions[name]) {
            site.frame = Frame::Unknown;
            let node = 1 + all.len() as u32 % 60;
            // The call is measured whatever the innermost node is.
            site.nodes =
                (0..8).map(|parent| Node { parent, node: if name == "f0" { 1 } else { node % 8 } }).collect();
            all.push(site);
        }
    }
    let mut threads = Vec::new();
    while threads.len() < 3 {
        let line = program.line();
        if line[0] == "f0" {
            threads.push((hex(&line[1]), hex(&line[2])));
        }
    }
    let mut insertions = 0;
    let mut injection = Injection::begin(pid, memory().as_fd(), &[]).expect("it is taken");
    injection.measure_until(later()).expect("there");
    let began = Instant::now();
    let mut measured = 0;
    while insertions < rounds {
        for answer in injection.redirect(&all).expect("the process is there") {
            answer.expect("each site is a call");
            insertions += 1;
        }
        for (thread, slot) in &threads {
            injection.begin_call(*thread, *slot).expect("there").expect("room");
        }
        std::thread::sleep(Duration::from_millis(3));
        for (thread, _) in &threads {
            let times = injection.end_call(*thread).expect("there").expect("a state");
            measured += times.nodes.iter().map(|node| node.count).sum::<u64>();
        }
        assert_eq!(injection.restore().expect("there"), 0);
    }
    println!("{insertions} insertions and removals in {:?}, {measured} calls measured", began.elapsed());
    assert!(measured > rounds as u64, "{measured}");
    let left = injection.end().expect("there");
    assert_eq!(left.gone, 0);
    let after = code_bytes(pid);
    assert!(is_as_before(&before, &after), "the code is as it was");
    program.say("x");
    let mut line = program.line();
    while line[0] != "rounds" {
        line = program.line();
    }
    println!("{line:?}");
    assert_eq!(line[3], "0", "no result is another one: {line:?}");
    assert!(program.child.wait().expect("ends").success());
}

#[test]
fn a_measured_call_takes_some_tens_of_nanoseconds() {
    if !is_root("what a measured call costs") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "loop.c", &["-O2"]);
    let mut program = Program::start(&path, &[]);
    let line = program.line();
    let (thread, slot) = (hex(&line[1]), hex(&line[2]));
    let mut code = ProcessCode::of(program.pid(), false).expect("code");
    let ask = |program: &mut Program| -> f64 {
        let each = |_| {
            program.say("1000000\n");
            program.line()[0].parse().expect("ns")
        };
        (0..9).map(each).fold(f64::INFINITY, f64::min)
    };
    let bare = ask(&mut program);
    let mut injection = Injection::begin(program.pid(), memory().as_fd(), &[]).expect("it is taken");
    injection.measure_until(later()).expect("there");
    let mut all = Vec::new();
    for (function, parent) in [("f0", 0), ("once", 1)] {
        for (name, _, mut site) in sites(&mut code, program.functions[function]) {
            if name == "once" || name == "leaf" {
                site.nodes.push(Node { parent, node: parent + 1 });
                all.push(site);
            }
        }
    }
    assert_eq!(all.len(), 2);
    for answer in injection.redirect(&all).expect("there") {
        answer.expect("a call");
    }
    let idle = ask(&mut program);
    injection.begin_call(thread, slot).expect("there").expect("room");
    injection.measure_until(1).expect("there");
    ask(&mut program);
    let late = injection.end_call(thread).expect("there").expect("a state");
    assert!(late.nodes.iter().all(|node| node.count == 0), "nobody looks after the stubs any more");
    injection.measure_until(later()).expect("there");
    injection.begin_call(thread, slot).expect("there").expect("room");
    injection.quiet(|_| false).expect("there");
    ask(&mut program);
    let quiet = injection.end_call(thread).expect("there").expect("a state");
    assert!(quiet.nodes.iter().all(|node| node.count == 0), "no site has a node");
    for answer in injection.redirect(&all).expect("there") {
        answer.expect("a call");
    }
    injection.begin_call(thread, slot).expect("there").expect("room");
    let measured = ask(&mut program);
    let times = injection.end_call(thread).expect("there").expect("a state");
    println!(
        "bare {bare} ns, with a stub that measures nothing {idle} ns, measured {measured} ns: {:?}",
        &times.nodes[..3]
    );
    assert_eq!(times.nodes[2].count, 9_000_000);
}

#[test]
fn a_process_that_waits_or_computes_does_not_notice() {
    if !is_root("that no wait of a program ends early when it gets memory for stubs") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "waits.c", &["-O2"]);
    for (how, expected) in [
        ("epoll", "got 1"),
        ("poll", "got 0"),
        ("spin", "got 1"),
        ("read", "got 1"),
        ("filtered", "got 1"),
        ("signals", "got 1"),
    ] {
        let mut program = Program::start(&path, &[how]);
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..10 {
            let began = Instant::now();
            let injection = Injection::begin(program.pid(), memory().as_fd(), &[])
                .unwrap_or_else(|why| panic!("{how}: {why}"));
            let left = injection.end().expect("there");
            assert_eq!((left.gone, left.open), (0, 0), "{how}");
            println!("{how}: {:?}", began.elapsed());
        }
        if how == "poll" {
            let took: u64 = program.line()[1].parse().expect("ms");
            assert!((1500..1700).contains(&took), "{took} ms");
        } else {
            program.say("x");
        }
        assert_eq!(program.line().join(" "), expected, "{how}");
        assert!(program.child.wait().expect("ends").success(), "{how}");
    }
}

#[test]
fn processes_that_are_started_meanwhile_do_not_keep_sites_from_being_changed_again() {
    if !is_root("that sites are changed again and again while others start processes") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "throws.cc", &["-O2"]);
    let mut program = Program::start(&path, &[]);
    program.line();
    let mut code = ProcessCode::of(program.pid(), true).expect("code");
    let all: Vec<_> = sites(&mut code, program.functions["f0"]).into_iter().map(|(.., site)| site).collect();
    let mut injection = Injection::begin(program.pid(), memory().as_fd(), &[]).expect("it is taken");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Until its exec, a new process has a copy of the descriptor by which the kernel keeps a break point.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                Command::new("true").status().expect("true");
            }
        });
        let changed = (0..50).all(|_| {
            let answers = injection.redirect(&all).expect("there");
            // A break point left there would lead threads past the stub.
            let stand = all.iter().filter(|site| first_byte(program.pid(), site.address) == 0xcc).count();
            injection.restore().expect("there");
            stand == 0 && answers.into_iter().all(|answer| answer.is_ok())
        });
        over.store(true, Ordering::Relaxed);
        assert!(changed);
    });
    injection.end().expect("there");
}

fn first_byte(pid: u32, address: u64) -> u8 {
    let mut code = [0];
    let memory = File::open(format!("/proc/{pid}/mem")).expect("a process");
    memory.read_exact_at(&mut code, address).expect("code");
    code[0]
}

/// A runnable thread gets a CPU within this time.
const MAX_WITHOUT_CPU: Duration = Duration::from_secs(60);

/// By then a thread has run for a while, even where its CPU time is a tick old.
const MIN_CPU_NS: u64 = 30_000_000;

/// The CPU time of each thread in a process, ns.
fn cpu_times(pid: u32) -> BTreeMap<u32, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let time = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.ok()?;
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = text.split_whitespace().next()?.parse().ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, ns))
    };
    tasks.filter_map(time).collect()
}

#[test]
fn exceptions_pass_stubs() {
    if !is_root("that exceptions pass stubs, and all on the way is cleaned up") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    for options in
        [&["-O2"][..], &["-O0"], &["-O2", "-static-libgcc", "-static-libstdc++"], &["-O2", "-static"]]
    {
        let path = compiled(folder.path(), "throws.cc", options);
        let mut program = Program::start(&path, &[]);
        let pid = program.pid();
        let threads = [(); 2].map(|()| {
            let line = program.line();
            (hex(&line[1]), hex(&line[2]))
        });
        let mut code = ProcessCode::of(pid, true).expect("code");
        let Unwinding::Tables(found) = code.unwinding() else {
            panic!("{options:?}: {:?}", code.unwinding())
        };
        let unwinders: Vec<Unwinder> =
            found.iter().map(|&[register, deregister]| Unwinder { register, deregister }).collect();
        let before = code_bytes(pid);
        let mut injection = Injection::begin(pid, memory().as_fd(), &unwinders).expect("it is taken");
        injection.measure_until(later()).expect("there");
        let mut all = Vec::new();
        for (parent, name) in ["f0", "once", "catches", "again", "passes"].into_iter().enumerate() {
            let callee = ["once", "catches", "again", "passes", "throws"][parent];
            for (called, _, mut site) in sites(&mut code, program.functions[name]) {
                if called == callee {
                    site.nodes.push(Node { parent: parent as u32, node: parent as u32 + 1 });
                    all.push(site);
                }
            }
        }
        assert!(all.len() >= 5, "{options:?}: {}", all.len());
        for _ in 0..10 {
            for answer in injection.redirect(&all).expect("there") {
                answer.expect("a call");
            }
            for (thread, slot) in threads {
                injection.begin_call(thread, slot).expect("there").expect("room");
            }
            // On a busy machine a thread may have no CPU for longer than this sleep.
            let began = cpu_times(pid);
            let deadline = Instant::now() + MAX_WITHOUT_CPU;
            let has_run = |(tid, ns): (&u32, &u64)| began.get(tid).is_some_and(|from| ns - from > MIN_CPU_NS);
            while cpu_times(pid).iter().filter(|thread| has_run(*thread)).count() < 2 {
                assert!(Instant::now() < deadline, "{options:?}: the threads have no CPU");
                std::thread::sleep(Duration::from_millis(20));
            }
            let times =
                threads.map(|(thread, _)| injection.end_call(thread).expect("there").expect("a state"));
            for times in &times {
                let counts: Vec<u64> = times.nodes[1..6].iter().map(|node| node.count).collect();
                // Every third call returns; among the others, the outermost two functions do.
                assert!(counts[0] > 10 && counts[0].abs_diff(counts[1]) <= 1, "{options:?}: {counts:?}");
                assert!(counts[4].abs_diff(counts[0] / 3) <= 2, "{options:?}: {counts:?}");
                assert!(
                    times.left.abs_diff(counts[0] * 2 / 3) <= 2,
                    "{options:?}: {counts:?} {}",
                    times.left
                );
            }
            injection.restore().expect("there");
        }
        let left = injection.end().expect("there");
        assert_eq!((left.gone, left.open), (0, 0), "{options:?}");
        let after = code_bytes(pid);
        assert!(is_as_before(&before, &after), "{options:?}");
        program.say("x");
        let line = program.line();
        println!("{options:?}: {line:?}");
        assert_eq!((line[3].as_str(), line[5].as_str()), ("0", "1"), "{options:?}: {line:?}");
        assert!(program.child.wait().expect("ends").success(), "{options:?}");
    }
    // Without symbols the unwinder is not known.
    let path = compiled(folder.path(), "throws.cc", &["-O2", "-static", "-s"]);
    let program = Program::start(&path, &[]);
    let unwinding = ProcessCode::of(program.pid(), true).expect("code").unwinding();
    assert_eq!(unwinding, Unwinding::Unknown(path));
}
