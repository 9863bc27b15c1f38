//! Recordings from a simulated machine, for benchmarks and tests: any size, the same bytes each time, written in one
//! pass.
//!
//! A few threads on each CPU wake each other, block, wait for timers and are preempted by a small scheduler. Each
//! switch-out has its switch-in, and each blocked thread is woken before it runs again, so the recording's graph is
//! sound.

use std::path::Path;

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockedState, Call, CgroupId, Clocks, Comm, Context, Cpu, Direction, Event, EventKind, Flow, FlowId,
    Mark, Packet, Softirq, Stack, SwitchOut, ThreadIdentity, Tid,
};
use wakepath_kernel_records::{Buffer, Encoder, walk};

use crate::{ClockReading, HostIdentity, Options, WriteError, Writer};

/// The machine, and the number of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The number of CPUs, at least 1.
    pub cpus: u16,
    /// The number of threads on each CPU.
    pub threads_per_cpu: u32,
    /// The least number of switches and wake-ups; a few more may follow.
    pub events: u64,
    /// A different seed makes a different recording.
    pub seed: u64,
}

/// The first thread's start, ns.
pub const BEGIN: u64 = 1_000_000_000_000;

/// A packet is written once a CPU has this many bytes.
const PACKET: usize = 1 << 20;

/// The limit on stretches without a switch or wake-up: an eighth of stretches has neither.
const MAX_QUIET_STRETCHES: u32 = 64;

/// The machine's host.
pub fn host(cpus: u16) -> HostIdentity {
    HostIdentity {
        name: "synthetic".to_owned(),
        boot_id: "00000000-0000-4000-8000-000000000000".to_owned(),
        kernel_release: "6.18.0".to_owned(),
        machine: "x86_64".to_owned(),
        cpus: cpus.into(),
    }
}

/// Writes a machine's recording into the directory `path`, which must not exist. Returns the number of switches and
/// wake-ups.
///
/// # Errors
/// When the recording cannot be written.
pub fn write(path: &Path, machine: &Machine) -> Result<u64, WriteError> {
    let options = Options {
        clock: ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_750_000_000_000_000_000 },
        uuid: Some(*b"synthetic machin"),
        ..Options::new("0.0.0", "synthetic")
    };
    let host = host(machine.cpus);
    let mut run = Run {
        writer: Writer::create(path, &host, &options)?,
        encoder: Encoder::for_release(&host.kernel_release),
        random: machine.seed ^ 0x9e37_79b9_7f4a_7c15,
        cpus: (0..machine.cpus.max(1)).map(|_| OneCpu::default()).collect(),
        threads: vec![
            State::Blocked;
            usize::from(machine.cpus.max(1)) * machine.threads_per_cpu.max(1) as usize
        ],
        per_cpu: machine.threads_per_cpu.max(1),
        events: 0,
    };
    run.introduce()?;
    while run.events < machine.events {
        let before = run.events;
        for _ in 0..MAX_QUIET_STRETCHES {
            if run.events == before {
                run.step()?;
            }
        }
        assert!(run.events > before, "a machine on which nothing happens would run for ever");
    }
    run.finish()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Blocked,
    Runnable,
    Running,
}

#[derive(Debug, Default)]
struct OneCpu {
    now: u64,
    current: Option<u32>,
    queue: std::collections::VecDeque<u32>,
    seq: [u16; 2],
    records: [Vec<u8>; 2],
}

struct Run {
    writer: Writer,
    encoder: Encoder,
    random: u64,
    cpus: Vec<OneCpu>,
    threads: Vec<State>,
    per_cpu: u32,
    events: u64,
}

const FIRST_TID: u32 = 1000;

const fn tid(thread: Option<u32>) -> Tid {
    match thread {
        Some(thread) => Tid(FIRST_TID + thread),
        None => Tid::IDLE,
    }
}

impl Run {
    /// xorshift64* (Vigna 2016): enough for a schedule.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn life(&mut self, at: u64, cpu: u16, current: Tid, what: EventKind) -> Result<(), WriteError> {
        let event =
            Event { at: Stamp::from_ns(at), cpu: Cpu(cpu), context: Context::Task, current, kind: what };
        self.writer.life().push_event(&event)
    }

    /// An event without a CPU.
    fn machine(&mut self, at: u64, what: EventKind) -> Result<(), WriteError> {
        self.life(at, u16::MAX, Tid::IDLE, what)
    }

    fn introduce(&mut self) -> Result<(), WriteError> {
        for thread in 0..self.threads.len() as u32 {
            let identity = ThreadIdentity {
                tid: tid(Some(thread)),
                tgid: Tid(FIRST_TID + thread / 8 * 8),
                parent: Tid(1),
                ns_tid: tid(Some(thread)),
                ns_tgid: Tid(FIRST_TID + thread / 8 * 8),
                start: Stamp::from_ns(BEGIN / 2),
                cgroup: CgroupId(1),
                cpu_cgroup: CgroupId(1),
                kernel: false,
                comm: Comm::new(format!("worker-{thread}").as_bytes()),
            };
            let blocked = Some(BlockedState::Interruptible);
            self.machine(BEGIN, EventKind::Thread { identity, blocked, call: None })?;
        }
        let address = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let flow = Flow { source: address(5432), target: address(40000), protocol: 6 };
        self.machine(BEGIN, EventKind::Flow(FlowId(7), flow))?;
        self.machine(BEGIN, EventKind::Mark(Mark::Started))?;
        let words = b"worker\0--forever".as_slice().into();
        self.machine(BEGIN, EventKind::Mark(Mark::Command { tgid: Tid(FIRST_TID), words }))?;
        for cpu in &mut self.cpus {
            cpu.now = BEGIN + 1000;
        }
        Ok(())
    }

    /// A stretch of running or idling, on the CPU furthest behind.
    fn step(&mut self) -> Result<(), WriteError> {
        let index = (0..self.cpus.len()).min_by_key(|&index| self.cpus[index].now).unwrap_or(0);
        match self.cpus[index].current {
            None => self.idle(index),
            Some(thread) => self.run(index, thread),
        }
    }

    /// The idle thread runs until a wake-up on this CPU, by a timer if nothing else.
    fn idle(&mut self, index: usize) -> Result<(), WriteError> {
        let nap = 500 + self.random(20_000);
        self.cpus[index].now += nap;
        if self.cpus[index].queue.is_empty() {
            let home = index as u64 * u64::from(self.per_cpu);
            let target = home + self.random(self.per_cpu.into());
            self.wake(index, Context::LocalTimer, target as u32)?;
        }
        match self.cpus[index].queue.pop_front() {
            Some(next) => self.switch(index, SwitchOut::Runnable, Some(next)),
            None => Ok(()),
        }
    }

    fn run(&mut self, index: usize, thread: u32) -> Result<(), WriteError> {
        let stretch = 200 + self.random(4_000);
        self.cpus[index].now += stretch;
        let other = self.random(self.threads.len() as u64) as u32;
        match self.random(16) {
            0 if !self.cpus[index].queue.is_empty() => {
                let next = self.cpus[index].queue.pop_front();
                self.switch(index, SwitchOut::Runnable, next)
            }
            1 => self.packet(index),
            2 => self.sample(index, thread),
            3..=13 => {
                self.wake(index, Context::Task, other)?;
                self.block(index)
            }
            _ => self.block(index),
        }
    }

    fn block(&mut self, index: usize) -> Result<(), WriteError> {
        let pause = 50 + self.random(500);
        self.cpus[index].now += pause;
        let next = self.cpus[index].queue.pop_front();
        self.switch(index, SwitchOut::Blocked(BlockedState::Interruptible), next)
    }

    fn wake(&mut self, index: usize, context: Context, target: u32) -> Result<(), WriteError> {
        if self.threads[target as usize] != State::Blocked {
            return Ok(());
        }
        self.threads[target as usize] = State::Runnable;
        let now = self.cpus[index].now;
        let home = (target / self.per_cpu) as usize;
        self.cpus[home].queue.push_back(target);
        // No thread is switched in at the stamp of its wake-up: their order would be random.
        if home != index {
            self.cpus[home].now = self.cpus[home].now.max(now + 1);
        }
        self.event(
            index,
            Buffer::Sched,
            context,
            EventKind::Waking { target: tid(Some(target)), irq: 0, newborn: false, socket: None },
        )
    }

    fn switch(&mut self, index: usize, out: SwitchOut, next: Option<u32>) -> Result<(), WriteError> {
        let blocked = matches!(out, SwitchOut::Blocked(_));
        if let Some(thread) = self.cpus[index].current {
            self.threads[thread as usize] = if blocked { State::Blocked } else { State::Runnable };
            if !blocked {
                self.cpus[index].queue.push_back(thread);
            }
        }
        if let Some(next) = next {
            self.threads[next as usize] = State::Running;
        }
        let call = match self.random(4) {
            0 if blocked => Some(Call { number: 202, arg0: 0x7fff_0000, lock: None }),
            _ => None,
        };
        let what = EventKind::Switch { next: tid(next), out, interrupts_ns: self.random(100) as u32, call };
        self.event(index, Buffer::Sched, Context::Task, what)?;
        self.cpus[index].current = next;
        Ok(())
    }

    fn packet(&mut self, index: usize) -> Result<(), WriteError> {
        let packet = Packet {
            flow: FlowId(7),
            direction: Direction::In,
            seq: self.events as u32,
            ack: 1,
            len: 100,
            tcp_flags: 0x18,
            netns: 1,
            interface: 2,
        };
        self.event(index, Buffer::Net, Context::Softirq(Softirq::NetRx), EventKind::Packet(packet))
    }

    fn sample(&mut self, index: usize, thread: u32) -> Result<(), WriteError> {
        // Rare, like real samples.
        if self.random(1000) != 0 {
            return Ok(());
        }
        let now = self.cpus[index].now;
        let stack = Stack {
            tgid: tid(Some(thread)),
            kernel: [0xffff_8000_0000_0000].into(),
            user: [0x40_1000].into(),
            scanned: 0,
            proved: 0,
        };
        self.life(now, index as u16, tid(Some(thread)), EventKind::Sample(stack))?;
        let clocks = Clocks { boottime_ns: now, realtime_ns: 1_749_999_000_000_000_000 + now, steal_ns: 0 };
        self.machine(now, EventKind::Clocks(clocks))
    }

    fn event(
        &mut self,
        index: usize,
        buffer: Buffer,
        context: Context,
        what: EventKind,
    ) -> Result<(), WriteError> {
        let which = usize::from(buffer == Buffer::Net);
        self.events += u64::from(buffer == Buffer::Sched);
        let one = &mut self.cpus[index];
        let cpu = Cpu(index as u16);
        let event =
            Event { at: Stamp::from_ns(one.now), cpu, context, current: tid(one.current), kind: what };
        self.encoder.encode(&event, one.seq[which], &mut one.records[which])?;
        one.seq[which] = one.seq[which].wrapping_add(1);
        if one.records[which].len() >= PACKET { self.drain(index, buffer) } else { Ok(()) }
    }

    fn drain(&mut self, index: usize, buffer: Buffer) -> Result<(), WriteError> {
        let which = usize::from(buffer == Buffer::Net);
        let records = std::mem::take(&mut self.cpus[index].records[which]);
        // The records are freshly encoded, so the walk cannot fail.
        if let Ok(sum) = walk(buffer, &[&records]) {
            let cpu = Cpu(index as u16);
            let stream = if which == 0 { self.writer.sched(cpu)? } else { self.writer.net(cpu)? };
            stream.append(&[&records], sum.first_stamp, sum.last_stamp, sum.records, 0)?;
        }
        let behind = self.cpus.iter().map(|cpu| cpu.now).min().unwrap_or(BEGIN);
        self.writer.life().flush(behind.saturating_sub(1), 0)
    }

    fn finish(mut self) -> Result<u64, WriteError> {
        for index in 0..self.cpus.len() {
            self.drain(index, Buffer::Sched)?;
            self.drain(index, Buffer::Net)?;
        }
        let end = self.cpus.iter().map(|cpu| cpu.now).max().unwrap_or(BEGIN);
        self.machine(end, EventKind::Mark(Mark::Stopped))?;
        self.writer.life().flush(u64::MAX, 0)?;
        Ok(self.events)
    }
}
