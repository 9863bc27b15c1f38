//! The stacks of switch-outs and wake-ups, each stored once.

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Stack, StackId};

use crate::{Occupant, ThreadIndex};

/// A stack returned by [`crate::Graph::stack_at`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackAt<'a> {
    /// The recorded stack.
    Recorded(StackIndex, &'a Stack),
    /// A stack was taken, and its frames were lost.
    Lost,
}

/// The index of a distinct stack in a graph: equal indices mean equal stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackIndex(pub u32);

/// The distinct stacks of switch-outs and wake-ups, and their uses by thread and time, 16 bytes each.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    indices: HashMap<StackId, u32>,
    stacks: Vec<Option<Stack>>,
    uses: Vec<Use>,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    at: Stamp<Reference>,
    thread: u32,
    stack: u32,
}

impl Stacks {
    pub(crate) fn define(&mut self, id: StackId, stack: &Stack) {
        let index = self.index(id);
        self.stacks[index as usize].get_or_insert_with(|| stack.clone());
    }

    pub(crate) fn push(&mut self, at: Stamp<Reference>, current: Occupant, id: StackId) {
        let Occupant::Thread(thread) = current else { return };
        let stack = self.index(id);
        self.uses.push(Use { at, thread: thread.0, stack });
    }

    fn index(&mut self, id: StackId) -> u32 {
        let next = self.stacks.len() as u32;
        let index = *self.indices.entry(id).or_insert(next);
        if index == next {
            self.stacks.push(None);
        }
        index
    }

    pub(crate) fn sort(&mut self) {
        self.uses.sort_by_key(|one| (one.thread, one.at));
        self.uses.shrink_to_fit();
        self.indices = HashMap::new();
    }

    /// Whether no stack was ever taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    pub(crate) fn at(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StackAt<'_>> {
        let found = self.uses.binary_search_by_key(&(thread.0, at), |one| (one.thread, one.at)).ok()?;
        let index = self.uses[found].stack;
        Some(match &self.stacks[index as usize] {
            Some(stack) => StackAt::Recorded(StackIndex(index), stack),
            None => StackAt::Lost,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let frames: usize = self
            .stacks
            .iter()
            .flatten()
            .map(|stack| size_of_val(&*stack.kernel) + size_of_val(&*stack.user))
            .sum();
        size_of_val(&*self.uses) + size_of_val(&*self.stacks) + frames
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::Tid;

    use super::*;

    #[test]
    fn a_stack_defined_once_is_found_at_each_use_and_one_never_defined_is_lost() {
        let stack = Stack { tgid: Tid(7), kernel: [9].into(), user: [1, 2].into(), scanned: 1, proved: 1 };
        let mut stacks = Stacks::default();
        let thread = |index| Occupant::Thread(ThreadIndex(index));
        let at = Stamp::from_ns;
        stacks.push(at(10), thread(1), stack.id());
        stacks.push(at(20), thread(0), StackId(5));
        // Two CPUs' records come in no order; each may define the same stack.
        stacks.define(stack.id(), &stack);
        stacks.define(stack.id(), &stack);
        stacks.push(at(30), thread(1), stack.id());
        stacks.push(at(30), Occupant::Idle, stack.id());
        stacks.sort();
        let known = Some(StackAt::Recorded(StackIndex(0), &stack));
        for (thread, ns, expected) in [(1, 10, known), (1, 30, known), (0, 20, Some(StackAt::Lost))] {
            assert_eq!(stacks.at(ThreadIndex(thread), at(ns)), expected, "{thread} at {ns}");
        }
        for (thread, ns) in [(1, 20), (0, 10), (2, 10), (0, 30)] {
            assert_eq!(stacks.at(ThreadIndex(thread), at(ns)), None, "{thread} at {ns}");
        }
    }
}
