//! Threads without a single window, as text: open waits, and the thread to ask about.

use std::collections::BTreeMap;

use wakepath_critical_path::Hang;
use wakepath_engine::{Overview, Recorded, Scope, Window};
use wakepath_event::Tid;
use wakepath_findings::{ThreadTimes, ThreadsHeadline};

use super::hangs::{deadlocks, open_wait};
use super::open_chains::{first_chain, open_chains};
use super::{Source, cost, footer, when};
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{count, duration, them};
use crate::wording;

/// The number of listed processes, and of listed threads in each; the rest is counted.
const PROCESSES: usize = 12;
const THREADS: usize = 4;
/// The number of listed deaths.
const DEATHS: usize = 5;
/// The number of listed open waits.
const WAITS: usize = 10;

/// The width of a thread's figures, columns.
const FIGURES: usize = 62;

/// The threads' times, and the option for the next question.
pub fn overview(overview: &Overview, source: Source<'_>, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    screen.wrapped(0, headline(overview));
    screen.wrapped(0, Line::faint(when(&overview.head, overview.from, overview.to)));
    screen.blank();
    let further = if has_chain_or_deadlock(overview) { 0 } else { 1 };
    for death in overview.deaths.iter().skip(further).take(DEATHS) {
        screen.wrapped(0, Line::warning(wording::death::death_beside(overview, death)));
    }
    open_chains(&mut screen, overview);
    still_waiting(&mut screen, overview);
    table(&mut screen, overview);
    screen.blank();
    footer::problems(&mut screen, &overview.head, "--explain");
    let mut trust = Line::faint(footer::lost(&overview.head.losses));
    if let Some(cost) = cost::cost(&overview.head) {
        trust.push(Style::Faint, format!("; {cost}"));
    }
    screen.wrapped(0, trust);
    footer::next(&mut screen, source, overview.recorded, next_words(overview));
    screen.into_text()
}

/// Whether the headline begins with these, and not with a death.
fn has_chain_or_deadlock(overview: &Overview) -> bool {
    overview.headline() == ThreadsHeadline::Deadlocked || first_chain(overview).is_some()
}

/// The next question: the words behind `wakepath path` and the recording.
pub fn next_words(overview: &Overview) -> Option<Vec<String>> {
    let thread = overview.thread_to_ask()?;
    Some(flags(overview.recorded, overview.recorded.graph.thread(thread).tid()))
}

/// The first sentence: the threads, and the first statement about them.
pub fn headline(overview: &Overview) -> Line {
    let span = duration(overview.to.since(overview.from));
    let what = match &overview.scope {
        Scope::All if !overview.recorded.others.is_empty() => String::from("all hosts"),
        Scope::All => String::from(wording::all_threads(&overview.head.problems)),
        Scope::Host(host) => {
            // Any tid would do, except the idle thread's, which is the same on all hosts.
            wording::name(&overview.recorded.host_of(Tid(1).on(*host)).name)
        }
        Scope::Processes(pids) => match pids.as_slice() {
            [pid] => {
                let leader = overview.recorded.leader(*pid, overview.to);
                let leader = leader.map(|leader| overview.recorded.thread_at(leader, overview.to));
                let name = leader.map(|leader| wording::title(&leader)).filter(|name| !name.is_empty());
                format!("{} ({pid})", name.unwrap_or_else(|| String::from("process")))
            }
            pids => count(pids.len() as u64, "process"),
        },
        Scope::Cgroup(cgroup) => wording::name(cgroup),
    };
    let mut line = Line::strong(what);
    line.push(Style::Normal, format!(", {span}, {}: ", count(overview.threads.len() as u64, "thread")));
    match overview.headline() {
        ThreadsHeadline::Deadlocked if !overview.open.deadlocks.is_empty() => {
            line.push(Style::Warning, "deadlocked");
        }
        _ if let Some(chain) = first_chain(overview) => line.push(Style::Warning, chain),
        _ if let Some(death) = overview.deaths.first() => {
            line.push(Style::Warning, wording::death::death_beside(overview, death));
        }
        ThreadsHeadline::StillWaiting(open) => {
            let number = if open == 1 { String::from("one") } else { open.to_string() };
            line.push(Style::Warning, format!("{number} still waiting at the end"));
        }
        ThreadsHeadline::Deadlocked | ThreadsHeadline::Choose => {
            line.push(Style::Normal, "ask about one of these threads")
        }
    }
    line
}

/// Open waits at the end: cycles first, then the longest.
fn still_waiting(screen: &mut Screen, overview: &Overview) {
    deadlocks(screen, overview.recorded, &overview.open.deadlocks, overview.to);
    let in_cycle =
        |hang: &&Hang| !overview.open.deadlocks.iter().flatten().any(|other| other.thread == hang.thread);
    // These have their lines already.
    let in_chain =
        |hang: &&Hang| overview.chains.iter().any(|chain| chain.links[0].hang.thread == hang.thread);
    let open = overview.open.still_waiting.iter().filter(in_cycle).filter(|hang| !in_chain(hang));
    let open: Vec<_> = open.collect();
    if open.is_empty() {
        return;
    }
    screen.unwrapped(Line::warning("still waiting"));
    for hang in open.iter().take(WAITS) {
        screen.indented(4, open_wait(overview.recorded, hang, overview.to));
    }
    if let Some(more @ 1..) = open.len().checked_sub(WAITS) {
        screen.wrapped(0, format!("  and {more} more: --json lists {}", them(more as u64)));
    }
    screen.blank();
}

/// Threads by process: their times by state.
fn table(screen: &mut Screen, overview: &Overview) {
    let recorded = overview.recorded;
    let heading = "  waiting undecided       CPU   running  sleeping      idle  thread, and its longest wait";
    screen.unwrapped(Line::faint(heading));
    // A process stands where its slowest thread would. A thread whose process is not known stands alone.
    let mut processes: Vec<Vec<&ThreadTimes>> = Vec::new();
    let mut places: BTreeMap<Tid, usize> = BTreeMap::new();
    for times in &overview.threads {
        let tgid = recorded.thread_at(times.thread, overview.to).tgid;
        match tgid.and_then(|tgid| places.get(&tgid)) {
            Some(&place) => processes[place].push(times),
            None => {
                places.extend(tgid.map(|tgid| (tgid, processes.len())));
                processes.push(vec![times]);
            }
        }
    }
    for threads in processes.iter().take(PROCESSES) {
        for (i, times) in threads.iter().take(THREADS).enumerate() {
            screen.hanging(figures([*times]), FIGURES, thread(overview, times, i == 0));
        }
        if let Some(more @ 1..) = threads.len().checked_sub(THREADS) {
            let text = format!("{} of this process", count(more as u64, "more thread"));
            screen.hanging(figures(threads.iter().skip(THREADS).copied()), FIGURES, Line::faint(text));
        }
    }
    if processes.len() > PROCESSES {
        let rest = processes.iter().skip(PROCESSES).flatten().copied();
        let in_process = |times: &ThreadTimes| recorded.thread_at(times.thread, overview.to).tgid.is_some();
        let (more, of_what) = match rest.clone().all(in_process) {
            true => (processes.len() - PROCESSES, "more process"),
            false => (rest.clone().count(), "more thread"),
        };
        let more = more as u64;
        let text = format!("{}: --json lists {}", count(more, of_what), them(more));
        screen.hanging(figures(rest), FIGURES, Line::faint(text));
    }
    blocked(screen, overview);
}

/// The words for the classes of blocked threads in this overview, and the number of threads blocked at the end.
fn blocked(screen: &mut Screen, overview: &Overview) {
    let any = |ns: fn(&ThreadTimes) -> u64| overview.threads.iter().any(|times| ns(times) > 0);
    let classes = [
        any(|times| times.undecided_ns),
        any(|times| times.sleeping_ns),
        any(|times| times.idle_ns),
        any(|times| times.idle_inferred_ns),
    ];
    let open = &overview.open;
    let text = wording::blocked_classes(classes, [open.undecided, open.sleeping, open.idle]);
    if !text.is_empty() {
        screen.blank();
        text.into_iter().for_each(|line| screen.wrapped(0, Line::faint(line)));
    }
}

/// The sum of these threads' times: waiting, undecided, wanting a CPU, running, sleeping, idle.
fn figures<'a>(threads: impl IntoIterator<Item = &'a ThreadTimes>) -> Line {
    let mut all = [0_u64; 6];
    for times in threads {
        let cpu = times.runnable_ns + times.throttled_ns;
        let own =
            [times.waiting_ns, times.undecided_ns, cpu, times.running_ns, times.sleeping_ns, times.idle_ns];
        all.iter_mut().zip(own).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
    }
    let figure = |ns| format!("{:>9} ", if ns == 0 { String::from("–") } else { duration(ns) });
    Line::from(all.map(figure).concat() + " ")
}

fn thread(overview: &Overview, times: &ThreadTimes, first: bool) -> Line {
    let recorded = overview.recorded;
    let who = recorded.thread_at(times.thread, overview.to);
    let mut line = Line::new();
    if !first {
        line.push(Style::Normal, "  ");
    }
    line.push(Style::Strong, wording::who(recorded, &who));
    if let Some(unit) = recorded.survey.names.unit(&who).filter(|_| first) {
        line.push(Style::Faint, format!(" in {}", wording::unit(&unit)));
    }
    if let Some(wait) = times.longest {
        let mut text = format!(", {}", duration(wait.to.since(wait.from)));
        if let Some(call) = wait.call.as_ref() {
            let at = wakepath_clock::Stamp::from_ns(wait.to.ns());
            text += &format!(" in {}", wording::call(&recorded.survey.names.call(call, who.tgid, at)));
        }
        if wait.undecided {
            text += " (undecided)";
        }
        line.push(Style::Normal, text);
    }
    if times.throttled_ns > 0 {
        line.push(Style::Normal, format!(", not allowed to run {}", duration(times.throttled_ns)));
    }
    if times.unknown_ns > 0 {
        line.push(Style::Faint, format!(", unknown {}", duration(times.unknown_ns)));
    }
    line
}

/// A thread that fits an ambiguous question: its name, its lifetime, its unit.
pub fn candidate(recorded: &Recorded, candidate: &Window) -> String {
    let who = recorded.thread_at(candidate.thread, candidate.to);
    let lived = duration(candidate.to.since(candidate.from));
    let since = duration(candidate.from.since(recorded.from()));
    let of =
        who.tgid.filter(|tgid| *tgid != who.tid).map_or(String::new(), |tgid| format!(" of process {tgid}"));
    let unit = recorded.survey.names.unit(&who).as_ref().map(wording::unit);
    let unit = unit.map_or(String::new(), |unit| format!(" in {unit}"));
    format!(
        "{}: {}{of}{unit}, {lived} from {since} on",
        flags(recorded, who.tid).join(" "),
        wording::named_title(&who)
    )
}

/// The options that choose a thread.
fn flags(recorded: &Recorded, tid: Tid) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let number = tid.to_string();
    let Some(host) = recorded.remote_host(tid) else { return words(&["--tid", &number]) };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let all = || std::iter::once(&recorded.host).chain(&recorded.others);
    let is_plain = !host.name.bytes().is_empty() && host.name.bytes().iter().all(plain);
    let name = if is_plain && all().filter(|h| h.name == host.name).count() == 1 {
        wording::name(&host.name)
    } else {
        // This name can be typed, and no other host has it.
        crate::escape(host.boot_id.as_bytes())
    };
    words(&["--host", &name, "--tid", &number])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{DEADLOCK, overview_of};
    use expect_test::{Expect, expect};

    fn check(trace: &str, expected: Expect) {
        overview_of(trace, |answer| expected.assert_eq(&overview(answer, Source::Read(""), Layout::PLAIN)));
    }

    #[test]
    fn a_deadlock_comes_first_as_its_cycle() {
        check(
            DEADLOCK,
            expect![[r#"
                the whole machine, 900 ns, 5 threads: deadlocked
                0 ns to 900 ns after the start

                deadlock: each thread waits for a lock that the next one owns
                    left (10) for 800 ns in futex 0x2000 that right (11) owns, according to the memory of the lock
                    right (11) for 700 ns in futex 0x1000 that left (10) owns, according to the memory of the lock

                still waiting
                    third (12) for 600 ns in futex 0x1000 that left (10) owns, according to the memory of the lock

                  waiting undecided       CPU   running  sleeping      idle  thread, and its longest wait
                   800 ns         –         –    100 ns         –         –   left (10), 800 ns in futex
                   700 ns         –         –    200 ns         –         –     right (11), 700 ns in futex
                   600 ns         –    100 ns    200 ns         –         –     third (12), 600 ns in futex
                   500 ns         –    200 ns    200 ns         –         –   writer (30), 500 ns in fsync
                        –         –         –         –         –    900 ns   server (20)

                idle: waiting for the next connection, request or job
                threads blocked at the end: 1 idle

                lost 0 records
                next: wakepath path --tid 10
            "#]],
        );
    }

    /// A recording may have any stamps: threads together may have waited for longer than fits.
    #[test]
    fn times_of_many_threads_add_up_to_the_most_there_is() {
        let threads =
            (20..26).map(|tid| format!("thread t{tid} tid={tid} tgid=20 blocked=uninterruptible call=0:3\n"));
        let trace = threads.collect::<String>() + "0 c0 idle started\n18446744073709551615 c0 idle stopped";
        overview_of(&trace, |answer| {
            let text = overview(answer, Source::Read(""), Layout::PLAIN);
            let line = "5124096 h         –         –         –         –         –   2 more threads of this process";
            assert!(text.contains(line), "{text}");
        });
    }

    #[test]
    fn threads_without_a_known_process_are_no_process() {
        let runs = |tid: u32| format!("{}0 c0 #{tid} switch #{} runnable\n", tid, tid + 1);
        let trace = String::from("0 c0 idle started\n0 c0 idle switch #20\n")
            + &(20..52).map(runs).collect::<String>();
        overview_of(&trace, |answer| {
            let text = overview(answer, Source::Read(""), Layout::PLAIN);
            assert!(!text.contains("process"), "{text}");
            assert!(text.contains("20 more threads: --json lists them\n"), "{text}");
        });
    }

    #[test]
    fn idle_and_undecided_threads_are_counted_apart_and_never_blamed() {
        check(
            "thread server tid=20 blocked=interruptible call=43:3
             thread pool tid=21 tgid=20 blocked=interruptible call=202:0x1000
             thread busy tid=30
             0 c0 idle started
             0 c0 idle switch busy
             900 c0 busy stopped",
            expect![[r#"
                the whole machine, 900 ns, 3 threads: ask about one of these threads
                0 ns to 900 ns after the start

                  waiting undecided       CPU   running  sleeping      idle  thread, and its longest wait
                        –         –         –    900 ns         –         –   busy (30)
                        –    900 ns         –         –         –         –   pool (21), 900 ns in futex (undecided)
                        –         –         –         –         –    900 ns     server (20)

                undecided: blocked for work or for an answer, and the recording does not show which (a futex without
                an owner, epoll_wait, poll)
                idle: waiting for the next connection, request or job
                threads blocked at the end: 1 undecided, 1 idle

                lost 0 records
                next: wakepath path --tid 30
            "#]],
        );
    }
}
