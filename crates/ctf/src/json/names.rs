//! Members' names in the schema: unique in their structure, without dots, and reserved ones only for roles.

use std::collections::HashSet;

use super::object::quoted;

/// The limit on attempts to make a name unique.
const MAX_TRIES: usize = 8;

/// The names that mean something to the packet reader, by the structure's index among an event's six: header and
/// context are read together. `cpu_id` has no role in CTF 2, and the meaning that CTF 1.8's tracers gave it.
const fn reserved(root: usize) -> &'static [&'static str] {
    match root {
        0 | 1 => &[
            "magic",
            "uuid",
            "stream_id",
            "stream_instance_id",
            "packet_size",
            "content_size",
            "timestamp_begin",
            "timestamp_end",
            "events_discarded",
            "packet_seq_num",
        ],
        2 => &["id"],
        _ => &[],
    }
}

/// A name without dots, which separate a path's names. Readers of CTF 1.8 drop an underscore in front: a second one
/// keeps the name.
fn escaped(name: &str) -> String {
    let front = if name.starts_with('_') || name.is_empty() { "_" } else { "" };
    front.to_owned() + &option(name)
}

/// An option's name, which may be a name in the tag's enumeration too: those of LTTng have an underscore in front.
pub(super) fn option(name: &str) -> String {
    name.replace('.', "_")
}

/// A structure's names so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The metadata's own names.
    given: HashSet<String>,
    taken: HashSet<String>,
}

impl Names {
    /// The schema's name for a member of a structure in the root with this index.
    pub fn add(&mut self, name: &str, role: Option<&str>, root: usize) -> Result<String, String> {
        if !self.given.insert(name.to_owned()) {
            return Err(format!("a structure has two members {}", quoted(name)));
        }
        if let Some(role) = role {
            if self.taken.insert(role.to_owned()) {
                return Ok(role.to_owned());
            }
            // An event header's stamps are found by their clock: the last counts.
            if role != "timestamp" {
                return Err(format!("member {} has the same role as another", quoted(name)));
            }
        }
        let mut free = escaped(name);
        for _ in 0..MAX_TRIES {
            if !reserved(root).contains(&free.as_str()) && self.taken.insert(free.clone()) {
                return Ok(free);
            }
            free.push('_');
        }
        Err(format!("too many members have a name like {}", quoted(name)))
    }
}
