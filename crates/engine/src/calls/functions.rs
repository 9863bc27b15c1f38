//! The functions in which a function's recorded calls spent their time, by samples and by the waits' stacks.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Window;
use wakepath_findings::{FunctionTree, GroupTimes, SampledPath, Spent};
use wakepath_loaded::Frame;
use wakepath_symbols::{Found, demangle};
use wakepath_wait_graph::{Graph, ThreadIndex, ThreadState};

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
        if self.of_goroutines || self.of != CallsOf::Function {
            return None;
        }
        let target = String::from_utf8_lossy(self.target.bytes());
        let function = name_in_code(&target);
        let (mut tree, mut names) = (FunctionTree::default(), code_names(recorded).with_whole_functions());
        let groups = [(true, Some(&self.asked)), (false, self.usual.as_ref().map(|(_, usual)| usual))];
        for (is_asked, group) in groups {
            for path in group.into_iter().flat_map(|group| &group.paths) {
                add(&mut tree, is_asked, (&recorded.graph, path.path.window), &mut names, &function);
            }
        }
        Some(tree.path())
    }
}

/// The kernel's ways to a probe's handler: a breakpoint, a return, or a call in the place of a breakpoint.
const PROBES: [&str; 6] = [
    "asm_exc_int3",
    "asm_exc_debug",
    "uprobe_notify_resume",
    "uprobe_handle_trampoline",
    "__do_sys_uretprobe",
    "__do_sys_uprobe",
];

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
        add_sample(tree, is_asked, names.sample_frames(&sample), function);
    }
    for wait in intervals.overlapping(from, to) {
        if !matches!(wait.state, ThreadState::Blocked(_)) {
            continue;
        }
        let waited_ns = wait.to.min(to).since(wait.from.max(from));
        let spent = Spent { waits: 1, waited_ns, ..Spent::default() };
        tree.add(is_asked, spent, below_at_wait(names, (thread, wait.from), function));
    }
}

/// Adds a sample with these functions, innermost first.
fn add_sample(tree: &mut FunctionTree, is_asked: bool, frames: Vec<Frame>, function: &str) {
    if is_in_probe(&frames) {
        return tree.add_probe(is_asked);
    }
    tree.add(is_asked, Spent { samples: 1, ..Spent::default() }, below(frames, function));
}

/// The functions below a function, at a thread's wait from this time on.
pub(super) fn below_at_wait(
    names: &mut CodeNames<'_>,
    (thread, from): (ThreadIndex, Stamp<Reference>),
    function: &str,
) -> Option<Vec<Frame>> {
    let frames = names.stack_at(thread, from)?;
    // The kernel's own functions of a wait are the same for each.
    below(frames.into_iter().filter(|frame| !frame.in_kernel).collect(), function)
}

/// The functions below a function's outermost frame, outermost first; `None` without such a frame. `frames`: innermost first.
pub(super) fn below(frames: Vec<Frame>, function: &str) -> Option<Vec<Frame>> {
    let place = frames.iter().rposition(|frame| is(&frame.found, function))?;
    let below = frames.into_iter().take(place).rev();
    Some(below.filter(|frame| !frame.in_kernel || !is_entry(&frame.found)).collect())
}

/// The function's name as the code's names are written; a mangled name is written out.
pub(super) fn name_in_code(target: &str) -> String {
    let file_end = target.rfind('/').map_or(0, |slash| slash + 1);
    let function = target[file_end..].split_once(':').map_or(target, |(_, function)| function);
    demangle::with_parameters(function).unwrap_or_else(|| function.to_owned())
}

/// The suffixes of a function's copies, and of its seldom run part.
const PARTS: [&str; 6] = [".constprop.", ".isra.", ".part.", ".lto_priv.", ".llvm.", ".cold"];

/// Whether a name found in the code is the function's as it was asked for: without the parameters, in C++.
fn is(found: &Found, function: &str) -> bool {
    let Found::Function(found) = found else { return false };
    let rest = found.name.strip_prefix(function);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with('(') || PARTS.iter().any(|part| rest.starts_with(part))
    })
}

/// Whether the kernel works for a probe there, which the program alone would not have.
fn is_in_probe(frames: &[Frame]) -> bool {
    let is_probe = |found: &Found| matches!(found, Found::Function(it) if PROBES.contains(&it.name.as_str()));
    frames.iter().any(|frame| frame.in_kernel && is_probe(&frame.found))
}

fn is_entry(found: &Found) -> bool {
    let Found::Function(found) = found else { return false };
    ENTRIES.iter().any(|entry| found.name.starts_with(entry))
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_critical_path::Algorithm;
    use wakepath_event::{
        BlockedState, CallEnd, EventKind, FunctionCall, Mark, NameSpace, Stack, SwitchOut, Tid,
    };
    use wakepath_findings::SampledDoubt;
    use wakepath_loaded::testing::{event, read, thread};
    use wakepath_symbols::Function;

    use super::*;
    use crate::{CallsQuery, Which, calls};

    fn frame(name: &str, in_kernel: bool) -> Frame {
        let function = Function { name: name.to_owned(), module: None, line: None };
        Frame { found: Found::Function(function), in_kernel, proved: true }
    }

    /// A stack's frames, innermost first; `k:` are the kernel's.
    fn frames(stack: &str) -> Vec<Frame> {
        let frames = stack.split(' ').map(|name| match name.strip_prefix("k:") {
            Some(name) => frame(name, true),
            None => frame(name, false),
        });
        frames.collect()
    }

    /// The names below `serve` in a stack.
    fn names(stack: &str) -> Option<Vec<String>> {
        let name = |frame: Frame| match frame.found {
            Found::Function(function) => function.name,
            _ => String::new(),
        };
        below(frames(stack), "serve").map(|all| all.into_iter().map(name).collect())
    }

    fn are(expected: &str) -> Option<Vec<String>> {
        Some(expected.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn the_functions_below_the_outermost_call_are_those_of_a_stack() {
        assert_eq!(names("leaf middle serve main"), are("middle leaf"));
        assert_eq!(names("serve main"), are(""));
        assert_eq!(names("leaf main"), None);
        // Recursion: all of it is below the first call.
        assert_eq!(names("leaf serve middle serve main"), are("middle serve leaf"));
        // The way into the kernel is the same for each call; a program's function may have its name.
        let stack = "k:copy_page k:__x64_sys_read k:x64_sys_call k:do_syscall_64 k:entry_SYSCALL_64_after_hwframe read asm_copy serve";
        assert_eq!(names(stack), are("asm_copy read __x64_sys_read copy_page"));
    }

    #[test]
    fn a_sample_in_a_probe_belongs_to_no_function() {
        let mut tree = FunctionTree::default();
        tree.add_calls(true, GroupTimes { calls: 1, ran_ns: 100, ready_ns: 0, total_ns: 100 });
        let probe = "k:uprobe_dispatcher k:uprobe_notify_resume k:asm_exc_int3 serve main";
        for stack in ["leaf serve main", probe, probe, "k:copy_page read serve main"] {
            add_sample(&mut tree, true, frames(stack), "serve");
        }
        let path = tree.path();
        assert_eq!((path.spent.samples, path.probes_ns), (2, 50.0));
    }

    #[test]
    fn the_kernels_work_for_a_probe_is_known_by_its_ways_there() {
        let is_in_probe = |stack: &str| is_in_probe(&frames(stack));
        // Linux 6.18 has these: at an entry, at a return, and where a call takes the place of the breakpoint.
        let handler =
            "k:bpf_prog_1e37_drill_enter k:uprobe_prog_run k:uprobe_multi_link_handler k:handler_chain";
        assert!(is_in_probe(&format!("{handler} k:uprobe_notify_resume k:irqentry_exit_to_user_mode serve")));
        assert!(is_in_probe("k:irqentry_exit_to_user_mode k:asm_exc_int3 serve main"));
        assert!(is_in_probe("k:uprobe_handle_trampoline k:__do_sys_uretprobe k:do_syscall_64 main"));
        // A sample at the end of an interrupt, a system call, and the program's own functions with such names.
        assert!(!is_in_probe("k:irqentry_exit_to_user_mode k:asm_sysvec_apic_timer_interrupt serve"));
        assert!(!is_in_probe("k:__x64_sys_read k:do_syscall_64 read uprobe_notify_resume"));
        assert!(!is_in_probe("serve asm_exc_int3"));
    }

    #[test]
    fn parameters_are_no_part_of_a_functions_name() {
        for (name, is_it) in [
            ("serve", true),
            ("serve(int)", true),
            ("server", false),
            ("serve<int>(int)", false),
            ("a::serve", false),
            ("serve.isra.0", true),
            ("serve.cold", true),
            ("serve.other", false),
        ] {
            assert_eq!(is(&frame(name, false).found, "serve"), is_it, "{name}");
        }
        assert!(!is(&Found::Unnamed(b"serve".to_vec()), "serve"));
        assert!(is(&frame("shop::serve(int)", false).found, "shop::serve"));
    }

    #[test]
    fn a_target_is_written_as_the_code_has_it() {
        for (target, name) in [
            ("./app:serve", "serve"),
            ("/opt/a:b/app:shop::serve", "shop::serve"),
            ("app:_ZN4shop5serveEi", "shop::serve(int)"),
            ("kernel:vfs_read", "vfs_read"),
            ("serve", "serve"),
        ] {
            assert_eq!(name_in_code(target), name);
        }
    }

    /// A thread whose calls of this function take 100 ns, but a call from 10,000 to 11,000 ns: it runs for 200 ns, waits for 300 and for a CPU for 100,
    /// and runs on. Samples at these times.
    fn path_of(target: &str, end: CallEnd, samples: &[u64]) -> Option<SampledPath> {
        let switch = |at, current, next, out| {
            event(at, 0, current, EventKind::Switch { next: Tid(next), out, interrupts_ns: 0, call: None })
        };
        let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
        let mut events = vec![
            event(0, 0, 0, EventKind::Name(NameSpace::Target, 0, target.as_bytes().into())),
            event(0, 0, 0, thread(10, 10, 1, "worker")),
            event(1, 0, 0, EventKind::Mark(Mark::Started)),
            switch(2, 0, 10, SwitchOut::Runnable),
            switch(10_200, 10, 0, blocked),
            event(10_500, 0, 0, EventKind::Waking { target: Tid(10), irq: 0, newborn: false, socket: None }),
            switch(10_600, 0, 10, SwitchOut::Runnable),
        ];
        let call = |from: u64, to: u64, end| {
            let call = FunctionCall { target: 0, thread: Tid(10), from: Stamp::from_ns(from), end };
            event(to, 0, 10, EventKind::Function(call))
        };
        events.extend((0..20).map(|i| call(100 * i + 50, 100 * i + 150, CallEnd::Returned)));
        events.push(call(10_000, 11_000, end));
        events.extend(samples.iter().map(|at| {
            let stack =
                Stack { tgid: Tid(10), kernel: [].into(), user: [0x1000].into(), scanned: 0, proved: 1 };
            event(*at, 0, 10, EventKind::Sample(stack))
        }));
        events.push(event(20_000, 0, 10, EventKind::Mark(Mark::Stopped)));
        events.sort_by_key(|event| event.at);
        let recorded = read(&events);
        let query = CallsQuery { target: None, which: Which::Above(500), algorithm: Algorithm::Active };
        calls(&recorded, None, &query).expect("a call").sampled_path()
    }

    #[test]
    fn a_calls_time_is_divided_and_its_samples_and_waits_are_counted() {
        let path = path_of("./app:serve", CallEnd::Returned, &[9_999, 10_000, 10_700, 10_999, 11_000])
            .expect("a path");
        let GroupTimes { calls, ran_ns, ready_ns, total_ns } = path.times.asked;
        assert_eq!((calls, ran_ns, ready_ns, total_ns), (1, 600, 100, 1_000));
        let GroupTimes { calls, ran_ns, ready_ns, total_ns } = path.times.usual;
        assert_eq!((calls, ran_ns, ready_ns, total_ns), (20, 2_000, 0, 2_000));
        // No stack of the wait was recorded, and no file has names.
        assert_eq!(path.spent, Spent { samples: 3, waits: 1, waited_ns: 300 });
        assert_eq!(path.doubts, [SampledDoubt::Few, SampledDoubt::Unplaced(4, 4)]);
    }

    #[test]
    fn a_goroutines_call_has_no_path_by_its_thread() {
        assert!(path_of("./app:serve", CallEnd::Stayed, &[10_000]).is_none());
    }
}
