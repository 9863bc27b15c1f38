//! Reads the run queues' clocks at each switch, by a BPF program (`run_queue.bpf.c`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};

use crate::document::Overcounted;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/run_queue.bpf.o"));

/// The time between two reads of the buffer, which has room for 700,000 switches.
const PAUSE: Duration = Duration::from_millis(100);

/// The flags in `struct reading`.
const PREEMPTED: u32 = 1;
const UNCOUNTED: u32 = 2;
const WOKEN: u32 = 4;

/// A switch, as the program reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch {
    /// Its stamp, ns of CLOCK_MONOTONIC.
    pub(super) stamp: i64,
    /// The run queue's clock, ns: by the kernel's counts, `prev` ran until then and `next` from then on.
    pub(super) clock: i64,
    /// The CPU.
    pub(super) cpu: u32,
    /// The thread that leaves the CPU; 0 is the idle thread.
    pub(super) prev: u32,
    /// The thread that gets the CPU.
    pub(super) next: u32,
    /// Whether `prev` goes on waiting for a CPU.
    pub(super) is_preempted: bool,
    /// Whether the kernel leaves that wait uncounted, since `prev` had decided to sleep.
    pub(super) is_uncounted: bool,
}

/// The programs' readings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// The switches, in order for each CPU.
    pub(super) switches: Vec<Switch>,
    /// The sleeps that the kernel counts as waits for a CPU.
    pub(super) overcounted: Vec<Overcounted>,
}

/// The attached programs, and the thread that drains their buffer.
#[derive(Debug)]
pub struct Readings {
    is_over: Arc<AtomicBool>,
    reader: JoinHandle<Result<Read>>,
}

impl Readings {
    /// Attaches the programs. A recorder that attaches later runs after them at each switch, so that its stamps are all
    /// later by the same time.
    ///
    /// # Errors
    ///
    /// If this kernel refuses the programs.
    pub fn begin() -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (attached, answer) = mpsc::channel();
        let reader = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || match attach() {
                Ok((object, _links)) => {
                    let _ = attached.send(Ok(()));
                    drain(&object, &is_over)
                }
                Err(error) => {
                    let _ = attached.send(Err(error));
                    Ok(Read::default())
                }
            }
        });
        answer.recv().context("the reader of the run queues' clocks ended")??;
        Ok(Self { is_over, reader })
    }

    /// Detaches the programs and returns their readings.
    ///
    /// # Errors
    ///
    /// If the buffer had no room for some readings, or the reader failed.
    pub(super) fn end(self) -> Result<Read> {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.join().map_err(|_| anyhow!("the reader of the run queues' clocks failed"))?
    }
}

/// Loads the programs and attaches them; they run until the links are dropped.
fn attach() -> Result<(Object, Vec<Link>)> {
    let open = ObjectBuilder::default().open_memory(OBJECT).context("cannot open the object")?;
    let object = open.load().context("cannot load the programs that read the run queues' clocks")?;
    let links = object.progs_mut().map(|program| program.attach()).collect::<Result<Vec<_>, _>>();
    let links = links.context("cannot attach the programs that read the run queues' clocks")?;
    Ok((object, links))
}

/// The map with this name.
fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    object.maps().find(|map| map.name() == name).with_context(|| format!("the object has no map `{name}`"))
}

fn drain(object: &Object, is_over: &AtomicBool) -> Result<Read> {
    let (readings, lost) = (map(object, "readings")?, map(object, "lost")?);
    let mut read = Read::default();
    {
        let mut builder = RingBufferBuilder::new();
        builder.add(&readings, |bytes| {
            read.add(bytes);
            0
        })?;
        let buffer = builder.build()?;
        loop {
            let is_last = is_over.load(Ordering::Relaxed);
            buffer.consume()?;
            if is_last {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
    let count = lost.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    let count = u64::from_ne_bytes(count.try_into().map_err(|_| anyhow!("the count has another size"))?);
    ensure!(count == 0, "{count} switches found no room in the buffer");
    Ok(read)
}

impl Read {
    /// Adds a `struct reading` from its bytes; `None` if there are too few.
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let long = |at: usize| Some(i64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let int = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (stamp, next, flags, counted) = (long(0)?, int(24)?, int(28)?, long(32)?);
        if flags & WOKEN != 0 {
            self.overcounted.push(Overcounted { tid: next, from_ns: stamp - counted, to_ns: stamp });
            return Some(());
        }
        self.switches.push(Switch {
            stamp,
            clock: long(8)?,
            cpu: int(16)?,
            prev: int(20)?,
            next,
            is_preempted: flags & PREEMPTED != 0,
            is_uncounted: flags & UNCOUNTED != 0,
        });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_decoded_and_fewer_bytes_are_none() {
        let mut bytes: Vec<u8> =
            [5_000_000_i64, 4_000_000].iter().flat_map(|long| long.to_ne_bytes()).collect();
        bytes.extend([1_u32, 7, 9, 1].iter().flat_map(|int| int.to_ne_bytes()));
        bytes.extend(300_000_i64.to_ne_bytes());
        let decode = |bytes: &[u8]| {
            let mut read = Read::default();
            read.add(bytes);
            read
        };
        let switch = |is_preempted, is_uncounted| {
            let (stamp, clock) = (5_000_000, 4_000_000);
            let switch = Switch { stamp, clock, cpu: 1, prev: 7, next: 9, is_preempted, is_uncounted };
            Read { switches: vec![switch], ..Read::default() }
        };
        let slept = Overcounted { tid: 9, from_ns: 4_700_000, to_ns: 5_000_000 };
        let woken = Read { overcounted: vec![slept], ..Read::default() };
        assert_eq!(decode(&bytes[..39]), Read::default());
        for (flags, expected) in
            [(0, switch(false, false)), (1, switch(true, false)), (3, switch(true, true)), (4, woken)]
        {
            bytes[28] = flags;
            assert_eq!(decode(&bytes), expected);
        }
    }
}
