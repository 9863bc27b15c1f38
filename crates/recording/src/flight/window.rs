//! Writing the window in memory as an ordinary recording.

use wakepath_clock::Stamp;
use wakepath_event::{Context, Cpu, Event, EventKind, Mark, Tid};
use wakepath_kernel_records::{Buffer, Header, record_length, walk};

use super::{Flight, Packets, life_cpu};
use crate::write::Life;
use crate::{ClockReading, WriteError, Writer};

/// The limit on unwritten rare records, bytes: the writer sorts them in memory.
const FLUSH_BYTES: usize = 1 << 20;

/// A kept recording's window, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptWindow {
    /// Its beginning: from here on, only lost records are missing.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

impl Flight {
    /// The clocks at the window's beginning, for the recording's metadata.
    pub fn clock(&self) -> Option<ClockReading> {
        let clocks = |event: &Event| match &event.kind {
            EventKind::Clocks(clocks) => Some((event.at.ns(), clocks.realtime_ns)),
            _ => None,
        };
        let before = self.restated_at().map(|at| self.last.restate(Stamp::from_ns(at))).unwrap_or_default();
        let kept = self.rare.values().filter_map(|record| {
            let cpu = Header::read(record).map_or(Cpu::UNKNOWN, life_cpu);
            self.decoder.decode(record, cpu).ok().map(|(event, _)| event)
        });
        let (at, realtime_ns) = before.into_iter().chain(kept).find_map(|event| clocks(&event))?;
        Some(ClockReading { monotonic_ns: at, realtime_ns })
    }

    /// The restated events' stamp: right before the first record, so they come first in every stream.
    const fn restated_at(&self) -> Option<u64> {
        if self.begin > 0 { Some(self.begin - 1) } else { None }
    }

    /// Writes the window up to `to`, once all records up to `to` are there, into a still empty recording.
    ///
    /// # Errors
    /// When the recording cannot be written.
    pub fn write(&self, writer: &mut Writer, to: u64) -> Result<KeptWindow, WriteError> {
        let from = self.restated_at().or(self.begin()).unwrap_or(to).min(to);
        if self.begin > 0 {
            let mut events = self.last.restate(Stamp::from_ns(from));
            events.sort_by_key(|event| event.at);
            for event in events {
                writer.life().push_event(&event)?;
                flush_above(FLUSH_BYTES, writer.life(), event.at.ns())?;
            }
        }
        for ((stamp, _), record) in self.rare.range(..=(to, u64::MAX)) {
            self.write_rare(writer, record)?;
            flush_above(FLUSH_BYTES, writer.life(), *stamp)?;
        }
        let stopped = Event {
            at: Stamp::from_ns(to),
            cpu: Cpu::UNKNOWN,
            context: Context::Task,
            current: Tid::IDLE,
            kind: EventKind::Mark(Mark::Stopped),
        };
        writer.life().push_event(&stopped)?;
        writer.life().flush(u64::MAX, 0)?;
        self.restate_cpus(writer, from)?;
        for (&(buffer, cpu), packets) in &self.streams {
            for packet in &packets.packets {
                let records = until(&packet.bytes[packet.from..], to);
                let Ok(summary) = walk(buffer, &[records]) else { continue };
                let stream = match buffer {
                    Buffer::Net => writer.net(cpu)?,
                    _ => writer.sched(cpu)?,
                };
                let lost = packet.lost.saturating_sub(packets.lost);
                let (first, last) = (summary.first_stamp, summary.last_stamp);
                stream.append(&[records], first, last, summary.records, lost)?;
            }
        }
        writer.close_streams(Stamp::from_ns(to))?;
        Ok(KeptWindow { from, to })
    }

    /// Begins the CPUs' streams. The sequence numbers lead up to the first record in memory.
    fn restate_cpus(&self, writer: &mut Writer, from: u64) -> Result<(), WriteError> {
        if self.begin == 0 {
            return Ok(());
        }
        let events = self.last.restate_cpus(Stamp::from_ns(from));
        for of_cpu in events.chunk_by(|a, b| a.cpu == b.cpu) {
            let Some(cpu) = of_cpu.first().map(|event| event.cpu) else { continue };
            let first = self.streams.get(&(Buffer::Sched, cpu)).map_or(0, Packets::first_seq);
            let mut seq = first.wrapping_sub(of_cpu.len() as u16);
            let mut records = Vec::new();
            for event in of_cpu {
                self.encoder.encode(event, seq, &mut records)?;
                seq = seq.wrapping_add(1);
            }
            writer.sched(cpu)?.append(&[&records], from, from, of_cpu.len() as u64, 0)?;
        }
        Ok(())
    }

    fn write_rare(&self, writer: &mut Writer, record: &[u8]) -> Result<(), WriteError> {
        let total = Header::read(record).filter(|header| super::last::is_total(header.kind));
        match total.map(|header| self.decoder.decode(record, life_cpu(header))) {
            Some(Ok((event, _))) => {
                let kind = self.last.totals().since_then(event.kind);
                writer.life().push_event(&Event { kind, ..event })
            }
            _ => writer.life().push(record),
        }
    }
}

impl Packets {
    fn first_seq(&self) -> u16 {
        let first = self.packets.front().and_then(|packet| Header::read(&packet.bytes[packet.from..]));
        // A record lost right before the window keeps its gap.
        self.next.or(first.map(|first| first.seq)).unwrap_or(0)
    }
}

/// Writes the waiting records up to and including `until` if they take more than `most` bytes.
fn flush_above(most: usize, life: &mut Life, until: u64) -> Result<(), WriteError> {
    if life.waiting() > most { life.flush(until, 0) } else { Ok(()) }
}

/// The records up to and including the stamp `to`.
fn until(records: &[u8], to: u64) -> &[u8] {
    let mut later = records;
    while Header::read(later).is_some_and(|header| header.stamp <= to)
        && let Ok(length) = record_length(later)
    {
        later = &later[length..];
    }
    &records[..records.len() - later.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostIdentity, Options};

    #[test]
    fn no_more_rare_records_wait_in_memory_than_the_limit() {
        let host = HostIdentity {
            name: "web3".to_owned(),
            boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
            kernel_release: "6.18.0".to_owned(),
            machine: "x86_64".to_owned(),
            cpus: 1,
        };
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kept");
        let mut writer = Writer::create(&path, &host, &Options::new("0", "")).expect("a place");
        let started = Event {
            at: Stamp::from_ns(5),
            cpu: Cpu::UNKNOWN,
            context: Context::Task,
            current: Tid::IDLE,
            kind: EventKind::Mark(Mark::Started),
        };
        writer.life().push_event(&started).expect("an event");
        let waiting = writer.life().waiting();
        // The limit, the time up to which all records are there, and the waiting bytes then.
        for (most, until, left) in
            [(waiting + 1, 5, waiting), (waiting, 5, waiting), (waiting - 1, 4, waiting), (waiting - 1, 5, 0)]
        {
            flush_above(most, writer.life(), until).expect("room");
            assert_eq!(writer.life().waiting(), left, "{most}, up to {until}");
        }
    }
}
