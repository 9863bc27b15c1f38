//! The fields to which lengths and tags refer (CTF 1.8, section 7.3.2): a path is resolved among the fields before,
//! from the inside out, then in the structures in front; or it names a whole structure.

use std::collections::HashSet;

use crate::schema::{FieldType, StreamClass, Structure};

/// An event's structures, in order, by their names in paths.
pub(crate) const ROOTS: [&str; 6] = [
    "trace.packet.header",
    "stream.packet.context",
    "stream.event.header",
    "stream.event.context",
    "event.context",
    "event.fields",
];

/// A structure during the walk: its path, and its passed fields.
#[derive(Debug)]
pub(super) struct Level<'a> {
    path: String,
    passed: Vec<&'a str>,
}

/// A place in a walk through the types.
#[derive(Debug, Default)]
pub(super) struct Scopes<'a> {
    /// The roots' passed fields.
    roots: Vec<Level<'a>>,
    /// The surrounding structures.
    levels: Vec<Level<'a>>,
}

impl<'a> Scopes<'a> {
    pub fn enter_root(&mut self, root: usize) {
        self.levels = vec![Level { path: ROOTS[root].to_owned(), passed: Vec::new() }];
    }

    pub fn leave_root(&mut self) {
        self.roots.append(&mut self.levels);
    }

    /// Forgets the roots that belong to a single event.
    pub fn leave_event(&mut self) {
        self.levels.clear();
        self.roots.retain(|root| !ROOTS[3..].contains(&root.path.as_str()));
    }

    /// Enters a field of the innermost structure, whose own fields follow.
    pub fn enter(&mut self, name: &str) {
        let path = self.path_of(name);
        self.levels.push(Level { path, passed: Vec::new() });
    }

    pub fn leave(&mut self) {
        self.levels.pop();
    }

    pub fn passed(&mut self, name: &'a str) {
        if let Some(level) = self.levels.last_mut() {
            level.passed.push(name);
        }
    }

    /// The whole path of a field in the innermost structure.
    pub fn path_of(&self, name: &str) -> String {
        self.levels.last().map_or_else(|| name.to_owned(), |level| format!("{}.{name}", level.path))
    }

    /// The whole path of the field that `reference` means here.
    pub fn resolve(&self, reference: &str) -> Option<String> {
        if ROOTS.iter().any(|root| reference.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))) {
            return Some(reference.to_owned());
        }
        let first = reference.split('.').next().unwrap_or(reference);
        let inside_out = self.levels.iter().rev().chain(self.roots.iter().rev());
        let level = inside_out.into_iter().find(|level| level.passed.contains(&first))?;
        Some(format!("{}.{reference}", level.path))
    }
}

/// The paths of all fields to which lengths and tags refer.
#[derive(Debug, Default)]
pub(super) struct References {
    paths: HashSet<String>,
    /// The last parts of these paths, so that most fields need no path.
    names: HashSet<String>,
}

impl References {
    /// The references in all structures of a stream class.
    pub fn collect(header: &Structure, stream: &StreamClass) -> Self {
        let mut found = Self::default();
        let mut scopes = Scopes::default();
        for (root, structure) in
            [header, &stream.packet_context, &stream.event_header].into_iter().enumerate()
        {
            scopes.enter_root(root);
            found.walk(structure, &mut scopes);
            scopes.leave_root();
        }
        for event in &stream.events {
            for (root, structure) in [(3, &stream.event_context), (4, &event.context), (5, &event.fields)] {
                scopes.enter_root(root);
                found.walk(structure, &mut scopes);
                scopes.leave_root();
            }
            scopes.leave_event();
        }
        found
    }

    /// A field's path, if a length or tag refers to it.
    pub fn path(&self, scopes: &Scopes<'_>, name: &str) -> Option<String> {
        self.names.contains(name).then(|| scopes.path_of(name)).filter(|path| self.paths.contains(path))
    }

    fn walk<'a>(&mut self, structure: &'a Structure, scopes: &mut Scopes<'a>) {
        for field in &structure.fields {
            self.walk_type(&field.name, &field.ty, scopes);
            scopes.passed(&field.name);
        }
    }

    fn refer(&mut self, reference: &str, scopes: &Scopes<'_>) {
        if let Some(path) = scopes.resolve(reference) {
            self.names.insert(path.rsplit('.').next().unwrap_or(&path).to_owned());
            self.paths.insert(path);
        }
    }

    fn walk_type<'a>(&mut self, name: &'a str, ty: &'a FieldType, scopes: &mut Scopes<'a>) {
        match ty {
            FieldType::Integer(_)
            | FieldType::Enumeration(..)
            | FieldType::Float(_)
            | FieldType::Text(_)
            | FieldType::Leb128(..) => {}
            FieldType::Array(element, _) => self.walk_type(name, element, scopes),
            FieldType::Sequence(element, length) => {
                self.refer(length, scopes);
                self.walk_type(name, element, scopes);
            }
            FieldType::Struct(structure) => {
                scopes.enter(name);
                self.walk(structure, scopes);
                scopes.leave();
            }
            FieldType::Variant(variant) => {
                self.refer(&variant.tag, scopes);
                scopes.enter(name);
                for option in &variant.options {
                    self.walk_type(&option.name, &option.ty, scopes);
                }
                scopes.leave();
            }
        }
    }
}
