//! A made-up service under load: its calls' latencies, and a changed condition's effect.
//!
//! Clients think, then call. A call computes, partly under a shared mutex; some calls then wait for a device, which
//! serves them one at a time; and some hit a further cause. Waits for the mutex and for the device come from queues, so
//! that calls depend on each other as in a machine: such profiles have more noise than independent draws.

use wakepath_distribution::{Histogram, Unit, evaluation::Pair};

use crate::rng::Rng;

/// Everything that decides the calls' latencies, except chance. Times are in ns.
#[derive(Debug, Clone)]
pub struct Condition {
    clients: usize,
    think: f64,
    compute: Time,
    /// The part of computing under the mutex.
    held: f64,
    device_share: f64,
    device: Time,
    cause_share: f64,
    cause: Time,
    /// This share of calls takes this many times as long.
    slowed: Option<(f64, f64)>,
}

/// Log-normal: its median, and its natural logarithm's spread.
#[derive(Debug, Clone, Copy)]
struct Time {
    median: f64,
    spread: f64,
}

impl Time {
    fn draw(self, rng: &mut Rng) -> f64 {
        self.median * (self.spread * rng.normal()).exp()
    }
}

/// The change between two profiles, and its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// Clients think this many times shorter.
    Load(f64),
    /// The device takes this many times as long.
    Device(f64),
    /// This share of calls has a new cause, with 32 to 256 times the computing time.
    Cause(f64),
    /// Computing takes this many times as long.
    Version(f64),
    /// This share of calls takes this many times as long.
    Slowed(f64, f64),
}

impl Change {
    /// Graded: from changes lost in the noise with a few thousand calls to changes that any viewer sees.
    pub const ALL: [Change; 16] = [
        Change::Load(1.5),
        Change::Load(2.0),
        Change::Load(4.0),
        Change::Device(1.25),
        Change::Device(1.5),
        Change::Device(2.0),
        Change::Device(4.0),
        Change::Cause(0.003),
        Change::Cause(0.01),
        Change::Cause(0.03),
        Change::Cause(0.1),
        Change::Version(1.05),
        Change::Version(1.1),
        Change::Version(1.25),
        Change::Version(1.5),
        Change::Version(2.0),
    ];

    fn apply(self, condition: &mut Condition) {
        match self {
            Change::None => {}
            Change::Load(times) => condition.think /= times,
            Change::Device(times) => condition.device.median *= times,
            Change::Cause(share) => condition.cause_share = share,
            Change::Version(times) => condition.compute.median *= times,
            Change::Slowed(share, times) => condition.slowed = Some((share, times)),
        }
    }
}

impl Condition {
    /// Some operation on some machine.
    fn draw(rng: &mut Rng) -> Self {
        let compute = Time { median: rng.between(10.0, 20.0).exp2(), spread: rng.between(0.15, 0.6) };
        let held = rng.between(0.1, 0.5);
        let device =
            Time { median: compute.median * rng.between(4.0, 9.0).exp2(), spread: rng.between(0.3, 0.7) };
        let device_share = rng.between(0.02, 0.3);
        let clients = rng.between(2.0, 17.0) as usize;
        // The busier of mutex and device is busy for this share of the time, if no client waits.
        let busy = rng.between(0.2, 0.5);
        let demand = (held * compute.median).max(device_share * device.median);
        Condition {
            clients,
            think: clients as f64 * demand / busy,
            compute,
            held,
            device_share,
            device,
            cause_share: 0.0,
            cause: Time { median: compute.median * rng.between(5.0, 8.0).exp2(), spread: 0.3 },
            slowed: None,
        }
    }

    /// A profile with this number of calls.
    fn profile(&self, calls: usize, rng: &mut Rng) -> Histogram {
        Service::of(self.clone(), rng).calls(calls, rng)
    }
}

/// A service that goes on, with the queues left by its calls so far.
#[derive(Debug, Clone)]
pub struct Service {
    condition: Condition,
    /// When each client calls next.
    next: Vec<f64>,
    mutex_free: f64,
    device_free: f64,
}

impl Service {
    /// Some operation on some machine.
    pub fn draw(rng: &mut Rng) -> Self {
        Self::of(Condition::draw(rng), rng)
    }

    fn of(condition: Condition, rng: &mut Rng) -> Self {
        let next = (0..condition.clients).map(|_| condition.think * rng.exponential()).collect();
        // The queues are as if always full at first: the first calls are not counted.
        let warm_up = 20 * condition.clients;
        let mut service = Self { condition, next, mutex_free: 0.0, device_free: 0.0 };
        service.calls(warm_up, rng);
        service
    }

    /// Changes its condition from here on.
    pub fn change(&mut self, change: Change) {
        change.apply(&mut self.condition);
    }

    /// Its next calls' latencies.
    pub fn calls(&mut self, calls: usize, rng: &mut Rng) -> Histogram {
        let mut profile = Histogram::new(Unit::Nanoseconds);
        let Self { condition, next, mutex_free, device_free } = self;
        for _ in 0..calls {
            let client = (0..next.len()).min_by(|&a, &b| next[a].total_cmp(&next[b])).unwrap_or(0);
            let start = next[client];
            let compute = condition.compute.draw(rng);
            // The first caller gets the mutex first, and the device: the error is a wrong order, not a time spent
            // twice.
            let got = (start + compute * (1.0 - condition.held)).max(*mutex_free);
            *mutex_free = got + compute * condition.held;
            let mut end = *mutex_free;
            if rng.uniform() < condition.device_share {
                *device_free = device_free.max(end) + condition.device.draw(rng);
                end = *device_free;
            }
            if rng.uniform() < condition.cause_share {
                end += condition.cause.draw(rng);
            }
            if let Some((share, times)) = condition.slowed
                && rng.uniform() < share
            {
                end = start + (end - start) * times;
            }
            profile.add((end - start) as u64);
            next[client] = end + condition.think * rng.exponential();
        }
        profile
    }
}

/// The number of calls in a pair's second profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Calls {
    /// Some other number: runs with other lengths.
    Others,
    /// The same number: the same work done again, as in the paper.
    AsMany,
}

/// A labelled pair: `seed` decides the operation, the numbers of calls and all chance.
pub fn pair(change: Change, calls: Calls, seed: u64) -> Pair {
    let mut rng = Rng::new(seed);
    let condition = Condition::draw(&mut rng);
    let mut other = condition.clone();
    change.apply(&mut other);
    // 1000 to 20 000.
    let some = |rng: &mut Rng| 10f64.powf(rng.between(3.0, 4.3)) as usize;
    let of_first = some(&mut rng);
    let of_second = if calls == Calls::Others { some(&mut rng) } else { of_first };
    let first = condition.profile(of_first, &mut rng);
    let second = other.profile(of_second, &mut rng);
    Pair { first, second, changed: change != Change::None }
}
