//! Field locations: the way to an earlier field.

use serde_json::Value;

use super::object::Object;

/// The way to the field with a length or a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    /// The structure to begin in, by its index among an event's six; without, the structure around the field.
    pub origin: Option<usize>,
    /// How many structures to leave first.
    pub up: usize,
    /// The members to go into; the last is the field.
    pub down: Vec<String>,
}

/// The origins, by their index.
const ORIGINS: [&str; 6] = [
    "packet-header",
    "packet-context",
    "event-record-header",
    "event-record-common-context",
    "event-record-specific-context",
    "event-record-payload",
];

/// The structure with this name.
fn origin(name: &str) -> Option<usize> {
    ORIGINS.iter().position(|origin| *origin == name)
}

impl Location {
    pub fn parse(value: &Value) -> Result<Self, String> {
        let (origin, path) = match value.as_array() {
            Some(path) => {
                // CTF 2's drafts put the structure's name in front of the path.
                let origin = path.first().and_then(Value::as_str).and_then(origin);
                (origin, &path[usize::from(origin.is_some())..])
            }
            None => {
                let object = Object::of(value, "a field location")?;
                let begin = object.text("origin")?.map(|name| {
                    origin(name).ok_or("a field location begins in a structure that CTF 2 does not have")
                });
                object.needed("path")?;
                (begin.transpose()?, object.array("path")?.unwrap_or_default())
            }
        };
        let mut location = Self { origin, up: 0, down: Vec::new() };
        for step in path {
            match step {
                Value::String(name) => location.down.push(name.clone()),
                // Out of the structure entered last.
                Value::Null if location.down.pop().is_some() => {}
                Value::Null => location.up += 1,
                _ => return Err("a field location's path has a step other than a name or null".to_owned()),
            }
        }
        if location.down.is_empty() {
            return Err("a field location's path leads to no field".to_owned());
        }
        Ok(location)
    }
}
