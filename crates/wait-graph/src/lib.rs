//! The execution graph: who ran, who waited, who woke whom (G15 §4.3, §5.3.2).

/// A thread of the graph: (host, tid, start) made into a dense number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIndex(pub u32);
