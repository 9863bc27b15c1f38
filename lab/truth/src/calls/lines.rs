//! Verdicts on calls as text.

use crate::calls::CallsJudgement;
use crate::calls::judge::PeakVerdict;
use crate::calls::log::CallCause;
use crate::tries::Outcome;

/// The judgement of a run: its peaks, then its slow calls.
pub fn lines(judged: &CallsJudgement) -> String {
    let mut text = format!(
        "  {:>4} {:>17} {:>6}  {:<8} {:<30} {:>26} {:>8} {:>8} {:>8}  verdict\n",
        "peak",
        "from, to",
        "calls",
        "planted",
        "first cause",
        "largest error: log, tool",
        "interr.",
        "unknown",
        "by noise"
    );
    for peak in &judged.peaks {
        text.push_str(&line(peak));
    }
    let calls = &judged.calls;
    let word = Outcome::of(calls.is_right(), !calls.is_void()).word();
    text.push_str(&format!(
        "  {} slow calls: {} with the right cause ({:.1}%), {} with missing events, {} mostly due to a neighbour, \
         {} with a cause that the log does not have: {word}\n",
        calls.slow,
        calls.right,
        100.0 * calls.right as f64 / calls.slow.saturating_sub(calls.unknown_to_log).max(1) as f64,
        calls.missing,
        calls.by_neighbours,
        calls.unknown_to_log,
    ));
    if word != "right" {
        for example in &calls.examples {
            text.push_str(&format!("    {example}\n"));
        }
    }
    let names = |causes: &[CallCause]| causes.iter().map(|cause| cause.name()).collect::<Vec<_>>().join(", ");
    if !judged.mixed.is_empty() {
        text.push_str(&format!(
            "  mixed with other causes, so without a peak of its own: {}\n",
            names(&judged.mixed)
        ));
    }
    if !judged.missing_peaks.is_empty() {
        text.push_str(&format!("  WRONG: no peak was found for {}\n", names(&judged.missing_peaks)));
    }
    if judged.never_blamed {
        text.push_str("  WRONG: no peak names the spinning neighbour as a competitor\n");
    }
    for reason in &judged.left_out {
        text.push_str(&format!("  void: a cause could not be planted: {reason}\n"));
    }
    text
}

fn line(verdict: &PeakVerdict) -> String {
    let word = Outcome::of(verdict.violations.is_empty(), verdict.void.is_empty()).word();
    let percent = |share: f64| format!("{:.2}%", share * 100.0);
    let bound = |bucket: u32| length(2f64.powi(i32::try_from(bucket).unwrap_or(i32::MAX)));
    let range = format!("{}, {}", bound(verdict.peak.from_bucket), bound(verdict.peak.to_bucket + 1));
    let worst =
        format!("{}: {} {}", verdict.worst.name(), percent(verdict.logged), percent(verdict.reported));
    let first: String = verdict.first.chars().take(30).collect();
    let mut text = format!(
        "  {:>4} {range:>17} {:>6}  {:<8} {first:<30} {worst:>26} {:>8} {:>8} {:>8}  {word}\n",
        verdict.number,
        verdict.peak.count,
        verdict.main_cause.name(),
        percent(verdict.interrupted),
        percent(verdict.unknown),
        percent(verdict.by_noise),
    );
    for (lead, reasons) in [("void: ", &verdict.void), ("", &verdict.violations)] {
        for reason in reasons {
            text.push_str(&format!("      {lead}{reason}\n"));
        }
    }
    text
}

fn length(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}
