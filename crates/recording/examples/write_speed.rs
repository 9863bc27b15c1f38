//! The cost of writing for the consumer, in CPU time: `write_speed DIR [EVENTS_PER_SECOND [SECONDS [DRAINS_PER_SECOND]]]`.
//!
//! Walks and appends the records that a ring would hold at each drain, as fast as possible, and prints the share of a
//! CPU that this takes of the time in which that number of events happens.

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wakepath_clock::Stamp;
use wakepath_event::{BlockedState, Call, Context, Cpu, Event, EventKind, SwitchOut, Tid};
use wakepath_kernel_records::{Buffer, Encoder, walk};
use wakepath_recording::{Options, Writer, synthetic};

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The records of a semaphore's ping-pong: wakings and blocking switches in turn.
fn records(count: u64) -> Vec<u8> {
    let encoder = Encoder::for_release("6.18.0");
    let mut bytes = Vec::new();
    for i in 0..count {
        let (current, next) = (Tid(1000 + i as u32 / 2 % 2), Tid(1000 + (i as u32 / 2 + 1) % 2));
        let call = Some(Call { number: 202, arg0: 0x7fff_0000, lock: None });
        let out = SwitchOut::Blocked(BlockedState::Interruptible);
        let what = match i % 2 {
            0 => EventKind::Waking { target: next, irq: 0, newborn: false, socket: None },
            _ => EventKind::Switch { next, out, interrupts_ns: 0, call },
        };
        let event = Event { at: Stamp::from_ns(i), cpu: Cpu(0), context: Context::Task, current, kind: what };
        // Nothing here that a record cannot hold.
        let _ = encoder.encode(&event, i as u16, &mut bytes);
    }
    bytes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments
        .first()
        .ok_or("usage: write_speed DIR [EVENTS_PER_SECOND [SECONDS [DRAINS_PER_SECOND]]]")?;
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (rate, seconds, drains) = (number(1, 1_300_000)?, number(2, 10)?, number(3, 20)?);
    let mut ring = records(rate / drains);
    let mut writer =
        Writer::create(Path::new(path), &synthetic::host(1), &Options::new("0.0.0", "write_speed"))?;
    let (mut walking, mut appending) = (Duration::ZERO, Duration::ZERO);
    for drain in 0..seconds * drains {
        // The stamps of this drain: the last one's are over. Not counted, as the kernel does this.
        let base = drain * rate;
        let mut at = 0;
        while let Ok(length) = wakepath_kernel_records::record_length(&ring[at..]) {
            let stamp = u64::from_le_bytes(*ring[at..].first_chunk().ok_or("a record")?) % rate + base;
            ring[at..at + 8].copy_from_slice(&stamp.to_le_bytes());
            at += length;
        }
        let (before, half) = (cpu_time(), ring.len() / 16 * 8);
        let runs = [&ring[..half], &ring[half..]];
        let sum = walk(Buffer::Sched, &runs)?;
        let walked = cpu_time();
        writer.sched(Cpu(0))?.append(&runs, sum.first_stamp, sum.last_stamp, sum.records, 0)?;
        walking += walked - before;
        appending += cpu_time() - walked;
    }
    let share = |time: Duration| time.as_secs_f64() / seconds as f64 * 100.0;
    println!("{} MB in {} packets", writer.bytes() / 1_000_000, seconds * drains);
    println!("walk   {:.2}% of a CPU at {rate} events a second", share(walking));
    println!("append {:.2}%", share(appending));
    Ok(())
}
