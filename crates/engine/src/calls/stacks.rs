//! A process's time in a function by the stacks with it, where its calls are not known.

use std::sync::OnceLock;

use wakepath_critical_path::{Algorithm, Window};
use wakepath_distribution::{Histogram, Unit};
use wakepath_findings::{FunctionTree, GroupTimes, SampledPath, Spent};
use wakepath_wait_graph::{ThreadIndex, ThreadState};

use super::functions::{below, below_at_wait, name_in_code};
use super::goroutines::CallGoroutines;
use super::{CallsAnswer, CallsOf, Which, group, head_of};
use crate::code_names::code_names;
use crate::{Comm, Recorded, Tid};

/// A process's time in a function.
#[derive(Debug)]
pub struct FunctionStacks<'r> {
    /// The process, and its name.
    pub process: (Tid, Option<Comm>),
    /// The recorded time, ns.
    pub window_ns: u64,
    /// All the process's samples.
    pub samples: u64,
    /// The path to the function with most time. Its times count as a single call's: all time in the function, on all threads.
    pub path: SampledPath,
    /// The waits in the function, explained like calls.
    pub waits: CallsAnswer<'r>,
}

impl FunctionStacks<'_> {
    /// Whether no stack holds the function.
    pub fn is_empty(&self) -> bool {
        self.path.spent == Spent::default()
    }
}

/// Finds a process's samples and waits whose stacks hold a function. `target` is `FILE:FUNCTION`.
pub fn function_stacks<'r>(recorded: &'r Recorded, process: Tid, target: &str) -> FunctionStacks<'r> {
    let graph = &recorded.graph;
    let (from, to) = (graph.from(), graph.to());
    let function = &name_in_code(target);
    let (mut tree, mut names) = (FunctionTree::default(), code_names(recorded).with_whole_functions());
    let (mut all, mut waits, mut comm) = (0, Vec::new(), None);
    let of_process = |thread: ThreadIndex| recorded.thread_at(thread, to).tgid == Some(process);
    for thread in graph.threads().map(|(thread, _)| thread).filter(|thread| of_process(*thread)) {
        comm = comm.or_else(|| Some(recorded.thread_at(thread, to).comm));
        let intervals = graph.state_intervals(thread);
        let (mut of_thread, mut within) = (0_u64, 0_u64);
        for sample in graph.samples(thread, from, to) {
            of_thread += 1;
            if let Some(functions) = below(names.sample_frames(&sample), function) {
                within += 1;
                tree.add(true, Spent { samples: 1, ..Spent::default() }, Some(functions));
            }
        }
        let ran_ns = intervals.time_in(from, to, |state| matches!(state, ThreadState::Running { .. }));
        all += of_thread;
        let mut waited_ns = 0;
        for wait in intervals.overlapping(from, to) {
            let window = Window { thread, from: wait.from.max(from), to: wait.to.min(to) };
            if !matches!(wait.state, ThreadState::Blocked(_)) || window.length() == 0 {
                continue;
            }
            if let Some(functions) = below_at_wait(&mut names, (thread, wait.from), function) {
                waited_ns += window.length();
                tree.add(true, Spent { waits: 1, waited_ns: window.length(), samples: 0 }, Some(functions));
                waits.push(window);
            }
        }
        // Each sample stands for an equal part: the thread's time on a CPU.
        let ran_ns =
            (u128::from(ran_ns) * u128::from(within)).checked_div(u128::from(of_thread)).unwrap_or(0) as u64;
        tree.add_calls(true, GroupTimes { calls: 0, ran_ns, ready_ns: 0, total_ns: ran_ns + waited_ns });
    }
    tree.add_calls(true, GroupTimes { calls: 1, ..GroupTimes::default() });
    FunctionStacks {
        process: (process, comm),
        window_ns: to.since(from),
        samples: all,
        path: tree.path(),
        waits: explained(recorded, target, &waits),
    }
}

/// Explains waits like calls.
fn explained<'r>(recorded: &'r Recorded, target: &str, waits: &[Window]) -> CallsAnswer<'r> {
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    waits.iter().for_each(|wait| histogram.add(wait.length()));
    let mut names = code_names(recorded);
    let none = CallGoroutines::default();
    let (asked, _) = group(recorded, waits, &none, Algorithm::default(), &mut names);
    CallsAnswer {
        head: head_of(recorded, &asked, None),
        of: CallsOf::Waits,
        target: target.into(),
        histogram,
        unwound: 0,
        open: 0,
        moved: 0,
        unprobed_after: None,
        of_goroutines: false,
        followed: 0,
        parked: Vec::new(),
        asked,
        which: Which::All,
        usual: None,
        findings: OnceLock::new(),
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{BlockedState, EventKind, Mark, Stack, SwitchOut};
    use wakepath_findings::SampledDoubt;
    use wakepath_loaded::testing::{event, read, thread};

    use super::*;

    #[test]
    fn only_stacks_of_the_process_that_hold_the_function_count() {
        let switch = |at, cpu, current, next, out| {
            event(at, cpu, current, EventKind::Switch { next: Tid(next), out, interrupts_ns: 0, call: None })
        };
        let sample = |at, cpu, tid: u32| {
            let tgid = Tid(if tid == 11 { 10 } else { tid });
            let stack = Stack { tgid, kernel: [].into(), user: [0x1000].into(), scanned: 0, proved: 1 };
            event(at, cpu, tid, EventKind::Sample(stack))
        };
        let mut events = vec![
            event(0, 0, 0, thread(10, 10, 1, "leader")),
            event(0, 0, 0, thread(11, 10, 1, "worker")),
            event(0, 0, 0, thread(20, 20, 1, "other")),
            event(1, 0, 0, EventKind::Mark(Mark::Started)),
            switch(2, 0, 0, 11, SwitchOut::Runnable),
            switch(2, 1, 0, 20, SwitchOut::Runnable),
            sample(10, 0, 11),
            sample(20, 0, 11),
            sample(20, 1, 20),
            switch(30, 0, 11, 0, SwitchOut::Blocked(BlockedState::Interruptible)),
            event(100, 1, 20, EventKind::Mark(Mark::Stopped)),
        ];
        events.sort_by_key(|event| event.at);
        let recorded = read(&events);
        // No file has names, so that no stack holds it.
        let found = function_stacks(&recorded, Tid(10), "./app:serve");
        assert_eq!((found.samples, found.window_ns, found.is_empty()), (2, 100, true));
        assert_eq!((found.path.spent, found.path.more_ns), (Spent::default(), 0.0));
        assert_eq!(found.path.doubts, [SampledDoubt::Few]);
        assert_eq!((found.waits.asked.calls, found.waits.target.bytes()), (0, &b"./app:serve"[..]));
        assert_eq!(function_stacks(&recorded, Tid(20), "./app:serve").samples, 1);
        let nobody = function_stacks(&recorded, Tid(30), "./app:serve");
        assert_eq!((nobody.samples, nobody.process), (0, (Tid(30), None)));
    }
}
