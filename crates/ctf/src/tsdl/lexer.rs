/// Why a text is not the metadata it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {text}")]
pub struct TsdlError {
    /// The line, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
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
    column: usize,
    /// Where the last token begins.
    begun: (usize, usize),
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), line: 1, column: 0, begun: (1, 1) }
    }

    /// Line and column of the last token.
    pub(super) const fn begun(&self) -> (usize, usize) {
        self.begun
    }

    /// An error at the last token.
    pub(super) fn error(&self, text: impl Into<String>) -> TsdlError {
        let (line, column) = self.begun;
        TsdlError { line, column, text: text.into() }
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token>, TsdlError> {
        loop {
            let Some(c) = self.bump() else {
                self.begun = (self.line, self.column + 1);
                return Ok(None);
            };
            if !c.is_whitespace() {
                self.begun = (self.line, self.column);
            }
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
        match c {
            Some('\n') => (self.line, self.column) = (self.line + 1, 0),
            Some(_) => self.column += 1,
            None => {}
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

    /// A character by its number, of which a digit may be known already. Its end is where the digits end,
    /// after two more at most: longer ones are not of any tracer.
    fn code(&mut self, mut code: u32, radix: u32) -> char {
        for _ in 0..2 {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(radix)) else { break };
            code = code * radix + digit;
            self.bump();
        }
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
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
        // `10ULL` as in C; no digit of base 16 is among these letters.
        let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
        let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16),
            None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8),
            None => digits.parse(),
        };
        parsed.map(Token::Number).map_err(|_| self.error(format!("{digits} is not a number")))
    }
}
