//! Functions of the kernel: which there are, and which of them can be probed.

use std::collections::{HashMap, HashSet};

use wakepath_collect::{
    Error as CollectError, KernelFunction, KernelTypes, MAX_TARGETS, try_kernel_functions,
};
use wakepath_functions::{Pattern, near};

use super::LatencyError;

/// Where the kernel lists the functions that it lets be traced.
const TRACEABLE: [&str; 2] = [
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];

/// Functions that never return to whoever called them: they end a thread, or give its stack away.
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

/// Most functions of a pattern that are named as not to be probed.
const MAX_NAMED: usize = 5;

/// Why a function of the kernel cannot be probed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum KernelRefusal {
    #[error(
        "the compiler put its code into its callers, or made it take something else: what is left is {}, whose calls are not its calls; probe a caller",
        .left.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    Altered { left: Vec<String> },
    #[error("there are {0} functions of that name, and which of them a probe would stand at, nobody can say")]
    Several(usize),
    #[error("it belongs to the module `{0}`, and only functions of the kernel itself are probed")]
    OfModule(String),
    #[error("the kernel does not let it be traced; probe a caller, or what it calls")]
    Untraceable,
    #[error(
        "the kernel's type information does not tell what it takes, and without that no probe stands there"
    )]
    NoType,
}

/// A function of the kernel that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// As a target is written.
    pub target: String,
    pub function: KernelFunction,
    pub notes: Vec<String>,
}

/// The functions that `pattern` means, if this kernel lets them be probed.
pub(crate) fn kernel_functions(pattern: &str) -> Result<Vec<Found>, LatencyError> {
    // Without names, nobody knows better.
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let traceable = TRACEABLE.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let known = Known::new(&symbols, traceable.as_deref());
    let names = known.meant(pattern)?;
    try_kernel_functions().map_err(|source| match (source, names.first()) {
        (source @ CollectError::NoKernelProbes { .. }, Some(name)) => {
            LatencyError::KernelFunction { name: (*name).to_owned(), source }
        }
        (source, _) => LatencyError::Collect(source),
    })?;
    let types = KernelTypes::read()?;
    known.find(pattern, &names, |name| types.describes(name))
}

/// What the kernel says of its functions.
struct Known<'a> {
    functions: HashMap<&'a str, Vec<Symbol<'a>>>,
    /// Several may be names of one function.
    by_address: HashMap<u64, Vec<&'a str>>,
    /// By address, since the kernel names one of several names; nothing where it does not say.
    traceable: Option<HashSet<u64>>,
    /// What the compiler made of functions: their names go on behind a point.
    altered: Vec<&'a str>,
}

struct Symbol<'a> {
    address: u64,
    module: Option<&'a str>,
    /// Of its own file alone.
    local: bool,
}

impl<'a> Known<'a> {
    /// Of `/proc/kallsyms`, and the list of what can be traced.
    fn new(symbols: &'a str, traceable: Option<&str>) -> Self {
        let mut known = Self {
            functions: HashMap::new(),
            by_address: HashMap::new(),
            traceable: None,
            altered: Vec::new(),
        };
        for line in symbols.lines() {
            let mut fields = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            // What stands before a function is its padding.
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
            // All are 0 for who may not read them.
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

    /// The names that are meant, in order; at least one, but where the kernel tells no names.
    fn meant(&self, pattern: &'a str) -> Result<Vec<&'a str>, LatencyError> {
        let meant = Pattern::new(pattern);
        let mut names: Vec<&str> = match meant.is_exact() {
            true => self.functions.get_key_value(pattern).map(|(name, _)| *name).into_iter().collect(),
            false => self.functions.keys().copied().filter(|name| meant.matches(name)).collect(),
        };
        names.sort_unstable();
        if self.functions.is_empty() && meant.is_exact() {
            return Ok(vec![pattern]);
        }
        if !names.is_empty() {
            return Ok(names);
        }
        let part = |name: &&&str| name.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('.'));
        let left: Vec<_> = self.altered.iter().filter(part).map(|&name| name.to_owned()).collect();
        let name = pattern.to_owned();
        Err(match left.is_empty() {
            false => LatencyError::KernelRefused { name, why: KernelRefusal::Altered { left } },
            true => {
                let near = near(pattern, self.functions.keys().map(|&name| name.into()));
                LatencyError::NoKernelFunction { name, near }
            }
        })
    }

    /// Of those names, what can be probed, with what is to be known of it.
    fn find(
        &self,
        pattern: &str,
        names: &[&str],
        has_type: impl Fn(&str) -> bool,
    ) -> Result<Vec<Found>, LatencyError> {
        let (mut found, mut refused, mut there) = (Vec::new(), Vec::new(), HashSet::new());
        for &name in names {
            match self.probed(name, &has_type) {
                Err(why) => refused.push((name, why)),
                // Once, whatever it is called.
                Ok(function) => {
                    if there.insert(function.name.clone()) {
                        found.push(self.found(name, function));
                    }
                }
            }
        }
        if found.len() > MAX_TARGETS {
            let (pattern, count) = (pattern.to_owned(), found.len());
            return Err(LatencyError::TooManyOfKernel { pattern, count, most: MAX_TARGETS });
        }
        let Some(first) = found.first_mut() else {
            let Some((name, why)) = refused.into_iter().next() else { return Ok(found) };
            return Err(LatencyError::KernelRefused { name: name.to_owned(), why });
        };
        for (name, why) in refused.iter().take(MAX_NAMED) {
            first.notes.push(format!("without `{name}`: {why}"));
        }
        if let Some(more @ 1..) = refused.len().checked_sub(MAX_NAMED) {
            first.notes.push(format!("without {more} more that cannot be probed"));
        }
        Ok(found)
    }

    /// The function of that name, by a name for which there is a type.
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
        // A name that others have too says nothing of this place.
        let also = also.filter(|name| self.symbols(name).len() == 1);
        let typed = std::iter::once(name).chain(also).find(|name| has_type(name));
        let typed = typed.ok_or(KernelRefusal::NoType)?;
        Ok(KernelFunction { name: typed.to_owned(), never_returns: NEVER.contains(&name) })
    }

    fn symbols(&self, name: &str) -> &[Symbol<'a>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    fn found(&self, name: &str, function: KernelFunction) -> Found {
        let mut notes = Vec::new();
        if function.never_returns {
            notes
                .push(String::from("it never returns: that it is called is counted, as a call that is left"));
        }
        if self.symbols(name).iter().any(|symbol| symbol.local) {
            notes.push(String::from("where the compiler put its code into a caller, no call is seen"));
        }
        Found { target: format!("kernel:{name}"), function, notes }
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

    fn find(pattern: &str) -> Result<Vec<Found>, LatencyError> {
        let known = Known::new(SYMBOLS, Some(TRACED));
        let names = known.meant(pattern)?;
        known.find(pattern, &names, |name| !["typeless", "typed_elsewhere"].contains(&name))
    }

    #[test]
    fn what_cannot_be_probed_is_refused_with_its_reason() {
        for (name, expected) in [
            ("data", "there is no function `data` in this kernel"),
            ("vfs_raed", "there is no function `vfs_raed` in this kernel; there is `vfs_read`"),
            ("zzz*", "there is no function `zzz*` in this kernel"),
            ("__pfx_vfs_read", "there is no function `__pfx_vfs_read` in this kernel; there is `vfs_read`"),
            (
                "kept",
                "cannot probe the kernel's `kept`: the compiler put its code into its callers, or made it take something else: what is left is `kept.isra.0`, `kept.part.0.cold`, whose calls are not its calls; probe a caller",
            ),
            (
                "twice",
                "cannot probe the kernel's `twice`: there are 2 functions of that name, and which of them a probe would stand at, nobody can say",
            ),
            (
                "of_module",
                "cannot probe the kernel's `of_module`: it belongs to the module `ext4`, and only functions of the kernel itself are probed",
            ),
            (
                "dark",
                "cannot probe the kernel's `dark`: the kernel does not let it be traced; probe a caller, or what it calls",
            ),
            (
                "typeless",
                "cannot probe the kernel's `typeless`: the kernel's type information does not tell what it takes, and without that no probe stands there",
            ),
            (
                "d?rk",
                "cannot probe the kernel's `dark`: the kernel does not let it be traced; probe a caller, or what it calls",
            ),
        ] {
            assert_eq!(find(name).expect_err(name).to_string(), expected);
        }
    }

    #[test]
    fn a_pattern_is_what_can_be_probed_of_it_and_says_what_cannot() {
        let found = find("vfs_*").expect("functions");
        let targets: Vec<_> = found.iter().map(|found| found.target.as_str()).collect();
        assert_eq!(targets, ["kernel:vfs_local", "kernel:vfs_read", "kernel:vfs_write"]);
        assert_eq!(found[0].notes, ["where the compiler put its code into a caller, no call is seen"]);
        assert!(found[1].notes.is_empty() && !found[1].function.never_returns);
        let found = find("*").expect("functions");
        let functions: Vec<_> = found.iter().map(|found| found.function.name.as_str()).collect();
        assert_eq!(functions, ["alias", "do_exit", "same", "typed", "vfs_local", "vfs_read", "vfs_write"]);
        let told = found[0].notes.iter().filter(|note| note.starts_with("without `"));
        assert_eq!(told.count(), 4, "{found:#?}");
        // Of several names that a function has, the kernel lists one as what can be traced, and has a type for
        // one.
        assert_eq!(find("same").expect("a function").len(), 1);
        let found = find("typed_elsewhere").expect("a function");
        assert_eq!((&*found[0].target, &*found[0].function.name), ("kernel:typed_elsewhere", "typed"));
    }

    #[test]
    fn a_function_that_never_returns_says_so() {
        let found = find("do_exit").expect("a function");
        assert!(found[0].function.never_returns);
        assert!(found[0].notes[0].starts_with("it never returns"), "{found:?}");
        assert!(NEVER.is_sorted());
    }

    #[test]
    fn more_functions_than_are_counted_at_once_are_too_many() {
        let symbols: String = (0..80).map(|n| format!("{:016x} T f{n}\n", 0x1000 + 16 * n)).collect();
        let known = Known::new(&symbols, None);
        let names = known.meant("f*").expect("names");
        let error = known.find("f*", &names, |_| true).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "`kernel:f*` means 80 functions, and at most 63 are counted at once: narrow the pattern"
        );
    }

    #[test]
    fn without_names_the_one_that_was_asked_for_is_tried() {
        let known = Known::new("", None);
        let names = known.meant("vfs_read").expect("a name");
        let found = known.find("vfs_read", &names, |_| true).expect("a function");
        assert_eq!(found[0].target, "kernel:vfs_read");
    }
}
