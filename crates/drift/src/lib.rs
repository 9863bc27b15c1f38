//! Made-up clocks whose truth is known, for tests: they are off, fast, and their rate changes. And the numbers that look
//! random of which these, and what happens between hosts, are made.
//!
//! It uses no crate of ours, so that the tests of `clock` can use it.

/// Numbers that look random, the same for the same seed: SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }
}

/// A clock as a function of true time, in ns from the beginning: off by `offset`, fast by `ppm`, and
/// with a rate that itself changes by `bend` ppm a second, now one way, now the other.
#[derive(Debug, Clone)]
pub struct TrueClock {
    /// Its reading at the beginning, ns.
    pub offset: u64,
    /// Since when, deviation and its rate at that time, and the change of rate per ns.
    legs: Vec<(f64, f64, f64, f64)>,
}

impl TrueClock {
    /// A clock that is made for `seconds`; `ppm` is its rate at the beginning.
    pub fn new(offset: u64, ppm: f64, bend_ppm_per_s: f64, seconds: f64, chance: &mut Chance) -> Self {
        let (mut at, mut off, mut rate) = (0.0, 0.0, ppm * 1e-6);
        let mut legs = Vec::new();
        while at <= seconds * 1e9 {
            let sign = if chance.number() & 1 == 0 { 1.0 } else { -1.0 };
            let bend = sign * bend_ppm_per_s * 1e-6 / 1e9;
            legs.push((at, off, rate, bend));
            let length = chance.between(0.3e9, 9e9);
            off += rate * length + bend * length * length / 2.0;
            rate += bend * length;
            at += length;
        }
        Self { offset, legs }
    }

    /// Its reading at a true time, ns.
    pub fn at(&self, true_ns: f64) -> u64 {
        let leg = self.legs[self.legs.partition_point(|leg| leg.0 <= true_ns).saturating_sub(1)];
        let t = true_ns - leg.0;
        let deviation = leg.1 + leg.2 * t + leg.3 * t * t / 2.0;
        self.offset + (true_ns + deviation).floor() as u64
    }
}
