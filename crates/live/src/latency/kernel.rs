//! The kernel's functions, and those with probes allowed.

use std::collections::{HashMap, HashSet};

use wakepath_collect::{
    Counted, Error as CollectError, KernelFunction, KernelTypes, MAX_TARGETS, try_kernel_functions,
};
use wakepath_functions::Pattern;

use super::error::{KernelRefusal, LiveLatencyError};
use super::target::{LiveTarget, Resolved};
use wakepath_engine::latency::target::matching;
use wakepath_engine::latency::{LatencySource, RefusedTarget};

/// The kernel's lists of traceable functions.
const TRACEABLE: [&str; 2] = [
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];

/// Functions that never return to their callers: they end a thread, or give its stack away.
const NEVER: [&str; 14] = [
    "__ia32_sys_exit",
    "__ia32_sys_exit_group",
    "__kthread_complete_and_exit",
    "__module_put_and_kthread_exit",
    "__x64_sys_exit",
    "__x64_sys_exit_group",
    "cpu_startup_entry",
    "do_exit",
    "do_group_exit",
    "do_task_dead",
    "kthread_complete_and_exit",
    "kthread_exit",
    "make_task_dead",
    "panic",
];

/// The functions that match a pattern and that this kernel allows to be probed.
pub(crate) fn kernel_functions(pattern: &Pattern) -> Result<Resolved, LiveLatencyError> {
    // Without symbols, the name is tried as it stands.
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let traceable = TRACEABLE.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let known = Known::new(&symbols, traceable.as_deref());
    let names = known.meant(pattern)?;
    try_kernel_functions().map_err(|source| match (source, names.first()) {
        (source @ CollectError::NoKernelProbes { .. }, Some(name)) => {
            LiveLatencyError::KernelFunction { name: (*name).to_owned(), source }
        }
        (source, _) => LiveLatencyError::Collect(source),
    })?;
    let types = KernelTypes::read()?;
    known.find(pattern, &names, |name| types.describes(name))
}

/// The functions in the kernel's lists.
#[derive(Default)]
struct Known<'a> {
    functions: HashMap<&'a str, Vec<Symbol<'a>>>,
    /// The names at each address: a function may have several.
    by_address: HashMap<u64, Vec<&'a str>>,
    /// The addresses of traceable functions: the kernel lists a single name for each. `None` without the list.
    traceable: Option<HashSet<u64>>,
    /// Functions changed by the compiler: their names have a suffix after a dot.
    altered: Vec<&'a str>,
}

struct Symbol<'a> {
    address: u64,
    module: Option<&'a str>,
    /// Whether it is visible in its own source file only.
    local: bool,
}

impl<'a> Known<'a> {
    /// Reads `/proc/kallsyms` and the list of traceable functions.
    fn new(symbols: &'a str, traceable: Option<&str>) -> Self {
        let mut known = Self::default();
        for line in symbols.lines() {
            let mut fields = line.split_whitespace();
            let address = fields.next().and_then(|address| u64::from_str_radix(address, 16).ok());
            let (Some(address), Some(kind), Some(name)) = (address, fields.next(), fields.next()) else {
                continue;
            };
            // The bytes before a function are its padding.
            if !matches!(kind, "t" | "T" | "w" | "W") || name.starts_with("__pfx_") {
                continue;
            }
            let module = fields.next().map(|module| module.trim_matches(['[', ']']));
            if name.contains('.') {
                known.altered.push(name);
                continue;
            }
            let of_name = known.functions.entry(name).or_default();
            of_name.push(Symbol { address, module, local: kind == "t" });
            // All addresses are 0 for a reader without rights.
            if address != 0 {
                known.by_address.entry(address).or_default().push(name);
            }
        }
        known.traceable = traceable.map(|list| {
            let names = list.lines().filter_map(|line| line.split_whitespace().next());
            let symbols = names.filter_map(|name| known.functions.get(name)).flatten();
            symbols.map(|symbol| symbol.address).collect()
        });
        known
    }

    /// The names that match a pattern, in order; at least one.
    fn meant(&self, pattern: &'a Pattern) -> Result<Vec<&'a str>, LiveLatencyError> {
        let text = pattern.as_str();
        if self.functions.is_empty() && pattern.is_exact() {
            return Ok(vec![text]);
        }
        let part = |name: &&&str| name.strip_prefix(text).is_some_and(|rest| rest.starts_with('.'));
        let left: Vec<_> = self.altered.iter().filter(part).map(|&name| name.to_owned()).collect();
        if !left.is_empty() && !self.functions.contains_key(text) {
            let why = KernelRefusal::Altered { left };
            return Err(LiveLatencyError::KernelRefused { name: text.to_owned(), why });
        }
        let found = matching("kernel", pattern, self.functions.keys().map(|&name| (name, name)))?;
        let mut names: Vec<_> = found.into_iter().map(|(_, name)| name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The probeable functions among these names, with their notes, and the others.
    fn find(
        &self,
        pattern: &Pattern,
        names: &[&str],
        has_type: impl Fn(&str) -> bool,
    ) -> Result<Resolved, LiveLatencyError> {
        let (mut found, mut refused, mut there) = (Vec::new(), Vec::new(), HashSet::new());
        for &name in names {
            match self.probed(name, &has_type) {
                Err(why) => refused.push((name, why)),
                // Each function once, also under several names.
                Ok(function) => {
                    if there.insert(function.name.clone()) {
                        found.push(self.found(name, function));
                    }
                }
            }
        }
        if found.len() > MAX_TARGETS {
            let (pattern, count) = (pattern.as_str().to_owned(), found.len());
            return Err(LiveLatencyError::TooManyOfKernel { pattern, count, max: MAX_TARGETS });
        }
        if found.is_empty()
            && let Some((name, why)) = refused.first()
        {
            return Err(LiveLatencyError::KernelRefused { name: (*name).to_owned(), why: why.clone() });
        }
        let refused = refused
            .into_iter()
            .map(|(name, why)| RefusedTarget { target: format!("kernel:{name}"), why: why.to_string() });
        Ok(Resolved { targets: found, refused: refused.collect() })
    }

    /// The function with this name, under a name with type information.
    fn probed(&self, name: &str, has_type: impl Fn(&str) -> bool) -> Result<KernelFunction, KernelRefusal> {
        let symbols = self.symbols(name);
        if let Some(module) = symbols.iter().find_map(|symbol| symbol.module) {
            return Err(KernelRefusal::OfModule(module.to_owned()));
        }
        let places: HashSet<u64> = symbols.iter().map(|symbol| symbol.address).collect();
        if places.len() > 1 {
            return Err(KernelRefusal::Several(places.len()));
        }
        let traceable = |list: &HashSet<u64>| places.is_empty() || !places.is_disjoint(list);
        if self.traceable.as_ref().is_some_and(|list| !traceable(list)) {
            return Err(KernelRefusal::Untraceable);
        }
        let also = places.iter().filter_map(|place| self.by_address.get(place)).flatten().copied();
        // A name shared by several functions does not identify this function.
        let also = also.filter(|name| self.symbols(name).len() == 1);
        let typed = std::iter::once(name).chain(also).find(|name| has_type(name));
        let typed = typed.ok_or(KernelRefusal::NoType)?;
        Ok(KernelFunction { name: typed.to_owned(), never_returns: NEVER.contains(&name) })
    }

    fn symbols(&self, name: &str) -> &[Symbol<'a>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    fn found(&self, name: &str, function: KernelFunction) -> LiveTarget {
        let mut notes = Vec::new();
        if function.never_returns {
            notes.push(String::from("it never returns: each call is counted as one that never returned"));
        }
        if self.symbols(name).iter().any(|symbol| symbol.local) {
            notes.push(String::from(
                "calls are not seen where the compiler inlined the function into a caller",
            ));
        }
        let counted = Counted::KernelFunction(function);
        LiveTarget { notes, ..LiveTarget::new(format!("kernel:{name}"), LatencySource::Calls, counted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
0000000000000010 D data
ffffffff81000000 T vfs_read
ffffffff81000040 T vfs_write
ffffffff81000080 t vfs_local
ffffffff810000c0 t twice
ffffffff81000100 t twice
ffffffff81000140 T same
ffffffff81000140 T alias
ffffffff81000180 t kept.isra.0
ffffffff810001c0 t kept.part.0.cold
ffffffff81000200 T dark
ffffffff81000230 t __pfx_vfs_read
ffffffff81000240 T typeless
ffffffff81000250 T typed_elsewhere
ffffffff81000250 t typed
ffffffff81000280 T do_exit
ffffffffc0000000 t of_module\t[ext4]
?
";
    const TRACED: &str =
        "vfs_read\nvfs_write\nvfs_local\ntwice\ntwice\nalias\ntypeless\ntyped\ndo_exit\nof_module [ext4]\n";

    fn find(pattern: &str) -> Result<Vec<LiveTarget>, LiveLatencyError> {
        find_in(SYMBOLS, Some(TRACED), pattern).map(|found| found.targets)
    }

    fn find_in(symbols: &str, traceable: Option<&str>, pattern: &str) -> Result<Resolved, LiveLatencyError> {
        let known = Known::new(symbols, traceable);
        let pattern = Pattern::new(pattern);
        let names = known.meant(&pattern)?;
        known.find(&pattern, &names, |name| !["typeless", "typed_elsewhere"].contains(&name))
    }

    fn function(target: &LiveTarget) -> &KernelFunction {
        let Counted::KernelFunction(function) = &target.counted else { panic!("{target:?}") };
        function
    }

    #[test]
    fn a_function_that_cannot_be_probed_is_refused_with_its_reason() {
        for (name, expected) in [
            ("data", "there is no `kernel:data`"),
            ("vfs_raed", "there is no `kernel:vfs_raed`; similar: `kernel:vfs_read`"),
            ("zzz*", "there is no `kernel:zzz*`"),
            ("__pfx_vfs_read", "there is no `kernel:__pfx_vfs_read`; similar: `kernel:vfs_read`"),
            (
                "kept",
                "cannot probe the kernel's `kept`: the compiler inlined or changed it, and only `kept.isra.0`, `kept.part.0.cold` are left, which does not see all of its calls; probe a caller",
            ),
            (
                "twice",
                "cannot probe the kernel's `twice`: 2 functions have that name, and a probe cannot choose between them",
            ),
            (
                "of_module",
                "cannot probe the kernel's `of_module`: it belongs to the module `ext4`; only functions of the kernel itself can be probed",
            ),
            (
                "dark",
                "cannot probe the kernel's `dark`: the kernel does not allow tracing it; probe a caller, or a function that it calls",
            ),
            (
                "typeless",
                "cannot probe the kernel's `typeless`: the kernel's type information does not describe its arguments, which a probe needs",
            ),
            (
                "d?rk",
                "cannot probe the kernel's `dark`: the kernel does not allow tracing it; probe a caller, or a function that it calls",
            ),
        ] {
            assert_eq!(find(name).expect_err(name).to_string(), expected);
        }
    }

    #[test]
    fn a_pattern_is_what_can_be_probed_of_it_and_says_what_cannot() {
        let found = find("vfs_*").expect("functions");
        let targets: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(targets, ["kernel:vfs_local", "kernel:vfs_read", "kernel:vfs_write"]);
        assert_eq!(
            found[0].notes,
            ["calls are not seen where the compiler inlined the function into a caller"]
        );
        assert!(found[1].notes.is_empty() && !function(&found[1]).never_returns);
        let found = find("*").expect("functions");
        let functions: Vec<_> = found.iter().map(|found| function(found).name.as_str()).collect();
        assert_eq!(functions, ["alias", "do_exit", "same", "typed", "vfs_local", "vfs_read", "vfs_write"]);
        let refused = find_in(SYMBOLS, Some(TRACED), "*").expect("functions").refused;
        let refused: Vec<_> = refused.iter().map(|one| (one.target.as_str(), &one.why[..20])).collect();
        let expected = [
            ("kernel:dark", "the kernel does not "),
            ("kernel:of_module", "it belongs to the mo"),
            ("kernel:twice", "2 functions have tha"),
            ("kernel:typeless", "the kernel's type in"),
        ];
        assert_eq!(refused, expected);
        // A function may have several names: the kernel lists one as traceable, and has a type for one.
        assert_eq!(find("same").expect("a function").len(), 1);
        let found = find("typed_elsewhere").expect("a function");
        assert_eq!((&*found[0].name, &*function(&found[0]).name), ("kernel:typed_elsewhere", "typed"));
    }

    #[test]
    fn a_function_that_never_returns_says_so() {
        let found = find("do_exit").expect("a function");
        assert!(function(&found[0]).never_returns);
        assert!(found[0].notes[0].starts_with("it never returns"), "{found:?}");
        assert!(NEVER.is_sorted());
    }

    #[test]
    fn more_functions_than_are_counted_at_once_are_too_many() {
        let symbols: String = (0..80).map(|n| format!("{:016x} T f{n}\n", 0x1000 + 16 * n)).collect();
        let error = find_in(&symbols, None, "f*").expect_err("too many");
        assert_eq!(
            error.to_string(),
            "`kernel:f*` matches 80 functions; at most 63 can be counted: narrow the pattern"
        );
    }

    #[test]
    fn without_names_the_one_that_was_asked_for_is_tried() {
        let found = find_in("", None, "vfs_read").expect("a function").targets;
        assert_eq!(found[0].name, "kernel:vfs_read");
    }
}
