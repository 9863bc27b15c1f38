/// Why a text is not the metadata it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct TsdlError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub text: String,
}

/// A word of TSDL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Text(String),
    Number(i128),
    /// Any other character; `:=` comes as two.
    Sign(char),
}

/// Cuts a text into tokens, each with its line.
pub(super) struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), line: 1 }
    }

    pub(super) const fn line(&self) -> usize {
        self.line
    }

    pub(super) fn error(&self, text: impl Into<String>) -> TsdlError {
        TsdlError { line: self.line, text: text.into() }
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token>, TsdlError> {
        loop {
            let Some(c) = self.bump() else { return Ok(None) };
            match c {
                c if c.is_whitespace() => {}
                '/' if self.rest.peek() == Some(&'*') => self.comment()?,
                '/' if self.rest.peek() == Some(&'/') => while !matches!(self.bump(), None | Some('\n')) {},
                '"' => return self.text().map(Some),
                c if c.is_ascii_digit() => return self.number(c).map(Some),
                c if c.is_alphabetic() || c == '_' => return Ok(Some(self.word(c))),
                c => return Ok(Some(Token::Sign(c))),
            }
        }
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.rest.next();
        if c == Some('\n') {
            self.line += 1;
        }
        c
    }

    fn comment(&mut self) -> Result<(), TsdlError> {
        self.bump();
        loop {
            match self.bump() {
                None => return Err(self.error("a comment does not end")),
                Some('*') if self.rest.peek() == Some(&'/') => {
                    self.bump();
                    return Ok(());
                }
                Some(_) => {}
            }
        }
    }

    fn text(&mut self) -> Result<Token, TsdlError> {
        let mut text = String::new();
        loop {
            match self.bump() {
                None | Some('\n') => return Err(self.error("a text does not end")),
                Some('"') => return Ok(Token::Text(text)),
                Some('\\') => text.push(match self.bump() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(c @ ('"' | '\\')) => c,
                    other => return Err(self.error(format!("unknown escape {other:?} in a text"))),
                }),
                Some(c) => text.push(c),
            }
        }
    }

    fn while_word(&mut self, word: &mut String) {
        while let Some(&c) = self.rest.peek()
            && (c.is_alphanumeric() || c == '_')
        {
            word.push(c);
            self.bump();
        }
    }

    fn word(&mut self, first: char) -> Token {
        let mut word = String::from(first);
        self.while_word(&mut word);
        Token::Word(word)
    }

    fn number(&mut self, first: char) -> Result<Token, TsdlError> {
        let mut digits = String::from(first);
        self.while_word(&mut digits);
        let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16),
            None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(&digits, 8),
            None => digits.parse(),
        };
        parsed.map(Token::Number).map_err(|_| self.error(format!("{digits} is not a number")))
    }
}
