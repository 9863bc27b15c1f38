// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of a span: the times in which threads worked for it, as text for its attribute `wakepath.turns`.

use core::fmt::{self, Display, Formatter};
use core::ptr;

use crate::Record;

/// The turns of a span that are kept, the last ones.
const MAX_TURNS: usize = 64;
/// Turns that are no further apart are one, ns: polls of a loop follow each other.
const MAX_GAP_NS: u64 = 10_000;

/// A turn of a thread, ns since 1970.
#[derive(Debug, Clone, Copy)]
struct Turn {
    from: u64,
    to: u64,
    tid: u32,
}

/// The turns of a span, in whichever threads they were. Memory is bounded: the last 64 are kept, and the time from which they are whole.
#[derive(Debug, Clone)]
pub struct Turns {
    /// A time ran backwards, or this target has no turns: nothing is known.
    is_lost: bool,
    /// The number of turns that there ever were.
    count: usize,
    /// The end of the last one that was dropped, or 0.
    dropped_to: u64,
    /// The last ones, in a ring.
    ring: [Turn; MAX_TURNS],
}

impl Default for Turns {
    fn default() -> Self {
        Self::new()
    }
}

impl Turns {
    /// No turns yet.
    pub const fn new() -> Self {
        let none = Turn { from: 0, to: 0, tid: 0 };
        Self { is_lost: !system::IS_KNOWN, count: 0, dropped_to: 0, ring: [none; MAX_TURNS] }
    }

    /// The text for the attribute `wakepath.turns` of their span, which began then (ns since 1970): call it as the span ends. `None` where they
    /// are not known.
    pub fn text(&self, begun_ns: u64) -> Option<TurnsText<'_>> {
        (!self.is_lost).then_some(TurnsText { turns: self, begun_ns })
    }

    /// The calling thread has had a turn. `follows`: it has worked for no other span since the one before.
    fn note(&mut self, Turn { from, to, tid }: Turn, follows: bool) {
        let last = self.count.checked_sub(1).map(|last| &mut self.ring[last % MAX_TURNS]);
        let before = last.as_ref().map_or(0, |last| last.to);
        if from > to || from < before {
            self.is_lost = true;
            return;
        }
        if let Some(last) = last.filter(|last| follows && last.tid == tid && from - last.to <= MAX_GAP_NS) {
            last.to = to;
            return;
        }
        let next = &mut self.ring[self.count % MAX_TURNS];
        if self.count >= MAX_TURNS {
            self.dropped_to = next.to;
        }
        *next = Turn { from, to, tid };
        self.count += 1;
    }
}

/// Turns as text: `SINCE @TID GAP LENGTH GAP LENGTH @TID GAP LENGTH.`, for each thread those in it.
#[derive(Debug, Clone, Copy)]
pub struct TurnsText<'a> {
    turns: &'a Turns,
    begun_ns: u64,
}

impl Display for TurnsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { turns, begun_ns } = self;
        let since = turns.dropped_to.max(*begun_ns);
        write!(f, "{since}")?;
        let kept = || {
            (turns.count.saturating_sub(MAX_TURNS)..turns.count).map(|number| turns.ring[number % MAX_TURNS])
        };
        // A turn may have begun before its span.
        let kept = || kept().filter(|turn| turn.to > since);
        for (place, Turn { tid, .. }) in kept().enumerate() {
            if kept().take(place).any(|turn| turn.tid == tid) {
                continue;
            }
            write!(f, " @{tid}")?;
            let mut at = since;
            for Turn { from, to, .. } in kept().filter(|turn| turn.tid == tid) {
                let from = from.max(at);
                write!(f, " {} {}", from - at, to - from)?;
                at = to;
            }
        }
        f.write_str(".")
    }
}

/// The span whose turns the calling thread notes, while a function of it runs: each has one in the function's frame.
struct Noting {
    record: *const Record,
    turns: *mut Turns,
    /// The beginning of the turn that it is in.
    since: u64,
}

/// The calling thread's own.
#[repr(C)]
pub(crate) struct ThreadState {
    /// The innermost span whose turns are noted.
    noting: *mut Noting,
    /// The turns that were noted last, if no other span was shown since; for comparison alone.
    last: *const Turns,
}

/// A function that runs with its turns noted: at its end, or as it unwinds, they are noted.
struct Running {
    thread_state: *mut ThreadState,
    outer: *mut Noting,
    shown: *const Record,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: what is noted here lies in the frame that has this, and `outer` in one that called it; no reference to either exists.
        unsafe {
            let noting = (*self.thread_state).noting;
            if crate::shown() == (*noting).record {
                note(self.thread_state, noting, system::now());
            }
            (*self.thread_state).noting = self.outer;
        }
        crate::show(self.shown);
    }
}

/// Runs a function while the calling thread works for a span, and notes the turns of that: all of the time, without that in which it
/// works for others.
pub(crate) fn run<T>(record: &Record, turns: &mut Turns, function: impl FnOnce() -> T) -> T {
    let Some(thread_state) = system::thread_state() else { return record.with(function) };
    let mut noting = Noting { record, turns, since: 0 };
    // The turn of the outer span ends.
    let shown = crate::show(record);
    noting.since = system::now();
    let noting = ptr::addr_of_mut!(noting);
    // SAFETY: it is a variable of the calling thread, which alone reads and writes it here.
    let outer = unsafe { ptr::replace(ptr::addr_of_mut!((*thread_state).noting), noting) };
    let _running = Running { thread_state, outer, shown };
    function()
}

/// The thread shows `next` in place of `before`: a turn ends or begins, where turns are noted.
#[inline]
pub(crate) fn turn(before: *const Record, next: *const Record) {
    let Some(thread_state) = system::thread_state() else { return };
    // SAFETY: it is a variable of the calling thread; `noting` is null, or lies in a frame below this one.
    unsafe {
        let noting = (*thread_state).noting;
        if noting.is_null() {
            if !next.is_null() {
                (*thread_state).last = ptr::null();
            }
        } else {
            note_turn(thread_state, noting, before, next);
        }
    }
}

#[cold]
unsafe fn note_turn(thread_state: *mut ThreadState, noting: *mut Noting, before: *const Record, next: *const Record) {
    let own = (*noting).record;
    if before == own && next != own {
        note(thread_state, noting, system::now());
        (*thread_state).last = ptr::null();
    } else if before != own && next == own {
        (*noting).since = system::now();
    }
}

unsafe fn note(thread_state: *mut ThreadState, noting: *mut Noting, to: u64) {
    let turns = (*noting).turns;
    let follows = ptr::eq((*thread_state).last, turns);
    (*turns).note(Turn { from: (*noting).since, to, tid: system::tid() }, follows);
    (*thread_state).last = turns;
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod system {
    use super::ThreadState;

    pub(super) const IS_KNOWN: bool = true;

    #[repr(C)]
    struct Time {
        seconds: i64,
        ns: i64,
    }

    extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }

    /// The realtime, ns since 1970.
    pub(super) fn now() -> u64 {
        let mut time = Time { seconds: 0, ns: 0 };
        // SAFETY: the clock 0 is the realtime; it writes to `time` alone.
        unsafe { clock_gettime(0, &mut time) };
        time.seconds as u64 * 1_000_000_000 + time.ns as u64
    }

    /// The calling thread's number. It is asked for each time: behind a fork another one is right.
    pub(super) fn tid() -> u32 {
        let mut number: u64 = 186;
        // SAFETY: `gettid` has no arguments, cannot fail, and changes no memory.
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") number, out("rcx") _, out("r11") _, options(nostack, nomem));
        }
        number as u32
    }

    // Hidden: a program has one, and each library that is built with this.
    core::arch::global_asm!(
        ".pushsection .tbss.wakepath_turns_v1,\"awT\",@nobits",
        ".weak wakepath_turns_v1",
        ".hidden wakepath_turns_v1",
        ".type wakepath_turns_v1, @object",
        ".size wakepath_turns_v1, 16",
        ".balign 8",
        "wakepath_turns_v1:",
        ".zero 16",
        ".popsection",
    );

    /// Where the calling thread has the variable: as `otel_thread_ctx_v1`.
    #[inline]
    pub(super) fn thread_state() -> Option<*mut ThreadState> {
        let at: *mut ThreadState;
        // SAFETY: the sequence of the ABI for a thread's variable (TLSDESC), which changes no other register. It may use the stack.
        unsafe {
            core::arch::asm!(
                "leaq wakepath_turns_v1@tlsdesc(%rip), %rax",
                "call *wakepath_turns_v1@tlscall(%rax)",
                "addq %fs:0, %rax",
                out("rax") at,
                options(att_syntax),
            );
        }
        Some(at)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod system {
    use super::ThreadState;

    pub(super) const IS_KNOWN: bool = false;

    pub(super) fn now() -> u64 {
        0
    }

    pub(super) fn tid() -> u32 {
        0
    }

    pub(super) fn thread_state() -> Option<*mut ThreadState> {
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn noted(turns: &[(u64, u64, u32, bool)]) -> Turns {
        let mut noted = Turns::new();
        for &(from, to, tid, follows) in turns {
            noted.note(Turn { from, to, tid }, follows);
        }
        noted
    }

    fn text(turns: &Turns, begun: u64) -> String {
        turns.text(begun).expect("they are known").to_string()
    }

    #[test]
    fn a_text_has_the_turns_in_each_thread_with_the_gap_before_each_and_its_length() {
        let turns =
            noted(&[(100, 130, 7, false), (140, 150, 8, false), (150, 151, 7, false), (160, 190, 8, false)]);
        // The span began behind its first turn.
        assert_eq!(text(&turns, 110), "110 @7 0 20 20 1 @8 30 10 10 30.");
        assert_eq!(text(&turns, 145), "145 @8 0 5 10 30 @7 5 1.");
        assert_eq!(text(&noted(&[]), 5), "5.");
    }

    #[test]
    fn turns_of_one_thread_that_follow_each_other_closely_are_one() {
        let near = 100 + MAX_GAP_NS;
        for (to, tid, follows, count) in
            [(near, 7, true, 1), (near, 7, false, 2), (near, 8, true, 2), (near + 1, 7, true, 2)]
        {
            assert_eq!(noted(&[(50, 100, 7, false), (to, to + 5, tid, follows)]).count, count);
        }
    }

    #[test]
    fn the_last_turns_are_kept_with_the_time_since_which_they_are_whole_and_a_clock_that_was_set_back_loses_all(
    ) {
        let all: Vec<_> = (0..66).map(|turn| (100 * turn + 10, 100 * turn + 20, 7, false)).collect();
        let text = text(&noted(&all), 5);
        assert!(text.starts_with("120 @7 90 10 90 10 "), "{text}");
        assert_eq!(text.split(' ').count(), 2 + 2 * MAX_TURNS);
        for back in [(15, 20, 7, false), (30, 29, 7, false)] {
            assert!(noted(&[(10, 20, 7, false), back]).text(0).is_none());
        }
    }

    #[test]
    fn the_turns_of_a_span_are_the_time_without_that_of_spans_in_it_and_of_those_that_were_shown_before() {
        let record = |id| Record::new([id; 16], [id; 8], 1);
        let [mut outer, mut inner] = [Turns::new(), Turns::new()];
        let now = || {
            let now = system::now();
            while system::now() < now + 20_000 {}
            now
        };
        let mut times = Vec::new();
        times.push(now());
        record(1).with_turns(&mut outer, || {
            times.push(now());
            record(2).with(|| times.push(now()));
            times.push(now());
            record(3).with_turns(&mut inner, || times.push(now()));
            times.push(now());
        });
        times.push(now());
        let of = |turns: &Turns| -> Vec<_> {
            turns.ring[..turns.count].iter().map(|one| (one.from, one.to)).collect()
        };
        let within = |turns: &[(u64, u64)], places: &[usize]| {
            assert_eq!(turns.len(), places.len(), "{turns:?}");
            for (&(from, to), &place) in turns.iter().zip(places) {
                // A moment is noted and waited behind before the next change.
                assert!(
                    times[place - 1] + 20_000 <= from && from <= times[place],
                    "{place}: {turns:?} {times:?}"
                );
                assert!(
                    times[place] + 20_000 <= to && to <= times[place + 1],
                    "{place}: {turns:?} {times:?}"
                );
            }
        };
        within(&of(&outer), &[1, 3, 5]);
        within(&of(&inner), &[4]);
        assert!(outer.ring[..3]
            .iter()
            .all(|turn| turn.tid == std::process::id() || turn.tid == system::tid()));
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let mut turns = Turns::new();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Record::new([1; 16], [1; 8], 1).with_turns(&mut turns, || panic!("on purpose"));
        }));
        assert!(unwound.is_err());
        assert_eq!(turns.count, 1);
        // SAFETY: a variable of this thread.
        assert!(system::thread_state().is_some_and(|one| unsafe { (*one).noting.is_null() }));
    }
}
