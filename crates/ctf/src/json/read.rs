//! The fragments, in order: each may use only earlier definitions.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::fragments::{JsonError, fragments};
use super::lower::{Budget, Lowering};
use super::object::{Object, quoted, uuid};
use super::parse::Aliases;
use super::scopes::{Level, Scopes};
use crate::schema::{ByteOrder, Clock, EnvValue, EventClass, FieldType, Metadata, StreamClass, Structure};
use crate::tsdl::read_uuid;

/// The limit on clocks, data stream classes and event record classes, each.
const MAX_COUNT: usize = 1 << 16;

/// Reads any CTF 2 trace's metadata, also in the form of its drafts, which early tracers wrote. Attributes are left
/// out, and so is anything that the specification does not know.
///
/// # Errors
/// With the fragment's number, when it is not CTF 2, or needs an extension or a field class that is not read. The
/// memory for types stays below some multiples of the text.
pub fn read(bytes: &[u8]) -> Result<Metadata, JsonError> {
    let mut reader = Reader {
        aliases: Aliases::default(),
        budget: Budget::new(bytes.len()),
        metadata: Metadata {
            uuid: None,
            byte_order: ByteOrder::Little,
            env: Vec::new(),
            clocks: Vec::new(),
            packet_header: Structure::default(),
            streams: Vec::new(),
        },
        header: None,
        streams: HashMap::new(),
        events: HashSet::new(),
    };
    let mut last = 0;
    for (fragment, object) in fragments(bytes) {
        let object = object?;
        reader.fragment(last == 0, &object).map_err(|text| JsonError { fragment, text })?;
        last = fragment;
    }
    if last == 0 {
        return Err(JsonError { fragment: 1, text: "the metadata ends without a preamble".to_owned() });
    }
    Ok(reader.metadata)
}

struct Reader {
    aliases: Aliases,
    budget: Budget,
    metadata: Metadata,
    /// The packet header's members, once there is a trace class.
    header: Option<Level>,
    /// By their number.
    streams: HashMap<u64, Stream>,
    /// The event record classes so far: their stream's number and their own.
    events: HashSet<(u64, u64)>,
}

/// A data stream class.
struct Stream {
    /// Its index in the metadata.
    index: usize,
    /// The members of packet context, event header and common context.
    levels: [Level; 3],
    clock: Option<String>,
}

impl Reader {
    fn fragment(&mut self, first: bool, fragment: &Map<String, Value>) -> Result<(), String> {
        let object = Object::new(fragment)?;
        let kind = object.needed_text("type")?;
        if first != (kind == "preamble") {
            let wrong = if first { "it is not the preamble" } else { "a second preamble" };
            return Err(wrong.to_owned());
        }
        let read = match kind {
            "preamble" => self.preamble(object),
            "field-class-alias" => self.aliases.add(object),
            "trace-class" => self.trace_class(object),
            "clock-class" => self.clock_class(object),
            "data-stream-class" => self.stream_class(object),
            "event-record-class" => self.event_class(object),
            // The specification has no others; a later version may.
            _ => Ok(()),
        };
        read.map_err(|error| format!("{kind}: {error}"))
    }

    fn preamble(&mut self, object: Object<'_>) -> Result<(), String> {
        let version = object.needed_number("version")?;
        if version != 2 {
            return Err(format!("version {version} of CTF, which is not read"));
        }
        if let Some(value) = object.value("uuid") {
            self.metadata.uuid = Some(uuid(value).ok_or("its `uuid` is not 16 bytes")?);
        }
        Ok(())
    }

    fn trace_class(&mut self, object: Object<'_>) -> Result<(), String> {
        if self.header.is_some() {
            return Err("a second one".to_owned());
        }
        for (key, value) in object.map("environment")?.unwrap_or(&Map::new()) {
            let value = match value {
                Value::String(text) => EnvValue::Text(text.clone()),
                Value::Number(number) => match number.as_i64() {
                    Some(number) => EnvValue::Number(number),
                    None => EnvValue::Text(number.to_string()),
                },
                _ => return Err(format!("{} in the environment is no text and no number", quoted(key))),
            };
            self.metadata.env.push((key.clone(), value));
        }
        let (structure, level) =
            lower(&self.aliases, &mut self.budget, object, "packet-header-field-class", 0, &[], None)?;
        if let Some(FieldType::Integer(magic)) = structure.fields.first().map(|field| &field.ty) {
            self.metadata.byte_order = magic.byte_order;
        }
        (self.metadata.packet_header, self.header) = (structure, Some(level));
        Ok(())
    }

    fn clock_class(&mut self, object: Object<'_>) -> Result<(), String> {
        // CTF 2's drafts know a clock by its name.
        let is_draft = object.value("id").is_none() && object.value("name").is_some();
        let name = object.needed_text(if is_draft { "name" } else { "id" })?;
        if self.metadata.clock(name).is_some() {
            return Err(format!("clock class {} is declared twice", quoted(name)));
        }
        let frequency = object.needed_number("frequency")?;
        if frequency == 0 {
            return Err("its `frequency` is 0".to_owned());
        }
        let (mut offset_s, mut offset) = (0, 0);
        let draft_offset = object.value("offset").filter(|_| is_draft);
        if let Some(value) = object.value("offset-from-origin").or(draft_offset) {
            let from_origin = Object::of(value, "its `offset-from-origin`")?;
            offset = from_origin.number("cycles")?.unwrap_or(0);
            if let Some(seconds) = from_origin.value("seconds") {
                offset_s = seconds.as_i64().ok_or("its `seconds` are no number")?;
            }
        }
        if self.metadata.clocks.len() == MAX_COUNT {
            return Err("there are too many".to_owned());
        }
        self.metadata.clocks.push(Clock {
            name: name.to_owned(),
            uuid: match object.value("uuid").filter(|_| is_draft) {
                Some(value) => uuid(value),
                None => object.text("uid")?.and_then(read_uuid),
            },
            description: object.text("description")?.unwrap_or_default().to_owned(),
            frequency,
            offset_s,
            offset,
            // Any other origin is unknown here, and so is the date.
            absolute: Some(match is_draft {
                true => object.value("origin-is-unix-epoch") != Some(&Value::Bool(false)),
                false => object.value("origin").and_then(Value::as_str) == Some("unix-epoch"),
            }),
        });
        Ok(())
    }

    fn stream_class(&mut self, object: Object<'_>) -> Result<(), String> {
        let id = object.number("id")?.unwrap_or(0);
        if self.streams.contains_key(&id) {
            return Err(format!("data stream class {id} is declared twice"));
        }
        if self.streams.len() == MAX_COUNT {
            return Err("there are too many".to_owned());
        }
        let clock = match object.text("default-clock-class-id")? {
            Some(clock) => Some(clock),
            None => object.text("default-clock-class-name")?,
        };
        if let Some(clock) = clock
            && self.metadata.clock(clock).is_none()
        {
            return Err(format!("no clock class {} is declared in front of it", quoted(clock)));
        }
        // Metadata without a trace class has no packet header.
        let header = self.header.get_or_insert_default();
        let (aliases, budget) = (&self.aliases, &mut self.budget);
        let mut levels = <[Level; 3]>::default();
        let mut structures = <[Structure; 3]>::default();
        let keys = [
            "packet-context-field-class",
            "event-record-header-field-class",
            "event-record-common-context-field-class",
        ];
        for (index, key) in keys.into_iter().enumerate() {
            let earlier: Vec<_> = [&*header].into_iter().chain(&levels[..index]).enumerate().collect();
            let (structure, level) = lower(aliases, budget, object, key, index + 1, &earlier, clock)?;
            (structures[index], levels[index]) = (structure, level);
        }
        let [packet_context, event_header, event_context] = structures;
        let index = self.metadata.streams.len();
        self.metadata.streams.push(StreamClass {
            id,
            packet_context,
            event_header,
            event_context,
            events: Vec::new(),
        });
        self.streams.insert(id, Stream { index, levels, clock: clock.map(str::to_owned) });
        Ok(())
    }

    fn event_class(&mut self, object: Object<'_>) -> Result<(), String> {
        let id = object.number("id")?.unwrap_or(0);
        let of = object.number("data-stream-class-id")?.unwrap_or(0);
        let stream = self.streams.get(&of);
        let stream = stream.ok_or_else(|| format!("no data stream class {of} is declared in front of it"))?;
        if !self.events.insert((of, id)) {
            return Err(format!("event record class {id} of data stream class {of} is declared twice"));
        }
        if self.events.len() > MAX_COUNT {
            return Err("there are too many".to_owned());
        }
        let name = object.text("name")?.unwrap_or_default();
        let header = self.header.get_or_insert_default();
        let [packet, head, common] = &stream.levels;
        let (aliases, budget, clock) = (&self.aliases, &mut self.budget, stream.clock.as_deref());
        let mut earlier = vec![(0, &*header), (1, packet), (2, head), (3, common)];
        let (context, own) =
            lower(aliases, budget, object, "specific-context-field-class", 4, &earlier, clock)
                .map_err(|error| format!("{}: {error}", quoted(name)))?;
        earlier.push((4, &own));
        let (fields, _) = lower(aliases, budget, object, "payload-field-class", 5, &earlier, clock)
            .map_err(|error| format!("{}: {error}", quoted(name)))?;
        let event = EventClass { id, name: name.to_owned(), context, fields };
        if let Some(stream) = self.metadata.streams.get_mut(stream.index) {
            stream.events.push(event);
        }
        Ok(())
    }
}

/// The structure with this key, if any, and its members.
fn lower(
    aliases: &Aliases,
    budget: &mut Budget,
    object: Object<'_>,
    key: &str,
    root: usize,
    earlier: &[(usize, &Level)],
    clock: Option<&str>,
) -> Result<(Structure, Level), String> {
    let Some(value) = object.value(key) else { return Ok((Structure::default(), Level::default())) };
    let lowering = Lowering { scopes: Scopes::new(root, earlier), clock, budget };
    let lowered = aliases.class(value).and_then(|class| lowering.root(&class));
    lowered.map_err(|error| format!("`{key}`: {error}"))
}
