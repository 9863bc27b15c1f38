//! The layout of a `perf.data`, and its events' attributes.

use std::io;
use std::ops::Range;
use std::path::Path;

use linux_perf_event_reader::PerfEventAttr;
use wakepath_ctf::Source;

use super::pipe;
use crate::{Fault, OpenError};

/// A file's layout, and its events' attributes.
#[derive(Debug)]
pub(super) struct Container {
    pub attributes: Vec<Attribute>,
    /// The records.
    pub data: Range<u64>,
    pub end: End,
    /// The descriptions of the machine and of the tracepoints, by feature number.
    pub sections: Vec<(u8, Range<u64>)>,
}

/// How a file's records end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The header's size is right.
    Whole,
    /// perf's stream to a pipe has no size: marks between its rounds show whether it is whole.
    Stream,
    /// At this place, where more should follow.
    Cut(u64, Fault),
    /// The records are whole, and a section behind them is not.
    SectionsCut(u64, Fault),
}

/// A requested event's attributes.
#[derive(Debug)]
pub(super) struct Attribute {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// The event within its kind; a tracepoint's number.
    pub config: u64,
    /// `PERF_FORMAT_*`, with unknown bits.
    pub read_format: u64,
    /// Its stamps' clock, a `CLOCK_*`; `None` for perf's own.
    pub clock: Option<u32>,
    /// Its records' layout.
    pub layout: PerfEventAttr,
    /// The ids in its records.
    pub ids: Vec<u64>,
    /// The kernel's structure, as the file has it.
    bytes: Box<[u8]>,
}

/// The same request, by the same ids: the kernel gives each request new ids.
impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        (&self.ids, &self.bytes) == (&other.ids, &other.bytes)
    }
}

impl Attribute {
    /// Parses a `struct perf_event_attr`, and the ids; `None` if it makes no sense.
    pub fn parse(own: &[u8], ids: &[u8]) -> Option<Self> {
        let (layout, _) = PerfEventAttr::parse::<_, byteorder::LittleEndian>(own).ok()?;
        Some(Self {
            kind: u32_at(own, 0),
            config: u64_at(own, 8),
            read_format: u64_at(own, 32),
            clock: (u64_at(own, 40) & USES_CLOCK != 0).then(|| u32_at(own, 92)),
            layout,
            ids: ids.chunks_exact(8).map(|id| u64_at(id, 0)).collect(),
            bytes: own.into(),
        })
    }

    /// Whether its buffer keeps the last records only, until perf reads it.
    pub fn is_overwritten(&self) -> bool {
        u64_at(&self.bytes, 40) & WRITES_BACKWARD != 0
    }

    /// Whether its mappings have the files' build ids.
    pub fn asks_for_build_ids(&self) -> bool {
        u64_at(&self.bytes, 40) & BUILD_IDS != 0
    }

    pub const fn is_tracepoint(&self) -> bool {
        self.kind == 2
    }
}

/// Feature numbers.
pub(super) mod feature {
    pub const TRACING_DATA: u8 = 1;
    pub const BUILD_ID: u8 = 2;
    pub const HOST_NAME: u8 = 3;
    pub const KERNEL_RELEASE: u8 = 4;
    pub const PERF_VERSION: u8 = 5;
    pub const COMMAND_LINE: u8 = 11;
    pub const COMPRESSED: u8 = 27;
    pub const CLOCK_DATA: u8 = 29;
}

/// A file's first bytes, in either byte order; only the first is read.
pub(super) const MAGIC: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// The first bytes in perf's first format.
pub(super) const FIRST_FORMAT: &[u8] = b"PERFFILE";

const HEADER: usize = 104;
/// A pipe stream's header.
const PIPE_HEADER: usize = 16;
/// A position and a size.
const SECTION: u64 = 16;
/// The largest section describes all a kernel's tracepoints in 3 MiB.
const MAX_SECTION_BYTES: u64 = 64 << 20;
const MAX_ATTRIBUTES: u64 = 1 << 16;
const MAX_IDS: usize = 1 << 20;
/// `attr.use_clockid`.
const USES_CLOCK: u64 = 1 << 25;
/// `attr.write_backward`.
const WRITES_BACKWARD: u64 = 1 << 27;
/// `attr.build_id`.
const BUILD_IDS: u64 = 1 << 34;

impl Container {
    pub fn read(source: &impl Source, path: &Path) -> Result<Self, OpenError> {
        let io = OpenError::io(path);
        let damaged = |offset, what: String| OpenError::Damaged { path: path.to_owned(), offset, what };
        let size = source.size().map_err(&io)?;
        let mut header = [0; HEADER];
        let read = source.read_at(0, &mut header).map_err(&io)?;
        if header[..8] == *FIRST_FORMAT {
            let why = "is a perf.data of perf's first format (PERFFILE), which is not read: record again with a \
                       newer perf";
            return Err(OpenError::unsupported(path, why));
        }
        if read < PIPE_HEADER || !MAGIC.contains(&&header[..8]) {
            return Err(OpenError::unsupported(path, "is no perf.data: it does not begin with PERFILE2"));
        }
        if header[..8] != *MAGIC[0] {
            return Err(OpenError::big_endian(path));
        }
        let word = |index: usize| u64_at(&header, index * 8);
        if word(1) == PIPE_HEADER as u64 {
            let (attributes, sections) = pipe::read(source, PIPE_HEADER as u64..size).map_err(&io)?;
            if attributes.is_empty() {
                let what = "no attributes of events follow: it was cut short";
                return Err(damaged(PIPE_HEADER as u64, what.to_owned()));
            }
            return Ok(Self { attributes, data: PIPE_HEADER as u64..size, end: End::Stream, sections });
        }
        if read < HEADER {
            return Err(damaged(read as u64, "the file ends within its header".to_owned()));
        }
        // The parts in front of the records must be there.
        let begins = |from: u64, bytes: u64, name: &str, offset: u64| {
            let what = format!(
                "{name} should take {bytes} bytes from byte {from} on, and the file ends at byte {size}: it was cut short"
            );
            damaged(offset, what)
        };
        let attributes = range(word(3), word(4)).filter(|range| range.end <= size);
        let attributes = attributes.ok_or_else(|| begins(word(3), word(4), "the attributes", 24))?;
        let records = range(word(5), word(6)).filter(|range| range.start < size);
        let records = records.ok_or_else(|| begins(word(5), word(6), "the records", 40))?;
        let (data, mut end) = match records {
            // perf writes the records' size when it ends.
            records if records.is_empty() => (records.start..size, End::Cut(size, Fault::Unfinished)),
            records if records.end > size => {
                (records.start..size, End::Cut(size, Fault::RecordsMissing(records.end - size)))
            }
            records => (records, End::Whole),
        };
        let features = (9..13).flat_map(|index| {
            let bits = word(index);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| (index as u8 - 9) * 64 + bit)
        });
        let mut sections = Vec::new();
        if end == End::Whole {
            for (index, feature) in features.enumerate() {
                let mut section = [0; SECTION as usize];
                let offset = data.end + index as u64 * SECTION;
                let listed = source.read_at(offset, &mut section).map_err(&io)? == section.len();
                let section = range(u64_at(&section, 0), u64_at(&section, 8)).filter(|_| listed);
                let there =
                    section.clone().map_or(size..size, |section| section.start..section.end.min(size));
                if end == End::Whole && section.is_none_or(|section| section != there) {
                    end = End::SectionsCut(size, Fault::SectionMissing(feature));
                }
                if !there.is_empty() {
                    sections.push((feature, there));
                }
            }
        }
        let mut container = Self { attributes: Vec::new(), data, end, sections };
        container.read_attributes(source, word(2), attributes, size, io, damaged)?;
        Ok(container)
    }

    fn read_attributes(
        &mut self,
        source: &impl Source,
        each: u64,
        range: Range<u64>,
        size: u64,
        io: impl Fn(io::Error) -> OpenError,
        damaged: impl Fn(u64, String) -> OpenError,
    ) -> Result<(), OpenError> {
        // An attribute has at most a page, and the place of its ids stands behind it.
        let smallest = u64::from(linux_perf_event_reader::constants::PERF_ATTR_SIZE_VER0) + SECTION;
        if !(smallest..=4096).contains(&each) {
            return Err(damaged(16, format!("attributes cannot be of {each} bytes each")));
        }
        let count = (range.end - range.start) / each;
        if count == 0 || count > MAX_ATTRIBUTES {
            return Err(damaged(24, format!("it has the attributes of {count} events")));
        }
        let mut known = 0;
        for index in 0..count {
            let offset = range.start + index * each;
            let mut bytes = vec![0; each as usize];
            source.read_at(offset, &mut bytes).map_err(&io)?;
            let (own, section) = bytes.split_at((each - SECTION) as usize);
            let (from, bytes) = (u64_at(section, 0), u64_at(section, 8));
            let fits = from.checked_add(bytes).is_some_and(|to| to <= size);
            known += usize::try_from(bytes / 8).unwrap_or(usize::MAX).min(MAX_IDS + 1);
            if !fits || known > MAX_IDS {
                let what = format!("event {index} cannot have {} ids from byte {from} on", bytes / 8);
                return Err(damaged(offset + each - SECTION, what));
            }
            let mut ids = vec![0; (bytes / 8 * 8) as usize];
            source.read_at(from, &mut ids).map_err(&io)?;
            let attribute = Attribute::parse(own, &ids);
            let what = || damaged(offset, format!("the attributes of event {index} make no sense"));
            self.attributes.push(attribute.ok_or_else(what)?);
        }
        Ok(())
    }

    /// A section's place and bytes; `None` without this section.
    pub fn section(&self, source: &impl Source, feature: u8) -> io::Result<Option<(u64, Vec<u8>)>> {
        let Some((_, range)) = self.sections.iter().find(|(number, _)| *number == feature) else {
            return Ok(None);
        };
        // The section lies within the file, but a file can have holes without disk space.
        let mut bytes = vec![0; (range.end - range.start).min(MAX_SECTION_BYTES) as usize];
        let read = source.read_at(range.start, &mut bytes)?;
        bytes.truncate(read);
        Ok(Some((range.start, bytes)))
    }

    /// A text section.
    pub fn text(&self, source: &impl Source, feature: u8) -> String {
        let Ok(Some((_, bytes))) = self.section(source, feature) else { return String::new() };
        let text = bytes.get(4..).unwrap_or_default();
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    /// Realtime less the stamps' clock, ns, if perf read both together.
    pub fn realtime_offset_ns(&self, source: &impl Source) -> Option<i128> {
        let (_, bytes) = self.section(source, feature::CLOCK_DATA).ok()??;
        let (version, realtime, clock) = (u32_at(&bytes, 0), u64_at(&bytes, 8), u64_at(&bytes, 16));
        (version == 1 && clock != 0).then(|| i128::from(realtime) - i128::from(clock))
    }
}

/// A range from a position and a size.
fn range(from: u64, bytes: u64) -> Option<Range<u64>> {
    Some(from..from.checked_add(bytes)?)
}

/// The number at a place in bytes that may be too few: missing bytes are 0.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = at.checked_add(8).and_then(|end| bytes.get(at..end)?.first_chunk());
    found.map_or(0, |&found| u64::from_le_bytes(found))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = at.checked_add(4).and_then(|end| bytes.get(at..end)?.first_chunk());
    found.map_or(0, |&found| u32::from_le_bytes(found))
}
