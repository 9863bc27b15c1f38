//! The words for deaths and signals, in sentences and lines.

use wakepath_critical_path::{Cause, SegmentKind};
use wakepath_event::{CgroupId, NameSpace};
use wakepath_findings::testing::{ORIGIN, Story};
use wakepath_wait_graph::ThreadIndex;

use super::*;
use crate::sample::{Answered, command};
use crate::screen::Layout;
use crate::text::{Source, headline, path};

const OWN: ThreadIndex = ThreadIndex(0);
const WORKER: ThreadIndex = ThreadIndex(1);
const KILLER: ThreadIndex = ThreadIndex(2);

/// The answer for `sh` (7), with these deaths and signals; a worker (8) and a killer (9) are there.
fn answered<T>(deaths: &[WindowDeath], signals: &[Unheeded], take: impl FnOnce(&PathAnswer) -> T) -> T {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"sh", 7);
    story.thread(8, 7, b"worker\x1b", 7);
    story.thread(9, 1, b"killer", 7);
    story.name(NameSpace::MemoryCgroup, 5, "/system.slice/shop.service");
    story.then(1_000_000_000, own, None, SegmentKind::Running, Cause::None);
    let story = story.finish();
    let mut answer = story.answer(command());
    answer.deaths = deaths.to_vec();
    answer.unheeded = signals.to_vec();
    take(&answer)
}

fn at(ms: u64) -> Stamp<Reference> {
    Stamp::from_ns(ORIGIN + ms * 1_000_000)
}

fn dead(by: KilledBy) -> Death {
    Death { thread: WORKER, process: wakepath_event::Tid(8), at: at(500), taken: at(501), signal: 9, by }
}

fn awaited(waiter: ThreadIndex, by: AwaitedBy) -> DeathPart {
    DeathPart::Awaited(AwaitedWait { waiter, since: at(100), until: at(1000), by })
}

#[test]
fn a_death_names_its_killer_its_time_and_why_the_process_was_awaited() {
    let limit = |cgroup| Some(MemoryLimit { cgroup: CgroupId(cgroup), bytes: 20 << 20, is_high: false });
    let ended = DeathPart::EndedWait(5);
    for (by, part, expected) in [
        (KilledBy::Thread(KILLER), ended, "worker\\x1b (8) was killed by SIGKILL from killer (9)"),
        (KilledBy::Kernel, ended, "worker\\x1b (8) was killed by SIGKILL from the kernel"),
        (KilledBy::Itself, ended, "worker\\x1b (8) was killed by its own SIGKILL"),
        (KilledBy::Unknown, ended, "worker\\x1b (8) was killed by SIGKILL"),
        (KilledBy::NoMemory(None), ended, "worker\\x1b (8) was killed by the kernel: out of memory"),
        (
            KilledBy::NoMemory(limit(5)),
            ended,
            "worker\\x1b (8) was killed by the kernel: out of memory, memory limit of shop.service (21 MB)",
        ),
        (
            KilledBy::NoMemory(limit(6)),
            ended,
            "worker\\x1b (8) was killed by the kernel: out of memory, memory limit of a cgroup (21 MB)",
        ),
        (KilledBy::Unknown, DeathPart::Own, "it was killed by SIGKILL"),
        (
            KilledBy::Unknown,
            awaited(OWN, AwaitedBy::Holds),
            "nobody woke it: worker\\x1b (8), which holds the lock, was killed by SIGKILL",
        ),
        (
            KilledBy::Unknown,
            awaited(OWN, AwaitedBy::Writes),
            "nobody woke it: worker\\x1b (8), which could write to the pipe, was killed by SIGKILL",
        ),
        (
            KilledBy::Unknown,
            awaited(KILLER, AwaitedBy::WokeBefore(2)),
            "nobody woke killer (9): worker\\x1b (8), which had ended 2 waits like this, was killed by SIGKILL",
        ),
        (
            KilledBy::Unknown,
            awaited(OWN, AwaitedBy::Unanswered(at(10))),
            "nobody woke it: worker\\x1b (8), which had work from it since 10.0 ms after the start, was killed by SIGKILL",
        ),
    ] {
        let it = WindowDeath { death: dead(by), part };
        let inferred = if matches!(part, DeathPart::Awaited(_)) { " (inferred)" } else { "" };
        let expected = format!("{expected} 500 ms after the start{inferred}");
        answered(&[it], &[], |answer| {
            assert_eq!(death(answer, &it), expected);
            let sentence = headline(answer).into_plain();
            assert_eq!(sentence, format!("sh took 1.00 s: mostly running (100%, measured); {expected}"));
        });
    }
}

#[test]
fn a_signal_without_effect_has_its_reason_and_the_end_of_the_process() {
    let killed = LivedUntil::Killed(dead(KilledBy::Thread(KILLER)));
    let by_same = LivedUntil::Killed(Death { signal: 15, ..dead(KilledBy::Thread(KILLER)) });
    for (why, end, expected) in [
        (
            LivesOn::Ignores,
            killed,
            "had no effect (it ignores the signal); it lived 600 ms longer, until it was killed by SIGKILL from killer (9)",
        ),
        (
            LivesOn::HandlerRan,
            LivedUntil::Lives,
            "had no effect (its handler ran); it still lived 600 ms later",
        ),
        (
            LivesOn::HandlerRan,
            LivedUntil::Exited,
            "did not end it at once (its handler ran); it ended 600 ms later",
        ),
        (LivesOn::NotTaken, by_same, "did not end it at once (no thread took it); it ended 600 ms later"),
        (
            LivesOn::FirstInNamespace,
            LivedUntil::Lives,
            "had no effect (it is the first process in its PID namespace and has no handler); it still lived 600 ms later",
        ),
    ] {
        let signal = Unheeded {
            target: WORKER,
            sender: Some(KILLER),
            signal: 15,
            at: at(10),
            why,
            end,
            lived_ns: 600_000_000,
        };
        let expected = format!("SIGTERM to worker\\x1b (8) {expected}");
        answered(&[], &[signal], |answer| {
            assert_eq!(unheeded(answer, &signal), expected);
            let sentence = headline(answer).into_plain();
            assert_eq!(sentence, format!("sh took 1.00 s: mostly running (100%, measured); {expected}"));
        });
        // With less than half of the window it has a line, with less than a tenth none.
        for (ms, lines) in [(499, 1), (100, 1), (99, 0)] {
            let short = Unheeded { lived_ns: ms * 1_000_000, ..signal };
            answered(&[], &[short], |answer| {
                assert!(!headline(answer).into_plain().contains("SIGTERM"), "{ms}");
                let screen = path(answer, Source::Read(""), Layout::PLAIN);
                assert_eq!(screen.matches("SIGTERM to worker").count(), lines, "{ms}: {screen}");
            });
        }
    }
}

#[test]
fn further_deaths_have_a_line_each_up_to_five() {
    let it = WindowDeath { death: dead(KilledBy::Unknown), part: DeathPart::EndedWait(5) };
    for (deaths, lines) in [(1, 1), (3, 3), (9, 6)] {
        answered(&vec![it; deaths], &[], |answer| {
            let screen = path(answer, Source::Read(""), Layout::PLAIN);
            assert_eq!(screen.matches("was killed by").count(), lines, "{screen}");
        });
    }
}
