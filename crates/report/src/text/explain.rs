//! The method behind a path's numbers, for `--explain`.

use std::collections::BTreeSet;

use wakepath_critical_path::{Algorithm, Basis, SegmentKind};
use wakepath_engine::{PathAnswer, Stack};
use wakepath_findings::Method;
use wakepath_loaded::Frame;

use super::segments::describe;
use super::{cost, footer, part};
use crate::problem::sentence;
use crate::screen::{Layout, Line, Screen};
use crate::units::{count, duration, part_of, was};
use crate::wording;

/// The algorithm and rules behind the numbers, each number's basis, and doubts.
pub fn explain(answer: &PathAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let found = answer.method();
    method(&mut screen, answer, found.total_ns);
    kinds(&mut screen, &found.kinds);
    bases(&mut screen, &found.bases, answer.window_ns());
    stacks(&mut screen, answer);
    largest(&mut screen, answer, &found.largest);
    doubts(&mut screen, answer);
    screen.into_text()
}

fn heading(screen: &mut Screen, text: &str) {
    screen.blank();
    screen.unwrapped(Line::strong(text));
}

fn method(screen: &mut Screen, answer: &PathAnswer, sum: u64) {
    screen.unwrapped(Line::strong("How the path was made"));
    const ACTIVE: &str = "The active path (Giraldeau 2015, Algorithm 5): from the start of the window to its end, each wait is \
         replaced by what the thread that ended it did in that time. The waits of that thread are replaced in the \
         same way, until only work, devices, timers and time outside the recording remain.";
    let text = match answer.path.algorithm {
        Algorithm::Active => ACTIVE.into(),
        Algorithm::Joined => {
            format!(
                "{ACTIVE} Where a thread returned to the same wait for a lock after each time-out, and the lock's owner \
                 ended the last of these waits, they are explained as one. So is a wait that a periodic tick of an event \
                 loop ended, with the next wait."
            )
        }
        Algorithm::JoinedInSlices => {
            format!(
                "{ACTIVE} Where a thread seems to wait in slices, they are explained as one: at least two waits in the \
                 same call in a row ended by time-outs, or by a thread that a timer had just woken (a single wait \
                 where another thread waited for this thread), and between \
                 them the thread sent no packet and woke no thread. Without proof that it was the same wait, their \
                 time is ambiguous."
            )
        }
        Algorithm::JoinedIfAlike => {
            format!(
                "{ACTIVE} Where a thread may have returned to the same wait after each time-out, these waits are \
                 explained as one; without proof that it was the same wait, their time is ambiguous."
            )
        }
        Algorithm::Exact => {
            "The exact path (Giraldeau 2015, section 4.3.1): the longest chain of running and waiting for \
             devices back from the end of the window; waits that another thread ended count as nothing."
                .into()
        }
    };
    screen.wrapped(0, text);
    let path = &answer.path;
    let whole = if sum == answer.window_ns() { "exactly the window" } else { "which is NOT the window" };
    let text = format!(
        "The path has {} and {}. The segments sum to {sum} ns, {whole}; shares are shares of the window.",
        count(path.segments.len() as u64, "segment"),
        count(path.waits.len() as u64, "wait"),
    );
    screen.wrapped(0, text);
}

/// The meaning of each kind in the path.
fn kinds(screen: &mut Screen, kinds: &BTreeSet<SegmentKind>) {
    heading(screen, "What the words mean");
    for kind in kinds {
        let head = Line::from(kind.name());
        screen.hanging(head, 14, wording::kind_meaning(*kind));
    }
}

/// Each basis's share of the window; equal shares in the order of their words.
fn bases(screen: &mut Screen, bases: &[(Basis, u64)], window: u64) {
    heading(screen, "How well it is known");
    let words =
        |(basis, ns): &(Basis, u64)| ((wording::basis_word(*basis), wording::basis_meaning(*basis)), *ns);
    let mut sums: Vec<_> = bases.iter().map(words).collect();
    sums.sort_by_key(|&(key, ns)| (std::cmp::Reverse(ns), key));
    for ((basis, meaning), ns) in sums {
        screen.hanging(Line::strong(part(ns, window)), 17, format!("{basis}: {meaning}"));
    }
}

fn largest(screen: &mut Screen, answer: &PathAnswer, largest: &[usize]) {
    heading(screen, "The largest segments");
    let segments = largest.iter().filter_map(|number| Some((*number, answer.path.segment(*number)?)));
    for (number, segment) in segments {
        let at = segment.from.since(answer.head.origin);
        let took = duration(segment.to.since(segment.from));
        let mut line = Line::faint(format!("at {} for {took}  ", duration(at)));
        line.extend(describe(answer, segment));
        screen.wrapped(4, line);
        stack(screen, "it waited in", answer.stacks.segment_stack(number));
        for (id, wait) in Method::waits_above(answer.evidence(), segment) {
            let mut text =
                format!("explains a wait of {}", wording::thread(answer.recorded, wait.thread, wait.to));
            if let Some(call) = answer.recorded.wait_call(wait) {
                text += &format!(" in {}", wording::call(&call));
            }
            if let Some(by) = wait.ended_by {
                text += &format!(", ended by {}", wording::thread(answer.recorded, by, wait.to));
            }
            if let Some(lock) = wait.lock {
                text += &format!(", {}", wording::lock(lock.address, lock.kernel));
                match lock.owner {
                    None => {}
                    owner if owner == wait.ended_by => text += ", which it owned",
                    Some(owner) => {
                        let owner = wording::thread(answer.recorded, owner, wait.to);
                        text += &format!(", owned when the wait began by {owner}");
                    }
                }
            }
            screen.indented(4, text);
            stack(screen, "it waited in", answer.stacks.wait_stack(id));
            stack(screen, "it was woken in", answer.stacks.waker_stack(id));
        }
    }
}

/// A stack in a line, innermost first.
fn stack(screen: &mut Screen, lead: &str, taken: Option<&Stack>) {
    let Some(Stack { frames, site }) = taken else { return };
    let text = match site {
        None => String::from("a stack that was lost"),
        Some(_) => {
            let named = |frames: &[Frame]| frames.iter().map(wording::frame).collect::<Vec<_>>().join(" < ");
            let proved = frames.iter().take_while(|frame| frame.proved).count();
            match frames.split_at(proved) {
                (proved, []) => named(proved),
                (proved, rest) => format!("{}; not proved: {}", named(proved), named(rest)),
            }
        }
    };
    screen.indented(6, format!("{lead} {text}"));
}

/// The way in which stacks were taken, if there are any.
fn stacks(screen: &mut Screen, answer: &PathAnswer) {
    if !answer.recorded.graph.has_stacks() {
        return;
    }
    heading(screen, "Where in the code");
    let mut text = String::from(
        "A stack was taken when a thread began to wait and when it woke another one, except in interrupts. Tables in \
         the files of a program lead from one function to its caller. Where there are none, frame pointers do, or \
         return addresses that are found on the stack: such a frame is not proved.",
    );
    let seen = answer.recorded.survey.stack_frames;
    if seen.total > 0 {
        text += &format!(" {} are proved.", part_of(seen.proved, seen.total, "the programs' frames"));
    }
    if let Some(counts) = answer.recorded.survey.stacks {
        text += &format!(
            " The stack cache repeated {} of {}: a thread with the same registers in the same system call \
             is taken to have the same stack. {} of these {} checked, and {} {} wrong.",
            counts.repeated.saturating_add(counts.checked),
            count(counts.repeated.saturating_add(counts.taken), "stack"),
            counts.checked,
            was(counts.checked),
            counts.disagreed,
            was(counts.disagreed),
        );
    }
    screen.wrapped(0, text);
}

fn doubts(screen: &mut Screen, answer: &PathAnswer) {
    heading(screen, "What is doubtful");
    let head = &answer.head;
    screen.wrapped(0, footer::lost(&head.losses));
    for loss in &head.losses {
        let [from, to] = [loss.from, loss.to].map(|at| duration(at.since(head.origin)));
        let what = match (loss.reported, loss.count) {
            (false, _) => String::from("a task switch"),
            (true, 0) => format!("an unknown number of records{}", wording::lost_kind(loss.records)),
            (true, records) => format!("{}{}", count(records, "record"), wording::lost_kind(loss.records)),
        };
        let cpu = if loss.cpu == wakepath_event::Cpu::UNKNOWN {
            String::from("an unknown CPU")
        } else {
            format!("CPU {}", loss.cpu.0)
        };
        screen.wrapped(4, format!("  {what} on {cpu} between {from} and {to} after the start"));
    }
    for problem in &head.problems {
        let thread =
            problem.thread.map_or(String::new(), |(tid, comm)| format!(" [{} ({tid})]", wording::comm(comm)));
        screen.wrapped(
            4,
            format!("{}: {}{thread}", wording::severity_word(problem.severity()), sentence(problem)),
        );
    }
    if head.problems.is_empty() && head.losses.is_empty() {
        screen.wrapped(0, "nothing");
    }
    match head.clock_error_ns {
        Some(0) => {}
        Some(ns) => screen.wrapped(0, format!("the hosts' clocks agree within {}", duration(ns))),
        None => screen.wrapped(0, "it is not known how far the hosts' clocks are apart"),
    }
    if let Some(cost) = cost::cost(head) {
        screen.wrapped(0, cost);
    }
    for part in cost::parts(head) {
        screen.unwrapped(format!("  {part}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Answered, command};
    use expect_test::expect;
    use wakepath_engine::{Problem, ProblemKind};
    use wakepath_event::{Comm, Cpu, LostRecords, Tid};
    use wakepath_findings::testing::{checkout, checkout_stacks};
    use wakepath_wait_graph::Loss;

    #[test]
    fn a_segment_shows_its_stacks() {
        let mut story = checkout();
        story.stacks = checkout_stacks(&story.path);
        let text = explain(&story.answer(command()), Layout::PLAIN);
        let from = text.find("The largest").expect("the largest segments");
        let shown: Vec<&str> = text[from..].lines().take(12).collect();
        expect![[r#"
            The largest segments
            at 1.13 s for 61.0 ms  postgres (912)  waiting for disk sda, in fdatasync of pg_wal  [packet]
                  it waited in postgres (replaced since the recording)
                explains a wait of checkout (4711) in read on tcp 10.0.0.3:5432, ended by postgres (912)
                  it waited in schedule (kernel) < read (libc.so.6) < ask_bank (checkout) checkout.c:41 < main
                  (checkout) checkout.c:88 < __libc_start_call_main (libc.so.6)
            at 17.0 ms for 49.0 ms  kernel thread jbd2/sda1-8  waiting for disk sda  [wakeup]
                explains a wait of checkout (4711) in fdatasync of orders.db, ended by kernel thread jbd2/sda1-8
                  it waited in schedule (kernel) < fdatasync (libc.so.6) < save_order (checkout) checkout.c:41 <
                  main (checkout) checkout.c:88 < __libc_start_call_main (libc.so.6)
                  it was woken in try_to_wake_up (kernel) < jbd2_journal_commit_transaction (kernel) < kthread
                  (kernel)"#]].assert_eq(&shown.join("\n"));
    }

    #[test]
    fn each_number_says_how_it_was_made() {
        let story = checkout();
        let mut answer = story.answer(command());
        let from = answer.path.window.from;
        let problem = Problem::new(ProblemKind::Stolen(31_000_000), from, from.plus(10));
        let thread = Some((Tid(7), Comm::new(b"\x1bevil")));
        answer.head.problems.push(Problem { thread, ..problem });
        let at = |ns: u64| from.plus(ns);
        answer.head.losses = vec![
            Loss {
                cpu: Cpu(1),
                from: at(1_000_000),
                to: at(2_000_000),
                count: 12,
                records: LostRecords::Any,
                reported: true,
            },
            Loss {
                cpu: Cpu::UNKNOWN,
                from: at(3_000_000),
                to: at(4_000_000),
                count: 0,
                records: LostRecords::Any,
                reported: false,
            },
        ];
        expect![[r#"
            How the path was made
            The active path (Giraldeau 2015, Algorithm 5): from the start of the window to its end, each wait is
            replaced by what the thread that ended it did in that time. The waits of that thread are replaced in
            the same way, until only work, devices, timers and time outside the recording remain. Where a thread
            returned to the same wait for a lock after each time-out, and the lock's owner ended the last of
            these waits, they are explained as one. So is a wait that a periodic tick of an event loop ended,
            with the next wait.
            The path has 71 segments and 15 waits. The segments sum to 1192100000 ns, exactly the window; shares
            are shares of the window.

            What the words mean
            running       the thread was on a CPU, from one switch to the next
            runnable      the thread could run and had no CPU; the thread that had the CPU it was queued on is
                          named
            throttled     the CPU limit of a cgroup was used up, so the scheduler took the thread off the CPU
            block_device  the thread was blocked until a disk request completed; the request is in the queue
                          before it goes to the device
            unknown       the recording does not explain this time; it is never guessed and never left out

            How well it is known
             97.7%   1.16 s  measured: events of the scheduler give both ends
              2.3%  28.0 ms  inferred: the last disk request that completed in the interrupt of the wake-up
                             ended the wait

            The largest segments
            at 1.13 s for 61.0 ms  postgres (912)  waiting for disk sda, in fdatasync of pg_wal  [packet]
                explains a wait of checkout (4711) in read on tcp 10.0.0.3:5432, ended by postgres (912)
            at 17.0 ms for 49.0 ms  kernel thread jbd2/sda1-8  waiting for disk sda  [wakeup]
                explains a wait of checkout (4711) in fdatasync of orders.db, ended by kernel thread jbd2/sda1-8
            at 79.0 ms for 49.0 ms  kernel thread jbd2/sda1-8  waiting for disk sda  [wakeup]
                explains a wait of checkout (4711) in fdatasync of orders.db, ended by kernel thread jbd2/sda1-8
            at 141 ms for 49.0 ms  kernel thread jbd2/sda1-8  waiting for disk sda  [wakeup]
                explains a wait of checkout (4711) in fdatasync of orders.db, ended by kernel thread jbd2/sda1-8
            at 203 ms for 49.0 ms  kernel thread jbd2/sda1-8  waiting for disk sda  [wakeup]
                explains a wait of checkout (4711) in fdatasync of orders.db, ended by kernel thread jbd2/sda1-8

            What is doubtful
            lost 12 records, 1 task switch not recorded
              12 records on CPU 1 between 1.00 ms and 2.00 ms after the start
              a task switch on an unknown CPU between 3.00 ms and 4.00 ms after the start
            doubt: running time may be up to 31.0 ms too long: the hypervisor had the CPU meanwhile [\x1bevil
                (7)]
            recording took 1.2% of a CPU itself; threads ran 1.2 to 1.8% longer for it (6.0 to 8.5 ms)
              switches               50000        120 to 170 ns each        6.0 to 8.5 ms
        "#]].assert_eq(&explain(&answer, Layout::PLAIN));
    }
}
