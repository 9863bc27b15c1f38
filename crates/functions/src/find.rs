//! From a target to its functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_process::Process;

use crate::debug_file::debug_file;
use crate::error::{AbsenceReason, FileError, FindError, FunctionNotFound, Refusal, RefusalReason};
use crate::function::{Function, FunctionNote, Probe, Return, Runtime};
use crate::image::Image;
use crate::inlined;
use crate::interpreter::Interpreter;
use crate::library::{self, FileLocation};
use crate::names;
use crate::pattern::Pattern;
use crate::place::{Budget, Extent, ProbeRequest, place};
use crate::similar::similar;
use crate::symbols::{Symbol, SymbolKind};
use crate::target::Target;

/// The maximum number of functions for a pattern.
pub const MAX_FOUND: usize = 1024;

/// Finds functions in files.
#[derive(Debug)]
pub struct Finder {
    processes: Vec<u32>,
    exceptions: bool,
    learns: bool,
}

/// The result of a search: at least one function.
#[derive(Debug)]
pub struct Found {
    /// The functions, in the order of their files and addresses.
    pub functions: Vec<Function>,
    /// The functions that match a pattern and cannot be probed. For an exact name they are an error.
    pub refused: Vec<Refusal>,
}

impl Finder {
    /// A finder for probes on these processes, whose files the short names then stand for; on all processes if there
    /// are none.
    pub fn new(processes: &[u32]) -> Self {
        Self { processes: processes.to_vec(), exceptions: true, learns: false }
    }

    /// Uses return probes also where an exception might pass, or a stack be switched. The user must have promised that
    /// this never happens: its first time would end the program.
    pub fn without_exceptions(mut self) -> Self {
        self.exceptions = false;
        self
    }

    /// Takes functions too whose returns can be seen only at their callers: [`Return::AtCallers`].
    pub fn learning_callers(mut self) -> Self {
        self.learns = true;
        self
    }

    /// The target's functions, each once whatever the number of its names. A name without a version stands for all its
    /// versions.
    pub fn find(&self, target: &Target) -> Result<Found, FindError> {
        let places = library::locations(&target.file, &self.processes)?;
        let mut found = Found { functions: Vec::new(), refused: Vec::new() };
        let mut absent = None;
        for place in &places {
            let mut image = Image::open(&place.open).map_err(|error| self.with_program(error))?;
            let mut debug = debug_file(&image, &place.shown, &place.root);
            if let Some(debug) = &mut debug {
                image.symbols.merge(std::mem::take(&mut debug.symbols));
            }
            let (exceptions, learns) = (self.exceptions, self.learns);
            let file = OpenFile { debug: debug.as_ref(), place, exceptions, learns, image: &image };
            if let Err(not_found) = file.add(target, &mut found)? {
                absent.get_or_insert(not_found);
            }
        }
        // A user who names a function and gets only its obsolete version would take it for the function.
        let all_or_none = target.function.is_exact() && !found.refused.is_empty();
        if !found.functions.is_empty() && !all_or_none {
            return Ok(found);
        }
        match (found.refused.into_iter().next(), absent) {
            (Some(refusal), _) => Err(refusal.into()),
            (None, Some(mut absent)) => {
                absent.files = places.iter().map(|place| place.shown.display().to_string()).collect();
                Err(absent.into())
            }
            // No name stands for no file.
            (None, None) => Err(FunctionNotFound::nowhere(target.function.as_str()).into()),
        }
    }
}

impl Finder {
    /// The error for a script, with the only process's program.
    fn with_program(&self, error: FileError) -> FileError {
        match (error, self.processes.as_slice()) {
            (FileError::Script { path, interpreter, .. }, &[pid]) => {
                let program = Process::open(pid).and_then(|process| process.program());
                FileError::Script { path, interpreter, runs: program.ok().map(|program| (pid, program)) }
            }
            (error, _) => error,
        }
    }
}

/// A file in a search.
pub(crate) struct OpenFile<'a> {
    /// With its debug file's symbols.
    pub image: &'a Image,
    pub debug: Option<&'a Image>,
    pub place: &'a FileLocation,
    pub exceptions: bool,
    pub learns: bool,
}

impl OpenFile<'_> {
    /// Adds the target's functions; or returns the reason why there are none.
    fn add(&self, target: &Target, found: &mut Found) -> Result<Result<(), FunctionNotFound>, FindError> {
        let address = target.address();
        let neighbours = FunctionMap::of(self.image);
        let meant = match address {
            Some(address) => BTreeMap::from([(address, self.begins_at(address, &neighbours))]),
            None => meant(self.image, &target.function),
        };
        if meant.is_empty() {
            return Ok(Err(self.not_found(&target.function)));
        }
        if meant.len() > MAX_FOUND {
            let count = meant.len();
            return Err(FindError::TooMany { target: target.to_string(), count, most: MAX_FOUND });
        }
        let budget = Budget::of(self.image);
        // A pattern's count of copies would belong to all its functions together.
        let copies = match address.is_none() && target.function.is_exact() && meant.len() == 1 {
            true => self.inlined(&target.function).filter(|&places| places > 0),
            false => None,
        };
        for (address, symbols) in meant {
            let mut names = names_of(self.image, &symbols, neighbours.at(address));
            if names.is_empty() {
                names.push(self.place.name_of(address));
            }
            let name = names.first().cloned().unwrap_or_default();
            let function = match symbols.is_empty() {
                true => self.check_beginning(address, &neighbours),
                false => Ok(()),
            };
            match function.and_then(|()| self.function(address, &symbols, names, &neighbours, &budget)) {
                Ok(mut function) => {
                    function.notes.extend(copies.map(FunctionNote::AlsoInlined));
                    found.functions.push(function);
                }
                Err(why) => {
                    found.refused.push(Refusal { name, file: self.place.shown.display().to_string(), why });
                }
            }
        }
        Ok(Ok(()))
    }

    /// The symbols at a function's address: functions, or else places in assembler code.
    fn begins_at<'s>(&'s self, address: u64, neighbours: &FunctionMap<'s>) -> Vec<&'s Symbol> {
        let functions = neighbours.at(address);
        if !functions.is_empty() {
            return functions.to_vec();
        }
        let is_label = |symbol: &&Symbol| symbol.address == address && symbol.kind == SymbolKind::Label;
        let symbols = &self.image.symbols;
        let labels =
            symbols.iter().filter(is_label).filter(|it| !it.imported && !symbols.name(it).is_empty());
        labels.collect()
    }

    /// Checks by the table for unwinding whether a function without a symbol begins at an address.
    fn check_beginning(&self, address: u64, neighbours: &FunctionMap<'_>) -> Result<(), RefusalReason> {
        let image = self.image;
        if image.offset(address).is_none() {
            return Err(RefusalReason::NotCode { address });
        }
        if let Some(outer) = neighbours.around(address) {
            let name = names::readable(image.symbols.name(outer)).into_owned();
            return Err(RefusalReason::Amid { outer: name, begins: outer.address });
        }
        let frames = image.frames.get(image);
        match frames.around(address) {
            Some(piece) if piece.start != address => {
                let begins = piece.start;
                Err(RefusalReason::Amid { outer: self.place.name_of(begins), begins })
            }
            Some(_) if frames.is_amid(address) => Err(RefusalReason::UnnamedPart),
            Some(_) => Ok(()),
            None => Err(RefusalReason::NoBeginning),
        }
    }

    /// A function and its probes.
    pub fn function(
        &self,
        address: u64,
        symbols: &[&Symbol],
        names: Vec<String>,
        neighbours: &FunctionMap<'_>,
        budget: &Budget,
    ) -> Result<Function, RefusalReason> {
        let image = self.image;
        let name = names.first().map_or("", |name| without_version(name));
        if symbols.iter().any(|symbol| symbol.kind == SymbolKind::Ifunc) {
            return Err(RefusalReason::Ifunc { implementations: implementations(image, name) });
        }
        if let Some(of) = names::cold_part_of(name) {
            return Err(RefusalReason::ColdPart { of: of.to_owned() });
        }
        if names.iter().any(|name| returns_twice(without_version(name))) {
            return Err(RefusalReason::ReturnsTwice);
        }
        if image.offset(address).is_none() {
            return Err(RefusalReason::NotCode { address });
        }
        if let Some(outer) = neighbours.around(address) {
            return Err(RefusalReason::Inside { outer: image.symbols.name(outer).to_owned() });
        }
        let (main, cold) = extents(image, address, symbols, &names, neighbours);
        let wanted = ProbeRequest {
            main,
            cold: &cold,
            runtime: if image.go && neighbours.is_go(address) { Runtime::Go } else { Runtime::Native },
            unwinds: neighbours.unwinds && self.exceptions,
            switches: neighbours.switches && self.exceptions,
            uncalled: matches!(name, "_start" | "__restore_rt"),
            learns: self.learns,
            name: &|address| {
                let begins = neighbours.at(address).first()?;
                Some(names::readable(image.symbols.name(begins)).into_owned())
            },
        };
        let (offset, method, returns) = place(image, &wanted, budget)?;
        let notes = notes(name, &returns, &wanted);
        Ok(Function {
            shown: self.place.shown.clone(),
            readable: names::readable(name).into_owned(),
            names,
            address,
            size: if main.stated { main.end.saturating_sub(address) } else { 0 },
            probe: Probe {
                file: self.place.open.clone(),
                offset,
                method,
                returns,
                runtime: wanted.runtime,
                switches: neighbours.switches,
            },
            notes,
        })
    }

    /// The number of places where the compiler put a matching function's code into its callers.
    fn inlined(&self, pattern: &Pattern) -> Option<usize> {
        inlined::places(self.image, pattern).or_else(|| inlined::places(self.debug?, pattern))
    }

    /// The reason if a table of names was left out because it contradicts itself.
    fn damaged(&self) -> Option<AbsenceReason> {
        let images = [self.image].into_iter().chain(self.debug);
        let mut tables = images.flat_map(|image| image.damaged.iter().map(|table| (&image.path, table)));
        tables.next().map(|(file, table)| AbsenceReason::Damaged { file: file.clone(), table })
    }

    /// The remaining parts of a function whose beginning the compiler put into the callers.
    fn parts(&self, pattern: &Pattern) -> Vec<String> {
        let meaning = names::NameMatcher::of(pattern);
        let symbols = self.image.symbols.iter().filter(|symbol| symbol.kind == SymbolKind::Function);
        let names = symbols.map(|symbol| self.image.symbols.name(symbol));
        let parts = names.filter(|name| names::is_part(name) && names::cold_part_of(name).is_none());
        let parts =
            parts.filter(|name| meaning.includes(name)).map(|name| names::readable(name).into_owned());
        // A function may be in both tables.
        parts.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// A closure below a function, if it may be an `async fn`'s body, and whether the debug information says so.
    fn async_body(&self, name: &str, function: &str) -> Option<(String, bool)> {
        let closure = names::closure_in(name, function)?;
        let known =
            [self.image].into_iter().chain(self.debug).find_map(|image| inlined::is_async(image, name));
        (known != Some(false)).then(|| (closure, known.unwrap_or(false)))
    }

    fn not_found(&self, pattern: &Pattern) -> FunctionNotFound {
        let symbols = &self.image.symbols;
        let named = |symbol: &Symbol| pattern.matches(symbols.name(symbol));
        let functions = || {
            let of_code = |symbol: &&Symbol| matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc);
            symbols
                .iter()
                .filter(of_code)
                .filter(|symbol| !symbol.imported)
                .map(|symbol| symbols.name(symbol))
        };
        let parts: Vec<String> = match pattern.is_exact() {
            true => self.parts(pattern),
            false => Vec::new(),
        };
        let closure = functions().find_map(|name| self.async_body(name, pattern.as_str()));
        let interpreter = Interpreter::of(self.image);
        let inlined = match pattern.is_exact() && closure.is_none() && interpreter.is_none() {
            true => self.inlined(pattern).unwrap_or(0),
            false => 0,
        };
        let is_debugged = [self.image].into_iter().chain(self.debug).any(|image| image.debug_bytes() > 0);
        let why = match () {
            () if !parts.is_empty() => AbsenceReason::Parts { parts },
            () if closure.is_some() => {
                let (closure, is_known) = closure.unwrap_or_default();
                AbsenceReason::InClosure { closure, is_known }
            }
            () if inlined > 0 => AbsenceReason::Inlined { places: inlined },
            () if symbols.iter().any(|symbol| symbol.imported && named(symbol)) => AbsenceReason::Imported,
            () if symbols.iter().any(|symbol| symbol.kind == SymbolKind::Data && named(symbol)) => {
                AbsenceReason::Data
            }
            () if interpreter.is_some() => {
                interpreter.map_or(AbsenceReason::Plain, AbsenceReason::Interpreted)
            }
            () if !symbols.full => self.damaged().unwrap_or_else(|| AbsenceReason::Stripped {
                exported: functions().filter(|name| !name.is_empty()).count(),
            }),
            () if pattern.is_exact() && !is_debugged && !self.image.go => AbsenceReason::NoDebug,
            () => AbsenceReason::Plain,
        };
        // Names in an interpreter's own code would mislead.
        let similar = match why {
            AbsenceReason::Interpreted(Interpreter::JavaScript | Interpreter::Java)
            | AbsenceReason::Parts { .. }
            | AbsenceReason::InClosure { .. } => Vec::new(),
            _ => similar(pattern.as_str(), functions().map(names::readable)),
        };
        FunctionNotFound { function: pattern.as_str().to_owned(), files: Vec::new(), why, similar }
    }
}

fn notes(name: &str, returns: &Return, wanted: &ProbeRequest<'_>) -> Vec<FunctionNote> {
    let mut notes = Vec::new();
    if matches!(name, "main" | "main.main" | "_start" | "__libc_start_main") {
        notes.push(FunctionNote::CalledOnce);
    }
    match returns {
        Return::Never => notes.push(FunctionNote::NeverReturns),
        Return::AtCallers => notes.push(FunctionNote::CallersLearned),
        Return::AtInstructions(_) if wanted.runtime == Runtime::Native => {
            if wanted.switches {
                notes.push(FunctionNote::StacksSwitch);
            }
            if wanted.unwinds {
                notes.push(FunctionNote::ExceptionsPass);
            }
        }
        _ => {}
    }
    if name.contains(".part.") {
        notes.push(FunctionNote::PartlyInlined);
    } else if names::is_copy(name) {
        notes.push(FunctionNote::Copy);
    }
    notes
}

/// A function's extent, and its parts elsewhere.
pub(crate) fn extents(
    image: &Image,
    address: u64,
    symbols: &[&Symbol],
    names: &[String],
    neighbours: &FunctionMap<'_>,
) -> (Extent, Vec<Extent>) {
    let size = symbols.iter().map(|symbol| symbol.size).max().unwrap_or(0);
    let cold = names.iter().filter_map(|name| neighbours.cold.get(without_version(name)));
    let cold = cold.flatten().copied().collect();
    // A stripped file still says how far its functions reach.
    if let Some(piece) = symbols.is_empty().then(|| image.frames.get(image).at(address)).flatten() {
        return (Extent { address, end: piece.end, stated: true }, cold);
    }
    let end = match size {
        0 => neighbours.next(address).into_iter().chain(image.end_of_code(address)).min().unwrap_or(address),
        size => address.saturating_add(size),
    };
    (Extent { address, end, stated: size != 0 }, cold)
}

/// The matching symbols, by address.
fn meant<'a>(image: &'a Image, pattern: &Pattern) -> BTreeMap<u64, Vec<&'a Symbol>> {
    let meaning = names::NameMatcher::of(pattern);
    let mut meant: BTreeMap<u64, Vec<&Symbol>> = BTreeMap::new();
    for symbol in image.symbols.iter() {
        let name = image.symbols.name(symbol);
        let may_be = match symbol.kind {
            SymbolKind::Function | SymbolKind::Ifunc => true,
            // Assembler code seldom marks its functions; a pattern would catch every label.
            SymbolKind::Label => pattern.is_exact() && image.offset(symbol.address).is_some(),
            SymbolKind::Data => false,
        };
        if !may_be || symbol.imported || name.is_empty() {
            continue;
        }
        let is_asked = || pattern.is_exact() && names::is_whole(pattern.as_str(), name);
        let is_rest = names::cold_part_of(name).is_some() || pattern.is_exact() && names::is_part(name);
        if is_rest && !is_asked() {
            continue;
        }
        let with_version =
            || pattern.as_str().contains('@') && pattern.matches(&image.symbols.versioned_name(symbol));
        if meaning.includes(name) || with_version() {
            meant.entry(symbol.address).or_default().push(symbol);
        }
    }
    meant
}

/// All names of a function: first the requested names.
pub(crate) fn names_of<'a>(image: &Image, asked: &[&'a Symbol], others: &[&'a Symbol]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for symbol in asked.iter().chain(others) {
        let versioned = image.symbols.versioned_name(symbol);
        // The default version is left out.
        let name = versioned.split("@@").next().unwrap_or_default().to_owned();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Names of an IFUNC's candidates: `__memcpy_avx_unaligned` for `memcpy`, `f.avx2` for `f`.
fn implementations(image: &Image, name: &str) -> Vec<String> {
    let mut names: Vec<String> = image
        .symbols
        .iter()
        .filter(|symbol| symbol.kind == SymbolKind::Function && !symbol.imported)
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

/// Whether a function returns twice; compilers know these by name too.
fn returns_twice(name: &str) -> bool {
    matches!(name.trim_start_matches('_'), "setjmp" | "sigsetjmp" | "savectx" | "getcontext" | "swapcontext")
}

fn without_version(name: &str) -> &str {
    name.split('@').next().unwrap_or_default()
}

/// The beginnings and extents of a file's functions.
pub(crate) struct FunctionMap<'a> {
    /// By address.
    functions: Vec<&'a Symbol>,
    /// The seldom run parts of functions, stored elsewhere.
    cold: HashMap<&'a str, Vec<Extent>>,
    /// The file's code throws exceptions, or lets them pass.
    unwinds: bool,
    /// The file's code goes from one stack to another.
    switches: bool,
    /// The range of Go's code, if the file states it.
    go: Option<(u64, u64)>,
}

impl<'a> FunctionMap<'a> {
    pub fn of(image: &'a Image) -> Self {
        let mut functions: Vec<&Symbol> = image
            .symbols
            .iter()
            .filter(|symbol| symbol.kind == SymbolKind::Function && !symbol.imported)
            .collect();
        functions.sort_by_key(|symbol| (symbol.address, symbol.size));
        let called = |name: &str| {
            let found = image.symbols.iter().find(|symbol| image.symbols.name(symbol) == name);
            found.map(|symbol| symbol.address)
        };
        let go = image.go.then(|| called("runtime.text").zip(called("runtime.etext"))).flatten();
        let mut cold: HashMap<&str, Vec<Extent>> = HashMap::new();
        for symbol in functions.iter().filter(|symbol| symbol.size != 0) {
            if let Some(of) = names::cold_part_of(image.symbols.name(symbol)) {
                let end = symbol.address.saturating_add(symbol.size);
                cold.entry(of).or_default().push(Extent { address: symbol.address, end, stated: true });
            }
        }
        Self {
            functions,
            cold,
            unwinds: image.unwinds() || image.hides_personalities(),
            switches: !image.go && image.switches_stacks(),
            go,
        }
    }

    /// The nearest function that begins before an address and reaches beyond it.
    fn around(&self, address: u64) -> Option<&'a Symbol> {
        let before = self.functions.partition_point(|symbol| symbol.address < address);
        let nearest = self.functions[..before].last()?;
        (address - nearest.address < nearest.size).then_some(*nearest)
    }

    /// The functions that begin at an address.
    pub fn at(&self, address: u64) -> &[&'a Symbol] {
        let start = self.functions.partition_point(|symbol| symbol.address < address);
        let end = self.functions.partition_point(|symbol| symbol.address <= address);
        &self.functions[start..end]
    }

    /// The next function's address.
    fn next(&self, address: u64) -> Option<u64> {
        let next = self.functions.partition_point(|symbol| symbol.address <= address);
        self.functions.get(next).map(|symbol| symbol.address)
    }

    /// Whether the code at an address is Go's own, in a file from Go's linker: C may be linked in.
    pub fn is_go(&self, address: u64) -> bool {
        self.go.is_none_or(|(start, end)| (start..end).contains(&address))
    }
}

#[cfg(test)]
mod tests;
