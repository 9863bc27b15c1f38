//! Counts the stretches between programs' own marks.

use wakepath_event::{Damage, DamageKind};
use wakepath_loaded::{StretchEnd, StretchKind, Stretches};

use super::counting::{Counters, Ending};
use super::resolve::TargetKind;
use super::threads::SelectedThreads;
use crate::latency::Distribution;
use crate::{ProblemKind, Recorded};

/// Counts the chosen threads' stretches.
pub(super) fn count(stretches: &Stretches, threads: &SelectedThreads, counters: &mut Counters) {
    for stretch in &stretches.all {
        if !threads.contain_if_known(stretch.thread) {
            continue;
        }
        let kind = TargetKind::User(stretch.name, stretches.names[stretch.name].1);
        let end = match stretch.end {
            StretchEnd::Seen => Ending::Seen,
            StretchEnd::Open => Ending::Open,
            StretchEnd::Unseen => Ending::Unseen,
        };
        counters.count(kind, stretch.from, stretch.to, end);
    }
}

/// Sentences about limits to the meaning of a name's stretches.
pub(super) fn notes(
    recorded: &Recorded,
    stretches: &Stretches,
    kind: StretchKind,
    found: &Distribution,
) -> Vec<String> {
    let mut notes = Vec::new();
    if kind == StretchKind::Interval {
        notes.push(String::from(
            "a time between marks is from a mark of this name to the same thread's next one",
        ));
    }
    if kind == StretchKind::State && found.unseen > 0 {
        notes.push(String::from(
            "a state counts as unseen if marks between its own two were lost, or if its first mark is not in the trace, as when another \
             thread began it",
        ));
    }
    if kind == StretchKind::Interval && found.unseen > 0 {
        notes.push(String::from("a time counts as unseen if marks in it were lost"));
    }
    let lost = recorded.problems.iter().find_map(|problem| match &problem.kind {
        ProblemKind::Trace(Damage { kind: DamageKind::MarksLost { count }, .. }) => Some(*count),
        _ => None,
    });
    match lost {
        Some(Some(count)) => notes.push(format!("at least {count} of all programs' marks are lost")),
        Some(None) => notes.push(String::from("an unknown number of all programs' marks is lost")),
        None => {}
    }
    if stretches.threadless > 0 {
        notes.push(format!(
            "{} marks name no thread and are not counted: lttng add-context -u -t vpid -t vtid, before tracing starts",
            stretches.threadless
        ));
    }
    if stretches.unplaced > 0 {
        notes.push(format!(
            "for {} marks it is not known which recorded thread made them: they count only where all threads do",
            stretches.unplaced
        ));
    }
    if recorded.problems.iter().any(|problem| problem.kind.lacks_the_kernel()) {
        notes.push(String::from(
            "why these times were long is not in the trace: record the kernel beside the programs \
             (lttng enable-event --kernel sched_switch,sched_waking,sched_wakeup_new)",
        ));
    }
    notes
}
