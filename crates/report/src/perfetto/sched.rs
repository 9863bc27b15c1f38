//! Switches and wake-ups in Perfetto's compact form: a packed column per field, stamps as differences.

use std::collections::HashMap;
use std::io;

use wakepath_clock::{Reference, Stamp};
use wakepath_engine::Recorded;
use wakepath_event::{BlockedState, Comm, Context, Cpu, Tid};
use wakepath_wait_graph::{Graph, Occupancy, Occupant, Thread, ThreadIndex, ThreadState, WakeUp, Waker};

use super::Trace;
use super::proto::Message;
use crate::wording;

/// The number of switches per bundle: small enough to be read piece by piece, large enough to cost little.
const BUNDLE: usize = 4096;
/// The kernel's default priority for an ordinary thread; priorities are not recorded.
const PRIORITY: u64 = 120;

/// Task states as `sched_switch` reports them since Linux 4.14.
mod state {
    pub const INTERRUPTIBLE: u64 = 1;
    pub const UNINTERRUPTIBLE: u64 = 2;
    pub const STOPPED: u64 = 4;
    pub const TRACED: u64 = 8;
    pub const DEAD: u64 = 0x10;
    pub const PARKED: u64 = 0x40;
    pub const IDLE: u64 = 0x80;
    pub const PREEMPTED: u64 = 0x100;
    /// A bit that no kernel uses: Perfetto then has no state.
    pub const UNKNOWN: u64 = 0x4000;
}

/// All switches and wake-ups on all CPUs.
pub fn write(recorded: &Recorded, trace: &mut Trace) -> io::Result<()> {
    let graph = &recorded.graph;
    ends(graph, trace)?;
    let mut wakings = wakings(graph);
    for cpu in graph.cpus() {
        let mut wakings = wakings.remove(&cpu).unwrap_or_default().into_iter().peekable();
        let mut bundle = Bundle::new(cpu);
        let mut before: Option<Occupancy> = None;
        for occupancy in graph.occupancies(cpu, graph.from(), graph.to()) {
            while let Some(waking) = wakings.next_if(|waking| waking.at <= occupancy.from) {
                bundle.waking(graph, &waking);
            }
            match &before {
                Some(before) => bundle.switch(graph, before, &occupancy),
                None => bundle.first(graph, &occupancy),
            }
            if bundle.switches.len() >= BUNDLE {
                std::mem::replace(&mut bundle, Bundle::new(cpu)).write(trace)?;
            }
            before = Some(occupancy);
        }
        wakings.for_each(|waking| bundle.waking(graph, &waking));
        bundle.write(trace)?;
    }
    Ok(())
}

/// The ends of threads, and their ids. To Perfetto the end of a process's main thread is the end of all its threads, so the
/// main thread ends with the last of them.
fn deaths(graph: &Graph) -> Vec<(Stamp<Reference>, Tid)> {
    let end = |index: ThreadIndex, thread: &Thread| graph.has_died(index).then_some(thread.last);
    let mut processes: HashMap<Tid, Stamp<Reference>> = HashMap::new();
    for (index, thread) in graph.threads() {
        if let (Some(tgid), Some(end)) = (thread.tgid(), end(index, thread)) {
            let last = processes.entry(tgid).or_insert(end);
            *last = (*last).max(end);
        }
    }
    let death = |(index, thread): (ThreadIndex, &Thread)| {
        let (end, tid) = (end(index, thread)?, thread.tid());
        let leads = thread.tgid() == Some(tid);
        Some((if leads { processes.get(&tid).copied().unwrap_or(end) } else { end }, tid))
    };
    graph.threads().filter_map(death).collect()
}

/// Writes the threads that ended, since their ids may be used again.
fn ends(graph: &Graph, trace: &mut Trace) -> io::Result<()> {
    let mut bundle = Message::new().number(1, 0);
    for (end, tid) in deaths(graph) {
        let free = Message::new().text(1, "").number(2, tid.0.into()).number(3, PRIORITY);
        // Behind its last switch.
        let event = Message::new().number(1, end.plus(1).ns()).number(2, tid.0.into()).message(240, &free);
        bundle = bundle.message(2, &event);
    }
    trace.packet(Message::new().message(1, &bundle))
}

/// The event that made a thread runnable.
struct Waking {
    at: Stamp<Reference>,
    target: ThreadIndex,
    target_cpu: Cpu,
    context: Context,
}

/// The wake-ups that ended waits, by the waking CPU, in time order.
fn wakings(graph: &Graph) -> HashMap<Cpu, Vec<Waking>> {
    let mut by_cpu: HashMap<Cpu, Vec<Waking>> = HashMap::new();
    for (target, _) in graph.threads() {
        let intervals = graph.state_intervals(target);
        for n in 0..intervals.len() {
            let Some(interval) = intervals.get(n) else { break };
            let wait = graph.wait(&interval);
            let Some(Waker::Woken(WakeUp { at, current, context, .. })) = wait.map(|wait| wait.end) else {
                continue;
            };
            // A wake-up before its own switch-out: the thread never waited, and leaves its CPU runnable.
            if at < interval.from || interval.from == interval.to {
                continue;
            }
            let target_cpu = match intervals.get(n + 1).map(|next| next.state) {
                Some(ThreadState::Runnable { cpu, .. } | ThreadState::Running { cpu, .. })
                    if cpu != Cpu::UNKNOWN =>
                {
                    cpu
                }
                _ => Cpu(0),
            };
            let cpu = cpu_of(graph, current, at).unwrap_or(target_cpu);
            by_cpu.entry(cpu).or_default().push(Waking { at, target, target_cpu, context });
        }
    }
    for wakings in by_cpu.values_mut() {
        wakings.sort_by_key(|waking| (waking.at, waking.target));
    }
    by_cpu
}

/// The CPU on which an occupant was at `at`; for an idle occupant, the first idle CPU.
fn cpu_of(graph: &Graph, occupant: Occupant, at: Stamp<Reference>) -> Option<Cpu> {
    if let Occupant::Thread(thread) = occupant {
        // It may have left its CPU in the same nanosecond.
        let intervals = graph.state_intervals(thread);
        let last = intervals.find(at);
        for interval in [last, last.saturating_sub(1)].into_iter().filter_map(|n| intervals.get(n)) {
            if let (ThreadState::Running { cpu, .. }, true) = (interval.state, interval.to >= at) {
                return Some(cpu);
            }
        }
    }
    let has_it = |cpu: &Cpu| {
        graph.occupancies(*cpu, at, at.plus(1)).next().is_some_and(|occupancy| occupancy.occupant == occupant)
    };
    graph.cpus().find(has_it)
}

struct Switch {
    at: u64,
    prev_state: u64,
    next: u64,
    comm: u64,
}

struct Woken {
    at: u64,
    tid: u64,
    cpu: u64,
    comm: u64,
    flags: u64,
}

/// A stretch of a CPU's events.
#[derive(Default)]
struct Bundle {
    cpu: Cpu,
    names: Vec<Comm>,
    by_name: HashMap<Comm, u64>,
    switches: Vec<Switch>,
    wakings: Vec<Woken>,
    /// `FtraceEvent`s, which have no compact form: the first switch.
    events: Vec<Message>,
}

impl Bundle {
    fn new(cpu: Cpu) -> Self {
        Self { cpu, ..Self::default() }
    }

    fn name(&mut self, comm: Comm) -> u64 {
        *self.by_name.entry(comm).or_insert_with(|| {
            self.names.push(comm);
            self.names.len() as u64 - 1
        })
    }

    /// The thread that has the CPU from the beginning on. For the compact form's first switch on a CPU, Perfetto
    /// keeps only the next thread, so this switch has the long form.
    fn first(&mut self, graph: &Graph, occupancy: &Occupancy) {
        let (next, comm) = occupant(graph, occupancy);
        let switch = Message::new()
            .text(1, "swapper")
            .number(2, 0)
            .number(3, PRIORITY)
            .number(4, 0)
            .text(5, &wording::comm(comm))
            .number(6, next)
            .number(7, PRIORITY);
        self.events.push(Message::new().number(1, occupancy.from.ns()).number(2, 0).message(4, &switch));
    }

    fn switch(&mut self, graph: &Graph, before: &Occupancy, occupancy: &Occupancy) {
        let left = before.occupant.thread();
        let prev_state = left.map_or(0, |thread| left_in(graph, thread, occupancy.from));
        let (next, comm) = occupant(graph, occupancy);
        let comm = self.name(comm);
        self.switches.push(Switch { at: occupancy.from.ns(), prev_state, next, comm });
    }

    fn waking(&mut self, graph: &Graph, waking: &Waking) {
        const HARD_INTERRUPT: u64 = 0x08;
        const SOFT_INTERRUPT: u64 = 0x10;
        let target = graph.thread(waking.target);
        let comm = self.name(target.name_at(waking.at));
        self.wakings.push(Woken {
            at: waking.at.ns(),
            tid: target.tid_at(waking.at).0.into(),
            cpu: waking.target_cpu.0.into(),
            comm,
            flags: match waking.context {
                Context::Task | Context::TaskOrUnrecorded => 0,
                Context::Softirq(_) => SOFT_INTERRUPT,
                _ => HARD_INTERRUPT,
            },
        });
    }

    /// `FtraceEventBundle` with its `CompactSched`.
    fn write(self, trace: &mut Trace) -> io::Result<()> {
        if self.switches.is_empty() && self.wakings.is_empty() && self.events.is_empty() {
            return Ok(());
        }
        let (switches, wakings) = (&self.switches, &self.wakings);
        let mut compact = Message::new();
        for name in &self.names {
            compact = compact.text(5, &wording::comm(*name));
        }
        let compact = compact
            .packed(1, differences(switches.iter().map(|switch| switch.at)))
            .packed(2, switches.iter().map(|switch| switch.prev_state))
            .packed(3, switches.iter().map(|switch| switch.next))
            .packed(4, switches.iter().map(|_| PRIORITY))
            .packed(6, switches.iter().map(|switch| switch.comm))
            .packed(7, differences(wakings.iter().map(|waking| waking.at)))
            .packed(8, wakings.iter().map(|waking| waking.tid))
            .packed(9, wakings.iter().map(|waking| waking.cpu))
            .packed(10, wakings.iter().map(|_| PRIORITY))
            .packed(11, wakings.iter().map(|waking| waking.comm))
            .packed(12, wakings.iter().map(|waking| waking.flags));
        let mut bundle = Message::new().number(1, self.cpu.0.into());
        for event in &self.events {
            bundle = bundle.message(2, event);
        }
        trace.packet(Message::new().message(1, &bundle.message(4, &compact)))
    }
}

/// The id and name of the thread on a CPU.
fn occupant(graph: &Graph, occupancy: &Occupancy) -> (u64, Comm) {
    match occupancy.occupant.thread() {
        Some(thread) => {
            let thread = graph.thread(thread);
            (thread.tid_at(occupancy.from).0.into(), thread.name_at(occupancy.from))
        }
        // Perfetto cannot show a CPU with an unknown thread.
        None => (0, Comm::new(b"swapper")),
    }
}

/// The state in which a thread left its CPU at `at`, by its next state.
fn left_in(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> u64 {
    let intervals = graph.state_intervals(thread);
    let Some(next) = intervals.get(intervals.find(at)) else {
        return if graph.has_died(thread) { state::DEAD } else { state::PREEMPTED };
    };
    match next.state {
        ThreadState::Blocked(_) => match graph.wait(&next).and_then(|wait| wait.state) {
            None | Some(BlockedState::Interruptible) => state::INTERRUPTIBLE,
            Some(BlockedState::Stopped) => state::STOPPED,
            Some(BlockedState::Traced) => state::TRACED,
            Some(BlockedState::Parked) => state::PARKED,
            Some(BlockedState::Idle) => state::IDLE,
            Some(
                BlockedState::Uninterruptible
                | BlockedState::Frozen
                | BlockedState::RtLockWait
                | BlockedState::Other(_),
            ) => state::UNINTERRUPTIBLE,
        },
        ThreadState::Unknown(_) => state::UNKNOWN,
        ThreadState::Running { .. } | ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => {
            state::PREEMPTED
        }
    }
}

/// Each stamp's difference to the stamp before it; the first is whole.
fn differences(stamps: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let mut last = 0;
    stamps.map(move |at| at.wrapping_sub(std::mem::replace(&mut last, at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::trace;

    #[test]
    fn a_thread_leaves_its_cpu_preempted_only_where_it_is_known_to_wait_for_it() {
        let recorded = trace(
            "thread lost tid=10
             thread dead tid=11
             thread last tid=12
             0 c0 idle started
             0 c0 idle switch lost
             0 c1 idle switch dead
             100 c0 lost waking last
             150 c0 last waking dead
             170 c1 dead switch idle dead
             250 c0 last switch lost runnable
             300 c0 lost switch last runnable
             400 c0 last stopped",
        );
        let left = |tid, at| {
            let thread = recorded.with_tid(Tid(tid))[0];
            left_in(&recorded.graph, thread, Stamp::from_ns(at))
        };
        assert_eq!(left(10, 100), state::UNKNOWN, "its switch-out has no record");
        assert_eq!(left(11, 170), state::DEAD, "its exit has no record");
        assert_eq!(left(12, 250), state::PREEMPTED);
        assert_eq!(left(10, 300), state::PREEMPTED);
    }

    #[test]
    fn a_dead_threads_id_is_given_back_and_a_process_ends_with_its_last_thread() {
        let recorded = trace(
            "thread main tid=10
             thread worker tid=11 tgid=10
             thread other tid=12
             0 c0 idle started
             0 c0 idle switch main
             0 c1 idle switch worker
             50 c0 main exit
             60 c0 main switch other dead
             90 c1 worker switch idle dead
             99 c0 other stopped",
        );
        let deaths: Vec<_> = deaths(&recorded.graph).iter().map(|(at, tid)| (at.ns(), tid.0)).collect();
        assert_eq!(deaths, [(90, 10), (90, 11)]);
    }

    #[test]
    fn a_thread_may_end_at_the_last_stamp_there_is() {
        let recorded = trace(
            "thread a tid=20
             0 c0 idle started
             0 c0 idle switch a
             18446744073709551615 c0 a exit",
        );
        let mut out = Vec::new();
        crate::perfetto(&recorded, &[], &mut out).expect("memory has no errors");
        assert!(!out.is_empty());
    }
}
