//! Stack samples of running threads.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Stack, Tid};

use crate::{Occupant, ThreadIndex};

/// A running thread's stack, taken by a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The sample's time.
    pub at: Stamp<Reference>,
    /// The process of the user addresses.
    pub tgid: Tid,
    /// Kernel addresses, innermost first.
    pub kernel: &'a [u64],
    /// User addresses, innermost first.
    pub user: &'a [u64],
    /// The number of proved user addresses, from the first on.
    pub proved: usize,
}

/// More frames per kind than any recorder takes.
const MAX_FRAMES: usize = u16::MAX as usize;

/// All samples, sorted by thread and time.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    rows: Vec<Row>,
    frames: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    thread: u32,
    at: Stamp<Reference>,
    tgid: Tid,
    frames: usize,
    kernel: u16,
    user: u16,
    proved: u16,
}

impl Samples {
    pub(crate) fn push(&mut self, at: Stamp<Reference>, current: Occupant, stack: &Stack) {
        let Occupant::Thread(thread) = current else { return };
        let [kernel, user] = [&stack.kernel, &stack.user].map(|frames| frames.len().min(MAX_FRAMES) as u16);
        let frames = self.frames.len();
        self.rows.push(Row {
            thread: thread.0,
            at,
            tgid: stack.tgid,
            frames,
            kernel,
            user,
            proved: stack.proved,
        });
        self.frames.extend_from_slice(&stack.kernel[..kernel.into()]);
        self.frames.extend_from_slice(&stack.user[..user.into()]);
    }

    pub(crate) fn sort(&mut self) {
        self.rows.sort_by_key(|row| (row.thread, row.at));
        self.rows.shrink_to_fit();
        self.frames.shrink_to_fit();
    }

    pub(crate) fn within(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Sample<'_>> {
        let begin = self.rows.partition_point(|row| (row.thread, row.at) < (thread.0, from));
        let end = self.rows.partition_point(|row| (row.thread, row.at) < (thread.0, to));
        self.rows[begin..end.max(begin)].iter().map(|row| {
            let (kernel, rest) = self.frames[row.frames..].split_at(row.kernel.into());
            let user = &rest[..row.user.into()];
            Sample { at: row.at, tgid: row.tgid, kernel, user, proved: row.proved.into() }
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.frames)
    }
}
