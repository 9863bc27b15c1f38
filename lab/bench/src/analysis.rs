//! The speed of analysis, as CPU time: decoding alone, decoding into the graph, and a thread's path as a
//! whole process, over synthetic recordings with growing size.
//!
//! If the cost grows linearly, the columns per event stay level from row to row. Other load on the same
//! cores only adds CPU time (caches, frequency, a neighbour's hyperthread), so the least of many rounds is
//! nearest to the work's own cost; the median beside it is the time that users see. Sizes take turns: a
//! slow minute does not affect a single row alone.

use std::ffi::OsStr;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use wakepath_event::{EventSource, RecordingFormat};
use wakepath_recording::Recording;
use wakepath_recording::synthetic::{self, Machine};
use wakepath_wait_graph::{Builder, Graph};

use crate::statistics::{median, or_dash};
use crate::used::{ResourceUse, used};
use crate::{machine, processes, progress};

/// A thread in every synthetic recording, whose path is requested.
const THREAD: &str = "1000";

#[derive(Debug, Args)]
pub struct Options {
    /// Sizes of the recordings, in switches and wakings.
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 300_000, 1_000_000, 2_500_000, 10_000_000])]
    events: Vec<u64>,
    /// Number of measurements for each size.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// The program under test.
    #[arg(long, default_value = "target/release/wakepath")]
    wakepath: PathBuf,
    /// Folder for recordings, which are removed.
    #[arg(long, default_value = "target/bench")]
    output: PathBuf,
}

/// A recording's measurements.
#[derive(Default)]
struct Row {
    events: u64,
    file_bytes: u64,
    graph_bytes: usize,
    decode: Vec<f64>,
    graph: Vec<f64>,
    path: Vec<f64>,
    path_memory: Vec<f64>,
    json: Vec<f64>,
}

/// Prints the table.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "nothing to run: no rounds");
    std::fs::create_dir_all(&options.output)
        .with_context(|| format!("cannot make {}", options.output.display()))?;
    println!("## Speed of analysis\n\n{}\n", machine::describe());
    let mut recordings = Vec::new();
    for &events in &options.events {
        let path = options.output.join(format!("synthetic-{events}.rec"));
        let _ = std::fs::remove_dir_all(&path);
        progress(&format!("writing a recording of {events} events"));
        let machine = Machine { cpus: 4, threads_per_cpu: 16, events, seed: 1 };
        synthetic::write(&path, &machine).with_context(|| format!("cannot write {}", path.display()))?;
        recordings.push((Row { file_bytes: size(&path)?, ..Row::default() }, path));
    }
    let mut skipped = None;
    for round in 1..=options.rounds {
        for (row, path) in &mut recordings {
            progress(&format!("round {round} of {}, {} bytes", options.rounds, row.file_bytes));
            measure(row, path, options, &mut skipped)?;
        }
    }
    for (_, path) in &recordings {
        std::fs::remove_dir_all(path)?;
    }
    let rows: Vec<Row> = recordings.into_iter().map(|(row, _)| row).collect();
    progress("");
    println!("{}", table(&rows, options.rounds));
    println!(
        "Path: `{} path --tid {THREAD} REC`, then with `--json`; CPU time and memory of the whole process.",
        options.wakepath.display()
    );
    if let Some(error) = skipped {
        println!("\nskipped: the path as a process: {error:#}");
    }
    Ok(())
}

/// A round on a recording.
fn measure(row: &mut Row, path: &Path, options: &Options, skipped: &mut Option<anyhow::Error>) -> Result<()> {
    let open = || Recording::open(path).with_context(|| format!("cannot read {}", path.display()));
    let (events, took) = cpu_time(|| {
        let (mut events, mut sum) = (0, 0);
        open()?.for_each(|event| {
            events += 1;
            sum ^= event.at.ns();
        });
        black_box(sum);
        Ok::<u64, anyhow::Error>(events)
    })?;
    row.events = events?;
    row.decode.push(took.as_secs_f64());
    let (graph, took) = cpu_time(|| {
        let mut builder = Builder::default();
        open()?.for_each(|event| builder.push(event));
        Ok::<Graph, anyhow::Error>(builder.finish())
    })?;
    row.graph_bytes = graph?.bytes();
    row.graph.push(took.as_secs_f64());
    let ask = |options_of_path: &[&str]| path_of_a_thread(&options.wakepath, options_of_path, path);
    match ask(&[]).and_then(|screen| Ok((screen, ask(&["--json"])?))) {
        Ok((screen, json)) => {
            row.path.push(screen.cpu.as_secs_f64());
            row.path_memory.push(screen.memory as f64);
            row.json.push(json.cpu.as_secs_f64());
        }
        Err(error) => *skipped = Some(error),
    }
    Ok(())
}

/// The result of `work`, and this process's CPU time meanwhile.
fn cpu_time<T>(work: impl FnOnce() -> T) -> Result<(T, Duration)> {
    let before = processes::own_cpu_time()?;
    let result = work();
    Ok((result, processes::own_cpu_time()?.saturating_sub(before)))
}

fn path_of_a_thread(program: &Path, options: &[&str], recording: &Path) -> Result<ResourceUse> {
    let words = [&["path", "--tid", THREAD], options].concat();
    let words = words.iter().map(OsStr::new).chain([recording.as_os_str()]);
    let used = used(&[program.as_os_str()].into_iter().chain(words).collect::<Vec<_>>())?;
    ensure!(used.succeeded, "`{} path` failed", program.display());
    Ok(used)
}

fn size(recording: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(recording.join("kernel"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn table(rows: &[Row], rounds: usize) -> String {
    let mut text = format!(
        "CPU time: the least of {rounds} rounds, and the median.\n\n\
         | events | bytes an event on disk | decoded, million/s | into the graph, million/s \
         | graph, bytes an event | path as a process | its memory, MiB | with every segment as JSON |\n|{}\n",
        "---:|".repeat(8)
    );
    for row in rows {
        let events = row.events as f64;
        let rate = |seconds: &[f64]| both(seconds, |it| format!("{:.1}", events / it / 1e6));
        let cells = [
            row.events.to_string(),
            format!("{:.1}", row.file_bytes as f64 / events),
            rate(&row.decode),
            rate(&row.graph),
            format!("{:.1}", row.graph_bytes as f64 / events),
            both(&row.path, |seconds| format!("{seconds:.2} s")),
            or_dash(median(&row.path_memory), |bytes| format!("{:.0}", bytes / f64::from(1 << 20))),
            both(&row.json, |seconds| format!("{seconds:.2} s")),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The figures for the least and the median time.
fn both(seconds: &[f64], text: impl Fn(f64) -> String) -> String {
    let least = seconds.iter().copied().reduce(f64::min);
    format!("{} ({})", or_dash(least, &text), or_dash(median(seconds), &text))
}
