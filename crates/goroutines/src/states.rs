//! Goroutine states, from the recorded steps.

use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{GoStep, GoroutineStep, Tid};
use wakepath_wait_graph::{Graph, ThreadIndex};

/// A step with its time and its thread, as a survey keeps it.
pub type Step = (Stamp<Local>, Tid, GoroutineStep);

/// A time range in which no step was seen, from its beginning to its end.
pub type Unseen = (Stamp<Local>, Stamp<Local>);

/// A goroutine, by its place in [`Goroutines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoroutineIndex(pub u32);

/// A process, by its first thread.
pub type Process = ThreadIndex;

/// A goroutine and its states.
#[derive(Debug, Clone)]
pub struct Goroutine {
    /// The process.
    pub process: Process,
    /// The goroutine's number in its process.
    pub number: u64,
    /// The recorder's number for the program.
    pub program: u16,
    /// The goroutine that started this goroutine, if its first run was recorded.
    pub parent: Option<u64>,
    /// The address of the function in which the goroutine began, if its leaving a thread was recorded and the address could be read.
    pub began_in: Option<u64>,
    /// Whether the goroutine's end was recorded.
    pub ended: bool,
    /// The states, in order, without gap.
    pub intervals: Vec<Interval>,
    /// The goroutine's state from `since` on.
    open: State,
    since: Stamp<Reference>,
    /// The last step that proves the open state.
    proved: Stamp<Reference>,
}

/// A time range in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The state.
    pub state: State,
}

/// A goroutine's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// This thread runs the goroutine.
    Running(ThreadIndex),
    /// In a queue of Go's scheduler.
    Queued,
    /// Waiting.
    Parked(Park),
    /// Not known.
    Unknown,
}

/// A goroutine's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Park {
    /// The reason, by the program's number.
    pub reason: u8,
    /// The thread that had run the goroutine.
    pub thread: ThreadIndex,
    /// The park's end.
    pub end: ParkEnd,
}

/// A park's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParkEnd {
    /// This goroutine made the parked goroutine ready.
    By(GoroutineIndex),
    /// The scheduler made it ready, in this thread: a Go timer, or the garbage collector.
    Scheduler(ThreadIndex),
    /// This thread runs it, and nothing made it ready: the poller found its descriptor ready.
    Taken(ThreadIndex),
    /// The park had not ended when the recording did, or its end was not recorded.
    Unseen,
}

/// A goroutine's run on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadOf {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The goroutine.
    pub goroutine: GoroutineIndex,
}

/// All goroutines in a recording.
#[derive(Debug, Clone, Default)]
pub struct Goroutines {
    all: Vec<Goroutine>,
    by_number: HashMap<(Process, u64), GoroutineIndex>,
    by_thread: HashMap<ThreadIndex, Vec<ThreadOf>>,
    /// The first goroutine, per process, in which a span with these ids (trace id, span id) began.
    spans: BTreeMap<([u8; 16], [u8; 8], Process), GoroutineIndex>,
}

impl Goroutines {
    /// The goroutines that took these steps, given in time order. `unseen` has further time ranges in which steps are not known. `thread` finds a
    /// thread in the graph by its tid at a time.
    pub fn new(
        graph: &Graph,
        steps: &[Step],
        unseen: &[Unseen],
        thread: impl Fn(Tid, Stamp<Reference>) -> Option<ThreadIndex>,
    ) -> Self {
        let losses =
            graph.losses().all().iter().filter(|loss| loss.reported && !loss.records.is_evidence_alone());
        let unseen = unseen.iter().map(|(from, to)| (to.on_reference_host(), from.on_reference_host()));
        let mut losses: Vec<_> = losses.map(|loss| (loss.to, loss.from)).chain(unseen).collect();
        losses.sort_unstable();
        // For each loss, the earliest beginning among it and all losses that end later.
        for place in (1..losses.len()).rev() {
            losses[place - 1].1 = losses[place - 1].1.min(losses[place].1);
        }
        let mut builder = Builder { goroutines: Self::default(), running: HashMap::new(), losses };
        for (at, tid, step) in steps {
            let at = at.on_reference_host();
            let (Some(on), Some(process)) = (thread(*tid, at), thread(step.tgid, at)) else { continue };
            builder.step(at, on, process, step);
        }
        builder.finish(graph)
    }

    /// All goroutines.
    pub fn iter(&self) -> impl Iterator<Item = (GoroutineIndex, &Goroutine)> {
        (0..).map(GoroutineIndex).zip(&self.all)
    }

    /// A goroutine. Panics if the index belongs to other [`Goroutines`] with more.
    pub fn get(&self, index: GoroutineIndex) -> &Goroutine {
        &self.all[index.0 as usize]
    }

    /// The goroutine with this number in a process.
    pub fn with_number(&self, process: Process, number: u64) -> Option<GoroutineIndex> {
        self.by_number.get(&(process, number)).copied()
    }

    /// The goroutines in which a span with these ids (trace id, span id) began, the first in each process: processes may give the same ids.
    pub fn with_span(
        &self,
        trace: [u8; 16],
        span: [u8; 8],
    ) -> impl Iterator<Item = (Process, GoroutineIndex)> {
        let all = (trace, span, ThreadIndex(0))..=(trace, span, ThreadIndex(u32::MAX));
        self.spans.range(all).map(|(&(.., process), &goroutine)| (process, goroutine))
    }

    /// The goroutines that a thread ran between `from` and `to`, piece by piece, without gap or overlap; `None` if it is not known to have run any.
    pub fn on_thread(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Vec<(Stamp<Reference>, Stamp<Reference>, Option<GoroutineIndex>)> {
        let runs = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = runs.partition_point(|run| run.to <= from);
        let (mut at, mut pieces) = (from, Vec::new());
        for run in runs[first..].iter().take_while(|run| run.from < to) {
            if at < run.from {
                pieces.push((at, run.from, None));
                at = run.from;
            }
            let until = run.to.min(to);
            if at < until {
                pieces.push((at, until, Some(run.goroutine)));
                at = until;
            }
        }
        if at < to {
            pieces.push((at, to, None));
        }
        pieces
    }
}

impl Goroutine {
    /// The first interval that ends after `at`, by its place.
    pub fn interval_after(&self, at: Stamp<Reference>) -> usize {
        self.intervals.partition_point(|interval| interval.to <= at)
    }
}

struct Builder {
    goroutines: Goroutines,
    /// Each thread's running goroutine.
    running: HashMap<ThreadIndex, GoroutineIndex>,
    /// Each loss's end, and the earliest beginning among it and all later losses; in order.
    losses: Vec<(Stamp<Reference>, Stamp<Reference>)>,
}

impl Builder {
    fn step(&mut self, at: Stamp<Reference>, on: ThreadIndex, process: Process, step: &GoroutineStep) {
        // An unreadable goroutine may be the thread's running goroutine, or another: its state and the
        // thread's are not known.
        if step.goroutine == 0 {
            if !matches!(step.step, GoStep::Ready(_)) {
                self.leaves_unseen(on, at);
            }
            return;
        }
        let index = self.index(process, step, at);
        let began_in = &mut self.goroutines.all[index.0 as usize].began_in;
        *began_in = began_in.or((step.began_in != 0).then_some(step.began_in));
        match step.step {
            GoStep::Parks(reason) => {
                self.proves_run(index, on, at);
                self.running.remove(&on);
                let park = Park { reason, thread: on, end: ParkEnd::Unseen };
                self.enter(index, State::Parked(park), at);
            }
            GoStep::Yields => {
                self.proves_run(index, on, at);
                self.running.remove(&on);
                self.enter(index, State::Queued, at);
            }
            GoStep::Ends => {
                self.proves_run(index, on, at);
                self.running.remove(&on);
                self.enter(index, State::Unknown, at);
                self.goroutines.all[index.0 as usize].ended = true;
            }
            GoStep::Ready(by) => {
                let by = (by != 0).then(|| self.numbered(process, by, step.program, at));
                if let Some(by) = by {
                    self.proves_run(by, on, at);
                }
                let goroutine = &mut self.goroutines.all[index.0 as usize];
                match goroutine.open {
                    State::Parked(_) => {}
                    // The runtime briefly suspends a goroutine to look at its stack.
                    State::Queued => return goroutine.prove(at, &self.losses),
                    State::Running(_) | State::Unknown => self.close_unknown(index, at),
                }
                let end = by.map_or(ParkEnd::Scheduler(on), ParkEnd::By);
                self.end_park(index, end);
                self.enter(index, State::Queued, at);
            }
            GoStep::Runs(parent) => {
                let goroutine = &mut self.goroutines.all[index.0 as usize];
                goroutine.parent = goroutine.parent.or((parent != 0).then_some(parent));
                if matches!(goroutine.open, State::Running(_)) {
                    self.close_unknown(index, at);
                }
                self.leaves_unseen(on, at);
                self.end_park(index, ParkEnd::Taken(on));
                self.enter(index, State::Running(on), at);
                self.running.insert(on, index);
            }
            GoStep::BeginsSpan(trace, span) => {
                self.proves_run(index, on, at);
                self.goroutines.spans.entry((trace, span, process)).or_insert(index);
            }
        }
    }

    fn index(&mut self, process: Process, step: &GoroutineStep, at: Stamp<Reference>) -> GoroutineIndex {
        self.numbered(process, step.goroutine, step.program, at)
    }

    fn numbered(
        &mut self,
        process: Process,
        number: u64,
        program: u16,
        at: Stamp<Reference>,
    ) -> GoroutineIndex {
        let Goroutines { all, by_number, .. } = &mut self.goroutines;
        *by_number.entry((process, number)).or_insert_with(|| {
            all.push(Goroutine {
                process,
                number,
                program,
                parent: None,
                began_in: None,
                ended: false,
                intervals: Vec::new(),
                open: State::Unknown,
                since: at,
                proved: at,
            });
            GoroutineIndex(all.len() as u32 - 1)
        })
    }

    /// A step shows that a thread runs a goroutine. If it was not known to run there, its state until then is
    /// unknown.
    fn proves_run(&mut self, index: GoroutineIndex, on: ThreadIndex, at: Stamp<Reference>) {
        if self.goroutines.all[index.0 as usize].open == State::Running(on) {
            self.goroutines.all[index.0 as usize].prove(at, &self.losses);
            return;
        }
        self.close_unknown(index, at);
        self.leaves_unseen(on, at);
        self.enter(index, State::Running(on), at);
        self.running.insert(on, index);
    }

    /// The thread no longer runs its goroutine, if any: the time at which it left is not known.
    fn leaves_unseen(&mut self, on: ThreadIndex, at: Stamp<Reference>) {
        if let Some(index) = self.running.remove(&on) {
            self.close_unknown(index, at);
        }
    }

    fn end_park(&mut self, index: GoroutineIndex, end: ParkEnd) {
        if let State::Parked(park) = &mut self.goroutines.all[index.0 as usize].open {
            park.end = end;
        }
    }

    /// From the last step that proves its state on, a goroutine's state is not known.
    fn close_unknown(&mut self, index: GoroutineIndex, at: Stamp<Reference>) {
        let goroutine = &mut self.goroutines.all[index.0 as usize];
        let proved = goroutine.proved;
        if let State::Running(on) = goroutine.open
            && self.running.get(&on) == Some(&index)
        {
            self.running.remove(&on);
        }
        goroutine.close(proved, &self.losses);
        goroutine.open = State::Unknown;
        goroutine.close(at, &self.losses);
    }

    fn enter(&mut self, index: GoroutineIndex, state: State, at: Stamp<Reference>) {
        let goroutine = &mut self.goroutines.all[index.0 as usize];
        goroutine.close(at, &self.losses);
        goroutine.open = state;
    }

    fn finish(mut self, graph: &Graph) -> Goroutines {
        let end = graph.to();
        for goroutine in &mut self.goroutines.all {
            if !goroutine.ended {
                goroutine.close(end.max(goroutine.since), &self.losses);
            }
        }
        let Goroutines { all, by_thread, .. } = &mut self.goroutines;
        for (index, goroutine) in (0..).map(GoroutineIndex).zip(all.iter()) {
            for Interval { from, to, state } in &goroutine.intervals {
                if let State::Running(thread) = state {
                    let run = ThreadOf { from: *from, to: *to, goroutine: index };
                    by_thread.entry(*thread).or_default().push(run);
                }
            }
        }
        for runs in by_thread.values_mut() {
            runs.sort_by_key(|run| (run.from, run.to));
        }
        self.goroutines
    }
}

impl Goroutine {
    /// Ends the open state at a step that proves it. From a loss since the last such step on, the state is
    /// not known.
    fn close(&mut self, at: Stamp<Reference>, losses: &[(Stamp<Reference>, Stamp<Reference>)]) {
        let lost = lost_since(losses, self.proved, at).filter(|_| self.open != State::Unknown);
        if let Some(lost) = lost {
            let lost = lost.max(self.since);
            let known = match self.open {
                // Its end may belong to another park.
                State::Parked(park) => State::Parked(Park { end: ParkEnd::Unseen, ..park }),
                state => state,
            };
            self.push(lost, known);
            self.push(at, State::Unknown);
        } else {
            self.push(at, self.open);
        }
        self.proved = at;
    }

    fn prove(&mut self, at: Stamp<Reference>, losses: &[(Stamp<Reference>, Stamp<Reference>)]) {
        if lost_since(losses, self.proved, at).is_some() {
            self.close(at, losses);
        }
        self.proved = at;
    }

    fn push(&mut self, to: Stamp<Reference>, state: State) {
        if self.since < to {
            match self.intervals.last_mut() {
                Some(last) if last.to == self.since && last.state == state => last.to = to,
                _ => self.intervals.push(Interval { from: self.since, to, state }),
            }
            self.since = to;
        }
    }
}

/// The beginning of the first loss that ends after `from` and begins before `to`, but no earlier than `from`.
fn lost_since(
    losses: &[(Stamp<Reference>, Stamp<Reference>)],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<Stamp<Reference>> {
    let next = losses.partition_point(|(end, _)| *end <= from);
    let &(_, begin) = losses.get(next)?;
    (begin < to).then(|| begin.max(from))
}

#[cfg(test)]
mod tests;
