//! The places in a Go program where probes see its goroutines park, become ready and run, and the places in its data
//! that the probes read.
//!
//! The scheduler's functions are found by name, the offsets in the runtime's structures from the program's own debug
//! information, else by the Go version in the file. Another version is not guessed.

use std::fs::File;
use std::path::Path;

use gimli::{AttributeValue, Dwarf, EndianSlice, LittleEndian, Unit};
use object::read::ReadCache;
use object::read::elf::FileHeader;
use object::{Endianness, elf};

use crate::body::Body;
use crate::error::FileError;
use crate::image::Image;
use crate::instruction::{MAX_BYTES, ProbeMethod, probed};
use crate::symbols::{Symbol, SymbolKind};

/// The maximum size of debug information to read, bytes.
const MAX_DEBUG_BYTES: usize = 512 << 20;
/// The maximum number of a runtime's reasons to wait; Go 1.26 has 43.
const MAX_REASONS: usize = 256;
/// The maximum length of a reason's name, bytes.
const MAX_REASON_BYTES: usize = 64;

/// A goroutine's step that a probe sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GoSite {
    /// The goroutine waits from now on.
    Park,
    /// The goroutine is made ready.
    Ready,
    /// A thread runs the goroutine from now on.
    Run,
    /// The goroutine goes back into a queue.
    Yield,
    /// The goroutine ends.
    End,
    /// A span in OpenTelemetry's SDK begins.
    Span,
}

impl GoSite {
    /// The functions with the step at their beginning, and whether goroutines make no sense without it. Their names
    /// differ by version.
    const ALL: [(Self, &'static [&'static str], bool); 6] = [
        (Self::Park, &["runtime.gopark"], true),
        (Self::Ready, &["runtime.ready"], true),
        (Self::Run, &["runtime.execute"], true),
        (
            Self::Yield,
            &[
                "runtime.goschedImpl",
                "runtime.goyield_m",
                "runtime.preemptPark",
                "runtime.exitsyscall0",
                "runtime.exitsyscallNoP",
            ],
            false,
        ),
        (Self::End, &["runtime.goexit0"], false),
        (Self::Span, &["go.opentelemetry.io/otel/sdk/trace.(*tracer).newRecordingSpan"], false),
    ];
}

/// The offsets of the fields that probes read in the runtime's structures, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoOffsets {
    /// The goroutine's number in its `g`.
    pub goid: u64,
    /// The address of the thread's `m` in a `g`.
    pub m: u64,
    /// The address of the running `g` in a thread's `m`.
    pub curg: u64,
    /// The fields that show a goroutine's beginning, in its `g`: from Go 1.21 on.
    pub birth: Option<GoBirth>,
}

/// The offsets of a `g`'s fields that show whether the goroutine has run yet, and its starter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoBirth {
    /// The number of the goroutine that started it.
    pub parent: u64,
    /// The address at which it begins.
    pub start_pc: u64,
    /// The address at which it goes on.
    pub pc: u64,
}

/// A Go program that can be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoProgram {
    /// The file offsets of the instructions to probe, each executed by the kernel itself.
    pub sites: Vec<(GoSite, u64)>,
    /// The offsets in the runtime's structures.
    pub offsets: GoOffsets,
    /// The names of the goroutines' reasons to wait, by number; empty where the file does not have them.
    pub reasons: Vec<String>,
}

/// Why a Go program cannot be probed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoFault {
    /// Its registers hold no goroutine.
    #[error("Go 1.17 or an older version made it")]
    Old,
    /// The function is neither in a symbol table nor in Go's own table.
    #[error("`{0}` is not in it")]
    NoFunction(&'static str),
    /// Every call must be seen, at an instruction that need not be single-stepped.
    #[error("there is no place for a probe in `{0}`")]
    NoPlace(&'static str),
    /// There is no debug information, and the version is not in the table.
    #[error("it has no debug information, and the layout of {0} is not known")]
    UnknownVersion(String),
}

/// Looks at a file: `None` where Go did not make it.
///
/// # Errors
/// When the file cannot be read, or is no program for this machine.
pub fn go_program(path: &Path) -> Result<Option<Result<GoProgram, GoFault>>, FileError> {
    // Most programs' tables are large, and not needed to see that Go did not make them.
    if !is_go_program(path) {
        return Ok(None);
    }
    let image = Image::open(path)?;
    Ok(image.go.then(|| read_go_program(&image)))
}

/// Whether Go made the program in a file: by the section with Go's build information. Reads its headers alone.
pub fn is_go_program(path: &Path) -> bool {
    has_go_section(path).unwrap_or(false)
}

fn has_go_section(path: &Path) -> Option<bool> {
    let data = ReadCache::new(File::open(path).ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &data).ok()?;
    Some(sections.section_by_name(endian, b".go.buildinfo").is_some())
}

fn read_go_program(image: &Image) -> Result<GoProgram, GoFault> {
    if image.old_go {
        return Err(GoFault::Old);
    }
    let mut sites = Vec::new();
    for (site, names, needed) in GoSite::ALL {
        for &name in names {
            let Some(symbol) = named(image, name, SymbolKind::Function) else {
                if needed {
                    return Err(GoFault::NoFunction(name));
                }
                continue;
            };
            match entry(image, symbol) {
                Some(offset) => sites.push((site, offset)),
                None if needed => return Err(GoFault::NoPlace(name)),
                None => {}
            }
        }
    }
    let offsets = from_debug_information(image);
    let offsets = offsets.or_else(|| by_version(&version(image)?)).ok_or_else(|| {
        GoFault::UnknownVersion(version(image).unwrap_or_else(|| String::from("an unknown version of Go")))
    })?;
    Ok(GoProgram { sites, offsets, reasons: reasons(image).unwrap_or_default() })
}

fn named<'i>(image: &'i Image, name: &str, kind: SymbolKind) -> Option<&'i Symbol> {
    image
        .symbols
        .iter()
        .find(|symbol| symbol.kind == kind && !symbol.imported && image.symbols.name(symbol) == name)
}

/// The place in the file passed once by each call to a function, with its arguments still in the registers.
fn entry(image: &Image, function: &Symbol) -> Option<u64> {
    let end = function.address.checked_add(function.size)?;
    let code = image.code(function.address..end).ok()?;
    let body = Body::of(&[(function.address, code)], true);
    let place = body.behind_stack_check().or(body.frame_push()).unwrap_or(function.address);
    if body.targets.contains(&place) {
        return None;
    }
    let code = image.code(place..place.checked_add(MAX_BYTES as u64)?).ok()?;
    // A 5-byte no-operation is left alone everywhere.
    let emulated = probed(&code, place)?.method == Some(ProbeMethod::Emulated);
    emulated.then(|| image.offset(place))?
}

/// The version as Go's linker writes it behind its section's mark: `go1.26.8`.
fn version(image: &Image) -> Option<String> {
    const MARK: &[u8] = b"\xff Go buildinf:";
    let info = image.read_range(image.build_info.as_ref()?)?;
    let header = info.strip_prefix(MARK)?;
    // A pointer's size and flags, then 16 bytes that Go 1.18 and later leave empty.
    let inline = header.get(1)? & 2 != 0;
    let text = header.get(18..).filter(|_| inline)?;
    let (length, text) = text.split_first().filter(|(length, _)| **length < 0x80)?;
    let text = text.get(..usize::from(*length))?;
    text.starts_with(b"go").then(|| String::from_utf8_lossy(text).into_owned())
}

/// The offsets in the examined versions; patch releases keep them.
fn by_version(version: &str) -> Option<GoOffsets> {
    let mut parts = version.strip_prefix("go1.")?.split(|c: char| !c.is_ascii_digit());
    let minor: u32 = parts.next()?.parse().ok()?;
    KNOWN.iter().find(|(known, _)| *known == minor).map(|(_, offsets)| *offsets)
}

/// The offsets by Go 1's minor version, from the debug information in a program built with it (x86-64).
const KNOWN: [(u32, GoOffsets); 1] = [(
    26,
    GoOffsets { goid: 152, m: 48, curg: 184, birth: Some(GoBirth { parent: 280, start_pc: 304, pc: 64 }) },
)];

/// The runtime's names for its reasons to wait, by number.
fn reasons(image: &Image) -> Option<Vec<String>> {
    let table = named(image, "runtime.waitReasonStrings", SymbolKind::Data)?;
    let count = usize::try_from(table.size / 16).ok()?.min(MAX_REASONS);
    let strings = data(image, table.address, count * 16)?;
    let reason = |string: &[u8; 16]| {
        let (address, length) = string.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length.first_chunk()?);
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_REASON_BYTES)?;
        // Some numbers have no name.
        if length == 0 {
            return Some(String::new());
        }
        String::from_utf8(data(image, u64::from_le_bytes(*address), length)?).ok()
    };
    strings.as_chunks().0.iter().map(reason).collect()
}

/// The data bytes at an address, as the file has them before loading; `None` where it has none.
fn data(image: &Image, address: u64, length: usize) -> Option<Vec<u8>> {
    let segment = image.data.iter().find(|segment| segment.addresses.contains(&address))?;
    let end = address.checked_add(length as u64)?;
    let offset = segment.offset.checked_add(address - segment.addresses.start)?;
    let place = offset..offset.checked_add(length as u64)?;
    (end <= segment.addresses.end).then(|| image.read_range(&place)).flatten()
}

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The offsets in the runtime's debug information.
fn from_debug_information(image: &Image) -> Option<GoOffsets> {
    if image.debug_bytes() > MAX_DEBUG_BYTES as u64 {
        return None;
    }
    let section =
        |id: gimli::SectionId| Ok::<_, gimli::Error>(image.debug_section(id.name(), MAX_DEBUG_BYTES));
    let sections = gimli::DwarfSections::load(section).ok()?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        if unit.name.is_none_or(|name| name.slice() != b"runtime") {
            continue;
        }
        // Go's own code and each assembler file have a unit, all with this name. Only one unit has the types.
        let offsets = unit_offsets(&dwarf, &unit);
        if offsets.is_some() {
            return offsets;
        }
    }
    None
}

fn unit_offsets(dwarf: &Dwarf<Reader<'_>>, unit: &Unit<Reader<'_>>) -> Option<GoOffsets> {
    let (mut goid, mut m, mut curg) = (None, None, None);
    let (mut parent, mut start_pc, mut sched, mut pc) = (None, None, None, None);
    let mut entries = unit.entries();
    // The structure around the next members, and its depth.
    let mut structure: Option<(Vec<u8>, isize)> = None;
    while let Ok(Some(entry)) = entries.next_dfs() {
        let depth = entry.depth();
        let name = entry.attr_value(gimli::DW_AT_name);
        let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
        let name = name.as_ref().map_or(&[][..], |name| name.slice());
        if entry.tag() == gimli::DW_TAG_structure_type {
            structure = Some((name.to_vec(), depth));
            continue;
        }
        let Some((of, at)) = &structure else { continue };
        if entry.tag() != gimli::DW_TAG_member || depth != at + 1 {
            continue;
        }
        let found = match (of.as_slice(), name) {
            (b"runtime.g", b"goid") => &mut goid,
            (b"runtime.g", b"m") => &mut m,
            (b"runtime.g", b"parentGoid") => &mut parent,
            (b"runtime.g", b"startpc") => &mut start_pc,
            (b"runtime.g", b"sched") => &mut sched,
            (b"runtime.gobuf", b"pc") => &mut pc,
            (b"runtime.m", b"curg") => &mut curg,
            _ => continue,
        };
        let place = entry.attr_value(gimli::DW_AT_data_member_location);
        *found = place.as_ref().and_then(AttributeValue::udata_value);
    }
    let birth = match (parent, start_pc, sched, pc) {
        (Some(parent), Some(start_pc), Some(sched), Some(pc)) => {
            Some(GoBirth { parent, start_pc, pc: sched.checked_add(pc)? })
        }
        _ => None,
    };
    Some(GoOffsets { goid: goid?, m: m?, curg: curg?, birth })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A program made by this machine's Go; `None`, with a printed note, if the machine has no Go.
    fn built(folder: &Path) -> Option<Image> {
        let (source, program) = (folder.join("main.go"), folder.join("program"));
        std::fs::write(&source, "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n")
            .expect("a file");
        for go in ["go", "/usr/local/go/bin/go"] {
            let mut build = Command::new(go);
            build.args(["build", "-o"]).arg(&program).arg(&source).current_dir(folder);
            build.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "")]);
            if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
                build.env("GOCACHE", folder.join("cache"));
            }
            match build.output() {
                Ok(output) => {
                    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                    return Some(Image::open(&program).expect("a program"));
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
            }
        }
        eprintln!(
            "skipped: not possible here: no Go here; would show that offsets are those of its programs"
        );
        None
    }

    #[test]
    fn the_debug_information_has_the_offsets_and_the_table_has_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(image) = built(folder.path()) else { return };
        let offsets = from_debug_information(&image).expect("the runtime's structures");
        let version = version(&image).expect("a version");
        println!("{version}: {offsets:?}");
        assert!(by_version(&version).is_none_or(|known| known == offsets), "{version}: {offsets:?}");
    }

    #[test]
    fn a_version_that_was_not_looked_at_is_not_guessed() {
        for version in ["go1.26", "go1.26.8", "go1.26rc1", "go1.26.8 X:nocoverageredesign"] {
            assert!(by_version(version).is_some(), "{version}");
        }
        for version in ["go1.2", "go1.260", "go2.26", "devel go1.26", "go1.", "", "1.26"] {
            assert_eq!(by_version(version), None, "{version}");
        }
    }
}
