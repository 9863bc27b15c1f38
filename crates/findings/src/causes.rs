//! The causes of many calls' time: what one group of calls waited for, a call, beside another group.

use std::collections::{BTreeSet, HashMap};

use wakepath_critical_path::SegmentKind;
use wakepath_event::Comm;
use wakepath_names::{CallName, Object};
use wakepath_wait_graph::ThreadIndex;

use crate::rows::rows_of_call;
use crate::{BasisMix, Code, EndKey, Evidence, PerGroup, Row, RowKey};

/// The time that a key took of the calls that were asked about, and of the usual ones.
#[derive(Debug)]
pub struct Cause<'a> {
    /// The cause.
    pub key: RowKey,
    /// The call of which it took most, as an example, and the row there; with the processes and threads of all calls.
    pub example: (Evidence<'a>, Row),
    /// The time, ns a call.
    pub mean_ns: PerGroup<f64>,
    /// The number of calls that were asked about of which it took more than all else.
    pub first_in: u64,
    /// The parts of the time, by the end of the chain of waits, the largest difference first. They are less than the whole
    /// where no more is known.
    pub parts: Vec<CausePart>,
    /// How much of the time in the calls that were asked about is known how well, ns in all.
    pub basis: BasisMix,
    /// Where the threads of the calls' own process ran, or waited for it.
    pub code: Code,
}

/// A part of a cause.
#[derive(Debug, Default)]
pub struct CausePart {
    /// The end of the chain.
    pub end: EndKey,
    /// The system call, with its object where all calls had the same.
    pub call: Option<CallName>,
    /// The time, ns a call.
    pub mean_ns: PerGroup<f64>,
    /// Where that was, in the calls that were asked about.
    pub code: Code,
    objects: BTreeSet<Object>,
}

/// The cause that took most of one call.
pub fn first_cause(call: &Evidence<'_>) -> Option<(RowKey, Row)> {
    causes_of_call(call).into_iter().next()
}

/// A call's rows, its own running separate from that of others; the largest first.
fn causes_of_call(call: &Evidence<'_>) -> Vec<(RowKey, Row)> {
    let caller = call.path.window.thread;
    let own = call.segments();
    let own = own.filter(|s| s.kind == SegmentKind::Running && s.thread == Some(caller));
    let mut own_ns: u64 = own.map(|segment| segment.to.since(segment.from)).sum();
    let mut causes = Vec::new();
    for (key, mut row) in rows_of_call(call) {
        if key == RowKey::Running(call.subject().comm) {
            // Others may have its name.
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

/// All causes: the one that makes the largest difference first. Together they are the groups' mean latencies.
pub fn causes<'a>(calls: &PerGroup<Vec<Evidence<'a>>>) -> Vec<Cause<'a>> {
    let mut causes: HashMap<RowKey, Cause<'a>> = HashMap::new();
    for (group, is_asked) in [(&calls.asked, true), (&calls.usual, false)] {
        let calls = group.len().max(1) as f64;
        for call in group {
            for (place, (key, row)) in causes_of_call(call).into_iter().enumerate() {
                let cause = causes.entry(key.clone()).or_insert_with(|| Cause {
                    key,
                    example: (*call, Row::default()),
                    mean_ns: PerGroup::default(),
                    first_in: 0,
                    parts: Vec::new(),
                    basis: BasisMix::default(),
                    code: Code::default(),
                });
                cause.first_in += u64::from(is_asked && place == 0);
                cause.add_times(call, &row, calls, is_asked);
                if is_asked {
                    cause.basis.add_mix(row.basis);
                    cause.add_code(call, &row);
                }
                cause.add_example(*call, row);
            }
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    causes.iter_mut().for_each(Cause::finish);
    causes.sort_by(|a, b| a.mean_ns.largest_first(&b.mean_ns).then_with(|| a.key.cmp(&b.key)));
    causes
}

impl<'a> Cause<'a> {
    fn add_times(&mut self, call: &Evidence<'_>, row: &Row, calls: f64, is_asked: bool) {
        *self.mean_ns.of(is_asked) += row.total_ns as f64 / calls;
        // The row of a thread's own running says all about it.
        let ends = row.ends.iter().filter(|_| self.key != RowKey::Caller);
        for (key, end) in ends {
            let known = self.parts.iter().position(|part| part.end == *key);
            let at = known.unwrap_or_else(|| {
                self.parts.push(CausePart { end: key.clone(), ..CausePart::default() });
                self.parts.len() - 1
            });
            let part = &mut self.parts[at];
            *part.mean_ns.of(is_asked) += end.ns as f64 / calls;
            if is_asked {
                // Two are enough to know that there is not only one.
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
                // The thread's own part, else that of the threads that the key names.
                let its = running.filter(|part| part.end.thread.is_none_or(|name| name == comm));
                its.max_by_key(|part| part.end.thread.is_some()).map(|part| &mut part.code)
            } else {
                Some(&mut self.code)
            };
            code.into_iter().for_each(|code| code.ran.add(site, count));
        }
        // Where the ends are those of others, these are the waits for them.
        if is_of_others || row.ends.is_empty() {
            self.code.waited.add_sites(call.stacks, &row.sites);
        }
    }

    fn add_example(&mut self, call: Evidence<'a>, mut row: Row) {
        let (largest, example) = &mut self.example;
        let is_same = largest.recorded.numbers_threads_like(call.recorded);
        if row.total_ns > example.total_ns {
            *largest = call;
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
