//! Code sites where a path's waits began, and where they were ended.
//!
//! Only for recordings with stacks at switch-outs and wake-ups; collections are seen in samples. Each stack is put into names once, however many
//! waits have it.

use std::collections::{BTreeSet, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Path, Segment, Wait, WaitId};
use wakepath_event::Stack as RecordedStack;
use wakepath_symbols::Found;
use wakepath_wait_graph::{Occupant, Sample, StackAt, StackIndex, ThreadIndex, ThreadState, WakeUp, Waker};

use crate::CodeNames;
use crate::code::module;
use crate::collections::collections;

/// The stacks of a path's waits.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// For each of the path's waits, by its id: the stack at its beginning, and the waker's.
    waits: Vec<[Option<StackId>; 2]>,
    /// For each of the path's segments: the stack at the beginning of its thread's wait, if it waited.
    segments: Vec<Option<StackId>>,
    stacks: Vec<Stack>,
    sites: Vec<Site>,
    /// The path's waits for a garbage collection, by samples.
    collections: BTreeSet<WaitId>,
}

/// A stack in [`Stacks`].
type StackId = u32;

/// A site in [`Stacks`]: many stacks may share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u32);

/// A recorded stack, with names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Its frames, innermost first: the kernel's, then the program's.
    pub frames: Vec<Frame>,
    /// The function that names the place; `None` if the stack's record is lost.
    pub site: Option<SiteId>,
}

/// A function in which a thread was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// The function.
    pub found: Found,
    /// Whether it is in the kernel.
    pub in_kernel: bool,
    /// The thread stood there, or unwinding tables led there and a call stands before its return address.
    pub proved: bool,
}

/// A function in which a thread was seen, and its caller.
///
/// In a sample: the function that ran, in the kernel if the thread was there; and the nearest program function that
/// led there, from another file if possible: the caller of the library, or of the kernel. In a stack: the function
/// that waited, or woke, the innermost outside the C library's way into the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The function.
    pub function: Frame,
    /// Its caller.
    pub caller: Caller,
}

/// A function's caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    /// No caller: the thread's entry, or kernel code.
    Nobody,
    /// This function.
    Function(Found),
    /// Perhaps this function: a false frame pointer may have led there, or a word on the stack.
    Guess(Found),
    /// The stack could not be unwound that far.
    Unknown,
}

impl Site {
    /// The site of a function, with its caller if any.
    pub fn new(found: Found, in_kernel: bool, caller: Option<Found>) -> Self {
        let caller = caller.map_or(Caller::Nobody, Caller::Function);
        Self { function: Frame { found, in_kernel, proved: true }, caller }
    }
}

impl Stacks {
    /// The stacks of a path's waits; empty if none were recorded.
    pub fn of(path: &Path, names: &mut CodeNames<'_>) -> Self {
        let collections = collections(path, names);
        if !names.recorded.graph.has_stacks() {
            return Self { collections, ..Self::default() };
        }
        let mut reader = Reader { names, known: HashMap::new(), stacks: Self::default() };
        let waits = path
            .waits
            .iter()
            .map(|wait| {
                [reader.began(wait.thread, wait.from), reader.ended(wait.thread, wait.from, wait.ended_by)]
            })
            .collect();
        let segments =
            path.segments.iter().map(|segment| reader.began(segment.thread?, segment.from)).collect();
        Self { waits, segments, collections, ..reader.stacks }
    }

    /// Whether the recording has no stacks for the path's waits.
    pub fn is_empty(&self) -> bool {
        self.stacks.iter().all(|stack| stack.site.is_none())
    }

    /// The stack at the beginning of a wait on the path.
    pub fn wait_stack(&self, wait: WaitId) -> Option<&Stack> {
        self.stack(self.waits.get(wait.0 as usize)?[0])
    }

    /// The stack of the thread that ended a wait on the path, at that time.
    pub fn waker_stack(&self, wait: WaitId) -> Option<&Stack> {
        self.stack(self.waits.get(wait.0 as usize)?[1])
    }

    /// The stack at the beginning of the wait in a path's segment, by its number.
    pub fn segment_stack(&self, segment: usize) -> Option<&Stack> {
        self.stack(*self.segments.get(segment)?)
    }

    /// Whether a wait on the path was for a garbage collection, as its waker's samples show.
    pub fn is_collection(&self, wait: WaitId) -> bool {
        self.collections.contains(&wait)
    }

    /// The same stacks, with a test's waits for a garbage collection.
    #[must_use]
    pub fn with_collections(self, collections: impl IntoIterator<Item = WaitId>) -> Self {
        Self { collections: collections.into_iter().collect(), ..self }
    }

    fn stack(&self, id: Option<StackId>) -> Option<&Stack> {
        Some(&self.stacks[id? as usize])
    }

    /// A site by its id.
    pub fn site(&self, id: SiteId) -> &Site {
        &self.sites[id.0 as usize]
    }

    /// Stacks that a test makes up for a path: where its waits began and were ended, and where its waiting segments
    /// began. A stack without frames is lost.
    pub fn told(
        path: &Path,
        began: impl Fn(&Wait) -> Option<Vec<Frame>>,
        ended: impl Fn(&Wait) -> Option<Vec<Frame>>,
        waited: impl Fn(&Segment) -> Option<Vec<Frame>>,
    ) -> Self {
        let mut all = Self::default();
        let mut taken =
            |frames: Option<Vec<Frame>>| Some(all.add(Some(frames?).filter(|frames| !frames.is_empty())));
        let waits = path.waits.iter().map(|wait| [taken(began(wait)), taken(ended(wait))]).collect();
        let segments = path.segments.iter().map(|segment| taken(waited(segment))).collect();
        Self { waits, segments, ..all }
    }

    /// Adds a stack; `None` for a lost stack.
    fn add(&mut self, frames: Option<Vec<Frame>>) -> StackId {
        let site = frames.as_deref().map(|frames| {
            let site = site_of(frames);
            let known = self.sites.iter().position(|other| *other == site);
            let place = known.unwrap_or_else(|| {
                self.sites.push(site);
                self.sites.len() - 1
            });
            SiteId(place as u32)
        });
        self.stacks.push(Stack { frames: frames.unwrap_or_default(), site });
        self.stacks.len() as StackId - 1
    }
}

struct Reader<'a, 'n> {
    names: &'n mut CodeNames<'a>,
    /// By the stack's index in the graph; all lost stacks share an entry.
    known: HashMap<Option<StackIndex>, StackId>,
    stacks: Stacks,
}

impl Reader<'_, '_> {
    /// The stack at the beginning of the wait in which `thread` was at `at`.
    fn began(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StackId> {
        let intervals = self.names.recorded.graph.state_intervals(thread);
        let interval = intervals
            .get(intervals.find(at))
            .filter(|interval| matches!(interval.state, ThreadState::Blocked(_)))?;
        self.taken(thread, interval.from)
    }

    /// The stack of `by` when it ended the wait in which `thread` was at `at`.
    fn ended(
        &mut self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        by: Option<ThreadIndex>,
    ) -> Option<StackId> {
        let intervals = self.names.recorded.graph.state_intervals(thread);
        match self.names.recorded.graph.wait(&intervals.get(intervals.find(at))?)?.end {
            Waker::Woken(WakeUp { at, current: Occupant::Thread(waker), context, .. })
                if Some(waker) == by && !context.is_interrupt() =>
            {
                self.taken(waker, at)
            }
            _ => None,
        }
    }

    fn taken(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StackId> {
        let (index, stack) = match self.names.recorded.graph.stack_at(thread, at)? {
            StackAt::Recorded(index, stack) => (Some(index), Some(stack)),
            StackAt::Lost => (None, None),
        };
        let (names, stacks) = (&mut *self.names, &mut self.stacks);
        let add = || stacks.add(stack.map(|stack| named(names, at, stack)));
        Some(*self.known.entry(index).or_insert_with(add))
    }
}

impl CodeNames<'_> {
    /// The frames, innermost first, with which a thread left its CPU at exactly `at`; `None` if no stack is
    /// recorded.
    pub fn stack_at(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Vec<Frame>> {
        match self.recorded.graph.stack_at(thread, at)? {
            StackAt::Recorded(_, stack) => Some(named(self, at, stack)),
            StackAt::Lost => None,
        }
    }
}

impl CodeNames<'_> {
    /// A sample's frames, innermost first: the kernel's, then the program's.
    pub fn sample_frames(&mut self, sample: &Sample<'_>) -> Vec<Frame> {
        let Sample { at, tgid, kernel, user, proved } = *sample;
        let mut all: Vec<Frame> = Vec::with_capacity(kernel.len() + user.len());
        all.extend(kernel.iter().map(|&address| Frame {
            found: self.in_kernel(tgid.host(), address),
            in_kernel: true,
            proved: true,
        }));
        for (place, &address) in user.iter().enumerate() {
            // A caller's frame holds its return address: the call lies before it.
            let address = if place == 0 { address } else { address.wrapping_sub(1) };
            let found = self.user(tgid, at, address).unwrap_or_else(|| self.outside_of_files(tgid));
            all.push(Frame { found, in_kernel: false, proved: place == 0 || place < proved });
        }
        all
    }
}

/// A stack's frames, with names. Addresses found on the stack without proof are kept up to the first outside the C
/// library: only its functions have no frame.
fn named(names: &mut CodeNames<'_>, at: Stamp<Reference>, stack: &RecordedStack) -> Vec<Frame> {
    let RecordedStack { tgid, kernel, user, scanned, proved } = stack;
    let kernel = kernel.iter().map(|&address| Frame {
        found: names.in_kernel(tgid.host(), address),
        in_kernel: true,
        proved: true,
    });
    let mut all: Vec<Frame> = kernel.skip_while(|frame| is_tracing(&frame.found)).collect();
    let Some((&innermost, rest)) = user.split_first() else { return all };
    let outside = names.outside_of_files(*tgid);
    let mut program = |address, proved| {
        names.user(*tgid, at, address).map(|found| Frame { found, in_kernel: false, proved })
    };
    let nameless = Frame { found: outside, in_kernel: false, proved: true };
    // The registers show where the thread stood.
    let innermost = program(innermost, true).unwrap_or_else(|| nameless.clone());
    let frameless = is_c_library(&innermost.found);
    all.push(innermost);
    let (proved, rest) = rest.split_at(usize::from(*proved).saturating_sub(1).min(rest.len()));
    for &address in proved {
        all.push(program(address.wrapping_sub(1), true).unwrap_or_else(|| nameless.clone()));
    }
    let (scanned, chain) = rest.split_at(usize::from(*scanned).min(rest.len()));
    if frameless {
        for &address in scanned {
            // A caller's frame holds its return address: the call lies before it.
            let Some(frame) = program(address.wrapping_sub(1), false) else { continue };
            let library = is_c_library(&frame.found);
            all.push(frame);
            if !library {
                break;
            }
        }
    }
    // Without a frame pointer, the value in its place leads outside all code.
    all.extend(chain.iter().map_while(|&address| program(address.wrapping_sub(1), false)));
    all
}

/// A stack's site.
fn site_of(frames: &[Frame]) -> Site {
    let program = frames.iter().position(|frame| !frame.in_kernel);
    let Some(innermost) = program else {
        let own = frames.iter().find(|frame| !is_scheduling(&frame.found)).or(frames.first());
        return Site::new(own.map_or(Found::Kernel, |frame| frame.found.clone()), true, None);
    };
    let frames = &frames[innermost..];
    let own = frames.iter().position(|frame| !is_c_library(&frame.found)).unwrap_or(0);
    let caller = match frames.get(own + 1) {
        // Any caller of `main` counts as none.
        _ if matches!(&frames[own].found, Found::Function(function) if function.name == "main") => {
            Caller::Nobody
        }
        Some(caller) if is_c_library(&caller.found) && !is_c_library(&frames[own].found) => Caller::Nobody,
        Some(caller) if caller.proved => Caller::Function(caller.found.clone()),
        Some(caller) => Caller::Guess(caller.found.clone()),
        None => Caller::Unknown,
    };
    Site { function: frames[own].clone(), caller }
}

/// Whether a function belongs to the C library: functions that programs call to wait, and the callers of `main`.
pub(crate) fn is_c_library(found: &Found) -> bool {
    const NAMES: [&[u8]; 6] = [b"libc.so", b"libc-", b"libpthread", b"ld-linux", b"ld-musl", b"[vdso]"];
    module(found).is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
}

/// Whether a kernel function belongs to the tracing itself.
fn is_tracing(found: &Found) -> bool {
    const NAMES: [&str; 3] = ["bpf_", "__bpf_", "__traceiter_"];
    matches!(found, Found::Function(function) if NAMES.iter().any(|known| function.name.starts_with(known)))
}

/// Whether a kernel function only hands over the CPU.
fn is_scheduling(found: &Found) -> bool {
    const NAMES: [&str; 4] = ["schedule", "io_schedule", "try_to_wake_up", "wake_up"];
    let Found::Function(function) = found else { return false };
    let name = function.name.trim_start_matches('_');
    NAMES.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests;
