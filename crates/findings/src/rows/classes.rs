//! Groups a path's segments into classes with equal wording, so that nothing is spelled out twice: a path may have
//! millions of segments, and has hundreds of classes.

use std::borrow::Cow;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use indexmap::IndexMap;
use wakepath_critical_path::{Basis, Cause, Responsible, Segment, SegmentKind, Via, WaitId};
use wakepath_event::Comm;
use wakepath_loaded::{AttemptId, CallKey, SiteId};
use wakepath_wait_graph::ThreadIndex;

use crate::attempts::Attempts;
use crate::{EndedBy, Evidence};

/// The common properties of a class's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class {
    /// The segments' thread.
    pub thread: Option<ThreadIndex>,
    /// The thread's name then.
    pub comm: Comm,
    /// The kind of time.
    pub kind: SegmentKind,
    /// The responsible cause.
    pub responsible: Responsible,
    /// The thread's own system call.
    pub call: Option<CallKey>,
    /// The code site where the thread's own wait began, if known.
    pub site: Option<SiteId>,
    /// For a kernel thread's time, the enclosing wait of the user thread for which it worked, if any.
    pub user: Option<Waiter>,
    /// The system call of the nearest enclosing wait by an own thread, if any.
    pub own_call: Option<CallKey>,
    /// The code site where that wait began, if known.
    pub own_site: Option<SiteId>,
    /// The call failing before the wait, if a timer ended the wait, and the trying thread.
    pub attempt: Option<(AttemptId, ThreadIndex)>,
    /// In a call's time: the thread that ended the enclosing wait of the calling thread.
    pub ender: Option<Ender>,
    /// Whether the time lies in a wait for a garbage collection that samples show.
    pub collection: bool,
    /// The time's basis.
    pub basis: Basis,
}

/// The user thread that ended a wait of a call's own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ender {
    /// The thread.
    pub thread: ThreadIndex,
    /// The way it ended the wait.
    pub by: EndedBy,
    /// The system call in which the call's own thread waited.
    pub call: Option<CallKey>,
    /// The code site where that wait began, if known.
    pub site: Option<SiteId>,
}

/// A wait enclosing a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The waiting thread.
    pub thread: ThreadIndex,
    /// Its system call.
    pub call: Option<CallKey>,
    /// The code site where the wait began, if known.
    pub site: Option<SiteId>,
    /// The disk with the most time in the wait, if any; `Some(None)` if that disk is unknown.
    pub disk: Option<Option<u32>>,
}

/// The sums over a class's segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Time, ns.
    pub ns: u64,
    /// Stretches without another class in between.
    pub stretches: u64,
    /// Waits with their first segment in this class.
    pub waits: u64,
    /// Waits of the thread itself, whatever other wait they explain.
    pub own_waits: u64,
    /// The failed calls before these waits.
    pub tries: u64,
}

/// Sums by class. The same few classes follow each other millions of times, so the last eight are compared before
/// anything is hashed.
#[derive(Default)]
struct Sums {
    all: IndexMap<Class, Sum, RandomState>,
    recent: [usize; 8],
    next: usize,
}

impl Sums {
    fn entry(&mut self, class: &Class) -> &mut Sum {
        let is_it = |index: &&usize| self.all.get_index(**index).is_some_and(|(other, _)| other == class);
        let index = match self.recent.iter().find(is_it) {
            Some(index) => *index,
            None => {
                let entry = self.all.entry(*class);
                let index = entry.index();
                entry.or_default();
                self.recent[self.next % 8] = index;
                self.next += 1;
                index
            }
        };
        &mut self.all[index]
    }
}

/// All classes of a path, with their sums, in path order. `of_call`: the path is a call's, and classes hold the
/// enders of its waits.
pub fn classes(evidence: &Evidence<'_>, of_call: bool) -> impl Iterator<Item = (Class, Sum)> + use<> {
    let enclosed = Waits::new(evidence, of_call);
    let mut sums = Sums::default();
    let mut open_waits = OpenWaits::default();
    let mut attempts = Attempts::new(evidence);
    let mut before: Option<(Class, Enclosing)> = None;
    for (number, segment) in evidence.segments().enumerate() {
        let enclosing = around(&enclosed.enclosing, segment.parent);
        let attempt = attempts.before(segment);
        let whole = Class {
            attempt: attempt.map(|attempt| (attempt.id, attempt.by)),
            ..enclosed.class(number, segment, enclosing)
        };
        for (comm, from, to) in segment.names(evidence.recorded.graph()) {
            let class = Class { comm, ..whole };
            let sum = sums.entry(&class);
            sum.ns += to.since(from);
            let goes_on =
                before.is_some_and(|(last, was)| last == class && enclosed.are_alike(was, enclosing));
            sum.stretches += u64::from(!goes_on);
            before = Some((class, enclosing));
        }
        let Some((class, _)) = before else { continue };
        let sum = sums.entry(&class);
        let waits = class.call.is_some() || class.site.is_some() || class.kind == SegmentKind::BlockDevice;
        let begins = open_waits.enter(segment, waits);
        let begins = begins && !segment.goes_on;
        sum.own_waits += u64::from(begins);
        sum.tries += attempt.filter(|_| begins).map_or(0, |attempt| u64::from(attempt.tries));
        let outer = enclosing.outer.or(enclosing.user);
        let is_new = match outer.and_then(|outer| evidence.wait(outer)) {
            Some(wait) => open_waits.begins(wait.depth, wait.thread) && !wait.goes_on,
            None => begins,
        };
        sum.waits += u64::from(is_new);
    }
    sums.all.into_iter()
}

/// A path's segments, cut where their thread's name changes, each with its class.
pub fn classified<'a>(evidence: &'a Evidence<'a>) -> impl Iterator<Item = (Class, Cow<'a, Segment>)> {
    let enclosed = Waits::new(evidence, false);
    evidence.segments().enumerate().flat_map(move |(number, segment)| {
        let class = enclosed.class(number, segment, around(&enclosed.enclosing, segment.parent));
        segment.names(evidence.recorded.graph()).map(move |(comm, from, to)| {
            let segment = match (from, to) == (segment.from, segment.to) {
                true => Cow::Borrowed(segment),
                false => Cow::Owned(Segment { from, to, ..segment.clone() }),
            };
            (Class { comm, ..class }, segment)
        })
    })
}

/// The counted waits around a segment, by depth. A wait counts at its first segment alone, however many it has: its
/// thread does something else before its next wait begins.
#[derive(Default)]
struct OpenWaits(Vec<(u32, ThreadIndex)>);

impl OpenWaits {
    /// Goes on to a segment, in which its thread waits itself or not; true if a wait begins there.
    fn enter(&mut self, segment: &Segment, waits: bool) -> bool {
        // A packet in flight is no thread's time, and ends no wait.
        let Some(thread) = segment.thread else { return false };
        while self
            .0
            .pop_if(|(depth, _)| *depth > segment.depth || *depth == segment.depth && !waits)
            .is_some()
        {}
        waits && self.begins(segment.depth, thread)
    }

    /// Notes a wait of `thread` at this depth; true if it is new.
    fn begins(&mut self, depth: u32, thread: ThreadIndex) -> bool {
        match self.0.binary_search_by_key(&depth, |(depth, _)| *depth) {
            Ok(at) => std::mem::replace(&mut self.0[at].1, thread) != thread,
            Err(at) => {
                self.0.insert(at, (depth, thread));
                true
            }
        }
    }
}

/// The relevant waits around a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Enclosing {
    /// The nearest wait of a user thread; segments count for this wait, unless there is an `outer` wait.
    user: Option<WaitId>,
    /// The nearest wait of an own thread.
    own: Option<WaitId>,
    /// In a call's time, the wait of the call's own thread, if a user thread ended it.
    outer: Option<WaitId>,
    /// Whether one of the waits is for a garbage collection.
    collection: bool,
}

/// Each wait's meaning for the segments inside it.
struct Waits<'a> {
    evidence: &'a Evidence<'a>,
    is_kernel: HashMap<ThreadIndex, bool>,
    /// For each wait, the relevant waits around its explanation: itself, or others around it.
    enclosing: Vec<Enclosing>,
    waiters: Vec<Waiter>,
}

impl<'a> Waits<'a> {
    fn new(evidence: &'a Evidence<'a>, of_call: bool) -> Self {
        let waits = || evidence.waits();
        let mut whose = HashMap::new();
        let mut enclosing = Vec::with_capacity(waits().len());
        // A wait's parent comes before it.
        for (id, wait) in waits() {
            let (is_kernel, is_own) = *whose
                .entry(wait.thread)
                .or_insert_with(|| (evidence.thread(wait.thread).kernel, evidence.is_own(wait.thread)));
            let itself = Some(id);
            let Enclosing { user, own, outer, collection } = around(&enclosing, wait.parent);
            let is_outer = of_call
                && wait.parent.is_none()
                && wait.ended_by.is_some_and(|ender| !evidence.thread(ender).kernel);
            enclosing.push(Enclosing {
                user: if is_kernel { user } else { itself },
                own: if is_own { itself } else { own },
                outer: if is_outer { itself } else { outer },
                collection: collection || evidence.stacks.is_collection(id),
            });
        }
        let disks = disks(evidence, &enclosing);
        let waiters = waits()
            .zip(disks)
            .map(|((id, wait), disk)| Waiter {
                thread: wait.thread,
                call: evidence.recorded.wait_call_key(wait),
                site: evidence.stacks.wait_stack(id).and_then(|stack| stack.site),
                disk,
            })
            .collect();
        let is_kernel = whose.into_iter().map(|(thread, (is_kernel, _))| (thread, is_kernel)).collect();
        Self { evidence, is_kernel, enclosing, waiters }
    }

    fn waiter(&self, wait: Option<WaitId>) -> Option<&Waiter> {
        self.waiters.get(wait?.0 as usize)
    }

    /// Whether segments with the same class, in these waits, are a single stretch.
    fn are_alike(&self, one: Enclosing, other: Enclosing) -> bool {
        let alike = |one, other| one == other || self.waiter(one) == self.waiter(other);
        alike(one.user, other.user) && alike(one.own, other.own) && alike(one.outer, other.outer)
    }

    fn ender(&self, outer: WaitId) -> Option<Ender> {
        let wait = self.evidence.wait(outer)?;
        let by = match wait.via {
            Via::Lock => EndedBy::Release,
            Via::Packet => EndedBy::Packet,
            _ => EndedBy::WakeUp,
        };
        let waiter = self.waiter(Some(outer))?;
        Some(Ender { thread: wait.ended_by?, by, call: waiter.call, site: waiter.site })
    }

    /// A segment's class without a name.
    fn class(&self, number: usize, segment: &Segment, enclosing: Enclosing) -> Class {
        let is_kernel = segment.thread.is_some_and(|thread| match self.is_kernel.get(&thread) {
            Some(is_kernel) => *is_kernel,
            None => self.evidence.thread(thread).kernel,
        });
        Class {
            thread: segment.thread,
            comm: Comm::default(),
            kind: segment.kind,
            responsible: Responsible::from(&segment.cause),
            call: self.evidence.recorded.segment_call_key(segment),
            site: self.evidence.segment_site(number),
            user: self.waiter(enclosing.user).filter(|_| is_kernel).copied(),
            own_call: self.waiter(enclosing.own).and_then(|own| own.call),
            own_site: self.waiter(enclosing.own).and_then(|own| own.site),
            attempt: None,
            ender: enclosing.outer.and_then(|outer| self.ender(outer)),
            collection: enclosing.collection,
            basis: segment.basis,
        }
    }
}

/// The relevant waits around segments that explain the wait `parent`.
fn around(enclosing: &[Enclosing], parent: Option<WaitId>) -> Enclosing {
    parent.and_then(|wait| enclosing.get(wait.0 as usize)).copied().unwrap_or_default()
}

/// The disk with the most time in each user thread's wait.
fn disks(evidence: &Evidence<'_>, enclosing: &[Enclosing]) -> Vec<Option<Option<u32>>> {
    let mut times: HashMap<(usize, Option<u32>), u64> = HashMap::new();
    for segment in evidence.segments() {
        let wait = around(enclosing, segment.parent).user;
        if let (Some(wait), Cause::Block { request, .. }) = (wait, &segment.cause) {
            let device = request.as_ref().map(|request| request.device);
            *times.entry((wait.0 as usize, device)).or_default() += segment.to.since(segment.from);
        }
    }
    let mut most: Vec<Option<(u64, Option<u32>)>> = vec![None; enclosing.len()];
    for ((wait, device), ns) in times {
        let largest = most[wait].get_or_insert((ns, device));
        *largest = (*largest).max((ns, device));
    }
    most.into_iter().map(|largest| largest.map(|(_, device)| device)).collect()
}

#[cfg(test)]
mod tests {
    use wakepath_event::BlockRequest;

    use super::*;
    use crate::testing::{FUTEX, Story, call, disk};

    #[test]
    fn a_wait_counts_once_however_many_segments_it_has() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"own", 7);
        let child = story.thread(8, 7, b"child", 7);
        // Two equal waits, then a wait in another call.
        for number in [FUTEX, FUTEX, 7] {
            let wait = story.wait(20, own, None, call(number, 3), Via::Wakeup, child);
            story.then(10, child, Some(wait), SegmentKind::Throttled, Cause::None);
            story.then(10, child, Some(wait), SegmentKind::Throttled, Cause::None);
            story.then(1, own, None, SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let evidence = story.evidence();
        let waits = classes(&evidence, false).filter(|(class, _)| class.kind == SegmentKind::Throttled);
        let told: Vec<_> = waits.map(|(class, sum)| (class.kind, sum.ns, sum.stretches, sum.waits)).collect();
        assert_eq!(told, [(SegmentKind::Throttled, 40, 2, 2), (SegmentKind::Throttled, 20, 1, 1)]);
    }

    #[test]
    fn what_is_no_kernel_threads_is_classed_whoever_it_is_for() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"own", 7);
        let foreign = [story.thread(20, 1, b"one", 20), story.thread(21, 1, b"two", 21)];
        let server = story.thread(30, 1, b"server", 30);
        for waiter in [foreign[0], foreign[1], foreign[1]] {
            let outer = story.wait(10, own, None, call(FUTEX, 3), Via::Wakeup, waiter);
            let inner = story.wait(10, waiter, Some(outer), call(FUTEX, 4), Via::Wakeup, server);
            story.then(10, server, Some(inner), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let evidence = story.evidence();
        let told: Vec<_> = classes(&evidence, false).map(|(_, sum)| (sum.ns, sum.stretches)).collect();
        assert_eq!(told, [(30, 2)], "one class, two stretches: for one, then for two");
    }

    /// A request for this disk, or for an unknown disk.
    fn request(device: Option<u32>) -> Cause {
        let Cause::Block { request: Some(request), queued } = disk(false) else { unreachable!("a request") };
        let request = device.map(|device| Box::new(BlockRequest { device, ..*request }));
        Cause::Block { request, queued }
    }

    #[test]
    fn the_disk_of_a_wait_is_the_one_that_took_most_of_it() {
        const A: Option<u32> = Some(8 << 20);
        const B: Option<u32> = Some(8 << 20 | 16);
        for (what, times, most) in [
            ("the first", &[(A, 30), (B, 20)][..], Some(A)),
            ("the last", &[(A, 20), (B, 30)], Some(B)),
            ("in all, and not at once", &[(A, 20), (B, 30), (A, 20)], Some(A)),
            ("one that is not known", &[(A, 20), (None, 30)], Some(None)),
            ("one that is known beside one that is not", &[(None, 20), (B, 30)], Some(B)),
            ("the higher number of two alike, whatever their order", &[(B, 20), (A, 20)], Some(B)),
            ("the same the other way round", &[(A, 20), (B, 20)], Some(B)),
            ("none", &[], None),
        ] {
            let mut story = Story::default();
            let own = story.thread(7, 1, b"own", 7);
            let worker = story.thread(80, 2, b"kworker/0:1", 0);
            // The later wait has another disk.
            let wait = story.wait(100, own, None, call(75, 5), Via::Wakeup, worker);
            for &(device, ns) in times {
                story.then(ns, worker, Some(wait), SegmentKind::BlockDevice, request(device));
            }
            story.then(1, worker, Some(wait), SegmentKind::Running, Cause::None);
            let other = story.wait(100, own, None, call(74, 6), Via::Wakeup, worker);
            story.then(1000, worker, Some(other), SegmentKind::BlockDevice, request(Some(7)));
            story.then(2, worker, Some(other), SegmentKind::Running, Cause::None);
            let story = story.finish();
            let evidence = story.evidence();
            let ran = classes(&evidence, false).filter(|(class, _)| class.kind == SegmentKind::Running);
            let disks: Vec<_> =
                ran.map(|(class, sum)| (sum.ns, class.user.expect("a waiter").disk)).collect();
            assert_eq!(disks, [(1, most), (2, Some(Some(7)))], "{what}");
        }
    }
}
