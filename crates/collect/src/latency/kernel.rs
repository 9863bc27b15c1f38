//! Calls of functions of the kernel.

use std::mem::MaybeUninit;
use std::time::Instant;

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags};

use super::calibrate::{COUNTER, Calibration, median, rounds};
use super::{Counted, Counters, LatencyOptions};
use crate::Error;
use crate::doctor::may_load_programs;
use crate::kernel_probes::{KernelFunction, KernelTypes, TRIED, call_tried};
use crate::programs::{FROM_THE_START, into_io};

/// Calls in a round. Around each of them is a system call, which takes longer than the probes.
const CALLS: u64 = 8;
/// Puts probes on a function of the kernel that does nothing, and takes them away.
///
/// # Errors
/// Why that cannot be: rights that are missing, or a kernel that does not let its functions be probed.
pub fn try_kernel_functions() -> Result<(), Error> {
    let options = LatencyOptions {
        targets: vec![Counted::KernelFunction(tried())],
        processes: vec![std::process::id()],
        ..LatencyOptions::default()
    };
    let mut storage = MaybeUninit::uninit();
    let attached =
        Counters::load(&mut storage, &options).and_then(|mut counters| counters.attach_to_kernel(&options));
    attached.map_err(|error| match error {
        Error::Load { source } | Error::KernelProbe { source, .. } if may_load_programs() => {
            Error::NoKernelProbes { why: source.to_string() }
        }
        other => other,
    })
}

fn tried() -> KernelFunction {
    KernelFunction { name: TRIED.into(), never_returns: false }
}

impl Counters<'_> {
    pub(super) fn attach_to_kernel(&mut self, options: &LatencyOptions) -> Result<(), Error> {
        let mut types = None;
        for (index, target) in (0..).zip(&options.targets) {
            let Counted::KernelFunction(function) = target else { continue };
            let types = match &types {
                Some(types) => types,
                None => types.insert(KernelTypes::read()?),
            };
            self.kernel_probes.attach(self.skeleton.object(), types, index, function)?;
        }
        Ok(())
    }

    /// Of a target: calls that nobody saw begin, or return.
    pub(super) fn unseen(&self, target: u32) -> Result<u64, Error> {
        let values = self.skeleton.maps.unseen.lookup_percpu(&target.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|source| Error::Counts { source: into_io(source) })?;
        let word = |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let returned = values.iter().flatten().map(word).sum();
        Ok(self.kernel_probes.unseen(|other| other == target, returned))
    }
    /// What the probes of a function of the kernel cost; nothing where that cannot be measured.
    pub(super) fn calibrate_kernel(&mut self) -> Option<Calibration> {
        let types = KernelTypes::read().ok()?;
        let bare = median(rounds(|| self.round())?)?;
        let object = self.skeleton.object();
        self.calibrated_kernel.attach(object, &types, COUNTER, &tried()).ok()?;
        self.round()?;
        let elsewhere = median(rounds(|| self.round())?)?;
        let own = std::process::id().to_ne_bytes();
        self.skeleton.maps.followed.update(&own, &FROM_THE_START, MapFlags::ANY).ok()?;
        let found = self.counted(CALLS, || self.round());
        // Of what this process starts later, nothing is followed that was not asked about.
        self.skeleton.maps.followed.delete(&own).ok()?;
        self.forget_groups();
        let (times, latencies) = found?;
        let per_call_ns = median(times)?.saturating_sub(bare) / CALLS;
        let shift = median(latencies)? / CALLS;
        // The system calls around it vary by more, where this is less than its part: then it is not known.
        let is_known = per_call_ns > 0 && (self.cycles.is_some() || per_call_ns > shift);
        let elsewhere_ns = elsewhere.saturating_sub(bare) / CALLS;
        is_known.then_some(Calibration { per_call_ns, elsewhere_ns, shift })
    }

    /// How long it takes to have the kernel call its empty function some times, ns.
    fn round(&self) -> Option<u64> {
        let began = Instant::now();
        for _ in 0..CALLS {
            call_tried(self.skeleton.object()).ok()?;
        }
        u64::try_from(began.elapsed().as_nanos()).ok()
    }
}
