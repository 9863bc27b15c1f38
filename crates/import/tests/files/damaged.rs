//! Damaged files in each format: none ends the reader, and their numbers are the whole file's, or marked.

use std::fmt::Write as _;
use std::path::Path;

use wakepath_event::{Damage, EventSource};
use wakepath_import::perf::synthetic::File as PerfFile;
use wakepath_import::perfetto::synthetic::{bundle, bytes, event, number};
use wakepath_import::trace_cmd::synthetic::{EventType, File as DatFile};
use wakepath_import::{OpenError, PerfData, PerfettoTrace, TextTrace, TraceDat};

use crate::damage::{Harm, Reading, tally};

/// A moment on a simulated machine with two CPUs.
pub struct Moment {
    pub at: u64,
    pub cpu: u32,
    pub thread: u32,
    pub what: What,
}

pub enum What {
    /// The leaving thread's state, and the next thread.
    Switch(u32, u32),
    /// The thread, and its CPU.
    Wakes(u32, u32),
}

/// Thread 7 on CPU 0 wakes 8 on CPU 1 and sleeps, until 8 wakes it: in each round with other times.
pub fn moments() -> Vec<Moment> {
    let mut moments = Vec::new();
    for round in 0..40_u64 {
        let begin = 5_000_000_000 + 1_000_000 * round + 7000 * (round % 5);
        let mut add = |after_us: u64, cpu, thread, what| {
            moments.push(Moment { at: begin + 1000 * after_us, cpu, thread, what });
        };
        add(0, 0, 0, What::Switch(0, 7));
        add(100, 0, 7, What::Wakes(8, 1));
        add(103, 1, 0, What::Switch(0, 8));
        add(140 + round, 0, 7, What::Switch(1, 0));
        add(400 + 2 * round, 1, 8, What::Wakes(7, 0));
        add(450 + 2 * round, 1, 8, What::Switch(1, 0));
    }
    moments
}

pub fn name(thread: u32) -> &'static str {
    ["swapper", "here", "there"][(thread.max(6) - 6) as usize]
}

fn perf() -> PerfFile {
    moments().iter().enumerate().fold(PerfFile::default(), |file, (n, Moment { at, cpu, thread, what })| {
        let origin = (*at, *cpu, *thread, *thread);
        let file = match *what {
            What::Switch(state, next) => file.switch(origin, state.into(), next, name(next)),
            What::Wakes(target, cpu) => file.waking_to(origin, target, cpu),
        };
        if n % 20 == 19 { file.round() } else { file }
    })
}

fn trace_dat(version: u8, compression: &'static str) -> Vec<u8> {
    let file = moments().iter().fold(DatFile::default(), |file, Moment { at, cpu, thread, what }| {
        let origin = (*at, *cpu, *thread, *thread);
        match *what {
            What::Switch(state, next) => file.switch(origin, state.into(), next, name(next)),
            What::Wakes(target, cpu) => {
                let fields: [(usize, &[u8]); 2] = [(12, &target.to_le_bytes()), (20, &cpu.to_le_bytes())];
                file.tracepoint(EventType::Waking, origin, &fields)
            }
        }
    });
    // trace-cmd notes the kernel's counts.
    let counted = |cpu| moments().iter().filter(|moment| moment.cpu == cpu).count();
    let stats = |cpu| format!("CPU: {cpu}\nentries: 0\nread events: {}\n\0", counted(cpu));
    let file = [0, 1].iter().fold(file, |file, &cpu| file.option(2, stats(cpu).as_bytes()));
    file.version(version).compressed(compression).bytes()
}

/// A text by ftrace, trace-cmd or perf script.
fn text(program: &str) -> Vec<u8> {
    let mut text = String::new();
    if program == "ftrace" {
        text += "# tracer: nop\n#\n";
    }
    for Moment { at, cpu, thread, what } in moments() {
        let (comm, time) = (name(thread), format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000));
        let _ = match program {
            "ftrace" => write!(text, "{comm:>16}-{thread:<7} [{cpu:03}] d..2. {time}: "),
            "trace-cmd" => write!(text, "{comm:>16}-{thread:<5} [{cpu:03}] {time}: "),
            _ => write!(text, "{comm:>16} {thread:>5} [{cpu:03}] {time}: sched:"),
        };
        let _ = match what {
            What::Switch(state, next) => {
                let (state, next_comm) = (["R", "S"][state as usize], name(next));
                match program {
                    "trace-cmd" => writeln!(
                        text,
                        "sched_switch:         {comm}:{thread} [120] {state} ==> {next_comm}:{next} [120]"
                    ),
                    _ => writeln!(
                        text,
                        "sched_switch: prev_comm={comm} prev_pid={thread} prev_prio=120 prev_state={state} ==> \
                         next_comm={next_comm} next_pid={next} next_prio=120"
                    ),
                }
            }
            What::Wakes(target, cpu) => {
                let comm = name(target);
                writeln!(text, "sched_waking: comm={comm} pid={target} prio=120 target_cpu={cpu:03}")
            }
        };
    }
    text.into_bytes()
}

/// Bundles with ten events, each CPU's in turn.
fn perfetto() -> Vec<u8> {
    let mut trace = Vec::new();
    for cpu in [0, 1] {
        let moments = moments();
        let own: Vec<_> = moments.iter().filter(|moment| moment.cpu == cpu).collect();
        for part in own.chunks(10) {
            let encoded = |moment: &&Moment| {
                let (field, what) = match moment.what {
                    What::Switch(state, next) => {
                        let prev = [number(2, moment.thread.into()), number(4, state.into())].concat();
                        (4, [prev, bytes(5, name(next).as_bytes()), number(6, next.into())].concat())
                    }
                    What::Wakes(target, cpu) => {
                        let comm = bytes(1, name(target).as_bytes());
                        (20, [comm, number(2, target.into()), number(5, cpu.into())].concat())
                    }
                };
                event(moment.at, moment.thread.into(), field, &what)
            };
            trace.extend(bundle(cpu.into(), &part.iter().flat_map(encoded).collect::<Vec<_>>()));
        }
    }
    trace
}

fn reading(file: Result<impl EventSource<Damage = Damage>, OpenError>) -> Result<Reading, String> {
    file.map(|file| Reading::new(&file)).map_err(|error| error.to_string())
}

/// Whether a file says where it ends; else its part may be a whole file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Said,
    Open,
}

/// The variants whose harm fits to the byte, each looked at, by the number in front of their line. A filled block ends within an
/// event's flags; moved bytes, or bytes around missing ones, are a sound line or a sound stamp.
const FITS: [(&str, Harm, &[&str]); 4] = [
    ("trace.dat 6 none", Harm::Filled, &["251"]),
    ("trace.dat 7 none", Harm::Filled, &["46"]),
    ("Perfetto", Harm::Removed, &["349"]),
    ("trace-cmd", Harm::Moved, &["27", "227"]),
];

/// Reads 2,000 damaged variants. Where bytes are cut off, missing, overwritten or moved, numbers are the whole file's, or
/// marked, but for `FITS`. A changed value within a field cannot be seen: no format has checksums.
#[track_caller]
pub fn check(format: &str, file: &[u8], end: End, read: impl Fn(&[u8], &Path) -> Result<Reading, String>) {
    let path = Path::new("a.file");
    let tallies = tally(file, 0, |bytes| {
        read(bytes, path).inspect_err(|error| assert!(error.contains("a.file"), "{error}"))
    });
    for (harm, tally) in tallies {
        println!(
            "{format} {harm:?}: {} refused, {} the same, {} marked; unmarked: {} with other numbers {:?}, {} with fewer {:?}",
            tally.refused,
            tally.same,
            tally.marked,
            tally.invented.len(),
            &tally.invented[..tally.invented.len().min(6)],
            tally.missed.len(),
            &tally.missed[..tally.missed.len().min(3)]
        );
        if harm != Harm::Flipped {
            let known = FITS.iter().find(|(other, one, _)| (*other, *one) == (format, harm));
            let numbers: Vec<_> = tally.invented.iter().filter_map(|line| line.split(':').next()).collect();
            assert_eq!(
                numbers,
                known.map_or(&[][..], |known| known.2),
                "{format}, {harm:?}: {:?}",
                tally.invented
            );
            let is_said = end == End::Open || tally.missed.is_empty();
            assert!(is_said, "{format}, {harm:?}: {:?}", tally.missed);
        }
    }
}

#[test]
fn damaged_files_of_perf() {
    let read = |bytes: &[u8], path: &Path| reading(PerfData::from_source(bytes, path));
    check("perf.data", &perf().bytes(), End::Said, read);
    // Between two rounds, a stream may end.
    check("perf, to a pipe", &perf().stream(), End::Open, read);
    check("perf -z", &perf().compressed(81, 700).bytes(), End::Said, read);
}

#[test]
fn damaged_files_of_trace_cmd() {
    for (version, compression) in [(6, "none"), (7, "none"), (7, "zstd")] {
        let read = |bytes: &[u8], path: &Path| reading(TraceDat::from_source(bytes, path));
        check(
            &format!("trace.dat {version} {compression}"),
            &trace_dat(version, compression),
            End::Said,
            read,
        );
    }
}

#[test]
fn damaged_texts() {
    for program in ["ftrace", "trace-cmd", "perf script"] {
        check(program, &text(program), End::Open, |bytes, path| reading(TextTrace::from_source(bytes, path)));
    }
}

#[test]
fn damaged_traces_of_perfetto() {
    check("Perfetto", &perfetto(), End::Open, |bytes, path| reading(PerfettoTrace::from_source(bytes, path)));
}
