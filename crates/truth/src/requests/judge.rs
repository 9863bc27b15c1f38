//! The comparison of the answer for one request with the books.

use std::collections::{BTreeMap, HashMap};

use super::{Answer, OfRequest, Truth};

/// The largest error of a part, in percentage points of the request.
pub const MAX_POINTS: f64 = 2.0;

/// The requests that an answer names as blockers, beside those of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The same, with the same sizes.
    Right,
    /// One of the books is missing, or has another size.
    Missed,
    /// It names one that the books have not.
    Wrong {
        /// The answer has a mark of doubt.
        marked: bool,
    },
    /// There is no path.
    NoAnswer,
}

/// The judgement of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Its trace.
    pub trace_id: String,
    /// The planted cause.
    pub planted: String,
    /// The largest error of a planted part, in percentage points of the request.
    pub points: Option<f64>,
    /// The blockers.
    pub verdict: Verdict,
    /// The parts, by the books and by the answer, in percentage points, those that differ most first.
    pub parts: Vec<(String, f64, f64)>,
}

/// Judges the answers for all requests of the books.
pub fn judge(truth: &Truth, answers: &[Answer]) -> Vec<Judged> {
    let by_trace: HashMap<&str, &Answer> =
        answers.iter().map(|answer| (answer.request.trace_id.as_str(), answer)).collect();
    let one =
        |request: &OfRequest| judge_one(truth, request, by_trace.get(request.trace_id.as_str()).copied());
    truth.requests.iter().map(one).collect()
}

fn judge_one(truth: &Truth, request: &OfRequest, answer: Option<&Answer>) -> Judged {
    let judged = |points, verdict, parts| Judged {
        trace_id: request.trace_id.clone(),
        planted: request.planted.clone(),
        points,
        verdict,
        parts,
    };
    let Some(answer) = answer.filter(|answer| answer.no_path.is_none() && !answer.pieces.is_empty()) else {
        return judged(None, Verdict::NoAnswer, Vec::new());
    };
    let found = found(truth, answer);
    let mut expected: BTreeMap<(String, Option<String>), i64> = BTreeMap::new();
    // The books do not know whether these blocked it; so much of them may be in the answer.
    let mut possible: BTreeMap<&str, i64> = BTreeMap::new();
    for part in &request.parts {
        if part.kind == "possible" {
            *possible.entry(part.by.as_deref().unwrap_or_default()).or_default() += part.ns;
            continue;
        }
        *expected.entry((part.kind.clone(), part.by.clone())).or_default() += part.ns;
    }
    let window = request.window_ns.max(1) as f64;
    let share = |ns: i64| ns as f64 / window * 100.0;
    let of = |sums: &BTreeMap<(String, Option<String>), i64>, key| share(sums.get(key).copied().unwrap_or(0));
    let mut parts = Vec::new();
    let (mut points, mut missed, mut wrong) = (0.0f64, false, false);
    for key in expected.keys().chain(found.keys().filter(|key| !expected.contains_key(key))) {
        let (by_books, by_answer) = (of(&expected, key), of(&found, key));
        let excused = key.1.as_deref().and_then(|by| possible.get(by)).map_or(0.0, |ns| share(*ns));
        let error = match by_answer - by_books {
            more if more > 0.0 => (more - excused).max(0.0),
            less => -less,
        };
        let is_blocker = key.1.is_some();
        // Beside the planted parts there are others, as the running time of each service.
        if is_blocker || expected.contains_key(key) {
            points = points.max(error);
        }
        wrong |= is_blocker && by_books == 0.0 && error > MAX_POINTS;
        missed |= is_blocker && error > MAX_POINTS;
        let name = key
            .1
            .as_ref()
            .map_or_else(|| key.0.clone(), |by| format!("blocked by {}", &by[..16.min(by.len())]));
        parts.push((name, by_books, by_answer));
    }
    parts.sort_by(|a, b| (b.1 - b.2).abs().total_cmp(&(a.1 - a.2).abs()));
    let verdict = match (wrong, missed) {
        (true, _) => Verdict::Wrong { marked: is_marked(answer) },
        (_, true) => Verdict::Missed,
        _ => Verdict::Right,
    };
    judged(Some(points), verdict, parts)
}

/// The sums of an answer by kind, and by blocking request.
fn found(truth: &Truth, answer: &Answer) -> BTreeMap<(String, Option<String>), i64> {
    let mut sums = BTreeMap::new();
    for piece in &answer.pieces {
        let segment = answer.segments.get(piece.segment);
        let other = piece.waits_for.last();
        let is_service = |pid: Option<u32>| pid.is_some_and(|pid| truth.pids.contains(&pid));
        let key = match (other, segment) {
            (Some(other), _) => ("blocked".to_owned(), Some(other.trace_id.clone())),
            // The kernel's threads that write for the disk.
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

fn is_marked(answer: &Answer) -> bool {
    answer.problems.iter().any(|problem| problem.severity != "note")
        || answer.segments.iter().any(|segment| segment.basis == "ambiguous")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The judgement of one request of 1000 ns, planted: 300 ns blocked by `b`, and 400 of a timer. The answer has these pieces,
    /// each with its kind, its process, its trace and its length.
    fn judged(pieces: &[(&str, u32, &str, i64)], more: Value) -> (Verdict, Option<u32>) {
        let truth = json!({"schema": "wakepath.requests-truth/1", "pids": [1, 2], "requests": [
            {"trace_id": "a", "planted": "lock", "window_ns": 1000, "parts": [
                {"kind": "timer", "ns": 400}, {"kind": "blocked", "by": "b", "ns": 300}]},
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
            (&[("timer", 1, "a", 400), ("timer", 2, "b", 300), rest][..], Verdict::Right, 0),
            (&[("timer", 1, "a", 410), ("running", 2, "b", 290), rest], Verdict::Right, 1),
            // Another size of the blocker; of the planted part alone.
            (&[("timer", 1, "a", 400), ("timer", 2, "b", 250), rest], Verdict::Missed, 5),
            (&[("timer", 1, "a", 350), ("timer", 2, "b", 300), rest], Verdict::Right, 5),
            // The lock has nobody.
            (&[("timer", 1, "a", 400), ("lock", 1, "", 300), rest], Verdict::Missed, 30),
            // Another one, and a little of another one.
            (&[("timer", 1, "a", 400), ("timer", 2, "c", 300), rest], Verdict::Wrong { marked: false }, 30),
            (&[("timer", 1, "a", 400), ("timer", 2, "c", 15), ("timer", 2, "b", 285)], Verdict::Right, 2),
        ] {
            assert_eq!(judged(pieces, json!({})), (verdict, Some(points)), "{pieces:?}");
        }
    }

    #[test]
    fn a_wrong_answer_is_marked_by_a_doubt_or_by_an_ambiguous_part_and_not_by_a_note() {
        let wrong = [("timer", 1, "a", 400), ("timer", 2, "c", 300)];
        for (severity, marked) in [("note", false), ("doubt", true), ("loss", true)] {
            let more = json!({"problems": [{"severity": severity}]});
            assert_eq!(judged(&wrong, more).0, Verdict::Wrong { marked }, "{severity}");
        }
        let segments = json!([{"kind": "timer", "pid": 1, "basis": "ambiguous"}, {"kind": "timer", "pid": 1, "basis": "measured"}]);
        assert_eq!(judged(&wrong, json!({"segments": segments})).0, Verdict::Wrong { marked: true });
    }

    #[test]
    fn a_request_without_a_path_has_no_answer() {
        assert_eq!(judged(&[], json!({})), (Verdict::NoAnswer, None));
        assert_eq!(
            judged(&[("timer", 1, "a", 9)], json!({"no_path": "no_thread"})),
            (Verdict::NoAnswer, None)
        );
    }
}
