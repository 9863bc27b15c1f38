//! The words for timed-out waits: the number joined, and the reading without a proof.

use wakepath_critical_path::JoinedSum;
use wakepath_engine::{Algorithm, PathAnswer};

use super::Source;
use crate::screen::Line;
use crate::units::{count, duration, rough_share, them};
use crate::wording;

/// The line under the headline, if much of the window is time-outs after which waits may have gone on:
/// `or, if 19 waits that timed out went on in the next one: mostly waiting for postgres (90%, ambiguous)`.
pub fn other_reading(answer: &PathAnswer) -> Option<String> {
    let (evidence, other) = (answer.evidence_if_joined()?, answer.findings().other_reading.as_ref()?);
    let part = &other.largest;
    let (key, row) = other.rows.get(part.row)?;
    let lead = if part.is_most { "mostly" } else { "the largest part," };
    Some(format!(
        "or, if {} that timed out went on in the next one: {lead} {} ({}, {})",
        count(other.timed_out.waits, "wait"),
        wording::blamed(&evidence, key, row, part),
        rough_share(part.ns, answer.window_ns()),
        wording::certainty(part.certainty),
    ))
}

/// The lines about waits that timed out: the number joined, and the number that may have to be joined.
pub fn lines(answer: &PathAnswer, source: Source<'_>) -> Vec<Line> {
    let argument = source.argument();
    let mut lines = Vec::new();
    if answer.path.algorithm == Algorithm::JoinedIfAlike && answer.path.joined.waits == 0 {
        lines.push(Line::from("--join-timeouts changed nothing: no wait went on after a time-out"));
    }
    if let JoinedSum { waits: waits @ 1.., ns } = answer.path.joined {
        let waits = count(waits, "wait");
        lines.push(Line::from(format!(
            "{waits} ({}) timed out and went on: explained by what ended the last one; the time-outs: wakepath \
             path{argument} --as-timed-out",
            duration(ns)
        )));
    }
    if let Some(other) = &answer.if_joined {
        let JoinedSum { waits, ns } = other.timed_out;
        let (waits, them) = (count(waits, "wait"), them(waits));
        lines.push(Line::from(format!(
            "{waits} ({}) timed out and may have gone on; what then ended {them}: wakepath path{argument} \
             --join-timeouts",
            duration(ns)
        )));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;
    use crate::json;
    use crate::sample::path_of;
    use crate::screen::Layout;
    use crate::text::path;

    /// A tries to get something that B gives it after a second; each try waits 300 ms at most.
    const TRIES: &str = "
        thread A tid=10
        thread B tid=11 tgid=10
        0 c0 idle started
        0 c0 idle switch A
        0 c1 idle switch B
        5 c1 B switch idle blocked call=230:0
        10 c0 A switch idle blocked CALL
        310 c0 idle/timer waking A
        310 c0 idle switch A
        320 c0 A switch idle blocked CALL
        620 c0 idle/timer waking A
        620 c0 idle switch A
        630 c0 A switch idle blocked CALL
        990 c1 idle/timer waking B
        990 c1 idle switch B
        1000 c1 B waking A
        1000 c0 idle switch A
        1010 c0 A stopped
    ";
    const LOCK: &str = "call=202:0x1000 op=393 value=2 claim=B";

    #[track_caller]
    fn check(call: &str, expected: Expect) {
        path_of(&TRIES.replace("CALL", call), 10, |answer| {
            expected.assert_eq(&path(answer, Source::Read(" a.rec"), Layout::PLAIN));
        });
    }

    /// The document's algorithm, its joined time-outs, and the other time-outs, each with its reading's first contributor.
    #[track_caller]
    fn document(call: &str) -> Value {
        let told = RefCell::new(Value::Null);
        path_of(&TRIES.replace("CALL", call), 10, |answer| {
            let mut out = Vec::new();
            json::path(answer, &[], &mut out).expect("a vector takes everything");
            let all: Value = serde_json::from_slice(&out).expect("JSON");
            let first =
                |of: &Value| json!([of["contributors"][0]["comm"], of["contributors"][0]["total_ns"]]);
            let other = &all["if_joined"];
            *told.borrow_mut() = json!([
                all["algorithm"],
                all["joined"],
                first(&all),
                other["waits"],
                other["total_ns"],
                first(other)
            ]);
            // The sentence has a second reading if the document has another.
            let second = &all["headline"]["other_reading"];
            assert_eq!(second.is_null(), other.is_null());
            if !second.is_null() {
                let what = "waiting in poll for B (11), which was sleeping until a timer";
                assert!(second["what"] == what || call != "call=7:0x10", "{second}");
                assert_eq!((&second["code"], &second["total_ns"]), (&"timer".into(), &960.into()));
                assert_eq!(second["basis"], "ambiguous");
            }
        });
        told.into_inner()
    }

    #[test]
    fn a_lock_that_was_retried_is_a_wait_for_its_holder() {
        check(
            LOCK,
            expect![[r#"
            A (10) took 1.01 µs: mostly waiting in futex for B (11), which was sleeping until a timer (95%,
            inferred)
            0 ns to 1.01 µs after the start

             share     time  what the time went to, largest first
             95.0%   960 ns  sleeping until a timer, 1 wait in clock_nanosleep (B)  inferred
              4.0%    40 ns  running A
              1.0%    10 ns  running B

            lost 0 records
            2 waits (600 ns) timed out and went on: explained by what ended the last one; the time-outs:
            wakepath path a.rec --as-timed-out
            next: wakepath path a.rec --tree
        "#]],
        );
        let joined = json!({"waits": 2, "total_ns": 600});
        assert_eq!(document(LOCK), json!(["joined", joined, ["B", 960], null, null, [null, null]]));
    }

    #[test]
    fn time_outs_that_are_not_proved_to_be_parts_of_a_wait_leave_two_readings() {
        for call in ["call=7:0x10", "call=202:0x1000 op=393 value=0", "call=202:0x1000"] {
            let none = json!({"waits": 0, "total_ns": 0});
            assert_eq!(document(call), json!(["joined", none, ["A", 600], 2, 600, ["B", 960]]), "{call}");
        }
        check(
            "call=7:0x10",
            expect![[r#"
                A (10) took 1.01 µs: mostly waiting until a time-out: nothing came (59%, measured)
                or, if 2 waits that timed out went on in the next one: mostly waiting in poll for B (11), which was
                sleeping until a timer (95%, ambiguous)
                0 ns to 1.01 µs after the start

                 share     time  what the time went to, largest first
                 59.4%   600 ns  waiting until a time-out: nothing came, 2 waits in poll
                 35.6%   360 ns  sleeping until a timer, 1 wait in clock_nanosleep (B)
                  4.0%    40 ns  running A
                  1.0%    10 ns  running B

                lost 0 records
                2 waits (600 ns) timed out and may have gone on; what then ended them: wakepath path a.rec
                --join-timeouts
                next: wakepath path a.rec --tree
            "#]],
        );
    }

    #[test]
    fn a_sleep_and_an_event_loop_have_one_reading() {
        for call in ["call=35:0", "call=230:0", "call=232:4", "call=281:4", "call=426:4"] {
            let none = json!({"waits": 0, "total_ns": 0});
            assert_eq!(
                document(call),
                json!(["joined", none, ["A", 600], null, null, [null, null]]),
                "{call}"
            );
            path_of(&TRIES.replace("CALL", call), 10, |answer| {
                let text = path(answer, Source::Read(""), Layout::PLAIN);
                assert!(!text.contains("timed out"), "{text}");
            });
        }
    }

    #[test]
    fn the_other_reading_is_told_from_a_tenth_of_the_window_on_and_where_it_differs() {
        for end in [5_900, 6_100] {
            let long = TRIES.replace("1010 c0 A stopped", &format!("{end} c0 A stopped"));
            path_of(&long.replace("CALL", "call=7:0x10"), 10, |answer| {
                assert_eq!(other_reading(answer), None, "both readings say that");
                let text = path(answer, Source::Read(""), Layout::PLAIN);
                assert!(text.contains("mostly running (8"), "{text}");
                assert!(!text.contains("or, if"), "{text}");
                assert!(text.contains("2 waits (600 ns) timed out and may have gone on"), "{text}");
            });
        }
    }
}
