//! The first sentence on the first screen: the subject, its time, and the main reason.

use wakepath_critical_path::Hang;
use wakepath_engine::{PathAnswer, Question};
use wakepath_findings::{Certainty, ChildWait, Headline, LeftAlone, RowKey, WindowEnd};

use super::deaths::first_words;
use super::hangs::{reason, waits};
use crate::screen::{Line, Style};
use crate::units::{duration, rough_share};
use crate::wording;

/// A sentence: the subject, its time, the main reason, and the certainty.
pub fn headline(answer: &PathAnswer) -> Line {
    let (took, findings) = (answer.window_ns(), answer.findings());
    let Headline { end, largest, through, .. } = &findings.headline;
    let subject = match &answer.question {
        Question::Command { .. } if answer.subject().comm.bytes().is_empty() => String::from("the command"),
        Question::Command { .. } => wording::title(&answer.subject()),
        Question::Thread => wording::who(answer.recorded, &answer.subject()),
        Question::Request { service, operation, .. } => {
            format!("{} {}", wording::name(service), wording::name(operation))
        }
    };
    let mut line = end_of_window(answer, *end, &subject);
    let Some((finding, part)) = largest.as_ref().and_then(|part| Some((findings.rows.get(part.row)?, part)))
    else {
        return line.add(Style::Normal, ": the window is empty");
    };
    let whose = match end {
        WindowEnd::DescendantKilled => format!("the {} of {subject}", duration(took)),
        WindowEnd::Over | WindowEnd::StillWaiting | WindowEnd::Killed => format!("its {}", duration(took)),
    };
    let lead = match (end, part.is_most) {
        (WindowEnd::Over, true) => String::from(": mostly "),
        (WindowEnd::Over, false) => String::from(", the largest part: "),
        (_, true) => format!("; {whose} were mostly "),
        (_, false) => format!("; the largest part of {whose}: "),
    };
    line.push(Style::Normal, lead);
    line.push(Style::Strong, wording::blamed(&answer.evidence(), &finding.key, &finding.row, part));
    let certainty = match (&finding.key, part.certainty) {
        // Nothing has been measured where nothing is known.
        (RowKey::Unknown(_), Certainty::Measured) => String::new(),
        (_, certainty) => format!(", {}", wording::certainty(certainty)),
    };
    // The row's time is another.
    let is_piece = part.ns < finding.row.total_ns - finding.row.total_ns / 100;
    let time = if is_piece { format!("{}, ", duration(part.ns)) } else { String::new() };
    line.push(Style::Normal, format!(" ({time}{}{certainty})", rough_share(part.ns, took)));
    if let Some(chain) = through {
        line.push(Style::Normal, format!(", through {}", wording::chain(&answer.evidence(), chain)));
    }
    let full_queue = findings.headline.full_queue.map(|by| {
        let who = wording::who(answer.recorded, &answer.thread(by));
        format!("the accept queue of {who} was full, at a unix socket (inferred)")
    });
    for words in full_queue.into_iter().chain(first_words(answer)) {
        line.push(Style::Normal, "; ");
        line.push(Style::Strong, words);
    }
    line
}

/// The sentence's subject, and the end of its window: `checkout took 1.19 s`.
fn end_of_window(answer: &PathAnswer, end: WindowEnd, subject: &str) -> Line {
    let at = answer.path.window.to;
    let waits_of = |hang: Option<&Hang>| hang.map_or(String::new(), |hang| waits(answer.recorded, hang, at));
    let killed = || answer.killed.as_ref();
    let by = || killed().map_or(String::new(), |hang| killed_by(answer, hang));
    let took = || Line::strong(format!("{subject} took {}", duration(answer.window_ns())));
    match end {
        WindowEnd::Over => took(),
        WindowEnd::StillWaiting => {
            let waits = waits_of(answer.still_waiting.as_ref());
            Line::strong(format!("{subject} is still waiting after {waits}{}", for_child(answer)))
        }
        WindowEnd::Killed => {
            let waits = waits_of(killed()) + &for_child(answer);
            Line::strong(format!("{subject} was {} while waiting {waits}", by()))
        }
        WindowEnd::DescendantKilled => {
            let thread = killed().map(|other| answer.recorded.thread_at(other.thread, at));
            let who = thread.map_or(String::new(), |thread| wording::who(answer.recorded, &thread));
            let line = took().add(Style::Normal, "; ");
            let waits = waits_of(killed()) + &for_child(answer);
            line.add(Style::Strong, format!("{who} was {} while waiting {waits}", by()))
        }
    }
}

/// Behind a last wait: why nobody could wake the thread. Behind a wait for a child's end: ` for its child python3 (813), which waited 470 ns in futex 0x1000`, and so on; else empty.
fn for_child(answer: &PathAnswer) -> String {
    let at = answer.path.window.to;
    let is_open = answer.still_waiting.is_some();
    let child = |wait: &ChildWait| {
        let who = wording::who(answer.recorded, &answer.recorded.thread_at(wait.hang.thread, at));
        let does = if is_open { "waits" } else { "waited" };
        let until = answer.killed.as_ref().and_then(|hang| hang.killed).map_or(at, |killed| killed.at);
        let time = duration(until.since(wait.hang.since));
        let reason = reason(answer.recorded, &wait.hang, at);
        format!(" for its child {who}, which {does} {time} {reason}{}", alone(wait.left_alone))
    };
    alone(answer.left_alone).to_owned() + &answer.child_waits.iter().map(child).collect::<String>()
}

/// Why nobody could wake a thread, behind its wait; else empty.
const fn alone(how: Option<LeftAlone>) -> &'static str {
    match how {
        Some(LeftAlone::Forked) => {
            ", with no other thread to end the wait: the fork that began it may have copied a held lock (inferred)"
        }
        Some(LeftAlone::NotForked) => ", with no other thread to end the wait (inferred)",
        None => "",
    }
}

/// `killed by SIGINT from bash (812)`.
fn killed_by(answer: &PathAnswer, hang: &Hang) -> String {
    let at = answer.path.window.to;
    // The thread that sent the signal needed memory, and killed nobody.
    if let Some(death) = &answer.killed_for_memory {
        return wording::death::killed_by(answer.recorded, death, at);
    }
    let by = hang.killed.map(|killed| wording::signal_sent(answer.recorded, &killed.by, at));
    format!("killed by {}", by.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use wakepath_critical_path::{Cause, SegmentKind, Via};
    use wakepath_findings::testing::{FUTEX, Story, call, disk};

    use crate::sample::{Answered, command, path_of};
    use crate::screen::Layout;
    use crate::text::{Source, path};

    #[test]
    fn a_wait_for_a_child_s_end_goes_on_to_the_child_s_wait() {
        const FORKED: &str = "
            thread parent tid=10
            thread holder tid=11 tgid=10 blocked=interruptible call=230:0
            thread killer tid=99
            0 c0 idle started
            0 c1 idle switch killer
            0 c0 idle switch parent
            10 c0 parent fork child tid=20 parent=10
            20 c0 parent switch child blocked=interruptible call=61:20
            30 c0 child switch idle blocked=interruptible call=202:0x1000 private
            500 c1 killer waking parent
            501 c0 idle switch parent
            502 c0 parent signal 15 cut=61 sent=500 by=killer
            503 c0 parent exit
            504 c0 parent switch idle dead
            900 c0 idle stopped
        ";
        let killed =
            "parent (10) was killed by SIGTERM from killer (99) while waiting 480 ns in wait4 for its child";
        let copied = ": the fork that began it may have copied a held lock (inferred);";
        let alone = "child (20), which waited 470 ns in futex, with no other thread to end the wait";
        let open =
            FORKED.split("            500 c1").next().expect("a part").to_owned() + "900 c0 idle stopped\n";
        let open_alone = alone.replace("waited 470", "waits 870");
        let holder = "            thread holder tid=11 tgid=10 blocked=interruptible call=230:0\n";
        for (trace, expected) in [
            (FORKED.to_owned(), format!("{killed} {alone}{copied}")),
            (FORKED.replace(holder, ""), format!("{killed} {alone} (inferred);")),
            (
                FORKED.replace("private", "op=128"),
                format!("{killed} child (20), which waited 470 ns in futex;"),
            ),
            (
                FORKED.replace("61:20", "0:3").replace("cut=61", "cut=0"),
                killed.replace("wait4 for its child", "read;"),
            ),
            (
                FORKED.replace("call=61:20", "call=202:0x1000 private").replace("cut=61", "cut=202"),
                "while waiting 480 ns in futex; its".to_owned(),
            ),
            (
                FORKED
                    .replace("call=61:20", "call=202:0x1000 private")
                    .replace("cut=61", "cut=202")
                    .replace(holder, ""),
                "while waiting 480 ns in futex, with no other thread to end the wait (inferred);".to_owned(),
            ),
            (open, format!("is still waiting after 880 ns in wait4 for its child {open_alone}{copied}")),
        ] {
            path_of(&trace, 10, |answer| {
                let text = path(answer, Source::Read(""), Layout::PLAIN);
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(text.contains(&expected), "{expected}: {text}");
            });
        }
    }

    /// The first screen for a window in which `checkout`, a thread in process 7, runs for `own_ns`, then waits
    /// while other threads (name, tid, process, ns) run.
    fn waited_for(own_ns: u64, others: &[(&str, u32, u32, u64)]) -> String {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"checkout", 7);
        let others: Vec<_> = others
            .iter()
            .map(|&(name, tid, tgid, ns)| {
                let parent = if tgid == 7 { 1 } else { 7 };
                (story.thread_of(tgid, tid, parent, name.as_bytes(), 7), ns)
            })
            .collect();
        story.then(own_ns, own, None, SegmentKind::Running, Cause::None);
        for (other, ns) in others {
            let wait = story.wait(ns, own, None, call(FUTEX, 3), Via::Wakeup, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        let screen = path(&story.finish().answer(command()), Source::Read(""), Layout::PLAIN);
        screen.split("\n2026").next().expect("a sentence").replace('\n', " ")
    }

    #[test]
    fn the_headline_says_that_the_asked_thread_waited_while_others_ran() {
        for (own, others, expected) in [
            (60, &[("inventory", 8, 7, 40)][..], "mostly running (60%, measured)"),
            (
                40,
                &[("inventory", 8, 7, 60)],
                "mostly waiting for inventory, which was running (60%, measured)",
            ),
            (
                40,
                &[("checkout", 8, 7, 60)],
                "mostly waiting for another of its threads, which was running (60 ns, 60%, measured)",
            ),
            (
                40,
                &[("checkout", 8, 7, 30), ("checkout", 9, 7, 30)],
                "mostly waiting for 2 of its other threads, which were running (60 ns, 60%, measured)",
            ),
            (
                40,
                &[("checkout", 8, 8, 60)],
                "mostly waiting for another process of its name, which was running (60 ns, 60%, measured)",
            ),
            (
                40,
                &[("checkout", 8, 8, 30), ("checkout", 9, 9, 30)],
                "mostly waiting for 2 other processes of its name, which were running (60 ns, 60%, measured)",
            ),
            // The row's time is nearly the same.
            (
                1,
                &[("checkout", 8, 7, 99)],
                "mostly waiting for another of its threads, which was running (99%, measured)",
            ),
            (
                2,
                &[("checkout", 8, 7, 98)],
                "mostly waiting for another of its threads, which was running (98 ns, 98%, measured)",
            ),
            (40, &[("gzip", 8, 8, 60)], "mostly waiting for gzip (8), which was running (60%, measured)"),
            (
                40,
                &[("cc1", 8, 8, 30), ("cc1", 9, 9, 30)],
                "mostly waiting for cc1 (2 processes), which were running (60%, measured)",
            ),
            (
                40,
                &[("worker", 8, 7, 30), ("worker", 9, 7, 30)],
                "mostly waiting for worker (2 threads), which were running (60%, measured)",
            ),
            // The row has 85%, but neither of its parts is most of the window: this is not "mostly running".
            (
                45,
                &[("checkout", 8, 7, 40), ("other", 9, 7, 15)],
                ", the largest part: running (45 ns, 45%, measured)",
            ),
            (
                40,
                &[("checkout", 8, 7, 45), ("other", 9, 7, 15)],
                ", the largest part: waiting for another of its threads, which was running (45 ns, 45%, measured)",
            ),
        ] {
            let screen = waited_for(own, others);
            let separator = if expected.starts_with(',') { "" } else { ": " };
            assert_eq!(screen, format!("checkout took 100 ns{separator}{expected}"), "{own} {others:?}");
        }
    }

    #[test]
    fn the_headline_says_what_another_thread_did_only_where_that_says_nothing_of_the_asked_one() {
        for (kind, expected) in [
            (SegmentKind::Timer, "waiting for helper, which was sleeping until a timer (84 ns, 84%"),
            (SegmentKind::Runnable, "waiting for helper, which was waiting for a CPU (84 ns, 84%"),
            (
                SegmentKind::Throttled,
                "waiting for helper, which was not allowed to run: CPU limit (84 ns, 84%",
            ),
            (SegmentKind::Interrupted, "waiting for helper, which was interrupted (84 ns, 84%"),
            // For these, the asked thread waits, too.
            (SegmentKind::BlockDevice, "waiting for a disk (100%"),
            (SegmentKind::Lock, "waiting for a lock (100%"),
            (SegmentKind::UserInput, "waiting for a person (100%"),
        ] {
            let mut story = Story::default();
            let own = story.thread(7, 1, b"checkout", 7);
            let helper = story.thread_of(7, 8, 1, b"helper", 7);
            let rare = story.thread_of(7, 9, 1, b"rare", 7);
            for (ns, thread) in [(80, helper), (4, rare)] {
                let wait = story.wait(ns, own, None, call(FUTEX, 3), Via::Wakeup, thread);
                story.then(ns, thread, Some(wait), kind, Cause::None);
            }
            story.then(16, own, None, kind, Cause::None);
            let screen = path(&story.finish().answer(command()), Source::Read(""), Layout::PLAIN);
            let start = format!("checkout took 100 ns: mostly {expected}");
            assert!(screen.replace('\n', " ").starts_with(&start), "{start}: {screen}");
        }
    }

    /// A journal's thread sleeps for `before` ns, then waits `after` ns for the disk.
    #[test]
    fn a_disk_is_blamed_only_where_it_took_at_least_half_of_the_waits_for_it() {
        for (before, after, expected) in [
            (60, 40, "mostly waiting in kernel threads before disk 8:0 (100%"),
            (50, 50, "mostly waiting in fdatasync for disk 8:0 (100%"),
            (0, 100, "mostly waiting in fdatasync for disk 8:0 (100%"),
        ] {
            let mut story = Story::default();
            let own = story.thread(7, 1, b"checkout", 7);
            let worker = story.thread(80, 2, b"kworker/1:3", 0);
            let wait = story.wait(100, own, None, call(75, 5), Via::Wakeup, worker);
            if before > 0 {
                story.then(before, worker, Some(wait), SegmentKind::Timer, Cause::None);
            }
            story.then(after, worker, Some(wait), SegmentKind::BlockDevice, disk(false));
            let screen = path(&story.finish().answer(command()), Source::Read(""), Layout::PLAIN);
            let start = format!("checkout took 100 ns: {expected}");
            assert!(screen.replace('\n', " ").starts_with(&start), "{start}: {screen}");
        }
    }

    #[test]
    fn unknown_time_is_not_called_measured() {
        let words = |cause| {
            let mut story = Story::default();
            let own = story.thread(7, 1, b"checkout", 7);
            story.then(60, own, None, SegmentKind::Unknown, cause);
            story.then(40, own, None, SegmentKind::Running, Cause::None);
            super::headline(&story.finish().answer(command())).into_plain()
        };
        let told = words(Cause::BeforeRecording);
        assert_eq!(told, "checkout took 100 ns: mostly unknown: the wait began before the recording (60%)");
        assert_eq!(words(Cause::None), "checkout took 100 ns: mostly unknown (60%)");
    }

    #[test]
    fn a_command_without_a_name_and_a_window_without_time_have_their_own_words() {
        let words = |name: &[u8], own_ns| {
            let mut story = Story::default();
            let own = story.thread(7, 1, name, 7);
            if own_ns > 0 {
                story.then(own_ns, own, None, SegmentKind::Running, Cause::None);
            }
            super::headline(&story.finish().answer(command())).into_plain()
        };
        assert_eq!(words(b"checkout", 100), "checkout took 100 ns: mostly running (100%, measured)");
        assert_eq!(words(b"", 100), "the command took 100 ns: mostly running (100%, measured)");
        assert_eq!(words(b"checkout", 0), "checkout took 0 ns: the window is empty");
    }
}
