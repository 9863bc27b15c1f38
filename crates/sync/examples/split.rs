//! Splits a recording with loopback traffic into two hosts, by event, shifts and bends their clocks, and
//! prints how exactly synchronisation recovers them: `cargo run -p wakepath-sync --example split REC`.
//!
//! In each connection, the end with the lower port belongs to one host, the other end to the other.

use std::collections::HashMap;
use std::process::ExitCode;

use wakepath_clock::Stamp;
use wakepath_drift::{Chance, TrueClock};
use wakepath_event::{Direction, EventSource, Flow, FlowId, RecordingFormat};
use wakepath_packets::Traffic;
use wakepath_recording::Recording;
use wakepath_sync::{Host, Options, synchronise};

/// A recording's packets, with stamps since the first packet, ns.
struct Recorded {
    flows: HashMap<FlowId, Flow>,
    traffic: Vec<(u64, Traffic)>,
    length: u64,
}

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "wakepath.rec".into());
    let recording = match Recording::open(path.as_ref()) {
        Ok(recording) => recording,
        Err(e) => {
            eprintln!("cannot open {}: {e}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let recorded = Recorded::of(&recording);
    let sound = (0..6).all(|run| recorded.split(run));
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Recorded {
    fn of(recording: &Recording) -> Self {
        let mut recorded = Self { flows: HashMap::new(), traffic: Vec::new(), length: 0 };
        let mut first = None;
        recording.for_each(|event| {
            let Some(item) = Traffic::of(event) else { return };
            if let Traffic::Flow(id, flow) = item {
                recorded.flows.insert(id, flow);
            }
            recorded.length = event.at.since(*first.get_or_insert(event.at));
            recorded.traffic.push((recorded.length, item));
        });
        recorded
    }

    /// A run with its own clocks; returns whether the truth lies within the bound.
    fn split(&self, run: u64) -> bool {
        let bend = if run.is_multiple_of(2) { 0.0 } else { 1.0 };
        let seconds = self.length as f64 / 1e9 + 1.0;
        let mut chance = Chance(run);
        let clocks = [0.0, bend].map(|bend| {
            let offset = chance.number() % (1 << 60);
            let ppm = chance.between(-200.0, 200.0);
            TrueClock::new(offset, ppm, bend, seconds, &mut chance)
        });
        let hosts = [0, 1].map(|host| {
            let of = |&(at, item): &(u64, Traffic)| self.part(host, &clocks[host], at, item);
            self.traffic.iter().filter_map(of).collect::<Vec<_>>()
        });
        let list = hosts.each_ref().map(|source| Host { source, window: None });
        let sync = synchronise(&list, &Options { reference: Some(0), ..Options::default() });
        let (Some(pair), Some(transform)) = (sync.pairs.first(), &sync.hosts[1].transform) else {
            println!("bend {bend} ppm/s: no packet links the two");
            return false;
        };
        let (mut worst, mut sound) = (0, true);
        for step in 0..=2000 {
            let at = self.length as f64 * f64::from(step) / 2000.0;
            let (found, error) = transform.convert(Stamp::from_ns(clocks[1].at(at)));
            let off = found.ns().abs_diff(clocks[0].at(at));
            worst = worst.max(off);
            // Stamps are whole ns on both clocks.
            sound &= error.ns().is_none_or(|bound| off <= bound + 2);
        }
        println!(
            "bend {bend} ppm/s: {:?} matched, {} ambiguous, {} inversions, {:?}, error {:?}, true worst {worst} ns{}",
            pair.matched,
            pair.ambiguous,
            pair.inversions,
            pair.quality,
            sync.hosts[1].error,
            if sound { "" } else { ", BEYOND ITS BOUND" },
        );
        sound && pair.inversions == 0
    }

    /// The item as this host would have seen it, if at all.
    fn part(&self, host: usize, clock: &TrueClock, at: u64, item: Traffic) -> Option<Traffic> {
        let Traffic::Packet(_, packet) = item else { return Some(item) };
        let flow = self.flows.get(&packet.flow)?;
        let by_lower = flow.source.port() < flow.target.port();
        let here = usize::from(by_lower == (packet.direction == Direction::Out)) == host;
        here.then(|| Traffic::Packet(Stamp::from_ns(clock.at(at as f64)), packet))
    }
}
