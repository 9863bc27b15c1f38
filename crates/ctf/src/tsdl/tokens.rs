use super::lexer::{Lexer, Token, TsdlError};

/// Tokens with a look at the next one.
pub(super) struct Tokens<'a> {
    lexer: Lexer<'a>,
    peeked: Option<Option<Token>>,
    /// Where the last token taken begins.
    taken: (usize, usize),
}

/// Most tokens between a property's `=` and its semicolon.
const MOST_VALUE: usize = 256;

impl<'a> Tokens<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { lexer: Lexer::new(text), peeked: None, taken: (1, 1) }
    }

    pub fn peek(&mut self) -> Result<Option<&Token>, TsdlError> {
        if self.peeked.is_none() {
            self.peeked = Some(self.lexer.next()?);
        }
        Ok(self.peeked.as_ref().and_then(Option::as_ref))
    }

    pub fn next(&mut self) -> Result<Option<Token>, TsdlError> {
        let token = match self.peeked.take() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.taken = self.lexer.begun();
        Ok(token)
    }

    /// An error at the token taken last.
    pub fn error(&self, text: impl Into<String>) -> TsdlError {
        let (line, column) = self.taken;
        TsdlError { line, column, text: text.into() }
    }

    pub fn next_is(&mut self, sign: char) -> Result<bool, TsdlError> {
        Ok(self.peek()? == Some(&Token::Sign(sign)))
    }

    /// Takes this sign if it is next; says whether it was.
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

    /// A word that is next, without taking it.
    pub fn peek_word(&mut self) -> Result<Option<&str>, TsdlError> {
        Ok(match self.peek()? {
            Some(Token::Word(word)) => Some(word.as_str()),
            _ => None,
        })
    }

    pub fn word(&mut self, what: &str) -> Result<String, TsdlError> {
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
    pub fn path(&mut self) -> Result<String, TsdlError> {
        let mut path = self.word("a name")?;
        while self.accept('.')? {
            path.push('.');
            path.push_str(&self.word("a name")?);
        }
        Ok(path)
    }

    /// What stands up to a property's semicolon.
    pub fn value(&mut self) -> Result<Vec<Token>, TsdlError> {
        let mut value = Vec::new();
        loop {
            match self.next()? {
                None => return Err(self.error("a property does not end")),
                Some(Token::Sign(';')) => return Ok(value),
                Some(_) if value.len() == MOST_VALUE => {
                    return Err(self.error("a property's value is too long"));
                }
                Some(token) => value.push(token),
            }
        }
    }

    /// Everything up to the brace that closes one just taken.
    pub fn skip_block(&mut self) -> Result<(), TsdlError> {
        let (line, column) = self.taken;
        let mut depth = 1_u64;
        while depth > 0 {
            match self.next()? {
                Some(Token::Sign('{')) => depth += 1,
                Some(Token::Sign('}')) => depth -= 1,
                Some(_) => {}
                None => return Err(TsdlError { line, column, text: "a block does not end".to_owned() }),
            }
        }
        Ok(())
    }
}

/// A token as errors show it.
pub(super) fn shown(token: Option<&Token>) -> String {
    match token {
        None => "the end of the text".to_owned(),
        Some(Token::Word(word)) => format!("`{word}`"),
        Some(Token::Text(text)) => format!("the text {text:?}"),
        Some(Token::Number(number)) => format!("the number {number}"),
        Some(Token::Sign(sign)) => format!("`{sign}`"),
    }
}
