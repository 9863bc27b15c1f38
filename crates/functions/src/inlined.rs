//! Functions whose code the compiler put into their callers, by the debug information.

use std::collections::HashSet;

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, EndianSlice, LittleEndian, Section, Unit};

use crate::image::Image;
use crate::names::NameMatcher;
use crate::pattern::Pattern;

/// The maximum size of debug information to search, bytes: it takes about a second.
const MAX_BYTES: usize = 256 << 20;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The debug information, unless it is too much.
fn debug_sections(image: &Image) -> Option<gimli::DwarfSections<Vec<u8>>> {
    if image.debug_bytes() > MAX_BYTES as u64 {
        return None;
    }
    let section = |id: gimli::SectionId| Ok::<_, gimli::Error>(image.debug_section(id.name(), MAX_BYTES));
    gimli::DwarfSections::load(section).ok()
}

/// The number of places where the code of matching functions stands inside others. `None` without debug information, or
/// with too much.
pub(crate) fn places(image: &Image, pattern: &Pattern) -> Option<usize> {
    let sections = debug_sections(image)?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    if dwarf.debug_info.reader().is_empty() {
        return None;
    }
    let meaning = NameMatcher::of(pattern);
    let mut meant: HashSet<DebugInfoOffset> = HashSet::new();
    // A method's name stands at its declaration; its definition refers to the declaration, and its copies refer to the
    // definition; a reference may lead forward.
    for_each(&dwarf, |unit, entry| {
        if entry.tag() == gimli::DW_TAG_subprogram && is_meant(&dwarf, unit, entry, &meaning) {
            meant.extend(entry.offset().to_debug_info_offset(&unit.header));
        }
    });
    if meant.is_empty() {
        return Some(0);
    }
    let mut definitions = Vec::new();
    for_each(&dwarf, |unit, entry| {
        let refers = reference(unit, entry, gimli::DW_AT_specification).is_some_and(|to| meant.contains(&to));
        if refers {
            definitions.extend(entry.offset().to_debug_info_offset(&unit.header));
        }
    });
    meant.extend(definitions);
    let mut places = 0;
    for_each(&dwarf, |unit, entry| {
        let of_it =
            || reference(unit, entry, gimli::DW_AT_abstract_origin).is_some_and(|to| meant.contains(&to));
        places += usize::from(entry.tag() == gimli::DW_TAG_inlined_subroutine && of_it());
    });
    Some(places)
}

/// Whether a function, by its symbol, is an `async fn`'s body. `None` if the debug information does not have it.
pub(crate) fn is_async(image: &Image, symbol: &str) -> Option<bool> {
    let sections = debug_sections(image)?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found = None;
    for_each(&dwarf, |unit, entry| {
        let is_it = |linkage: String| linkage == symbol;
        if entry.tag() == gimli::DW_TAG_subprogram
            && text(&dwarf, unit, entry, gimli::DW_AT_linkage_name).is_some_and(is_it)
            && let Some(name) = text(&dwarf, unit, entry, gimli::DW_AT_name)
        {
            found = Some(name.starts_with("{async_fn#"));
        }
    });
    found
}

type Entry<'a> = gimli::DebuggingInformationEntry<Reader<'a>>;

/// Visits all entries; stops in a unit at the first entry that makes no sense.
fn for_each<'a>(dwarf: &Dwarf<Reader<'a>>, mut visit: impl FnMut(&Unit<Reader<'a>>, &Entry<'a>)) {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            visit(&unit, entry);
        }
    }
}

fn is_meant(
    dwarf: &Dwarf<Reader<'_>>,
    unit: &Unit<Reader<'_>>,
    entry: &Entry<'_>,
    meaning: &NameMatcher<'_>,
) -> bool {
    let name = text(dwarf, unit, entry, gimli::DW_AT_linkage_name);
    let name = name.or_else(|| text(dwarf, unit, entry, gimli::DW_AT_name));
    name.is_some_and(|name| meaning.includes(&name))
}

/// An entry's text, unless it is too long for a name.
fn text(
    dwarf: &Dwarf<Reader<'_>>,
    unit: &Unit<Reader<'_>>,
    entry: &Entry<'_>,
    attribute: gimli::DwAt,
) -> Option<String> {
    let text = dwarf.attr_string(unit, entry.attr_value(attribute)?).ok()?;
    (text.len() < 4096).then(|| text.to_string().ok().map(str::to_owned)).flatten()
}

fn reference(unit: &Unit<Reader<'_>>, entry: &Entry<'_>, attribute: gimli::DwAt) -> Option<DebugInfoOffset> {
    match entry.attr_value(attribute)? {
        AttributeValue::UnitRef(offset) => offset.to_debug_info_offset(&unit.header),
        AttributeValue::DebugInfoRef(offset) => Some(offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, places};
    use crate::pattern::Pattern;
    use crate::testing::{Elf, Section};

    #[test]
    fn so_much_debug_information_that_it_takes_a_second_is_not_searched() {
        // A unit that makes no sense has no matching function; the other section states a size it does not have.
        let of_bytes = |bytes: u64| {
            let line = Section { stated: Some(bytes - 4), ..Section::new(".debug_line", &[]) };
            let image =
                Elf::default().section(Section::new(".debug_info", &[0; 4])).section(line).write().image();
            places(&image, &Pattern::new("work"))
        };
        let most = MAX_BYTES as u64;
        for (bytes, found) in [(4, Some(0)), (most, Some(0)), (most + 1, None), (u64::MAX, None)] {
            assert_eq!(of_bytes(bytes), found, "{bytes}");
        }
        assert_eq!(places(&Elf::default().write().image(), &Pattern::new("work")), None, "there is none");
    }
}
