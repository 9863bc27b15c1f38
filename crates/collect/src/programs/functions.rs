//! The selected functions' probes: attached, removed where they take too much, and put behind calls.

use std::time::Instant;

use libbpf_rs::skel::Skel;
use wakepath_functions::Return;

use super::Programs;
use crate::callers::Place;
use crate::error::Error;
use crate::goroutines::{self, Way};
use crate::libbpf;
use crate::options::Options;
use crate::probe_budget::{RemovedProbes, StepBudget};
use crate::probes;

impl Programs<'_> {
    /// Attaches the selected functions' probes behind the other programs: each call's waits are recorded from its beginning. `costs`: the
    /// single-stepped functions' time for a call, ns. Returns the functions whose probes took too much meanwhile.
    pub(crate) fn attach_functions(
        &mut self,
        options: &Options,
        costs: Vec<(u32, Option<u64>)>,
    ) -> Result<Vec<(u32, RemovedProbes)>, Error> {
        self.budget = StepBudget::new(options.budget, costs.into_iter());
        let (began, mut removed) = (Instant::now(), Vec::new());
        for (target, (_, probe)) in (0_u32..).zip(&options.functions) {
            let links = probes::attach(self.skeleton.object(), target as usize, probe, options.only_in)?;
            self.functions.insert(target, links);
            removed.extend(self.keep_to_budget(began));
        }
        Ok(removed)
    }

    /// Removes the functions' probes beyond their budget. `began`: when they were attached.
    pub(crate) fn keep_to_budget(&mut self, began: Instant) -> Vec<(u32, RemovedProbes)> {
        let Self { skeleton, functions, callers, budget, .. } = self;
        let maps = &skeleton.maps;
        budget.keep(functions, callers, (&maps.entries, &maps.callers_seen), began)
    }

    /// Puts probes behind the calls of functions that need them there and came since the last time.
    pub(crate) fn learn_callers(&mut self, options: &Options) -> Result<(), Error> {
        if !options.functions.iter().any(|(_, probe)| probe.returns == Return::AtCallers) {
            return Ok(());
        }
        let way = self.go_way;
        let program = libbpf::program(self.skeleton.object(), "function_returned")?;
        self.callers.learn(&self.skeleton.maps.callers_seen, |place| {
            let Place { target, file, offset, .. } = place;
            let (_, probe) =
                options.functions.get(*target as usize).ok_or(Error::Skeleton("callers_seen"))?;
            let cookie = probes::cookie(*target as usize, probe);
            // Rights were dropped by now, so that older kernels refuse it.
            let link = match way {
                Way::Links => goroutines::link(&program, cookie, file, &[*offset]),
                Way::PerfEvents => goroutines::perf_link(&program, cookie, file, *offset),
            };
            link.map_err(|source| Error::Probe { file: file.clone(), offset: *offset, source })
        });
        Ok(())
    }
}
