//! Samples a path's last function: its lines and callees with the time.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use wakepath_collect::{MAX_DRILL_SAMPLES, Signals};
use wakepath_drilldown::{MeasuredNode, NodeCause, NodeId, RootCause, SiteKind};
use wakepath_engine::drill::{Sampled, SampledPlace, is_wait};
use wakepath_symbols::{Found, Symbols};

use super::{Driver, Known, LOOK_EVERY};
use crate::drill::{DrillError, DrillProgress};

/// Enough samples to name lines: among 200 samples, a line with a tenth of the time gets 12 to 28 in 19 runs out of 20.
const ENOUGH_SAMPLES: u64 = 200;
/// The fewest samples for a majority: by chance, 15 of 20 fall into code with half the time in 1 run out of 50.
const MIN_SAMPLES: u64 = 20;
/// The time limit for a path's samples.
const SAMPLE_FOR: Duration = Duration::from_secs(1);
/// The lowest and highest sampling rate, samples per CPU second.
const RATES: std::ops::RangeInclusive<u64> = 20..=4_000;
/// The most sampled paths: each takes its time.
const MAX_SAMPLED_PATHS: usize = 3;

impl Driver<'_> {
    /// Samples each path's last function, in calls within the peak, if it takes CPU time itself.
    pub(in crate::drill) fn sample(
        &mut self,
        paths: &[RootCause],
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<HashMap<NodeId, Sampled>, DrillError> {
        let mut sampled = HashMap::new();
        let mut symbols = super::symbols();
        for path in paths.iter().filter(|path| computes(path)).take(MAX_SAMPLED_PATHS) {
            if self.ended(stop).is_some() || self.unloaded().is_some() {
                break;
            }
            let Some(&last) = path.path.last() else { continue };
            self.search.measured = path.path.iter().filter_map(|&node| self.as_measured(node)).collect();
            if self.search.measured.len() + 1 != path.path.len() {
                continue;
            }
            self.number_slots();
            self.place_stubs()?;
            self.probe_measured()?;
            self.place_kernel()?;
            self.install()?;
            let Some(slot) = self.search.slots.iter().position(|&node| node == last) else { continue };
            progress(DrillProgress::Sampling { function: self.name(last).unwrap_or_default() });
            if let Err(error) = self.drill.sample(slot as u32, rate(self.search.typical_ns)) {
                self.note(format!("no lines of the code were sampled: {error}"));
                break;
            }
            let (addresses, calls) = self.samples(stop)?;
            self.drill.sample_no_more();
            if !addresses.is_empty() {
                self.find_loops(last, &addresses);
                sampled.insert(last, self.places_of(&addresses, calls, &mut symbols));
            }
        }
        Ok(sampled)
    }

    fn as_measured(&self, node: NodeId) -> Option<MeasuredNode> {
        let known = self.search.nodes.get(&node)?;
        let (parent, site, callee) = (known.parent?, known.site?, known.function?);
        Some(MeasuredNode { node, parent, site, kind: SiteKind::Direct(callee), callee: Some(callee) })
    }

    /// The samples' addresses, each with its sample count, and the count of sampled calls within the peak.
    fn samples(&mut self, stop: &Signals) -> Result<(BTreeMap<u64, u64>, u64), DrillError> {
        let mut addresses: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut all, mut calls, began) = (0, 0, Instant::now());
        while all < ENOUGH_SAMPLES && began.elapsed() < SAMPLE_FOR && self.ended(stop).is_none() {
            self.drill.want(self.wanted);
            for call in self.drill.calls(LOOK_EVERY)? {
                if !self.search.peak.contains(call.latency) || call.samples.is_empty() {
                    continue;
                }
                calls += 1;
                for address in call.samples {
                    *addresses.entry(address).or_default() += 1;
                    all += 1;
                }
            }
        }
        Ok((addresses, calls))
    }

    /// Finds the callees with most of their caller's samples, among the callees without their former probes. The time that thousands of
    /// calls' probes took is known less exactly than this share.
    fn find_loops(&mut self, caller: NodeId, addresses: &BTreeMap<u64, u64>) {
        for loops in self.search.dear.iter().filter(|(parent, ..)| *parent == caller) {
            let number = self.search.nodes.get(&loops.1).and_then(|known| known.function);
            let function = number.and_then(|number| self.functions.get(number));
            let Some(Known::Probed(callee)) = function else { continue };
            let range = callee.address..callee.address.saturating_add(callee.function.size);
            if has_most(addresses, range) && !self.search.frequent.contains(loops) {
                self.search.frequent.push(*loops);
            }
        }
    }

    /// The lines and functions at these addresses, most samples first.
    fn places_of(&mut self, addresses: &BTreeMap<u64, u64>, calls: u64, symbols: &mut Symbols) -> Sampled {
        let mut places: BTreeMap<(String, Option<(String, u32)>), u64> = BTreeMap::new();
        for (&address, samples) in addresses {
            *places.entry(self.place_of(address, symbols)).or_default() += samples;
        }
        let mut places: Vec<SampledPlace> = places
            .into_iter()
            .map(|((function, line), samples)| SampledPlace { function, line, samples })
            .collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.samples));
        Sampled { samples: addresses.values().sum(), calls, places }
    }

    fn place_of(&mut self, address: u64, symbols: &mut Symbols) -> (String, Option<(String, u32)>) {
        if let Some(found) = self.python_place(address) {
            return found;
        }
        if address == 0 {
            return (String::from("the kernel"), None);
        }
        if let Some(name) = self.code.kernel().and_then(|kernel| kernel.name_of(address)) {
            return (name, None);
        }
        let Some((file, shown, offset)) = self.code.place_in_file(address) else {
            return (String::from("code of no file"), None);
        };
        match symbols.in_file_as_it_is(&file, offset) {
            Found::Function(found) => (found.name, found.line),
            _ => (shown.display().to_string(), None),
        }
    }
}

/// Whether a path's cause is its last function's CPU time.
fn computes(path: &RootCause) -> bool {
    let itself = matches!(path.cause, None | Some(NodeCause::Itself | NodeCause::Loop { .. }));
    itself && path.ns > 0 && !is_wait(path)
}

/// Whether most samples lie in this address range.
fn has_most(addresses: &BTreeMap<u64, u64>, range: Range<u64>) -> bool {
    let all: u64 = addresses.values().sum();
    let within = addresses.iter().filter(|(address, _)| range.contains(address)).map(|(_, samples)| samples);
    all >= MIN_SAMPLES && within.sum::<u64>() * 2 > all
}

/// The sampling rate at which a call with this length fills at most half its room for samples, within `RATES`.
fn rate(typical_ns: u64) -> u32 {
    let per_second = MAX_DRILL_SAMPLES as u64 / 2 * 1_000_000_000 / typical_ns.max(1);
    per_second.clamp(*RATES.start(), *RATES.end()) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{has_most, rate};

    #[test]
    fn a_loop_has_more_than_half_of_the_samples_of_its_caller_if_there_are_enough() {
        let of =
            |samples: &[(u64, u64)]| has_most(&samples.iter().copied().collect::<BTreeMap<_, _>>(), 100..200);
        assert!(of(&[(99, 9), (100, 6), (199, 5)]));
        assert!(!of(&[(99, 10), (100, 5), (199, 5)]), "half is not most");
        assert!(!of(&[(99, 5), (100, 5), (199, 4), (200, 6)]));
        assert!(!of(&[(150, 19)]), "few");
        assert!(of(&[(150, 20)]));
        assert!(!of(&[]));
    }

    #[test]
    fn a_call_has_half_of_the_samples_that_are_kept_where_the_clock_is_fast_enough() {
        assert_eq!([1, 1_000_000, 8_000_000, 100_000_000, u64::MAX].map(rate), [4000, 4000, 4000, 320, 20]);
    }
}
