//! The reading speed for other tracers' traces, as CPU time, beside `babeltrace2 -o dummy` in the same run: every
//! field, then the graph's fields, then the graph too. A checksum over all bits of the values shows that they were
//! decoded; it equals the checksum from another run, which compared each value with babeltrace2's text.

mod checksum;
mod peer;
mod text;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::Trace;
use wakepath_event::{EventSource, RecordingFormat};
use wakepath_wait_graph::{Builder, Graph};

use crate::statistics::median;
use crate::used::used;
use crate::{machine, processes, progress};
use checksum::{Checksum, Sum};

#[derive(Debug, Args)]
pub struct Options {
    /// Trace directories: each contains `metadata` and stream files.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Number of measurements for each trace.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Do not make the checksum of babeltrace2's text, which takes minutes for large traces.
    #[arg(long)]
    no_text: bool,
    /// The program under test.
    #[arg(long, default_value = "target/release/wakepath")]
    program: PathBuf,
}

/// Prints the table.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "nothing to run: no rounds");
    println!("## Reading traces of other tracers\n\n{}\n", machine::describe());
    println!(
        "| trace | events | babeltrace2 s | every field s | | what the graph needs s | | made events of s | and \
         the graph s | a path, as a process s | | all CPUs, wall s |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for trace in &options.traces {
        row(trace, options)?;
    }
    println!(
        "\nMedians of {} rounds, CPU time; the last column is every field again, a thread a stream, as time \
         on the wall. babeltrace2: `babeltrace2 -o dummy`, the whole process. `=` behind a time: its \
         checksum over all 64 bits of numbers, texts and fractions is that of a run in which each value was compared \
         with babeltrace2's text. A path: `wakepath path --tid` of the thread that was \
         switched most often, from the trace's folder to the answer.",
        options.rounds
    );
    Ok(())
}

/// A trace's name as others may know it too: without its surrounding folders.
fn name(trace: &Path) -> String {
    let own = trace.iter().rev().find(|part| !["kernel", "ctf"].iter().any(|inner| part == inner));
    own.unwrap_or(trace.as_os_str()).to_string_lossy().into_owned()
}

fn row(path: &Path, options: &Options) -> Result<()> {
    let name = name(path);
    let (mut theirs, mut all, mut needed, mut events) = (vec![], vec![], vec![], vec![]);
    let (mut graph, mut whole, mut wall) = (vec![], vec![], vec![]);
    let tid = busiest(path)?;
    let (mut checksum, mut selected) = (Checksum::default(), Checksum::default());
    for round in 1..=options.rounds {
        progress(&format!("{name}, round {round} of {}", options.rounds));
        let peer = used(&["babeltrace2".as_ref(), "-o".as_ref(), "dummy".as_ref(), path.as_os_str()])?;
        if peer.succeeded {
            theirs.push(peer.cpu.as_secs_f64());
        }
        checksum = timed(&mut all, || decode(path, &Selection::All, false))?;
        let began = Instant::now();
        ensure!(decode(path, &Selection::All, true)? == checksum, "threads decode something else");
        wall.push(began.elapsed().as_secs_f64());
        let wanted = Selection::Fields(&wakepath_import::wanted);
        selected = timed(&mut needed, || decode(path, &wanted, false))?;
        ensure!(selected.events <= checksum.events, "more events than there are");
        timed(&mut events, || {
            let mut sum = 0_u64;
            wakepath_import::Lttng::open(path)?.for_each(|event| sum = sum.wrapping_add(event.at.ns()));
            std::hint::black_box(sum);
            Ok(())
        })?;
        timed(&mut graph, || Ok(std::hint::black_box(graph_of(path)?.events())))?;
        let tid = tid.to_string();
        let asked = ["path", "--tid", &tid].map(OsStr::new);
        let own = used(&[&[options.program.as_os_str()], &asked[..], &[path.as_os_str()]].concat())?;
        ensure!(own.succeeded, "`{} path --tid {tid}` failed", options.program.display());
        whole.push(own.cpu.as_secs_f64());
    }
    let same = if options.no_text {
        ""
    } else {
        progress(&format!("{name}: the text of babeltrace2"));
        let (all, graph) = peer::checksums(path)?;
        ensure!(all == checksum, "{name}: {checksum:?} is not babeltrace2's {all:?}");
        ensure!(
            graph == selected,
            "{name}: {selected:?} of what the graph needs is not babeltrace2's {graph:?}"
        );
        " ="
    };
    progress("");
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let times = |ours: &[f64]| match median(&theirs) {
        Some(theirs) => format!("{:.1}×", theirs / middle(ours)),
        None => "–".to_owned(),
    };
    println!(
        "| {name} | {} | {:.3} | {:.3}{same} | {} | {:.3}{same} | {} | {:.3} | {:.3} | {:.3} | {} | {:.3} |",
        checksum.events,
        middle(&theirs),
        middle(&all),
        times(&all),
        middle(&needed),
        times(&needed),
        middle(&events),
        middle(&graph),
        middle(&whole),
        times(&whole),
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

/// The thread with the most state intervals.
fn busiest(path: &Path) -> Result<u32> {
    let graph = graph_of(path)?;
    let busiest = graph.threads().max_by_key(|(index, _)| graph.state_intervals(*index).len());
    // If the number was used again, `--tid` chooses a thread among several.
    let (_, thread) = busiest.context("the trace has no threads")?;
    Ok(thread.tid().number())
}

/// Decodes these fields in a trace: its streams one behind the other, or each in its own thread.
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
                checksum.count(head.stamp);
            }
            Item::Packet(_) | Item::Lost(_) => {}
            Item::Fault(fault) => return Err(anyhow!("{}: {fault}", path.display())),
        }
    }
    checksum.values = sum;
    Ok(checksum)
}
