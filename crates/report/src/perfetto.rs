//! A recording as a trace for Perfetto: thread states, wake-up arrows, and paths as tracks.
//!
//! Everything is written as the graph understood it, not as the records were: Perfetto would read a wake-up that
//! came before its own switch-out as a wait without an end. So its states equal ours.
//!
//! Perfetto needs three things, and does not report when they are missing: a kernel's release, or it decodes task
//! states wrongly; the context flags of wake-ups, or it takes the interrupted thread for the waker; wake-ups among
//! the events of the CPU that made them.
//!
//! Stamps are this host's monotonic clock. Perfetto takes them for boottime, which is the same but for time spent
//! suspended.

mod lanes;
mod processes;
mod proto;
mod requests;
mod sched;
mod tracks;

use std::io::{self, Write};

use wakepath_engine::requests::{Joined, RequestAnswer};
use wakepath_engine::{PathAnswer, Recorded};

use crate::wording;
use proto::Message;

/// Writes a recording's trace, with a track group for each path.
pub fn perfetto(recorded: &Recorded, paths: &[PathAnswer], out: &mut dyn Write) -> io::Result<()> {
    let mut trace = Trace { out };
    head(recorded, &mut trace)?;
    processes::write(recorded, &mut trace)?;
    sched::write(recorded, &mut trace)?;
    for (n, path) in paths.iter().enumerate() {
        tracks::write(path, n as u64, &mut trace)?;
    }
    Ok(())
}

/// Writes a recording's trace, with a track group for each request.
pub fn perfetto_requests(
    joined: &Joined<'_>,
    answers: &[RequestAnswer],
    out: &mut dyn Write,
) -> io::Result<()> {
    let (recorded, mut trace) = (joined.recorded, Trace { out });
    head(recorded, &mut trace)?;
    processes::write(recorded, &mut trace)?;
    sched::write(recorded, &mut trace)?;
    trace.packet(packet_at(recorded.graph.from().ns()).number(13, INCREMENTAL_STATE_CLEARED))?;
    requests::write(joined, answers, &mut trace)
}

/// `TracePacket.SequenceFlags`: earlier packets are not needed to read the following packets.
const INCREMENTAL_STATE_CLEARED: u64 = 1;

/// A trace under construction: packets, in a row.
struct Trace<'a> {
    out: &'a mut dyn Write,
}

impl Trace<'_> {
    fn packet(&mut self, packet: Message) -> io::Result<()> {
        self.out.write_all(Message::new().message(1, &packet).bytes())
    }
}

/// `TracePacket.trusted_packet_sequence_id` for packets that need it.
const SEQUENCE: u64 = 1;

/// A packet with a time, in our sequence.
fn packet_at(ns: u64) -> Message {
    Message::new().number(8, ns).number(10, SEQUENCE)
}

fn head(recorded: &Recorded, trace: &mut Trace) -> io::Result<()> {
    let from = recorded.graph.from();
    if let Some(realtime) = recorded.realtime(from) {
        const REALTIME: u64 = 1;
        const BOOTTIME: u64 = 6;
        let clock = |id, ns| Message::new().number(1, id).number(2, ns);
        let snapshot =
            Message::new().message(1, &clock(BOOTTIME, from.ns())).message(1, &clock(REALTIME, realtime));
        trace.packet(packet_at(from.ns()).message(6, &snapshot))?;
    }
    let host = &recorded.host;
    let utsname = Message::new()
        .text(1, "Linux")
        .text(3, &release(&wording::name(&host.kernel)))
        .text(4, &wording::name(&host.machine));
    let cpus = recorded.graph.cpus().count() as u64;
    let system = Message::new().message(1, &utsname).number(8, cpus);
    trace.packet(packet_at(from.ns()).message(45, &system))
}

/// A release for which Perfetto reads thread states as [`sched`] writes them: before 4.14 their bits meant
/// something else.
fn release(own: &str) -> String {
    const STATES_SINCE: [u32; 2] = [4, 14];
    let mut numbers = own.split(['.', '-']).map(|part| part.parse().ok());
    let number = [numbers.next(), numbers.next()].map(Option::flatten);
    match number {
        [Some(major), Some(minor)] if [major, minor] >= STATES_SINCE => own.to_owned(),
        _ => format!("{}.{}.0 (states as there; of {own})", STATES_SINCE[0], STATES_SINCE[1]),
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn the_release_is_one_whose_states_are_ours() {
        for (own, told) in [
            ("6.18.0", "6.18.0"),
            ("4.14.3-generic", "4.14.3-generic"),
            ("10.0-rc1", "10.0-rc1"),
            ("4.1.0-2", "4.14.0 (states as there; of 4.1.0-2)"),
            ("3.16", "4.14.0 (states as there; of 3.16)"),
            ("", "4.14.0 (states as there; of )"),
        ] {
            assert_eq!(release(own), told);
        }
    }
}
