//! The part of the kernel's types that a program's relocations can reach.

use std::collections::{HashMap, HashSet};

use super::types::{HEAD_BYTES, HEADER_BYTES, Reference, Type, Types, kind};

/// Types in BTF, reduced to what the relocations against some names can reach.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reduced<'n> {
    pub(super) file: Vec<u8>,
    /// The names without a type.
    pub(super) missing: Vec<&'n str>,
}

/// Reduces a kernel's types. A relocation begins at a type with its name and follows members and elements, never a
/// pointer; so this keeps all types with these names, and all types that they contain. Kept types keep their numbers,
/// which programs pass to the kernel (`bpf_core_cast`): each other type is replaced by a forward declaration without a
/// name, which matches nothing. The file ends with the last kept type.
///
/// `None` if a type contains what no relocation follows, or is not there.
pub(super) fn reduce<'n>(all: &Types<'_>, names: &[&'n str]) -> Option<Reduced<'n>> {
    let mut missing: HashMap<&[u8], &str> = names.iter().map(|name| (stem(name.as_bytes()), *name)).collect();
    let wanted: HashSet<&[u8]> = missing.keys().copied().collect();
    let mut kept = vec![false; all.end() as usize];
    let mut open = Vec::new();
    for (number, name) in named(all) {
        if wanted.contains(stem(name)) {
            missing.remove(stem(name));
            open.push(number);
        }
    }
    while let Some(number) = open.pop() {
        if number == 0 || std::mem::replace(kept.get_mut(number as usize)?, true) {
            continue;
        }
        let found = all.get(number)?;
        match found.kind() {
            kind::POINTER => {}
            kind::FUNCTION..=kind::DATA_SECTION | kind::DECLARATION_TAG => return None,
            _ => {
                let types = found.references().filter(|(_, to)| *to == Reference::Type);
                open.extend(types.map(|(at, _)| found.word(at)));
            }
        }
    }
    let end = kept.iter().rposition(|&kept| kept).map_or(1, |last| last + 1);
    let mut copy = Copy { types: Vec::new(), names: vec![0], places: HashMap::from([(0, 0)]) };
    for (number, &is_kept) in kept.iter().enumerate().take(end).skip(1) {
        if is_kept {
            copy.keep(all, all.get(number as u32)?)?;
        } else {
            copy.types.extend(gap());
        }
    }
    Some(Reduced { file: copy.into_file()?, missing: missing.into_values().collect() })
}

/// Whether any own type in a file has a given name.
pub(super) fn has_any(types: &Types<'_>, names: &[&str]) -> bool {
    let names: HashSet<&[u8]> = names.iter().map(|name| stem(name.as_bytes())).collect();
    named(types).any(|(_, name)| names.contains(stem(name)))
}

/// A file's own types to which a program can be relocated, with their names.
fn named<'a>(types: &Types<'a>) -> impl Iterator<Item = (u32, &'a [u8])> {
    types.own().filter_map(|(number, found)| {
        let is_candidate = matches!(found.kind(), kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64);
        let name = types.name(found.name()).filter(|name| is_candidate && !name.is_empty())?;
        Some((number, name))
    })
}

/// A name without the `___suffix` that distinguishes a type's versions: libbpf's `bpf_core_essential_name_len`.
fn stem(name: &[u8]) -> &[u8] {
    let suffix = name.windows(5).rposition(|it| it[0] != b'_' && it[1..4] == *b"___" && it[4] != b'_');
    suffix.map_or(name, |at| &name[..=at])
}

/// Replaces a type.
fn gap() -> [u8; HEAD_BYTES] {
    head(0, u32::from(kind::FORWARD) << 24, 0)
}

fn head(name: u32, info: u32, size_or_type: u32) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip([name, info, size_or_type]) {
        *to = word.to_ne_bytes();
    }
    bytes
}

/// A file in the making.
struct Copy {
    types: Vec<u8>,
    names: Vec<u8>,
    /// Where each name is in the original, and in this file.
    places: HashMap<u32, u32>,
}

impl Copy {
    fn keep(&mut self, all: &Types<'_>, found: Type<'_>) -> Option<()> {
        let begin = self.types.len();
        self.types.extend(found.bytes());
        for (at, to) in found.references() {
            let word = match to {
                Reference::Name => self.place(all, found.word(at))?,
                // A pointer's target may not be kept.
                Reference::Type if found.kind() == kind::POINTER => 0,
                Reference::Type => continue,
            };
            self.types[begin + at..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        Some(())
    }

    fn place(&mut self, all: &Types<'_>, original: u32) -> Option<u32> {
        if let Some(&place) = self.places.get(&original) {
            return Some(place);
        }
        let place = u32::try_from(self.names.len()).ok()?;
        self.names.extend(all.name(original)?);
        self.names.push(0);
        self.places.insert(original, place);
        Some(place)
    }

    fn into_file(self) -> Option<Vec<u8>> {
        let (types, names) = (u32::try_from(self.types.len()).ok()?, u32::try_from(self.names.len()).ok()?);
        let mut file = Vec::with_capacity(HEADER_BYTES + self.types.len() + self.names.len());
        file.extend(super::types::header(types, names));
        file.extend(self.types);
        file.extend(self.names);
        Some(file)
    }
}

#[cfg(test)]
pub(super) mod tests;
