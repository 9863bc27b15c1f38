//! Calls put together: what a group of them waited for, a call, beside what another group did.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_critical_path::SegmentKind;
use wakepath_engine::{Comm, Group, PathAnswer, Tid};
use wakepath_wait_graph::ThreadIndex;

use crate::places::Tally;
use crate::rows::{End, Party, Row, rows};

/// Who took time of calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Taker {
    /// The thread that made the call, by running: calls are made by threads of many names.
    Itself,
    /// Somebody or something else.
    Party(Party),
}

/// What one call waited for most, or did.
pub fn first(answer: &PathAnswer<'_>) -> Option<(Taker, Row)> {
    takers(answer).into_iter().next()
}

/// A call's rows, its own running apart from that of others; the largest first.
fn takers(answer: &PathAnswer<'_>) -> Vec<(Taker, Row)> {
    let subject = answer.subject().comm;
    let own = answer.path.segments.iter();
    let own = own.filter(|s| s.kind == SegmentKind::Running && s.thread == Some(answer.path.window.thread));
    let mut own_ns: u64 = own.map(|segment| segment.to.since(segment.from)).sum();
    let mut takers = Vec::new();
    for (party, mut row) in rows(answer) {
        if party == Party::Running(subject) {
            // Others may have its name.
            let itself = Row { total_ns: own_ns.min(row.total_ns), ..row.clone() };
            own_ns -= itself.total_ns;
            row.total_ns -= itself.total_ns;
            if itself.total_ns > 0 {
                takers.push((Taker::Itself, itself));
            }
        }
        if row.total_ns > 0 {
            takers.push((Taker::Party(party), row));
        }
    }
    takers.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    takers
}

/// What a party took of the calls that were asked about, and of the usual ones.
#[derive(Debug)]
pub struct Cause<'a> {
    /// Who.
    pub taker: Taker,
    /// The call in which it took most, and what it took there: an example, with all who took of any call.
    pub example: (&'a PathAnswer<'a>, Row),
    /// Its time in the calls that were asked about, ns a call.
    pub asked_ns: f64,
    /// Its time in the usual ones, ns a call.
    pub usual_ns: f64,
    /// In how many of the calls that were asked about it took more than all else.
    pub first_in: u64,
    /// What the time went to at the end of the chain, the largest difference first: what those were at who were
    /// waited for. Less than all of it where no more is known.
    pub parts: Vec<Part>,
    /// Where the threads of the calls' own process ran, or waited for it.
    pub code: Code,
}

/// A part of a cause.
#[derive(Debug, Default)]
pub struct Part {
    /// `waiting for disk sda`, `running`; nothing where the cause says it.
    pub what: String,
    /// The system call: `fdatasync of orders.db`.
    pub call: Option<String>,
    /// In the calls that were asked about, ns a call.
    pub asked_ns: f64,
    /// In the usual ones.
    pub usual_ns: f64,
    /// Where that was, in the calls that were asked about.
    pub code: Code,
    objects: BTreeSet<String>,
}

impl Part {
    /// By how much the calls that were asked about have more of it, ns a call.
    pub fn more(&self) -> f64 {
        self.asked_ns - self.usual_ns
    }

    /// `waiting for disk sda, in fdatasync of orders.db`.
    pub fn text(&self) -> String {
        match (self.what.as_str(), &self.call) {
            ("", Some(call)) => format!("in {call}"),
            (what, Some(call)) => format!("{what}, in {call}"),
            (what, None) => what.to_owned(),
        }
    }
}

/// Functions in which threads ran, or waited.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// By samples.
    pub ran: Tally,
    /// By the stacks of waits.
    pub waited: Tally,
}

impl Code {
    /// A line each.
    pub fn lines(&self) -> Vec<String> {
        self.ran.tell_samples().into_iter().chain(self.waited.tell("waits")).collect()
    }
}

/// All causes: what makes the largest difference first. Together they are the groups' mean latencies.
pub fn causes<'a>(asked: &'a Group<'a>, usual: Option<&'a Group<'a>>) -> Vec<Cause<'a>> {
    let mut causes: HashMap<Taker, Growing<'a>> = HashMap::new();
    for (group, is_asked) in [(Some(asked), true), (usual, false)] {
        let Some(group) = group else { continue };
        let calls = group.paths.len().max(1) as f64;
        for answer in &group.paths {
            for (place, (taker, row)) in takers(answer).into_iter().enumerate() {
                let growing =
                    causes.entry(taker.clone()).or_insert_with(|| Growing::new(taker, answer, &row));
                growing.add(answer, &row, calls, is_asked);
                growing.cause.first_in += u64::from(is_asked && place == 0);
                if row.total_ns > growing.cause.example.1.total_ns {
                    growing.cause.example = (answer, row);
                }
            }
        }
    }
    let mut causes: Vec<_> = causes.into_values().map(Growing::grown).collect();
    let more = |cause: &Cause<'_>| cause.asked_ns - cause.usual_ns;
    causes.sort_by(|a, b| more(b).total_cmp(&more(a)).then_with(|| a.taker.cmp(&b.taker)));
    causes
}

/// A cause while calls are added to it.
struct Growing<'a> {
    cause: Cause<'a>,
    parts: BTreeMap<End, Part>,
    processes: BTreeSet<Tid>,
    threads: BTreeSet<ThreadIndex>,
}

impl<'a> Growing<'a> {
    fn new(taker: Taker, answer: &'a PathAnswer<'a>, row: &Row) -> Self {
        let cause = Cause {
            taker,
            example: (answer, row.clone()),
            asked_ns: 0.0,
            usual_ns: 0.0,
            first_in: 0,
            parts: Vec::new(),
            code: Code::default(),
        };
        Self { cause, parts: BTreeMap::new(), processes: BTreeSet::new(), threads: BTreeSet::new() }
    }

    fn add(&mut self, answer: &PathAnswer<'_>, row: &Row, calls: f64, is_asked: bool) {
        let cause = &mut self.cause;
        *(if is_asked { &mut cause.asked_ns } else { &mut cause.usual_ns }) += row.total_ns as f64 / calls;
        self.processes.extend(&row.processes);
        self.threads.extend(&row.threads);
        // Of a thread's running its row says all.
        let ends = row.ends.iter().filter(|_| !matches!(cause.taker, Taker::Itself));
        for (end, spent) in ends {
            let part = self.parts.entry(end.clone()).or_default();
            *(if is_asked { &mut part.asked_ns } else { &mut part.usual_ns }) += spent.ns as f64 / calls;
            if !is_asked {
                continue;
            }
            part.objects.extend(spent.objects.iter().take(2).cloned());
            let sites = &spent.sites;
            sites.iter().for_each(|(site, count)| part.code.waited.waits(&answer.stacks, *site, *count));
        }
        if !is_asked {
            return;
        }
        let subject = answer.path.window.thread;
        let of_taker = |thread: ThreadIndex, comm: Comm| match &cause.taker {
            Taker::Itself => thread == subject,
            Taker::Party(Party::Running(called)) => {
                *called == comm && thread != subject && row.threads.contains(&thread)
            }
            Taker::Party(Party::Process(..)) => row.threads.contains(&thread),
            Taker::Party(_) => false,
        };
        let is_process = matches!(cause.taker, Taker::Party(Party::Process(..)));
        let running = self.parts.iter_mut().find(|(end, _)| end.runs).map(|(_, part)| &mut part.code);
        let code = if is_process { running } else { Some(&mut cause.code) };
        if let Some(code) = code {
            let ran = answer.sampled.iter().filter(|((thread, comm), _)| of_taker(*thread, *comm));
            ran.flat_map(|(_, places)| places).for_each(|(place, count)| code.ran.sample(place, *count));
        }
        // Where the ends are others', these are the waits for them.
        if is_process || row.ends.is_empty() {
            let sites = &row.sites;
            sites.iter().for_each(|(site, n)| cause.code.waited.waits(&answer.stacks, *site, *n));
        }
    }

    fn grown(self) -> Cause<'a> {
        let Self { mut cause, parts, processes, threads } = self;
        (cause.example.1.processes, cause.example.1.threads) = (processes, threads);
        cause.parts = parts
            .into_iter()
            .map(|(End { what, call, .. }, mut part)| {
                let mut objects = std::mem::take(&mut part.objects).into_iter();
                let only = objects.next().filter(|_| objects.next().is_none());
                let call = call.map(|call| only.map_or(call.clone(), |object| format!("{call} {object}")));
                Part { what, call, ..part }
            })
            .collect();
        cause.parts.sort_by(|a, b| b.more().total_cmp(&a.more()).then_with(|| a.text().cmp(&b.text())));
        cause
    }
}
