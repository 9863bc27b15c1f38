//! Open waits with the processes able to end them, as text.

use wakepath_clock::{Reference, Stamp};
use wakepath_engine::{Overview, Recorded};
use wakepath_event::Tid;
use wakepath_findings::{KernelPart, OpenChain, OpenEnd, Way};
use wakepath_loaded::FarEndKind;

use super::hangs::{open_wait, reason, waits};
use crate::screen::{Line, Screen, Style};
use crate::units::them;
use crate::wording;

/// The listed chains.
const CHAINS: usize = 10;
/// The named processes at an end.
const NAMED: usize = 3;

/// The headline's words about the longest wait; `None` without a chain.
pub fn first_chain(overview: &Overview) -> Option<String> {
    let chain = overview.chains.first()?;
    let wait = chain.links.first()?;
    let Overview { recorded, to, .. } = overview;
    let who = match overview.threads.len() {
        1 => String::from("blocked"),
        _ => format!("{} is blocked", wording::who(recorded, &recorded.thread_at(wait.hang.thread, *to))),
    };
    let text = format!("{who} for {}{}", waits(recorded, &wait.hang, *to), ends(recorded, wait, *to));
    Some(match chain {
        OpenChain { is_deadlock: true, .. } => format!("deadlock: {text}{}", further(overview, chain)),
        OpenChain { is_circle: true, links, .. } if links.len() == 1 => text + ", and that is itself",
        OpenChain { is_circle: true, links, .. } if links.len() == 2 => text + ", and that waits for it",
        OpenChain { is_circle: true, .. } => text + ", and so on: they wait for each other",
        _ => text,
    })
}

/// The words about the further waits in a deadlock: `, which waits in write that sh (10) reads`.
fn further(overview: &Overview, chain: &OpenChain) -> String {
    let Overview { recorded, to, .. } = overview;
    match chain.links.as_slice() {
        [_, second] => {
            format!(", which waits {}{}", reason(recorded, &second.hang, *to), ends(recorded, second, *to))
        }
        [_] => String::new(),
        _ => String::from(", and so on: they wait for each other"),
    }
}

/// The chains, each from the asked thread on, with an empty line behind them.
pub fn open_chains(screen: &mut Screen, overview: &Overview) {
    let Overview { chains, recorded, to, .. } = overview;
    if chains.is_empty() {
        return;
    }
    screen.unwrapped(Line::warning("blocked until another process acts, as seen at the start"));
    for chain in chains.iter().take(CHAINS) {
        one(screen, recorded, chain, *to);
    }
    if let Some(more @ 1..) = chains.len().checked_sub(CHAINS) {
        screen.wrapped(0, format!("  and {more} more: --json lists {}", them(more as u64)));
    }
    screen.blank();
}

fn one(screen: &mut Screen, recorded: &Recorded, chain: &OpenChain, at: Stamp<Reference>) {
    for (level, wait) in chain.links.iter().enumerate() {
        let line = open_wait(recorded, &wait.hang, at).add(Style::Normal, ends(recorded, wait, at));
        screen.indented(4 + 2 * level, line);
    }
    let next = 4 + 2 * chain.links.len();
    match &chain.last {
        Some((_, Some(hang))) => screen.indented(next, open_wait(recorded, hang, at)),
        _ if chain.is_circle => {
            screen.indented(
                next,
                match chain.is_deadlock {
                    true => Line::warning("deadlock: nothing but a signal could end it"),
                    false => Line::from(
                        "they wait for each other; a time-out, a signal, another thread or process could end it",
                    ),
                },
            );
        }
        _ => {}
    }
}

/// The words about the processes able to end a wait.
fn ends(recorded: &Recorded, wait: &OpenEnd, at: Stamp<Reference>) -> String {
    let file = wait.file.as_ref().map_or_else(String::new, |file| format!(" of {}", wording::name(file)));
    let end = |(way, processes): &(Way, Vec<Tid>)| match way {
        Way::Kernel(part, place) => {
            let function = wait.kernel.get(*place).map_or("", |function| function);
            kernel(*part, function)
        }
        way => end(recorded, *way, processes, at),
    };
    let ends: Vec<String> = wait.ends.iter().map(end).collect();
    format!("{file} {}", wording::list(&ends, NAMED))
}

/// The words about a part of the kernel, with the function that shows it.
fn kernel(part: KernelPart, function: &str) -> String {
    let what = match part {
        KernelPart::NetworkFiles => "for a network file system",
        KernelPart::FrozenFiles => "for a frozen file system",
        KernelPart::Journal => "for a file system's journal",
        KernelPart::Device => "for a block device",
    };
    format!("{what} (in {})", crate::escape::escape(function.as_bytes()))
}

fn end(recorded: &Recorded, way: Way, processes: &[Tid], at: Stamp<Reference>) -> String {
    let name = |process: &Tid| wording::process(recorded, *process, at);
    let names: Vec<String> = processes.iter().take(NAMED).map(name).collect();
    let who = match processes.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", names.join(", ")),
        _ => wording::list(&names, NAMED),
    };
    let verb = |one: &str, several: &str| String::from(if processes.len() == 1 { one } else { several });
    match way {
        Way::AtStart(FarEndKind::Unsearched) => {
            String::from("(who has its other end was not searched: too many descriptors)")
        }
        Way::AtStart(FarEndKind::Other) => String::from("something whose other end is not known"),
        Way::AtStart(FarEndKind::Daemon) => match processes {
            [] => String::from("in a file system in user space, whose process is not known"),
            [_] => format!("in a file system that {who} serves"),
            _ => format!("in a file system that one of these serves: {who}"),
        },
        Way::Kernel(..) => String::new(),
        Way::AtStart(FarEndKind::Writers) if processes.is_empty() => String::from("that no process writes"),
        Way::AtStart(FarEndKind::Readers) if processes.is_empty() => String::from("that no process reads"),
        Way::AtStart(FarEndKind::Writers) => format!("that {who} {}", verb("writes", "write")),
        Way::AtStart(FarEndKind::Readers) => format!("that {who} {}", verb("reads", "read")),
        Way::AtStart(FarEndKind::Peer | FarEndKind::Listener | FarEndKind::Holder)
            if processes.is_empty() =>
        {
            String::from("whose other end no process has")
        }
        Way::AtStart(FarEndKind::Peer) => format!("whose other end {who} {}", verb("has", "have")),
        Way::AtStart(FarEndKind::Listener) => {
            format!("on a connection that {who} {} not accepted", verb("has", "have"))
        }
        Way::AtStart(FarEndKind::Holder) => format!("whose lock {who} {}", verb("has", "have")),
        Way::Child => match processes {
            [_] => format!("for its child {who}"),
            all => format!("for any of its {} children: {who}", all.len()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::hanging;
    use crate::screen::Layout;
    use crate::text::{Source, overview};
    use expect_test::expect;

    #[test]
    fn an_open_wait_is_followed_to_the_process_that_could_end_it() {
        hanging(|answer| {
            expect![[r#"
                3 processes, 1.00 µs, 3 threads: sh (10) is blocked for more than 1.00 µs in wait4 for its child cat
                (20), and that waits for it
                0 ns to 1.00 µs after the start

                blocked until another process acts, as seen at the start
                    sh (10) for more than 1.00 µs in wait4 for its child cat (20)
                      cat (20) for more than 1.00 µs in write that sh (10) reads
                        they wait for each other; a time-out, a signal, another thread or process could end it
                    curl (30) for more than 1.00 µs in read whose other end server (40) has
                      server (40) for more than 1.00 µs in clock_nanosleep
                    log (50) for more than 1.00 µs in read that process 61, process 62, process 63 and 2 more write

                  waiting undecided       CPU   running  sleeping      idle  thread, and its longest wait
                        –   1.00 µs         –         –         –         –   sh (10), 1.00 µs in wait4 (undecided)
                        –   1.00 µs         –         –         –         –   curl (30), 1.00 µs in read (undecided)
                        –   1.00 µs         –         –         –         –   log (50), 1.00 µs in read (undecided)

                undecided: blocked for work or for an answer, and the recording does not show which (a futex without
                an owner, epoll_wait, poll)
                threads blocked at the end: 3 undecided

                lost 0 records
                next: wakepath path --tid 10
            "#]].assert_eq(&overview(answer, Source::Read(""), Layout::PLAIN))
        });
    }

    #[test]
    fn each_way_and_each_number_of_processes_has_its_words() {
        hanging(|answer| {
            let words = |kind, processes: &[u32]| {
                let processes: Vec<Tid> = processes.iter().map(|process| Tid(*process)).collect();
                end(answer.recorded, Way::AtStart(kind), &processes, answer.to)
            };
            for (kind, none, one, two) in [
                (
                    FarEndKind::Writers,
                    "that no process writes",
                    "that cat (20) writes",
                    "that cat (20) and curl (30) write",
                ),
                (
                    FarEndKind::Readers,
                    "that no process reads",
                    "that cat (20) reads",
                    "that cat (20) and curl (30) read",
                ),
                (
                    FarEndKind::Peer,
                    "whose other end no process has",
                    "whose other end cat (20) has",
                    "whose other end cat (20) and curl (30) have",
                ),
                (
                    FarEndKind::Listener,
                    "whose other end no process has",
                    "on a connection that cat (20) has not accepted",
                    "on a connection that cat (20) and curl (30) have not accepted",
                ),
                (
                    FarEndKind::Holder,
                    "whose other end no process has",
                    "whose lock cat (20) has",
                    "whose lock cat (20) and curl (30) have",
                ),
            ] {
                assert_eq!([words(kind, &[]), words(kind, &[20]), words(kind, &[20, 30])], [none, one, two]);
            }
            assert_eq!(words(FarEndKind::Peer, &[77]), "whose other end process 77 has");
            assert_eq!(
                words(FarEndKind::Writers, &[20, 30, 40, 50]),
                "that cat (20), curl (30), server (40) and 1 more write"
            );
            assert!(words(FarEndKind::Unsearched, &[]).contains("not searched"));
            assert_eq!(words(FarEndKind::Other, &[]), "something whose other end is not known");
            let child = |processes: &[Tid]| end(answer.recorded, Way::Child, processes, answer.to);
            assert_eq!(child(&[Tid(20)]), "for its child cat (20)");
            assert_eq!(child(&[Tid(20), Tid(30)]), "for any of its 2 children: cat (20) and curl (30)");
        });
    }
}
