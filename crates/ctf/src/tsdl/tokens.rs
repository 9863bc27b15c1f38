//! Tokens with a look ahead.

use std::borrow::Cow;

use super::lexer::{Lexer, Token, TsdlError};

/// Tokens with a look at the next token.
pub(super) struct Tokens<'a> {
    lexer: Lexer<'a>,
    peeked: Option<Option<Token<'a>>>,
    /// The last taken token's offset, bytes.
    taken: usize,
}

/// The limit on tokens between a property's `=` and its semicolon.
const MAX_VALUE: usize = 256;

impl<'a> Tokens<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { lexer: Lexer::new(text), peeked: None, taken: 0 }
    }

    pub fn peek(&mut self) -> Result<Option<&Token<'a>>, TsdlError> {
        if self.peeked.is_none() {
            self.peeked = Some(self.lexer.next()?);
        }
        Ok(self.peeked.as_ref().and_then(Option::as_ref))
    }

    pub fn next(&mut self) -> Result<Option<Token<'a>>, TsdlError> {
        let token = match self.peeked.take() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.taken = self.lexer.begun();
        Ok(token)
    }

    /// An error at the last taken token.
    pub fn error(&self, text: impl Into<String>) -> TsdlError {
        self.lexer.error_at(self.taken, text)
    }

    /// The last taken token's offset, bytes.
    pub const fn taken(&self) -> usize {
        self.taken
    }

    /// An error at such an offset.
    pub fn error_at(&self, at: usize, text: impl Into<String>) -> TsdlError {
        self.lexer.error_at(at, text)
    }

    /// The text behind the last taken token; `None` after a look ahead.
    pub fn ahead(&self) -> Option<&'a str> {
        if self.peeked.is_none() { Some(self.lexer.rest()) } else { None }
    }

    /// Passes this number of bytes: whole tokens, the last a single byte.
    pub fn pass(&mut self, bytes: usize) {
        self.lexer.pass(bytes);
        self.taken = self.lexer.begun();
    }

    pub fn next_is(&mut self, sign: char) -> Result<bool, TsdlError> {
        Ok(self.peek()? == Some(&Token::Sign(sign)))
    }

    /// Takes this sign if it is next; returns whether it was.
    pub fn accept(&mut self, sign: char) -> Result<bool, TsdlError> {
        let is = self.next_is(sign)?;
        if is {
            self.next()?;
        }
        Ok(is)
    }

    pub fn expect(&mut self, sign: char) -> Result<(), TsdlError> {
        match self.next()? {
            Some(Token::Sign(found)) if found == sign => Ok(()),
            found => Err(self.error(format!("expected `{sign}`, found {}", shown(found.as_ref())))),
        }
    }

    /// The next token if a word, without taking it.
    pub fn peek_word(&mut self) -> Result<Option<&'a str>, TsdlError> {
        Ok(match self.peek()? {
            Some(&Token::Word(word)) => Some(word),
            _ => None,
        })
    }

    pub fn word(&mut self, what: &str) -> Result<&'a str, TsdlError> {
        match self.next()? {
            Some(Token::Word(word)) => Ok(word),
            found => Err(self.error(format!("expected {what}, found {}", shown(found.as_ref())))),
        }
    }

    /// A number, perhaps with a minus in front.
    pub fn number(&mut self) -> Result<i128, TsdlError> {
        let negative = self.accept('-')?;
        match self.next()? {
            Some(Token::Number(number)) => Ok(if negative { -number } else { number }),
            found => Err(self.error(format!("expected a number, found {}", shown(found.as_ref())))),
        }
    }

    /// Words joined by dots.
    pub fn path(&mut self) -> Result<Cow<'a, str>, TsdlError> {
        let mut path = Cow::Borrowed(self.word("a name")?);
        while self.accept('.')? {
            let path = path.to_mut();
            path.push('.');
            path.push_str(self.word("a name")?);
        }
        Ok(path)
    }

    /// The value up to a property's semicolon.
    pub fn value(&mut self) -> Result<Value<'a>, TsdlError> {
        let mut value = Value::default();
        loop {
            match self.next()? {
                None => return Err(self.error("a property does not end")),
                Some(Token::Sign(';')) => return Ok(value),
                Some(_) if value.more.len() == MAX_VALUE => {
                    return Err(self.error("a property's value is too long"));
                }
                Some(token) if value.first.is_none() => value.first = Some(token),
                Some(token) => value.more.push(token),
            }
        }
    }

    /// Skips up to the brace that closes the block just opened.
    pub fn skip_block(&mut self) -> Result<(), TsdlError> {
        let begun = self.taken;
        let mut depth = 1_u64;
        while depth > 0 {
            match self.next()? {
                Some(Token::Sign('{')) => depth += 1,
                Some(Token::Sign('}')) => depth -= 1,
                Some(_) => {}
                None => return Err(self.lexer.error_at(begun, "a block does not end")),
            }
        }
        Ok(())
    }
}

/// The value behind a property's `=`: nearly always a single token.
#[derive(Debug, Default)]
pub(super) struct Value<'a> {
    first: Option<Token<'a>>,
    more: Vec<Token<'a>>,
}

impl<'a> Value<'a> {
    /// The value as a number, if it is a number.
    pub fn number(&self) -> Option<i128> {
        match (&self.first, self.more.as_slice()) {
            (Some(Token::Number(number)), []) => Some(*number),
            (Some(Token::Sign('-')), [Token::Number(number)]) => Some(-number),
            _ => None,
        }
    }

    /// The value as text, quoted or not.
    pub fn text(&self) -> Cow<'a, str> {
        match (&self.first, self.more.as_slice()) {
            (None, _) => return Cow::Borrowed(""),
            (Some(Token::Word(word)), []) => return Cow::Borrowed(word),
            (Some(Token::Text(text)), []) => return text.clone(),
            _ => {}
        }
        let mut text = String::new();
        for token in self.first.iter().chain(&self.more) {
            match token {
                Token::Word(word) => text.push_str(word),
                Token::Text(quoted) => text.push_str(quoted),
                Token::Number(number) => text.push_str(&number.to_string()),
                Token::Sign(sign) => text.push(*sign),
            }
        }
        Cow::Owned(text)
    }
}

/// A token as shown in errors.
pub(super) fn shown(token: Option<&Token<'_>>) -> String {
    match token {
        None => "the end of the text".to_owned(),
        Some(Token::Word(word)) => format!("`{word}`"),
        Some(Token::Text(text)) => format!("the text {text:?}"),
        Some(Token::Number(number)) => format!("the number {number}"),
        Some(Token::Sign(sign)) => format!("`{sign}`"),
    }
}
