//! The first screen: why a window took its time.

use std::collections::BTreeSet;

use wakepath_engine::{Algorithm, Name, PathAnswer, Question};
use wakepath_event::Comm;

use super::hangs::{deadlocks, waits};
use super::{Source, footer, when};
use crate::places::{places, sites};
use crate::rows::{Party, Row, Waits, rows};
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{count, duration, rough_share, share};
use crate::wording;

/// Rows below this part of the window, and beyond this many, are put together.
const MIN_ROW_SHARE: f64 = 0.0005;
const MAX_ROWS: usize = 12;
/// Time-outs amid waits are told from this part of the window on.
const MIN_SHOWN_SHARE: f64 = 0.01;
/// The column in which a row's text begins.
const TEXT: usize = 17;

/// The first screen.
pub fn path(answer: &PathAnswer, source: Source<'_>, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let rows = rows(answer);
    screen.wrapped(0, &headline(answer, rows.first()));
    let window = answer.path.window;
    screen.wrapped(0, &Line::new().add(Style::Faint, when(&answer.head, window.from, window.to)));
    screen.blank();
    deadlocks(&mut screen, answer.recorded, &answer.deadlocks, window.to);
    table(&mut screen, answer, &rows);
    screen.blank();
    footer::problems(&mut screen, &answer.head);
    screen.wrapped(0, &footer::trust(answer));
    if !answer.sampled.is_empty() {
        let text = "~ sampled; everything else timed at each switch";
        screen.wrapped(0, &Line::new().add(Style::Faint, text));
    }
    timed_out(&mut screen, answer, source);
    let next = match answer.path.algorithm {
        Algorithm::Active => "--tree",
        Algorithm::Joined => "--join-timeouts --tree",
        Algorithm::Exact => "--exact --tree",
    };
    footer::next(&mut screen, source, answer.recorded, Some(String::from(next)));
    screen.into_text()
}

/// Which timers only cut a longer wait into pieces: whoever blames them looks in the wrong place.
fn timed_out(screen: &mut Screen, answer: &PathAnswer, source: Source<'_>) {
    let told = answer.timed_out_ns as f64 >= answer.window_ns() as f64 * MIN_SHOWN_SHARE;
    if answer.timed_out_ns == 0 || !told {
        return;
    }
    let mut line = Line::from(format!(
        "{} of the timers only interrupted a wait that then went on; what for: ",
        duration(answer.timed_out_ns)
    ));
    line.push(Style::Normal, format!("wakepath path{} --join-timeouts", source.argument()));
    screen.wrapped(0, &line);
}

/// One sentence: what took how long, mostly why, and how well that is known.
fn headline(answer: &PathAnswer, first: Option<&(Party, Row)>) -> Line {
    let took = answer.window_ns();
    let subject = match &answer.question {
        Question::Command { .. } => wording::comm(answer.subject().comm),
        Question::Thread => wording::who(answer.recorded, &answer.subject()),
    };
    let mut line = Line::new();
    if let Some(hang) = &answer.still_waiting {
        let waits = waits(answer.recorded, hang, answer.path.window.to);
        line.push(Style::Strong, format!("{subject} is still waiting after {waits}"));
        line.push(Style::Normal, format!("; its {} were", duration(took)));
    } else {
        line.push(Style::Strong, format!("{subject} took {}", duration(took)));
    }
    let Some((party, row)) = first else { return line.add(Style::Normal, ", an empty window") };
    let mostly = if row.total_ns > took / 2 { "mostly " } else { "most of all " };
    line.push(Style::Normal, if answer.still_waiting.is_some() { " " } else { ": " });
    line.push(Style::Normal, mostly);
    let what = match party {
        Party::StillWaiting if answer.still_waiting.is_some() => String::from("this wait"),
        party => short(answer, party, row),
    };
    line.push(Style::Strong, what);
    line.add(Style::Normal, format!(" ({}, {})", rough_share(row.total_ns, took), row.basis.word()))
}

/// A party in the headline.
pub(super) fn short(answer: &PathAnswer, party: &Party, row: &Row) -> String {
    let or = |name: &Option<String>, other: &str| name.clone().unwrap_or_else(|| String::from(other));
    match party {
        Party::Running(_) => String::from("running"),
        Party::Interrupts => String::from("interrupted"),
        Party::Hypervisor => String::from("CPU taken by the hypervisor"),
        Party::Cpu => String::from("waiting for a CPU"),
        Party::Limit(limit) => format!("not allowed to run: CPU limit{}", of(limit.as_deref())),
        Party::Disk(disk) => format!(
            "waiting for {}",
            disk.as_ref().map_or(String::from("a disk"), |disk| format!("disk {disk}"))
        ),
        Party::Timer => String::from("sleeping until a timer"),
        Party::Network(peer) => format!(
            "waiting for the network{}",
            peer.as_ref().map_or(String::new(), |peer| format!(", {peer}"))
        ),
        Party::Lock => String::from("waiting for a lock"),
        Party::Person => String::from("waiting for a person"),
        Party::Device(device) => format!("waiting for {}", or(device, "a device")),
        Party::Process(comm, host) => {
            format!("waiting for {}{}", process(answer, &wording::comm(*comm), row), on(host.as_ref()))
        }
        Party::KernelThread(comm) => format!("waiting for kernel thread {}", wording::comm(*comm)),
        Party::StillWaiting => String::from("still waiting when the window closed"),
        Party::Unknown(why) => {
            format!("unknown{}", why.as_ref().map_or(String::new(), |why| format!(": {why}")))
        }
    }
}

/// Which host, where it is another one.
fn on(host: Option<&Name>) -> String {
    host.map(|host| format!(" on {}", wording::name(host))).unwrap_or_default()
}

fn of(name: Option<&str>) -> String {
    name.map(|name| format!(" of {name}")).unwrap_or_default()
}

/// Another process: `postgres (912) in postgresql.service`, `cc1 (12 processes)`.
fn process(answer: &PathAnswer, comm: &str, row: &Row) -> String {
    let mut text = match (row.processes.len(), row.processes.first()) {
        (1, Some(tgid)) => format!("{comm} ({tgid})"),
        // Nobody ever said whose threads these are, nor, mostly, what they are called.
        (0, _) => {
            let mut tids = row.threads.iter().map(|&index| answer.thread(index).tid);
            match (tids.next(), tids.next()) {
                (Some(tid), None) => {
                    format!("{comm} thread {tid} of an unknown process").trim_start().to_owned()
                }
                _ => format!("{comm} {} threads of unknown processes", row.threads.len())
                    .trim_start()
                    .to_owned(),
            }
        }
        (n, _) => format!("{comm} ({n} processes)"),
    };
    let names = &answer.recorded.survey.names;
    let own = names.unit(&answer.subject());
    let member = row.threads.iter().map(|&index| answer.thread(index)).find(|who| !who.kernel);
    if let Some(unit) = member.and_then(|who| names.unit(&who)).filter(|unit| Some(unit) != own.as_ref()) {
        text += &format!(" in {}", wording::unit(&unit));
    }
    text
}

fn table(screen: &mut Screen, answer: &PathAnswer, rows: &[(Party, Row)]) {
    let window = answer.window_ns();
    screen.unwrapped(&Line::new().add(Style::Faint, " share     time  what the time went to, largest first"));
    let is_shown = |(i, (_, row)): &(usize, &(Party, Row))| {
        *i < MAX_ROWS && row.total_ns as f64 >= window as f64 * MIN_ROW_SHARE
    };
    for (_, (party, row)) in rows.iter().enumerate().filter(is_shown) {
        screen.hanging(&figures(row.total_ns, window), TEXT, &what(answer, party, row));
        for line in details(answer, party, row) {
            screen.hanging(&Line::from(" ".repeat(TEXT)), TEXT, &line);
        }
    }
    let rest: Vec<_> =
        rows.iter().enumerate().filter(|row| !is_shown(row)).map(|(_, (_, row))| row).collect();
    if !rest.is_empty() {
        let total = rest.iter().map(|row| row.total_ns).sum();
        let text = format!("{} in all: wakepath path --tree", count(rest.len() as u64, "smaller part"));
        screen.hanging(&figures(total, window), TEXT, &Line::new().add(Style::Faint, text));
    }
}

fn figures(ns: u64, window: u64) -> Line {
    let text = format!("{:>6}  {:>7}  ", share(ns, window), duration(ns));
    Line::new().add(Style::Strong, text)
}

/// A row's first line.
fn what(answer: &PathAnswer, party: &Party, row: &Row) -> Line {
    let mut text = match party {
        Party::Running(comm) => format!("running {}{}", wording::comm(*comm), processes(row)),
        Party::Process(..) => {
            let mut text = format!("{}{}", short(answer, party, row), calls(row));
            if row.parts.len() == 1 {
                text += &format!(": {}", row.parts.keys().next().map_or("", String::as_str));
            }
            text
        }
        Party::Disk(_) => short(answer, party, row).replacen("waiting for ", "", 1),
        Party::Limit(_) => format!("{}, {}", short(answer, party, row), times(row.stretches)),
        _ => short(answer, party, row),
    };
    if !matches!(party, Party::Process(..)) {
        text += &calls(row);
    }
    if !matches!(party, Party::Process(..) | Party::Running(_)) {
        text += &users(answer, row);
    }
    if matches!(party, Party::Disk(_)) && !row.through.is_empty() {
        text += &format!(", through {}", list(row.through.iter().map(String::as_str), 2));
    }
    let mut line = Line::from(text);
    let basis = row.basis.word();
    if basis != "measured" {
        line.push(Style::Faint, format!("  {basis}"));
    }
    line
}

fn processes(row: &Row) -> String {
    match row.processes.len() {
        0 | 1 => String::new(),
        n => format!(" ({n} processes)"),
    }
}

/// Whose time it was, where that is not the asked thread alone: ` (dd)`.
fn users(answer: &PathAnswer, row: &Row) -> String {
    let subject = answer.subject().comm;
    if row.users.keys().all(|user| *user == subject) {
        return String::new();
    }
    let mut users: Vec<_> = row.users.iter().collect();
    users.sort_by_key(|(user, ns)| (std::cmp::Reverse(**ns), **user));
    let names: Vec<String> = users.iter().map(|(user, _)| wording::comm(**user)).collect();
    format!(" ({})", list(names.iter().map(String::as_str), 3))
}

fn times(n: u64) -> String {
    if n == 1 { String::from("once") } else { format!("{n} times") }
}

/// The waits of a row: `, 14 waits in fdatasync of orders.db and 3 in read`. One call may wait several times.
fn calls(row: &Row) -> String {
    let mut calls: Vec<_> = row.calls.iter().collect();
    calls.sort_by_key(|(name, waits)| (std::cmp::Reverse(waits.ns), *name));
    // A wait counts in the row of its first segment; here may be the rest of it.
    let mut said = false;
    let tell = |(name, waits): &(&String, &Waits)| match waits.count {
        0 => (*name).clone(),
        _ if std::mem::replace(&mut said, true) => format!("{} in {name}", waits.count),
        _ => format!("{} in {name}", count(waits.count, "wait")),
    };
    let told: Vec<String> = calls.iter().take(2).map(tell).collect();
    let more = calls.len().saturating_sub(told.len());
    match (told.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(", {}", told.join(" and ")),
        (false, more) => format!(", {} and {}", told.join(", "), count(more as u64, "other call")),
    }
}

/// The lines under a row: what its time consists of.
fn details(answer: &PathAnswer, party: &Party, row: &Row) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Party::Running(comm) = party {
        lines.extend(places(&answer.sampled, *comm, |thread| row.threads.contains(&thread)).map(Line::from));
    }
    lines.extend(consists_of(party, row));
    lines.extend(sites(&answer.stacks, &row.sites, "waits").map(Line::from));
    if let Party::Process(..) = party {
        let ran =
            row.threads.iter().flat_map(|thread| answer.sampled.keys().filter(move |(of, _)| of == thread));
        let comms: BTreeSet<Comm> = ran.map(|(_, comm)| *comm).collect();
        let seen = comms
            .iter()
            .filter_map(|comm| places(&answer.sampled, *comm, |thread| row.threads.contains(&thread)));
        lines.extend(seen.map(Line::from));
    }
    lines
}

fn consists_of(party: &Party, row: &Row) -> Vec<Line> {
    if row.parts.len() < 2 && !matches!(party, Party::Cpu | Party::Lock) {
        return Vec::new();
    }
    let mut parts: Vec<_> = row.parts.iter().collect();
    parts.sort_by_key(|(name, ns)| (std::cmp::Reverse(**ns), *name));
    const TOLD: usize = 4;
    let mut told: Vec<String> = parts.iter().take(TOLD).map(|(name, ns)| part(party, name, **ns)).collect();
    if let Some(more @ 1..) = parts.len().checked_sub(TOLD) {
        let rest = parts.iter().skip(TOLD).map(|(_, ns)| **ns).sum();
        told.push(format!("{} {}", count(more as u64, "other"), duration(rest)));
    }
    let lead = match party {
        Party::Cpu => "it had: ",
        _ => "",
    };
    vec![Line::from(format!("{lead}{}", told.join(", ")))]
}

fn part(party: &Party, name: &str, ns: u64) -> String {
    match party {
        Party::Process(..) => format!("{} {name}", duration(ns)),
        _ => format!("{name} {}", duration(ns)),
    }
}

fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let told: Vec<&str> = names.take(most).collect();
    if let (0, [first @ .., last]) = (more, told.as_slice()) {
        if first.is_empty() { (*last).to_owned() } else { format!("{} and {last}", first.join(", ")) }
    } else {
        format!("{} and {more} more", told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{DEADLOCK, Story, checkout, checkout_stacks, command, path_of};
    use expect_test::{Expect, expect};
    use wakepath_critical_path::{Cause, SegmentKind};

    fn check(answer: &PathAnswer, expected: Expect) {
        let text = path(answer, Source::Read(""), Layout::PLAIN);
        expected.assert_eq(&text);
    }

    #[test]
    fn the_first_screen_answers() {
        check(
            &checkout().answer(command()),
            expect![[r#"
                checkout took 1.19 s: mostly waiting for disk sda (61%, mostly measured)
                2026-11-21 02:58:41.310 to 02:58:42.502 UTC on web3

                 share     time  what the time went to, largest first
                 61.1%   728 ms  disk sda, 14 waits in fdatasync of orders.db, through jbd2/sda1-8  mostly measured
                                 device 686 ms, queue 28.0 ms, kernel thread 14.0 ms
                 20.1%   240 ms  running checkout
                                 ~ 23 of 24 samples in compress_block (libz.so.1), from main checkout.c:88
                 10.9%   130 ms  not allowed to run: CPU limit of shop.service (50.0 ms per 100 ms), 5 times
                  7.4%  88.0 ms  waiting for postgres (912) in postgresql.service, 1 wait in read on tcp
                                 10.0.0.3:5432
                                 61.0 ms in fdatasync of pg_wal, 27.0 ms running
                                 ~ 3 of 3 samples in XLogInsert (libz.so.1), from main postgres.c:88
                  0.3%  4.00 ms  unknown: wait began before the recording, 1 wait in read
                  0.2%  2.10 ms  waiting for a CPU
                                 it had: stress 2.00 ms, idle CPU 100 µs

                lost 0 records; recording took 1.2% of a CPU
                ~ sampled; everything else timed at each switch
                next: wakepath path --tree
            "#]],
        );
    }

    #[test]
    fn a_row_names_the_function_that_waited() {
        let mut story = checkout();
        story.stacks = checkout_stacks;
        let text = path(&story.answer(command()), Source::Read(""), Layout::PLAIN);
        let from = text.find("disk sda, ").expect("the row");
        expect![[r#"
            disk sda, 14 waits in fdatasync of orders.db, through jbd2/sda1-8  mostly measured
                             device 686 ms, queue 28.0 ms, kernel thread 14.0 ms
                             13 of 14 waits in save_order (checkout), from main checkout.c:88
             20.1%   240 ms  running checkout
                             ~ 23 of 24 samples in compress_block (libz.so.1), from main checkout.c:88
             10.9%   130 ms  not allowed to run: CPU limit of shop.service (50.0 ms per 100 ms), 5 times
              7.4%  88.0 ms  waiting for postgres (912) in postgresql.service, 1 wait in read on tcp
                             10.0.0.3:5432
                             61.0 ms in fdatasync of pg_wal, 27.0 ms running
                             1 of 1 waits in ask_bank (checkout), from main checkout.c:88
                             ~ 3 of 3 samples in XLogInsert (libz.so.1), from main postgres.c:88
              0.3%  4.00 ms  unknown: wait began before the recording, 1 wait in read
                             1 of 1 waits in postgres, which was replaced since, its callers unknown: no frame
                             pointers
              0.2%  2.10 ms  waiting for a CPU
                             it had: stress 2.00 ms, idle CPU 100 µs

            lost 0 records; recording took 1.2% of a CPU
            ~ sampled; everything else timed at each switch
            next: wakepath path --tree
        "#]]
        .assert_eq(&text[from..]);
    }

    #[test]
    fn a_process_named_with_terminal_escapes_prints_as_text() {
        let mut story = Story::new();
        let evil = story.thread(7, 1, b"\x1b[2J\x1b[1;1H\xff", 0);
        let worse = story.thread(8, 1, "\u{9b}2J\u{202e}".as_bytes(), 0);
        story.then(10, evil, None, SegmentKind::Running, Cause::None);
        story.then(10, evil, None, SegmentKind::Runnable, Cause::Competitor(worse));
        check(
            &story.told().answer(command()),
            expect![[r#"
                \x1b[2J\x1b[1;1H\xff took 20 ns: most of all running (50%, measured)
                2026-11-21 02:58:41.310000000 to 02:58:41.310000020 UTC on web3

                 share     time  what the time went to, largest first
                 50.0%    10 ns  running \x1b[2J\x1b[1;1H\xff
                 50.0%    10 ns  waiting for a CPU
                                 it had: \u{9b}2J\u{202e} 10 ns

                lost 0 records; recording took 1.2% of a CPU
                next: wakepath path --tree
            "#]],
        );
    }

    #[test]
    fn a_wait_that_never_ended_is_said_first_and_a_deadlock_is_its_cycle() {
        path_of(DEADLOCK, 12, |answer| {
            check(
                answer,
                expect![[r#"
                    third (12) is still waiting after 600 ns in futex 0x1000 that left (10) owns, according to the
                    memory of the lock; its 900 ns were mostly waiting for a lock (67%, ambiguous)
                    0 ns to 900 ns after the start

                    deadlock: each thread waits for a lock that the next one owns
                        left (10) for 800 ns in futex 0x2000 that right (11) owns, according to the memory of the lock
                        right (11) for 700 ns in futex 0x1000 that left (10) owns, according to the memory of the lock

                     share     time  what the time went to, largest first
                     66.7%   600 ns  waiting for a lock, 1 wait in futex  ambiguous
                                     futex 0x1000 600 ns
                     22.2%   200 ns  running third
                     11.1%   100 ns  waiting for a CPU
                                     it had: left 100 ns

                    warning: 600 ns could not be explained with certainty
                    lost 0 records, 600 ns ambiguous
                    next: wakepath path --tree
                "#]],
            )
        });
    }

    #[test]
    fn timers_that_only_interrupted_a_wait_are_told_with_the_question_that_joins_them() {
        let polls = "thread A tid=10\nthread W tid=11\n0 c0 idle started\n0 c0 idle switch A\n0 c1 idle switch W\n\
            10 c0 A switch idle blocked call=7:0x10\n200 c0 idle/timer waking A\n200 c0 idle switch A\n\
            210 c0 A switch idle blocked call=7:0x10\n300 c1 W waking A\n300 c0 idle switch A\n400 c0 A stopped\n";
        path_of(polls, 10, |answer| {
            let text = path(answer, Source::Read(" a.rec"), Layout::PLAIN);
            let from = text.find("lost 0").expect("the last lines");
            expect![[r#"
                lost 0 records
                190 ns of the timers only interrupted a wait that then went on; what for: wakepath path a.rec
                --join-timeouts
                next: wakepath path a.rec --tree
            "#]]
            .assert_eq(&text[from..]);
        });
        let sleeps = polls.replace("call=7:0x10", "call=35:0");
        path_of(&sleeps, 10, |answer| {
            let text = path(answer, Source::Read(""), Layout::PLAIN);
            assert!(!text.contains("--join-timeouts"), "a sleep waits for nothing else: {text}");
        });
    }

    #[test]
    fn a_thread_that_was_never_introduced_is_called_by_its_number() {
        let case = "thread A tid=10\n0 c0 idle started\n0 c0 idle switch A\n0 c1 idle switch #77\n\
            100 c0 A switch idle blocked call=0:3\n500 c1 #77 waking A\n500 c0 idle switch A\n600 c0 A stopped\n";
        path_of(case, 10, |answer| {
            let text = path(answer, Source::Read(""), Layout::PLAIN);
            assert!(text.contains("waiting for thread 77 of an unknown process"), "{text}");
        });
    }

    #[test]
    fn where_it_is_saved_is_said_of_a_recording_that_was_just_made() {
        let text = path(&checkout().answer(command()), Source::Made(" there.rec"), Layout::PLAIN);
        let last = text.lines().last().expect("a line");
        assert_eq!(last, "saved in ./wakepath.rec   next: wakepath path there.rec --tree");
    }

    #[test]
    fn an_empty_window_is_an_answer() {
        let mut story = Story::new();
        story.thread(7, 1, b"gone", 0);
        check(
            &story.told().answer(Question::Thread),
            expect![[r#"
                gone (7) took 0 ns, an empty window
                2026-11-21 02:58:41.310000000 to 02:58:41.310000000 UTC on web3

                 share     time  what the time went to, largest first

                lost 0 records; recording took 1.2% of a CPU
                next: wakepath path --tree
            "#]],
        );
    }

    #[test]
    fn the_rows_are_the_whole_window() {
        let story = checkout();
        let answer = story.answer(command());
        let total: u64 = rows(&answer).iter().map(|(_, row)| row.total_ns).sum();
        assert_eq!(total, answer.window_ns());
    }
}
