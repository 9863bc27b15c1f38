//! A `perf.data` record, as `include/uapi/linux/perf_event.h` lays it out.

use std::collections::HashMap;

use byteorder::LittleEndian;
use linux_perf_event_reader::constants::PERF_RECORD_MISC_MMAP_BUILD_ID;
use linux_perf_event_reader::{
    CommOrExecRecord, CommonData, Endianness, EventRecord, ForkOrExitRecord, LostRecord, Mmap2FileId,
    RawData, RawEventRecord, RecordParseInfo, RecordType, SampleFormat, get_record_id,
};

use super::container::{Attribute, u32_at, u64_at};

/// Every record's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub kind: u32,
    pub misc: u16,
    /// The record's size with this head, bytes.
    pub size: usize,
}

/// The first kind among perf's own records.
const OWN: u32 = 64;
pub(super) const HEADER_ATTRIBUTE: u32 = 64;
pub(super) const TRACING_DATA: u32 = 66;
const BUILD_ID: u32 = 67;
const FINISHED_ROUND: u32 = 68;
const ID_INDEX: u32 = 69;
const AUXTRACE: u32 = 71;
pub(super) const FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
/// Whole words behind their size in bytes.
const COMPRESSED_SIZED: u32 = 83;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;

impl RecordHead {
    pub const SIZE: usize = 8;
    /// The largest record, bytes.
    pub const MAX_BYTES: usize = u16::MAX as usize;

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..Self::SIZE)?;
        let misc = u16::from_le_bytes([head[4], head[5]]);
        let size = u16::from_le_bytes([head[6], head[7]]);
        Some(Self { kind: u32_at(head, 0), misc, size: size.into() })
    }

    /// Whether such a record is possible: kernels know 21 kinds, perf about 20 more, and all but two are whole words.
    pub const fn is_plausible(self) -> bool {
        let known = matches!(self.kind, 1..=40 | OWN..=100);
        let whole = self.size.is_multiple_of(8) || matches!(self.kind, FEATURE | COMPRESSED);
        known && self.size >= Self::SIZE && whole
    }

    pub const fn is_sample(self) -> bool {
        self.kind == 9
    }

    pub const fn is_switch(self) -> bool {
        matches!(self.kind, 14 | 15)
    }

    pub const fn ends_round(self) -> bool {
        self.kind == FINISHED_ROUND
    }

    pub const fn is_build_id(self) -> bool {
        self.kind == BUILD_ID
    }

    pub const fn is_compressed(self) -> bool {
        matches!(self.kind, COMPRESSED | COMPRESSED_SIZED)
    }

    /// Whether it is about a process: a mapping, a name, a birth or namespaces.
    pub const fn describes_process(self) -> bool {
        matches!(self.kind, 1 | 3 | 7 | 10 | 16)
    }

    /// The record's piece of a compressed stream.
    pub fn compressed(self, body: &[u8]) -> Option<&[u8]> {
        match self.kind {
            COMPRESSED => Some(body),
            COMPRESSED_SIZED => {
                let (size, piece) = body.split_at_checked(8)?;
                Some(&piece[..piece.len().min(usize::try_from(u64_at(size, 0)).unwrap_or(usize::MAX))])
            }
            _ => None,
        }
    }

    /// How many bytes follow behind the record, beyond its size: its first word.
    pub fn bytes_behind(self, body: &[u8]) -> u64 {
        match self.kind {
            AUXTRACE => u64_at(body, 0),
            TRACING_DATA => u32_at(body, 0).into(),
            _ => 0,
        }
    }

    pub fn bytes(self) -> [u8; Self::SIZE] {
        let ([a, b, c, d], [e, f]) = (self.kind.to_le_bytes(), self.misc.to_le_bytes());
        let [g, h] = (self.size as u16).to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

/// The stamp (ns) and the CPU, which order a record, and its event's attribute index.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OrderKey {
    pub at: Option<u64>,
    pub cpu: Option<u32>,
    pub attribute: Option<usize>,
}

/// A decoded record, with its current thread.
#[derive(Debug)]
pub(super) struct Decoded<'a> {
    /// ns; `None` without a stamp, or with a made-up stamp, 0.
    pub at: Option<u64>,
    pub cpu: Option<u32>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub kind: RecordKind<'a>,
}

#[derive(Debug)]
pub(super) enum RecordKind<'a> {
    /// A hit of an event.
    Sample {
        /// The attribute's index.
        attribute: usize,
        ip: Option<u64>,
        /// The call chain: words.
        chain: &'a [u8],
        /// A tracepoint's fields.
        raw: &'a [u8],
        misc: u16,
    },
    Comm {
        pid: u32,
        tid: u32,
        name: &'a [u8],
        exec: bool,
    },
    Fork {
        pid: u32,
        parent: u32,
        tid: u32,
        forker: u32,
    },
    Exit {
        tid: u32,
    },
    Code {
        pid: u32,
        from: u64,
        len: u64,
        offset: u64,
        build_id: Vec<u8>,
        path: &'a [u8],
    },
    /// The number of records without room in the kernel's buffer.
    Lost(u64),
    /// The total number of lost samples of the event with this id, by perf's final count.
    LostTotal {
        id: Option<u64>,
        count: u64,
    },
    /// The events' CPUs and threads, -1 for all: (id, CPU, thread).
    EventCpus(Vec<(u64, i64, i64)>),
    /// A record without use here.
    Other,
}

/// Decodes a file's records, by the layouts in its attributes.
#[derive(Debug)]
pub(super) struct Decoder {
    layouts: Vec<RecordParseInfo>,
    read_formats: Vec<u64>,
    by_id: HashMap<u64, usize>,
    /// An event asks for build ids.
    has_build_ids: bool,
}

impl Decoder {
    /// `None` where records do not identify their events: the id must be at the same place in all records.
    pub fn new(attributes: &[Attribute]) -> Option<Self> {
        let layouts: Vec<_> = attributes
            .iter()
            .map(|attribute| RecordParseInfo::new(&attribute.layout, Endianness::LittleEndian))
            .collect();
        let first = layouts.first()?.id_parse_info;
        let same = layouts.iter().all(|layout| layout.id_parse_info == first);
        let numbered = same && first.sample_record_id_offset_from_start.is_some();
        if layouts.len() > 1 && !numbered {
            return None;
        }
        let mut by_id = HashMap::new();
        for (index, attribute) in attributes.iter().enumerate() {
            by_id.extend(attribute.ids.iter().map(|&id| (id, index)));
        }
        let has_build_ids = attributes.iter().any(Attribute::asks_for_build_ids);
        let read_formats = attributes.iter().map(|one| one.read_format).collect();
        Some(Self { layouts, read_formats, by_id, has_build_ids })
    }

    /// The attribute index of a record's event. `None` for a sample with an unknown event; other such records have
    /// the first event's layout.
    fn attribute(&self, head: RecordHead, body: &[u8]) -> Option<usize> {
        if self.layouts.len() == 1 {
            return Some(0);
        }
        let by = &self.layouts[0].id_parse_info;
        let id = get_record_id::<LittleEndian>(RecordType(head.kind), RawData::Single(body), by);
        let known = id.and_then(|id| self.by_id.get(&id).copied());
        known.or((!head.is_sample()).then_some(0))
    }

    /// A record's order key.
    pub fn order_key(&self, head: RecordHead, body: &[u8]) -> OrderKey {
        if head.kind >= OWN {
            return OrderKey::default();
        }
        let Some(attribute) = self.attribute(head, body) else { return OrderKey::default() };
        let common = self.common(attribute, head, body).unwrap_or_default();
        // perf makes up records about the time before the recording, with the stamp 0.
        OrderKey { at: common.timestamp.filter(|&at| at != 0), cpu: common.cpu, attribute: Some(attribute) }
    }

    fn common(&self, attribute: usize, head: RecordHead, body: &[u8]) -> Result<CommonData, &'static str> {
        let (data, layout) = (RawData::Single(body), &self.layouts[attribute]);
        let common = if head.is_sample() {
            CommonData::parse_sample(data, layout)
        } else {
            CommonData::parse_nonsample(data, layout)
        };
        common.map_err(|_| SHORT)
    }

    /// The head, without the mark for a build id where the record has none: while another perf asks for build ids, the kernel
    /// marks the mappings for all. A device's number stands there instead; few build ids have another length than 16 or 20.
    fn with_its_build_id(&self, head: RecordHead, body: &[u8]) -> RecordHead {
        let has_it = self.has_build_ids || matches!(body.get(32), Some(16 | 20));
        let misc = if has_it { head.misc } else { head.misc & !PERF_RECORD_MISC_MMAP_BUILD_ID };
        if head.kind == MMAP2 { RecordHead { misc, ..head } } else { head }
    }

    /// Decodes the used parts of a record.
    pub fn decode<'a>(&self, head: RecordHead, body: &'a [u8]) -> Result<Decoded<'a>, &'static str> {
        if head.kind >= OWN {
            let numbers = body.get(8..).unwrap_or_default().chunks_exact(32);
            let numbers = numbers.map(|one| (u64_at(one, 0), u64_at(one, 16) as i64, u64_at(one, 24) as i64));
            let is_index = head.kind == ID_INDEX;
            let kind = if is_index { RecordKind::EventCpus(numbers.collect()) } else { RecordKind::Other };
            return Ok(Decoded { at: None, cpu: None, pid: None, tid: None, kind });
        }
        let attribute = self.attribute(head, body).ok_or("it is of an event that is described nowhere")?;
        let layout = &self.layouts[attribute];
        let common = self.common(attribute, head, body)?;
        let kind = match head.kind {
            9 => self.sample(attribute, head.misc, body)?,
            _ => non_sample(self.with_its_build_id(head, body), body, layout, common.id)?,
        };
        let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
        Ok(Decoded {
            at: common.timestamp.filter(|&at| at != 0),
            cpu: common.cpu,
            pid: number(common.pid),
            tid: number(common.tid),
            kind,
        })
    }

    fn sample<'a>(
        &self,
        attribute: usize,
        misc: u16,
        body: &'a [u8],
    ) -> Result<RecordKind<'a>, &'static str> {
        let layout = &self.layouts[attribute];
        let format = layout.sample_format;
        let has = |what| format.contains(what);
        let before = SampleFormat::IDENTIFIER
            | SampleFormat::IP
            | SampleFormat::TID
            | SampleFormat::TIME
            | SampleFormat::ADDR
            | SampleFormat::ID
            | SampleFormat::STREAM_ID
            | SampleFormat::CPU
            | SampleFormat::PERIOD;
        let words = format.intersection(before).bits().count_ones() as usize;
        let mut rest = Words { bytes: body.get(words * 8..).ok_or(SHORT)? };
        let ip = has(SampleFormat::IP).then(|| u64_at(body, usize::from(has(SampleFormat::IDENTIFIER)) * 8));
        if has(SampleFormat::READ) {
            // PERF_FORMAT_: times enabled and running; a number, a group; lost.
            let read = self.read_formats[attribute];
            let (times, each) =
                ((read & 3).count_ones() as u64, 1 + u64::from((read & 0b1_0100).count_ones()));
            let words = if read & 8 == 0 {
                times + each
            } else {
                times.checked_add(rest.word()?.checked_mul(each).ok_or(SHORT)?).ok_or(SHORT)?
            };
            rest.words(words)?;
        }
        let chain = if has(SampleFormat::CALLCHAIN) {
            let words = rest.word()?;
            rest.words(words)?
        } else {
            &[]
        };
        let raw = if has(SampleFormat::RAW) { rest.raw()? } else { &[] };
        Ok(RecordKind::Sample { attribute, ip, chain, raw, misc })
    }
}

const SHORT: &str = "it is shorter than what it should hold";

/// A sample's rest, in words.
struct Words<'a> {
    bytes: &'a [u8],
}

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<u64, &'static str> {
        self.words(1).map(|word| u64_at(word, 0))
    }

    fn words(&mut self, count: u64) -> Result<&'a [u8], &'static str> {
        let bytes = count.checked_mul(8).and_then(|bytes| usize::try_from(bytes).ok());
        let (taken, rest) = bytes.and_then(|bytes| self.bytes.split_at_checked(bytes)).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn raw(&self) -> Result<&'a [u8], &'static str> {
        let (size, rest) = self.bytes.split_first_chunk().ok_or(SHORT)?;
        rest.get(..u32::from_le_bytes(*size) as usize).ok_or(SHORT)
    }
}

/// Decodes a record other than a sample.
fn non_sample<'a>(
    head: RecordHead,
    body: &'a [u8],
    layout: &RecordParseInfo,
    id: Option<u64>,
) -> Result<RecordKind<'a>, &'static str> {
    // The crate does not check a build id's length; the kernel's have at most 20 bytes.
    let has_build_id = head.kind == MMAP2 && head.misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0;
    if has_build_id && body.get(32).is_none_or(|&len| len > 20) {
        return Err("its build id is longer than 20 bytes");
    }
    if head.kind == LOST_SAMPLES {
        let count = u64_at(body.get(..8).ok_or(SHORT)?, 0);
        return Ok(RecordKind::LostTotal { id, count });
    }
    let record = RawEventRecord::new(RecordType(head.kind), head.misc, RawData::Single(body), *layout);
    let number = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok(match record.parse().map_err(|_| SHORT)? {
        EventRecord::Comm(CommOrExecRecord { pid, tid, name, is_execve }) => {
            RecordKind::Comm { pid: number(pid), tid: number(tid), name: bytes(name), exec: is_execve }
        }
        EventRecord::Fork(ForkOrExitRecord { pid, ppid, tid, ptid, .. }) => RecordKind::Fork {
            pid: number(pid),
            parent: number(ppid),
            tid: number(tid),
            forker: number(ptid),
        },
        EventRecord::Exit(ForkOrExitRecord { tid, .. }) => RecordKind::Exit { tid: number(tid) },
        EventRecord::Lost(LostRecord { count, .. }) => RecordKind::Lost(count),
        EventRecord::Mmap(map) if map.is_executable && map.pid >= 0 => RecordKind::Code {
            pid: number(map.pid),
            from: map.address,
            len: map.length,
            offset: map.page_offset,
            build_id: Vec::new(),
            path: bytes(map.path),
        },
        EventRecord::Mmap2(map) if map.protection & PROT_EXEC != 0 && map.pid >= 0 => RecordKind::Code {
            pid: number(map.pid),
            from: map.address,
            len: map.length,
            offset: map.page_offset,
            build_id: match map.file_id {
                Mmap2FileId::BuildId(id) => id,
                Mmap2FileId::InodeAndVersion(_) => Vec::new(),
            },
            path: bytes(map.path),
        },
        _ => RecordKind::Other,
    })
}

const PROT_EXEC: u32 = 4;

/// Data as a single piece; a file's data always are.
fn bytes(data: RawData<'_>) -> &[u8] {
    match data {
        RawData::Single(bytes) | RawData::Split(bytes, _) => bytes,
    }
}
