//! The fields in front of a field, and the field at a location.

use std::collections::HashMap;
use std::rc::Rc;

use super::location::Location;
use super::object::quoted;
use crate::plan::ROOTS;
use crate::schema::Mapping;

/// A structure with the members in front.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// The schema's names from the structure around it to here: of the member, and of the options on the way.
    steps: Vec<String>,
    /// By the metadata's names.
    members: HashMap<String, Member>,
    /// The current member's name in the metadata.
    inside: Option<String>,
}

/// A member in front.
#[derive(Debug)]
struct Member {
    /// Its name in the schema.
    name: String,
    target: Target,
}

/// A location's end, or a step on its way.
#[derive(Debug)]
pub(super) enum Target {
    Number {
        signed: bool,
        boolean: bool,
        mappings: Rc<[Mapping]>,
    },
    Structure(Level),
    /// A field whose parts may be missing or many.
    Barrier(&'static str),
    Other,
}

/// The field at a location.
#[derive(Debug)]
pub(super) struct Found {
    /// The schema's path.
    pub path: String,
    pub signed: bool,
    pub boolean: bool,
    pub mappings: Rc<[Mapping]>,
}

/// The structures in front of a field: whole structures, and those around it.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    /// The structures behind which the current one stands, by their index.
    earlier: &'a [(usize, &'a Level)],
    pub root: usize,
    levels: Vec<Level>,
    /// The schema's names since the innermost structure.
    pub steps: Vec<String>,
}

impl<'a> Scopes<'a> {
    pub const fn new(root: usize, earlier: &'a [(usize, &'a Level)]) -> Self {
        Self { earlier, root, levels: Vec::new(), steps: Vec::new() }
    }

    /// How many structures are around.
    pub const fn depth(&self) -> usize {
        self.levels.len()
    }

    pub fn enter_structure(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        self.levels.push(Level { steps, ..Level::default() });
    }

    /// The structure entered last, now whole.
    pub fn leave_structure(&mut self) -> Level {
        let mut level = self.levels.pop().unwrap_or_default();
        self.steps = std::mem::take(&mut level.steps);
        level
    }

    /// A member's own fields follow.
    pub fn enter_member(&mut self, given: &str, name: &str) {
        if let Some(level) = self.levels.last_mut() {
            level.inside = Some(given.to_owned());
        }
        self.steps = vec![name.to_owned()];
    }

    pub fn leave_member(&mut self, target: Target) {
        let name = self.steps.pop().unwrap_or_default();
        if let Some(level) = self.levels.last_mut()
            && let Some(given) = level.inside.take()
        {
            level.members.insert(given, Member { name, target });
        }
    }

    /// The number at a location.
    pub fn find(&self, location: &Location) -> Result<Found, String> {
        let shown = || quoted(&location.down.join("/"));
        // The structures in progress stand in `levels`; any other is whole, a member of one before.
        let mut open = match location.origin {
            Some(root) if root != self.root => None,
            Some(_) if location.up > 0 => return Err(format!("{} leads out of its origin", shown())),
            Some(_) => Some(0),
            None => self.levels.len().checked_sub(location.up + 1),
        };
        let (root, mut level) = match (open, location.origin) {
            (Some(open), _) => (self.root, self.levels.get(open)),
            (None, Some(root)) if location.up == 0 => {
                let earlier = self.earlier.iter().find(|(earlier, _)| *earlier == root);
                (root, earlier.map(|(_, level)| *level))
            }
            (None, _) => return Err(format!("{} leads out of its origin", shown())),
        };
        let none = || format!("{} leads to no number in front of the field", shown());
        let mut path = vec![ROOTS.get(root).copied().unwrap_or_default()];
        let around = self.levels.get(..=open.unwrap_or(0)).filter(|_| open.is_some()).unwrap_or_default();
        path.extend(around.iter().flat_map(|level| &level.steps).map(String::as_str));
        let (last, way) = location.down.split_last().ok_or_else(none)?;
        for step in way {
            let here = level.ok_or_else(none)?;
            if let Some(inner) = open.filter(|_| here.inside.as_ref() == Some(step)).map(|open| open + 1) {
                level = self.levels.get(inner);
                path.extend(level.iter().flat_map(|level| &level.steps).map(String::as_str));
                open = Some(inner);
                continue;
            }
            let member = here.members.get(step).ok_or_else(none)?;
            path.push(&member.name);
            (level, open) = match &member.target {
                Target::Structure(level) => (Some(level), None),
                Target::Barrier(kind) => {
                    return Err(format!("{} leads into {kind}, which is not read", shown()));
                }
                Target::Number { .. } | Target::Other => return Err(none()),
            };
        }
        let member = level.and_then(|level| level.members.get(last)).ok_or_else(none)?;
        let Target::Number { signed, boolean, mappings } = &member.target else { return Err(none()) };
        // In the same structure, the name alone says it, as tracers write it in TSDL.
        let beside = open == self.levels.len().checked_sub(1) && self.steps.len() == 1;
        path.push(&member.name);
        let path = if beside { member.name.clone() } else { path.join(".") };
        Ok(Found { path, signed: *signed, boolean: *boolean, mappings: Rc::clone(mappings) })
    }
}
