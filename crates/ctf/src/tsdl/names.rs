//! Type names, by the scope of their declaration.

use std::collections::HashMap;

use crate::schema::{Field, FieldType};

/// A name's kind: C distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `typealias`, `typedef`.
    Alias,
    Struct,
    Enum,
    Variant,
}

/// Types by name, in nested scopes.
pub(super) struct Names {
    scopes: Vec<HashMap<(Kind, String), FieldType>>,
    /// The parts left for all types together: each use of a type counts, since types of types can double with each
    /// line.
    left: usize,
}

/// The number of parts for any text, all types together; each byte in the text allows two more. Tracers write about a
/// part in twenty bytes.
const MIN_PARTS: usize = 1 << 12;

/// The deepest nesting of a type.
pub(super) const MAX_DEPTH: usize = 24;

impl Names {
    /// The budget for a text with this number of bytes.
    pub fn new(bytes: usize) -> Self {
        Self { scopes: vec![HashMap::new()], left: MIN_PARTS.saturating_add(bytes.saturating_mul(2)) }
    }

    pub fn enter(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Declares a type in the innermost scope; returns whether there is room.
    pub fn declare(&mut self, kind: Kind, name: &str, ty: &FieldType) -> bool {
        if !self.take(parts(ty)) {
            return false;
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert((kind, name.to_owned()), ty.clone());
        }
        true
    }

    /// The type with this name. The inner error: no room for it.
    pub fn find(&mut self, kind: Kind, name: &str) -> Option<Result<FieldType, ()>> {
        let key = (kind, name.to_owned());
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(&key))?;
        let parts = parts(found);
        if parts > self.left {
            return Some(Err(()));
        }
        self.left -= parts;
        Some(Ok(found.clone()))
    }

    /// Takes this number of parts; returns whether there is room.
    pub fn take(&mut self, parts: usize) -> bool {
        let room = parts <= self.left;
        self.left = self.left.saturating_sub(parts);
        room
    }
}

pub(super) fn parts(ty: &FieldType) -> usize {
    1 + match ty {
        FieldType::Integer(_) | FieldType::Float(_) | FieldType::Text(_) => 0,
        FieldType::Enumeration(_, mappings) | FieldType::Leb128(_, mappings) => {
            mappings.iter().map(|mapping| name_parts(&mapping.name)).sum()
        }
        FieldType::Array(element, _) => parts(element),
        FieldType::Sequence(element, length) => length.len() / 16 + parts(element),
        FieldType::Struct(structure) => field_parts(&structure.fields),
        FieldType::Variant(variant) => variant.tag.len() / 16 + field_parts(&variant.options),
    }
}

fn field_parts(fields: &[Field]) -> usize {
    fields.iter().map(|field| name_parts(&field.name) + parts(&field.ty)).sum()
}

/// A long name counts for several parts.
const fn name_parts(name: &str) -> usize {
    1 + name.len() / 16
}

/// A type's nesting depth.
pub(super) fn depth(ty: &FieldType) -> usize {
    let deepest = |fields: &[Field]| fields.iter().map(|field| depth(&field.ty)).max();
    match ty {
        FieldType::Integer(_)
        | FieldType::Float(_)
        | FieldType::Text(_)
        | FieldType::Enumeration(..)
        | FieldType::Leb128(..) => 1,
        FieldType::Array(element, _) | FieldType::Sequence(element, _) => 1 + depth(element),
        FieldType::Struct(structure) => 1 + deepest(&structure.fields).unwrap_or(0),
        FieldType::Variant(variant) => 1 + deepest(&variant.options).unwrap_or(0),
    }
}
