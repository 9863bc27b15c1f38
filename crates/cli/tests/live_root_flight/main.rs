//! `wakepath record --flight` with a server that has one slow request among many: each trigger keeps a window with the
//! whole slow request and its explanation; memory and disk are bounded, and kept recordings stay after the end.

mod links;
mod open;
mod recorder;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::Value;
use wakepath_harness::live::{
    Beside, Place, adds_up, command, list, number, place, run, skip, texts, wakepath,
};
use wakepath_harness::spans::{PROTOBUF, post, request, span};

use recorder::{Recorder, wakepath_loaded, window};

/// Makes this program the server, which sends its spans to this address.
const SERVES: &str = "WAKEPATH_TEST_SERVES";
/// The time for which another request holds the lock that the slow request needs.
const HELD: Duration = Duration::from_millis(400);
/// The other requests' time: long enough that a neighbour on the CPU makes none an outlier, which takes four times as long.
const USUAL: Duration = Duration::from_millis(20);
/// A fiftieth of the time of the held lock, ns.
const SLACK: u64 = HELD.as_nanos() as u64 / 50;
const SLOW: &str = "shop/GET /cart>300ms";

/// This host's two clocks, ns: CLOCK_MONOTONIC, and the time since 1970.
fn now() -> (u64, u64) {
    let mut monotonic = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a structure of its own type, which lives until it returns.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut monotonic) }, 0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    (monotonic.tv_sec as u64 * 1_000_000_000 + monotonic.tv_nsec as u64, since.as_nanos() as u64)
}

/// A finished request of the server's current thread, as a span.
fn served(id: u64, name: &str, from: u64, to: u64) -> Span {
    // SAFETY: a call without arguments.
    let tid = unsafe { libc::gettid() };
    let value = Some(AnyValue { value: Some(AnyKind::IntValue(tid.into())) });
    let attributes = vec![KeyValue { key: "wakepath.tid".to_owned(), value, ..KeyValue::default() }];
    let mut trace_id = vec![1; 16];
    trace_id[..8].copy_from_slice(&id.to_be_bytes());
    Span {
        trace_id,
        span_id: id.to_be_bytes().to_vec(),
        // A server's span.
        kind: 2,
        start_time_unix_nano: from,
        end_time_unix_nano: to,
        attributes,
        ..span(0, name)
    }
}

/// A server, not a test: a thread answers successive requests. For each `slow` line that it reads, the next request meets a
/// lock held by another request, and its times are printed: trace, begin and end on CLOCK_MONOTONIC, and the times right before
/// and right after the lock was released.
#[test]
fn the_server() {
    let Ok(address) = std::env::var(SERVES) else { return };
    let address: SocketAddr = address.parse().expect("an address");
    let spans = Arc::new(Mutex::new(Vec::new()));
    let ended = Arc::new(AtomicBool::new(false));
    let lock = Arc::new(Mutex::new(()));
    let (ask, asked) = channel();
    let (hold, held) = channel::<Sender<()>>();
    let (free, freed) = channel();
    let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let exporter = {
        let (spans, ended) = (Arc::clone(&spans), Arc::clone(&ended));
        named("exporter").spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                let batch = std::mem::take(&mut *spans.lock().expect("no panic"));
                // The recorder may have ended.
                if TcpStream::connect(address).is_ok() {
                    post(address, "/v1/traces", &[PROTOBUF], &request("shop", batch).encode_to_vec());
                }
            }
        })
    };
    let holder = {
        let (spans, lock) = (Arc::clone(&spans), Arc::clone(&lock));
        named("holder").spawn(move || {
            for (number, is_held) in held.into_iter().enumerate() {
                let (_, from) = now();
                let guard = lock.lock().expect("no panic");
                is_held.send(()).expect("the other thread");
                std::thread::sleep(HELD);
                let before = now().0;
                drop(guard);
                free.send((before, now().0)).expect("the worker");
                let id = 1 << 40 | number as u64;
                spans.lock().expect("no panic").push(served(id, "GET /report", from, now().1));
            }
        })
    };
    let worker = {
        let (spans, ended) = (Arc::clone(&spans), Arc::clone(&ended));
        named("worker").spawn(move || {
            let mut id = 0;
            while !ended.load(Ordering::Relaxed) {
                let is_slow = asked.try_recv().is_ok();
                if is_slow {
                    let (tell, told) = channel();
                    hold.send(tell).expect("the other thread");
                    told.recv().expect("the other thread");
                }
                id += 1;
                let (from, from_real) = now();
                drop(lock.lock().expect("no panic"));
                std::thread::sleep(USUAL);
                let (to, to_real) = now();
                let span = served(id, "GET /cart", from_real, to_real);
                spans.lock().expect("no panic").push(span);
                if is_slow {
                    let (before, after) = freed.recv().expect("the holder");
                    println!("slow {id:016x} {from} {to} {before} {after}");
                }
            }
        })
    };
    for line in std::io::stdin().lines() {
        assert_eq!(line.expect("text"), "slow");
        ask.send(()).expect("the worker");
    }
    ended.store(true, Ordering::Relaxed);
    for thread in [worker, holder, exporter] {
        thread.expect("a thread").join().expect("no panic");
    }
}

/// A slow request, by the server's own clock.
#[derive(Debug)]
struct Slow {
    trace: String,
    from: u64,
    to: u64,
    /// Right before and right after the lock was released.
    free: (u64, u64),
}

struct Server {
    _process: Beside,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(address: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "the_server", "--nocapture"]).env(SERVES, address.to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this program");
        let input = process.stdin.take().expect("its input");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        Self { _process: Beside(process), input, output }
    }

    /// Lets the server answer a slow request, and waits until its span is sent.
    fn slow(&mut self) -> Slow {
        self.input.write_all(b"slow\n").expect("the server");
        let mut line = String::new();
        while !line.contains("slow ") {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("text"), 0, "the server lives");
        }
        let words: Vec<&str> = line[line.find("slow ").expect("it")..].split_whitespace().collect();
        let [from, to, before, after] = [2, 3, 4, 5].map(|place| words[place].parse().expect("a number"));
        std::thread::sleep(Duration::from_millis(500));
        // The second half is the same in all traces.
        Slow { trace: format!("{}{}", words[1], "01".repeat(8)), from, to, free: (before, after) }
    }
}

/// Checks that the recording has the whole slow request, explained by the request that held the lock.
fn explains(folder: &Path, recording: &Path, slow: &Slow) {
    let (from, to) = window(recording);
    assert!(from <= slow.from && slow.to <= to, "{from}..{to} has not all of {slow:?}");
    let at = recording.to_str().expect("a path");
    let (out, _) = run(folder, &["requests", at, "--request", &slow.trace, "--json"], 0);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let of = &document["request"];
    assert_eq!((&of["operation"], &of["join"]), (&"GET /cart".into(), &"thread".into()), "{of}");
    let length = adds_up(&document) as u64;
    assert!(length.abs_diff(slow.to - slow.from) <= SLACK, "{length} ns: {slow:?}");
    let blockers = list(&document["blocked_by"]);
    let blocked = blockers.first().map_or(0, |first| {
        assert_eq!(first["operation"], "GET /report", "{first}");
        number(&first["total_ns"])
    });
    // The lock was taken before the request began: until its release, all but some microseconds belongs to the other
    // request. From then on the thread waits for a CPU, or runs. Some kernels report several switches a second to no tracer: then the
    // answer says so, and that time may be blocked or not.
    let (least, most) = (slow.free.0 - slow.from, slow.free.1 - slow.from);
    let (states, contributors) = (&document["states"], &document["contributors"]);
    let unrecorded: u64 = list(contributors)
        .iter()
        .filter(|part| part["kind"] == "unknown" && part["code"] == "unrecorded")
        .map(|part| number(&part["total_ns"]))
        .sum();
    assert!(
        blocked <= most + SLACK && blocked + unrecorded >= least - SLACK,
        "{blocked} of {length} ns: {slow:?}: {states}, {contributors}"
    );
}

#[test]
fn the_verb_and_the_signal_keep_the_slow_request_whole() {
    let Some(folder) = place("a trigger by hand keeps the last seconds") else { return };
    let directory = folder.join("flight");
    let options = ["--flight", "5s", "--flight-after", "1s"];
    let mut recorder = Recorder::start(&folder, &directory, &options);
    let mut server = Server::start(recorder.address);
    let slow = server.slow();
    let (out, _) = run(&folder, &["trigger", "flight"], 0);
    let first = folder.join(out.trim());
    let (line, path) = recorder.nth(1);
    assert_eq!(path, first, "the verb prints what was kept: {line}");
    explains(&folder, &first, &slow);

    let again = server.slow();
    let pid = fs::read_to_string(directory.join("recorder")).expect("its number");
    assert_eq!(pid.trim(), recorder.process.id().to_string());
    recorder.signal(libc::SIGUSR1);
    // While a recording is about to be written, another trigger joins it.
    recorder.signal(libc::SIGUSR1);
    std::thread::sleep(Duration::from_millis(300));
    recorder.signal(libc::SIGUSR1);
    let (line, second) = recorder.nth(2);
    assert!(line.contains(&format!("a signal (SIGUSR1) of process {}", std::process::id())), "{line}");
    explains(&folder, &second, &again);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(recorder.kept().len(), 2, "{:?}", recorder.kept());

    // Two users ask at once, and both get an answer.
    let both: Vec<_> = (0..2)
        .map(|_| {
            let mut trigger = command(&folder, &["trigger", "flight"]);
            trigger.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath")
        })
        .collect();
    let both: Vec<_> = both.into_iter().map(|one| one.wait_with_output().expect("its end")).collect();
    assert!(both.iter().all(|one| one.status.success()), "{both:?}");
    let (_, third) = recorder.nth(3);
    for one in &both {
        assert_eq!(folder.join(texts(one).0.trim()), third);
    }

    // The end removes nothing, and a trigger then reports that no recorder listens.
    let said = recorder.stop();
    assert_eq!(said.matches("kept: ").count(), 3, "{said}");
    let names: Vec<_> = fs::read_dir(&directory).expect("it").map(|it| it.expect("it").file_name()).collect();
    assert_eq!(names.len(), 3, "three recordings and nothing else: {names:?}");
    for (path, slow) in [(&first, &slow), (&second, &again)] {
        explains(&folder, path, slow);
    }
    let (_, said) = run(&folder, &["trigger", "flight"], 3);
    assert!(said.contains("error: no flight recorder writes into flight"), "{said}");
    assert!(said.contains("hint: sudo wakepath record --flight 30s -a -o DIR starts one"), "{said}");
}

/// A slow request triggers by its span, and no usual request before it: its window is kept, with this reason.
fn keeps_the_slow_one(folder: &Path, recorder: &mut Recorder, server: &mut Server, reason: &str, word: &str) {
    let slow = server.slow();
    let (line, path) = recorder.nth(1);
    assert!(line.contains("shop/GET /cart took ") && line.contains(reason), "{line}");
    assert!(line.contains(&format!("trace {}", slow.trace)), "a usual one triggered: {line}");
    assert!(path.to_string_lossy().ends_with(word), "{line}");
    explains(folder, &path, &slow);
}

#[test]
fn a_span_beyond_its_threshold_triggers_and_then_rests() {
    let Some(folder) = place("a slow span keeps its window") else { return };
    let directory = folder.join("flight");
    let options = ["--flight", "5s", "--flight-after", "1s", "--trigger-span", SLOW];
    let mut recorder = Recorder::start(&folder, &directory, &options);
    let mut server = Server::start(recorder.address);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(recorder.kept().len(), 0, "usual requests trigger nothing");
    keeps_the_slow_one(&folder, &mut recorder, &mut server, "more than 300", "-span");
    server.slow();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(recorder.kept().len(), 1, "it rests: {:?}", recorder.kept());
    run(&folder, &["trigger", "flight"], 0);
    let (line, _) = recorder.nth(2);
    assert!(line.contains("1 trigger before came too soon"), "{line}");
    recorder.stop();
}

#[test]
fn an_outlier_among_its_kind_triggers() {
    let Some(folder) = place("an outlier keeps its window") else { return };
    let directory = folder.join("flight");
    let options = ["--flight", "5s", "--flight-after", "1s", "--trigger-outlier"];
    let mut recorder = Recorder::start(&folder, &directory, &options);
    let mut server = Server::start(recorder.address);
    // Two hundred usual requests come first.
    std::thread::sleep(Duration::from_secs(6));
    keeps_the_slow_one(&folder, &mut recorder, &mut server, "99 of 100 before it", "-outlier");
    recorder.stop();
}

#[test]
fn a_full_memory_shortens_the_window_and_stays_within_its_bound() {
    const MEMORY: u64 = 4 << 20;
    /// The size of records that may wait while a recording is written, by docs/flight.md.
    const WAITS: u64 = 64 << 20;
    const LOADED: Duration = Duration::from_secs(20);
    /// The buffer for all CPUs, and each CPU's buffers for switches and for packets.
    const BUFFER: u64 = 1 << 20;
    let Some(folder) = place("the memory of a flight recorder is bounded") else { return };
    let directory = folder.join("flight");
    let options = [
        "--path-only",
        "--flight",
        "1h",
        "--flight-memory",
        "4M",
        "--flight-after",
        "100ms",
        "--buffer",
        "1M",
    ];
    let mut recorder = Recorder::start(&folder, &directory, &options);
    let before = recorder.memory();
    // Switches as fast as they come: some MB a second.
    let busy = "while :; do echo | cat >/dev/null; done";
    let spawn = || Command::new("sh").args(["-c", busy]).process_group(0).spawn().expect("a shell");
    let loads = [Beside(spawn()), Beside(spawn())];
    let mut most = 0;
    let began = Instant::now();
    while began.elapsed() < LOADED {
        std::thread::sleep(Duration::from_millis(200));
        most = most.max(recorder.memory());
    }
    let grown = most.saturating_sub(before);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    // The allocator may keep half as much again beyond the requested memory.
    let bound = MEMORY * 3 / 2 + (1 + 2 * cpus) * BUFFER;
    eprintln!("memory grew by {} KiB, the bound is {} KiB", grown >> 10, bound >> 10);
    assert!(grown <= bound, "{grown} of {bound} bytes");
    for number in 1..=2 {
        run(&folder, &["trigger", "flight"], 0);
        most = most.max(recorder.memory());
        let (line, path) = recorder.nth(number);
        assert!(line.contains("; no more was in memory"), "{line}");
        let (from, to) = window(&path);
        assert!(u128::from(to - from) < LOADED.as_nanos(), "the memory was full before: {line}");
        let bytes: u64 = files(&path).iter().map(|file| file.metadata().expect("a file").len()).sum();
        eprintln!("{line}: {bytes} bytes");
        assert!((MEMORY / 4..=2 * MEMORY).contains(&bytes), "{bytes} bytes: all of the memory, and no more");
    }
    let grown = most.saturating_sub(before);
    eprintln!("while recordings were written it grew by {} KiB", grown >> 10);
    assert!(grown <= bound + WAITS, "{grown} bytes");
    drop(loads);
    recorder.stop();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a directory").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A small file system in memory, mounted for one test.
struct Disk(PathBuf);

impl Disk {
    fn new(folder: &Place, options: &str) -> Option<Self> {
        let at = folder.join("small");
        fs::create_dir(&at).expect("a folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).output();
        let mounted = mounted.expect("mount");
        if !mounted.status.success() {
            skip(
                &format!("cannot mount ({})", texts(&mounted).1.trim()),
                "a flight recorder survives a full disk",
            );
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_nothing_and_the_recorder_goes_on() {
    let Some(folder) = place("a full disk is said, and is no end") else { return };
    let Some(disk) = Disk::new(&folder, "size=64M") else { return };
    let directory = disk.0.join("flight");
    let options = ["--flight", "5s", "--flight-after", "100ms"];
    let mut recorder = Recorder::start(&folder, &directory, &options);
    let mut server = Server::start(recorder.address);
    let first = server.slow();
    let (out, _) = run(&folder, &["trigger", "small/flight"], 0);
    let kept = folder.join(out.trim());
    explains(&folder, &kept, &first);
    let filler = disk.0.join("filler");
    // Full to the last byte, and with less than a tenth free.
    for left in [0, 4_u64 << 20] {
        let block = vec![1; 64 << 10];
        let mut file = fs::File::create(&filler).expect("a file");
        while file.write_all(&block).is_ok() {}
        let full = file.metadata().expect("a file").len();
        file.set_len(full.saturating_sub(left)).expect("its length");
        let output = wakepath(&folder, &["trigger", "small/flight", "--wait", "4s"]);
        let (out, said) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(3), ""), "{said}");
        assert!(said.contains("error: no recording came within 4 s"), "{said}");
        assert!(said.contains("hint: the recorder's own output says why"), "{said}");
        let said = recorder.said();
        let errors: Vec<_> = said.lines().filter(|line| line.contains("nothing could be kept")).collect();
        let last = errors.last().unwrap_or_else(|| panic!("it says so: {said}"));
        assert!(last.contains(disk.0.to_str().expect("a path")), "it says where: {last}");
        assert!(said.contains("hint: "), "it says what next: {said}");
        fs::remove_file(&filler).expect("the file");
    }
    let names = wakepath_loaded(&directory);
    assert_eq!(names.len(), 1, "no part of one is left: {names:?}");
    let second = server.slow();
    let (out, _) = run(&folder, &["trigger", "small/flight"], 0);
    explains(&folder, &folder.join(out.trim()), &second);
    explains(&folder, &kept, &first);
    recorder.wait_until("two were kept", |recorder| recorder.kept().len() == 2);
    recorder.stop();
    drop(server);
}

#[test]
fn a_folder_without_rights_is_named_before_anything_begins() {
    let Some(folder) = place("missing rights are said") else { return };
    let Some(disk) = Disk::new(&folder, "ro,size=1M") else { return };
    let (_, said) = run(&folder, &["record", "-a", "--flight", "5s", "-o", "small/flight"], 3);
    assert!(said.contains("small/flight") && said.contains("Read-only file system"), "{said}");
    assert!(said.contains("hint: choose another place with -o"), "{said}");
    drop(disk);

    // Another user may not ask root's recorder.
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("its mode");
    let program = folder.join("wakepath");
    fs::copy(*wakepath_harness::live::WAKEPATH, &program).expect("the program");
    let recorder = Recorder::start(&folder, &folder.join("flight"), &["--flight", "5s"]);
    let mut other = Command::new(&program);
    other.args(["trigger", "flight"]).current_dir(&*folder).uid(54321).gid(54321);
    let output = other.output().expect("wakepath");
    let (_, said) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("error: cannot read flight: Permission denied"), "{said}");
    assert!(said.contains("hint: run as the user who started the recorder, or as root"), "{said}");
    assert_eq!(recorder.kept().len(), 0);
    recorder.stop();
}
