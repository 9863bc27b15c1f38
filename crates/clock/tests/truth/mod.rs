//! Two hosts whose true clocks are known, and packets between them.

use wakepath_clock::{ErrorBound, Limits, Local, Peer, Solver, Stamp, Transform};

/// Numbers that look random, the same for the same seed (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }
}

/// A clock as a function of true time, in ns from the beginning: off by `offset`, fast by `ppm`, and
/// with a rate that itself changes by `bend` ppm a second, now one way, now the other.
#[derive(Debug, Clone)]
pub struct TrueClock {
    pub offset: u64,
    /// Since when, deviation and its rate at that time, and the change of rate per ns.
    legs: Vec<(f64, f64, f64, f64)>,
}

impl TrueClock {
    pub fn new(offset: u64, ppm: f64, bend_ppm_per_s: f64, seconds: f64, chance: &mut Chance) -> Self {
        let (mut at, mut off, mut rate) = (0.0, 0.0, ppm * 1e-6);
        let mut legs = Vec::new();
        while at <= seconds * 1e9 {
            let sign = if chance.next() & 1 == 0 { 1.0 } else { -1.0 };
            let bend = sign * bend_ppm_per_s * 1e-6 / 1e9;
            legs.push((at, off, rate, bend));
            let length = chance.between(0.3e9, 9e9);
            off += rate * length + bend * length * length / 2.0;
            rate += bend * length;
            at += length;
        }
        Self { offset, legs }
    }

    pub fn at(&self, true_ns: f64) -> u64 {
        let leg = self.legs[self.legs.partition_point(|leg| leg.0 <= true_ns).saturating_sub(1)];
        let t = true_ns - leg.0;
        let deviation = leg.1 + leg.2 * t + leg.3 * t * t / 2.0;
        self.offset + (true_ns + deviation).floor() as u64
    }
}

/// The packets between two hosts.
#[derive(Debug, Clone)]
pub struct Traffic {
    pub seconds: f64,
    pub per_second: f64,
    /// Least delay there and back, ns.
    pub least: (f64, f64),
    /// Mean of what is added to it, ns.
    pub queueing: f64,
    /// The share of the packets that go forward.
    pub forward: f64,
}

pub struct Pair {
    pub here: TrueClock,
    pub there: TrueClock,
    pub traffic: Traffic,
    /// Every packet: (forward, stamp here, stamp there).
    pub packets: Vec<(bool, u64, u64)>,
}

impl Pair {
    pub fn new(here: TrueClock, there: TrueClock, traffic: Traffic, chance: &mut Chance) -> Self {
        let count = (traffic.seconds * traffic.per_second) as usize;
        let packets = (0..count).map(|_| {
            let sent = chance.between(0.0, traffic.seconds * 1e9);
            let forward = chance.share() < traffic.forward;
            let least = if forward { traffic.least.0 } else { traffic.least.1 };
            let received = sent + least - traffic.queueing * (1.0 - chance.share()).ln();
            match forward {
                true => (true, here.at(sent), there.at(received)),
                false => (false, here.at(received), there.at(sent)),
            }
        });
        let packets = packets.collect();
        Self { here, there, traffic, packets }
    }

    pub fn solver(&self, limits: Limits) -> Solver {
        let mut solver = Solver::new(limits);
        for &(forward, here, there) in &self.packets {
            match forward {
                true => solver.forward(Stamp::from_ns(here), Stamp::from_ns(there)),
                false => solver.backward(Stamp::from_ns(there), Stamp::from_ns(here)),
            }
        }
        solver
    }

    /// The window of a recording on this clock.
    pub fn window(&self) -> (Stamp<Local>, Stamp<Local>) {
        let end = self.traffic.seconds * 1e9 + 1e6;
        (Stamp::from_ns(self.here.at(0.0)), Stamp::from_ns(self.here.at(end)))
    }

    /// The worst true error in the window; every error is held against its bound.
    pub fn judge(&self, transform: &Transform<Local, Peer>) -> Result<u64, String> {
        let mut worst = 0;
        let steps = 2000;
        for step in 0..=steps {
            let t = self.traffic.seconds * 1e9 * f64::from(step) / f64::from(steps);
            let (at, error) = transform.convert(Stamp::from_ns(self.here.at(t)));
            let truth = self.there.at(t);
            let off = at.ns().abs_diff(truth);
            worst = worst.max(off);
            // Stamps are whole ns on both clocks.
            if let ErrorBound::Within(bound) = error
                && off > bound + 2
            {
                return Err(format!("off by {off} ns at {t} ns, bound {bound}"));
            }
        }
        Ok(worst)
    }

    /// Packets that arrive before they were sent.
    pub fn inversions(&self, transform: &Transform<Local, Peer>) -> usize {
        let mut cursor = transform.cursor();
        let inverted = |&&(forward, here, there): &&(bool, u64, u64)| {
            let at = cursor.convert(Stamp::from_ns(here)).0.ns();
            if forward { at > there } else { at < there }
        };
        self.packets.iter().filter(inverted).count()
    }
}
