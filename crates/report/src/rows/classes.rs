//! A path's segments put into classes of what reads the same, so that nothing is spelled out twice:
//! a path may have millions of segments, and has hundreds of classes.

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use indexmap::IndexMap;
use wakepath_critical_path::{Basis, Cause, Responsible, Segment, SegmentKind, WaitId};
use wakepath_engine::{CallKey, PathAnswer, SiteId};
use wakepath_event::{Comm, Tid};
use wakepath_wait_graph::ThreadIndex;

/// What segments of one class have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class {
    /// Whose time.
    pub thread: Option<ThreadIndex>,
    /// What that thread was called then.
    pub comm: Comm,
    /// What it went to.
    pub kind: SegmentKind,
    /// Who is responsible.
    pub responsible: Responsible,
    /// The thread's own system call.
    pub call: Option<CallKey>,
    /// Where in the code the thread's own wait began, where that is known.
    pub site: Option<SiteId>,
    /// Of a kernel thread's time, on whose behalf it is: the wait around it that no kernel thread waited
    /// in, where there is one.
    pub user: Option<Waiter>,
    /// The system call of the wait around it that an own thread waited in, where there is one.
    pub own_call: Option<CallKey>,
    /// And where in the code that wait began, where that is known.
    pub own_site: Option<SiteId>,
    /// How well it is known.
    pub basis: Basis,
}

/// A wait around a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Who waited.
    pub thread: ThreadIndex,
    /// In which system call.
    pub call: Option<CallKey>,
    /// Where in the code it began, where that is known.
    pub site: Option<SiteId>,
    /// The disk that took most of the wait, if any did: `Some(None)` where nobody knows which.
    pub disk: Option<Option<u32>>,
}

/// What segments of one class sum up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Time, ns.
    pub ns: u64,
    /// Stretches without another class between.
    pub stretches: u64,
    /// Waits whose first segment is of this class.
    pub waits: u64,
    /// Waits of the thread itself, whatever other wait they explain.
    pub own_waits: u64,
}

/// Sums by class. The same few classes follow each other millions of times, so that the last ones are
/// looked at before anything is hashed.
#[derive(Default)]
struct Sums {
    all: IndexMap<Class, Sum, RandomState>,
    recent: [usize; 8],
    next: usize,
}

impl Sums {
    fn of(&mut self, class: &Class) -> &mut Sum {
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

/// All classes of a path, with their sums, in the order in which the path meets them.
pub fn classes(answer: &PathAnswer) -> impl Iterator<Item = (Class, Sum)> + use<> {
    let path = &answer.path;
    let waits = Waits::new(answer);
    let mut sums = Sums::default();
    let mut under_way = UnderWay::default();
    let mut before: Option<(Class, Around)> = None;
    for (number, segment) in path.segments.iter().enumerate() {
        let around = waits.around(segment);
        let class = waits.class(number, segment, around);
        let sum = sums.of(&class);
        sum.ns += segment.to.since(segment.from);
        let goes_on = before.is_some_and(|(last, was)| last == class && waits.are_alike(was, around));
        sum.stretches += u64::from(!goes_on);
        let begins = under_way.meet(segment, class.call.is_some() || class.site.is_some());
        sum.own_waits += u64::from(begins);
        let is_new = match around.user.and_then(|user| path.waits.get(user.0 as usize)) {
            Some(wait) => under_way.begins(wait.depth, wait.thread),
            None => begins,
        };
        sum.waits += u64::from(is_new);
        before = Some((class, around));
    }
    sums.all.into_iter()
}

/// The waits that a segment lies in, as far as they were counted, by depth. A wait counts where it is met
/// first, however many segments it has: its thread does something else before the next one begins.
#[derive(Default)]
struct UnderWay(Vec<(u32, ThreadIndex)>);

impl UnderWay {
    /// Goes on to a segment, in which its thread waits itself or not; true if that is where a wait begins.
    fn meet(&mut self, segment: &Segment, waits: bool) -> bool {
        // What is on its way is nobody's time, and ends no wait.
        let Some(thread) = segment.thread else { return false };
        while self
            .0
            .pop_if(|(depth, _)| *depth > segment.depth || *depth == segment.depth && !waits)
            .is_some()
        {}
        waits && self.begins(segment.depth, thread)
    }

    /// Whether a wait of `thread` at this depth was not met before.
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

/// The waits around a segment that matter.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Around {
    /// The nearest in which no kernel thread waited; as this one the segment is counted.
    user: Option<WaitId>,
    /// The nearest in which an own thread waited.
    own: Option<WaitId>,
}

/// What each wait of a path is to the segments that it is around.
struct Waits<'a> {
    answer: &'a PathAnswer<'a>,
    is_kernel: HashMap<ThreadIndex, bool>,
    /// Itself, or the nearest wait around it in which no kernel thread waited.
    user: Vec<Option<WaitId>>,
    /// The same, in which an own thread waited.
    own: Vec<Option<WaitId>>,
    waiters: Vec<Waiter>,
}

impl<'a> Waits<'a> {
    fn new(answer: &'a PathAnswer<'a>) -> Self {
        let waits = &answer.path.waits;
        let mut whose = HashMap::new();
        let (mut user, mut own) = (Vec::with_capacity(waits.len()), Vec::with_capacity(waits.len()));
        // A wait's parent comes before it.
        for (i, wait) in waits.iter().enumerate() {
            let (is_kernel, is_own) = *whose
                .entry(wait.thread)
                .or_insert_with(|| (answer.thread(wait.thread).kernel, is_own(answer, wait.thread)));
            let itself = u32::try_from(i).ok().map(WaitId);
            let around = |list: &[Option<WaitId>]| *list.get(wait.parent?.0 as usize)?;
            let (user_wait, own_wait) = (around(&user), around(&own));
            user.push(if is_kernel { user_wait } else { itself });
            own.push(if is_own { itself } else { own_wait });
        }
        let disks = disks(answer, &user);
        let site = |id: usize| {
            let taken = answer.stacks.of_wait(WaitId(u32::try_from(id).ok()?))?;
            answer.stacks.site_of(taken)
        };
        let waiters = waits
            .iter()
            .zip(disks)
            .enumerate()
            .map(|(id, (wait, disk))| Waiter {
                thread: wait.thread,
                call: answer.wait_call_key(wait),
                site: site(id),
                disk,
            })
            .collect();
        let is_kernel = whose.into_iter().map(|(thread, (is_kernel, _))| (thread, is_kernel)).collect();
        Self { answer, is_kernel, user, own, waiters }
    }

    fn around(&self, segment: &Segment) -> Around {
        let nearest = |list: &[Option<WaitId>]| *list.get(segment.parent?.0 as usize)?;
        Around { user: nearest(&self.user), own: nearest(&self.own) }
    }

    fn waiter(&self, wait: Option<WaitId>) -> Option<&Waiter> {
        self.waiters.get(wait?.0 as usize)
    }

    /// Whether segments of one class, in these waits, are one stretch.
    fn are_alike(&self, one: Around, other: Around) -> bool {
        let alike = |one, other| one == other || self.waiter(one) == self.waiter(other);
        alike(one.user, other.user) && alike(one.own, other.own)
    }

    fn class(&self, number: usize, segment: &Segment, around: Around) -> Class {
        let (graph, stacks) = (&self.answer.recorded.graph, &self.answer.stacks);
        let is_kernel = segment.thread.is_some_and(|thread| match self.is_kernel.get(&thread) {
            Some(is_kernel) => *is_kernel,
            None => self.answer.thread(thread).kernel,
        });
        Class {
            thread: segment.thread,
            comm: segment.thread.map(|thread| graph.thread(thread).name_at(segment.to)).unwrap_or_default(),
            kind: segment.kind,
            responsible: Responsible::from(&segment.cause),
            call: self.answer.segment_call_key(segment),
            site: stacks.of_segment(number).and_then(|taken| stacks.site_of(taken)),
            user: self.waiter(around.user).filter(|_| is_kernel).copied(),
            own_call: self.waiter(around.own).and_then(|own| own.call),
            own_site: self.waiter(around.own).and_then(|own| own.site),
            basis: segment.basis,
        }
    }
}

/// The disk that took most of each user thread's wait.
fn disks(answer: &PathAnswer, user: &[Option<WaitId>]) -> Vec<Option<Option<u32>>> {
    let mut times: HashMap<(usize, Option<u32>), u64> = HashMap::new();
    for segment in &answer.path.segments {
        let wait = segment.parent.and_then(|wait| *user.get(wait.0 as usize)?);
        if let (Some(wait), Cause::Block { request, .. }) = (wait, &segment.cause) {
            let device = request.as_ref().map(|request| request.device);
            *times.entry((wait.0 as usize, device)).or_default() += segment.to.since(segment.from);
        }
    }
    let mut most: Vec<Option<(u64, Option<u32>)>> = vec![None; user.len()];
    for ((wait, device), ns) in times {
        let largest = most[wait].get_or_insert((ns, device));
        *largest = (*largest).max((ns, device));
    }
    most.into_iter().map(|largest| largest.map(|(_, device)| device)).collect()
}

/// Whether a thread is of the window's own processes: its process, its descendants. One that was
/// never introduced is not, and kernel threads are nobody's.
pub fn is_own(answer: &PathAnswer, thread: ThreadIndex) -> bool {
    let (who, subject) = (answer.thread(thread), answer.subject());
    match (who.tgid, subject.tgid) {
        _ if who.kernel => false,
        (Some(process), Some(ancestor)) => answer.recorded.descends(process, ancestor, answer.path.window.to),
        _ => who.tid == subject.tid && who.tid != Tid::IDLE,
    }
}

#[cfg(test)]
mod tests {
    use wakepath_critical_path::Via;

    use super::*;
    use crate::sample::{FUTEX, Story, call, command};

    #[test]
    fn a_wait_counts_once_however_many_segments_it_has() {
        let mut story = Story::new();
        let own = story.thread(7, 1, b"own", 7);
        let child = story.thread(8, 7, b"child", 7);
        // Two waits that read the same, then one in another call.
        for number in [FUTEX, FUTEX, 7] {
            let wait = story.wait(20, own, None, call(number, 3), Via::Wakeup, child);
            story.then(10, child, Some(wait), SegmentKind::Throttled, Cause::None);
            story.then(10, child, Some(wait), SegmentKind::Throttled, Cause::None);
            story.then(1, own, None, SegmentKind::Running, Cause::None);
        }
        let story = story.told();
        let answer = story.answer(command());
        let waits = classes(&answer).filter(|(class, _)| class.kind == SegmentKind::Throttled);
        let told: Vec<_> = waits.map(|(class, sum)| (class.kind, sum.ns, sum.stretches, sum.waits)).collect();
        assert_eq!(told, [(SegmentKind::Throttled, 40, 2, 2), (SegmentKind::Throttled, 20, 1, 1)]);
    }

    #[test]
    fn what_is_no_kernel_threads_is_classed_whoever_it_is_for() {
        let mut story = Story::new();
        let own = story.thread(7, 1, b"own", 7);
        let foreign = [story.thread(20, 1, b"one", 20), story.thread(21, 1, b"two", 21)];
        let server = story.thread(30, 1, b"server", 30);
        for waiter in [foreign[0], foreign[1], foreign[1]] {
            let outer = story.wait(10, own, None, call(FUTEX, 3), Via::Wakeup, waiter);
            let inner = story.wait(10, waiter, Some(outer), call(FUTEX, 4), Via::Wakeup, server);
            story.then(10, server, Some(inner), SegmentKind::Running, Cause::None);
        }
        let story = story.told();
        let answer = story.answer(command());
        let told: Vec<_> = classes(&answer).map(|(_, sum)| (sum.ns, sum.stretches)).collect();
        assert_eq!(told, [(30, 2)], "one class, two stretches: for one, then for two");
    }
}
