//! An interpreter's script, module or archive, from the words with which it was started.
//!
//! Command lines hold passwords, so only the word for a program is returned, and only its last path component. The
//! rule is closed: a program outside the table in `rules` has no script. An option outside its interpreter's row
//! gives no answer, since the next word might be its value; options with program text (`-c`, `-e`) are in no row.

mod rules;
#[cfg(test)]
mod tests;

use rules::{Command, Long, Rules};

/// The longest script's name, bytes.
pub const MAX_SCRIPT_BYTES: usize = 32;

/// A process's script by name, at most [`MAX_SCRIPT_BYTES`]. `None` if its program is no known interpreter, if it runs
/// program text, or if its words are not understood.
///
/// `program` is the last component in the path to the program's file. `arguments` are the words with which it was
/// started, each with a zero byte behind it; a last word without this byte was cut, and counts as missing.
pub fn script(program: &[u8], arguments: &[u8]) -> Option<Box<[u8]>> {
    let mut words = arguments.split_inclusive(|byte| *byte == 0).filter_map(|word| word.strip_suffix(&[0]));
    let program = file_name(program);
    let first = last_component(words.next()?);
    let rules = match (program, first) {
        (b"busybox", b"busybox") => Rules::find(words.next()?),
        (b"busybox", applet) => Rules::find(applet),
        (program, _) => Rules::find(program),
    };
    name(rules?.script(words)?)
}

/// Whether this program may run a script, whatever its words are.
pub(crate) fn may_run_scripts(program: &[u8]) -> bool {
    let program = file_name(program);
    program == b"busybox" || Rules::find(program).is_some()
}

/// A program file's name, also after the file is gone.
fn file_name(program: &[u8]) -> &[u8] {
    program.strip_suffix(b" (deleted)").unwrap_or(program)
}

/// A script's name from its path. A network address may hold a password; a descriptor's number names nothing.
fn name(path: &[u8]) -> Option<Box<[u8]>> {
    let is_address = path.windows(3).any(|part| part == b"://");
    let is_descriptor = path.starts_with(b"/dev/") || path.starts_with(b"/proc/");
    let name = last_component(path);
    let name = &name[..name.len().min(MAX_SCRIPT_BYTES)];
    (!is_address && !is_descriptor && !name.is_empty()).then(|| name.into())
}

fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// An option's meaning for the words behind it.
enum Next<'a> {
    /// It is complete.
    Option,
    /// The next word is its value.
    Value,
    /// Its value names the script.
    Script(&'a [u8]),
    /// The next word names the script.
    ScriptBehind,
    Unknown,
}

impl Rules {
    /// The script's word, among the words behind the interpreter's own.
    fn script<'a>(&self, mut words: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
        let mut command = self.command;
        loop {
            let word = words.next()?;
            let option = match word {
                // Standard input, a line with more arguments, a file with arguments.
                b"-" | b"\\" | [b'@', ..] => return None,
                b"--" if self.ends_options => return words.next().filter(|_| self.takes_script),
                [b'-', b'-', ..] => self.long(word),
                [b'-', ..] if self.long_with_one_dash => self.long(word),
                [b'-', letters @ ..] => self.short(letters),
                [b'+', letters @ ..] if self.plus => self.short(letters),
                word => match command {
                    Command::Needed(name) | Command::Possible(name) if word == name.as_bytes() => {
                        command = Command::None;
                        continue;
                    }
                    Command::Needed(_) => return None,
                    // Another command's name has neither.
                    Command::Possible(_) if !word.iter().any(|byte| b"./".contains(byte)) => return None,
                    _ => return Some(word).filter(|_| self.takes_script),
                },
            };
            match option {
                Next::Option => {}
                Next::Value => drop(words.next()?),
                Next::Script(script) => return Some(script),
                Next::ScriptBehind => return words.next(),
                Next::Unknown => return None,
            }
        }
    }

    /// A word with options by letter.
    fn short<'a>(&self, mut letters: &'a [u8]) -> Next<'a> {
        while let [letter, rest @ ..] = letters {
            let is_in = |set: &str| set.as_bytes().contains(letter);
            letters = rest;
            if self.suffixes.iter().any(|(one, mark)| one == letter && rest.first() == Some(mark)) {
                return Next::Option;
            }
            if is_in(self.digits) {
                letters = &rest[rest.iter().take_while(|byte| byte.is_ascii_digit()).count()..];
            } else if is_in(self.values) {
                return if rest.is_empty() { Next::Value } else { Next::Option };
            } else if is_in(self.last) && rest.is_empty() {
                return Next::Value;
            } else if is_in(self.joined) && !rest.is_empty() {
                return Next::Option;
            } else if is_in(self.scripts) {
                return if rest.is_empty() { Next::ScriptBehind } else { Next::Script(rest) };
            } else if !is_in(self.flags) {
                return Next::Unknown;
            }
        }
        Next::Option
    }

    /// A word with a long option, perhaps with its value behind `=`.
    fn long<'a>(&self, word: &'a [u8]) -> Next<'a> {
        let at = word.iter().position(|byte| *byte == b'=');
        let value = at.map(|at| &word[at + 1..]);
        let option = &word[..at.unwrap_or(word.len())];
        let kind = self.long.iter().find(|(name, _)| name.as_bytes() == option).map(|(_, kind)| *kind);
        match (kind, value) {
            (Some(Long::Flag), _) | (Some(Long::Value), Some(_)) => Next::Option,
            (Some(Long::Value), None) => Next::Value,
            (Some(Long::Script), Some(value)) => Next::Script(value),
            (Some(Long::Script), None) => Next::ScriptBehind,
            (Some(Long::Text), _) => Next::Unknown,
            (None, _) if self.prefixes.iter().any(|prefix| word.starts_with(prefix.as_bytes())) => {
                Next::Option
            }
            (None, Some(_)) if self.any_with_value => Next::Option,
            (None, _) => Next::Unknown,
        }
    }
}
