//! A small scheduler that runs small programs, writes what a recorder would have seen, and keeps
//! beside it what was so.

mod lose;
mod machine;
mod recorder;
mod truth;

pub use lose::{LossReport, lose, lose_from};
pub use truth::{Explanation, StateInterval, ThreadState, Truth, WaitEnd};

use wakepath_event::Event;

/// The programs of the threads of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The actions of each thread, in order. Tests ask about the first thread.
    pub threads: Vec<Vec<Action>>,
    /// How many CPUs there are; `None`: each thread has one of its own.
    pub cpus: Option<usize>,
    /// How long a thread may have a CPU while others wait, ns.
    pub slice: u64,
    /// How long a thread still runs after it decided to wait, ns: time in which a waking comes
    /// before the switch-out that it ends.
    pub latency: u64,
    /// How long a packet is on its way, ns. 0: it is received in the sender's own context.
    pub flight: u64,
}

/// A step of a thread. All but running, sleeping and disks take no time by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Computes, ns.
    Run(u64),
    /// Adds one to a semaphore.
    Post(usize),
    /// Takes one from a semaphore; waits until there is one.
    Wait(usize),
    /// Waits for a timer, ns.
    Sleep(u64),
    /// Waits for a request to a disk of its own, ns.
    Disk(u64),
    /// Sends a packet to a socket.
    Send(usize),
    /// Receives a packet from a socket; waits until there is one.
    Receive(usize),
    /// Forks a thread. A thread that no other forks lives from the start.
    Fork(usize),
}

/// A program's run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The events of a recorder, in time order.
    pub events: Vec<Event>,
    /// The truth.
    pub truth: Truth,
    /// When everything stood still, ns.
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
