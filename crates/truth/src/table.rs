//! Verdicts as text.

use crate::compare::Verdict;
use crate::runner::Judgement;

/// The head of the table.
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
    if verdict.preemptions > 0 {
        text.push_str(&format!(
            "\n    {:.3}% by the program's clocks; they date {} preemptions back, which leaves {:.3}%",
            verdict.error * 100.0,
            verdict.preemptions,
            verdict.remains * 100.0
        ));
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

/// The contributors side by side: those that differ by more than 0.01% of the window or are more than 1% of it.
pub fn parts(verdict: &Verdict) -> String {
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
