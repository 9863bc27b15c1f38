//! A recording's metadata: the kernel records' layouts as CTF, and the facts about the recording.

use wakepath_ctf::packet;
use wakepath_ctf::schema::{
    ByteOrder, Clock, EnvValue, EventClass, Field, FieldType, Integer, Mapping, Metadata, StreamClass,
    Structure,
};
use wakepath_ctf::tsdl::Facts;
use wakepath_kernel_records::Buffer;
use wakepath_kernel_records::layout::{self, CONTEXTS, Element, LAYOUTS, Layout};

use crate::{ClockReading, HostIdentity};

/// The format version that this crate writes, and the newest that it reads.
pub const FORMAT: i64 = 17;

/// The value of `tracer_name` in wakepath's metadata alone.
pub(crate) const TRACER: &str = "wakepath";

const CLOCK: &str = "monotonic";

/// The metadata's facts beside the layouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordingFacts {
    pub uuid: [u8; 16],
    pub format: i64,
    pub host: HostIdentity,
    /// Realtime − monotonic at the beginning, ns.
    pub offset_ns: i128,
    pub wakepath: String,
    pub options: String,
    /// The targeted cgroup, unit or container, if any.
    pub cgroup: Option<String>,
}

pub(crate) fn offset_ns(clock: ClockReading) -> i128 {
    i128::from(clock.realtime_ns) - i128::from(clock.monotonic_ns)
}

pub(crate) const fn stream_id(buffer: Buffer) -> u32 {
    match buffer {
        Buffer::Sched => 0,
        Buffer::Net => 1,
        Buffer::Life => 2,
    }
}

/// A recording's metadata.
pub(crate) fn metadata(facts: &RecordingFacts) -> Metadata {
    let text = |key: &str, value: &str| (key.to_owned(), EnvValue::Text(value.to_owned()));
    let number = |key: &str, value: i64| (key.to_owned(), EnvValue::Number(value));
    let host = &facts.host;
    let cgroup = facts.cgroup.as_ref().map(|cgroup| text("cgroup", cgroup));
    Metadata {
        uuid: Some(facts.uuid),
        // The byte order in `packet` and in the records.
        byte_order: ByteOrder::Little,
        env: [
            text("tracer_name", TRACER),
            number("format", facts.format),
            text("wakepath", &facts.wakepath),
            text("domain", "kernel"),
            text("sysname", "Linux"),
            text("hostname", &host.name),
            text("boot_id", &host.boot_id),
            text("kernel_release", &host.kernel_release),
            text("machine", &host.machine),
            number("cpus", host.cpus.into()),
            text("options", &facts.options),
        ]
        .into_iter()
        .chain(cgroup)
        .collect(),
        clocks: vec![Clock {
            name: CLOCK.to_owned(),
            uuid: None,
            description: "CLOCK_MONOTONIC".to_owned(),
            frequency: 1_000_000_000,
            absolute: None,
            // A Euclidean remainder is never negative, as CTF requires.
            offset_s: facts.offset_ns.div_euclid(1_000_000_000) as i64,
            offset: facts.offset_ns.rem_euclid(1_000_000_000) as u64,
        }],
        packet_header: packet::header_fields(),
        streams: Buffer::ALL.into_iter().map(stream).collect(),
    }
}

fn stream(buffer: Buffer) -> StreamClass {
    let stamp = Integer { clock: Some(CLOCK.to_owned()), ..Integer::unsigned(64) };
    StreamClass {
        id: stream_id(buffer).into(),
        packet_context: packet::context_fields(CLOCK, buffer.counts()),
        // `struct wp_header`, in two parts: readers show an event's context and hide its header. babeltrace2 warns
        // about header fields that it does not need.
        event_header: vec![
            Field::new("timestamp", FieldType::Integer(stamp)),
            Field::new("id", FieldType::Integer(Integer::unsigned(8))),
        ]
        .into(),
        event_context: vec![
            Field::new("context", enumeration(1, CONTEXTS)),
            Field::new(
                if buffer.counts() { "seq" } else { "cpu" },
                FieldType::Integer(Integer::unsigned(16)),
            ),
            Field::new("tid", FieldType::Integer(Integer::unsigned(32))),
        ]
        .into(),
        events: LAYOUTS.iter().filter(|layout| buffer.holds(layout.kind)).map(event).collect(),
    }
}

fn event(layout: &Layout) -> EventClass {
    let fixed = layout.fields.iter().map(|field| Field::new(field.name, fixed_type(field.ty)));
    let tail = layout.tail.iter().map(|tail| {
        let element = match tail.element {
            Element::Address => Integer::hexadecimal(64),
            Element::Text => Integer::character(),
            Element::Octet => Integer::hexadecimal(8),
        };
        let element = Box::new(FieldType::Integer(element));
        Field::new(tail.name, FieldType::Sequence(element, tail.count.to_owned()))
    });
    EventClass {
        id: layout.kind.number().into(),
        name: layout.name.to_owned(),
        context: Structure::default(),
        fields: fixed.chain(tail).collect(),
    }
}

fn fixed_type(ty: layout::FieldType) -> FieldType {
    let array = |element, count: usize| FieldType::Array(Box::new(FieldType::Integer(element)), count as u64);
    match ty {
        layout::FieldType::Number(bytes) => FieldType::Integer(Integer::unsigned(bits(bytes))),
        layout::FieldType::Bits(bytes) => FieldType::Integer(Integer::hexadecimal(bits(bytes))),
        layout::FieldType::Choice(bytes, names) => enumeration(bytes, names),
        layout::FieldType::Text(bytes) => array(Integer::character(), bytes),
        layout::FieldType::Octets(bytes) => array(Integer::unsigned(8), bytes),
    }
}

fn enumeration(bytes: usize, names: &[(&str, u64)]) -> FieldType {
    let names = names.iter().map(|&(name, value)| Mapping::new(name, value));
    FieldType::Enumeration(Integer::unsigned(bits(bytes)), names.collect())
}

const fn bits(bytes: usize) -> u32 {
    bytes as u32 * 8
}

/// Why the metadata belongs to no readable recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetadataError {
    /// Another program wrote it.
    Foreign,
    /// A later wakepath wrote it, in this format.
    Newer(i64),
    /// The missing fact.
    Lacks(&'static str),
}

/// Reads the facts that [`metadata`] writes.
pub(crate) fn recording_facts(facts: &Facts) -> Result<RecordingFacts, MetadataError> {
    if facts.text("tracer_name") != Some(TRACER) {
        return Err(MetadataError::Foreign);
    }
    let format = match facts.number("format") {
        Some(format) if format > FORMAT => return Err(MetadataError::Newer(format)),
        Some(format @ 1..) => format,
        _ => return Err(MetadataError::Lacks("the number of its format")),
    };
    let text = |key: &'static str| facts.text(key).map(str::to_owned).ok_or(MetadataError::Lacks(key));
    if facts.clock.frequency != 1_000_000_000 {
        return Err(MetadataError::Lacks("a clock that counts nanoseconds"));
    }
    Ok(RecordingFacts {
        uuid: facts.uuid,
        format,
        host: HostIdentity {
            name: text("hostname")?,
            boot_id: text("boot_id")?,
            kernel_release: text("kernel_release")?,
            machine: text("machine")?,
            cpus: facts
                .number("cpus")
                .and_then(|cpus| u32::try_from(cpus).ok())
                .ok_or(MetadataError::Lacks("the number of CPUs"))?,
        },
        offset_ns: i128::from(facts.clock.offset_s) * 1_000_000_000 + i128::from(facts.clock.offset),
        wakepath: text("wakepath")?,
        options: text("options")?,
        cgroup: facts.text("cgroup").map(str::to_owned),
    })
}

/// The limit on metadata size, bytes.
pub(crate) const MAX_METADATA_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use wakepath_ctf::tsdl;

    use super::*;

    #[test]
    fn the_facts_come_back_as_they_were_written_and_stamps_have_their_clock() {
        for offset_ns in [1_750_000_000_123_456_789, 5, 0, -1_500_000_000] {
            let facts = RecordingFacts {
                uuid: *b"\x00recording test\xff",
                format: FORMAT,
                host: HostIdentity {
                    name: "web3".to_owned(),
                    boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
                    kernel_release: "6.18.0".to_owned(),
                    machine: "x86_64".to_owned(),
                    cpus: 4,
                },
                offset_ns,
                wakepath: "0.1.0".to_owned(),
                options: "-- sleep 1".to_owned(),
                cgroup: Some("/user.slice".to_owned()),
            };
            let written = metadata(&facts);
            let read = tsdl::read_facts(&tsdl::write(&written)).expect("what was written");
            assert_eq!(recording_facts(&read), Ok(facts), "{offset_ns}");
            for stream in written.streams {
                let stamp = stream.event_header.fields.first().map(|field| &field.ty);
                let has_clock =
                    matches!(stamp, Some(FieldType::Integer(stamp)) if stamp.clock.as_deref() == Some(CLOCK));
                assert!(has_clock, "{stamp:?}");
            }
        }
    }
}
