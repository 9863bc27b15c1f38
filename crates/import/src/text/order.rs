//! The lines by time.
//!
//! The programs print by time, except a few lines: `trace_pipe` prints a CPU's line as soon as it is there. Several files
//! behind each other go back once each. The lines wait here until there is no room: the oldest then goes on.

use std::collections::BTreeMap;

/// A waiting line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    /// ns.
    pub at: u64,
    pub number: u64,
    pub line: Box<[u8]>,
    /// Its CPU lost this number before it; 0 if not known.
    pub lost: Option<u64>,
}

/// The limits on the waiting lines.
const MAX_LINES: usize = if cfg!(test) { 4 } else { 1 << 16 };
const MAX_BYTES: usize = 16 << 20;

/// The waiting lines.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By stamp, and in the file's order where stamps are equal.
    waiting: BTreeMap<(u64, u64), Waiting>,
    bytes: usize,
    /// The stamp up to which lines went on.
    last: u64,
    /// A file without any line behind a later one needs no memory.
    is_sorted: bool,
}

/// A line is older than a line in front, which has gone on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Late(pub Waiting);

impl Order {
    pub fn new(is_sorted: bool) -> Self {
        Self { is_sorted, ..Self::default() }
    }

    /// Adds a line.
    pub fn add(&mut self, line: Waiting) -> Result<(), Late> {
        if line.at < self.last {
            return Err(Late(line));
        }
        self.bytes += line.line.len();
        self.waiting.insert((line.at, line.number), line);
        Ok(())
    }

    /// The next line to go on, for lack of room; at the file's end, any next line.
    pub fn next(&mut self, is_end: bool) -> Option<Waiting> {
        let is_full = self.waiting.len() > MAX_LINES || self.bytes > MAX_BYTES;
        if !(is_full || is_end || self.is_sorted) {
            return None;
        }
        let (_, line) = self.waiting.pop_first()?;
        self.bytes -= line.line.len();
        self.last = line.at;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line numbers in order, and the late lines' numbers.
    fn order(stamps: &[u64], is_sorted: bool) -> (Vec<u64>, Vec<u64>) {
        let (mut order, mut sorted, mut late) = (Order::new(is_sorted), Vec::new(), Vec::new());
        for (number, &at) in (1..).zip(stamps) {
            match order.add(Waiting { at, number, line: Box::new([7]), lost: None }) {
                Ok(()) => sorted.extend(order.next(false).map(|line| line.number)),
                Err(Late(line)) => late.push(line.number),
            }
        }
        sorted.extend(std::iter::from_fn(|| order.next(true)).map(|line| line.number));
        assert_eq!(order.bytes, 0);
        (sorted, late)
    }

    #[test]
    fn lines_that_stand_a_little_late_are_put_into_their_place() {
        assert_eq!(order(&[1, 2, 2, 3], true), (vec![1, 2, 3, 4], vec![]));
        assert_eq!(order(&[10, 30, 20, 20, 40, 50, 60], false), (vec![1, 3, 4, 2, 5, 6, 7], vec![]));
    }

    #[test]
    fn a_line_that_is_older_than_a_line_that_went_on_is_late() {
        assert_eq!(order(&[10, 20, 30, 40, 50, 60, 15, 20], false), (vec![1, 2, 8, 3, 4, 5, 6], vec![7]));
    }

    #[test]
    fn few_long_lines_leave_no_room_either() {
        let mut order = Order::new(false);
        for (number, expected) in [(1, None), (2, None), (3, Some(1))] {
            let line = Waiting { at: number, number, line: vec![7; MAX_BYTES / 3 + 1].into(), lost: None };
            assert_eq!(order.add(line), Ok(()));
            assert_eq!(order.next(false).map(|line| line.number), expected);
        }
    }
}
