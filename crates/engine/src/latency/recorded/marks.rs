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

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_event::{Event, EventKind, Tid, UserMark};
    use wakepath_loaded::testing::{event, read};

    use crate::latency::LatencySource;
    use crate::latency::recorded::{RecordedLatencyError, RecordedQuery, ThreadFilter, recorded_latency};
    use crate::{ProblemKind, Recorded, Subject};

    fn mark(at: u64, thread: u32, name: &str) -> Event {
        let (process, thread) = (Some(Tid(thread)), Some(Tid(thread)));
        let mark = UserMark { name: name.into(), process, thread, fields: Box::default() };
        event(at, 9, 0, EventKind::UserMark(Box::new(mark)))
    }

    fn recorded(marks: &[Event]) -> Recorded {
        const TRACE: &str = "
            thread a tid=10
            thread b tid=11
             0 c0 idle started
             0 c0 idle switch a
            90 c0 a switch idle blocked
            99 c0 idle stopped";
        let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
        events.extend_from_slice(marks);
        events.sort_by_key(|event| event.at);
        read(&events)
    }

    fn marks() -> Vec<Event> {
        let states = [(10, 10, "s:x_begin"), (30, 10, "s:x_end"), (40, 11, "s:x_begin"), (80, 11, "s:x_end")];
        let mut marks: Vec<_> = states.iter().map(|&(at, thread, name)| mark(at, thread, name)).collect();
        marks.extend([mark(85, 11, "s:x_begin"), mark(20, 12, "s:beat"), mark(25, 12, "s:beat")]);
        marks
    }

    type Counted = (String, LatencySource, [u64; 4]);

    /// The targets with their count, sum, open and unseen.
    fn ask(
        recorded: &Recorded,
        target: &str,
        threads: ThreadFilter,
    ) -> Result<Vec<Counted>, RecordedLatencyError> {
        let targets = vec![target.to_owned()];
        let answer =
            recorded_latency(recorded, &RecordedQuery { targets, threads, ..RecordedQuery::default() })?;
        let counted = answer.targets.into_iter().map(|one| {
            let sums = [
                one.histogram.calls(),
                u64::try_from(one.histogram.sum()).expect("short"),
                one.open,
                one.unseen,
            ];
            (one.target, one.source, sums)
        });
        Ok(counted.collect())
    }

    #[test]
    fn states_count_for_the_chosen_threads_and_unknown_threads_count_with_all() {
        use LatencySource::{UserMarks, UserStates};
        let recorded = recorded(&marks());
        let of = |threads| ask(&recorded, "ust:s:x", threads).expect("states");
        let state = |sums| vec![(String::from("ust:s:x"), UserStates, sums)];
        assert_eq!(of(ThreadFilter::All), state([2, 60, 1, 0]));
        assert_eq!(of(ThreadFilter::Subject(Subject::Tid(Tid(11)))), state([1, 40, 1, 0]));
        // No recorded thread has the number 12.
        let beats = ask(&recorded, "ust:s:beat", ThreadFilter::All).expect("times");
        assert_eq!(beats, [(String::from("ust:s:beat"), UserMarks, [1, 5, 0, 0])]);
        let beats = ask(&recorded, "ust:s:beat", ThreadFilter::Subject(Subject::Tid(Tid(10))));
        assert_eq!(beats.expect("none")[0].2, [0; 4]);
        let all = ask(&recorded, "ust:*", ThreadFilter::All).expect("all");
        let names: Vec<_> = all.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["ust:s:beat", "ust:s:x", "ust:s:x_begin"], "those with times");
    }

    #[test]
    fn an_unknown_name_lists_all_names_and_a_trace_without_marks_says_so() {
        let says = |recorded: &Recorded, target| {
            ask(recorded, target, ThreadFilter::All).expect_err("no such name").to_string()
        };
        assert_eq!(
            says(&recorded(&marks()), "ust:s:y"),
            "there is no `ust:s:y` in this recording; available: `ust:s:beat`, `ust:s:x`, `ust:s:x_begin` and `ust:s:x_end`"
        );
        let mut without = recorded(&[]);
        assert_eq!(says(&without, "ust:s:x"), "no program's own marks were recorded");
        let apart =
            wakepath_event::Damage::in_file("ust".as_ref(), wakepath_event::DamageKind::ProgramsApart);
        let apart = crate::Problem::new(ProblemKind::Trace(apart), Stamp::MIN, Stamp::MIN);
        without.problems.push(apart);
        assert!(says(&without, "ust:s:x").starts_with("the programs' own marks are not read"));
    }
}
