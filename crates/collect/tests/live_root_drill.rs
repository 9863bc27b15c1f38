//! A drill-down's probes on functions that leave by a jump, in a program that counts its calls itself. Needs root and uprobes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wakepath_collect::{CallPlace, Drill, DrillCall, DrillEdge, DrillPlan};
use wakepath_functions::{Finder, ProcessCallee, ProcessCode, ProcessFunction, Return, Runtime, Target};
use wakepath_harness::live::skip;
use wakepath_inject::Frame;

/// The program's own counts: its rounds, and for each function that `work` calls its calls and those that came back.
struct Counts(u64, BTreeMap<String, [u64; 2]>);

/// A running program under test.
struct Program(Child, BufReader<std::process::ChildStdout>, PathBuf);

impl Program {
    fn start(folder: &Path) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_root_drill/jumps.cc");
        let built = folder.join("jumps");
        let compiled =
            Command::new("c++").args(["-O2", "-g", "-o"]).arg(&built).arg(&source).output().expect("c++");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let mut child =
            Command::new(&built).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut String::new()).expect("its number");
        Self(child, out, built)
    }

    fn end(mut self) -> Counts {
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.1.read_to_string(&mut text).expect("its counts");
        self.0.wait().expect("it ends");
        let (rounds, rest) = text.split_once('\n').expect("lines");
        let sites = rest.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0].to_owned(), [words[1], words[2]].map(|word| word.parse().expect("a number")))
        });
        Counts(rounds.parse().expect("a number"), sites.collect())
    }
}

/// A plan in the making: numbered functions, `work` first.
struct Below {
    code: ProcessCode,
    functions: Vec<ProcessFunction>,
    edges: Vec<DrillEdge>,
    places: Vec<CallPlace>,
}

impl Below {
    /// A function's number.
    fn number(&mut self, function: &ProcessFunction) -> u32 {
        let known = self.functions.iter().position(|known| known.address == function.address);
        known.unwrap_or_else(|| {
            self.functions.push(function.clone());
            self.functions.len() - 1
        }) as u32
    }

    /// Measures the calls in a node's function for which `is_wanted`. Returns their nodes, with their functions' names.
    fn add(&mut self, parent: u32, function: u32, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, u32)> {
        let caller = self.functions[function as usize].clone();
        let mut nodes = Vec::new();
        for site in self.code.sites(&caller).expect("its calls").sites {
            let ProcessCallee::Function(callee) = &site.callee else { continue };
            let name = callee.function.readable.clone();
            if !is_wanted(&name) {
                continue;
            }
            let (node, number) = (self.edges.len() as u32 + 1, self.number(callee));
            if let (Some(returns_to), Return::AtCallers) = (site.returns_to, &callee.function.probe.returns) {
                self.places.push(CallPlace {
                    file: caller.function.probe.file.clone(),
                    call: (site.offset, site.address),
                    behind: (site.behind.expect("a probe fits there"), returns_to),
                });
            }
            self.edges.push(DrillEdge {
                parent,
                function: number,
                returns_to: site.returns_to,
                node,
                frame: Frame::Unknown,
            });
            nodes.push((name, node));
        }
        nodes
    }
}

#[test]
fn the_calls_of_functions_that_leave_by_a_jump_are_as_many_as_their_program_counts() {
    const WANTED: usize = 400;
    if !rustix::process::geteuid().is_root() {
        return skip("not root", "calls of functions that leave by a jump are counted");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start(folder.path());
    let pid = program.0.id();
    let target = Target::parse(&format!("{}:work", program.2.display())).expect("a target");
    let f0 = Finder::new(&[pid]).find(&target).expect("work").functions.remove(0);
    let mut code = ProcessCode::of(pid, true).expect("the process");
    let f0 = ProcessFunction { address: code.address_of(&f0).expect("it is mapped"), function: f0 };
    let mut below = Below { code, functions: vec![f0], edges: Vec::new(), places: Vec::new() };
    let wanted = ["dispatch", "relay", "risky", "leaps", "ping", "again"];
    let nodes = below.add(0, 0, |name| wanted.contains(&name));
    let of = |name: &str| -> Vec<u32> {
        nodes.iter().filter(|(found, _)| found == name).map(|(_, node)| *node).collect()
    };
    assert!(wanted.iter().all(|name| !of(name).is_empty()), "{nodes:?}");
    for name in wanted {
        let function = below.functions.iter().find(|known| known.function.readable == name).expect(name);
        assert_eq!(function.function.probe.returns, Return::AtCallers, "{name}");
    }
    // Two jumps below `relay`; `ping` and `pong` go to each other.
    let [relay] = of("relay")[..] else { panic!("{nodes:?}") };
    let relay_function = below.edges[relay as usize - 1].function;
    let [(_, middle)] = below.add(relay, relay_function, |name| name == "middle")[..] else { panic!() };
    let middle_function = below.edges[middle as usize - 1].function;
    let [(_, last)] = below.add(middle, middle_function, |name| name == "last")[..] else { panic!() };
    assert!(below.edges[last as usize - 1].returns_to.is_none(), "a jump");

    let mut storage = MaybeUninit::uninit();
    let duration = Some(Duration::from_secs(60));
    let mut drill =
        Drill::load(&mut storage, pid, Runtime::Native, None, duration, None, false).expect("BPF");
    drill.see_returns(&below.places);
    let probes: Vec<_> = (0..).zip(below.functions.iter().map(|known| &known.function.probe)).collect();
    drill.probe(&probes).expect("probes");
    drill
        .measure(&DrillPlan {
            peak: 0..u64::MAX,
            edges: below.edges.clone(),
            callers: (0..below.functions.len() as u32).collect(),
            wanted: WANTED as u64,
        })
        .expect("a plan");
    let (mut calls, began): (Vec<DrillCall>, _) = (Vec::new(), Instant::now());
    while calls.len() < WANTED && began.elapsed() < Duration::from_secs(30) {
        calls.extend(drill.calls(Duration::from_millis(20)).expect("calls"));
    }
    let hits: Vec<_> = below.places.iter().map(|place| drill.place_hits(place.behind.1)).collect();
    drop(drill);
    let Counts(rounds, counted) = program.end();
    assert!(calls.len() >= WANTED, "{}", calls.len());

    for call in &calls {
        let node =
            |node: u32| call.nodes.iter().find(|times| times.node == node).copied().unwrap_or_default();
        let mut unwound = 0;
        for name in wanted {
            let [began, came_back] = counted[name].map(|count| count / rounds);
            assert_eq!(counted[name].map(|count| count % rounds), [0, 0], "{name}: the same in each round");
            let seen: u64 = of(name).into_iter().map(|of| node(of).count).sum();
            assert_eq!(seen, came_back, "{name}: {call:?}");
            unwound += began - came_back;
        }
        assert_eq!(u64::from(call.left), unwound, "{call:?}");
        // The whole chain returns where its first function was called.
        let [relay, middle, last] = [relay, middle, last].map(node);
        assert_eq!([relay, middle, last].map(|node| node.count), [2; 3], "{call:?}");
        assert!(call.latency > relay.sum && relay.sum > middle.sum && middle.sum > last.sum, "{call:?}");
        assert!(last.sum >= 200_000, "{call:?}");
    }
    // Only these calls return there.
    assert!(hits.iter().all(|hits| hits.returns > 0 && hits.strays * 100 < hits.returns), "{hits:?}");
}
