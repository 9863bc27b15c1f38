//! How fast traces of other tracers are read, as CPU time, beside `babeltrace2 -o dummy` in the same run:
//! every field, then what the graph needs, then the graph too. A checksum over the values shows that they
//! were decoded; babeltrace2's text makes the same.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use wakepath_ctf::plan::Visitor;
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::Trace;
use wakepath_event::{EventSource, RecordingFormat};
use wakepath_wait_graph::{Builder, Graph};

use crate::statistics::median;
use crate::{machine, processes, progress};

#[derive(Debug, Args)]
pub struct Options {
    /// Directories of traces: each holds `metadata` and stream files.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Do not make the checksum of babeltrace2's text, which takes minutes for large traces.
    #[arg(long)]
    no_text: bool,
    /// The program under test.
    #[arg(long, default_value = "target/release/wakepath")]
    program: PathBuf,
}

/// A checksum of the decoded events, so that the compiler cannot leave out the decoding. Numbers count by their lowest 32 bits: a negative one
/// that is shown in base 16 is cut to its width there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Checksum {
    events: u64,
    stamps: u64,
    numbers: u64,
}

impl Checksum {
    const fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            stamps: self.stamps.wrapping_add(other.stamps),
            numbers: self.numbers.wrapping_add(other.numbers),
        }
    }
}

/// Takes every field.
#[derive(Default)]
struct Sum {
    numbers: u64,
    /// Apart: babeltrace2 2.0 shows another text in the place of an empty one.
    texts: u64,
}

impl Visitor for Sum {
    #[inline]
    fn unsigned(&mut self, _: u16, value: u64) {
        self.numbers = self.numbers.wrapping_add(value & 0xffff_ffff);
    }

    #[inline]
    fn signed(&mut self, _: u16, value: i64) {
        self.numbers = self.numbers.wrapping_add(value as u64 & 0xffff_ffff);
    }

    #[inline]
    fn float(&mut self, _: u16, value: f64) {
        self.texts = self.texts.wrapping_add(value.to_bits());
    }

    #[inline]
    fn bytes(&mut self, _: u16, value: &[u8]) {
        let ends = value.first().zip(value.last()).map_or(0, |(a, b)| u64::from(*a) << 8 | u64::from(*b));
        self.texts = self.texts.wrapping_add(ends + value.len() as u64);
    }
}

/// Prints the table.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "nothing to run: no rounds");
    println!("## Reading traces of other tracers\n\n{}\n", machine::describe());
    println!(
        "| trace | events | babeltrace2 s | every field s | | what the graph needs s | | made events of s | and \
         the graph s | a path, as a process s | all CPUs, wall s |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for trace in &options.traces {
        row(trace, options)?;
    }
    println!(
        "\nMedians of {} rounds, CPU time; the last column is every field again, a thread a stream, as time \
         on the wall. babeltrace2: `babeltrace2 -o dummy`, the whole process. `=` behind a time: the \
         checksum is that of babeltrace2's text. A path: `wakepath path --tid` of the thread that was \
         switched most often, from the trace's folder to the answer.",
        options.rounds
    );
    Ok(())
}

/// A trace as others may have it too: without the folders that it happens to be in.
fn name(trace: &Path) -> String {
    let own = trace.iter().rev().find(|part| !["kernel", "ctf"].iter().any(|inner| part == inner));
    own.unwrap_or(trace.as_os_str()).to_string_lossy().into_owned()
}

fn row(path: &Path, options: &Options) -> Result<()> {
    let name = name(path);
    let (mut theirs, mut all, mut needed, mut events) = (vec![], vec![], vec![], vec![]);
    let (mut graph, mut whole, mut wall) = (vec![], vec![], vec![]);
    let tid = busiest(path)?;
    let mut checksum = Checksum::default();
    for round in 1..=options.rounds {
        progress(&format!("{name}, round {round} of {}", options.rounds));
        let child = Command::new("babeltrace2")
            .args(["-o", "dummy"])
            .arg(path)
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run babeltrace2")?;
        let used = processes::wait(child)?;
        if used.succeeded {
            theirs.push(used.cpu.as_secs_f64());
        }
        checksum = timed(&mut all, || decode(path, &Selection::All, false))?;
        let began = Instant::now();
        ensure!(decode(path, &Selection::All, true)? == checksum, "threads decode something else");
        wall.push(began.elapsed().as_secs_f64());
        let wanted = Selection::Fields(&wakepath_import::wanted);
        let selected = timed(&mut needed, || decode(path, &wanted, false))?;
        ensure!(selected.events <= checksum.events, "more events than there are");
        timed(&mut events, || {
            let mut sum = 0_u64;
            wakepath_import::Lttng::open(path)?.for_each(|event| sum = sum.wrapping_add(event.at.ns()));
            std::hint::black_box(sum);
            Ok(())
        })?;
        timed(&mut graph, || Ok(std::hint::black_box(graph_of(path)?.events())))?;
        let child = Command::new(&options.program)
            .args(["path", "--tid", &tid.to_string()])
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", options.program.display()))?;
        let used = processes::wait(child)?;
        ensure!(used.succeeded, "`{} path --tid {tid}` failed", options.program.display());
        whole.push(used.cpu.as_secs_f64());
    }
    let same = if options.no_text {
        ""
    } else {
        progress(&format!("{name}: the text of babeltrace2"));
        let text = of_text(path)?;
        ensure!(text == checksum, "{name}: {checksum:?} is not babeltrace2's {text:?}");
        " ="
    };
    progress("");
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let times = |ours: &[f64]| match median(&theirs) {
        Some(theirs) => format!("{:.1}×", theirs / middle(ours)),
        None => "–".to_owned(),
    };
    println!(
        "| {name} | {} | {:.3} | {:.3}{same} | {} | {:.3} | {} | {:.3} | {:.3} | {:.3} | {:.3} |",
        checksum.events,
        middle(&theirs),
        middle(&all),
        times(&all),
        middle(&needed),
        times(&needed),
        middle(&events),
        middle(&graph),
        middle(&whole),
        middle(&wall),
    );
    Ok(())
}

/// Does the work, and adds its CPU time in seconds to the list.
fn timed<T>(seconds: &mut Vec<f64>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = processes::own_cpu_time()?;
    let result = work()?;
    seconds.push((processes::own_cpu_time()? - before).as_secs_f64());
    Ok(result)
}

fn graph_of(path: &Path) -> Result<Graph> {
    let mut builder = Builder::default();
    wakepath_import::Lttng::open(path)?.for_each(|event| builder.push(event));
    Ok(builder.finish())
}

/// The thread that was switched most often.
fn busiest(path: &Path) -> Result<u32> {
    let graph = graph_of(path)?;
    let busiest = graph.threads().max_by_key(|(index, _)| graph.state_intervals(*index).len());
    // If the number was used again, `--tid` chooses one of its threads.
    let (_, thread) = busiest.context("the trace has no threads")?;
    Ok(thread.tid().number())
}

/// Decodes these fields of a trace: one stream behind the other, or each in a thread of its own.
fn decode(path: &Path, selection: &Selection<'_>, threads: bool) -> Result<Checksum> {
    let trace = Trace::open(path)?;
    let plans = Plans::new(trace.metadata, selection)?;
    let streams = trace.streams;
    if !threads {
        return streams.iter().try_fold(Checksum::default(), |sum, path| Ok(sum.plus(stream(&plans, path)?)));
    }
    std::thread::scope(|scope| {
        let plans = &plans;
        let running: Vec<_> = streams.iter().map(|path| scope.spawn(move || stream(plans, path))).collect();
        running.into_iter().try_fold(Checksum::default(), |sum, thread| {
            let one = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            Ok(sum.plus(one?))
        })
    })
}

fn stream(plans: &Plans, path: &Path) -> Result<Checksum> {
    let mut reader = Reader::new(plans, File::open(path)?)?;
    let (mut checksum, mut sum) = (Checksum::default(), Sum::default());
    while let Some(item) = reader.next() {
        match item {
            Item::Event(head) => {
                reader.fields(&mut sum).map_err(|fault| anyhow!("{}: {fault}", path.display()))?;
                checksum.events += 1;
                checksum.stamps = checksum.stamps.wrapping_add(head.stamp);
            }
            Item::Packet(_) | Item::Lost(_) => {}
            Item::Fault(fault) => return Err(anyhow!("{}: {fault}", path.display())),
        }
    }
    std::hint::black_box(sum.texts);
    checksum.numbers = sum.numbers;
    Ok(checksum)
}

/// The checksum that babeltrace2's text gives: all numbers behind the packet's context.
fn of_text(path: &Path) -> Result<Checksum> {
    let mut child = Command::new("babeltrace2")
        .args(["run", "--component=in:source.ctf.fs"])
        .arg(format!("--params=inputs=[\"{}\"]", path.display()))
        .args(["--component=mux:filter.utils.muxer", "--component=out:sink.text.pretty"])
        .args(["--params=no-delta=yes,clock-cycles=yes,field-trace:hostname=no"])
        .args(["--connect=in:mux", "--connect=mux:out"])
        .stdout(Stdio::piped())
        .spawn()?;
    let text = BufReader::new(child.stdout.take().context("no pipe")?);
    let mut checksum = Checksum::default();
    for line in text.split(b'\n') {
        let line = line?;
        let stamp = line.get(1..21).and_then(|digits| std::str::from_utf8(digits).ok());
        let stamp: u64 = stamp.and_then(|digits| digits.parse().ok()).context("a line without a stamp")?;
        checksum.events += 1;
        checksum.stamps = checksum.stamps.wrapping_add(stamp);
        // The CPU of the packet's context is no field of the event.
        let fields = line.windows(4).position(|four| four == b" }, ").map_or(line.len(), |at| at + 4);
        checksum.numbers = checksum.numbers.wrapping_add(numbers(&line[fields..]));
    }
    ensure!(child.wait()?.success(), "babeltrace2 cannot read {} whole", path.display());
    Ok(checksum)
}

/// The sum of what stands behind each ` = `, unless it is a text or a group.
fn numbers(mut text: &[u8]) -> u64 {
    let mut sum = 0_u64;
    loop {
        // Texts may hold anything.
        let Some(next) = text.iter().position(|&byte| byte == b'"' || byte == b'=') else { return sum };
        let quoted = text[next] == b'"';
        text = &text[next + 1..];
        if quoted {
            let mut escaped = false;
            let end = text.iter().position(|&byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            text = &text[end.map_or(text.len(), |end| end + 1)..];
            continue;
        }
        let word = text.get(1..).unwrap_or_default();
        let len = word.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
        let word = std::str::from_utf8(&word[..len]).unwrap_or_default();
        let value = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(word, 8).ok(),
            None => word.parse::<i128>().ok().map(|value| value as u64),
        };
        sum = sum.wrapping_add(value.unwrap_or(0) & 0xffff_ffff);
    }
}
