//! The words for waits ended early: the number joined, and the reading with more joins, or fewer.

use wakepath_critical_path::JoinedSum;
use wakepath_engine::{Algorithm, PathAnswer};

use super::Source;
use crate::screen::Line;
use crate::units::{count, duration, rough_share, them};
use crate::wording;

/// The line under the headline, if much of the window is waits after which the thread may have gone on:
/// `or, if 19 waits that timed out went on in the next one: mostly waiting for postgres (90%, ambiguous)`.
/// Below a joined reading: `or, if none of the 19 waits that timed out went on: …`.
pub fn other_reading(answer: &PathAnswer) -> Option<String> {
    let (evidence, other) = (answer.evidence_of_other()?, answer.findings().other_reading.as_ref()?);
    let part = &other.largest;
    let (key, row) = other.rows.get(part.row)?;
    let lead = if part.is_most { "mostly" } else { "the largest part," };
    let (waits, ended) = (count(other.timed_out.waits, "wait"), ended(other.timed_out));
    let condition = match other.joins {
        true => format!("{waits} that {ended} went on in the next one"),
        false if other.timed_out.waits == 1 => format!("the wait that {ended} did not go on"),
        false => format!("none of the {waits} that {ended} went on"),
    };
    Some(format!(
        "or, if {condition}: {lead} {} ({}, {})",
        wording::blamed(&evidence, key, row, part),
        rough_share(part.ns, answer.window_ns()),
        wording::certainty(part.certainty),
    ))
}

/// How these waits ended: by their time-outs, or some by a ticker.
const fn ended(sum: JoinedSum) -> &'static str {
    if sum.by_threads == 0 { "timed out" } else { "ended early" }
}

/// The lines about waits that timed out: the number joined, and the number that may have to be joined.
pub fn lines(answer: &PathAnswer, source: Source<'_>) -> Vec<Line> {
    let argument = source.argument();
    let mut lines = Vec::new();
    let JoinedSum { waits, ns, .. } = answer.path.joined;
    if answer.path.algorithm == Algorithm::JoinedIfAlike && waits == 0 {
        lines.push(Line::from("--join-timeouts changed nothing: no wait went on after a time-out"));
    }
    if waits > 0 {
        let went_on = if answer.path.algorithm == Algorithm::Joined { "went on" } else { "may have gone on" };
        lines.push(Line::from(format!(
            "{} ({}) {} and {went_on}: explained by what ended the last one; as they ended: wakepath \
             path{argument} --as-timed-out",
            count(waits, "wait"),
            duration(ns),
            ended(answer.path.joined),
        )));
    }
    if let Some(other) = &answer.if_joined {
        let JoinedSum { waits, ns, .. } = other.timed_out;
        let (waits, them) = (count(waits, "wait"), them(waits));
        lines.push(Line::from(format!(
            "{waits} ({}) {} and may have gone on; what then ended {them}: wakepath path{argument} --join-timeouts",
            duration(ns),
            ended(other.timed_out),
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

    /// The document's joins, its joined waits, and the other reading's waits, each with the reading's first contributor.
    #[track_caller]
    fn document(trace: &str) -> Value {
        let told = RefCell::new(Value::Null);
        path_of(trace, 10, |answer| {
            let mut out = Vec::new();
            json::path(answer, &[], &mut out).expect("a vector takes everything");
            let all: Value = serde_json::from_slice(&out).expect("JSON");
            let first =
                |of: &Value| json!([of["contributors"][0]["comm"], of["contributors"][0]["total_ns"]]);
            let other =
                if all["if_not_joined"].is_null() { &all["if_joined"] } else { &all["if_not_joined"] };
            let sum = |of: &Value| json!([of["waits"], of["total_ns"], of["by_threads"]]);
            *told.borrow_mut() =
                json!([all["joins"], sum(&all["joined"]), first(&all), sum(other), first(other)]);
            assert_eq!(all["algorithm"], "joined");
            assert!(all["if_not_joined"].is_null() || all["if_joined"].is_null(), "no third reading here");
            // The sentence has a second reading if the document has another, and joins as much.
            let second = &all["headline"]["other_reading"];
            assert_eq!(second.is_null(), other.is_null());
            let joins = match (&all["if_not_joined"], &all["if_joined"]) {
                (Value::Null, Value::Null) => Value::Null,
                (Value::Null, _) => "alike".into(),
                _ => "proved".into(),
            };
            assert_eq!(second.get("joins").unwrap_or(&Value::Null), &joins);
        });
        told.into_inner()
    }

    fn tries(call: &str) -> String {
        TRIES.replace("CALL", call)
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
            2 waits (600 ns) timed out and went on: explained by what ended the last one; as they ended:
            wakepath path a.rec --as-timed-out
            next: wakepath path a.rec --tree
        "#]],
        );
        let nothing = json!([null, null, null]);
        assert_eq!(document(&tries(LOCK)), json!(["proved", [2, 600, 0], ["B", 960], nothing, [null, null]]));
    }

    #[test]
    fn slices_of_a_wait_are_explained_by_its_end_with_the_other_reading_below() {
        for call in ["call=7:0x10", "call=202:0x1000 op=393 value=0", "call=202:0x1000"] {
            let expected = json!(["slices", [2, 600, 0], ["B", 960], [2, 600, 0], ["A", 600]]);
            assert_eq!(document(&tries(call)), expected, "{call}");
        }
        check(
            "call=7:0x10",
            expect![[r#"
            A (10) took 1.01 µs: mostly waiting in poll for B (11), which was sleeping until a timer (95%,
            ambiguous)
            or, if none of the 2 waits that timed out went on: mostly waiting until a time-out: nothing came
            (59%, measured)
            0 ns to 1.01 µs after the start

             share     time  what the time went to, largest first
             95.0%   960 ns  sleeping until a timer, 1 wait in clock_nanosleep (B)  ambiguous
              4.0%    40 ns  running A
              1.0%    10 ns  running B

            warning: 600 ns could not be explained with certainty
            lost 0 records, 600 ns ambiguous
            2 waits (600 ns) timed out and may have gone on: explained by what ended the last one; as they
            ended: wakepath path a.rec --as-timed-out
            next: wakepath path a.rec --tree
        "#]],
        );
    }

    #[test]
    fn a_ticker_that_ends_slices_is_blamed_below() {
        let trace = "
            thread A tid=10
            thread T tid=11 tgid=10
            thread R tid=12 tgid=10
            0 c0 idle started
            0 c0 idle switch A
            0 c1 idle switch R
            0 c2 idle switch T
            5 c2 T switch idle blocked call=230:0
            10 c0 A switch idle blocked call=202:0x1028
            300 c2 idle/timer waking T
            300 c2 idle switch T
            310 c2 T waking A
            311 c2 T switch idle blocked call=230:0
            311 c0 idle switch A
            320 c0 A switch idle blocked call=202:0x102c
            600 c2 idle/timer waking T
            600 c2 idle switch T
            610 c2 T waking A
            611 c2 T switch idle blocked call=230:0
            611 c0 idle switch A
            620 c0 A switch idle blocked call=202:0x1028
            1000 c1 R waking A
            1000 c0 idle switch A
            1010 c0 A stopped
        ";
        let expected = json!(["slices", [2, 590, 2], ["R", 970], [2, 590, 2], ["T", 570]]);
        assert_eq!(document(trace), expected);
        path_of(trace, 10, |answer| {
            expect![[r#"
                A (10) took 1.01 µs: mostly waiting in futex for R (12), which was running (96%, ambiguous)
                or, if none of the 2 waits that ended early went on: mostly waiting for T, which was sleeping until
                a timer (56%, ambiguous)
                0 ns to 1.01 µs after the start

                 share     time  what the time went to, largest first
                 96.0%   970 ns  running R  ambiguous
                  3.8%    38 ns  running A
                  0.2%     2 ns  waiting for a CPU
                                 its CPU meanwhile: idle 2 ns

                warning: 590 ns could not be explained with certainty
                lost 0 records, 590 ns ambiguous
                2 waits (590 ns) ended early and may have gone on: explained by what ended the last one; as they
                ended: wakepath path a.rec --as-timed-out
                next: wakepath path a.rec --tree
            "#]].assert_eq(&path(answer, Source::Read(" a.rec"), Layout::PLAIN));
        });
    }

    #[test]
    fn without_slices_the_joined_reading_is_the_other_one() {
        // One wait timed out; or two, and A acted behind the second.
        let second = "        620 c0 idle/timer waking A\n        620 c0 idle switch A\n        630 c0 A switch idle blocked call=7:0x10\n";
        let single = tries("call=7:0x10").replace(second, "");
        let sends = "625 c0 A out ask seq=1 len=32\n630 c0 A switch";
        let acted = format!("flow ask 10.0.0.1:40000 > 10.0.0.2:80\n{}", tries("call=7:0x10"));
        let acted = acted.replace("630 c0 A switch", sends);
        let expected = json!(["proved", [0, 0, 0], ["A", 600], [2, 600, 0], ["B", 960]]);
        assert_eq!(document(&acted), expected);
        let expected = json!(["proved", [0, 0, 0], ["B", 670], [1, 300, 0], ["B", 970]]);
        assert_eq!(document(&single), expected);
        path_of(&acted, 10, |answer| {
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
            "#]].assert_eq(&path(answer, Source::Read(" a.rec"), Layout::PLAIN));
        });
    }

    #[test]
    fn a_sleep_and_an_event_loop_have_one_reading() {
        for call in ["call=35:0", "call=230:0", "call=232:4", "call=281:4", "call=426:4"] {
            let none = json!([null, null, null]);
            let expected = json!(["proved", [0, 0, 0], ["A", 600], none, [null, null]]);
            assert_eq!(document(&tries(call)), expected, "{call}");
            path_of(&tries(call), 10, |answer| {
                let text = path(answer, Source::Read(""), Layout::PLAIN);
                assert!(!text.contains("timed out"), "{text}");
            });
        }
    }

    #[test]
    fn an_event_loop_whose_waits_time_out_with_nothing_ready_waits_in_slices() {
        let nothing = "c0 idle/timer descriptor A none";
        let trace = tries("call=232:4")
            .replace("310 c0 idle/timer waking A", &format!("310 {nothing}\n310 c0 idle/timer waking A"))
            .replace("620 c0 idle/timer waking A", &format!("620 {nothing}\n620 c0 idle/timer waking A"));
        assert_eq!(document(&trace), json!(["slices", [2, 600, 0], ["B", 960], [2, 600, 0], ["A", 600]]));
    }

    #[test]
    fn the_other_reading_is_told_from_a_tenth_of_the_window_on_and_where_it_differs() {
        for end in [5_900, 6_100] {
            let long = tries("call=7:0x10").replace("1010 c0 A stopped", &format!("{end} c0 A stopped"));
            path_of(&long, 10, |answer| {
                assert_eq!(other_reading(answer), None, "both readings say that");
                let text = path(answer, Source::Read(""), Layout::PLAIN);
                assert!(text.contains("mostly running (8"), "{text}");
                assert!(!text.contains("or, if"), "{text}");
                assert!(text.contains("2 waits (600 ns) timed out and may have gone on"), "{text}");
            });
        }
    }
}
