//! The cost of joining threads with requests, in pairs of runs within the same round: goroutine steps, thread contexts, and
//! the span receiver; and a program with its own tracing, recorded to the disk and by a flight recorder.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use wakepath_runner::alone;

use crate::places::Places;
use crate::recorders::{Recording, wakepath};
use crate::statistics::estimate;
use crate::{load, processes, progress};

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds; each runs each load alone and recorded in each way.
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Round trips per run.
    #[arg(long, default_value_t = 50_000)]
    trips: u64,
    /// Only the rows whose name contains this.
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    places: Places,
}

/// A port on this host for spans; nothing else is expected there.
const PORT: &str = "14318";
/// The time in which a recorder finds the published context of a process that has just begun: several times its interval.
const FOUND_AFTER: Duration = Duration::from_millis(200);
/// The number of sent requests, and the number of spans in each.
const SENT: (usize, usize) = (200, 200);

/// A load that prints a round trip's time, ns, and its recording options; beside it the compared load.
struct Pair {
    name: &'static str,
    /// The parts of a round trip over which its cost is divided.
    parts: f64,
    with: (Words, &'static [&'static str]),
    without: (Words, Option<&'static [&'static str]>),
}

/// A load's command line; the first word may be behind a folder.
type Words = &'static [&'static str];

const ON_ONE_CPU: Words = &["goroutines"];
const ALL: &[&str] = &["--goroutines"];
const ALL_BY_SINGLE_PROBES: &[&str] = &["--goroutines", "--single-probes"];
const OTLP: &[&str] = &["--otlp", PORT];
/// A flight recorder whose last seconds contain a whole run. Its trigger comes after the run.
const FLIGHT: &[&str] = &["--flight", "30s", "--flight-after", "10ms"];
/// A program with its own tracing, which names its span in each turn.
const TRACED: Words = &["spanfreq", "new"];

const PAIRS: [Pair; 12] = [
    Pair {
        name: "a step of a goroutine, of 6 of a round trip, on one CPU",
        parts: 6.0,
        with: (ON_ONE_CPU, ALL),
        without: (ON_ONE_CPU, Some(&[])),
    },
    Pair {
        name: "a step of a goroutine, on one CPU, where each probe is an event of its own (before Linux 6.6), more than by links",
        parts: 6.0,
        with: (ON_ONE_CPU, ALL_BY_SINGLE_PROBES),
        without: (ON_ONE_CPU, Some(ALL)),
    },
    Pair {
        name: "a round trip of two goroutines, with all CPUs",
        parts: 1.0,
        with: (&["goroutines", "everywhere"], ALL),
        without: (&["goroutines", "everywhere"], Some(&[])),
    },
    Pair {
        name: "a switch and its wake-up, recorded, of threads without contexts",
        parts: 2.0,
        with: (&["spanfreq-hidden", "none"], &[]),
        without: (&["spanfreq-hidden", "none"], None),
    },
    Pair {
        name: "the word of a thread without a span, more, for each switch and its wake-up",
        parts: 2.0,
        with: (&["spanfreq", "none"], &[]),
        without: (&["spanfreq-hidden", "none"], Some(&[])),
    },
    Pair {
        name: "the context of a thread in the same span as before, more",
        parts: 2.0,
        with: (&["spanfreq", "same"], &[]),
        without: (&["spanfreq-hidden", "same"], Some(&[])),
    },
    Pair {
        name: "the context of a thread in the same span as before, by a library that was loaded later, more",
        parts: 2.0,
        with: (&["spanfreq-loaded", "same"], &[]),
        without: (&["spanfreq-hidden", "same"], Some(&[])),
    },
    Pair {
        name: "the context of a thread in another span each time, and its record, more",
        parts: 2.0,
        with: (&["spanfreq", "new"], &[]),
        without: (&["spanfreq-hidden", "new"], Some(&[])),
    },
    Pair {
        name: "a switch and its wake-up while a receiver of spans waits (`--otlp`), more",
        parts: 2.0,
        with: (&["spanfreq-hidden", "none"], OTLP),
        without: (&["spanfreq-hidden", "none"], Some(&[])),
    },
    Pair {
        name: "a round trip of a program with its own tracing, recorded to the disk",
        parts: 1.0,
        with: (TRACED, &[]),
        without: (TRACED, None),
    },
    Pair {
        name: "a round trip of a program with its own tracing, in a flight recorder (`--flight`)",
        parts: 1.0,
        with: (TRACED, FLIGHT),
        without: (TRACED, None),
    },
    Pair {
        name: "a switch and its wake-up in a flight recorder, more than recorded to the disk",
        parts: 2.0,
        with: (&["spanfreq-hidden", "none"], FLIGHT),
        without: (&["spanfreq-hidden", "none"], Some(&[])),
    },
];

/// Prints the table.
pub fn run(options: &Options) -> Result<()> {
    let places = &options.places;
    places.prepare("recorder", "recording needs root")?;
    let go = built(&places.output)?;
    if go.is_none() {
        println!("skipped: no `go` here: the steps of goroutines are not measured\n");
    }
    println!("| | ns | 95% confidence | round trip before, ns | after |\n|---|---:|---|---:|---:|");
    let is_asked = |pair: &&Pair| options.only.as_ref().is_none_or(|only| pair.name.contains(only.as_str()));
    for pair in PAIRS.iter().filter(is_asked) {
        if pair.with.0[0] == "goroutines" && go.is_none() {
            continue;
        }
        let (mut costs, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=options.rounds {
            progress(&format!("{}, round {round} of {}", pair.name, options.rounds));
            let with = || one(options, pair.with.0, Some(pair.with.1));
            let without = || one(options, pair.without.0, pair.without.1);
            // In turns, so that neither is always first.
            let (without, with) = if round % 2 == 0 {
                let with = with()?;
                (without()?, with)
            } else {
                (without()?, with()?)
            };
            costs.push((with - without) / pair.parts);
            before.push(without);
            after.push(with);
        }
        let middle =
            |values: &[f64]| estimate(values).map_or_else(|| "–".into(), |it| format!("{:.0}", it.median));
        let interval =
            estimate(&costs).map_or_else(|| "–".into(), |it| format!("{:.0} to {:.0}", it.low, it.high));
        progress("");
        let [cost, before, after] = [&costs, &before, &after].map(|values| middle(values));
        println!("| {} | {cost} | {interval} | {before} | {after} |", pair.name);
    }
    if options.only.is_some() {
        return Ok(());
    }
    println!();
    let spans: Vec<f64> = (0..options.rounds).map(|_| span(options)).collect::<Result<_>>()?;
    if let Some(span) = estimate(&spans) {
        println!(
            "A span that is received takes the recorder {:.1} µs of CPU time ({:.1} to {:.1}), in messages of {} as JSON.",
            span.median, span.low, span.high, SENT.1
        );
    }
    Ok(())
}

/// Builds the Go program; `None` without Go.
fn built(folder: &Path) -> Result<Option<PathBuf>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/goroutines.go");
    let program = folder.join("goroutines");
    for go in ["go", "/usr/local/go/bin/go"] {
        let mut command = Command::new(go);
        command.args(["build", "-o"]).arg(&program).arg(source).env("GOTOOLCHAIN", "local");
        match command.status() {
            Ok(status) => {
                ensure!(status.success(), "cannot build {source}");
                return Ok(Some(program));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("cannot run go"),
        }
    }
    Ok(None)
}

/// A run's ns per round trip.
fn one(options: &Options, words: Words, recorded: Option<&'static [&'static str]>) -> Result<f64> {
    let Places { workloads, wakepath: program, output } = &options.places;
    let trips = options.trips.to_string();
    let first = alone();
    let mut command = Command::new(&first[0]);
    command.args(&first[1..]);
    match words {
        ["goroutines", "everywhere"] => {
            let cpus = format!("0-{}", load::LOAD_CPU);
            // Without priority: the recorder has one of these CPUs.
            command = Command::new("taskset");
            command.args(["-c", &cpus]).arg(output.join("goroutines"));
        }
        ["goroutines"] => {
            command.arg(output.join("goroutines"));
        }
        [name, kind] => {
            command.arg(workloads.join(name)).arg(kind);
        }
        _ => return Err(anyhow!("no load: {words:?}")),
    }
    command.arg(&trips).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run the load")?;
    // It exists when recording begins: only then are its goroutines recorded.
    sleep(FOUND_AFTER);
    let recording = match recorded {
        Some(more) => Some(wakepath::with("wakepath", more, program, output).start()?),
        None => None,
    };
    sleep(FOUND_AFTER);
    let ns = finished(&mut child);
    if let Some(recording) = recording {
        let recorded = recording.stop()?;
        ensure!(
            recorded.lost == Some(0) || words.contains(&"goroutines"),
            "records were lost: {:?}",
            recorded.lost
        );
        processes::settle(Duration::from_millis(50));
    }
    ns
}

/// Lets the load begin, and reads the printed time.
fn finished(child: &mut Child) -> Result<f64> {
    let mut input = child.stdin.take().context("no input")?;
    input.write_all(b"\n")?;
    drop(input);
    let mut said = String::new();
    child.stdout.take().context("no output")?.read_to_string(&mut said)?;
    ensure!(child.wait()?.success(), "the load failed");
    said.trim().parse().with_context(|| format!("not a time: `{said}`"))
}

/// The recorder's CPU time per span, µs.
fn span(options: &Options) -> Result<f64> {
    let Places { wakepath: program, output, .. } = &options.places;
    let (messages, spans) = SENT;
    let mut recording = wakepath::with("wakepath", OTLP, program, output).start()?;
    let body = message(spans);
    let mut stream = connected()?;
    send(&mut stream, &body)?;
    let idle = over(&mut *recording, Duration::from_secs(1))?;
    let (before, began) = (recording.consumer_cpu()?, Instant::now());
    for _ in 0..messages {
        send(&mut stream, &body)?;
    }
    sleep(Duration::from_millis(500));
    let used = (recording.consumer_cpu()?.saturating_sub(before)).as_secs_f64();
    let used = used - idle * began.elapsed().as_secs_f64();
    recording.stop()?;
    Ok(used * 1e6 / (messages * spans) as f64)
}

/// The CPU time that the idle recorder uses in a second, seconds.
fn over(recording: &mut dyn Recording, time: Duration) -> Result<f64> {
    let before = recording.consumer_cpu()?;
    sleep(time);
    Ok(recording.consumer_cpu()?.saturating_sub(before).as_secs_f64() / time.as_secs_f64())
}

fn connected() -> Result<TcpStream> {
    let stream = TcpStream::connect(format!("127.0.0.1:{PORT}")).context("the receiver does not answer")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

/// Sends a message, and waits for its answer.
fn send(stream: &mut TcpStream, body: &str) -> Result<()> {
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer)?;
    ensure!(answer[..length].starts_with(b"HTTP/1.1 200"), "spans were refused");
    Ok(())
}

/// A message with this number of spans.
fn message(spans: usize) -> String {
    let spans: Vec<_> = (1..=spans)
        .map(|number| {
            format!(
                r#"{{"traceId":"{number:032x}","spanId":"{number:016x}","name":"GET /cart","kind":2,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000001000000","attributes":[{{"key":"http.request.method","value":{{"stringValue":"GET"}}}},{{"key":"url.path","value":{{"stringValue":"/cart"}}}},{{"key":"wakepath.tid","value":{{"intValue":"912"}}}}]}}"#
            )
        })
        .collect();
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"shop"}}}}]}},"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
        spans.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_json_with_its_spans() {
        let message: serde_json::Value = serde_json::from_str(&message(3)).expect("JSON");
        let spans = message["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
        assert_eq!(spans.len(), 3);
        assert_eq!(spans[2]["spanId"], "0000000000000003");
    }
}
