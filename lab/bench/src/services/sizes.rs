//! The time of `wakepath requests` for recordings of a load that grow from row to row (L19 §4.4.2). If the cost grows linearly, the
//! columns per megabyte stay level.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use wakepath_runner::document;

use super::{Running, Service, WAKEPATH};
use crate::places::Places;
use crate::statistics::{median, or_dash};
use crate::used::used;
use crate::{machine, processes, progress};

/// The questions about a recording, and the columns with the answers' times.
const QUESTIONS: [(&str, &[&str]); 2] = [
    ("the table of requests", &["requests"]),
    ("the 100 slowest explained", &["requests", "--slowest", "100"]),
];
/// The number of times each question is asked. The sizes take turns.
const ROUNDS: usize = 2;
/// A recording that does not reach its size by then ends early.
const MAX_RECORDING: Duration = Duration::from_secs(60);
/// The service's clients, and the requests between two looks whether the recording has ended. Few clients wait more often: more events per
/// request.
const CLIENTS: usize = 2;
const REQUESTS: usize = 500;

/// A recording and the cost of its questions: for each the CPU time, the time that a person waits, and the peak memory.
struct Row {
    path: PathBuf,
    /// Seconds of recording.
    seconds: f64,
    bytes: u64,
    events: u64,
    spans: u64,
    asked: [Vec<Asked>; QUESTIONS.len()],
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    cpu: f64,
    wall: f64,
    memory: u64,
}

/// Prints the table. `sizes` in MB.
pub fn run(service: &Service, program: &Path, sizes: &[u64], places: &Places) -> Result<()> {
    let mut rows = Vec::new();
    for size in sizes {
        progress(&format!("recording {size} MB of {}", service.name));
        rows.push(recorded(service, program, *size, places)?);
    }
    for round in 1..=ROUNDS {
        for row in &mut rows {
            for ((name, words), asked) in QUESTIONS.iter().zip(&mut row.asked) {
                progress(&format!("{name}, {} bytes, round {round} of {ROUNDS}", row.bytes));
                asked.push(ask(&places.wakepath, words, &row.path)?);
            }
        }
    }
    progress("");
    for row in &rows {
        fs::remove_dir_all(&row.path)?;
    }
    println!("{}", table(&rows));
    Ok(())
}

/// Records the service until the recording has its size.
fn recorded(service: &Service, program: &Path, size: u64, places: &Places) -> Result<Row> {
    let path = places.output.join(format!("services-{size}.rec"));
    let _ = fs::remove_dir_all(&path);
    let running = Running::start(service, program, "context", WAKEPATH)?;
    let mut command = Command::new(&places.wakepath);
    command.args(["record", "-a", "--otlp", WAKEPATH, "--max-size", &format!("{}", size * 1_000_000), "-o"]);
    command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = command.spawn().context("cannot run wakepath")?;
    let begun = Instant::now();
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                service.send(CLIENTS, REQUESTS)?;
            }
            Ok(())
        });
        let mut ended = recorder.try_wait();
        while matches!(ended, Ok(None)) && begun.elapsed() < MAX_RECORDING && !load.is_finished() {
            thread::sleep(Duration::from_millis(50));
            ended = recorder.try_wait();
        }
        is_over.store(true, Ordering::Relaxed);
        let loaded: Result<()> = load.join().unwrap_or_else(|_| Err(anyhow!("the load panicked")));
        loaded.and(ended.map_err(anyhow::Error::from))
    });
    let seconds = begun.elapsed().as_secs_f64();
    drop(running);
    match ended {
        Ok(Some(status)) => ensure!(status.success(), "`wakepath record` failed ({status})"),
        Ok(None) => drop(processes::interrupt(recorder, Duration::from_secs(60))?),
        Err(error) => {
            drop(processes::interrupt(recorder, Duration::from_secs(60)));
            return Err(error);
        }
    }
    let json =
        |verb: &str| document::<Value>(Command::new(&places.wakepath).args([verb, "--json"]).arg(&path));
    let (info, requests) = (json("info")?, json("requests")?);
    let events = info["events"].as_object().context("no events in `wakepath info --json`")?;
    Ok(Row {
        seconds,
        bytes: info["recording"]["bytes"].as_u64().context("no size in `wakepath info --json`")?,
        events: events.values().filter_map(Value::as_u64).sum(),
        spans: requests["spans"].as_u64().context("no spans in `wakepath requests --json`")?,
        path,
        asked: Default::default(),
    })
}

/// Asks once, with all CPUs, as a person would.
fn ask(program: &Path, words: &[&str], recording: &Path) -> Result<Asked> {
    let cpus = format!("0-{}", machine::cpus() - 1);
    let before = ["taskset".as_ref(), "-c".as_ref(), cpus.as_ref(), program.as_os_str()];
    let asked = words.iter().map(OsStr::new).chain([recording.as_os_str()]);
    let used = used(&before.into_iter().chain(asked).collect::<Vec<_>>())?;
    ensure!(used.succeeded, "`wakepath {}` failed", words.join(" "));
    Ok(Asked { cpu: used.cpu.as_secs_f64(), wall: used.wall.as_secs_f64(), memory: used.memory })
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("Means of {ROUNDS} rounds.\n\n| size, MB | recorded in, s | events | spans |");
    for (name, _) in QUESTIONS {
        let _ = write!(text, " {name}: CPU s | for 100 MB | wall s | MiB |");
    }
    text.push_str(&format!("\n|{}\n", "---:|".repeat(4 + 4 * QUESTIONS.len())));
    for row in rows {
        let megabytes = row.bytes as f64 / 1e6;
        let _ = write!(text, "| {megabytes:.0} | {:.1} | {} | {} |", row.seconds, row.events, row.spans);
        for asked in &row.asked {
            let middle = |of: fn(&Asked) -> f64| median(&asked.iter().map(of).collect::<Vec<_>>());
            let _ = write!(
                text,
                " {} | {} | {} | {} |",
                or_dash(middle(|it| it.cpu), |seconds| format!("{seconds:.2}")),
                or_dash(middle(|it| it.cpu), |seconds| format!("{:.2}", seconds * 100.0 / megabytes)),
                or_dash(middle(|it| it.wall), |seconds| format!("{seconds:.2}")),
                or_dash(middle(|it| it.memory as f64), |bytes| format!("{:.0}", bytes / f64::from(1 << 20))),
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Asked, Row, table};

    #[test]
    fn the_cost_of_a_megabyte_stays_level_where_it_is_linear() {
        let row = |bytes: u64, cpu: f64| {
            let asked =
                [1.0, 2.0, 9.0].map(|times| Asked { cpu: cpu * times / 2.0, wall: 0.25, memory: 3 << 20 });
            Row {
                path: "unused".into(),
                seconds: 4.0,
                bytes,
                events: 1000,
                spans: 20,
                asked: [asked.to_vec(), asked.to_vec()],
            }
        };
        let text = table(&[row(50_000_000, 0.5), row(100_000_000, 1.0)]);
        let rows: Vec<_> = text.lines().skip(4).collect();
        let cells = "| 0.50 | 1.00 | 0.25 | 3 ";
        assert_eq!(rows[0], format!("| 50 | 4.0 | 1000 | 20 {cells}{cells}|"));
        let cells = "| 1.00 | 1.00 | 0.25 | 3 ";
        assert_eq!(rows[1], format!("| 100 | 4.0 | 1000 | 20 {cells}{cells}|"));
    }
}
