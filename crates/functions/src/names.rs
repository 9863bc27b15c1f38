//! The names a function goes by: as the linker has it, and as its language writes it.

use std::borrow::Cow;
use std::fmt::{self, Write};

use crate::pattern::Pattern;

/// Longer names are not written out in their language, bytes. A short mangled name can stand for a
/// text that is exponentially longer; a file from elsewhere may hold such a name.
const LONGEST: usize = 16 << 10;

/// The suffixes that compilers put on a copy of a function: `foo.constprop.0` is called where the
/// source calls `foo`.
const CLONES: [&str; 5] = [".constprop.", ".isra.", ".part.", ".lto_priv.", ".llvm."];

/// Whether a symbol's name, without its version, is meant by a pattern: as it stands, without what a
/// compiler appended to it, or written as C++ or Rust with or without parameters.
pub(crate) fn is_meant(pattern: &Pattern, name: &str) -> bool {
    let base = without_clone(name);
    if pattern.matches(name) || base != name && pattern.matches(base) {
        return true;
    }
    match forms(base) {
        None => false,
        Some(forms) => forms.iter().any(|form| pattern.matches(form)),
    }
}

/// A name without the suffixes of copies that a compiler made.
pub(crate) fn without_clone(name: &str) -> &str {
    let end = CLONES.iter().filter_map(|suffix| name.find(suffix)).filter(|&at| at > 0).min();
    &name[..end.unwrap_or(name.len())]
}

/// The function of which this is the part that is seldom run (`foo.cold`), which is jumped to, never
/// called.
pub(crate) fn cold_part_of(name: &str) -> Option<&str> {
    let at = name.find(".cold")?;
    let rest = &name[at + 5..];
    (at > 0 && (rest.is_empty() || rest.starts_with('.'))).then_some(&name[..at])
}

/// As people read it: in its language with parameters, or as it stands.
pub(crate) fn readable(name: &str) -> Cow<'_, str> {
    let base = without_clone(name);
    match forms(base) {
        Some([full, _]) => Cow::Owned(full + &name[base.len()..]),
        None => Cow::Borrowed(name),
    }
}

/// With and without parameters, if it is a C++ or Rust name.
fn forms(name: &str) -> Option<[String; 2]> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // `#` leaves out the hash, which nobody types.
        let mut text = Bounded(String::new());
        return write!(text, "{rust:#}").ok().map(|()| [text.0.clone(), text.0]);
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(128);
    let mut full = Bounded(String::new());
    symbol.structured_demangle(&mut full, &options).ok()?;
    let mut short = Bounded(String::new());
    let options = options.no_params().no_return_type();
    symbol.structured_demangle(&mut short, &options).ok()?;
    Some([full.0, short.0])
}

/// A text that refuses to grow beyond [`LONGEST`].
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{cold_part_of, is_meant, readable};
    use crate::pattern::Pattern;

    #[test]
    fn a_name_is_meant_mangled_or_written_out() {
        for (name, patterns) in [
            ("_ZN3foo3barEi", &["_ZN3foo3barEi", "foo::bar(int)", "foo::bar", "*::bar", "foo::*"][..]),
            ("_Z3maxIiET_S0_S0_", &["max<int>", "int max<int>(int, int)", "max*"]),
            ("_ZN3app6handle17h0123456789abcdefE", &["app::handle", "app::*"]),
            ("_RNvC3app6handle", &["app::handle"]),
            ("handle.constprop.0", &["handle", "handle.constprop.0", "hand*"]),
            ("_ZN3foo3barEi.isra.0", &["foo::bar", "foo::bar(int)"]),
            ("malloc", &["malloc", "m*c"]),
        ] {
            for pattern in patterns {
                assert!(is_meant(&Pattern::new(pattern), name), "{name} {pattern}");
            }
        }
        for (name, pattern) in
            [("_ZN3foo3barEi", "bar"), ("_ZN3foo3barEi", "foo::bar(long)"), ("malloc", "alloc")]
        {
            assert!(!is_meant(&Pattern::new(pattern), name), "{name} {pattern}");
        }
    }

    #[test]
    fn people_read_parameters_and_what_the_compiler_appended() {
        assert_eq!(readable("_ZN3foo3barEi.isra.0"), "foo::bar(int).isra.0");
        assert_eq!(readable("malloc"), "malloc");
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
    fn a_name_that_would_fill_memory_is_left_as_it_stands() {
        // Each level doubles what the one before it stands for.
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
        assert!(text.len() <= super::LONGEST.max(name.len()), "{}", text.len());
    }
}
