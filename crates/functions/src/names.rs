//! A function's names: as the linker has it, and as its language writes it.

use std::borrow::Cow;

use wakepath_symbols::demangle;

use crate::pattern::Pattern;

/// The suffixes that compilers put on a copy of a function: `foo.constprop.0` is called where the source calls `foo`.
const CLONES: [&str; 5] = [".constprop.", ".isra.", ".part.", ".lto_priv.", ".llvm."];

/// Words that mangling writes by a letter or two, so that they are missing in a mangled name.
const ABBREVIATED: &str = "std allocator basic_string basic_istream basic_ostream basic_iostream operator \
    unsigned signed char wchar_t char8_t char16_t char32_t bool short int long __int128 float double __float128 \
    decimal32 decimal64 decimal128 half void auto const volatile restrict decltype nullptr_t noexcept throw \
    anonymous namespace lambda unnamed type clone vtable typeinfo guard variable reference temporary \
    thunk virtual non covariant return new delete sizeof alignof true false closure impl shim usize isize str dyn";

/// A pattern to compare with many names.
pub(crate) struct NameMatcher<'a> {
    pattern: &'a Pattern,
    /// An identifier in each matching mangled name, if the pattern has one: demangling a name takes a thousand times
    /// longer than seeing that it cannot match.
    identifier: Option<&'a str>,
}

impl<'a> NameMatcher<'a> {
    pub fn of(pattern: &'a Pattern) -> Self {
        let text = pattern.as_str();
        // Behind the name there may be types, which mangling writes by single letters.
        let name = text.split(['(', '<']).next().unwrap_or_default();
        let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let identifier = name.rsplit(other).find(|run| !run.is_empty());
        // A name cut by a wildcard may or may not be such a word.
        let may_be_written_otherwise =
            |run: &&str| ABBREVIATED.split_whitespace().any(|word| word.contains(*run));
        Self { pattern, identifier: identifier.filter(|run| !may_be_written_otherwise(run)) }
    }

    /// Whether a symbol's name, without its version, matches: as it stands or written as C++ or Rust with or without
    /// parameters, each with or without the compiler's suffix.
    pub fn includes(&self, name: &str) -> bool {
        let base = without_clone(name);
        if self.pattern.matches(name) || base != name && self.pattern.matches(base) {
            return true;
        }
        if self.identifier.is_some_and(|identifier| !name.contains(identifier)) {
            return false;
        }
        [demangle::with_parameters, demangle::without_parameters].into_iter().any(|form| {
            let suffix = &name[base.len()..];
            form(base).is_some_and(|form| {
                self.pattern.matches(&form) || !suffix.is_empty() && self.pattern.matches(&(form + suffix))
            })
        })
    }
}

/// A name without the compiler's suffixes for copies.
pub(crate) fn without_clone(name: &str) -> &str {
    let end = CLONES.iter().filter_map(|suffix| name.find(suffix)).filter(|&at| at > 0).min();
    &name[..end.unwrap_or(name.len())]
}

/// A name without the number that LLVM appends to a function's name when other parts of the program call it too,
/// although its source made it local: it is no copy.
pub(crate) fn without_number(name: &str) -> &str {
    name.find(".llvm.").filter(|&at| at > 0).map_or(name, |at| &name[..at])
}

/// Whether a compiler made this copy of a function for some of its callers.
pub(crate) fn is_copy(name: &str) -> bool {
    let name = without_number(name);
    without_clone(name) != name
}

/// The function to which this seldom run part belongs (`foo.cold`): the part is jumped to, never called.
pub(crate) fn cold_part_of(name: &str) -> Option<&str> {
    let at = name.find(".cold")?;
    let rest = &name[at + 5..];
    (at > 0 && (rest.is_empty() || rest.starts_with('.'))).then_some(&name[..at])
}

/// Whether a function's beginning is in its callers, and this is the rest (`foo.part.0`).
pub(crate) fn is_part(name: &str) -> bool {
    name.find(".part.").is_some_and(|at| at > 0)
}

/// Whether a text is a function's whole name, as the linker has it or as its language writes it, with the
/// compiler's suffixes.
pub(crate) fn is_whole(text: &str, name: &str) -> bool {
    text == name
        || text == readable(name)
        || cold_part_of(name)
            .is_some_and(|main| text.strip_prefix(&*readable(main)) == Some(&name[main.len()..]))
}

/// The readable name if it is a Rust closure right below a function: `app::work::{{closure}}` for `app::work`, such as an
/// `async fn`'s body.
pub(crate) fn closure_in(name: &str, function: &str) -> Option<String> {
    let last = function.rsplit("::").next().filter(|last| !last.is_empty())?;
    if !name.contains("closure") && !name.starts_with("_R") || !name.contains(last) {
        return None;
    }
    let readable = readable(name);
    let rest = readable.strip_prefix(function)?;
    matches!(rest, "::{{closure}}" | "::{closure#0}").then(|| readable.into_owned())
}

/// The name for output: in its language with parameters, or unchanged.
pub(crate) fn readable(name: &str) -> Cow<'_, str> {
    let name = without_number(name);
    let base = without_clone(name);
    match demangle::with_parameters(base) {
        Some(full) => Cow::Owned(full + &name[base.len()..]),
        None => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::{NameMatcher, cold_part_of, is_copy, readable, without_clone};
    use crate::pattern::Pattern;

    #[test]
    fn a_name_is_meant_mangled_or_written_out() {
        for (name, patterns) in [
            ("_ZN3foo3barEi", &["_ZN3foo3barEi", "foo::bar(int)", "foo::bar", "*::bar", "foo::*"][..]),
            ("_Z3maxIiET_S0_S0_", &["max<int>", "int max<int>(int, int)", "max*"]),
            ("_ZN3app6handle17h0123456789abcdefE", &["app::handle", "app::*"]),
            ("_RNvC3app6handle", &["app::handle"]),
            ("_ZN12_GLOBAL__N_11fEv", &["(anonymous namespace)::f", "*::f"]),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", &["std::vector*::push_back*", "std::vector<*", "std::*"]),
            ("_ZNSsC1ERKSs", &["*string*", "std::string::*", "std::*"]),
            ("_Z6handlexj", &["handle(long long, unsigned int)", "handle*int*", "*(long long*"]),
            ("_ZN4CartD1Ev", &["Cart::~Cart", "Cart::~Cart()"]),
            ("_ZplRK4CartS1_", &["operator+", "operator+(*"]),
            ("_ZNK4CartcvbEv", &["Cart::operator bool"]),
            ("handle.constprop.0", &["handle", "handle.constprop.0", "hand*"]),
            (
                "_ZN3foo3barEi.isra.0",
                &["foo::bar", "foo::bar(int)", "foo::bar(int).isra.0", "foo::bar.isra.0"],
            ),
            ("malloc", &["malloc", "m*c"]),
        ] {
            for pattern in patterns {
                assert!(NameMatcher::of(&Pattern::new(pattern)).includes(name), "{name} {pattern}");
            }
        }
        for (name, pattern) in [
            ("_ZN3foo3barEi", "bar"),
            ("_ZN3foo3barEi", "foo::bar(long)"),
            ("malloc", "alloc"),
            ("handle.constprop.0", "malloc"),
            ("handle.constprop.0", "handle.constprop"),
        ] {
            assert!(!NameMatcher::of(&Pattern::new(pattern)).includes(name), "{name} {pattern}");
        }
    }

    #[test]
    fn people_read_parameters_and_what_the_compiler_appended() {
        assert_eq!(readable("_ZN3foo3barEi.isra.0"), "foo::bar(int).isra.0");
        assert_eq!(readable("malloc"), "malloc");
        // No user types the number.
        assert_eq!(readable("_ZN3app6handle17h0123456789abcdefE.llvm.14417284344463585056"), "app::handle");
        assert_eq!(readable("_RNvC3app6handle.llvm.144"), "app::handle");
        assert_eq!(readable("helper.llvm.144"), "helper");
        assert_eq!(readable("_ZN3foo3barEi.isra.0.llvm.144"), "foo::bar(int).isra.0");
        assert_eq!(readable(".llvm.144"), ".llvm.144");
        assert_eq!(readable("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn a_part_that_is_seldom_run_belongs_to_its_function() {
        assert_eq!(cold_part_of("foo.cold"), Some("foo"));
        assert_eq!(cold_part_of("foo.cold.3"), Some("foo"));
        assert_eq!(cold_part_of("foo.colder"), None);
        assert_eq!(cold_part_of(".cold"), None);
    }

    #[test]
    fn only_names_with_the_last_word_of_a_pattern_are_written_out() {
        for (pattern, word) in [
            ("foo::bar", Some("bar")),
            ("foo::put_all", Some("put_all")),
            ("foo::bar(int)", Some("bar")),
            ("max<int>", Some("max")),
            ("foo::*", Some("foo")),
            ("foo::~foo", Some("foo")),
            // Mangling writes these by a letter or two, whole or cut.
            ("std::*", None),
            ("foo::operator+", None),
            ("foo::alloc*", None),
            ("*", None),
            ("::", None),
        ] {
            assert_eq!(NameMatcher::of(&Pattern::new(pattern)).identifier, word, "{pattern}");
        }
    }

    #[test]
    fn a_function_that_others_may_call_too_is_no_copy() {
        for (name, expected) in [
            ("work", false),
            ("work.llvm.144", false),
            ("work.constprop.0", true),
            ("work.isra.0.llvm.144", true),
        ] {
            assert_eq!(is_copy(name), expected, "{name}");
        }
    }

    #[test]
    fn what_compilers_append_is_left_out_from_the_first_of_it_on() {
        for (name, base) in [
            ("work", "work"),
            ("work.constprop.0", "work"),
            ("work.isra.0.part.1", "work"),
            ("work.part.1.isra.0", "work"),
            ("work.parts", "work.parts"),
            (".isra.0", ".isra.0"),
        ] {
            assert_eq!(without_clone(name), base);
        }
    }

    #[test]
    fn a_name_that_would_fill_memory_is_left_as_it_stands() {
        // Each level doubles the text of the level before.
        let mut name = String::from("_Z1fI1a");
        for level in 0..60 {
            let twice = match level {
                0 => "S_S_".to_owned(),
                n => {
                    let digit = char::from_digit(n - 1, 36).unwrap_or('z').to_ascii_uppercase();
                    format!("S{digit}_S{digit}_")
                }
            };
            name.push_str(&format!("1bI{twice}E"));
        }
        name.push_str("Evv");
        let text = readable(&name);
        assert!(text.len() <= wakepath_symbols::demangle::MAX_BYTES.max(name.len()), "{}", text.len());
    }
}
