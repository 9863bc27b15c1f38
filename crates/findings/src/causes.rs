//! Causes of many calls' time, per call, in two groups to compare.

use std::collections::{BTreeSet, HashMap};

use wakepath_critical_path::SegmentKind;
use wakepath_event::Comm;
use wakepath_loaded::{CallName, Object};
use wakepath_wait_graph::ThreadIndex;

use crate::rows::rows_of_call;
use crate::{BasisMix, Code, EndKey, Evidence, PerGroup, Row, RowKey};

/// A cause's time in the selected calls, and in the usual calls.
#[derive(Debug, Clone)]
pub struct CallCause {
    /// The cause.
    pub key: RowKey,
    /// An example: the call in which the cause took the most time, and its row there, with the processes and
    /// threads of all calls whose recordings number threads alike.
    pub example: (CallPlace, Row),
    /// The time in all calls, ns.
    pub total_ns: PerGroup<u64>,
    /// The time, ns a call.
    pub mean_ns: PerGroup<f64>,
    /// The number of selected calls in which this cause took the most time.
    pub first_in: u64,
    /// The parts of the time by the end of the wait chain, largest difference first. They add up to less than the
    /// whole where no more is known.
    pub parts: Vec<CallCausePart>,
    /// The selected calls' total time by basis, ns.
    pub basis: BasisMix,
    /// Functions where threads of the calls' own process ran, or waited for this cause.
    pub code: Code,
}

/// A call: its group, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPlace {
    /// The group: the selected calls, else the usual calls.
    pub is_asked: bool,
    /// The index in the group.
    pub place: usize,
}

/// The parts of a cause worth a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownParts {
    /// This part makes at least 90% of the cause: one line shows both.
    Whole(usize),
    /// These parts.
    Several(Vec<usize>),
}

/// A part of a cause.
#[derive(Debug, Clone, Default)]
pub struct CallCausePart {
    /// The end of the wait chain.
    pub end: EndKey,
    /// The system call, with its object if all calls had the same.
    pub call: Option<CallName>,
    /// The time in all calls, ns.
    pub total_ns: PerGroup<u64>,
    /// The time, ns a call.
    pub mean_ns: PerGroup<f64>,
    /// Functions where this time was spent, in the selected calls.
    pub code: Code,
    objects: BTreeSet<Object>,
}

/// The cause with the most time in a call.
pub fn first_cause(call: &Evidence<'_>) -> Option<(RowKey, Row)> {
    causes_of_call(call).into_iter().next()
}

/// A call's rows, with a separate row for the caller's own running, largest first.
fn causes_of_call(call: &Evidence<'_>) -> Vec<(RowKey, Row)> {
    let caller = call.path.window.thread;
    let own = call.segments();
    let own = own.filter(|s| s.kind == SegmentKind::Running && s.thread == Some(caller));
    let mut own_ns: u64 = own.map(|segment| segment.to.since(segment.from)).sum();
    let mut causes = Vec::new();
    for (key, mut row) in rows_of_call(call) {
        if key == RowKey::Running(call.subject().comm) {
            // Other threads may have the caller's name.
            let own = Row { total_ns: own_ns.min(row.total_ns), ..row.clone() };
            own_ns -= own.total_ns;
            row.total_ns -= own.total_ns;
            if own.total_ns > 0 {
                causes.push((RowKey::Caller, own));
            }
        }
        if row.total_ns > 0 {
            causes.push((key, row));
        }
    }
    causes.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    causes
}

/// All causes, largest difference first. Together they are the groups' mean latencies.
pub fn causes(calls: &PerGroup<Vec<Evidence<'_>>>) -> Vec<CallCause> {
    let mut causes: HashMap<RowKey, CallCause> = HashMap::new();
    for (group, is_asked) in [(&calls.asked, true), (&calls.usual, false)] {
        let count = group.len().max(1) as f64;
        for (of_group, call) in group.iter().enumerate() {
            let place_of_call = CallPlace { is_asked, place: of_group };
            for (place, (key, row)) in causes_of_call(call).into_iter().enumerate() {
                let cause = causes.entry(key.clone()).or_insert_with(|| CallCause {
                    key,
                    example: (place_of_call, Row::default()),
                    total_ns: PerGroup::default(),
                    mean_ns: PerGroup::default(),
                    first_in: 0,
                    parts: Vec::new(),
                    basis: BasisMix::default(),
                    code: Code::default(),
                });
                cause.first_in += u64::from(is_asked && place == 0);
                cause.add_times(call, &row, count, is_asked);
                if is_asked {
                    cause.basis.add_mix(row.basis);
                    cause.add_code(call, &row);
                }
                cause.add_example(calls, place_of_call, row);
            }
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    causes.iter_mut().for_each(CallCause::finish);
    causes.sort_by(|a, b| a.mean_ns.largest_first(&b.mean_ns).then_with(|| a.key.cmp(&b.key)));
    causes
}

/// A part with this share stands for its whole cause.
const WHOLE: f64 = 0.9;
/// Parts below this share of a cause, and parts beyond this number, get no line.
const MIN_PART: f64 = 0.05;
const MAX_PARTS: usize = 4;

impl CallCause {
    /// The parts worth a line each: the part with nearly all the time, else the largest parts.
    pub fn shown_parts(&self) -> ShownParts {
        let all = self.mean_ns.asked;
        let at_least = |share: f64| {
            let parts = self.parts.iter().enumerate();
            parts.filter(move |(_, part)| part.mean_ns.asked >= all * share).map(|(place, _)| place)
        };
        match at_least(WHOLE).next() {
            Some(whole) => ShownParts::Whole(whole),
            None => ShownParts::Several(at_least(MIN_PART).take(MAX_PARTS).collect()),
        }
    }

    /// The parts named in a sentence about the cause's difference: for awaited threads, at most two parts with a
    /// quarter of it each; for other causes, a part with half.
    pub fn told_parts(&self) -> Vec<usize> {
        let (least, most) = if self.key.is_of_others() { (0.25, 2) } else { (0.5, 1) };
        let least = self.mean_ns.difference() * least;
        let parts = self.parts.iter().enumerate();
        let large = parts.filter(|(_, part)| part.mean_ns.difference() >= least);
        large.map(|(place, _)| place).take(most).collect()
    }

    fn add_times(&mut self, call: &Evidence<'_>, row: &Row, calls: f64, is_asked: bool) {
        *self.mean_ns.of(is_asked) += row.total_ns as f64 / calls;
        *self.total_ns.of(is_asked) += row.total_ns;
        // The caller's own running has no parts.
        let ends = row.ends.iter().filter(|_| self.key != RowKey::Caller);
        for (key, end) in ends {
            let known = self.parts.iter().position(|part| part.end == *key);
            let at = known.unwrap_or_else(|| {
                self.parts.push(CallCausePart { end: key.clone(), ..CallCausePart::default() });
                self.parts.len() - 1
            });
            let part = &mut self.parts[at];
            *part.mean_ns.of(is_asked) += end.ns as f64 / calls;
            *part.total_ns.of(is_asked) += end.ns;
            if is_asked {
                // Two objects suffice to show that objects differ.
                part.objects.extend(end.objects.iter().take(2).cloned());
                part.code.waited.add_sites(call.stacks, &end.sites);
            }
        }
    }

    fn add_code(&mut self, call: &Evidence<'_>, row: &Row) {
        let caller = call.path.window.thread;
        let ran = |thread: ThreadIndex, comm: Comm| match &self.key {
            RowKey::Caller => thread == caller,
            RowKey::Running(name) => *name == comm && thread != caller && row.threads.contains(&thread),
            RowKey::Process(..) | RowKey::Thread(..) => thread != caller && row.threads.contains(&thread),
            _ => false,
        };
        let is_of_others = self.key.is_of_others();
        for (_, comm, site, count) in call.ran().filter(|(thread, comm, ..)| ran(*thread, *comm)) {
            let code = if is_of_others {
                let running = self.parts.iter_mut().filter(|part| part.end.runs());
                // The thread's own part, else the part for the threads in the key.
                let its = running.filter(|part| part.end.thread.is_none_or(|name| name == comm));
                its.max_by_key(|part| part.end.thread.is_some()).map(|part| &mut part.code)
            } else {
                Some(&mut self.code)
            };
            code.into_iter().for_each(|code| code.ran.add(site, count));
        }
        // If the ends are in other threads, these sites are the waits for them.
        if is_of_others || row.ends.is_empty() {
            self.code.waited.add_sites(call.stacks, &row.sites);
        }
    }

    fn add_example(&mut self, calls: &PerGroup<Vec<Evidence<'_>>>, place: CallPlace, mut row: Row) {
        let (largest, example) = &mut self.example;
        let is_same = match (calls.call(*largest), calls.call(place)) {
            (Some(one), Some(other)) => one.recorded.numbers_threads_like(other.recorded),
            _ => false,
        };
        if row.total_ns > example.total_ns {
            *largest = place;
            std::mem::swap(example, &mut row);
        }
        if !is_same {
            return;
        }
        example.processes.append(&mut row.processes);
        example.threads.append(&mut row.threads);
    }

    fn finish(&mut self) {
        for part in &mut self.parts {
            let mut objects = std::mem::take(&mut part.objects).into_iter();
            let object = objects.next().filter(|_| objects.next().is_none());
            part.call = part.end.call.map(|number| CallName { number, object });
        }
        self.parts.sort_by(|a, b| a.mean_ns.largest_first(&b.mean_ns).then_with(|| a.end.cmp(&b.end)));
    }
}

impl<'a> PerGroup<Vec<Evidence<'a>>> {
    /// The call at a place.
    fn call(&self, CallPlace { is_asked, place }: CallPlace) -> Option<&Evidence<'a>> {
        (if is_asked { &self.asked } else { &self.usual }).get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cause with these mean times (selected and usual calls), ns a call, and these parts.
    fn cause(key: RowKey, (asked, usual): (f64, f64), parts: &[(f64, f64)]) -> CallCause {
        let part = |&(asked, usual): &(f64, f64)| CallCausePart {
            mean_ns: PerGroup { asked, usual },
            ..CallCausePart::default()
        };
        CallCause {
            key,
            example: (CallPlace { is_asked: true, place: 0 }, Row::default()),
            total_ns: PerGroup::default(),
            mean_ns: PerGroup { asked, usual },
            first_in: 0,
            parts: parts.iter().map(part).collect(),
            basis: BasisMix::default(),
            code: Code::default(),
        }
    }

    #[test]
    fn a_part_that_is_nine_tenths_stands_for_its_cause_and_small_parts_get_no_line() {
        let shown = |parts: &[f64]| {
            let parts: Vec<_> = parts.iter().map(|asked| (*asked, 0.0)).collect();
            cause(RowKey::Lock, (1000.0, 900.0), &parts).shown_parts()
        };
        assert_eq!(shown(&[50.0, 900.0]), ShownParts::Whole(1));
        assert_eq!(shown(&[899.0, 50.0, 49.0]), ShownParts::Several(vec![0, 1]));
        assert_eq!(shown(&[200.0, 200.0, 49.0, 200.0, 200.0, 200.0]), ShownParts::Several(vec![0, 1, 3, 4]));
        assert_eq!(shown(&[]), ShownParts::Several(vec![]));
    }

    #[test]
    fn a_sentence_names_the_half_of_a_difference_and_two_quarters_of_what_others_did() {
        let told = |key: RowKey, parts: &[(f64, f64)]| cause(key, (1000.0, 200.0), parts).told_parts();
        // The difference is 800: its half is 400, its quarter 200.
        assert_eq!(told(RowKey::Lock, &[(500.0, 101.0), (500.0, 100.0), (450.0, 0.0)]), [1]);
        assert_eq!(told(RowKey::Lock, &[(399.0, 0.0)]), [0; 0]);
        let thread = RowKey::Thread(Comm::new(b"holder"), crate::EndedBy::Release);
        let parts = [(250.0, 0.0), (300.0, 101.0), (200.0, 0.0), (240.0, 0.0)];
        assert_eq!(told(thread, &parts), [0, 2]);
    }
}
