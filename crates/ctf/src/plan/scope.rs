//! What lengths and tags refer to (CTF 1.8, section 7.3.2): a path is looked for among the fields before,
//! from the inside out, then in the structures in front of this one; or it names one of these.

use std::collections::HashMap;

use crate::schema::{FieldType, StreamClass, Structure};

/// The structures that an event is made of, in their order, by the names that paths give them.
pub(super) const ROOTS: [&str; 6] = [
    "trace.packet.header",
    "stream.packet.context",
    "stream.event.header",
    "stream.event.context",
    "event.context",
    "event.fields",
];

/// One structure that is being gone through: where it is, and which of its fields were passed.
#[derive(Debug)]
pub(super) struct Level {
    path: String,
    passed: Vec<String>,
}

/// Where a walk through the types is.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// The fields of the roots that were passed.
    roots: Vec<Level>,
    /// The structures around.
    levels: Vec<Level>,
}

impl Scopes {
    pub fn enter_root(&mut self, root: usize) {
        self.levels = vec![Level { path: ROOTS[root].to_owned(), passed: Vec::new() }];
    }

    pub fn leave_root(&mut self) {
        self.roots.append(&mut self.levels);
    }

    /// Forgets the roots that each event has its own of.
    pub fn leave_event(&mut self) {
        self.levels.clear();
        self.roots.retain(|root| !ROOTS[3..].contains(&root.path.as_str()));
    }

    /// Goes into a field of the innermost structure, whose own fields follow.
    pub fn enter(&mut self, name: &str) {
        let path = self.path_of(name);
        self.levels.push(Level { path, passed: Vec::new() });
    }

    pub fn leave(&mut self) {
        self.levels.pop();
    }

    pub fn passed(&mut self, name: &str) {
        if let Some(level) = self.levels.last_mut() {
            level.passed.push(name.to_owned());
        }
    }

    /// The whole path of a field of the innermost structure.
    pub fn path_of(&self, name: &str) -> String {
        self.levels.last().map_or_else(|| name.to_owned(), |level| format!("{}.{name}", level.path))
    }

    /// The whole path of what `reference` means here.
    pub fn resolve(&self, reference: &str) -> Option<String> {
        if ROOTS.iter().any(|root| reference.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))) {
            return Some(reference.to_owned());
        }
        let first = reference.split('.').next().unwrap_or(reference);
        let inside_out = self.levels.iter().rev().chain(self.roots.iter().rev());
        let level = inside_out.into_iter().find(|level| level.passed.iter().any(|name| name == first))?;
        Some(format!("{}.{reference}", level.path))
    }
}

/// Everything that lengths and tags in these structures refer to, by its whole path.
pub(super) fn references<'a>(header: &'a Structure, stream: &'a StreamClass) -> HashMap<String, ()> {
    let mut found = HashMap::new();
    let mut scopes = Scopes::default();
    for (root, structure) in [header, &stream.packet_context, &stream.event_header].into_iter().enumerate() {
        scopes.enter_root(root);
        walk(structure, &mut scopes, &mut found);
        scopes.leave_root();
    }
    for event in &stream.events {
        for (root, structure) in [(3, &stream.event_context), (4, &event.context), (5, &event.fields)] {
            scopes.enter_root(root);
            walk(structure, &mut scopes, &mut found);
            scopes.leave_root();
        }
        scopes.leave_event();
    }
    found
}

fn walk(structure: &Structure, scopes: &mut Scopes, found: &mut HashMap<String, ()>) {
    for field in &structure.fields {
        walk_type(&field.name, &field.ty, scopes, found);
        scopes.passed(&field.name);
    }
}

fn walk_type(name: &str, ty: &FieldType, scopes: &mut Scopes, found: &mut HashMap<String, ()>) {
    let mut refer = |reference: &str, scopes: &Scopes| {
        if let Some(path) = scopes.resolve(reference) {
            found.insert(path, ());
        }
    };
    match ty {
        FieldType::Integer(_) | FieldType::Enumeration(..) | FieldType::Float(_) | FieldType::Text(_) => {}
        FieldType::Array(element, _) => walk_type(name, element, scopes, found),
        FieldType::Sequence(element, length) => {
            refer(length, scopes);
            walk_type(name, element, scopes, found);
        }
        FieldType::Struct(structure) => {
            scopes.enter(name);
            walk(structure, scopes, found);
            scopes.leave();
        }
        FieldType::Variant(variant) => {
            refer(&variant.tag, scopes);
            scopes.enter(name);
            for option in &variant.options {
                walk_type(&option.name, &option.ty, scopes, found);
            }
            scopes.leave();
        }
    }
}
