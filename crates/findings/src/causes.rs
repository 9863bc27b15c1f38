//! The causes of many calls' time: what one group of calls waited for, a call, beside another group.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_critical_path::SegmentKind;
use wakepath_event::{Comm, Tid};
use wakepath_names::{CallName, Object};
use wakepath_wait_graph::ThreadIndex;

use crate::{CauseKey, Code, EndKey, Evidence, PerGroup, Row, RowKey, rows};

/// The time that a key took of the calls that were asked about, and of the usual ones.
#[derive(Debug)]
pub struct Cause<'a> {
    /// The cause.
    pub key: CauseKey,
    /// The call of which it took most, as an example, and the row there; with the processes and threads of all calls.
    pub example: (Evidence<'a>, Row),
    /// The time, ns a call.
    pub mean_ns: PerGroup<f64>,
    /// The number of calls that were asked about of which it took more than all else.
    pub first_in: u64,
    /// The parts of the time, by the end of the chain of waits, the largest difference first. They are less than the whole
    /// where no more is known.
    pub parts: Vec<CausePart>,
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
pub fn first_cause(call: &Evidence<'_>) -> Option<(CauseKey, Row)> {
    causes_of_call(call).into_iter().next()
}

/// A call's rows, its own running separate from that of others; the largest first.
fn causes_of_call(call: &Evidence<'_>) -> Vec<(CauseKey, Row)> {
    let caller = call.path.window.thread;
    let own = call.path.segments.iter();
    let own = own.filter(|s| s.kind == SegmentKind::Running && s.thread == Some(caller));
    let mut own_ns: u64 = own.map(|segment| segment.to.since(segment.from)).sum();
    let mut causes = Vec::new();
    for (key, mut row) in rows(call) {
        if key == RowKey::Running(call.subject().comm) {
            // Others may have its name.
            let own = Row { total_ns: own_ns.min(row.total_ns), ..row.clone() };
            own_ns -= own.total_ns;
            row.total_ns -= own.total_ns;
            if own.total_ns > 0 {
                causes.push((CauseKey::Caller, own));
            }
        }
        if row.total_ns > 0 {
            causes.push((CauseKey::Row(key), row));
        }
    }
    causes.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    causes
}

/// All causes: the one that makes the largest difference first. Together they are the groups' mean latencies.
pub fn causes<'a>(calls: &PerGroup<Vec<Evidence<'a>>>) -> Vec<Cause<'a>> {
    let mut causes: HashMap<CauseKey, CauseBuilder<'a>> = HashMap::new();
    for (group, is_asked) in [(&calls.asked, true), (&calls.usual, false)] {
        let calls = group.len().max(1) as f64;
        for call in group {
            for (place, (key, row)) in causes_of_call(call).into_iter().enumerate() {
                let builder =
                    causes.entry(key.clone()).or_insert_with(|| CauseBuilder::new(key, *call, &row));
                builder.add(call, &row, calls, is_asked);
                builder.cause.first_in += u64::from(is_asked && place == 0);
                if row.total_ns > builder.cause.example.1.total_ns {
                    builder.cause.example = (*call, row);
                }
            }
        }
    }
    let mut causes: Vec<_> = causes.into_values().map(CauseBuilder::finish).collect();
    causes.sort_by(|a, b| {
        b.mean_ns.difference().total_cmp(&a.mean_ns.difference()).then_with(|| a.key.cmp(&b.key))
    });
    causes
}

/// A cause while calls are added to it.
struct CauseBuilder<'a> {
    cause: Cause<'a>,
    parts: BTreeMap<EndKey, CausePart>,
    processes: BTreeSet<Tid>,
    threads: BTreeSet<ThreadIndex>,
}

impl<'a> CauseBuilder<'a> {
    fn new(key: CauseKey, call: Evidence<'a>, row: &Row) -> Self {
        let cause = Cause {
            key,
            example: (call, row.clone()),
            mean_ns: PerGroup::default(),
            first_in: 0,
            parts: Vec::new(),
            code: Code::default(),
        };
        Self { cause, parts: BTreeMap::new(), processes: BTreeSet::new(), threads: BTreeSet::new() }
    }

    fn add(&mut self, call: &Evidence<'_>, row: &Row, calls: f64, is_asked: bool) {
        let cause = &mut self.cause;
        *cause.mean_ns.of(is_asked) += row.total_ns as f64 / calls;
        self.processes.extend(&row.processes);
        self.threads.extend(&row.threads);
        // The row of a thread's own running says all about it.
        let ends = row.ends.iter().filter(|_| cause.key != CauseKey::Caller);
        for (key, end) in ends {
            let part = self.parts.entry(key.clone()).or_default();
            *part.mean_ns.of(is_asked) += end.ns as f64 / calls;
            if is_asked {
                // Two are enough to know that there is not only one.
                part.objects.extend(end.objects.iter().take(2).cloned());
                part.code.waited.add_sites(call.stacks, &end.sites);
            }
        }
        if !is_asked {
            return;
        }
        let caller = call.path.window.thread;
        let ran = |thread: ThreadIndex, comm: Comm| match &cause.key {
            CauseKey::Caller => thread == caller,
            CauseKey::Row(RowKey::Running(name)) => {
                *name == comm && thread != caller && row.threads.contains(&thread)
            }
            CauseKey::Row(RowKey::Process(..)) => row.threads.contains(&thread),
            CauseKey::Row(_) => false,
        };
        let is_process = matches!(cause.key, CauseKey::Row(RowKey::Process(..)));
        let running = self.parts.iter_mut().find(|(end, _)| end.runs()).map(|(_, part)| &mut part.code);
        let code = if is_process { running } else { Some(&mut cause.code) };
        if let Some(code) = code {
            let seen = call.sampled.iter().filter(|((thread, comm), _)| ran(*thread, *comm));
            seen.flat_map(|(_, places)| places)
                .for_each(|(place, count)| code.ran.add_samples(place, *count));
        }
        // Where the ends are those of others, these are the waits for them.
        if is_process || row.ends.is_empty() {
            cause.code.waited.add_sites(call.stacks, &row.sites);
        }
    }

    fn finish(self) -> Cause<'a> {
        let Self { mut cause, parts, processes, threads } = self;
        (cause.example.1.processes, cause.example.1.threads) = (processes, threads);
        cause.parts = parts
            .into_iter()
            .map(|(end, mut part)| {
                let mut objects = std::mem::take(&mut part.objects).into_iter();
                let object = objects.next().filter(|_| objects.next().is_none());
                let call = end.call.map(|number| CallName { number, object });
                CausePart { end, call, ..part }
            })
            .collect();
        cause.parts.sort_by(|a, b| {
            b.mean_ns.difference().total_cmp(&a.mean_ns.difference()).then_with(|| a.end.cmp(&b.end))
        });
        cause
    }
}
