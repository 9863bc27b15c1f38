//! The service that a process says it is, in the memory where tracing libraries publish what holds for the whole process: OpenTelemetry's process
//! context (OTEP 4719). It is input from elsewhere: sizes are bounded, reads are checked, and a context that changed meanwhile is none.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use prost::Message;

/// The beginnings of the names of its mapping, in `/proc/PID/maps`.
const NAMES: [&[u8]; 3] = [b"/memfd:OTEL_CTX", b"[anon_shmem:OTEL_CTX]", b"[anon:OTEL_CTX]"];
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
const VERSION: u32 = 2;
/// The header: signature, version, bytes of the payload, the time at which it was published (0 while it is written), address of the payload.
const HEADER_BYTES: usize = 32;
/// The largest payload that is read, bytes.
const MAX_PAYLOAD_BYTES: usize = 64 << 10;
/// The longest name of a service, bytes.
const MAX_SERVICE_BYTES: usize = 256;

/// A context that a process published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    /// Where its header is.
    address: u64,
    /// When it was published, as the process says: another time is another context.
    at: u64,
    /// The name of the service; empty where it says none.
    pub(super) service: Box<str>,
}

impl Published {
    /// Looks for the context of a process.
    pub(super) fn find(tgid: u32) -> Option<Self> {
        let maps = fs::read(format!("/proc/{tgid}/maps")).ok()?;
        let memory = memory_of(tgid)?;
        maps.split(|&byte| byte == b'\n').filter_map(mapping).find_map(|address| Self::read(&memory, address))
    }

    /// Whether the process has published another one since, or none is there any more.
    pub(super) fn is_outdated(&self, tgid: u32) -> bool {
        let header = memory_of(tgid).and_then(|memory| Header::read(&memory, self.address));
        header.is_none_or(|header| header.at != self.at)
    }

    /// Reads the context whose header is at this address of a memory.
    fn read(memory: Memory<'_>, address: u64) -> Option<Self> {
        let header = Header::read(memory, address)?;
        let mut payload = vec![0; header.bytes];
        memory(header.payload, &mut payload)?;
        // The payload is that of this header if it still stands.
        if Header::read(memory, address)? != header {
            return None;
        }
        let context = Context::decode(&payload[..]).ok()?;
        let attributes = context.resource.unwrap_or_default().attributes;
        let mut names = attributes.into_iter().filter(|one| one.key == "service.name");
        let name = names.next().and_then(|one| one.value?.text).unwrap_or_default();
        let name = if name.len() <= MAX_SERVICE_BYTES { name } else { String::new() };
        Some(Self { address, at: header.at, service: name.into() })
    }
}

/// Reads the memory of a process at an address; `None` where it has none there.
type Memory<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

fn memory_of(tgid: u32) -> Option<impl Fn(u64, &mut [u8]) -> Option<()>> {
    let memory = File::open(format!("/proc/{tgid}/mem")).ok()?;
    Some(move |address, bytes: &mut [u8]| memory.read_exact_at(bytes, address).ok())
}

/// The address of a line in `/proc/PID/maps`, if its name is that of a context.
fn mapping(line: &[u8]) -> Option<u64> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let name = fields.nth(4)?.trim_ascii_start();
    NAMES.iter().any(|one| name.starts_with(one)).then_some(())?;
    u64::from_str_radix(range.split_once('-')?.0, 16).ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    bytes: usize,
    at: u64,
    payload: u64,
}

impl Header {
    /// `None` where there is none, or it is being written.
    fn read(memory: Memory<'_>, address: u64) -> Option<Self> {
        let mut bytes = [0; HEADER_BYTES];
        memory(address, &mut bytes)?;
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let header = Self { bytes: u32_at(12)? as usize, at: u64_at(16)?, payload: u64_at(24)? };
        let is_one = bytes.starts_with(SIGNATURE) && u32_at(8)? == VERSION;
        (is_one && header.at != 0 && header.bytes <= MAX_PAYLOAD_BYTES).then_some(header)
    }
}

/// `ProcessContext`: the part of it that is read.
#[derive(Clone, PartialEq, Message)]
struct Context {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn payload(attributes: &[(&str, &str)]) -> Vec<u8> {
        let attribute = |(key, text): &(&str, &str)| Attribute {
            key: (*key).to_owned(),
            value: Some(Value { text: Some((*text).to_owned()) }),
        };
        let resource = Resource { attributes: attributes.iter().map(attribute).collect() };
        Context { resource: Some(resource) }.encode_to_vec()
    }

    /// A memory with a header at 0, and a payload behind it.
    fn memory(signature: &[u8; 8], version: u32, at: u64, bytes: u32, payload: &[u8]) -> Vec<u8> {
        let numbers = [&version.to_ne_bytes()[..], &bytes.to_ne_bytes(), &at.to_ne_bytes()].concat();
        [&signature[..], &numbers, &(HEADER_BYTES as u64).to_ne_bytes(), payload].concat()
    }

    fn copy(memory: &[u8], address: u64, bytes: &mut [u8]) -> Option<()> {
        bytes.copy_from_slice(memory.get(address as usize..)?.get(..bytes.len())?);
        Some(())
    }

    fn service(memory: &[u8]) -> Option<String> {
        let read = |address, bytes: &mut [u8]| copy(memory, address, bytes);
        Published::read(&read, 0).map(|published| published.service.into())
    }

    #[test]
    fn the_name_of_the_service_is_that_of_the_resource() {
        let good = payload(&[("telemetry.sdk.name", "x"), ("service.name", "shop")]);
        let length = good.len() as u32;
        assert_eq!(service(&memory(SIGNATURE, 2, 7, length, &good)).as_deref(), Some("shop"));
        let nameless = payload(&[("telemetry.sdk.name", "x")]);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, nameless.len() as u32, &nameless)).as_deref(), Some(""));
        // Another signature, another version, one that is being written, one that is too large, one that is not there.
        assert_eq!(service(&memory(b"OTEL_CTY", 2, 7, length, &good)), None);
        assert_eq!(service(&memory(SIGNATURE, 1, 7, length, &good)), None);
        assert_eq!(service(&memory(SIGNATURE, 2, 0, length, &good)), None);
        let large = payload(&[("service.name", "shop"), ("x", &"x".repeat(MAX_PAYLOAD_BYTES))]);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, large.len() as u32, &large)), None);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, length + 1, &good)), None);
        let long = payload(&[("service.name", &"x".repeat(MAX_SERVICE_BYTES + 1))]);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, long.len() as u32, &long)).as_deref(), Some(""));
    }

    #[test]
    fn no_byte_of_a_payload_makes_the_reader_fail() {
        let good = payload(&[("service.name", "shop")]);
        for at in 0..good.len() {
            for value in [0, 1, 0x0a, 0x7f, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] = value;
                let _ = service(&memory(SIGNATURE, 2, 7, changed.len() as u32, &changed));
            }
            let _ = service(&memory(SIGNATURE, 2, 7, at as u32, &good[..at]));
        }
    }

    #[test]
    fn a_mapping_is_known_by_the_beginning_of_its_name() {
        let line =
            |name: &str| mapping(format!("7f00a000-7f00b000 rw-s 00000000 00:01 77      {name}").as_bytes());
        for name in ["/memfd:OTEL_CTX (deleted)", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"] {
            assert_eq!(line(name), Some(0x7f00_a000), "{name}");
        }
        for name in ["/memfd:other (deleted)", "[heap]", "", "/tmp/OTEL_CTX"] {
            assert_eq!(line(name), None, "{name}");
        }
        assert_eq!(mapping(b""), None);
    }

    #[test]
    fn a_context_that_is_published_anew_while_it_is_read_is_none() {
        let text = payload(&[("service.name", "shop")]);
        let at = |at| memory(SIGNATURE, 2, at, text.len() as u32, &text);
        let read = |now: &[u8], then: &[u8]| {
            let reads = Cell::new(0);
            let read = |address, bytes: &mut [u8]| {
                reads.set(reads.get() + 1);
                copy(if reads.get() <= 2 { now } else { then }, address, bytes)
            };
            Published::read(&read, 0).map(|published| published.service)
        };
        assert_eq!(read(&at(7), &at(7)).as_deref(), Some("shop"));
        // Another one, one that is being written, one that is gone.
        for then in [at(8), at(0), Vec::new()] {
            assert_eq!(read(&at(7), &then), None);
        }
    }
}
