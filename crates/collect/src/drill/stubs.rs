//! Calls measured by stubs in the process, beside those seen by probes.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use wakepath_inject::{CallCost, Injection, Site, SiteRefusal, Unwinder, call_cost};

use super::Drill;
use crate::error::Error;

/// Stubs go on measuring for this time without a sign from us.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// The longest wait for open calls at the end.
const OPEN_FOR: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The CPU clock that stubs read, beside the kernel's.
#[derive(Debug)]
pub(super) struct Ticks {
    began: Instant,
    first: u64,
}

impl Ticks {
    pub fn new() -> Self {
        Self { began: Instant::now(), first: now() }
    }

    /// A tick's length, ns.
    pub fn length(&self) -> f64 {
        let ticks = now().saturating_sub(self.first).max(1);
        self.began.elapsed().as_nanos() as f64 / ticks as f64
    }
}

fn now() -> u64 {
    wakepath_inject::ticks()
}

/// A drill-down's stubs.
pub(super) struct Stubs {
    pub injection: Injection,
    pub cost: CallCost,
}

impl Stubs {
    /// Prepares a process for stubs, which share this memory with the programs.
    pub fn begin(pid: u32, states: BorrowedFd<'_>, unwinders: &[Unwinder]) -> Result<Self, Error> {
        let cost =
            call_cost().map_err(|source| Error::Attach { name: "a stub of our own".to_owned(), source })?;
        Ok(Self { injection: Injection::begin(pid, states, unwinders)?, cost })
    }

    /// Stubs measure from now on, for as long as this is called again and again.
    pub fn heard(&self, ticks: &Ticks) {
        let later = HEARD_WITHIN.as_nanos() as f64 / ticks.length();
        // An ended process is noticed elsewhere.
        let _ = self.injection.measure_until(now().saturating_add(later as u64));
    }
}

impl Drill<'_> {
    /// From now on stubs measure calls at these sites and at no others. The answers are in the sites' order. Nothing
    /// is measured until the next plan.
    ///
    /// # Errors
    /// When the process ended, or gets no memory.
    pub fn redirect(&mut self, sites: &[Site]) -> Result<Vec<Result<(), SiteRefusal>>, Error> {
        self.set(|bss| (bss.phase, bss.wanted) = (1, 0))?;
        let Some(stubs) = &mut self.stubs else { return Ok(Vec::new()) };
        let _ = stubs.injection.quiet(|address| sites.iter().any(|site| site.address == address));
        let answers = match stubs.injection.redirect(sites) {
            // The process's end is noticed elsewhere.
            Err(wakepath_inject::Error::Ended { .. }) => vec![Err(SiteRefusal::Changed); sites.len()],
            answers => answers?,
        };
        Ok(answers)
    }

    /// The time that a stub adds to a call, and the part within the callee's measured time, ns; `None` without stubs.
    pub fn stub_cost(&self) -> Option<(f64, f64)> {
        let stubs = self.stubs.as_ref()?;
        let tick = self.ticks.length();
        Some((stubs.cost.whole as f64 * tick, stubs.cost.inside as f64 * tick))
    }

    /// Takes the stubs out. Returns the number of calls still open in stubs, which return through them later.
    ///
    /// # Errors
    /// When the process has ended, or the kernel refuses the probes for changing the code.
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
