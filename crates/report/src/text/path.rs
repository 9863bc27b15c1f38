//! The first screen: the reasons for a window's time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_engine::{Algorithm, NextQuestion, NextThread, PathAnswer, Question};
use wakepath_event::Comm;
use wakepath_findings::{Certainty, Evidence, Finding, PartKey, PathFindings, Row, RowKey, Waits};
use wakepath_loaded::{CallName, Object, call_name};

use super::deaths;
use super::hangs::deadlocks;
use super::headline::headline;
use super::reclaims::reclaims;
use super::user_states::user_states;
use super::watch::word as quoted;
use super::{Source, footer, part, seconds, time_outs, when};
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{count, duration};
use crate::wording;

/// The column in which a row's text begins.
const TEXT: usize = 17;

/// The first screen.
pub fn path(answer: &PathAnswer, source: Source<'_>, layout: Layout) -> String {
    path_below(headline(answer), answer, source, layout)
}

/// The first screen below this sentence.
pub(super) fn path_below(sentence: Line, answer: &PathAnswer, source: Source<'_>, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    screen.wrapped(0, sentence);
    if let Some(other) = time_outs::other_reading(answer) {
        screen.wrapped(0, other);
    }
    let window = answer.path.window;
    deaths::lines(&mut screen, answer);
    screen.wrapped(0, Line::faint(when(&answer.head, window.from, window.to)));
    screen.blank();
    deadlocks(&mut screen, answer.recorded, &answer.deadlocks, window.to);
    table(&mut screen, &answer.evidence(), answer.findings());
    reclaims(&mut screen, answer, TEXT);
    user_states(&mut screen, answer, TEXT);
    screen.blank();
    footer::problems(&mut screen, &answer.head, "--explain");
    screen.wrapped(0, footer::trust(answer));
    let findings = answer.findings();
    let mut shown = findings.rows.iter().take(findings.shown);
    if shown.any(|finding| !finding.sampled(window.to.since(window.from)).is_empty()) {
        screen.wrapped(0, footer::sampled());
    }
    for line in time_outs::lines(answer, source) {
        screen.wrapped(0, line);
    }
    match record_words(answer) {
        Some(words) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word.as_bytes())).collect();
            footer::next_command(&mut screen, source, answer.recorded, Some(words.join(" ")));
        }
        None => footer::next(&mut screen, source, answer.recorded, next_words(answer)),
    }
    screen.into_text()
}

/// The next command where sleeps have an unknown reason: a recording with the calls failing before them.
pub fn record_words(answer: &PathAnswer) -> Option<Vec<String>> {
    if !answer.lacks_failed_calls() {
        return None;
    }
    let target = match &answer.question {
        Question::Command { words, .. } => {
            let words = words.iter().map(|word| crate::escape::text(word.bytes()));
            std::iter::once(String::from("--")).chain(words).collect()
        }
        _ => vec![String::from("-p"), answer.subject().tgid?.number().to_string()],
    };
    let spans = matches!(answer.question, Question::Request { .. }).then_some("--otlp");
    let record = ["wakepath", "record"].into_iter().chain(spans).chain(["--failed-calls"]).map(String::from);
    Some(record.chain(target).collect())
}

/// The next question: the words behind `wakepath path` and the recording.
pub fn next_words(answer: &PathAnswer) -> Option<Vec<String>> {
    let NextQuestion { algorithm, thread } = answer.next()?;
    let mut words = Vec::new();
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    if let Some(NextThread { tid, from, to }) = thread {
        // Without a host, a number belongs to the first host.
        if let Some(host) = answer.recorded.remote_host(tid) {
            add("--host", wording::name(&host.name));
        }
        let [from, to] = [from, to].map(|at| seconds(at.since(answer.head.origin)));
        add("--tid", tid.number().to_string());
        add("--from", from);
        add("--to", to);
    }
    let flags = match algorithm {
        // Without an option, the same reading is the first again.
        Algorithm::Joined | Algorithm::JoinedInSlices => &["--tree"][..],
        Algorithm::Active => &["--as-timed-out", "--tree"],
        Algorithm::JoinedIfAlike => &["--join-timeouts", "--tree"],
        Algorithm::Exact => &["--exact", "--tree"],
    };
    words.extend(flags.iter().map(|&flag| flag.to_owned()));
    Some(words)
}

fn table(screen: &mut Screen, evidence: &Evidence<'_>, findings: &PathFindings) {
    let window = evidence.window_ns();
    screen.unwrapped(Line::faint(" share     time  what the time went to, largest first"));
    for finding in findings.rows.iter().take(findings.shown) {
        let mut line = Line::from(row_text(evidence, finding));
        let certainty = finding.row.basis.certainty();
        if certainty != Certainty::Measured {
            line.push(Style::Faint, format!("  {}", wording::certainty(certainty)));
        }
        screen.hanging(Line::strong(part(finding.row.total_ns, window)), TEXT, line);
        for line in details(evidence, finding) {
            screen.indented(TEXT, line);
        }
    }
    if let (rest @ 1.., total) = findings.rest() {
        let text = format!("{}: wakepath path --tree lists all", count(rest as u64, "smaller part"));
        screen.hanging(Line::strong(part(total, window)), TEXT, Line::faint(text));
    }
}

/// A row in a line: `disk sda, 14 waits in fdatasync of orders.db, through jbd2/sda1-8`.
pub fn row_text(evidence: &Evidence<'_>, finding: &Finding) -> String {
    let Finding { key, row, .. } = finding;
    let (_, mut text) = wording::row(evidence, key, row);
    match key {
        RowKey::Running(name) => {
            let lead = if key.is_garbage_collection() { ":" } else { "" };
            text += &format!("{lead} {}{}", runners(evidence, *name, row), processes(row));
        }
        RowKey::Disk(..) => text = text.replacen("waiting for ", "", 1),
        RowKey::CpuLimit(_) => text += &format!(", {}", times(row.stretches)),
        RowKey::Collection => return text,
        _ => {}
    }
    text += &calls(row);
    match key {
        RowKey::Process(..) => {
            if let (1, Some(part)) = (row.parts.len(), row.parts.keys().next()) {
                text += &format!(": {}", wording::part(evidence, key, part));
            }
        }
        RowKey::Running(_) => {}
        _ => text += &users(&finding.lost_by),
    }
    if matches!(key, RowKey::Disk(..)) && !row.through.is_empty() {
        let through: Vec<String> = row.through.iter().map(|name| wording::comm(*name)).collect();
        text += &format!(", through {}", wording::list(&through, 2));
    }
    text + &wording::far_clause(evidence, key, row)
}

/// The threads that ran: `worker-0 and worker-1 (2 threads)` for a pool, else the name that they share.
fn runners(evidence: &Evidence<'_>, name: Comm, row: &Row) -> String {
    let mut users: Vec<_> = row.users_by_name().into_iter().collect();
    users.sort_by_key(|&(user, ns)| (Reverse(ns), user));
    match &users[..] {
        [] => wording::threads_title(evidence, name, &row.threads),
        [(only, _)] => wording::threads_title(evidence, *only, &row.threads),
        several => {
            let names: Vec<String> = several.iter().map(|(user, _)| wording::named(*user)).collect();
            format!("{} ({} threads)", wording::list(&names, 2), row.threads.len())
        }
    }
}

fn processes(row: &Row) -> String {
    match row.processes.len() {
        0 | 1 => String::new(),
        n => format!(" ({n} processes)"),
    }
}

/// The threads that lost the time: ` (dd)`.
fn users(lost_by: &[(Comm, u64)]) -> String {
    let names: Vec<String> = lost_by.iter().map(|(user, _)| wording::named(*user)).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", wording::list(&names, 3)) }
}

fn times(n: u64) -> String {
    if n == 1 { String::from("once") } else { format!("{n} times") }
}

/// The name of a call in the plural.
fn several(name: &str) -> &str {
    if name == wording::PAGE_FAULT { "page faults" } else { name }
}

/// A row's waits: `, 14 waits in fdatasync of orders.db and 3 in read`. A single call may wait several times.
fn calls(row: &Row) -> String {
    const MAX_SHOWN: usize = 2;
    let mut calls: Vec<(String, Waits)> =
        row.calls.iter().map(|(name, waits)| (wording::call(name), *waits)).collect();
    if calls.len() > MAX_SHOWN {
        calls = calls_of_many_files(row);
    }
    if !calls.is_empty() && row.in_unknown_calls.count > 0 {
        calls.push((String::from("unknown calls"), row.in_unknown_calls));
    }
    calls.sort_by(|(a, left), (b, right)| right.ns.cmp(&left.ns).then_with(|| a.cmp(b)));
    // A wait counts in its first segment's row; the rest may be here.
    let mut is_first = true;
    let mut words = |(name, waits): &(String, Waits)| match waits.count {
        0 => name.clone(),
        count_of => {
            let waits =
                if std::mem::take(&mut is_first) { count(count_of, "wait") } else { count_of.to_string() };
            format!("{waits} in {}", if count_of == 1 { name.as_str() } else { several(name) })
        }
    };
    let shown: Vec<String> = calls.iter().take(MAX_SHOWN).map(&mut words).collect();
    let more = calls.len().saturating_sub(shown.len());
    match (shown.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(", {}", shown.join(" and ")),
        (false, more) => format!(", {} and {}", shown.join(", "), count(more as u64, "other call")),
    }
}

/// A row's waits by system call, with a call's files put together: `read of 212 files`.
fn calls_of_many_files(row: &Row) -> Vec<(String, Waits)> {
    let mut by_call: BTreeMap<(u32, bool), (Vec<&CallName>, Waits)> = BTreeMap::new();
    for (name, waits) in &row.calls {
        let is_file = matches!(name.object, Some(Object::File(_)));
        let (names, sum) = by_call.entry((name.number, is_file)).or_default();
        names.push(name);
        sum.count += waits.count;
        sum.ns += waits.ns;
    }
    let mut calls = Vec::new();
    for ((number, is_file), (names, sum)) in by_call {
        match names.as_slice() {
            [_, _, ..] if is_file => {
                calls.push((format!("{} of {} files", call_name(number), names.len()), sum))
            }
            _ => calls.extend(names.iter().map(|name| (wording::call(name), row.calls[*name]))),
        }
    }
    calls
}

/// The lines under a row: the parts of its time.
fn details(evidence: &Evidence<'_>, finding: &Finding) -> Vec<Line> {
    const MAX_FAILURES: usize = 2;
    let failed = finding.row.polling.iter().filter(|polling| polling.explains);
    let failed = failed.map(|polling| wording::polling_line(evidence, &finding.row, polling));
    let spins = finding.spins.iter().take(MAX_FAILURES).map(wording::spinning_line);
    let failed = failed.take(MAX_FAILURES).chain(spins);
    let sampled = finding.sampled(evidence.window_ns());
    let samples = sampled.iter().filter_map(wording::samples);
    let reasons = wording::cpu_reasons(evidence, &finding.cpu);
    let far = finding.row.far.as_ref().and_then(|far| wording::far_line(evidence, far));
    let others =
        parts(evidence, finding).into_iter().chain(reasons).chain(wording::tally(&finding.waited, "waits"));
    // Samples of own threads come first; other threads' samples belong to the wait for them.
    let pauses = finding.row.pauses.iter().map(wording::pauses_line);
    let lines: Vec<String> = match finding.key {
        RowKey::Running(_) => pauses.chain(samples).chain(others).chain(failed).collect(),
        _ => far.into_iter().chain(failed).chain(others).chain(samples).collect(),
    };
    lines.into_iter().map(Line::from).collect()
}

fn parts(evidence: &Evidence<'_>, finding: &Finding) -> Option<String> {
    const MAX_SHOWN: usize = 4;
    if !finding.is_divided() {
        return None;
    }
    let (key, parts) = (&finding.key, finding.parts());
    let words = |(part, ns): &(&PartKey, u64)| {
        let name = wording::part(evidence, key, part);
        match key {
            RowKey::Cpu => format!("{name} {}", duration(*ns)),
            _ => format!("{} {name}", duration(*ns)),
        }
    };
    let mut shown: Vec<String> = parts.iter().take(MAX_SHOWN).map(words).collect();
    if let Some(more @ 1..) = parts.len().checked_sub(MAX_SHOWN) {
        let rest = parts.iter().skip(MAX_SHOWN).map(|(_, ns)| *ns).sum();
        shown.push(format!("{} {}", count(more as u64, "other"), duration(rest)));
    }
    let lead = if *key == RowKey::Cpu { "its CPU meanwhile: " } else { "" };
    Some(format!("{lead}{}", shown.join(", ")))
}

#[cfg(test)]
mod collections;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Answered, CUT_SHORT, DEADLOCK, KILLED, command, path_of};
    use expect_test::{Expect, expect};
    use wakepath_critical_path::{Cause, SegmentKind};
    use wakepath_event::Call;
    use wakepath_findings::testing::{Story, call, checkout, checkout_stacks};

    fn check(answer: &PathAnswer, expected: Expect) {
        let text = path(answer, Source::Read(""), Layout::PLAIN);
        expected.assert_eq(&text);
    }

    #[test]
    fn the_first_screen_answers() {
        let mut story = checkout();
        story.stacks = checkout_stacks(&story.path);
        check(
            &story.answer(command()),
            expect![[r#"
                checkout took 1.19 s: mostly waiting in fdatasync for disk sda (61%, mostly measured)
                2026-11-21 02:58:41.310 to 02:58:42.502 UTC on web3

                 share     time  what the time went to, largest first
                 61.1%   728 ms  disk sda, 14 waits in fdatasync of orders.db, through jbd2/sda1-8  mostly measured
                                 686 ms in the device, 28.0 ms in its queue, 14.0 ms in kernel threads
                                 13 of 14 waits in save_order (checkout), from main checkout.c:88
                 20.1%   240 ms  running checkout
                                 ~ 23 of 24 samples in compress_block (libz.so.1), from main checkout.c:88
                 10.9%   130 ms  not allowed to run: CPU limit of shop.service (50.0 ms per 100 ms), 5 times
                  7.4%  88.0 ms  waiting for postgres (912) in postgresql.service, 1 wait in read on tcp
                                 10.0.0.3:5432
                                 61.0 ms in fdatasync of pg_wal, 27.0 ms running
                                 1 of 1 waits in ask_bank (checkout), from main checkout.c:88
                  0.3%  4.00 ms  unknown: the wait began before the recording, 1 wait in read
                                 1 of 1 waits in postgres (replaced since the recording), callers unknown (not
                                 unwound)
                  0.2%  2.10 ms  waiting for a CPU
                                 its CPU meanwhile: stress 2.00 ms, idle 100 µs

                lost 0 records; recording took 1.2% of a CPU itself; threads ran 1.2 to 1.8% longer for it (6.0 to
                8.5 ms)
                ~ from samples; all other times are measured at each task switch
                next: wakepath path --tree
            "#]],
        );
    }

    #[test]
    fn without_stacks_the_lines_about_functions_that_waited_are_not_there() {
        let mut story = checkout();
        let without = path(&story.answer(command()), Source::Read(""), Layout::PLAIN);
        story.stacks = checkout_stacks(&story.path);
        let with = path(&story.answer(command()), Source::Read(""), Layout::PLAIN);
        let of_stacks = |line: &&str| {
            ["13 of 14 waits", "1 of 1 waits", "unwound)"].iter().any(|lead| line.trim().starts_with(lead))
        };
        assert_eq!(with.lines().filter(of_stacks).count(), 4, "{with}");
        let rest: Vec<_> = with.lines().filter(|line| !of_stacks(line)).collect();
        assert_eq!(without.lines().collect::<Vec<_>>(), rest);
    }

    #[test]
    fn a_process_named_with_terminal_escapes_prints_as_text() {
        let mut story = Story::default();
        let evil = story.thread(7, 1, b"\x1b[2J\x1b[1;1H\xff", 0);
        let worse = story.thread(8, 1, "\u{9b}2J\u{202e}".as_bytes(), 0);
        story.then(10, evil, None, SegmentKind::Running, Cause::None);
        story.then(10, evil, None, SegmentKind::Runnable, Cause::Competitor(worse));
        check(
            &story.finish().answer(command()),
            expect![[r#"
                \x1b[2J\x1b[1;1H\xff took 20 ns, the largest part: running (50%, measured)
                2026-11-21 02:58:41.310000000 to 02:58:41.310000020 UTC on web3

                 share     time  what the time went to, largest first
                 50.0%    10 ns  running \x1b[2J\x1b[1;1H\xff
                 50.0%    10 ns  waiting for a CPU
                                 its CPU meanwhile: \u{9b}2J\u{202e} 10 ns

                lost 0 records; recording took 1.2% of a CPU itself; threads ran 1.2 to 1.8% longer for it (6.0 to
                8.5 ms)
                next: wakepath path --tree
            "#]],
        );
    }

    #[test]
    fn waits_in_page_faults_are_counted_apart_and_unknown_calls_are_not_taken_for_the_known_one() {
        let row = |calls: &[Option<u32>]| {
            let mut story = Story::default();
            let own = story.thread(7, 1, b"checkout", 7);
            for number in calls {
                story.then(20, own, None, SegmentKind::BlockDevice, Cause::None).call =
                    number.map(|number| call(number, 0));
                story.then(1, own, None, SegmentKind::Running, Cause::None);
            }
            let screen = path(&story.finish().answer(command()), Source::Read(""), Layout::PLAIN);
            let row = screen
                .lines()
                .find(|line| line.contains("  a disk"))
                .and_then(|line| line.split(", ").nth(1));
            row.map(str::to_owned)
        };
        let fault = Some(Call::PAGE_FAULT);
        let told = |calls: &[Option<u32>]| row(calls).unwrap_or_default();
        assert_eq!(told(&[Some(59), fault, fault, fault]), "3 waits in page faults and 1 in execve");
        assert_eq!(told(&[fault]), "1 wait in a page fault");
        assert_eq!(told(&[Some(59), None, None]), "2 waits in unknown calls and 1 in execve");
        assert_eq!(told(&[None, None]), "", "nothing is known of the calls");
    }

    #[test]
    fn who_is_waited_for_and_was_stopped_is_said_to_be_so_and_not_by_its_call() {
        const STOPPED: &str = "thread W tid=12
            thread A tid=10
            thread K tid=20
            0 c0 idle started
            0 c1 idle started
            0 c2 idle started
            0 c0 idle switch A
            0 c1 idle switch K
            0 c2 idle switch W
            10 c0 A switch idle blocked=stopped call=7:0x3
            20 c2 W switch idle blocked call=0:0x3
            500 c1 K waking A
            501 c0 idle switch A
            540 c0 A waking W
            541 c2 idle switch W
            600 c2 W stopped";
        path_of(STOPPED, 12, |answer| {
            check(
                answer,
                expect![[r#"
            W (12) took 600 ns: mostly waiting for A (10) (87%, measured)
            0 ns to 600 ns after the start

             share     time  what the time went to, largest first
             86.7%   520 ns  waiting for A (10), 1 wait in read
                             480 ns stopped by a signal until SIGCONT from K (20), 39 ns running, 1 ns waiting
                             for a CPU
             13.2%    79 ns  running W
              0.2%     1 ns  waiting for a CPU
                             its CPU meanwhile: idle 1 ns

            lost 0 records
            next: wakepath path --tree
        "#]],
            )
        });
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
                                     600 ns for futex 0x1000
                     22.2%   200 ns  running third
                     11.1%   100 ns  waiting for a CPU that another thread of its own had
                                     its CPU meanwhile: left 100 ns

                    warning: 600 ns could not be explained with certainty
                    lost 0 records, 600 ns ambiguous
                    next: wakepath path --tree
                "#]],
            )
        });
    }

    #[test]
    fn a_signal_that_kills_is_not_what_was_waited_for() {
        path_of(KILLED, 10, |answer| {
            check(
                answer,
                expect![[r#"
            left (10) was killed by SIGINT from killer (20) while waiting 700 ns in futex 0x2000 that right (11)
            owns, according to the memory of the lock; its 810 ns were mostly waiting for a lock (86%,
            ambiguous)
            0 ns to 810 ns after the start

            deadlock: each thread waits for a lock that the next one owns
                left (10) for 700 ns in futex 0x2000 that right (11) owns, according to the memory of the lock,
                until SIGINT from killer (20)
                right (11) for 601 ns in futex 0x1000 that left (10) owns, according to the memory of the lock,
                until SIGINT from killer (20)

             share     time  what the time went to, largest first
             86.4%   700 ns  waiting for a lock, 1 wait in futex  ambiguous
                             700 ns for futex 0x2000
             13.3%   108 ns  running left
              0.2%     2 ns  waiting for a CPU
                             its CPU meanwhile: idle 2 ns

            warning: 700 ns could not be explained with certainty
            lost 0 records, 700 ns ambiguous
            next: wakepath path --tree
        "#]],
            )
        });
    }

    #[test]
    fn a_signal_that_cuts_a_wait_short_is_named() {
        path_of(CUT_SHORT, 10, |answer| {
            check(
                answer,
                expect![[r#"
            reader (10) took 1.00 µs: mostly waiting until SIGALRM from a timer cut the wait short (80%,
            measured)
            0 ns to 1.00 µs after the start

             share     time  what the time went to, largest first
             80.0%   800 ns  waiting until SIGALRM from a timer cut the wait short, 1 wait in read
             19.9%   199 ns  running reader
              0.1%     1 ns  waiting for a CPU
                             its CPU meanwhile: idle 1 ns

            lost 0 records
            next: wakepath path --tree
        "#]],
            )
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
        let mut story = Story::default();
        story.thread(7, 1, b"gone", 0);
        check(
            &story.finish().answer(Question::Thread),
            expect![[r#"
                gone (7) took 0 ns: the window is empty
                2026-11-21 02:58:41.310000000 to 02:58:41.310000000 UTC on web3

                 share     time  what the time went to, largest first

                lost 0 records; recording took 1.2% of a CPU itself; threads ran 1.2 to 1.8% longer for it (6.0 to
                8.5 ms)
                next: wakepath path --tree
            "#]],
        );
    }
}
