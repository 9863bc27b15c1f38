//! From a target to its functions.

use std::collections::BTreeMap;

use crate::error::{Absent, FindError, NotFound, Reason, Refusal};
use crate::function::{Function, Note, Return, Runtime};
use crate::image::Image;
use crate::library::{self, Place};
use crate::names;
use crate::near::near;
use crate::pattern::Pattern;
use crate::place::{Budget, Extent, place};
use crate::symbols::{Kind, Symbol};
use crate::target::Target;

/// How many functions a pattern may stand for.
pub const MOST: usize = 1024;

/// Finds functions in files.
#[derive(Debug)]
pub struct Finder {
    processes: Vec<u32>,
}

/// What was found: at least one function.
#[derive(Debug)]
pub struct Found {
    /// The functions, in order of file and address.
    pub functions: Vec<Function>,
    /// What was asked for too, and is not to be probed.
    pub refused: Vec<Refusal>,
}

impl Finder {
    /// For probes on these processes, whose files are then the ones that short names stand for; on all
    /// processes if there are none.
    pub fn new(processes: &[u32]) -> Self {
        Self { processes: processes.to_vec() }
    }

    /// The functions that are meant, each once whatever the number of its names. A name without a
    /// version stands for all its versions.
    pub fn find(&self, target: &Target) -> Result<Found, FindError> {
        let places = library::places(&target.file, &self.processes)?;
        let mut found = Found { functions: Vec::new(), refused: Vec::new() };
        let mut absent = None;
        for place in &places {
            let image = Image::open(&place.open)?;
            match in_image(&image, place, target, &mut found)? {
                None => {}
                Some(not_found) => {
                    absent.get_or_insert(not_found);
                }
            }
        }
        if !found.functions.is_empty() {
            return Ok(found);
        }
        match (found.refused.into_iter().next(), absent) {
            (Some(refusal), _) => Err(refusal.into()),
            (None, Some(mut absent)) => {
                absent.files = places.iter().map(|place| place.shown.display().to_string()).collect();
                Err(absent.into())
            }
            (None, None) => unreachable!("a file gives functions, refusals, or says why not"),
        }
    }
}

/// Adds what is meant in one file; or says why nothing is.
fn in_image(
    image: &Image,
    place: &Place,
    target: &Target,
    found: &mut Found,
) -> Result<Option<NotFound>, FindError> {
    let meant = meant(image, &target.function);
    if meant.is_empty() {
        return Ok(Some(not_found(image, &target.function)));
    }
    if meant.len() > MOST {
        let count = meant.len();
        return Err(FindError::TooMany { target: target.to_string(), count, most: MOST });
    }
    let starts = Starts::of(image);
    let budget = Budget::of(image);
    for (address, symbols) in meant {
        let names = names_at(image, address, &symbols);
        let name = names.first().cloned().unwrap_or_default();
        match function(image, place, address, &symbols, names, &starts, &budget) {
            Ok(function) => found.functions.push(function),
            Err(why) => {
                found.refused.push(Refusal { name, file: place.shown.display().to_string(), why });
            }
        }
    }
    Ok(None)
}

/// The symbols that are meant, by address.
fn meant<'a>(image: &'a Image, pattern: &Pattern) -> BTreeMap<u64, Vec<&'a Symbol>> {
    let mut meant: BTreeMap<u64, Vec<&Symbol>> = BTreeMap::new();
    for symbol in image.symbols.iter() {
        let name = image.symbols.name(symbol);
        let may_be = match symbol.kind {
            Kind::Function | Kind::Chooser => true,
            // Assembler code seldom says that it is a function; a pattern would catch every label.
            Kind::Label => pattern.is_exact() && image.offset(symbol.address).is_some(),
            Kind::Data => false,
        };
        if !may_be || symbol.imported || name.is_empty() {
            continue;
        }
        if !pattern.is_exact() && names::cold_part_of(name).is_some() {
            continue;
        }
        let with_version =
            || pattern.as_str().contains('@') && pattern.matches(&image.symbols.versioned_name(symbol));
        if names::is_meant(pattern, name) || with_version() {
            meant.entry(symbol.address).or_default().push(symbol);
        }
    }
    meant
}

/// All names of the function at an address: first those that were asked for.
fn names_at(image: &Image, address: u64, asked: &[&Symbol]) -> Vec<String> {
    let here = image.symbols.iter().filter(|symbol| {
        symbol.address == address && !symbol.imported && matches!(symbol.kind, Kind::Function | Kind::Chooser)
    });
    let mut names: Vec<String> = Vec::new();
    for symbol in asked.iter().copied().chain(here) {
        let versioned = image.symbols.versioned_name(symbol);
        // The default version goes without saying.
        let name = versioned.split("@@").next().unwrap_or_default().to_owned();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn function(
    image: &Image,
    place_of: &Place,
    address: u64,
    symbols: &[&Symbol],
    names: Vec<String>,
    starts: &Starts,
    budget: &Budget,
) -> Result<Function, Reason> {
    let name = names.first().map_or("", |name| name.split('@').next().unwrap_or_default());
    if symbols.iter().any(|symbol| symbol.kind == Kind::Chooser) {
        return Err(Reason::Chooser { implementations: implementations(image, name) });
    }
    if let Some(of) = names::cold_part_of(name) {
        return Err(Reason::ColdPart { of: of.to_owned() });
    }
    if names.iter().any(|name| returns_twice(name)) {
        return Err(Reason::ReturnsTwice);
    }
    if image.offset(address).is_none() {
        return Err(Reason::NotCode { address });
    }
    if let Some(outer) = starts.around(address) {
        return Err(Reason::Inside { outer: image.symbols.name(outer).to_owned() });
    }
    let size = symbols.iter().map(|symbol| symbol.size).max().unwrap_or(0);
    let end = match size {
        0 => starts.next(address).into_iter().chain(image.end_of_code(address)).min().unwrap_or(address),
        size => address.saturating_add(size),
    };
    let runtime = if image.go && starts.is_go(address) { Runtime::Go } else { Runtime::Native };
    let probe = place(image, Extent { address, end, stated: size != 0 }, runtime, budget)?;
    let mut notes = Vec::new();
    if matches!(name, "main" | "main.main" | "_start" | "__libc_start_main") {
        notes.push(Note::CalledOnce);
    }
    if probe.returns == Return::Never {
        notes.push(Note::NeverReturns);
    }
    if name.contains(".part.") {
        notes.push(Note::PartlyInlined);
    } else if names::without_clone(name) != name {
        notes.push(Note::Copy);
    }
    Ok(Function {
        file: place_of.open.clone(),
        shown: place_of.shown.clone(),
        readable: names::readable(name).into_owned(),
        names,
        address,
        size,
        probe,
        runtime,
        notes,
    })
}

/// Names of what an IFUNC may choose: `__memcpy_avx_unaligned` for `memcpy`, `f.avx2` for `f`.
fn implementations(image: &Image, name: &str) -> Vec<String> {
    let mut names: Vec<String> = image
        .symbols
        .iter()
        .filter(|symbol| symbol.kind == Kind::Function && !symbol.imported)
        .map(|symbol| image.symbols.name(symbol))
        .filter(|candidate| {
            let plain = candidate.strip_prefix("__").unwrap_or(candidate);
            plain.strip_prefix(name).is_some_and(|rest| {
                rest.starts_with(['.', '_']) && rest != ".resolver" && !rest.contains("_chk")
            }) && (candidate.starts_with("__") || candidate.contains('.'))
        })
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// As compilers know them: by name.
fn returns_twice(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or_default();
    let plain = name.trim_start_matches('_');
    matches!(plain, "setjmp" | "sigsetjmp" | "savectx" | "getcontext" | "swapcontext")
}

fn not_found(image: &Image, pattern: &Pattern) -> NotFound {
    let symbols = &image.symbols;
    let named = |symbol: &&Symbol| pattern.matches(symbols.name(symbol));
    let is_function = |symbol: &&Symbol| {
        !symbol.imported
            && matches!(symbol.kind, Kind::Function | Kind::Chooser)
            && !symbols.name(symbol).is_empty()
    };
    let why = match () {
        () if symbols.iter().filter(|symbol| symbol.imported).any(|symbol| named(&symbol)) => {
            Absent::Imported
        }
        () if symbols.iter().filter(|symbol| symbol.kind == Kind::Data).any(|symbol| named(&symbol)) => {
            Absent::Data
        }
        () if !symbols.full => Absent::Stripped { exported: symbols.iter().filter(is_function).count() },
        () => Absent::Plain,
    };
    let names: Vec<_> =
        symbols.iter().filter(is_function).map(|symbol| names::readable(symbols.name(symbol))).collect();
    NotFound {
        function: pattern.as_str().to_owned(),
        files: Vec::new(),
        why,
        near: near(pattern.as_str(), names.iter().map(AsRef::as_ref)),
    }
}

/// Where the functions of a file begin, and how far they reach.
struct Starts<'a> {
    /// In order of address.
    functions: Vec<&'a Symbol>,
    /// Where Go's code is, if the file says.
    go: Option<(u64, u64)>,
}

impl<'a> Starts<'a> {
    fn of(image: &'a Image) -> Self {
        let mut functions: Vec<&Symbol> =
            image.symbols.iter().filter(|symbol| symbol.kind == Kind::Function && !symbol.imported).collect();
        functions.sort_by_key(|symbol| (symbol.address, symbol.size));
        let called = |name: &str| {
            let found = image.symbols.iter().find(|symbol| image.symbols.name(symbol) == name);
            found.map(|symbol| symbol.address)
        };
        let go = image.go.then(|| called("runtime.text").zip(called("runtime.etext"))).flatten();
        Self { functions, go }
    }

    /// The nearest function that begins before an address and reaches beyond it.
    fn around(&self, address: u64) -> Option<&'a Symbol> {
        let before = self.functions.partition_point(|symbol| symbol.address < address);
        let nearest = self.functions[..before].last()?;
        (address - nearest.address < nearest.size).then_some(*nearest)
    }

    /// Where the next function begins.
    fn next(&self, address: u64) -> Option<u64> {
        let next = self.functions.partition_point(|symbol| symbol.address <= address);
        self.functions.get(next).map(|symbol| symbol.address)
    }

    /// Whether the code at an address is Go's own, in a file that Go's linker made: C may be linked in.
    fn is_go(&self, address: u64) -> bool {
        self.go.is_none_or(|(start, end)| (start..end).contains(&address))
    }
}
