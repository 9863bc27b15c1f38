//! The speed of graph building and path walking, and the graph's memory, by size:
//!
//! ```sh
//! cargo run --release -p wakepath-critical-path --example paths
//! ```
//!
//! The events come from a machine with 4 CPUs and 16 threads on each, which post each other semaphores round
//! robin: a `waking` and a switch in turn, every eighth `waking` from the local timer. Events are made as
//! they are taken, and their making is measured alone and subtracted. All times are CPU time, the least of
//! five runs. If the cost is linear, the columns stay level.

use std::hint::black_box;
use std::time::Duration;

use wakepath_clock::Stamp;
use wakepath_critical_path::{Window, active, exact};
use wakepath_event::{BlockedState, Call, Context, Cpu, Event, EventKind, Mark, SwitchOut, Tid};
use wakepath_wait_graph::{Builder, Graph, ThreadIndex};

const CPUS: u64 = 4;
const THREADS: u64 = 16;

fn main() {
    println!("     events   Mevents/s   bytes/event   active path ms   exact path ms   segments");
    for size in [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000] {
        let making = least(|| events(size).map(|event| black_box(&event).at.ns()).fold(0, u64::wrapping_add));
        let mut graph = Graph::default();
        let building = least(|| graph = build(size));
        let window = Window { thread: ThreadIndex(3), from: graph.from(), to: graph.to() };
        let mut segments = 0;
        let walking = least(|| segments = active(&graph, window).segments.len());
        let back = least(|| exact(&graph, window).segments.len());
        let rate = size as f64 / building.saturating_sub(making).as_secs_f64() / 1e6;
        println!(
            "{size:>11} {rate:>11.1} {:>13.1} {:>16.1} {:>15.1} {segments:>10}",
            graph.bytes() as f64 / size as f64,
            walking.as_secs_f64() * 1e3,
            back.as_secs_f64() * 1e3,
        );
    }
}

fn build(size: u64) -> Graph {
    let mut builder = Builder::default();
    for event in events(size) {
        builder.push(&event);
    }
    builder.finish()
}

/// The least CPU time of five runs.
fn least<T>(mut work: impl FnMut() -> T) -> Duration {
    (0..5)
        .map(|_| {
            let begin = cpu_time();
            black_box(work());
            cpu_time().saturating_sub(begin)
        })
        .min()
        .unwrap_or_default()
}

/// This thread's time on a CPU.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux's schedstat");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number in schedstat");
    Duration::from_nanos(ns)
}

fn tid(cpu: u64, thread: u64) -> Tid {
    Tid((1000 + cpu * THREADS + thread % THREADS) as u32)
}

fn events(size: u64) -> impl Iterator<Item = Event> {
    let snapshot = (0..CPUS * THREADS).map(|n| {
        let tid = tid(n / THREADS, n);
        let identity = wakepath_scenario::identity(tid.0, "load");
        let blocked = (n % THREADS != 0).then_some(BlockedState::Interruptible);
        beside(EventKind::Thread { identity, blocked, call: None })
    });
    let begin = [beside(EventKind::Mark(Mark::Started))].into_iter().chain(snapshot);
    begin.chain((0..).map(event)).take(size as usize)
}

fn beside(what: EventKind) -> Event {
    wakepath_scenario::event(0, Cpu::UNKNOWN.0, 0, what)
}

/// Each CPU in turn: thread n wakes thread n + 1, and switches to it.
fn event(number: u64) -> Event {
    let (cpu, turn) = (number % CPUS, number / CPUS);
    let (round, switches) = (turn / 2, turn % 2 == 1);
    let (current, next) = (tid(cpu, round), tid(cpu, round + 1));
    let what = if switches {
        let call = Some(Call { number: 202, arg0: 0x7f00_0000_1000, lock: None });
        EventKind::Switch {
            next,
            out: SwitchOut::Blocked(BlockedState::Interruptible),
            interrupts_ns: 0,
            call,
        }
    } else {
        EventKind::Waking { target: next, irq: 0, newborn: false, socket: None }
    };
    let context = if !switches && round % 8 == 7 { Context::LocalTimer } else { Context::Task };
    Event { at: Stamp::from_ns(1000 + number * 100), cpu: Cpu(cpu as u16), context, current, kind: what }
}
