//! The request for which each thread works, as `wakepath requests` reports it, compared with the logs of programs whose requests
//! move between threads and take turns in a thread: for each way to find the request, the share of time that is right, wrong and
//! not known.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wakepath_runner::printed;

use crate::runner::{TIMEOUT, make_empty, succeed};

mod programs;

pub use programs::Given;
use programs::{APPROXIMATE, PROGRAMS, Program, RequestKind, Start, Way};
pub(crate) use programs::{node_with_plugin, python_with_plugin};

/// The number of judged requests in each part, the longest.
const MOST: &str = "400";
/// The largest wrong share of time for the best way: a thread woken for a request runs before it picks the request up.
const MAX_WRONG: f64 = 0.005;
/// The share of time at hand-over edges, where the log is ambiguous. Above it, the log cannot judge.
const MAX_EDGE: f64 = 0.02;
/// The largest share of requests given to another thread where spans do not name threads.
const MAX_ANOTHER: f64 = 0.01;

/// The table's head.
pub const HEAD: &str = "| program | requests | way | a thread that worked for it | another | none | time right | wrong | not known | as it is taken up or left |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|";

/// A stretch of time, ns, in which a thread worked for a trace: it picks the trace up between `from` and `shown`, and leaves it
/// between `leaves` and `left`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    from: i64,
    shown: i64,
    leaves: i64,
    left: i64,
    trace: String,
}

/// Each thread's stretches, by its thread id, or each goroutine's, by `g` and its number; in order of time: the next stretch may begin
/// before the previous has ended.
type Log = HashMap<String, Vec<Stretch>>;

/// The judgement on a part by a way to find the request.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The number of requests with a thread that worked for them, with another thread, and without a thread.
    pub threads: [u64; 3],
    /// The time of the threads on their paths with the right request, a wrong request, an unknown request, and at the edges of
    /// stretches, ns.
    pub ns: [i64; 4],
}

impl Judged {
    /// Whether each request has a thread that worked for it, and the wrong, edge and unknown time stay within
    /// `MAX_WRONG`, `MAX_EDGE` and `max_unknown`.
    pub fn is_right(&self, max_unknown: f64) -> bool {
        let [right, wrong, unknown, edge] = self.ns;
        let all = (right + wrong + unknown + edge) as f64;
        let is_below = |ns: i64, share: f64| ns as f64 <= share * all;
        let is_known = is_below(unknown, max_unknown);
        let has_threads = self.threads[1] == 0 && self.threads[2] == 0;
        has_threads && right > 0 && is_below(wrong, MAX_WRONG) && is_below(edge, MAX_EDGE) && is_known
    }

    /// Whether some requests have a thread that worked for them, and at most a share of `MAX_ANOTHER` has another
    /// thread.
    pub fn is_rarely_another(&self) -> bool {
        let [own, another, none] = self.threads;
        own > 0 && another as f64 <= MAX_ANOTHER * (own + another + none) as f64
    }
}

/// The judgement on all programs.
#[derive(Debug, Default)]
pub struct Table {
    /// The table's rows.
    pub rows: Vec<String>,
    /// The parts for which the best way is not right.
    pub wrong: Vec<String>,
    /// The programs that could not be run here, with the reasons.
    pub skipped: Vec<String>,
}

/// Runs the named programs for each way; all programs without names.
///
/// # Errors
/// When a program cannot be run, or prints unexpected output.
pub fn run(wakepath: &Path, given: &Given, names: &[String], folder: &Path) -> Result<Table> {
    let mut table = Table::default();
    for program in PROGRAMS.iter().chain(APPROXIMATE) {
        if names.is_empty() || names.iter().any(|name| name == program.name) {
            let place = folder.join(program.name);
            add_program(&mut table, wakepath, given, program, &place)
                .with_context(|| format!("the program `{}`", program.name))?;
        }
    }
    Ok(table)
}

fn add_program(
    table: &mut Table,
    wakepath: &Path,
    given: &Given,
    program: &Program,
    place: &Path,
) -> Result<()> {
    let hidden: BTreeSet<bool> = program.ways.iter().map(|way| way.is_hidden).collect();
    for is_hidden in hidden {
        let place = place_of(place, is_hidden);
        make_empty(&place)?;
        let (command, options) = match (program.start)(given, &place, is_hidden)? {
            Start::Run(command) => (command, &[][..]),
            Start::RunWith(command, options) => (command, options),
            Start::Missing(reason) => {
                table.skipped.push(format!("{}: {reason}", program.name));
                return Ok(());
            }
        };
        let mut recorder = Command::new(wakepath);
        recorder.args(["record", "--no-calibration", "-o"]).arg(place.join("recording")).args(options);
        recorder.arg("--").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => recorder.env(name, value),
                None => recorder.env_remove(name),
            };
        }
        succeed(&mut recorder, &place.join("record.log"), TIMEOUT)?;
    }
    let is_approximate = APPROXIMATE.iter().any(|one| one.name == program.name);
    for RequestKind { name, max_unknown } in program.parts {
        for (number, way) in program.ways.iter().enumerate() {
            let judged = judge(wakepath, &place_of(place, way.is_hidden), name, way)?;
            let is_right =
                if is_approximate { judged.is_rarely_another() } else { judged.is_right(*max_unknown) };
            if number == 0 && !is_right {
                table.wrong.push(format!("{}, {name}", program.name));
            }
            table.rows.push(row(program.name, name, way.name, &judged));
        }
    }
    Ok(())
}

/// The folder for a program's run, with its threads' contexts visible or hidden.
fn place_of(place: &Path, is_hidden: bool) -> PathBuf {
    if is_hidden { place.with_extension("hidden") } else { place.to_owned() }
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The spans with these attributes renamed, so that no reader finds them.
fn without(spans: &str, attributes: &[&str]) -> String {
    attributes.iter().fold(spans.to_owned(), |spans, name| spans.replace(name, "not.said"))
}

fn judge(wakepath: &Path, place: &Path, part: &str, way: &Way) -> Result<Judged> {
    let log = log(&read(&place.join("log"))?)?;
    let spans = place.join("way.json");
    fs::write(&spans, without(&read(&place.join("spans.json"))?, way.without))?;
    let mut command = Command::new(wakepath);
    command.arg("requests").arg(place.join("recording")).arg(spans);
    let answers = printed(command.args(["--operation", part, "--slowest", MOST, "--json"]))?;
    let mut judged = Judged::default();
    for line in answers.lines() {
        add(&mut judged, &serde_json::from_str(line)?, &log).context("the answer lacks a key")?;
    }
    Ok(judged)
}

fn log(text: &str) -> Result<Log> {
    let mut log = Log::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [worker, from, shown, leaves, left, trace] = words.as_slice() else {
            anyhow::bail!("no line of a log: `{line}`")
        };
        let [from, shown, leaves, left] = [from.parse()?, shown.parse()?, leaves.parse()?, left.parse()?];
        let is_in_order = from <= shown && shown <= leaves && leaves <= left;
        ensure!(is_in_order, "the times of a line are not in order: `{line}`");
        let stretch = Stretch { from, shown, leaves, left, trace: (*trace).to_owned() };
        let number = worker.strip_prefix('g').unwrap_or(worker);
        ensure!(number.parse::<u64>().is_ok(), "neither a thread nor a goroutine: `{line}`");
        log.entry((*worker).to_owned()).or_default().push(stretch);
    }
    for stretches in log.values_mut() {
        stretches.sort_by_key(|one| one.shown);
        ensure!(
            stretches.windows(2).all(|two| two[0].leaves <= two[1].shown),
            "a thread works for two requests at once"
        );
    }
    Ok(log)
}

/// Adds the answer for a request. `None` if it lacks a key.
fn add(judged: &mut Judged, answer: &Value, log: &Log) -> Option<()> {
    let trace = answer["request"]["trace_id"].as_str()?;
    let no_segments = Vec::new();
    let segments = answer["segments"].as_array().unwrap_or(&no_segments);
    let worked =
        |worker: &String| log.get(worker).is_some_and(|all| all.iter().any(|one| one.trace == trace));
    let goroutine = answer["goroutine"].as_object();
    let of = |thread: &Value, goroutine: Option<&Value>| match goroutine {
        Some(number) => number.as_u64().map(|number| format!("g{number}")),
        None => thread.as_u64().map(|tid| tid.to_string()),
    };
    let own = of(&answer["window"]["tid"], goroutine.map(|one| &one["number"]));
    let place = match own.filter(|_| !segments.is_empty()) {
        Some(own) if worked(&own) => 0,
        Some(_) => 1,
        None => 2,
    };
    judged.threads[place] += 1;
    let origin: i64 = answer["origin_ns"].as_str()?.parse().ok()?;
    for piece in answer["pieces"].as_array().unwrap_or(&no_segments) {
        let place = usize::try_from(piece["segment"].as_u64()?).ok()?;
        let segment = segments.get(place)?;
        let worker = of(&segment["tid"], goroutine.map(|one| &one["segments"][place]));
        let (from, to) = (piece["from_ns"].as_i64()? + origin, piece["to_ns"].as_i64()? + origin);
        if goroutine.is_some() && worker.is_none() && segment["kind"] == "unknown" {
            judged.ns[2] += to - from;
        }
        let Some(stretches) = worker.and_then(|worker| log.get(&worker)) else { continue };
        let said = piece["trace_id"].as_str();
        // With these joins, a missing trace says that the thread works for no request.
        let is_known = said.is_some() || piece["join"] == "context" || piece["join"] == "thread";
        for (from, to, truth) in between(stretches, from, to) {
            let place = match (is_known, truth) {
                (_, Truth::Edge(traces)) if said.is_none_or(|said| traces.contains(&said)) => 3,
                (false, _) => 2,
                (true, Truth::Works(trace)) if said == trace => 0,
                (true, _) => 1,
            };
            judged.ns[place] += to - from;
        }
    }
    Some(())
}

/// A thread's work, by its log.
#[derive(Debug, PartialEq, Eq)]
enum Truth<'a> {
    /// For this trace, or for none.
    Works(Option<&'a str>),
    /// At an edge of these traces' stretches: for any of them, or for none.
    Edge(Vec<&'a str>),
}

/// A thread's truth from `from` to `to`, without gap or overlap.
fn between(stretches: &[Stretch], from: i64, to: i64) -> Vec<(i64, i64, Truth<'_>)> {
    let first = stretches.partition_point(|one| one.leaves.max(one.left) <= from);
    // The previous stretch may end later than this stretch begins.
    let first = first.saturating_sub(1);
    let after = stretches.partition_point(|one| one.shown < to);
    let near = &stretches[first..(after + 1).min(stretches.len())];
    let moments = near.iter().flat_map(|one| [one.from, one.shown, one.leaves, one.left]);
    let moments: BTreeSet<i64> = moments.filter(|at| from < *at && *at < to).chain([from, to]).collect();
    let moments: Vec<i64> = moments.into_iter().collect();
    let truth = |at: i64| {
        if let Some(one) = near.iter().find(|one| one.shown <= at && at < one.leaves) {
            return Truth::Works(Some(&one.trace));
        }
        let edges = near.iter().filter(|one| one.from <= at && at < one.left);
        let edges: Vec<&str> = edges.map(|one| one.trace.as_str()).collect();
        if edges.is_empty() { Truth::Works(None) } else { Truth::Edge(edges) }
    };
    moments.windows(2).map(|two| (two[0], two[1], truth(two[0]))).collect()
}

fn row(program: &str, part: &str, way: &str, judged: &Judged) -> String {
    let all: i64 = judged.ns.iter().sum();
    let share =
        |ns: i64| if all == 0 { "–".into() } else { format!("{:.2}%", 100.0 * ns as f64 / all as f64) };
    let ([own, other, none], [right, wrong, unknown, edge]) = (judged.threads, judged.ns.map(share));
    format!(
        "| {program} | {part} | {way} | {own} | {other} | {none} | {right} | {wrong} | {unknown} | {edge} |"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOG: &str = "7 1010 1010 1030 1030 a\n7 1040 1044 1049 1050 b\n8 1000 1000 1100 1100 b";

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
        // Behind the ends of `a` and `b` the answer still names them; `b` is picked up from 40 to 44, and left from 49
        // to 50.
        assert_eq!(judged, Judged { threads: [1, 0, 0], ns: [10 + 20 + 4, 2 + 10, 13 - 4, 1 + 4] });
        assert!(!judged.is_right(1.0));
    }

    #[test]
    fn a_goroutine_is_found_by_its_number_and_unknown_time_of_none_is_not_known() {
        let text = "g7 1010 1010 1030 1030 a\n7 1000 1000 1100 1100 b";
        let mut answer = answer(&[(0, 40, Some("a"), Some("goroutine")), (40, 50, None, None)]);
        answer["goroutine"] = json!({"number": 7, "segments": [7, null]});
        answer["segments"] = json!([{"tid": 7}, {"tid": 7, "kind": "timer"}]);
        answer["pieces"][1]["segment"] = json!(1);
        let mut judged = Judged::default();
        add(&mut judged, &answer, &log(text).expect("a log")).expect("an answer");
        assert_eq!(judged, Judged { threads: [1, 0, 0], ns: [20, 20, 0, 0] });
        answer["segments"][1]["kind"] = json!("unknown");
        answer["goroutine"]["number"] = json!(8);
        add(&mut judged, &answer, &log(text).expect("a log")).expect("an answer");
        assert_eq!(judged, Judged { threads: [1, 1, 0], ns: [40, 40, 10, 0] });
        assert!(log("h7 1 1 1 1 a").is_err());
    }

    #[test]
    fn the_best_way_is_right_within_its_limits() {
        let of = |threads, ns| Judged { threads, ns };
        let is_right = |threads, ns| of(threads, ns).is_right(0.01);
        assert!(is_right([9, 0, 0], [1000, 5, 0, 20]));
        assert!(!is_right([9, 0, 1], [1000, 5, 0, 0]));
        assert!(!is_right([9, 1, 0], [1000, 0, 0, 0]));
        assert!(!is_right([9, 0, 0], [1000, 6, 0, 0]));
        assert!(!is_right([9, 0, 0], [1000, 0, 0, 21]));
        assert!(!is_right([9, 0, 0], [0, 0, 0, 0]));
        assert!(is_right([9, 0, 0], [1000, 0, 10, 0]));
        assert!(!is_right([9, 0, 0], [1000, 0, 11, 0]));
        assert!(of([9, 0, 0], [1000, 0, 50, 0]).is_right(0.05));
        assert!(!of([9, 0, 0], [1000, 0, 54, 0]).is_right(0.05));
    }

    #[test]
    fn an_approximate_way_may_leave_requests_without_a_thread_and_gives_hardly_any_to_another_one() {
        let of = |threads| Judged { threads, ns: [0, 1000, 1000, 1000] };
        assert!(of([99, 1, 0]).is_rarely_another());
        assert!(of([1, 0, 99]).is_rarely_another());
        assert!(of([1, 1, 198]).is_rarely_another());
        assert!(!of([98, 2, 0]).is_rarely_another());
        assert!(!of([0, 0, 100]).is_rarely_another());
    }

    #[test]
    fn as_a_request_is_taken_up_or_left_it_and_none_are_right_and_any_other_is_wrong() {
        // Picked up from 10 to 20 and left from 30 to 50; the next request is picked up from 30 to 40.
        let text = "7 1010 1020 1030 1050 a\n7 1030 1040 1060 1060 b";
        for (said, ns) in [
            (Some("a"), [10, 10 + 20, 0, 10 + 10]),
            (Some("b"), [20, 10 + 10 + 10, 0, 10]),
            (Some("c"), [0, 60, 0, 0]),
            (None, [10, 30, 0, 20]),
        ] {
            let mut judged = Judged::default();
            let answer = answer(&[(0, 60, said, Some("context"))]);
            add(&mut judged, &answer, &log(text).expect("a log")).expect("an answer");
            assert_eq!(judged.ns, ns, "{said:?}");
        }
        assert!(log("7 1 2 3 4").is_err());
        assert!(log("7 2 1 3 4 a").is_err());
        assert!(log("7 1 1 4 4 a\n7 3 3 5 5 b").is_err());
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
    }
}
