// SPDX-License-Identifier: MIT OR Apache-2.0
//! The span that a thread works for, in memory, where a recorder of the system reads it: OpenTelemetry's thread-context
//! record (OTEP 4947). Without `std`, without allocation, without dependencies. On targets other than x86-64 Linux nothing is shown.
//!
//! ```
//! use wakepath_context::Record;
//!
//! let record = Record::new([1; 16], [2; 8], 1);
//! let answer = record.with(|| 6 * 7); // here the thread works for this span
//! assert_eq!(answer, 42);
//! wakepath_context::attach!([1; 16], [3; 8], 1); // and from here to the end of the block for this one
//! ```
//!
//! A future is followed from thread to thread with [`Record::follow`]. Where a thread turns from one open span to another and back, as the threads of
//! an executor do, without leaving its CPU, no reader sees it. So the turns of a span can be noted, and put on it as the attribute
//! `wakepath.turns`, with [`Record::follow_turns`] and [`Record::with_turns`]:
//!
//! ```
//! # use wakepath_context::{Record, Turns};
//! # let (begun_ns, mut attributes) = (1_795_229_921_310_000_000u64, Vec::new());
//! let mut turns = Turns::new();
//! let answer = Record::new([1; 16], [2; 8], 1).with_turns(&mut turns, || 6 * 7);
//! if let Some(text) = turns.text(begun_ns) {
//!     attributes.push(("wakepath.turns", text.to_string()));
//! }
//! ```
//!
//! A reader finds the variable by its name among the dynamic symbols, where a program has it if it is linked with
//! `-Wl,--export-dynamic-symbol=otel_thread_ctx_v1`: a line in its build script, since a dependency cannot say so.
//!
//! Why nothing is ever seen half-written: a reader looks at a thread while it is stopped, as a signal handler does, at any
//! instruction. So the order of the instructions matters, and the compiler keeps it: it moves no access to memory over the `asm!` block
//! that looks up the variable, or over a compiler fence. The processor needs none: it shows its own stores in order.

#![no_std]

use core::cell::UnsafeCell;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::{compiler_fence, Ordering};
use core::task::{Context, Poll};

mod turns;

pub use turns::{Turns, TurnsText};

/// The ids of a span, as OTEP 4947 lays them out: 28 bytes; no attributes follow.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(4))]
pub struct Record {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    valid: u8,
    trace_flags: u8,
    attributes_bytes: u16,
}

const _: () = assert!(core::mem::size_of::<Record>() == 28);

impl Record {
    /// The record of a span; the flags are those of W3C's trace context.
    pub const fn new(trace_id: [u8; 16], span_id: [u8; 8], trace_flags: u8) -> Self {
        Self { trace_id, span_id, valid: 1, trace_flags, attributes_bytes: 0 }
    }

    /// The calling thread works for this span until the function returns or unwinds, and then for the one before.
    pub fn with<T>(&self, function: impl FnOnce() -> T) -> T {
        // SAFETY: the guard is dropped here, before the borrow ends, and guards within the function were dropped before.
        let _attached = unsafe { Attached::new(self) };
        function()
    }

    /// The same, and the time is noted as turns of the span, without that in which the thread works for other spans. Two readings of the clock and
    /// a call of the system (`gettid`) per turn.
    pub fn with_turns<T>(&self, turns: &mut Turns, function: impl FnOnce() -> T) -> T {
        turns::run(self, turns, function)
    }

    /// A future whose thread works for this span during each of its turns.
    pub const fn follow<F>(self, future: F) -> Following<F> {
        Following { record: UnsafeCell::new(self), future }
    }

    /// The same, and its turns are noted. It returns them with the future's own value.
    pub const fn follow_turns<F>(self, future: F) -> FollowingTurns<F> {
        FollowingTurns { followed: self.follow(future), turns: Turns::new() }
    }
}

/// The calling thread works for a span from here to the end of the block: its trace id, span id and flags. Across an `.await` use
/// [`Record::follow`]: with this, the future cannot be sent to another thread, and those that run meanwhile are taken for it.
#[macro_export]
macro_rules! attach {
    ($trace_id:expr, $span_id:expr, $trace_flags:expr) => {
        let record = $crate::Record::new($trace_id, $span_id, $trace_flags);
        // SAFETY: no one can name the two, so that they stay where they are and are dropped in the reverse order.
        let _attached = unsafe { $crate::Attached::new(&record) };
    };
}

/// The time in which a thread works for a span; [`attach!`] makes one.
#[derive(Debug)]
pub struct Attached<'a> {
    outer: *const Record,
    /// It ends in the thread in which it began.
    not_send: PhantomData<(&'a Record, *const ())>,
}

impl<'a> Attached<'a> {
    /// The thread works for this span from here on.
    ///
    /// # Safety
    /// It has to be dropped, in the calling thread, and behind those that were made later in this thread.
    pub unsafe fn new(record: &'a Record) -> Self {
        Self { outer: show(record), not_send: PhantomData }
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        show(self.outer);
    }
}

/// A future whose thread works for a span during each of its turns.
#[derive(Debug)]
pub struct Following<F> {
    // In a cell, so that a reader outside may look at it while the future is borrowed.
    record: UnsafeCell<Record>,
    future: F,
}

// SAFETY: nothing ever writes to the cell.
unsafe impl<F: Sync> Sync for Following<F> {}

impl<F: Future> Future for Following<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of here, and the record needs no pin.
        let (record, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&*this.record.get(), Pin::new_unchecked(&mut this.future))
        };
        record.with(|| future.poll(context))
    }
}

/// A future whose thread works for a span during each of its turns, and notes them.
#[derive(Debug)]
pub struct FollowingTurns<F> {
    followed: Following<F>,
    turns: Turns,
}

impl<F: Future> Future for FollowingTurns<F> {
    type Output = (F::Output, Turns);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future is not moved out of here, and the record and the turns need no pin.
        let (record, future, turns) = unsafe {
            let this = self.get_unchecked_mut();
            let Following { record, future } = &mut this.followed;
            (&*record.get(), Pin::new_unchecked(future), &mut this.turns)
        };
        record.with_turns(turns, || future.poll(context)).map(|value| (value, core::mem::take(turns)))
    }
}

/// The record that the calling thread shows.
fn shown() -> *const Record {
    // SAFETY: it is a variable of the calling thread.
    variable().map_or(ptr::null(), |variable| unsafe { variable.read() })
}

/// Shows a record, or none if it is null; returns the one that was shown.
#[inline]
fn show(record: *const Record) -> *const Record {
    let Some(variable) = variable() else { return ptr::null() };
    // SAFETY: it is a variable of the calling thread, which alone reads and writes it here.
    unsafe {
        let before = variable.read();
        turns::turn(before, record);
        // The record is whole before it is shown, and the one before is not touched while it is.
        compiler_fence(Ordering::SeqCst);
        variable.write_volatile(record);
        compiler_fence(Ordering::SeqCst);
        before
    }
}

// `thread_local!` gives a variable no name among the symbols, so that the assembler has to.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
core::arch::global_asm!(
    ".pushsection .tbss.otel_thread_ctx_v1,\"awT\",@nobits",
    ".weak otel_thread_ctx_v1",
    ".type otel_thread_ctx_v1, @object",
    ".size otel_thread_ctx_v1, 8",
    ".balign 8",
    "otel_thread_ctx_v1:",
    ".zero 8",
    ".popsection",
);

/// Where the calling thread has the variable, in every model: the linker makes two plain instructions of it in a program.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline]
fn variable() -> Option<*mut *const Record> {
    let at: *mut *const Record;
    // SAFETY: the sequence of the ABI for a thread's variable (TLSDESC), which changes no other register. It may use the stack.
    unsafe {
        core::arch::asm!(
            "leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax",
            "call *otel_thread_ctx_v1@tlscall(%rax)",
            "addq %fs:0, %rax",
            out("rax") at,
            options(att_syntax),
        );
    }
    Some(at)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn variable() -> Option<*mut *const Record> {
    None
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::task::Waker;
    use std::boxed::Box;
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::sync::Arc;

    /// The span id that the calling thread shows.
    fn shown() -> Option<u8> {
        // SAFETY: what is shown is alive.
        unsafe { variable()?.read().as_ref().map(|record| record.span_id[0]) }
    }

    fn record(id: u8) -> Record {
        Record::new([id; 16], [id; 8], 1)
    }

    #[test]
    fn the_outer_span_is_shown_again_behind_the_inner_one() {
        record(1).with(|| {
            assert_eq!(shown(), Some(1));
            record(2).with(|| assert_eq!(shown(), Some(2)));
            {
                attach!([3; 16], [3; 8], 1);
                attach!([4; 16], [4; 8], 1);
                assert_eq!(shown(), Some(4));
            }
            assert_eq!(shown(), Some(1));
            std::thread::spawn(|| assert_eq!(shown(), None)).join().expect("no panic");
        });
        assert_eq!(shown(), None);
    }

    #[test]
    fn a_panic_leaves_no_span_behind() {
        let unwound = catch_unwind(AssertUnwindSafe(|| record(1).with(|| panic!("on purpose"))));
        assert!(unwound.is_err());
        assert_eq!(shown(), None);
    }

    /// Returns pending once.
    struct Twice(bool);

    impl Future for Twice {
        type Output = Option<u8>;

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u8>> {
            if core::mem::replace(&mut self.0, true) {
                Poll::Ready(shown())
            } else {
                Poll::Pending
            }
        }
    }

    struct Nobody;

    impl std::task::Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_future_notes_its_turns_in_each_thread_and_returns_them() {
        let mut future = Box::pin(record(5).follow_turns(Twice(false)));
        let waker: Waker = Arc::new(Nobody).into();
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let other =
            std::thread::spawn(move || match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready((Some(5), turns)) => turns,
                _ => panic!("it shows its span"),
            });
        let turns = other.join().expect("no panic");
        let text = std::string::ToString::to_string(&turns.text(1).expect("they are known"));
        let threads: std::collections::HashSet<_> =
            text.split(' ').filter(|word| word.starts_with('@')).collect();
        assert_eq!(threads.len(), 2, "{text}");
    }

    #[test]
    fn a_future_shows_its_span_in_its_turns_alone_and_in_each_thread() {
        let mut future = Box::pin(record(5).follow(Twice(false)));
        let waker: Waker = Arc::new(Nobody).into();
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        assert_eq!(shown(), None);
        let other = std::thread::spawn(move || {
            assert_eq!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Some(5)));
            assert_eq!(shown(), None);
        });
        other.join().expect("no panic");
    }
}
