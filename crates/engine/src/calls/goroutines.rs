//! The goroutines behind calls, and the goroutines that ended their waits.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Window;
use wakepath_goroutines::{GoWindow, GoroutineIndex, Goroutines, State};
use wakepath_joining::goroutines;
use wakepath_spans::{Operation, RequestIndex, SpanId, TraceId, Work};
use wakepath_symbols::Found;
use wakepath_wait_graph::ThreadIndex;

use crate::requests::goroutine::{ParkedBy, most, parked_by};
use crate::requests::{Parked, Places, SpanGoroutines, Traced};
use crate::{CodeNames, Recorded};

/// A goroutine that made others ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ender {
    /// Its number in its process.
    pub number: u64,
    /// Its first function; `None` if not recorded or in no file.
    pub function: Option<Found>,
    /// Its thread when it last did so.
    pub thread: ThreadIndex,
    /// The time at which it last did so.
    pub at: Stamp<Reference>,
    /// Its request during most of the ended time; `None` where not known.
    pub request: Option<EndersRequest>,
}

/// The request behind an [`Ender`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndersRequest {
    /// Its trace id.
    pub trace: TraceId,
    /// Its local root span.
    pub span: SpanId,
    /// Its operation.
    pub operation: Operation,
    /// The time ended by the goroutine during its work for this request, ns.
    pub total_ns: u64,
}

/// The goroutines behind calls; empty without recorded goroutine steps.
#[derive(Default)]
pub(super) struct CallGoroutines<'t> {
    pub(super) all: Goroutines,
    work: Option<(&'t Traced, Work<GoroutineIndex, Reference>)>,
}

impl<'t> CallGoroutines<'t> {
    /// The goroutines in a recording. Without a time of day, spans have no place in it.
    pub(super) fn new(recorded: &Recorded, traced: Option<&'t Traced>) -> Self {
        if recorded.survey.goroutines.is_empty() {
            return Self::default();
        }
        let placed = traced.and_then(|traced| Some((traced, Places::new(recorded, traced).ok()?)));
        let Some((traced, places)) = placed else {
            return Self { all: goroutines(recorded), work: None };
        };
        let spans = SpanGoroutines::new(recorded, traced, &places);
        let work = spans.work(traced, &places);
        Self { all: spans.all, work: Some((traced, work)) }
    }

    /// The window of a call's goroutine: the goroutine on the call's thread at its return.
    pub(super) fn of(&self, call: &Window) -> Option<GoWindow> {
        let Window { thread, from, to } = *call;
        let (.., goroutine) = self.all.on_thread(thread, to.minus(1), to).pop()?;
        Some(GoWindow { goroutine: goroutine?, from, to })
    }

    /// A goroutine's request just before a time.
    fn request(&self, goroutine: GoroutineIndex, at: Stamp<Reference>) -> Option<RequestIndex> {
        let (traced, work) = self.work.as_ref()?;
        let (_, _, span) = work.between(&goroutine, at.minus(1), at).pop()?;
        Some(traced.requests.containing(span?))
    }

    /// The time in which goroutines did not run, by the goroutine that ended it.
    pub(super) fn parked(
        &self,
        recorded: &Recorded,
        windows: &[GoWindow],
        names: &mut CodeNames<'_>,
    ) -> Vec<Parked<Ender>> {
        let running = |goroutine: GoroutineIndex, at: Stamp<Reference>| {
            let goroutine = self.all.get(goroutine);
            let interval = goroutine.intervals.get(goroutine.interval_after(at.minus(1)))?;
            if let State::Running(thread) = interval.state { Some((thread, at)) } else { None }
        };
        // A goroutine may do so in several threads: the last names it.
        let last: RefCell<HashMap<GoroutineIndex, (ThreadIndex, Stamp<Reference>)>> = RefCell::default();
        let parked = parked_by(recorded, &self.all, windows, |by, at| {
            last.borrow_mut().insert(by, running(by, at)?);
            Some((by, self.request(by, at)))
        });
        let last = last.into_inner();
        let mut ender = |by: BTreeMap<(GoroutineIndex, Option<RequestIndex>), u64>| {
            let mut of_goroutine: BTreeMap<GoroutineIndex, u64> = BTreeMap::new();
            by.iter().for_each(|((by, _), ns)| *of_goroutine.entry(*by).or_default() += ns);
            let (index, ns) = most(of_goroutine)?;
            let &(thread, at) = last.get(&index)?;
            let goroutine = self.all.get(index);
            let function =
                goroutine.began_in.and_then(|address| names.code_at(goroutine.process, at, address));
            let requests = by.into_iter().filter(|((by, _), _)| *by == index);
            let requests = requests.filter_map(|((_, request), ns)| Some((request?, ns))).collect();
            let request = self.work.as_ref().zip(most(requests));
            let request = request.map(|((traced, _), (request, total_ns))| EndersRequest {
                trace: traced.root(request).trace,
                span: traced.root(request).id,
                operation: traced.operation(request).clone(),
                total_ns,
            });
            Some((Ender { number: goroutine.number, function, thread, at, request }, ns))
        };
        let named = |ParkedBy { reason, total_ns, times, by }| Parked {
            reason,
            total_ns,
            times,
            ended_by: ender(by),
        };
        parked.into_iter().map(named).collect()
    }
}
