//! Why a file without switches is refused.

use std::collections::HashMap;
use std::path::Path;

use super::container::{Attribute, Container, End};
use super::contents::{Contents, EventRole};
use crate::formats::Format;
use crate::kind::Kind;
use crate::{Fault, OpenError};

/// A command to record the events that explain a delay.
const RECORD_WITH: &str = "perf record -a -k CLOCK_MONOTONIC -e sched:sched_switch,sched:sched_waking,\
                           sched:sched_wakeup_new,irq:*,timer:hrtimer_expire_* -- COMMAND";

/// The error for a file without switches.
pub(super) fn without_switches(
    path: &Path,
    container: &Container,
    contents: &Contents,
    formats: &HashMap<u64, Format>,
) -> OpenError {
    let recorded =
        |role: &EventRole| matches!(role, EventRole::Tracepoint(plan) if plan.kind == Kind::Switch);
    let undescribed = |one: &Attribute| one.is_tracepoint() && !formats.contains_key(&one.config);
    if let End::Cut(_, fault) | End::SectionsCut(_, fault) = &container.end
        && container.attributes.iter().any(undescribed)
        && !contents.roles.iter().any(recorded)
    {
        let way_out = match fault {
            Fault::Unfinished => "let perf record end by itself, or by ctrl-C",
            _ => "copy the whole file",
        };
        let why = format!(
            "lacks the description of its tracepoints, which perf writes behind the records at its end, because {}: {way_out}; \
             a stream (perf record -o - >FILE) begins with the description",
            if *fault == Fault::Unfinished { "perf did not finish it" } else { "it was cut short" }
        );
        return OpenError::unsupported(path, why);
    }
    if contents.roles.iter().any(recorded) {
        let whose = if contents.present.threads { "the recorded threads" } else { "any thread" };
        let why = format!(
            "holds no switches of threads: sched:sched_switch was recorded and did not occur, so that no run and no wait of \
             {whose} is visible; record while they work, or all threads with -a"
        );
        return OpenError::unsupported(path, why);
    }
    if contents.present.switch_records {
        let why = format!(
            "holds switch records (perf record --switch-events), which are not read: record the switches with \
             {RECORD_WITH}"
        );
        return OpenError::unsupported(path, why);
    }
    OpenError::no_switches(path, event_names(container, formats), RECORD_WITH)
}

/// The recorded events' names.
fn event_names(container: &Container, formats: &HashMap<u64, Format>) -> Vec<String> {
    let mut names: Vec<_> = container
        .attributes
        .iter()
        .map(|one| match (formats.get(&one.config).filter(|_| one.is_tracepoint()), one.kind, one.config) {
            (Some(format), ..) => format!("{}:{}", format.system, format.name),
            (None, 0, 0) => "cycles".to_owned(),
            (None, 1, 0) => "cpu-clock".to_owned(),
            (None, 1, 9) => "perf's own".to_owned(),
            (None, kind, config) => format!("event {config} of kind {kind}"),
        })
        .collect();
    names.dedup();
    names
}
