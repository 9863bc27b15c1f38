//! The functions in which a function's recorded calls spent their time, by samples and by the waits' stacks.

use wakepath_critical_path::Window;
use wakepath_findings::{FunctionTree, GroupTimes, SampledPath, Spent};
use wakepath_loaded::Frame;
use wakepath_symbols::Found;
use wakepath_wait_graph::{Graph, ThreadState};

use super::{CallsAnswer, CallsOf};
use crate::CodeNames;
use crate::code_names::code_names;

/// Every system call's way into the kernel.
const ENTRIES: [&str; 4] = ["entry_SYSCALL", "do_syscall_64", "x64_sys_call", "asm_"];

impl CallsAnswer<'_> {
    /// The path to the function that makes the selected calls longer than the usual calls. `None` for goroutines, whose threads run others while they
    /// wait, and for requests.
    pub fn sampled_path(&self) -> Option<SampledPath> {
        let recorded = self.asked.paths.first()?.recorded;
        if self.of_goroutines || self.of == CallsOf::Operation {
            return None;
        }
        let target = String::from_utf8_lossy(self.target.bytes());
        let function = target.split_once(':').map_or(&*target, |(_, function)| function);
        let (mut tree, mut names) = (FunctionTree::default(), code_names(recorded).with_whole_functions());
        let groups = [(true, Some(&self.asked)), (false, self.usual.as_ref().map(|(_, usual)| usual))];
        for (is_asked, group) in groups {
            for path in group.into_iter().flat_map(|group| &group.paths) {
                add(&mut tree, is_asked, (&recorded.graph, path.path.window), &mut names, function);
            }
        }
        Some(tree.path())
    }
}

/// Adds a call: its samples, and its thread's waits.
fn add(
    tree: &mut FunctionTree,
    is_asked: bool,
    (graph, call): (&Graph, Window),
    names: &mut CodeNames<'_>,
    function: &str,
) {
    let Window { thread, from, to } = call;
    let intervals = graph.state_intervals(thread);
    tree.add_calls(
        is_asked,
        GroupTimes {
            calls: 1,
            ran_ns: intervals.time_in(from, to, |state| matches!(state, ThreadState::Running { .. })),
            ready_ns: intervals.time_in(from, to, |state| {
                matches!(state, ThreadState::Runnable { .. } | ThreadState::Throttled { .. })
            }),
            total_ns: to.since(from),
        },
    );
    for sample in graph.samples(thread, from, to) {
        let spent = Spent { samples: 1, ..Spent::default() };
        let frames = names.sample_frames(&sample);
        tree.add(is_asked, spent, below(frames, function));
    }
    for wait in intervals.overlapping(from, to) {
        if !matches!(wait.state, ThreadState::Blocked(_)) {
            continue;
        }
        let waited_ns = wait.to.min(to).since(wait.from.max(from));
        let spent = Spent { waits: 1, waited_ns, ..Spent::default() };
        let frames = names.stack_at(thread, wait.from);
        // The kernel's own functions of a wait are the same for each.
        let frames = frames.map(|frames| frames.into_iter().filter(|frame| !frame.in_kernel).collect());
        tree.add(is_asked, spent, frames.and_then(|frames| below(frames, function)));
    }
}

/// The functions below a function's outermost frame, outermost first; `None` without such a frame. `frames`: innermost first.
fn below(frames: Vec<Frame>, function: &str) -> Option<Vec<Frame>> {
    let place = frames.iter().rposition(|frame| is(&frame.found, function))?;
    let below = frames.into_iter().take(place).rev();
    Some(below.filter(|frame| !frame.in_kernel || !is_entry(&frame.found)).collect())
}

/// Whether a name found in the code is the function's as it was asked for: without the parameters, in C++.
fn is(found: &Found, function: &str) -> bool {
    let Found::Function(found) = found else { return false };
    let rest = found.name.strip_prefix(function);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
}

fn is_entry(found: &Found) -> bool {
    let Found::Function(found) = found else { return false };
    ENTRIES.iter().any(|entry| found.name.starts_with(entry))
}
