//! The votes on a node by the calls to f₀, from one decision to the next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contributor::{Contributor, Foreign};
use crate::event::NodeId;
use crate::latencies::{CallTimes, Latencies};

/// The maximum number of values for a median: the first values.
const MAX_SAMPLE: usize = 1024;

/// The votes on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// The calls to f₀ in which the node was called.
    pub calls: u64,
    /// The calls with votes that depend on the probes' time.
    pub unsure: u64,
    /// The contributors seen.
    #[serde(with = "pairs")]
    pub contributors: BTreeMap<Contributor, Votes>,
    /// The calls in which an activity took more than half of the node's time, anywhere below it, with its time.
    #[serde(with = "pairs")]
    pub majority: BTreeMap<Foreign, Votes>,
    /// The calls in which the node's own latency was among the largest, by its largest part: the node's code (`None`),
    /// or the calls to a callee.
    #[serde(with = "pairs")]
    pub own_parts: BTreeMap<Option<NodeId>, OwnPart>,
    /// The latencies of f₀ in these calls, ns.
    pub f0_ns: u64,
    /// The time in which the node was blocked itself, ns.
    pub blocked_ns: u64,
}

/// The votes for a contributor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Votes {
    /// The calls in which the contributor was among the largest: `maxcount`.
    pub maxcount: u64,
    /// The calls in which the contributor took any time.
    pub calls: u64,
    /// The sum of the latencies, ns.
    pub ns: u64,
    /// The latencies in the calls in which the contributor was among the largest, ns.
    latencies: Sample,
}

/// The votes for a part of a node's own latency.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnPart {
    /// The calls in which it was the largest part.
    pub maxcount: u64,
    /// The number of calls to the callee in each of them.
    counts: Sample,
}

/// Values for a median.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sample(Vec<u64>);

impl Sample {
    fn add(&mut self, value: u64) {
        if self.0.len() < MAX_SAMPLE {
            self.0.push(value);
        }
    }

    /// The upper median, 0 without values.
    fn median(&self) -> u64 {
        let mut values = self.0.clone();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    }
}

impl Votes {
    /// The median latency over the calls in which the contributor was among the largest, ns.
    pub fn median_ns(&self) -> u64 {
        self.latencies.median()
    }

    /// The mean over `calls` calls, with 0 for calls without the contributor, ns.
    pub fn mean_ns(&self, calls: u64) -> u64 {
        mean(self.ns, calls)
    }

    fn add(&mut self, ns: u64, largest: bool) {
        self.calls += 1;
        self.ns = self.ns.saturating_add(ns);
        if largest {
            self.maxcount += 1;
            self.latencies.add(ns);
        }
    }
}

/// A mean in ns, 0 without calls.
pub(crate) fn mean(ns: u64, calls: u64) -> u64 {
    ns.checked_div(calls).unwrap_or(0)
}

impl OwnPart {
    /// The median number of calls to the callee per call to f₀.
    pub fn median_count(&self) -> u64 {
        self.counts.median()
    }
}

impl Sample {
    fn is_sound(&self) -> bool {
        self.0.len() <= MAX_SAMPLE
    }
}

/// A map as a list of pairs: its keys are no strings, as a JSON map needs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S, K, V>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        K: Serialize,
        V: Serialize,
    {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, D, K, V>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        D: Deserializer<'de>,
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl Tally {
    /// Whether a tally read from a save can belong to a node with these callees.
    pub fn is_sound(&self, is_callee: impl Fn(NodeId) -> bool) -> bool {
        let is_contributor = |contributor: &Contributor| match contributor {
            Contributor::Callee(callee) => is_callee(*callee),
            Contributor::Itself | Contributor::Foreign(_) => true,
        };
        let is_vote = |votes: &Votes| {
            votes.maxcount <= votes.calls && votes.calls <= self.calls && votes.latencies.is_sound()
        };
        self.unsure <= self.calls
            && self.contributors.iter().all(|(it, votes)| is_contributor(it) && is_vote(votes))
            && self.majority.values().all(is_vote)
            && self.own_parts.iter().all(|(callee, part)| {
                callee.is_none_or(&is_callee) && part.maxcount <= self.calls && part.counts.is_sound()
            })
    }

    /// Counts a call to f₀ in which the node was called (`process_latencies` in figure 3.5).
    pub fn add(&mut self, latencies: &Latencies, times: &CallTimes) {
        self.calls += 1;
        self.unsure += u64::from(latencies.unsure);
        self.f0_ns = self.f0_ns.saturating_add(times.f0_ns());
        self.blocked_ns = self.blocked_ns.saturating_add(latencies.blocked_ns);
        for &(contributor, ns) in &latencies.contributors {
            let largest = latencies.largest.contains(&contributor);
            self.contributors.entry(contributor).or_default().add(ns, largest);
        }
        for (&foreign, &ns) in &latencies.taken {
            self.majority.entry(foreign).or_default().add(ns, latencies.majority == Some(foreign));
        }
        if latencies.largest.contains(&Contributor::Itself) {
            let callee = latencies.largest_own_part;
            let part = self.own_parts.entry(callee).or_default();
            part.maxcount += 1;
            let callee = callee.and_then(|callee| times.get(callee));
            part.counts.add(callee.map_or(0, |callee| callee.count));
        }
    }

    /// The votes for a contributor; 0 if it was not seen.
    pub fn maxcount(&self, contributor: Contributor) -> u64 {
        self.contributors.get(&contributor).map_or(0, |votes| votes.maxcount)
    }

    /// The largest number of votes for a contributor.
    pub fn largest_maxcount(&self) -> u64 {
        self.contributors.values().map(|votes| votes.maxcount).max().unwrap_or(0)
    }

    /// The contributors with votes within a percentage of the largest number (section 3.3).
    pub fn chosen(&self, percentage: u32) -> Vec<Contributor> {
        let most = self.largest_maxcount();
        let chosen = |votes: &Votes| votes.maxcount > 0 && is_within(votes.maxcount, most, percentage);
        self.contributors
            .iter()
            .filter(|(_, votes)| chosen(votes))
            .map(|(&contributor, _)| contributor)
            .collect()
    }

    /// An activity that took most of the node's time in the calls, and hit several places below it: no contributor has
    /// half as many votes. With two places, one place has half of the votes; then the places are the answer, and not
    /// their caller.
    pub fn spread(&self) -> Option<Foreign> {
        let (foreign, votes) = self.majority.iter().max_by_key(|(_, votes)| votes.maxcount)?;
        (self.largest_maxcount() < votes.maxcount.div_ceil(2)).then_some(*foreign)
    }
}

/// Whether a number of votes is at least the percentage of the most votes.
fn is_within(votes: u64, most: u64, percentage: u32) -> bool {
    u128::from(votes) * 100 >= u128::from(most) * u128::from(percentage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_that_of_the_first_values() {
        let of = |values: &[u64]| {
            let mut sample = Sample::default();
            values.iter().for_each(|&value| sample.add(value));
            (sample.median(), sample.0.len(), sample.is_sound())
        };
        assert_eq!(of(&[]), (0, 0, true));
        assert_eq!(of(&[9, 1, 7, 5]), (7, 4, true));
        assert_eq!(of(&[9, 1, 7, 5, 2]), (5, 5, true));
        assert_eq!(of(&[vec![3; 1024], vec![5; 5000]].concat()), (3, 1024, true));
        assert!(!Sample(vec![1; 1025]).is_sound());
    }
}
