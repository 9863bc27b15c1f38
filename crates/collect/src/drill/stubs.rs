//! Calls that stubs in the process measure, beside those that probes see.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use wakepath_inject::{CallCost, Injection, Site, SiteRefusal, Unwinder, call_cost};

use super::Drill;
use crate::error::Error;

/// Stubs measure for so long after we were last heard of.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// Open calls are waited for at the end, for so long.
const OPEN_FOR: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A clock of the CPU that stubs read, beside the kernel's.
#[derive(Debug)]
pub(super) struct Ticks {
    began: Instant,
    first: u64,
}

impl Ticks {
    pub fn new() -> Self {
        Self { began: Instant::now(), first: now() }
    }

    /// The ns that a tick takes.
    pub fn length(&self) -> f64 {
        let ticks = now().saturating_sub(self.first).max(1);
        self.began.elapsed().as_nanos() as f64 / ticks as f64
    }
}

fn now() -> u64 {
    wakepath_inject::ticks()
}

/// The stubs of a drill-down.
pub(super) struct Stubs {
    pub injection: Injection,
    pub cost: CallCost,
}

impl Stubs {
    /// Gets ready to put stubs into a process, which share this memory with the programs.
    pub fn begin(pid: u32, states: BorrowedFd<'_>, unwinders: &[Unwinder]) -> Result<Self, Error> {
        let cost =
            call_cost().map_err(|source| Error::Attach { name: "a stub of our own".to_owned(), source })?;
        Ok(Self { injection: Injection::begin(pid, states, unwinders)?, cost })
    }

    /// Stubs measure from now on, for as long as this is called again and again.
    pub fn heard(&self, ticks: &Ticks) {
        let later = HEARD_WITHIN.as_nanos() as f64 / ticks.length();
        // A process that has ended is noticed elsewhere.
        let _ = self.injection.measure_until(now().saturating_add(later as u64));
    }
}

impl Drill<'_> {
    /// Measures calls at these sites by stubs from now on, and no others by stubs. The answers are in the order of the sites.
    /// Nothing is measured until the next plan.
    ///
    /// # Errors
    /// When the process ended, or gets no memory.
    pub fn redirect(&mut self, sites: &[Site]) -> Result<Vec<Result<(), SiteRefusal>>, Error> {
        self.set(|bss| (bss.phase, bss.wanted) = (1, 0))?;
        let Some(stubs) = &mut self.stubs else { return Ok(Vec::new()) };
        let _ = stubs.injection.quiet(|address| sites.iter().any(|site| site.address == address));
        let answers = match stubs.injection.redirect(sites) {
            // It is noticed elsewhere that the process has ended.
            Err(wakepath_inject::Error::Ended { .. }) => vec![Err(SiteRefusal::Changed); sites.len()],
            answers => answers?,
        };
        Ok(answers)
    }

    /// The time that a stub adds to a call, and the part of it that counts as the callee's, ns; `None` without stubs.
    pub fn stub_cost(&self) -> Option<(f64, f64)> {
        let stubs = self.stubs.as_ref()?;
        let tick = self.ticks.length();
        Some((stubs.cost.whole as f64 * tick, stubs.cost.inside as f64 * tick))
    }

    /// Takes the stubs out. The number of calls that are open in them at the end:
    /// these return through them later.
    ///
    /// # Errors
    /// When the process has ended, or the kernel refuses the probes by which the code is changed.
    pub fn end_stubs(&mut self) -> Result<usize, Error> {
        let Some(mut stubs) = self.stubs.take() else { return Ok(0) };
        self.set(|bss| bss.phase = 0)?;
        stubs.injection.measure_until(0)?;
        stubs.injection.restore()?;
        let began = Instant::now();
        while stubs.injection.open_calls()? > 0 && began.elapsed() < OPEN_FOR {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(stubs.injection.end()?.open)
    }
}
