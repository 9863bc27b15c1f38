//! The service name that a process publishes, and the names of the attributes that its threads have beside their
//! spans, in OpenTelemetry's process context (OTEP 4719): memory with facts about the whole process. It is foreign
//! input: sizes are bounded, reads are checked, and a context that changed meanwhile is ignored.

use prost::Message;
use wakepath_process::{Mapping, Process};

use crate::options::KeptAttributes;

/// The prefixes of the context mapping's name.
const NAMES: [&[u8]; 3] = [b"/memfd:OTEL_CTX", b"[anon_shmem:OTEL_CTX]", b"[anon:OTEL_CTX]"];
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
const VERSION: u32 = 2;
/// The header: signature, version, payload bytes, time of publication (0 while it is written), payload address.
const HEADER_BYTES: usize = 32;
/// The largest payload to read, bytes.
const MAX_PAYLOAD_BYTES: usize = 64 << 10;
/// The longest name of a service, instance or attribute, bytes.
const MAX_NAME_BYTES: usize = 256;
/// The process attributes that describe the threads' contexts: their schema, and the attribute names in the order of
/// their keys (OTEP 4947).
const SCHEMA: &str = "threadlocal.schema_version";
const KEYS: &str = "threadlocal.attribute_key_map";
/// The prefix of schemas for the records that the word `otel_thread_ctx_v1` points to: other schemas' keys belong to
/// other records.
const SCHEMA_OF_WORDS: &str = "tls";
/// The most possible keys.
const MAX_KEYS: usize = 256;
/// The most attributes recorded for a process.
const MAX_KEPT_KEYS: usize = 32;

/// A process's published context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    /// The header's address.
    address: u64,
    /// When it was published, by the process: another time is another context.
    at: u64,
    /// The service name; empty if not published.
    pub(super) service: Box<str>,
    /// The service's instance id; empty if not published.
    pub(super) instance: Box<str>,
    /// The recorded thread attributes: keys and names.
    pub(super) keys: Vec<(u8, Box<str>)>,
}

impl Published {
    /// Looks for a process's context.
    pub(super) fn find(tgid: u32, kept: &KeptAttributes) -> Option<Self> {
        let process = Process::open(tgid).ok()?;
        let (mappings, memory) = (process.mappings().ok()?, memory_of(&process)?);
        let mut named = mappings.iter().filter(|mapping| is_context(mapping));
        named.find_map(|mapping| Self::read(&memory, mapping.addresses.start, kept))
    }

    /// The recorded attributes' keys, a bit for each.
    pub(super) fn key_bits(&self) -> [u64; 4] {
        let mut bits = [0; 4];
        for (key, _) in &self.keys {
            bits[usize::from(key >> 6)] |= 1 << (key & 63);
        }
        bits
    }

    /// Whether the process has published another context since, or withdrawn it.
    pub(super) fn is_outdated(&self, tgid: u32) -> bool {
        let memory = Process::open(tgid).ok().and_then(|process| memory_of(&process));
        let header = memory.and_then(|memory| Header::read(&memory, self.address));
        header.is_none_or(|header| header.at != self.at)
    }

    /// Reads the context whose header is at this address in a memory.
    fn read(memory: Memory<'_>, address: u64, kept: &KeptAttributes) -> Option<Self> {
        let header = Header::read(memory, address)?;
        let mut payload = vec![0; header.bytes];
        memory(header.payload, &mut payload)?;
        // The payload belongs to this header if the header is unchanged.
        if Header::read(memory, address)? != header {
            return None;
        }
        let Context { resource, attributes } = Context::decode(&payload[..]).ok()?;
        let resource = resource.unwrap_or_default().attributes;
        let [service, instance] = ["service.name", "service.instance.id"].map(|key| text(&resource, key));
        let mut keys = Vec::new();
        if text(&attributes, SCHEMA).starts_with(SCHEMA_OF_WORDS) {
            let names = value(&attributes, KEYS).and_then(|value| value.array.as_ref());
            let names = names.iter().flat_map(|array| &array.values).take(MAX_KEYS);
            // An element without a text has its number too.
            let named =
                (0..=u8::MAX).zip(names).filter_map(|(key, value)| Some((key, value.text.as_deref()?)));
            let named = named.filter(|(_, name)| name.len() <= MAX_NAME_BYTES && kept.has(name));
            keys.extend(named.take(MAX_KEPT_KEYS).map(|(key, name)| (key, name.into())));
        }
        Some(Self { address, at: header.at, service, instance, keys })
    }
}

fn value<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|one| one.key == key)?.value.as_ref()
}

/// An attribute's text; empty where it has none, or is too long.
fn text(attributes: &[Attribute], key: &str) -> Box<str> {
    let text = value(attributes, key).and_then(|value| value.text.as_deref());
    text.filter(|text| text.len() <= MAX_NAME_BYTES).unwrap_or_default().into()
}

/// Reads a process's memory at an address; `None` where nothing is mapped.
type Memory<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

fn memory_of(process: &Process) -> Option<impl Fn(u64, &mut [u8]) -> Option<()> + use<>> {
    let memory = process.memory().ok()?;
    Some(move |address, bytes: &mut [u8]| memory.read(address, bytes).ok())
}

/// Whether a mapping's name is a context's.
fn is_context(mapping: &Mapping) -> bool {
    NAMES.iter().any(|name| mapping.name.starts_with(name))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    bytes: usize,
    at: u64,
    payload: u64,
}

impl Header {
    /// `None` where there is no header, or it is being written.
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

/// `ProcessContext`: the fields to read.
#[derive(Clone, PartialEq, Message)]
struct Context {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    attributes: Vec<Attribute>,
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
    #[prost(message, optional, tag = "5")]
    array: Option<Array>,
}

#[derive(Clone, PartialEq, Message)]
struct Array {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn text_value(text: &str) -> Value {
        Value { text: Some(text.to_owned()), array: None }
    }

    fn attribute(key: &str, value: Value) -> Attribute {
        Attribute { key: key.to_owned(), value: Some(value) }
    }

    fn payload(attributes: &[(&str, &str)]) -> Vec<u8> {
        payload_with(attributes, Vec::new())
    }

    fn payload_with(resource: &[(&str, &str)], attributes: Vec<Attribute>) -> Vec<u8> {
        let resource = resource.iter().map(|(key, text)| attribute(key, text_value(text))).collect();
        Context { resource: Some(Resource { attributes: resource }), attributes }.encode_to_vec()
    }

    /// A payload with these attribute names, by this schema.
    fn payload_of_keys(schema: &str, names: Vec<Value>) -> Vec<u8> {
        let names = Value { text: None, array: Some(Array { values: names }) };
        payload_with(&[], vec![attribute(SCHEMA, text_value(schema)), attribute(KEYS, names)])
    }

    /// The context in a memory; `http.*` is recorded.
    fn published(memory: &[u8]) -> Option<Published> {
        let read = |address, bytes: &mut [u8]| copy(memory, address, bytes);
        Published::read(&read, 0, &KeptAttributes::new(|name| name.starts_with("http.")))
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
        published(memory).map(|published| published.service.into())
    }

    #[test]
    fn the_name_of_the_service_is_that_of_the_resource() {
        let good = payload(&[("telemetry.sdk.name", "x"), ("service.name", "shop")]);
        let length = good.len() as u32;
        assert_eq!(service(&memory(SIGNATURE, 2, 7, length, &good)).as_deref(), Some("shop"));
        let nameless = payload(&[("telemetry.sdk.name", "x")]);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, nameless.len() as u32, &nameless)).as_deref(), Some(""));
        // Another signature, another version, a context being written, a context too large, and a missing context.
        assert_eq!(service(&memory(b"OTEL_CTY", 2, 7, length, &good)), None);
        assert_eq!(service(&memory(SIGNATURE, 1, 7, length, &good)), None);
        assert_eq!(service(&memory(SIGNATURE, 2, 0, length, &good)), None);
        let large = payload(&[("service.name", "shop"), ("x", &"x".repeat(MAX_PAYLOAD_BYTES))]);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, large.len() as u32, &large)), None);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, length + 1, &good)), None);
        let long = payload(&[("service.name", &"x".repeat(MAX_NAME_BYTES + 1))]);
        assert_eq!(service(&memory(SIGNATURE, 2, 7, long.len() as u32, &long)).as_deref(), Some(""));
    }

    /// A memory with this payload.
    fn good(payload: &[u8]) -> Vec<u8> {
        memory(SIGNATURE, 2, 7, payload.len() as u32, payload)
    }

    #[test]
    fn an_instance_is_that_of_the_resource_and_an_attribute_of_the_process_names_no_service() {
        let known = |payload: &[u8]| {
            let found = published(&good(payload)).expect("a context");
            (found.service.into_string(), found.instance.into_string())
        };
        let names = payload(&[("service.instance.id", "i-7"), ("service.name", "shop")]);
        assert_eq!(known(&names), ("shop".to_owned(), "i-7".to_owned()));
        let elsewhere = payload_with(
            &[("service.name", "shop")],
            vec![attribute("service.instance.id", text_value("i-7"))],
        );
        assert_eq!(known(&elsewhere), ("shop".to_owned(), String::new()));
    }

    #[test]
    fn the_keys_that_are_recorded_are_those_of_the_map_whose_names_are_kept() {
        let keys = |schema: &str, names: Vec<Value>| {
            let found = published(&good(&payload_of_keys(schema, names))).expect("a context");
            let bits = found.key_bits();
            for key in 0..=u8::MAX {
                let is_set = bits[usize::from(key) / 64] >> (key % 64) & 1 == 1;
                assert_eq!(is_set, found.keys.iter().any(|(kept, _)| *kept == key), "{key}");
            }
            found.keys.into_iter().map(|(key, name)| format!("{key} {name}")).collect::<Vec<_>>()
        };
        // An attribute without a text has its number too.
        let number = Value { text: None, array: None };
        let three = || {
            vec![text_value("user.id"), text_value("http.route"), number.clone(), text_value("http.method")]
        };
        assert_eq!(keys("tlsdesc_v1_dev", three()), ["1 http.route", "3 http.method"]);
        assert_eq!(keys("tls_v1", three()), ["1 http.route", "3 http.method"]);
        for other in ["nodejs_v1", "go_pprof_labels_v1", ""] {
            assert_eq!(keys(other, three()), [""; 0], "{other}");
        }
        // More keys than possible; only a few are recorded.
        let many = |from: usize| {
            let name =
                |place| if place < from { text_value("x") } else { text_value(&format!("http.{place}")) };
            (0..300).map(name).collect::<Vec<_>>()
        };
        assert_eq!(keys("tls_v1", many(254)), ["254 http.254", "255 http.255"]);
        assert_eq!(keys("tls_v1", many(70)).len(), MAX_KEPT_KEYS);
        let long =
            vec![text_value(&format!("http.{}", "x".repeat(MAX_NAME_BYTES))), text_value("http.route")];
        assert_eq!(keys("tls_v1", long), ["1 http.route"]);
        assert_eq!(keys("tls_v1", Vec::new()), [""; 0]);
    }

    #[test]
    fn without_a_list_no_attribute_is_recorded() {
        let memory = good(&payload_of_keys("tls_v1", vec![text_value("http.route")]));
        let read = |address, bytes: &mut [u8]| copy(&memory, address, bytes);
        let found = Published::read(&read, 0, &KeptAttributes::default()).expect("a context");
        assert_eq!((found.keys.len(), found.key_bits()), (0, [0; 4]));
    }

    #[test]
    fn no_byte_of_a_payload_makes_the_reader_fail() {
        let good = payload_of_keys("tls_v1", vec![text_value("http.route"), text_value("shop")]);
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
        let is_one = |name: &str| {
            let line = format!("7f00a000-7f00b000 rw-s 00000000 00:01 77      {name}");
            is_context(&Mapping::parse(line.as_bytes()).expect("a line"))
        };
        for name in ["/memfd:OTEL_CTX (deleted)", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"] {
            assert!(is_one(name), "{name}");
        }
        for name in ["/memfd:other (deleted)", "[heap]", "", "/tmp/OTEL_CTX"] {
            assert!(!is_one(name), "{name}");
        }
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
            Published::read(&read, 0, &KeptAttributes::default()).map(|published| published.service)
        };
        assert_eq!(read(&at(7), &at(7)).as_deref(), Some("shop"));
        // Another context, a context being written, and a withdrawn context.
        for then in [at(8), at(0), Vec::new()] {
            assert_eq!(read(&at(7), &then), None);
        }
    }
}
