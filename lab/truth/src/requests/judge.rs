//! Compares the answer for a request with the services' log.

use std::collections::{BTreeMap, HashMap};

use super::{Answer, LoggedRequest, Segment, Truth};

/// The largest error of a part, in percentage points of the request.
pub const MAX_POINTS: f64 = 2.0;

/// The blocking requests in an answer, compared with the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockersVerdict {
    /// The same requests, with the same sizes.
    Right,
    /// A blocking request in the log is missing from the answer, or has another size.
    Missed,
    /// The answer names a request that the log lacks.
    Wrong {
        /// Whether the time charged to it has a mark of doubt.
        marked: bool,
    },
    /// There is no path.
    NoAnswer,
}

/// A request's judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Its trace id.
    pub trace_id: String,
    /// The planted cause.
    pub planted: String,
    /// The largest error of a planted part or a blocking request, in percentage points of the request; `None` without
    /// an answer.
    pub points: Option<f64>,
    /// The judgement on the blocking requests.
    pub verdict: BlockersVerdict,
    /// The parts, by the log and by the answer, in percentage points, the largest difference first.
    pub parts: Vec<(String, f64, f64)>,
}

/// Judges the answers for all requests in the log.
pub fn judge(truth: &Truth, answers: &[Answer]) -> Vec<Judged> {
    let by_trace: HashMap<&str, &Answer> =
        answers.iter().map(|answer| (answer.request.trace_id.as_str(), answer)).collect();
    let one =
        |request: &LoggedRequest| judge_one(truth, request, by_trace.get(request.trace_id.as_str()).copied());
    truth.requests.iter().map(one).collect()
}

fn judge_one(truth: &Truth, request: &LoggedRequest, answer: Option<&Answer>) -> Judged {
    let judged = |points, verdict, parts| Judged {
        trace_id: request.trace_id.clone(),
        planted: request.planted.clone(),
        points,
        verdict,
        parts,
    };
    let Some(answer) = answer.filter(|answer| answer.no_path.is_none() && !answer.pieces.is_empty()) else {
        return judged(None, BlockersVerdict::NoAnswer, Vec::new());
    };
    let found = found(truth, answer, |_| true);
    let mut expected: BTreeMap<Key, i64> = BTreeMap::new();
    // The log does not know whether these requests blocked it; the answer may have up to this time: `possible` beside the
    // rest, `shared` in place of disk time of the request itself or of another writing request.
    let (mut possible, mut shared): (BTreeMap<&str, i64>, BTreeMap<&str, i64>) = Default::default();
    for part in &request.parts {
        let by = part.by.as_deref().unwrap_or_default();
        match part.kind.as_str() {
            "possible" => *possible.entry(by).or_default() += part.ns,
            "shared" => *shared.entry(by).or_default() += part.ns,
            _ => *expected.entry((part.kind.clone(), part.by.clone())).or_default() += part.ns,
        }
    }
    let window = request.window_ns.max(1) as f64;
    let share = |ns: i64| ns as f64 / window * 100.0;
    let of = |sums: &BTreeMap<Key, i64>, key: &Key| share(sums.get(key).copied().unwrap_or(0));
    let more = |key: &Key| {
        let excused = key.1.as_deref().and_then(|by| possible.get(by)).map_or(0.0, |ns| share(*ns));
        (of(&found, key) - of(&expected, key) - excused).max(0.0)
    };
    let keys = || expected.keys().chain(found.keys().filter(|key| !expected.contains_key(key)));
    // The others' disk time beyond the log, which may be missing elsewhere.
    let of_others = |key: &Key| {
        key.1.as_deref().and_then(|by| shared.get(by)).map_or(0.0, |ns| share(*ns)).min(more(key))
    };
    let less = |key: &Key| (of(&expected, key) - of(&found, key)).max(0.0);
    let writes = |key: &Key| match &key.1 {
        Some(by) => truth.requests.iter().any(|one| one.trace_id == *by && one.planted.ends_with("disk")),
        None => key.0 == "block_device",
    };
    let missing: f64 = keys().filter(|key| writes(key)).map(less).sum();
    let others: f64 = keys().map(of_others).sum();
    // The same time on both sides.
    let moved = missing.min(others);
    let part_of = |all: f64| if all > 0.0 { moved / all } else { 0.0 };
    let certain = self::found(truth, answer, |segment| segment.basis != "ambiguous");
    let mut parts = Vec::new();
    let (mut points, mut missed, mut wrong, mut unmarked) = (0.0f64, false, false, false);
    for key in keys() {
        let (by_books, by_answer) = (of(&expected, key), of(&found, key));
        let there = if writes(key) { less(key) * part_of(missing) } else { 0.0 };
        let error = (less(key) - there).max(more(key) - of_others(key) * part_of(others));
        let is_blocker = key.1.is_some();
        let error = if is_blocker { error } else { (error - share(truth.slack_ns)).max(0.0) };
        // Beside the planted parts there are others, such as each service's running time.
        if is_blocker || expected.contains_key(key) {
            points = points.max(error);
        }
        let is_wrong = is_blocker && by_books == 0.0 && error > MAX_POINTS;
        wrong |= is_wrong;
        unmarked |= is_wrong && error - (by_answer - of(&certain, key)) > MAX_POINTS;
        missed |= is_blocker && error > MAX_POINTS;
        let name = key
            .1
            .as_ref()
            .map_or_else(|| key.0.clone(), |by| format!("blocked by {}", &by[..16.min(by.len())]));
        parts.push((name, by_books, by_answer));
    }
    parts.sort_by(|a, b| (b.1 - b.2).abs().total_cmp(&(a.1 - a.2).abs()));
    let verdict = match (wrong, missed) {
        (true, _) => BlockersVerdict::Wrong { marked: !unmarked || is_doubtful(answer) },
        (_, true) => BlockersVerdict::Missed,
        _ => BlockersVerdict::Right,
    };
    judged(Some(points), verdict, parts)
}

/// A kind of time, or a blocking request.
type Key = (String, Option<String>);

/// The sums of an answer's counted segments, by kind and by blocking request.
fn found(truth: &Truth, answer: &Answer, counts: impl Fn(&Segment) -> bool) -> BTreeMap<Key, i64> {
    let mut sums = BTreeMap::new();
    for piece in &answer.pieces {
        let segment = answer.segments.get(piece.segment);
        if !segment.is_none_or(&counts) {
            continue;
        }
        let other = piece.waits_for.last();
        let is_service = |pid: Option<u32>| pid.is_some_and(|pid| truth.pids.contains(&pid));
        let key = match (other, segment) {
            (Some(other), _) => ("blocked".to_owned(), Some(other.trace_id.clone())),
            // The kernel threads that write for the disk.
            (None, Some(segment)) if !is_service(segment.pid) && segment.kind != "network" => {
                ("block_device".to_owned(), None)
            }
            (None, Some(segment)) if segment.kind == "interrupted" => ("running".to_owned(), None),
            (None, Some(segment)) => (segment.kind.clone(), None),
            (None, None) => ("no segment".to_owned(), None),
        };
        *sums.entry(key).or_default() += piece.to_ns - piece.from_ns;
    }
    sums
}

fn is_doubtful(answer: &Answer) -> bool {
    answer.problems.iter().any(|problem| problem.severity != "note")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The judgement on a request of 1000 ns with two planted parts: 300 ns blocked by `b`, and 400 ns of a timer. Each piece of
    /// the answer has its kind, process, trace and length.
    fn judged(pieces: &[(&str, u32, &str, i64)], more: Value) -> (BlockersVerdict, Option<u32>) {
        let parts = json!([{"kind": "timer", "ns": 400}, {"kind": "blocked", "by": "b", "ns": 300}]);
        judged_by(parts, pieces, more)
    }

    /// The judgement with other planted parts. Request `w` writes to the disk.
    fn judged_by(
        parts: Value,
        pieces: &[(&str, u32, &str, i64)],
        more: Value,
    ) -> (BlockersVerdict, Option<u32>) {
        let truth = json!({"schema": "wakepath.requests-truth/1", "pids": [1, 2], "requests": [
            {"trace_id": "a", "planted": "lock", "window_ns": 1000, "parts": parts},
            {"trace_id": "w", "planted": "lock-disk", "window_ns": 1000, "parts": []},
        ]});
        let mut at = 0;
        let mut answer = json!({"request": {"trace_id": "a", "from_ns": 0, "to_ns": 1000}, "no_path": null,
            "segments": [], "pieces": [], "problems": []});
        for (place, &(kind, pid, trace, ns)) in pieces.iter().enumerate() {
            let list = |answer: &mut Value, key: &str, value| {
                answer[key].as_array_mut().expect("a list").push(value)
            };
            list(&mut answer, "segments", json!({"kind": kind, "pid": pid, "basis": "measured"}));
            let waits_for: Vec<_> = [trace]
                .iter()
                .filter(|trace| !["", "a"].contains(trace))
                .map(|trace| json!({"trace_id": trace}))
                .collect();
            let piece = json!({"segment": place, "from_ns": at, "to_ns": at + ns, "waits_for": waits_for});
            list(&mut answer, "pieces", piece);
            at += ns;
        }
        for (key, value) in more.as_object().expect("an object") {
            answer[key] = value.clone();
        }
        let truth = serde_json::from_value(truth).expect("a truth");
        let answer = serde_json::from_value(answer).expect("an answer");
        let judged = judge(&truth, &[answer]).remove(0);
        (judged.verdict, judged.points.map(|points| points.round() as u32))
    }

    #[test]
    fn an_answer_is_right_where_each_planted_part_and_each_blocker_has_its_size() {
        let rest = ("running", 1, "a", 300);
        for (pieces, verdict, points) in [
            (&[("timer", 1, "a", 400), ("timer", 2, "b", 300), rest][..], BlockersVerdict::Right, 0),
            (&[("timer", 1, "a", 410), ("running", 2, "b", 290), rest], BlockersVerdict::Right, 1),
            // Another size for the blocker; for the planted part alone.
            (&[("timer", 1, "a", 400), ("timer", 2, "b", 250), rest], BlockersVerdict::Missed, 5),
            (&[("timer", 1, "a", 350), ("timer", 2, "b", 300), rest], BlockersVerdict::Right, 5),
            // The lock wait has no request.
            (&[("timer", 1, "a", 400), ("lock", 1, "", 300), rest], BlockersVerdict::Missed, 30),
            // Another blocker, and a little time for another blocker.
            (
                &[("timer", 1, "a", 400), ("timer", 2, "c", 300), rest],
                BlockersVerdict::Wrong { marked: false },
                30,
            ),
            (
                &[("timer", 1, "a", 400), ("timer", 2, "c", 15), ("timer", 2, "b", 285)],
                BlockersVerdict::Right,
                2,
            ),
        ] {
            assert_eq!(judged(pieces, json!({})), (verdict, Some(points)), "{pieces:?}");
        }
    }

    #[test]
    fn a_wrong_answer_is_marked_by_a_doubt_or_by_an_ambiguous_part_and_not_by_a_note() {
        let wrong = [("timer", 1, "a", 400), ("timer", 2, "c", 300)];
        for (severity, marked) in [("note", false), ("doubt", true), ("loss", true)] {
            let more = json!({"problems": [{"severity": severity}]});
            assert_eq!(judged(&wrong, more).0, BlockersVerdict::Wrong { marked }, "{severity}");
        }
        // A mark counts only at the time charged to the wrong request.
        for (bases, marked) in [(["ambiguous", "measured"], false), (["measured", "ambiguous"], true)] {
            let segments = bases.map(|basis| json!({"kind": "timer", "pid": 1, "basis": basis}));
            let more = json!({"segments": segments});
            assert_eq!(judged(&wrong, more).0, BlockersVerdict::Wrong { marked }, "{bases:?}");
        }
    }

    #[test]
    fn a_part_may_be_longer_by_the_slack_and_a_blocker_may_not() {
        let points = |slack: i64, timer: i64, by_other: i64| {
            let truth = json!({"schema": "wakepath.requests-truth/1", "pids": [1], "slack_ns": slack, "requests": [
                {"trace_id": "a", "planted": "timer", "window_ns": 1000, "parts": [{"kind": "timer", "ns": 400}, {"kind": "blocked", "by": "b", "ns": 300}]},
            ]});
            let segment = json!({"kind": "timer", "pid": 1, "basis": "measured"});
            let answer = json!({"request": {"trace_id": "a", "from_ns": 0, "to_ns": 1000}, "segments": [segment, segment], "pieces": [
                {"segment": 0, "from_ns": 0, "to_ns": timer},
                {"segment": 1, "from_ns": 0, "to_ns": by_other, "waits_for": [{"trace_id": "b"}]},
            ]});
            let truth = serde_json::from_value(truth).expect("a truth");
            let answer = serde_json::from_value(answer).expect("an answer");
            judge(&truth, &[answer]).remove(0).points.map(f64::round)
        };
        assert_eq!(points(0, 450, 300), Some(5.0));
        assert_eq!(points(30, 450, 300), Some(2.0));
        assert_eq!(points(60, 450, 300), Some(0.0));
        assert_eq!(points(60, 400, 350), Some(5.0));
    }

    #[test]
    fn time_that_may_be_for_another_one_is_right_beside_the_rest() {
        let parts = json!([{"kind": "timer", "ns": 400}, {"kind": "possible", "by": "b", "ns": 100}]);
        for (ns, verdict, points) in [
            (100, BlockersVerdict::Right, 0),
            (120, BlockersVerdict::Right, 2),
            (130, BlockersVerdict::Wrong { marked: false }, 3),
        ] {
            let pieces = [("timer", 1, "a", 400), ("timer", 2, "b", ns)];
            assert_eq!(judged_by(parts.clone(), &pieces, json!({})), (verdict, Some(points)), "{ns}");
        }
    }

    #[test]
    fn disk_time_may_be_that_of_another_one_that_wrote_and_then_is_missing_elsewhere() {
        let own = json!([{"kind": "block_device", "ns": 400}, {"kind": "shared", "by": "b", "ns": 200}]);
        let of_lock =
            json!([{"kind": "blocked", "by": "w", "ns": 400}, {"kind": "shared", "by": "b", "ns": 200}]);
        let asleep = json!([{"kind": "timer", "ns": 400}, {"kind": "shared", "by": "b", "ns": 200}]);
        let wrong = BlockersVerdict::Wrong { marked: false };
        for (parts, pieces, expected) in [
            (
                &own,
                [("block_device", 1, "a", 200), ("block_device", 2, "b", 200)],
                (BlockersVerdict::Right, 0),
            ),
            (
                &of_lock,
                [("block_device", 1, "w", 200), ("block_device", 2, "b", 200)],
                (BlockersVerdict::Right, 0),
            ),
            // More time than they shared; time missing nowhere, or missing from no disk; and missing time without a request.
            (&own, [("block_device", 1, "a", 100), ("block_device", 2, "b", 300)], (wrong, 10)),
            (&own, [("block_device", 1, "a", 400), ("block_device", 2, "b", 200)], (wrong, 20)),
            (&asleep, [("timer", 1, "a", 200), ("block_device", 2, "b", 200)], (wrong, 20)),
            (
                &own,
                [("block_device", 1, "a", 200), ("block_device", 2, "b", 100)],
                (BlockersVerdict::Right, 10),
            ),
        ] {
            let (verdict, points) = expected;
            assert_eq!(judged_by(parts.clone(), &pieces, json!({})), (verdict, Some(points)), "{pieces:?}");
        }
    }

    #[test]
    fn a_request_without_a_path_has_no_answer() {
        assert_eq!(judged(&[], json!({})), (BlockersVerdict::NoAnswer, None));
        assert_eq!(
            judged(&[("timer", 1, "a", 9)], json!({"no_path": "no_thread"})),
            (BlockersVerdict::NoAnswer, None)
        );
    }
}
