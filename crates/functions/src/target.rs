//! A search's target: `FILE:FUNCTION`.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use crate::pattern::Pattern;

/// A function, or several by a pattern, in a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The file.
    pub file: FileName,
    /// Its functions.
    pub function: Pattern,
}

/// A file's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileName {
    /// By its path: there is a slash in it.
    Path(PathBuf),
    /// By a library's short name (`libc`, `libc.so.6`) or a program's name.
    Short(String),
}

/// The error for a text other than a target.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// There is no colon between a file and a function.
    #[error("`{0}` does not name a file: write FILE:FUNCTION, such as libc:malloc or ./app:handle_*")]
    NoFile(String),
    /// Nothing before the colon.
    #[error("there is nothing before the colon in `{0}`: write a path with a slash, a library or a program")]
    EmptyFile(String),
    /// Nothing after the colon.
    #[error("there is no function after the colon in `{0}`: write a name, or a pattern such as handle_*")]
    EmptyFunction(String),
    /// A NUL or a newline.
    #[error("`{0}` contains a control character")]
    Control(String),
}

impl Target {
    /// Reads `FILE:FUNCTION` or `FILE+0xADDRESS`.
    ///
    /// The file ends at the first single colon behind a file name: C++ and Rust names hold colons in pairs, and a path
    /// may hold none (write it by another path if it does).
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let shown = || text.escape_debug().to_string();
        if text.chars().any(char::is_control) {
            return Err(TargetError::Control(shown()));
        }
        let (file, function) = text
            .match_indices(':')
            .map(|(at, _)| (&text[..at], &text[at + 1..]))
            // `foo::bar` alone is a function without a file.
            .find(|(before, after)| !after.starts_with(':') && !before.ends_with(':'))
            .or_else(|| {
                text.rfind('+')
                    .filter(|at| hexadecimal(&text[at + 1..]).is_some())
                    .map(|at| text.split_at(at))
            })
            .ok_or_else(|| TargetError::NoFile(shown()))?;
        if file.is_empty() {
            return Err(TargetError::EmptyFile(shown()));
        }
        if function.is_empty() {
            return Err(TargetError::EmptyFunction(shown()));
        }
        if file.contains("::") {
            return Err(TargetError::NoFile(shown()));
        }
        let file = match file.contains('/') {
            true => FileName::Path(file.into()),
            false => FileName::Short(file.to_owned()),
        };
        Ok(Self { file, function: Pattern::new(function) })
    }

    /// The address, if the function is written so: `0x2880`, or `app+0x2880` as answers name functions in a stripped
    /// file `app`. It is an address in the file, before any loading.
    pub fn address(&self) -> Option<u64> {
        let (before, number) =
            self.function.as_str().rsplit_once('+').unwrap_or(("", self.function.as_str()));
        let name = match &self.file {
            FileName::Path(path) => path.file_name()?.to_string_lossy(),
            FileName::Short(name) => name.into(),
        };
        hexadecimal(number).filter(|_| before.is_empty() || before == name)
    }
}

/// A number such as `0x2880`.
fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Short(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.function.as_str().starts_with('+') { "" } else { ":" };
        write!(f, "{}{between}{}", self.file, self.function.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{FileName, Target};

    #[test]
    fn a_target_is_split_into_a_file_and_a_function() {
        for (text, path, file, function) in [
            ("libc:malloc", false, "libc", "malloc"),
            ("libc.so.6:malloc", false, "libc.so.6", "malloc"),
            ("./app:handle_*", true, "./app", "handle_*"),
            ("/usr/bin/x:f", true, "/usr/bin/x", "f"),
            ("app:foo::bar(int)", false, "app", "foo::bar(int)"),
            ("app:foo::bar:baz", false, "app", "foo::bar:baz"),
            ("app:*::push_back", false, "app", "*::push_back"),
            ("libc:memcpy@@GLIBC_2.14", false, "libc", "memcpy@@GLIBC_2.14"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(matches!(target.file, FileName::Path(_)), path, "{text}");
            assert_eq!((target.file.to_string().as_str(), target.function.as_str()), (file, function));
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn an_address_is_written_as_answers_print_it() {
        for (text, file, address) in [
            ("app+0x2880", "app", Some(0x2880)),
            ("./app+0x2880", "./app", Some(0x2880)),
            ("/usr/lib/libc++.so.1+0x10", "/usr/lib/libc++.so.1", Some(0x10)),
            ("app:0x2880", "app", Some(0x2880)),
            ("/x/app:app+0x2880", "/x/app", Some(0x2880)),
            ("app:+0xFFFFFFFFFFFFFFFF", "app", Some(u64::MAX)),
            // The offset in a function, another file's name, no number, or a number too long for an address.
            ("app:serve+0x10", "app", None),
            ("/x/app:x+0x2880", "/x/app", None),
            ("app:2880", "app", None),
            ("app:0x", "app", None),
            ("app:0x+1", "app", None),
            ("app:0x1ffffffffffffffff", "app", None),
            ("app:operator+", "app", None),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.file.to_string().as_str(), target.address()), (file, address), "{text}");
            assert!(text.contains(":+") || target.to_string() == text, "{text} {target}");
        }
        for text in ["app+2880", "app+0x", "app+0xg", "+0x2880", "a::b+0x10"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_target_is_refused_with_the_expected_form() {
        for (text, says) in [
            ("malloc", "write FILE:FUNCTION"),
            ("", "write FILE:FUNCTION"),
            ("foo::bar", "write FILE:FUNCTION"),
            (":malloc", "before the colon"),
            ("libc:", "no function after the colon"),
            ("libc:a\nb", "control character"),
        ] {
            let error = Target::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
