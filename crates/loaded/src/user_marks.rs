//! Programs' own marks, and the stretches between them.
//!
//! Two marks of a thread enclose a *state* if their names differ by a last word that begins or ends something: `shop:order_begin` and `shop:order_end` enclose
//! `shop:order`. States nest. Fields called `id`, or with a name in `_id`, must agree where both marks have them: a thread may
//! work for several requests by turns. Each other stretch lies between a thread's successive marks with a common name.
//!
//! Lost marks leave a stretch unmeasured: its end may be another's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{Cpu, Tid, UserMark};
use wakepath_wait_graph::{Occupant, ThreadIndex};

use crate::Recorded;

/// The last words in names: each beginning, with its ends.
const PAIRS: [(&str, &[&str]); 5] = [
    ("begin", &["end"]),
    ("start", &["end", "stop"]),
    ("entry", &["exit"]),
    ("enter", &["exit", "leave"]),
    // `lttng_ust_pthread:pthread_mutex_lock_req`: a wait for a mutex.
    ("req", &["acq"]),
];

/// All programs' marks in a recording, in time order, and the losses among them.
#[derive(Debug, Clone, Default)]
pub struct UserMarks {
    /// The marks: time, the buffer's CPU, mark.
    pub marks: Vec<(Stamp<Local>, Cpu, UserMark)>,
    /// The times in which marks may be lost: after the first stamp, before the second.
    pub losses: Vec<(Stamp<Local>, Stamp<Local>)>,
}

impl UserMarks {
    /// Adds the next mark. A stamp that goes back in time counts as the previous stamp.
    pub fn push(&mut self, at: Stamp<Local>, cpu: Cpu, mut mark: UserMark) {
        let at = self.marks.last().map_or(at, |&(last, ..)| last.max(at));
        // Only ids are needed: all marks stay in memory.
        if mark.fields.iter().any(|(name, _)| !is_id(name)) {
            mark.fields = mark.fields.into_iter().filter(|(name, _)| is_id(name)).collect();
        }
        self.marks.push((at, cpu, mark));
    }

    /// Adds a loss.
    pub fn lose(&mut self, from: Stamp<Local>, to: Stamp<Local>) {
        self.losses.push((from.min(to), to));
    }
}

/// A stretch's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StretchKind {
    /// Between a state's first and last mark.
    State,
    /// Between two successive marks with the same name.
    Interval,
}

/// A stretch's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StretchEnd {
    /// Measured: both marks were seen, and none between them was lost.
    Seen,
    /// It had not ended when the recording did.
    Open,
    /// Not measured: the first mark was not seen, or marks between were lost.
    Unseen,
}

/// A stretch between a thread's marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The index in [`Stretches::names`].
    pub name: usize,
    /// The thread, if the kernel's trace proves which it is.
    pub thread: Option<ThreadIndex>,
    /// The first mark's time, if seen.
    pub from: Option<Stamp<Reference>>,
    /// The last mark's time; the first mark's for an open stretch.
    pub to: Stamp<Reference>,
    /// Its end.
    pub end: StretchEnd,
}

/// All stretches in a recording.
#[derive(Debug, Clone, Default)]
pub struct Stretches {
    /// The names, in order.
    pub names: Vec<(String, StretchKind)>,
    /// By their last marks; open stretches come last.
    pub all: Vec<Stretch>,
    /// The marks without a noted thread.
    pub threadless: u64,
    /// The marks whose thread is not known in the recording.
    pub unplaced: u64,
}

/// A program's thread, by the ids in its marks.
type Key = (Option<Tid>, Tid);

/// A mark's meaning, by its name.
#[derive(Debug, Clone, Copy, Default)]
struct Role {
    interval: usize,
    begins: Option<usize>,
    ends: Option<usize>,
}

/// The marks' names and their meaning.
#[derive(Default)]
struct Roles {
    names: Vec<(String, StretchKind)>,
    by_name: HashMap<Arc<str>, Role>,
}

impl Roles {
    fn new(marks: &UserMarks) -> Self {
        let mut seen: BTreeMap<Arc<str>, Role> = BTreeMap::new();
        for (.., mark) in &marks.marks {
            seen.entry(mark.name.clone()).or_default();
        }
        let word = |name: &Arc<str>| {
            name.rsplit_once(['_', ':']).map(|(stem, word)| (stem.to_owned(), word.to_owned()))
        };
        let mut states: BTreeMap<String, [Vec<Arc<str>>; 2]> = BTreeMap::new();
        for begin in seen.keys() {
            let Some((stem, first)) = word(begin) else { continue };
            let Some((_, last)) = PAIRS.iter().find(|(word, _)| *word == first) else { continue };
            for end in seen.keys() {
                if word(end).is_some_and(|(other, word)| other == stem && last.contains(&word.as_str())) {
                    let [begins, ends] = states.entry(stem.clone()).or_default();
                    begins.push(begin.clone());
                    ends.push(end.clone());
                }
            }
        }
        let intervals = seen.keys().map(|name| (name.to_string(), StretchKind::Interval));
        let mut names: Vec<_> =
            intervals.chain(states.keys().map(|stem| (stem.clone(), StretchKind::State))).collect();
        names.sort();
        let index = |name: &str, kind| names.iter().position(|(other, of)| other == name && *of == kind);
        for (name, role) in &mut seen {
            role.interval = index(name, StretchKind::Interval).unwrap_or(0);
        }
        for (stem, [begins, ends]) in states {
            let state = index(&stem, StretchKind::State);
            for (name, role) in &mut seen {
                role.begins = role.begins.or(state.filter(|_| begins.contains(name)));
                role.ends = role.ends.or(state.filter(|_| ends.contains(name)));
            }
        }
        Self { names, by_name: seen.into_iter().collect() }
    }
}

/// Whether a field says which work a mark belongs to.
fn is_id(name: &str) -> bool {
    name == "id" || name.ends_with("_id")
}

/// Whether two marks may enclose the same work: no id in both differs.
fn is_same_work(begin: &UserMark, end: &UserMark) -> bool {
    begin.fields.iter().filter(|(name, _)| is_id(name)).all(|(name, value)| {
        end.fields.iter().find(|(other, _)| other == name).is_none_or(|(_, other)| other == value)
    })
}

/// The times with losses, in order, without overlaps.
struct Losses(Vec<(Stamp<Local>, Stamp<Local>)>);

impl Losses {
    fn new(marks: &UserMarks) -> Self {
        let mut losses = marks.losses.clone();
        losses.sort_unstable();
        let mut merged: Vec<(Stamp<Local>, Stamp<Local>)> = Vec::new();
        for (from, to) in losses {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// Whether a mark between these two may be lost.
    fn within(&self, from: Stamp<Local>, to: Stamp<Local>) -> bool {
        let next = self.0.partition_point(|&(_, end)| end <= from);
        self.0.get(next).is_some_and(|&(begin, _)| begin < to)
    }
}

impl Stretches {
    /// Pairs a recording's marks.
    pub fn new(recorded: &Recorded) -> Self {
        let marks = &recorded.survey.user_marks;
        let (roles, losses) = (Roles::new(marks), Losses::new(marks));
        let (threads, unplaced) = threads(recorded);
        let mut found = Self { names: roles.names, unplaced, ..Self::default() };
        let mut open: HashMap<(Key, usize), Vec<usize>> = HashMap::new();
        let mut last: HashMap<(Key, usize), usize> = HashMap::new();
        let stretch = |name, from: Option<usize>, to: usize, end| {
            let at = |mark: usize| marks.marks[mark].0.on_reference_host();
            let thread = threads[from.unwrap_or(to)];
            Stretch { name, thread, from: from.map(at), to: at(to), end }
        };
        let measured = |from: usize, to: Stamp<Local>, end| match losses.within(marks.marks[from].0, to) {
            true => StretchEnd::Unseen,
            false => end,
        };
        for (index, (at, _, mark)) in marks.marks.iter().enumerate() {
            let Some(thread) = mark.thread else {
                found.threadless += 1;
                continue;
            };
            let Some(role) = roles.by_name.get(&mark.name) else { continue };
            let key = (mark.process, thread);
            if let Some(before) = last.insert((key, role.interval), index) {
                let end = measured(before, *at, StretchEnd::Seen);
                found.all.push(stretch(role.interval, Some(before), index, end));
            }
            if let Some(state) = role.ends {
                let begun = open.entry((key, state)).or_default();
                let pair = begun.iter().rposition(|&begin| is_same_work(&marks.marks[begin].2, mark));
                let begin = pair.map(|place| begun.remove(place));
                let end = begin.map_or(StretchEnd::Unseen, |begin| measured(begin, *at, StretchEnd::Seen));
                found.all.push(stretch(state, begin, index, end));
            }
            if let Some(state) = role.begins {
                open.entry((key, state)).or_default().push(index);
            }
        }
        let mut left: Vec<_> = open
            .into_iter()
            .flat_map(|((_, state), begun)| begun.into_iter().map(move |begin| (begin, state)))
            .collect();
        left.sort_unstable();
        let end =
            marks.marks.last().map_or(Stamp::MAX, |&(at, ..)| at.max(Stamp::from_ns(recorded.to().ns())));
        for (begin, state) in left {
            found.all.push(stretch(state, Some(begin), begin, measured(begin, end, StretchEnd::Open)));
        }
        found
    }

    /// Whether there are marks at all.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Each mark's thread, and the number of marks without a known thread. A mark has ids in its process's pid namespace, which other processes may
/// have too: the thread must live then. The thread on the mark's CPU proves it; if most marks by a thread contradict, none
/// is believed.
fn threads(recorded: &Recorded) -> (Vec<Option<ThreadIndex>>, u64) {
    let graph = &recorded.graph;
    let mut by_number: HashMap<Tid, Vec<ThreadIndex>> = HashMap::new();
    for (index, thread) in graph.threads() {
        let mut numbers: Vec<_> = match &thread.identity {
            Some(identity) => vec![identity.ns_tid],
            None => thread.tids.iter().map(|&(_, tid)| tid).collect(),
        };
        numbers.dedup();
        for number in numbers {
            by_number.entry(number).or_default().push(index);
        }
    }
    let mut votes: HashMap<Key, (u64, u64)> = HashMap::new();
    let mut found = Vec::with_capacity(recorded.survey.user_marks.marks.len());
    for (at, cpu, mark) in &recorded.survey.user_marks.marks {
        let Some(number) = mark.thread else {
            found.push(None);
            continue;
        };
        let at = at.on_reference_host();
        let within = at.max(graph.from()).min(graph.to());
        let lives = |&&index: &&ThreadIndex| {
            let thread = graph.thread(index);
            let process = thread.identity.as_ref().filter(|identity| identity.ns_tid == identity.tid);
            thread.first <= within
                && within <= thread.last
                && process.zip(mark.process).is_none_or(|(identity, process)| identity.tgid == process)
        };
        let living: Vec<_> = by_number.get(&number).into_iter().flatten().filter(lives).copied().collect();
        let occupant = graph.occupancies(*cpu, at, at.plus(1)).next().map(|found| found.occupant);
        let (agree, contradict) = votes.entry((mark.process, number)).or_default();
        found.push(match occupant {
            Some(Occupant::Thread(thread)) if living.contains(&thread) => {
                *agree += 1;
                Some(thread)
            }
            other => {
                *contradict += u64::from(matches!(other, Some(Occupant::Thread(_) | Occupant::Idle)));
                if let [only] = living[..] { Some(only) } else { None }
            }
        });
    }
    let mut unplaced = 0;
    for (thread, (.., mark)) in found.iter_mut().zip(&recorded.survey.user_marks.marks) {
        let Some(number) = mark.thread else { continue };
        if votes.get(&(mark.process, number)).is_some_and(|(agree, contradict)| contradict > agree) {
            *thread = None;
        }
        unplaced += u64::from(thread.is_none());
    }
    (found, unplaced)
}

#[cfg(test)]
mod tests;
