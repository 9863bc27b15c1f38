//! The search for a peak, based on the counted calls, and its answer.

use std::time::{Duration, Instant};

use wakepath_collect::{DrillCounts, Signals};
use wakepath_distribution::{Peak, bounds};
use wakepath_drilldown::{Drilldown, Event, FunctionId, LatencyRange, Parameters, RootCause, Status};
use wakepath_engine::Host;
use wakepath_engine::drill::{Drilled, SearchCost, is_wait};
use wakepath_functions::Runtime;
use wakepath_process::Process;
use wakepath_recording::this_host;

use super::driver::peaks::since;
use super::driver::{Driver, cost_of};
use super::{CountedCalls, DrillError, DrillProgress, DrillQuery, SavedSearch, Searched};
use crate::command::CommandEnd;
use crate::latency::probe_cost;

/// The note about a wait in Go.
const PARKED: &str = "a goroutine waited there, and its thread ran others meanwhile, so that no recording of threads explains it; \
     wakepath record --goroutines --slow-probes --call FILE:FUNCTION -p PID, then wakepath path --call, names the goroutine that \
     made it ready";

/// A peak to explain.
pub(super) struct AskedPeak {
    /// Its number, from 1 on.
    pub number: usize,
    /// The time limit for its search, if others follow.
    pub at_most: Option<Duration>,
    /// The beginning of the work for this answer; the first answer includes the time of counting.
    pub began: Instant,
    /// The counts of f0's calls until then.
    pub before: DrillCounts,
}

impl Driver<'_> {
    /// Searches for the functions that make a peak's calls slow.
    pub(super) fn explain(
        &mut self,
        query: &DrillQuery,
        counted: &CountedCalls,
        asked: &AskedPeak,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<Searched, DrillError> {
        let CountedCalls { process: (pid, command), runtime, .. } = *counted;
        let AskedPeak { number, at_most, .. } = *asked;
        let found = &counted.peaks;
        super::check_peaks(query, found, &[number])?;
        let peak = &found[number - 1];
        progress(DrillProgress::Peak(*peak));
        let (at_begin, spent_before, search_began) = (self.counts()?, self.spent_ns(), Instant::now());
        // A resumed search keeps its range.
        let range = query.resume.as_ref().map_or_else(|| range_of(peak, found), SavedSearch::range);
        self.begin_peak(range, mean_of(peak, &counted.counts).max(range.from_ns), at_most);
        let cost = counted.probe.map(cost_of).unwrap_or_default();
        // The peak is chosen here, and the machine gets its range.
        let parameters = Parameters { start_peak: None, ..query.parameters.clone() };
        let mut machine = match &query.resume {
            Some(saved) => self.resume(saved, parameters, cost)?,
            None => Drilldown::new(FunctionId(0), parameters, cost)?,
        };
        let mut effects = machine.handle(Event::Histogram(Box::new(counted.histogram.clone())))?;
        if query.resume.is_none() {
            effects.extend(machine.handle(Event::Peak(range))?);
        } else if machine.status() == Status::Counting {
            // Too few calls came for a comparison.
            effects.extend(machine.handle(Event::Resume)?);
        }
        let status = self.search(&mut machine, effects, stop, progress)?;
        let of_driver = |cause| {
            let cause = self.with_park(self.with_loop(cause));
            let cause = self.with_late_calls(cause);
            self.with_targets(cause)
        };
        let root_causes: Vec<RootCause> = machine.root_causes().into_iter().map(of_driver).collect();
        let save = self.save(&machine, &query.target);
        let cost = self.cost_of_search(peak, counted, (&at_begin, spent_before, search_began))?;
        let sampled = self.sample(&root_causes, stop, progress)?;
        let calls = since(&self.counts()?, &asked.before);
        let (phases, handed_over) = (self.phases(query)?, self.handed_over(query)?);
        // Samples show some loops.
        let root_causes: Vec<RootCause> =
            root_causes.into_iter().map(|cause| self.with_loop(cause)).collect();
        let save = save.map(|save| save.with_frequent(self.frequent()));
        // The driver found the loops, so that the machine knows no cause there.
        let has_cause = root_causes.iter().any(|path| path.cause.is_some());
        let status = if status == Status::EndsEarly && has_cause { Status::RootCauseFound } else { status };
        let found_below = self.found(&root_causes);
        let of_goroutines = runtime == Runtime::Go;
        let parked = (of_goroutines && root_causes.iter().any(is_wait)).then(|| PARKED.to_owned());
        let of_f0 = counted.notes.iter().cloned().chain(found_below.notes);
        let notes = of_f0.chain(missed(&calls, runtime == Runtime::Kernel)).chain(parked).collect();
        let command_status = found_below.command_status;
        let drilled = Drilled {
            host: Host::from(&this_host()),
            target: query.target.clone(),
            process: (pid, command_of(pid)),
            histogram: counted.histogram.clone(),
            peak: number,
            peaks: found.clone(),
            elapsed: asked.began.elapsed(),
            calls: calls.buckets.iter().sum(),
            phases,
            handed_over,
            status,
            root_causes,
            decisions: machine.decisions().to_vec(),
            functions: found_below.functions,
            nodes: found_below.nodes,
            lines: found_below.lines,
            unmeasured: found_below.unmeasured,
            sampled,
            of_goroutines,
            of_python: runtime == Runtime::Python,
            probe: counted.probe.map(probe_cost),
            most_probed: found_below.most_probed,
            cost,
            notes,
        };
        let running = command.filter(|_| command_status.is_none());
        Ok(Searched { drilled, save, command: CommandEnd { running, status: command_status } })
    }

    /// The probes' time since a search began, and how long the peak's calls took meanwhile.
    fn cost_of_search(
        &self,
        peak: &Peak,
        counted: &CountedCalls,
        (at_begin, spent_before, began): (&DrillCounts, u64, Instant),
    ) -> Result<SearchCost, DrillError> {
        let meanwhile = since(&self.counts()?, at_begin);
        // Probes make calls longer: those of the peak may lie above it.
        let slow = Peak { to_bucket: meanwhile.buckets.len() - 1, ..*peak };
        let ns = self.spent_ns().saturating_sub(spent_before);
        let elapsed = began.elapsed();
        Ok(SearchCost {
            ns,
            of_machine: self.share_of_machine(ns, elapsed),
            elapsed,
            call_before_ns: mean_of(&slow, &counted.counts),
            call_meanwhile_ns: mean_of(&slow, &meanwhile),
        })
    }

    /// Ends the searches; the last answer gets the notes about the stubs.
    pub(super) fn end(&mut self, answers: &mut [Searched]) {
        let of_stubs = self.end_stubs();
        if let Some(last) = answers.last_mut() {
            last.drilled.notes.extend(of_stubs);
        }
    }
}

/// The latency range that counts as a peak. Its outer buckets hold few calls, but the probes' time, and the machine's correction for it,
/// move calls across their bounds: a quarter more belongs to the peak, unless another peak begins there.
pub(super) fn range_of(peak: &Peak, all: &[Peak]) -> LatencyRange {
    let (from_ns, to_ns) = (*bounds(peak.from_bucket).start(), *bounds(peak.to_bucket).end());
    let below = all.iter().any(|other| other.to_bucket + 1 == peak.from_bucket);
    let above = all.iter().any(|other| other.from_bucket == peak.to_bucket + 1);
    LatencyRange {
        from_ns: if below { from_ns } else { from_ns - from_ns / 4 },
        to_ns: if above { to_ns } else { to_ns.saturating_add(to_ns / 4) },
    }
}

/// The mean latency of a peak's calls, ns.
fn mean_of(peak: &Peak, counts: &DrillCounts) -> u64 {
    let total = |of: &[u64; 64]| -> u128 {
        of.get(peak.from_bucket..=peak.to_bucket).unwrap_or_default().iter().map(|&one| u128::from(one)).sum()
    };
    let mean = total(&counts.sums) / total(&counts.buckets).max(1);
    mean.try_into().unwrap_or(u64::MAX)
}

/// The unmeasured calls, in sentences.
fn missed(counts: &DrillCounts, in_kernel: bool) -> Vec<String> {
    let sentence = |number: u64, what: &str| (number > 0).then(|| format!("{number} {what}"));
    [
        sentence(
            counts.left,
            if in_kernel {
                "calls of the function returned unseen"
            } else {
                "calls of the function were unwound without a return"
            },
        ),
        sentence(counts.crowded, "calls were not measured: too many threads, or calls too deep"),
        sentence(counts.lost, "records of calls found no room"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn command_of(pid: u32) -> String {
    let comm = Process::open(pid).and_then(|process| process.comm()).unwrap_or_default();
    String::from_utf8_lossy(&comm).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_peak_is_that_of_its_calls_alone() {
        let (mut buckets, mut sums) = ([0; 64], [0; 64]);
        (buckets[3], sums[3]) = (100, 1000);
        (buckets[20], sums[20]) = (1, 2_000_000);
        (buckets[21], sums[21]) = (3, 6_400_000);
        let counts = DrillCounts { buckets, sums, left: 0, crowded: 0, lost: 0 };
        let mean = |from_bucket, to_bucket| mean_of(&Peak { from_bucket, to_bucket, count: 4 }, &counts);
        assert_eq!((mean(20, 21), mean(3, 3), mean(5, 6)), (2_100_000, 10, 0));
        assert_eq!(mean(20, 99), 0, "no bucket");
    }

    #[test]
    fn a_peak_reaches_a_quarter_beyond_its_buckets_but_not_into_another_one() {
        let peak = |from_bucket, to_bucket| Peak { from_bucket, to_bucket, count: 1 };
        let range = |peak: &Peak, all: &[Peak]| {
            let LatencyRange { from_ns, to_ns } = range_of(peak, all);
            (from_ns, to_ns)
        };
        let (low, middle, high) = (peak(2, 3), peak(4, 4), peak(8, 9));
        let all = [low, middle, high];
        assert_eq!(range(&low, &all), (3, 15));
        assert_eq!(range(&middle, &all), (16, 38));
        assert_eq!(range(&high, &all), (192, 1278));
    }
}
