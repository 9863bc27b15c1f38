//! An answer's head where it has many paths, which need not be kept.

use std::collections::HashSet;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;

use crate::head::head;
use crate::problem::{self, CallsProblems};
use crate::{Head, PathAnswer, Recorded};

/// Paths' heads, added up.
#[derive(Debug, Default)]
pub(crate) struct PathsHead {
    /// From the first window's beginning to the last window's end.
    times: Option<(Stamp<Reference>, Stamp<Reference>)>,
    touched: HashSet<(Cpu, Stamp<Reference>, Stamp<Reference>)>,
    clock_error_ns: u64,
    has_no_bound: bool,
    problems: CallsProblems,
}

impl PathsHead {
    pub(crate) fn add(&mut self, path: &PathAnswer<'_>) {
        let window = path.path.window;
        let (from, to) = self.times.unwrap_or((window.from, window.to));
        self.times = Some((from.min(window.from), to.max(window.to)));
        self.touched.extend(path.head.losses.iter().map(|loss| (loss.cpu, loss.from, loss.to)));
        match path.head.clock_error_ns {
            Some(ns) => self.clock_error_ns = self.clock_error_ns.max(ns),
            None => self.has_no_bound = true,
        }
        path.head.problems.iter().for_each(|problem| self.problems.add(problem));
    }

    pub(crate) fn finish(self, recorded: &Recorded) -> Head {
        let (from, to) = self.times.unwrap_or((recorded.from(), recorded.from()));
        let mut head = head(recorded, from, to);
        let losses = head.losses.iter().copied().zip(head.loss_hosts.iter().copied());
        (head.losses, head.loss_hosts) =
            losses.filter(|(loss, _)| self.touched.contains(&(loss.cpu, loss.from, loss.to))).unzip();
        head.clock_error_ns = Some(self.clock_error_ns).filter(|_| !self.has_no_bound);
        self.problems.add_to(&mut head.problems);
        problem::sort(&mut head.problems);
        head
    }
}
