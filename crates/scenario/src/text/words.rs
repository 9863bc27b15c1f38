//! The words in a case file's line.

use std::str::FromStr;

/// A line's words: some by position, some by `key=value`, some by presence.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Result<Self, String> {
        Ok(Self { words: line.split_whitespace().collect() })
    }

    /// The next word that is no option.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        let next = self.words.iter().position(|word| !word.contains('='))?;
        Some(self.words.remove(next))
    }

    pub(crate) fn need(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.next() == Some(word) { Ok(()) } else { Err(format!("`{word}` is missing")) }
    }

    /// The value in `key=value`, unchanged.
    pub(crate) fn text(&mut self, key: &str) -> Option<&'a str> {
        let at = self
            .words
            .iter()
            .position(|word| word.strip_prefix(key).is_some_and(|rest| rest.starts_with('=')))?;
        self.words.remove(at).split_once('=').map(|(_, value)| value)
    }

    /// The value in `key=value` as a number; `0x` for hexadecimal.
    pub(crate) fn option<T: FromStr + TryFrom<u64>>(&mut self, key: &str) -> Result<Option<T>, String> {
        self.text(key)
            .map(|value| number(value).ok_or_else(|| format!("not a number: {key}={value}")))
            .transpose()
    }

    /// Whether a word is present.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let at = self.words.iter().position(|&word| word == flag);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// An error if words are left.
    pub(crate) fn end(&self) -> Result<(), String> {
        if self.words.is_empty() { Ok(()) } else { Err(format!("not understood: {}", self.words.join(" "))) }
    }
}

pub(crate) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}
