//! Two hosts with known true clocks, and packets between them.

use wakepath_clock::{ErrorBound, Limits, Local, Peer, Quality, Solution, Solver, Stamp, Transform};
use wakepath_drift::{Chance, TrueClock};

/// The packets between two hosts.
#[derive(Debug, Clone)]
pub struct Traffic {
    pub seconds: f64,
    pub per_second: f64,
    /// The least delay there and back, ns.
    pub least: (f64, f64),
    /// The mean additional delay, ns.
    pub queueing: f64,
    /// The share of forward packets.
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

    /// A recording's window on this clock.
    pub fn window(&self) -> (Stamp<Local>, Stamp<Local>) {
        let end = self.traffic.seconds * 1e9 + 1e6;
        (Stamp::from_ns(self.here.at(0.0)), Stamp::from_ns(self.here.at(end)))
    }

    /// The relation between the clocks over the window.
    pub fn solve(&self) -> Solution {
        let (from, to) = self.window();
        self.solver(Limits::default()).solve(from, to)
    }

    /// The same, asserted to be exact: no packet arrives before it was sent, and the bound holds.
    pub fn solve_exactly(&self) -> Transform<Local, Peer> {
        let solution = self.solve();
        assert_eq!((solution.quality, solution.inversions), (Quality::Exact, 0));
        let transform = solution.transform.expect("linked");
        assert_eq!(self.inversions(&transform), 0);
        self.judge(&transform).expect("the bound holds");
        transform
    }

    /// The worst true error in the window; every error is compared with its bound.
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

    /// The number of packets that arrive before they were sent.
    pub fn inversions(&self, transform: &Transform<Local, Peer>) -> usize {
        let mut cursor = transform.cursor();
        let inverted = |&&(forward, here, there): &&(bool, u64, u64)| {
            let at = cursor.convert(Stamp::from_ns(here)).0.ns();
            if forward { at > there } else { at < there }
        };
        self.packets.iter().filter(inverted).count()
    }
}
