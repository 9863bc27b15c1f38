//! How fast a recording is read, in CPU time: `read_speed DIR [ROUNDS]`.

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wakepath_event::{Event, EventKind, EventSource, RecordingFormat};
use wakepath_kernel_records::{Buffer, Decoder, walk};
use wakepath_recording::Recording;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `work`, which says how many records it went through, and prints the best rate of `rounds`.
fn measure(name: &str, rounds: u32, mut work: impl FnMut() -> u64) {
    let mut best = f64::INFINITY;
    let mut records = 0;
    for _ in 0..rounds {
        let before = cpu_time();
        records = work();
        best = best.min((cpu_time() - before).as_secs_f64());
    }
    println!("{name:<44} {records:>12} records {:>8.1} million/s", records as f64 / best / 1e6);
}

/// Something that depends on every event, so that none is optimised away.
fn touch(event: &Event, sum: &mut u64) {
    *sum = sum.wrapping_add(event.at.ns());
    if let EventKind::Switch { next, .. } | EventKind::Waking { target: next, .. } = &event.kind {
        *sum = sum.wrapping_add(next.0.into());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read_speed DIR [ROUNDS]")?;
    let rounds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let recording = Recording::open(Path::new(&path))?;
    let mut sum = 0;

    measure("open: packet headers", rounds, || {
        Recording::open(Path::new(&path)).map_or(0, |r| r.streams().iter().map(|s| s.records).sum())
    });
    measure("all streams, merged", rounds, || {
        let mut records = 0;
        recording.for_each(|event| {
            touch(event, &mut sum);
            records += 1;
        });
        records
    });
    measure("all streams, one after the other", rounds, || {
        let mut records = 0;
        for stream in 0..recording.streams().len() {
            recording.for_each_of(stream, |event| {
                touch(event, &mut sum);
                records += 1;
            });
        }
        records
    });

    // The time of the layers below, on one packet in memory.
    let sched = std::fs::read(Path::new(&path).join("kernel/sched_0"))?;
    let content = u64::from_le_bytes(sched[40..48].try_into()?) as usize / 8;
    let packet = &sched[80..content];
    measure("walk: one packet in memory", rounds * 20, || {
        walk(Buffer::Sched, &[packet]).map_or(0, |summary| summary.records)
    });
    let decoder = Decoder::for_release(&recording.description().host.kernel_release);
    measure("decode: one packet in memory", rounds * 20, || {
        let (mut records, mut at) = (0, 0);
        while let Ok((event, length)) = decoder.decode(&packet[at..], wakepath_event::Cpu(0)) {
            touch(&event, &mut sum);
            records += 1;
            at += length;
        }
        records
    });
    println!("(checksum {sum:x})");
    Ok(())
}
