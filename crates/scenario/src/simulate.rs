//! A small scheduler that runs small programs, writes a recorder's events, and keeps the truth
//! beside them.

mod lose;
mod machine;
mod recorder;
mod truth;

pub use lose::{LossReport, lose, lose_from};
pub use truth::{Explanation, StateInterval, ThreadState, Truth, WaitEnd};

use wakepath_event::Event;

/// The programs of a machine's threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Each thread's actions, in order. Tests ask about the first thread.
    pub threads: Vec<Vec<Action>>,
    /// The number of CPUs; `None`: each thread has its own.
    pub cpus: Option<usize>,
    /// The longest time for which a thread has a CPU while others wait, ns.
    pub slice: u64,
    /// The time for which a thread still runs after it decided to wait, ns: a wake-up in this time
    /// comes before the switch-out that it ends.
    pub latency: u64,
    /// A packet's travel time, ns. 0: it is received in the sender's own context.
    pub flight: u64,
}

/// A thread's step. All but running, sleeping and disks take no time by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Computes, ns.
    Run(u64),
    /// Adds 1 to a semaphore.
    Post(usize),
    /// Takes 1 from a semaphore; waits until it is above 0.
    Wait(usize),
    /// Waits for a timer, ns.
    Sleep(u64),
    /// Waits for a request to its own disk, ns.
    Disk(u64),
    /// Sends a packet to a socket.
    Send(usize),
    /// Receives a packet from a socket; waits for a packet.
    Receive(usize),
    /// Forks a thread. A thread without a fork lives from the start.
    Fork(usize),
}

/// A program's run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The recorder's events, in time order.
    pub events: Vec<Event>,
    /// The truth.
    pub truth: Truth,
    /// The time at which everything stood still, ns.
    pub end: u64,
}

/// Runs a program until nothing happens any more.
pub fn simulate(program: &Program) -> Run {
    machine::Machine::new(program).run()
}

/// The tid of a program's thread.
pub fn tid(thread: usize) -> wakepath_event::Tid {
    wakepath_event::Tid(100 + thread as u32)
}
