//! Verdicts as text.

use crate::compare::PathVerdict;
use crate::document::Basis;
use crate::runner::Judgement;

/// The table's head.
pub const HEAD: &str = "workload          window   error   limit  unknown  missing  outside  runnable (by noise)   ends  verdict";

/// A run as a line, with its errors below.
pub fn line(name: &str, limit: f64, judged: &Judgement) -> String {
    let Judgement { verdict, by_noise, runnable } = judged;
    let mut text = format!(
        "{name:<16} {:>5.0} ms {:>6.3}% {:>6.1}% {:>7.3}% {:>8} {:>7.3}% {:>8.2}% {:>9.2}% {:>4.1} ms  {}",
        verdict.window_ns as f64 / 1e6,
        verdict.error * 100.0,
        limit * 100.0,
        verdict.unknown * 100.0,
        verdict.losses,
        verdict.outside * 100.0,
        runnable * 100.0,
        by_noise * 100.0,
        verdict.ends_ns as f64 / 1e6,
        verdict.outcome().word(),
    );
    let (error, remains) = (verdict.error * 100.0, verdict.remains * 100.0);
    match &verdict.dated_back {
        // The dated-back time decides nothing here.
        Some((Basis::Measured, _)) if verdict.error <= limit => {}
        Some((Basis::Measured, switches)) => text.push_str(&format!(
            "\n    {error:.3}% by the program's clocks; what they date back at {switches} switches, measured, leaves {remains:.3}%"
        )),
        Some((Basis::Assumed(reason), preemptions)) => text.push_str(&format!(
            "\n    {error:.3}% by the program's clocks; what they date back at {preemptions} preemptions, assumed, leaves \
             {remains:.3}%\n    not measured: {reason}"
        )),
        None => {}
    }
    if verdict.either > 0.0 {
        let percent = verdict.either * 100.0;
        text.push_str(&format!("\n    {percent:.1}% of the window has two readings by the program's books"));
    }
    for reason in &verdict.void {
        text.push_str("\n    void: ");
        text.push_str(reason);
    }
    for violation in &verdict.violations {
        text.push_str("\n    ");
        text.push_str(violation);
    }
    text
}

/// The contributors side by side: those that differ by more than 0.01% of the window, or have more than 1% of it in the
/// truth.
pub fn parts(verdict: &PathVerdict) -> String {
    let mut text = format!("    {:>12} {:>12} {:>9}  contributor\n", "truth, ms", "path, ms", "differ");
    let window = verdict.window_ns as f64;
    for part in &verdict.parts {
        let difference = part.path_ns - part.truth_ns;
        if (difference.abs() as f64) < window / 1e4 && (part.truth_ns as f64) < window / 1e2 {
            continue;
        }
        text.push_str(&format!(
            "    {:>12.3} {:>12.3} {:>+9.3}  {} of {}\n",
            part.truth_ns as f64 / 1e6,
            part.path_ns as f64 / 1e6,
            difference as f64 / 1e6,
            part.kind,
            part.who
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::made;
    use crate::runner::judge;
    use serde_json::{Value, json};

    const MAIN: made::Named<'_> = (10, "prog");

    /// The lines for a run of 100 ms whose program lacks 3 ms of running by its clocks.
    fn lines(dated_back: &Value) -> Vec<String> {
        const MS: i64 = 1_000_000;
        let mut truth =
            made::truth(&[MAIN], 0, &[(MAIN, "running", None, 57 * MS), (MAIN, "runnable", None, 43 * MS)]);
        truth["dated_back"] = dated_back.clone();
        let segment = |from: i64, to: i64, kind: &str| json!({"from_ns": from * MS, "to_ns": to * MS, "kind": kind, "tid": 10, "comm": "prog", "call": null, "cause": null});
        let path = made::path(MAIN, &[segment(0, 60, "running"), segment(60, 100, "runnable")]);
        let judged = judge(Limits::with_error(0.01), &truth, &path).expect("they can be compared");
        line("prog", 0.01, &judged).lines().skip(1).map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn a_run_beside_chatter_shows_both_errors_and_how_it_is_known_what_is_dated_back() {
        let switch =
            json!({"at_ns": 60_000_000, "back_ns": 2_500_000, "prev": 10, "is_preempted": true, "next": 99});
        assert_eq!(
            lines(&json!({"basis": "measured", "switches": [switch]})),
            ["3.000% by the program's clocks; what they date back at 1 switches, measured, leaves 0.500%"]
        );
        assert_eq!(
            lines(&json!({"basis": {"assumed": "no rights"}, "switches": [switch]})),
            [
                "3.000% by the program's clocks; what they date back at 1 preemptions, assumed, leaves 0.500%",
                "not measured: no rights"
            ]
        );
        assert_eq!(lines(&json!(null)), ["contributors differ by 3.000% of the window, more than 1.0%"]);
    }
}
