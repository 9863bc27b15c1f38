//! Where in the code a path's waits began, and where they were ended.
//!
//! Only of recordings with stacks at switch-outs and wakings. Each stack is put into names once,
//! however many waits have it.

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Path, Segment, Wait, WaitId};
use wakepath_symbols::Found;
use wakepath_wait_graph::{Frames, Occupant, StackAt, StackIndex, ThreadIndex, ThreadState, Waker};

use crate::CodeNames;
use crate::code::module;

/// The stacks of a path's waits.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// For each of the path's waits, by its id: the stack at its beginning, and the waker's.
    waits: Vec<(Option<Taken>, Option<Taken>)>,
    /// For each of the path's segments: the stack at its beginning, if its thread waited.
    segments: Vec<Option<Taken>>,
    stacks: Vec<Stack>,
    sites: Vec<Site>,
}

/// A stack that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Taken {
    /// It is known.
    Known(StackId),
    /// It was taken, and its record is lost.
    Lost,
}

/// One of the stacks of [`Stacks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// One of the sites of [`Stacks`]: many stacks may be of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u32);

/// A stack with names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Its frames, innermost first: those in the kernel, then the program's.
    pub frames: Vec<Frame>,
    /// The function that names the place.
    pub site: SiteId,
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub found: Found,
    /// It is in the kernel.
    pub in_kernel: bool,
}

/// The function that waited, or woke: the innermost that is not the C library's way into the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// That function.
    pub function: Found,
    /// It is in the kernel: a kernel thread's.
    pub in_kernel: bool,
    /// Its caller.
    pub caller: Caller,
}

/// The caller of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// This one.
    Function(Found),
    /// Nobody: a thread begins there, or it is in the kernel.
    Nobody,
    /// The chain of frame pointers does not lead there.
    Unknown,
}

impl Stacks {
    /// The stacks of a path's waits; none where none were recorded.
    pub fn of(path: &Path, names: &mut CodeNames<'_>) -> Self {
        if !names.recorded.graph.has_stacks() {
            return Self::default();
        }
        let mut reader = Reader { names, known: HashMap::new(), stacks: Self::default() };
        let waits = path
            .waits
            .iter()
            .map(|wait| {
                (reader.began(wait.thread, wait.from), reader.ended(wait.thread, wait.from, wait.ended_by))
            })
            .collect();
        let segments =
            path.segments.iter().map(|segment| reader.began(segment.thread?, segment.from)).collect();
        Self { waits, segments, ..reader.stacks }
    }

    /// Whether the recording has none of any of the path's waits.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Where a wait of the path began.
    pub fn of_wait(&self, wait: WaitId) -> Option<Taken> {
        self.waits.get(wait.0 as usize)?.0
    }

    /// Where the thread was that ended a wait of the path.
    pub fn of_waker(&self, wait: WaitId) -> Option<Taken> {
        self.waits.get(wait.0 as usize)?.1
    }

    /// Where the wait began that the path's segment of this number is of.
    pub fn of_segment(&self, segment: usize) -> Option<Taken> {
        *self.segments.get(segment)?
    }

    /// A stack.
    pub fn stack(&self, id: StackId) -> &Stack {
        &self.stacks[id.0 as usize]
    }

    /// The place of a stack.
    pub fn site(&self, id: SiteId) -> &Site {
        &self.sites[id.0 as usize]
    }

    /// The site of what was taken.
    pub fn site_of(&self, taken: Taken) -> Option<SiteId> {
        match taken {
            Taken::Known(id) => Some(self.stack(id).site),
            Taken::Lost => None,
        }
    }

    /// The stacks of a path, made up by a test: where its waits began and were ended, and where its
    /// waiting segments began. One without frames is lost.
    pub fn told(
        path: &Path,
        began: impl Fn(&Wait) -> Option<Vec<Frame>>,
        ended: impl Fn(&Wait) -> Option<Vec<Frame>>,
        waited: impl Fn(&Segment) -> Option<Vec<Frame>>,
    ) -> Self {
        let mut all = Self::default();
        let mut taken = |frames: Option<Vec<Frame>>| match frames? {
            frames if frames.is_empty() => Some(Taken::Lost),
            frames => Some(all.add(frames)),
        };
        let waits = path.waits.iter().map(|wait| (taken(began(wait)), taken(ended(wait)))).collect();
        let segments = path.segments.iter().map(|segment| taken(waited(segment))).collect();
        Self { waits, segments, ..all }
    }

    fn add(&mut self, frames: Vec<Frame>) -> Taken {
        let site = site_of(&frames);
        let known = self.sites.iter().position(|other| *other == site);
        let place = known.unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        self.stacks.push(Stack { frames, site: SiteId(place as u32) });
        Taken::Known(StackId(self.stacks.len() as u32 - 1))
    }
}

struct Reader<'a, 'n> {
    names: &'n mut CodeNames<'a>,
    known: HashMap<StackIndex, Taken>,
    stacks: Stacks,
}

impl Reader<'_, '_> {
    /// Where the wait of `thread` began that holds `at`.
    fn began(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Taken> {
        let intervals = self.names.recorded.graph.state_intervals(thread);
        let interval = intervals
            .get(intervals.find(at))
            .filter(|interval| matches!(interval.state, ThreadState::Blocked(_)))?;
        self.taken(thread, interval.from)
    }

    /// Where `by` was when it ended the wait of `thread` that holds `at`.
    fn ended(&mut self, thread: ThreadIndex, at: Stamp<Reference>, by: Option<ThreadIndex>) -> Option<Taken> {
        let intervals = self.names.recorded.graph.state_intervals(thread);
        match self.names.recorded.graph.wait(&intervals.get(intervals.find(at))?)?.end {
            Waker::Woken { at, current: Occupant::Thread(waker), context, .. }
                if Some(waker) == by && !context.is_interrupt() =>
            {
                self.taken(waker, at)
            }
            _ => None,
        }
    }

    fn taken(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Taken> {
        let (index, frames) = match self.names.recorded.graph.stack_at(thread, at)? {
            StackAt::Frames(index, frames) => (index, frames),
            StackAt::Lost => return Some(Taken::Lost),
        };
        if let Some(&known) = self.known.get(&index) {
            return Some(known);
        }
        let taken = self.stacks.add(named(self.names, at, frames));
        self.known.insert(index, taken);
        Some(taken)
    }
}

/// The frames of a stack with names. Among the addresses that were found on the stack, those up to the
/// first outside of the C library are kept: only its functions have no frame.
fn named(names: &mut CodeNames<'_>, at: Stamp<Reference>, frames: Frames<'_>) -> Vec<Frame> {
    let Frames { tgid, kernel, user, scanned } = frames;
    let kernel = kernel.iter().map(|&address| Frame { found: names.in_kernel(address), in_kernel: true });
    let mut all: Vec<Frame> = kernel.skip_while(|frame| is_tracing(&frame.found)).collect();
    let Some((&innermost, rest)) = user.split_first() else { return all };
    let mut program = |address| names.user(tgid, at, address).map(|found| Frame { found, in_kernel: false });
    let innermost =
        program(innermost).unwrap_or(Frame { found: Found::Unnamed(Vec::new()), in_kernel: false });
    let frameless = is_c_library(&innermost.found);
    all.push(innermost);
    let (scanned, chain) = rest.split_at(scanned.min(rest.len()));
    if frameless {
        for &address in scanned {
            // A caller's frame holds where it goes on: the call lies before that.
            let Some(frame) = program(address.wrapping_sub(1)) else { continue };
            let library = is_c_library(&frame.found);
            all.push(frame);
            if !library {
                break;
            }
        }
    }
    // Where there is no frame pointer, what stands in its place leads to what is no code.
    all.extend(chain.iter().map_while(|&address| program(address.wrapping_sub(1))));
    all
}

/// The place of a stack.
fn site_of(frames: &[Frame]) -> Site {
    let program = frames.iter().position(|frame| !frame.in_kernel);
    let Some(innermost) = program else {
        let own = frames.iter().find(|frame| !is_scheduling(&frame.found)).or(frames.first());
        let function = own.map_or(Found::Kernel, |frame| frame.found.clone());
        return Site { function, in_kernel: true, caller: Caller::Nobody };
    };
    let frames = &frames[innermost..];
    let own = frames.iter().position(|frame| !is_c_library(&frame.found)).unwrap_or(0);
    let caller = match frames.get(own + 1) {
        // Whatever calls it.
        _ if matches!(&frames[own].found, Found::Function(function) if function.name == "main") => {
            Caller::Nobody
        }
        Some(caller) if is_c_library(&caller.found) && !is_c_library(&frames[own].found) => Caller::Nobody,
        Some(caller) => Caller::Function(caller.found.clone()),
        None => Caller::Unknown,
    };
    Site { function: frames[own].found.clone(), in_kernel: false, caller }
}

/// Whether a function is one of the C library: what programs call to wait, and what calls their `main`.
fn is_c_library(found: &Found) -> bool {
    const NAMES: [&[u8]; 6] = [b"libc.so", b"libc-", b"libpthread", b"ld-linux", b"ld-musl", b"[vdso]"];
    module(found).is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
}

/// Whether a function of the kernel is only how we got to know.
fn is_tracing(found: &Found) -> bool {
    match found {
        Found::Function(function) => {
            ["bpf_", "__bpf_", "__traceiter_"].iter().any(|known| function.name.starts_with(known))
        }
        _ => false,
    }
}

/// Whether a function of the kernel only hands over the CPU.
fn is_scheduling(found: &Found) -> bool {
    match found {
        Found::Function(function) => {
            let name = function.name.trim_start_matches('_');
            ["schedule", "io_schedule", "try_to_wake_up", "wake_up"]
                .iter()
                .any(|known| name.starts_with(known))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, mapping, read, thread};
    use wakepath_critical_path::{Window, active};
    use wakepath_event::{BlockedState, EventKind, Stack as Raw, SwitchOut, Tid};

    const LIBC: u64 = 0x1000;
    const PROGRAM: u64 = 0x5000;
    const OTHER: u64 = 0x7000;

    fn file(name: &str) -> Found {
        Found::Unreadable(name.as_bytes().to_vec())
    }

    /// The site of a wait of a thread with this stack; its record comes after the wait, as from other CPUs.
    fn site(user: &[u64], scanned: u16) -> Option<(Site, Vec<Found>)> {
        let stack = Raw { tgid: Tid(7), kernel: [0xffff_8000].into(), user: user.into(), scanned };
        let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
        let switch = |at, from, to, out| {
            event(at, 0, from, EventKind::Switch { next: Tid(to), out, interrupts_ns: 0, call: None })
        };
        let recorded = read(&[
            event(0, 0, 0, thread(7, 7, 1, "own")),
            switch(0, 0, 7, SwitchOut::Runnable),
            switch(10, 7, 0, blocked),
            event(10, 0, 7, EventKind::StackOf(stack.id())),
            event(40, 0, 0, EventKind::Stack(stack)),
            switch(50, 0, 7, SwitchOut::Runnable),
            mapping(LIBC, "/nonexistent/libc.so.6"),
            mapping(PROGRAM, "/nonexistent/program"),
            mapping(OTHER, "/nonexistent/other"),
            switch(100, 7, 0, SwitchOut::Runnable),
        ]);
        let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: Stamp::from_ns(100) };
        let path = active(&recorded.graph, window);
        let stacks = Stacks::of(&path, &mut CodeNames::new(&recorded, false));
        let waited = (0..path.segments.len()).filter_map(|segment| stacks.of_segment(segment));
        let waited: Vec<_> = waited.collect();
        assert_eq!(waited.len(), 1, "one of three segments waits");
        let Taken::Known(id) = waited[0] else { panic!("it was told") };
        let frames = stacks.stack(id).frames.iter().map(|frame| frame.found.clone()).collect();
        Some((stacks.site(stacks.stack(id).site).clone(), frames))
    }

    #[test]
    fn the_function_that_waited_is_the_first_outside_of_the_c_library() {
        let (libc, program, other) = (file("libc.so.6"), file("program"), file("other"));
        let calls = |found: &Found| Caller::Function(found.clone());
        for (user, scanned, function, caller, frames) in [
            // The chain skips the caller of the library; the address found on the stack shows it.
            (&[LIBC + 8, PROGRAM + 9, PROGRAM + 99, OTHER + 1][..], 1, &program, calls(&program), 4),
            // Among the found addresses, the first outside is used, and none behind it.
            (&[LIBC + 8, LIBC + 9, PROGRAM + 9, OTHER + 5, OTHER + 9], 3, &program, calls(&other), 4),
            // A function with a frame: what lies in it says nothing.
            (&[PROGRAM + 8, OTHER + 9, LIBC + 1], 1, &program, Caller::Nobody, 2),
            // Neither frame pointers nor anything found: the leaf, and that no more is known.
            (&[LIBC + 8], 0, &libc, Caller::Unknown, 1),
            (&[LIBC + 8, PROGRAM + 9], 1, &program, Caller::Unknown, 2),
            // A value at the place of a frame pointer that is none ends the chain.
            (&[LIBC + 8, PROGRAM + 9, 0xdead_0000, OTHER + 1], 1, &program, Caller::Unknown, 2),
            // The library's start is nobody's call.
            (&[LIBC + 8, PROGRAM + 9, LIBC + 99], 1, &program, Caller::Nobody, 3),
        ] {
            let (site, found) = site(user, scanned).expect("a stack");
            let expected = Site { function: function.clone(), in_kernel: false, caller };
            assert_eq!(site, expected, "{user:x?}");
            assert_eq!(found.len(), frames + 1, "{user:x?} {found:?}");
        }
    }
}
