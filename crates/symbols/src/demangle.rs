//! Function names as their language writes them, from the linker's names.

use std::fmt::{self, Write};

/// The maximum length of a name, bytes: longer names stay as they are. A short mangled name can stand for an
/// exponentially longer text, and a file from elsewhere may hold such a name.
pub const MAX_BYTES: usize = 4 << 10;

/// A C++ or Rust name with its parameters; `None` for an unmangled name.
pub fn with_parameters(name: &str) -> Option<String> {
    rust(name).or_else(|| cpp(name, &options()))
}

/// A C++ or Rust name without parameters and type; `None` for an unmangled name.
pub fn without_parameters(name: &str) -> Option<String> {
    rust(name).or_else(|| cpp(name, &options().no_params().no_return_type()))
}

fn rust(name: &str) -> Option<String> {
    let rust = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded(String::new());
    // `#` leaves out the hash, which no user types.
    write!(text, "{rust:#}").ok().map(|()| text.0)
}

fn cpp(name: &str, options: &cpp_demangle::DemangleOptions) -> Option<String> {
    // Without this, `f` would be the type `float`.
    let symbol = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten()?;
    let mut text = Bounded(String::new());
    symbol.structured_demangle(&mut text, options).ok().map(|()| text.0)
}

fn options() -> cpp_demangle::DemangleOptions {
    cpp_demangle::DemangleOptions::new().recursion_limit(128)
}

/// A text that refuses to grow beyond [`MAX_BYTES`].
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mangled_names_are_demangled() {
        for (name, expected) in [
            ("f", "f"),
            ("i", "i"),
            ("main", "main"),
            ("_Z3fooi", "foo(int)"),
            ("_ZN3app6handle17h0123456789abcdefE", "app::handle"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
            ("_Zx", "_Zx"),
        ] {
            assert_eq!(with_parameters(name).as_deref().unwrap_or(name), expected);
        }
    }
}
