//! The request that each thread works for, as `wakepath requests` says it, held against the log of a program whose requests move
//! between threads and take turns in one: for each way to know it, the share of the time that is right, wrong and not known.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::runner::{TIMEOUT, make_empty, succeed};

/// The parts of the program.
const PARTS: [&str; 3] = ["pool", "task", "busy"];
/// The requests of a part that are judged, the longest.
const MOST: &str = "400";
/// The share of the time that may be wrong by the best way: the log's stamps lie beside the moments at which a request is
/// taken up and left, and the times of spans beside both.
const MAX_WRONG: f64 = 0.005;

/// A way to know the request of a thread.
struct Way {
    name: &'static str,
    program: &'static str,
    /// The spans have the threads in which they began.
    has_tids: bool,
}

/// The ways, the best first.
const WAYS: [Way; 4] = [
    Way { name: "context and thread of spans", program: "joins", has_tids: true },
    Way { name: "context alone", program: "joins", has_tids: false },
    Way { name: "thread of spans alone (`wakepath.tid`)", program: "joins-hidden", has_tids: true },
    Way { name: "times of spans alone", program: "joins-hidden", has_tids: false },
];

/// The head of the table.
pub const HEAD: &str = "| requests | way | a thread that worked for it | another | none | time right | wrong | not known |\n|---|---|---:|---:|---:|---:|---:|---:|";

/// A stretch of time in which a thread worked for a trace, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    from: i64,
    to: i64,
    trace: String,
}

/// The stretches of each thread, in order of time.
type Log = HashMap<u64, Vec<Stretch>>;

/// The judgement of one part by one way.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Requests with a thread that worked for them, with another thread, and without one.
    pub threads: [u64; 3],
    /// The time of the threads on their paths for which the request is right, wrong and not known, ns.
    pub ns: [i64; 3],
}

impl Judged {
    /// Whether nothing is wrong, but for the edges.
    pub fn is_right(&self) -> bool {
        let [right, wrong, unknown] = self.ns;
        let all = (right + wrong + unknown) as f64;
        self.threads[1] == 0 && self.threads[2] == 0 && right > 0 && wrong as f64 <= MAX_WRONG * all
    }
}

/// Runs the program for each way. Returns the rows of the table, and whether the best way is right everywhere.
///
/// # Errors
/// When a program cannot be run, or prints what was not expected.
pub fn run(wakepath: &Path, programs: &Path, folder: &Path) -> Result<(Vec<String>, bool)> {
    let (mut rows, mut all_right) = (Vec::new(), true);
    for program in ["joins", "joins-hidden"] {
        let place = folder.join(program);
        make_empty(&place)?;
        let mut command = Command::new(wakepath);
        command.args(["record", "--no-calibration", "-o"]).arg(place.join("recording")).arg("--");
        command.arg(programs.join(program)).arg(&place);
        succeed(&mut command, &place.join("record.log"), TIMEOUT)?;
        let spans = read(&place.join("spans.json"))?;
        fs::write(place.join("times.json"), without_tids(&spans))?;
    }
    for part in PARTS {
        for (number, way) in WAYS.iter().enumerate() {
            let judged = judge(wakepath, &folder.join(way.program), part, way.has_tids)?;
            all_right &= number > 0 || judged.is_right();
            rows.push(row(part, way.name, &judged));
        }
    }
    Ok((rows, all_right))
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The spans without the threads in which they began: the attribute has another name.
fn without_tids(spans: &str) -> String {
    spans.replace("wakepath.tid", "wakepath.not")
}

fn judge(wakepath: &Path, place: &Path, part: &str, has_tids: bool) -> Result<Judged> {
    let log = log(&read(&place.join("log"))?)?;
    let spans = place.join(if has_tids { "spans.json" } else { "times.json" });
    let mut command = Command::new(wakepath);
    command.arg("requests").arg(place.join("recording")).arg(spans);
    let output = command.args(["--operation", part, "--slowest", MOST, "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut judged = Judged::default();
    for line in String::from_utf8(output.stdout)?.lines() {
        add(&mut judged, &serde_json::from_str(line)?, &log).context("the answer lacks a key")?;
    }
    Ok(judged)
}

fn log(text: &str) -> Result<Log> {
    let mut log = Log::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [tid, from, to, trace] = words.as_slice() else { anyhow::bail!("no line of a log: `{line}`") };
        let stretch = Stretch { from: from.parse()?, to: to.parse()?, trace: (*trace).to_owned() };
        log.entry(tid.parse()?).or_default().push(stretch);
    }
    Ok(log)
}

/// Adds the answer for one request. `None` where it lacks a key.
fn add(judged: &mut Judged, answer: &Value, log: &Log) -> Option<()> {
    let trace = answer["request"]["trace_id"].as_str()?;
    let no_segments = Vec::new();
    let segments = answer["segments"].as_array().unwrap_or(&no_segments);
    let worked = |tid: u64| log.get(&tid).is_some_and(|all| all.iter().any(|one| one.trace == trace));
    let place = match answer["window"]["tid"].as_u64().filter(|_| !segments.is_empty()) {
        Some(tid) if worked(tid) => 0,
        Some(_) => 1,
        None => 2,
    };
    judged.threads[place] += 1;
    let origin: i64 = answer["origin_ns"].as_str()?.parse().ok()?;
    for piece in answer["pieces"].as_array().unwrap_or(&no_segments) {
        let segment = segments.get(usize::try_from(piece["segment"].as_u64()?).ok()?)?;
        let Some(stretches) = segment["tid"].as_u64().and_then(|tid| log.get(&tid)) else { continue };
        let (from, to) = (piece["from_ns"].as_i64()? + origin, piece["to_ns"].as_i64()? + origin);
        let said = piece["trace_id"].as_str();
        let is_known = said.is_some() || piece["join"] == "context";
        for (from, to, truth) in between(stretches, from, to) {
            let place = match is_known {
                false => 2,
                true if said == truth => 0,
                true => 1,
            };
            judged.ns[place] += to - from;
        }
    }
    Some(())
}

/// The traces for which a thread worked from then to then, by its log, without gap or overlap.
fn between(stretches: &[Stretch], from: i64, to: i64) -> Vec<(i64, i64, Option<&str>)> {
    let (mut at, mut found) = (from, Vec::new());
    let first = stretches.partition_point(|one| one.to <= from);
    for one in stretches[first..].iter().take_while(|one| one.from < to) {
        if at < one.from {
            found.push((at, one.from, None));
        }
        let until = one.to.min(to);
        found.push((at.max(one.from), until, Some(one.trace.as_str())));
        at = until;
    }
    if at < to {
        found.push((at, to, None));
    }
    found
}

fn row(part: &str, way: &str, judged: &Judged) -> String {
    let all: i64 = judged.ns.iter().sum();
    let share =
        |ns: i64| if all == 0 { "–".into() } else { format!("{:.2}%", 100.0 * ns as f64 / all as f64) };
    let ([own, other, none], [right, wrong, unknown]) = (judged.threads, judged.ns.map(share));
    format!("| {part} | {way} | {own} | {other} | {none} | {right} | {wrong} | {unknown} |")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOG: &str = "7 1010 1030 a\n7 1040 1050 b\n8 1000 1100 b";

    /// An answer for request `a` from 1000 to 1060 in thread 7, with these pieces.
    fn answer(pieces: &[(i64, i64, Option<&str>, Option<&str>)]) -> Value {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|(from, to, trace, join)| json!({"segment": 0, "from_ns": from, "to_ns": to, "trace_id": trace, "join": join}))
            .collect();
        json!({"request": {"trace_id": "a"}, "window": {"tid": 7}, "origin_ns": "1000", "segments": [{"tid": 7}], "pieces": pieces})
    }

    #[test]
    fn each_moment_is_right_wrong_or_not_known() {
        let context = Some("context");
        let mut judged = Judged::default();
        let pieces = [
            (0, 10, None, context),
            (10, 32, Some("a"), context),
            (32, 45, None, None),
            (45, 60, Some("b"), Some("thread")),
        ];
        add(&mut judged, &answer(&pieces), &log(LOG).expect("a log")).expect("an answer");
        // Behind the end of `a` and of `b` it says so still.
        assert_eq!(judged, Judged { threads: [1, 0, 0], ns: [10 + 20 + 5, 2 + 10, 13] });
        assert!(!judged.is_right());
        assert!(Judged { threads: [9, 0, 0], ns: [1000, 5, 0] }.is_right());
        assert!(!Judged { threads: [9, 0, 1], ns: [1000, 5, 0] }.is_right());
        assert!(!Judged { threads: [9, 1, 0], ns: [1000, 0, 0] }.is_right());
        assert!(!Judged { threads: [9, 0, 0], ns: [1000, 6, 0] }.is_right());
    }

    #[test]
    fn a_thread_that_never_worked_for_a_request_is_another_one() {
        let mut other = answer(&[]);
        other["window"]["tid"] = json!(8);
        let mut none = answer(&[]);
        none["segments"] = json!([]);
        let mut judged = Judged::default();
        for answer in [&answer(&[]), &other, &none] {
            add(&mut judged, answer, &log(LOG).expect("a log")).expect("an answer");
        }
        assert_eq!(judged.threads, [1, 1, 1]);
        assert!(add(&mut judged, &json!({}), &Log::new()).is_none());
        assert!(log("7 1 2").is_err());
    }
}
