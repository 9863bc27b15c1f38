//! Splits TSDL into tokens.

use std::borrow::Cow;

/// Why a text is not valid metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct TsdlError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The error.
    pub text: String,
}

/// A TSDL token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Text(Cow<'a, str>),
    Number(i128),
    /// Any other character; `:=` comes as two signs.
    Sign(char),
}

/// Cuts a text into tokens, which borrow from it.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// The passed bytes.
    at: usize,
    /// The last token's offset.
    begun: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, begun: 0 }
    }

    /// The last token's offset, bytes.
    pub(super) const fn begun(&self) -> usize {
        self.begun
    }

    /// An error at the last token.
    pub(super) fn error(&self, text: impl Into<String>) -> TsdlError {
        self.error_at(self.begun, text)
    }

    /// An error at a byte in the text.
    pub(super) fn error_at(&self, at: usize, text: impl Into<String>) -> TsdlError {
        let before = &self.text[..at];
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        TsdlError { line, column, text: text.into() }
    }

    /// The text ahead.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Passes this number of bytes: whole tokens, the last a single byte.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.at += bytes;
        self.begun = self.at - 1;
    }

    fn peek_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, TsdlError> {
        loop {
            while self.peek_byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.at += 1;
            }
            self.begun = self.at;
            let Some(c) = self.bump() else { return Ok(None) };
            match c {
                c if c.is_whitespace() => {}
                '/' if self.peek_byte() == Some(b'*') => self.comment()?,
                '/' if self.peek_byte() == Some(b'/') => {
                    self.at = self.rest().find('\n').map_or(self.text.len(), |end| self.at + end);
                }
                '"' => return self.quoted().map(Some),
                c if c.is_ascii_digit() => return self.number().map(Some),
                c if c.is_alphabetic() || c == '_' => return Ok(Some(Token::Word(self.word()))),
                c => return Ok(Some(Token::Sign(c))),
            }
        }
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn comment(&mut self) -> Result<(), TsdlError> {
        self.at += 1;
        match self.rest().find("*/") {
            Some(end) => self.at += end + 2,
            None => return Err(self.error("a comment does not end")),
        }
        Ok(())
    }

    fn quoted(&mut self) -> Result<Token<'a>, TsdlError> {
        let rest = self.rest();
        let end = rest.find(['"', '\\', '\n']);
        if let Some(end) = end
            && rest.as_bytes()[end] == b'"'
        {
            self.at += end + 1;
            return Ok(Token::Text(Cow::Borrowed(&rest[..end])));
        }
        let mut text = String::new();
        loop {
            match self.bump() {
                None | Some('\n') => return Err(self.error("a text does not end")),
                Some('"') => return Ok(Token::Text(Cow::Owned(text))),
                Some('\\') => text.push(match self.bump() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('a') => '\x07',
                    Some('b') => '\x08',
                    Some('v') => '\x0b',
                    Some('f') => '\x0c',
                    Some(c @ ('"' | '\\' | '\'' | '?')) => c,
                    Some('x') => self.code(0, 16),
                    Some(c @ '0'..='7') => self.code(c as u32 - '0' as u32, 8),
                    other => return Err(self.error(format!("unknown escape {other:?} in a text"))),
                }),
                Some(c) => text.push(c),
            }
        }
    }

    /// A character by its number, whose first digit may have been read. At most two more digits follow: no tracer
    /// writes longer numbers.
    fn code(&mut self, mut code: u32, radix: u32) -> char {
        for _ in 0..2 {
            let Some(digit) = self.rest().chars().next().and_then(|c| c.to_digit(radix)) else { break };
            code = code * radix + digit;
            self.bump();
        }
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// The word in progress, up to its end.
    fn word(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if byte.is_ascii_alphanumeric() || byte == b'_' {
                self.at += 1;
            } else if !byte.is_ascii() && self.rest().chars().next().is_some_and(char::is_alphanumeric) {
                self.bump();
            } else {
                break;
            }
        }
        &self.text[self.begun..self.at]
    }

    fn number(&mut self) -> Result<Token<'a>, TsdlError> {
        // `10ULL` as in C; these letters are no digits in base 16.
        let digits = self.word().trim_end_matches(['u', 'U', 'l', 'L']);
        let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16),
            None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8),
            None => digits.parse(),
        };
        parsed.map(Token::Number).map_err(|_| self.error(format!("{digits} is not a number")))
    }
}
