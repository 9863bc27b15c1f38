//! A recording's problems: its damaged parts.

use std::path::Path;

use wakepath_ctf::FaultKind;
use wakepath_event::Damage;
use wakepath_kernel_records::DecodeError;

/// A damaged part of a recording. Its readable records are emitted all the same; unreadable records are a loss among
/// the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadProblem {
    /// The file's path within the recording.
    pub file: String,
    /// The offset in the file, bytes.
    pub offset: u64,
    /// The fault.
    pub fault: ReadFault,
}

/// A fault in a recording's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ReadFault {
    #[error("no stream has this name: the file is not read")]
    UnknownFile,
    #[error("cannot be read: {0}")]
    Io(String),
    #[error(transparent)]
    Packets(#[from] FaultKind),
    #[error("the packet says it is of stream {stream}, CPU {cpu}")]
    PacketOfOther { stream: u32, cpu: u32 },
    #[error("packet {is} stands where {should} belongs")]
    PacketNumber { is: u64, should: u64 },
    #[error("the packet says it begins at stamp {begin} and ends at {end}")]
    PacketTimes { begin: u64, end: u64 },
    #[error("the packet says it ends at stamp {0}, and goes on")]
    PacketEnd(u64),
    #[error("the packet says it has {claimed} records, {found} can be read")]
    PacketCount { claimed: u64, found: u64 },
    #[error(transparent)]
    Record(#[from] DecodeError),
    #[error("record number {is} stands where {should} belongs")]
    RecordNumber { is: u16, should: u16 },
    #[error("a record of kind {0} does not belong here")]
    ForeignRecord(u8),
    #[error("stamp {stamp} comes after stamp {after}")]
    Backwards { stamp: u64, after: u64 },
    #[error("stamp {stamp} is later than the packet's end, {latest}")]
    TooLate { stamp: u64, latest: u64 },
    #[error("stamps {first} and {second} are the wrong way round")]
    StampsSwapped { first: u64, second: u64 },
    #[error("inside this record another begins")]
    RecordInside,
    #[error("this record ends where none begins: {0}")]
    RecordEnd(Box<Self>),
    #[error(
        "the stream's end is missing: nothing is known of its CPU in the last {:.3} s of the recording",
        *early_ns as f64 / 1e9
    )]
    EndMissing { early_ns: u64 },
    #[error("and {0} more problems behind this one")]
    More(u64),
}

impl From<ReadProblem> for Damage {
    fn from(problem: ReadProblem) -> Self {
        Self::at(Path::new(&problem.file), problem.offset, &problem.fault)
    }
}

/// A stream's problems. A file full of damage does not fill memory with them.
#[derive(Debug)]
pub(super) struct Problems {
    file: String,
    listed: Vec<ReadProblem>,
    more: u64,
}

/// The largest number of listed problems in a stream.
const MAX_PROBLEMS: usize = 100;

impl Problems {
    pub const fn new(file: String) -> Self {
        Self { file, listed: Vec::new(), more: 0 }
    }

    pub fn add(&mut self, offset: u64, fault: impl Into<ReadFault>) {
        if self.listed.len() < MAX_PROBLEMS {
            self.listed.push(ReadProblem { file: self.file.clone(), offset, fault: fault.into() });
        } else {
            self.more += 1;
        }
    }

    pub fn finish(mut self) -> Vec<ReadProblem> {
        if let (1.., Some(last)) = (self.more, self.listed.last()) {
            let (offset, fault) = (last.offset, ReadFault::More(self.more));
            self.listed.push(ReadProblem { file: self.file, offset, fault });
        }
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hundred_problems_are_listed_and_the_others_counted() {
        for (count, listed, more) in
            [(0, 0, None), (100, 100, None), (101, 101, Some(1)), (103, 101, Some(3))]
        {
            let mut problems = Problems::new("kernel/life".to_owned());
            (0..count).for_each(|offset| problems.add(offset, ReadFault::RecordInside));
            let found = problems.finish();
            assert_eq!(found.len(), listed, "{count}");
            let last = found.last().and_then(|last| match last.fault {
                ReadFault::More(more) => Some((last.offset, more)),
                _ => None,
            });
            assert_eq!(last, more.map(|more| (99, more)), "{count}");
        }
    }
}
