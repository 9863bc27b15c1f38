//! A simulated machine's scheduler.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wakepath_event::{BlockedState, Context, Direction, EventKind, Mark, Softirq, SwitchOut, Tid};

use super::recorder::{Recorder, request};
use super::truth::{StateInterval, ThreadState, Truth, WaitEnd};
use super::{Action, Program, Run, tid};

/// The running machine. Time goes from a due event to the next.
pub(crate) struct Machine<'a> {
    program: &'a Program,
    now: u64,
    due: BinaryHeap<Reverse<(u64, u64, ScheduledEvent)>>,
    order: u64,
    threads: Vec<Thread>,
    /// Each CPU's thread, and the number of its switches.
    cpus: Vec<(Option<usize>, u64)>,
    queue: VecDeque<usize>,
    semaphores: Vec<WaitQueue>,
    sockets: Vec<WaitQueue>,
    recorder: Recorder,
    truth: Truth,
}

/// A semaphore, or a socket's receive queue.
#[derive(Debug, Clone, Default)]
struct WaitQueue {
    count: usize,
    waiters: VecDeque<usize>,
}

#[derive(Debug, Clone)]
struct Thread {
    next: usize,
    state: State,
    since: u64,
    /// The run time that the current action still needed when the thread was last resumed.
    remaining: u64,
    resumed: u64,
    cpu: usize,
    began: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unborn,
    Runnable,
    Running,
    /// Running, and about to block; `Some` if it was woken in this time, so the wait ends as it begins.
    Leaving(Option<WaitEnd>),
    Blocked,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ScheduledEvent {
    /// A running action ends; `u64`: the CPU's switch count at its beginning.
    Ran(usize, u64),
    /// A time slice ends; the same `u64`.
    Slice(usize, u64),
    /// A thread that decided to wait leaves its CPU.
    Leave(usize),
    Timer(usize),
    Disk(usize),
    /// A packet arrives: sender, socket, id, send time.
    Packet(usize, usize, u32, u64),
}

impl<'a> Machine<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        let count = program.threads.len();
        let sockets =
            1 + program.threads.iter().flatten().map(|action| action.wait_queue()).max().unwrap_or(0);
        let thread =
            Thread { next: 0, state: State::Unborn, since: 0, remaining: 0, resumed: 0, cpu: 0, began: 0 };
        Self {
            program,
            now: 0,
            due: BinaryHeap::new(),
            order: 0,
            threads: vec![thread; count],
            cpus: vec![(None, 0); program.cpus.unwrap_or(count)],
            queue: VecDeque::new(),
            semaphores: vec![WaitQueue::default(); sockets],
            sockets: vec![WaitQueue::default(); sockets],
            recorder: Recorder::default(),
            truth: Truth {
                threads: vec![Vec::new(); count],
                completed: vec![None; count],
                actions: program.threads.iter().map(|actions| vec![None; actions.len()]).collect(),
                forkers: vec![None; count],
            },
        }
    }

    pub(crate) fn run(mut self) -> Run {
        let forked: Vec<usize> = self
            .program
            .threads
            .iter()
            .flatten()
            .filter_map(|action| if let Action::Fork(child) = action { Some(*child) } else { None })
            .collect();
        let alive: Vec<usize> = (0..self.threads.len()).filter(|thread| !forked.contains(thread)).collect();
        self.recorder.begin(alive.iter().copied(), self.sockets.len());
        for thread in alive {
            self.threads[thread].state = State::Runnable;
            self.threads[thread].cpu = thread % self.cpus.len();
            self.queue.push_back(thread);
        }
        self.dispatch();
        while let Some(Reverse((at, _, due))) = self.due.pop() {
            self.now = at;
            self.happen(due);
        }
        for thread in 0..self.threads.len() {
            match self.threads[thread].state {
                State::Blocked => self.close(thread, ThreadState::Blocked(WaitEnd::Open)),
                State::Unborn | State::Dead => {}
                other => unreachable!("thread {thread} ends {other:?}"),
            }
        }
        self.recorder.beside(self.now, EventKind::Mark(Mark::Stopped));
        Run { events: self.recorder.events, truth: self.truth, end: self.now }
    }

    fn after(&mut self, ns: u64, due: ScheduledEvent) {
        self.order += 1;
        self.due.push(Reverse((self.now + ns, self.order, due)));
    }

    fn happen(&mut self, due: ScheduledEvent) {
        match due {
            ScheduledEvent::Ran(thread, count) if self.switch_count(thread) == Some(count) => {
                self.threads[thread].remaining = 0;
                self.done(thread);
                self.step(thread);
            }
            ScheduledEvent::Slice(thread, count)
                if self.switch_count(thread) == Some(count) && !self.queue.is_empty() =>
            {
                let ran = self.now - self.threads[thread].resumed;
                self.threads[thread].remaining -= ran;
                self.leave(thread, SwitchOut::Runnable);
                self.queue.push_back(thread);
                self.dispatch();
            }
            ScheduledEvent::Slice(thread, count) if self.switch_count(thread) == Some(count) => {
                self.after(self.program.slice, ScheduledEvent::Slice(thread, count));
            }
            ScheduledEvent::Ran(..) | ScheduledEvent::Slice(..) => {}
            ScheduledEvent::Leave(thread) => {
                let State::Leaving(woken) = self.threads[thread].state else { return };
                self.leave(thread, SwitchOut::Blocked(BlockedState::Interruptible));
                if let Some(end) = woken {
                    self.runnable(thread, end);
                }
                self.dispatch();
            }
            ScheduledEvent::Timer(thread) => {
                let cpu = self.threads[thread].cpu;
                self.wake(thread, cpu, Context::LocalTimer, WaitEnd::Timer);
                self.dispatch();
            }
            ScheduledEvent::Disk(thread) => {
                let cpu = self.threads[thread].cpu;
                let (current, context) = (self.current(cpu), Context::Softirq(Softirq::Block));
                let request = request(thread, self.threads[thread].began);
                self.recorder.write(self.now, cpu, context, current, EventKind::BlockComplete(request));
                self.wake(thread, cpu, context, WaitEnd::Disk);
                self.dispatch();
            }
            ScheduledEvent::Packet(sender, socket, id, sent) => {
                self.arrive(sender, socket, id, sent, None);
                self.dispatch();
            }
        }
    }

    /// The switch count of a running thread's CPU.
    fn switch_count(&self, thread: usize) -> Option<u64> {
        let running = matches!(self.threads[thread].state, State::Running);
        running.then(|| self.cpus[self.threads[thread].cpu].1)
    }

    fn current(&self, cpu: usize) -> Tid {
        self.cpus[cpu].0.map_or(Tid::IDLE, tid)
    }

    fn close(&mut self, thread: usize, state: ThreadState) {
        let from = self.threads[thread].since;
        self.threads[thread].since = self.now;
        if from < self.now {
            self.truth.threads[thread].push(StateInterval { from, to: self.now, state });
        }
    }

    /// Takes a thread off its CPU, which is then idle.
    fn leave(&mut self, thread: usize, out: SwitchOut) {
        let cpu = self.threads[thread].cpu;
        let ran = self.now - self.threads[thread].since;
        let interrupts = (ran % 7).min(ran / 3) as u32;
        self.close(thread, ThreadState::Running);
        self.threads[thread].state = match out {
            SwitchOut::Runnable | SwitchOut::Throttled => State::Runnable,
            SwitchOut::Blocked(_) => State::Blocked,
            SwitchOut::Dead => State::Dead,
        };
        self.cpus[cpu].0 = None;
        self.cpus[cpu].1 += 1;
        let next = self.next_for(cpu);
        if let Some(next) = next {
            self.queue.retain(|&queued| queued != next);
        }
        let to = next.map_or(Tid::IDLE, tid);
        self.recorder.switch(self.now, cpu, (tid(thread), to), out, interrupts);
        if let Some(next) = next {
            self.enter(next, cpu);
        }
    }

    /// The queued thread that takes a free CPU.
    fn next_for(&self, cpu: usize) -> Option<usize> {
        self.queue.iter().copied().find(|&thread| self.program.cpus.is_some() || thread == cpu)
    }

    /// Gives free CPUs to waiting threads.
    fn dispatch(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].0.is_some() {
                continue;
            }
            let Some(next) = self.next_for(cpu) else { continue };
            self.queue.retain(|&queued| queued != next);
            self.recorder.switch(self.now, cpu, (Tid::IDLE, tid(next)), SwitchOut::Runnable, 0);
            self.enter(next, cpu);
        }
    }

    /// Puts a thread on a CPU; the switch is already written.
    fn enter(&mut self, thread: usize, cpu: usize) {
        self.close(thread, ThreadState::Runnable);
        self.threads[thread].state = State::Running;
        self.threads[thread].cpu = cpu;
        self.threads[thread].resumed = self.now;
        self.cpus[cpu].0 = Some(thread);
        self.cpus[cpu].1 += 1;
        let count = self.cpus[cpu].1;
        if self.program.cpus.is_some() {
            self.after(self.program.slice, ScheduledEvent::Slice(thread, count));
        }
        // A thread continues with its next action at its own turn, even without a wait.
        self.after(self.threads[thread].remaining, ScheduledEvent::Ran(thread, count));
    }

    fn done(&mut self, thread: usize) {
        let Thread { next, began, .. } = self.threads[thread];
        if let Some(Some(action)) = next.checked_sub(1).map(|n| self.truth.actions[thread].get_mut(n)) {
            *action = Some((began, self.now));
        }
    }

    /// Runs a running thread's next actions, until an action takes time.
    fn step(&mut self, thread: usize) {
        let cpu = self.threads[thread].cpu;
        loop {
            let next = self.threads[thread].next;
            self.threads[thread].began = self.now;
            self.threads[thread].next += 1;
            let Some(&action) = self.program.threads[thread].get(next) else {
                self.truth.completed[thread] = Some(self.now);
                self.recorder.write(self.now, cpu, Context::Task, tid(thread), EventKind::Exit);
                self.leave(thread, SwitchOut::Dead);
                return self.dispatch();
            };
            match action {
                Action::Run(ns) => {
                    self.threads[thread].remaining = ns;
                    self.threads[thread].resumed = self.now;
                    self.after(ns, ScheduledEvent::Ran(thread, self.cpus[cpu].1));
                    return;
                }
                Action::Post(gate) => {
                    match self.semaphores[gate].waiters.pop_front() {
                        Some(waiter) => self.wake(waiter, cpu, Context::Task, WaitEnd::Thread(thread)),
                        None => self.semaphores[gate].count += 1,
                    }
                    self.dispatch();
                }
                Action::Wait(gate) | Action::Receive(gate) => {
                    let gate = match action {
                        Action::Wait(_) => &mut self.semaphores[gate],
                        _ => &mut self.sockets[gate],
                    };
                    if gate.count > 0 {
                        gate.count -= 1;
                    } else {
                        gate.waiters.push_back(thread);
                        return self.decide_to_wait(thread);
                    }
                }
                Action::Sleep(ns) => {
                    self.after(ns, ScheduledEvent::Timer(thread));
                    return self.decide_to_wait(thread);
                }
                Action::Disk(ns) => {
                    let issue = EventKind::BlockIssue(request(thread, self.now));
                    self.recorder.write(self.now, cpu, Context::Task, tid(thread), issue);
                    self.after(ns, ScheduledEvent::Disk(thread));
                    return self.decide_to_wait(thread);
                }
                Action::Send(socket) => {
                    let id = self.recorder.next_packet();
                    let (context, out) = (Context::Task, Direction::Out);
                    self.recorder.packet(self.now, cpu, context, tid(thread), out, (socket, id));
                    if self.program.flight == 0 {
                        self.arrive(thread, socket, id, self.now, Some(cpu));
                        self.dispatch();
                    } else {
                        self.after(self.program.flight, ScheduledEvent::Packet(thread, socket, id, self.now));
                    }
                }
                Action::Fork(child) => {
                    self.recorder.fork(self.now, cpu, tid(thread), child);
                    self.truth.forkers[child] = Some(thread);
                    let waking =
                        EventKind::Waking { target: tid(child), irq: 0, newborn: true, socket: None };
                    self.recorder.write(self.now, cpu, Context::Task, tid(thread), waking);
                    self.threads[child].state = State::Runnable;
                    self.threads[child].since = self.now;
                    self.threads[child].cpu = child % self.cpus.len();
                    self.queue.push_back(child);
                    self.dispatch();
                }
            }
            self.done(thread);
        }
    }

    fn decide_to_wait(&mut self, thread: usize) {
        self.threads[thread].state = State::Leaving(None);
        self.after(self.program.latency, ScheduledEvent::Leave(thread));
    }

    /// A packet arrives: on CPU `at_sender`, in its sender's context, or on the waiter's CPU, or else on CPU 0.
    fn arrive(&mut self, sender: usize, socket: usize, id: u32, sent: u64, at_sender: Option<usize>) {
        let waiter = self.sockets[socket].waiters.pop_front();
        let cpu = at_sender.unwrap_or_else(|| waiter.map_or(0, |waiter| self.threads[waiter].cpu));
        let (current, context) = (self.current(cpu), Context::Softirq(Softirq::NetRx));
        self.recorder.packet(self.now, cpu, context, current, Direction::In, (socket, id));
        self.recorder.ready(self.now, cpu, context, current, socket);
        match waiter {
            Some(waiter) => {
                // If the sender has this CPU by then, the packet arrives in its context too.
                let at_sender = current == tid(sender);
                self.wake(waiter, cpu, context, WaitEnd::Packet { sender, sent, at_sender });
            }
            None => self.sockets[socket].count += 1,
        }
    }

    /// Wakes a thread that waits or has decided to wait.
    fn wake(&mut self, thread: usize, cpu: usize, context: Context, end: WaitEnd) {
        let waking = EventKind::Waking { target: tid(thread), irq: 0, newborn: false, socket: None };
        self.recorder.write(self.now, cpu, context, self.current(cpu), waking);
        match self.threads[thread].state {
            State::Leaving(_) => self.threads[thread].state = State::Leaving(Some(end)),
            State::Blocked => self.runnable(thread, end),
            other => unreachable!("thread {thread} is woken while {other:?}"),
        }
    }

    fn runnable(&mut self, thread: usize, end: WaitEnd) {
        self.close(thread, ThreadState::Blocked(end));
        self.threads[thread].state = State::Runnable;
        self.threads[thread].remaining = 0;
        self.queue.push_back(thread);
    }
}

impl Action {
    fn wait_queue(&self) -> usize {
        match *self {
            Self::Post(gate) | Self::Wait(gate) | Self::Send(gate) | Self::Receive(gate) => gate,
            _ => 0,
        }
    }
}
