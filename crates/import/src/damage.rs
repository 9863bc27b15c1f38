//! The reasons for which bytes of another tracer's trace cannot be read.

use wakepath_ctf::stream::FaultKind;

/// Why bytes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("cannot be read: {0}")]
    Io(String),
    #[error(transparent)]
    Stream(#[from] FaultKind),
    #[error("the description of the tracepoints makes no sense from here on")]
    Formats,
    #[error("no record: {0} bytes are skipped")]
    NoRecord(u64),
    #[error("no record: {0} bytes are skipped, up to the end of the records")]
    NoMoreRecords(u64),
    #[error("no record: the file was changed while it was read")]
    Changed,
    #[error("too much is damaged: the rest is not read")]
    TooMany,
    #[error("{0} bytes should follow, and the records end before")]
    RecordsEnd(u64),
    #[error(
        "the records end here, because perf did not finish the file: those of the last moments may be missing"
    )]
    Unfinished,
    #[error("the file ends here, and {0} bytes of records should follow: it was cut short")]
    RecordsMissing(u64),
    #[error("the file ends within its section {0}, or in front of it: it was cut short")]
    SectionMissing(u8),
    #[error("the stream ends within a round of perf: it was cut short, or perf did not finish it")]
    StreamCut,
    #[error("the compressed records make no sense from here on, and the rest is not read")]
    CompressionDamaged,
    #[error(
        "the compressed records do not begin in this file: it is damaged, or a later part of perf record -z --switch-output, and \
             then its records can be read only together with all parts before it: give them all, or their folder"
    )]
    NoCompressionBegin,
    #[error("records are missing between this part and the part before ({0}): that time is not known")]
    PartMissing(String),
    #[error("more records are compressed here than is possible, or fits into memory: the rest is not read")]
    TooManyCompressed,
    #[error(
        "the description of the tracepoints is missing: the event sched:sched_switch among them is proved by {links} switches from \
             the thread to which the CPU's last one led ({broken} switches left another thread); wake-ups and other events are \
             not read"
    )]
    Proved { links: u64, broken: u64 },
    #[error("at byte {0} of the decompressed records: {1}")]
    Decompressed(u64, String),
    #[error("a page ends after {0} bytes, within its head")]
    PageCut(usize),
    #[error("a page of {page} bytes should hold {used} bytes of events")]
    PageOverfull { page: usize, used: usize },
    #[error("a page begins at no time, and is not read")]
    PageWithoutStamp,
    #[error("a page begins before the last event of the page in front: stamps in front are too late")]
    PageBack,
    #[error("an event goes beyond the end of its page; the rest of its page is skipped")]
    EventCut,
    #[error("an event of {0} bytes goes beyond the end of its page; the rest of its page is skipped")]
    EventOverrun(u64),
    #[error("an event cannot be of {0} bytes; the rest of its page is skipped")]
    EventSize(u64),
    #[error("{0} compressed bytes should follow, and the CPU's end before")]
    ChunkCut(u32),
    #[error("{0} bytes follow behind the CPU's last chunk of pages, and are not read")]
    ChunksEnd(u64),
    #[error("a chunk of pages has an unknown compression")]
    ChunkUnknown,
    #[error("a chunk of pages cannot be decompressed")]
    ChunkDamaged,
    #[error("the file was cut short: the pages of CPU {cpu} should reach to byte {to}")]
    FileCut { cpu: u32, to: u64 },
    #[error(
        "the file was cut short before the places of its pages: they are found by their order, and other buffers are missing"
    )]
    PlacesCut,
    #[error("the file was cut short: another buffer should follow")]
    OtherBufferCut,
    #[error(
        "CPU {cpu}: the kernel counted {counted} events, and the file has {read}: a part is missing, perhaps in front, so the CPU is \
         unknown until its first event"
    )]
    EventsMissing { cpu: u32, counted: u64, read: u64 },
    #[error("an event's stamp lies before that of the event in front: the event is left out")]
    StampBack,
    #[error("an event names a thread by a number that no kernel gives out: the event is left out")]
    NoSuchThread,
    #[error("an event's stamp lies far behind the end of its packet: the event is left out")]
    StampFarAhead,
    #[error("a bundle of events makes no sense from some place on: its other events are missing")]
    BundleCut,
    #[error("too many bundles of events overlap: this bundle is not read")]
    TooManyOverlap,
}
