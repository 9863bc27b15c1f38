//! The metadata's facts about a whole trace, without its events' layout.

use super::lexer::{Lexer, Token, TsdlError};
use crate::schema::{Clock, EnvValue, number_of, text_of};

/// A trace's metadata without its events' layout: for wakepath's own streams, the format number defines the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The uuid in every packet.
    pub uuid: [u8; 16],
    /// The `env` block, in order.
    pub env: Vec<(String, EnvValue)>,
    /// The clock.
    pub clock: Clock,
}

impl Facts {
    /// A text in the `env` block.
    pub fn text(&self, key: &str) -> Option<&str> {
        text_of(&self.env, key)
    }

    /// A number in the `env` block.
    pub fn number(&self, key: &str) -> Option<i64> {
        number_of(&self.env, key)
    }
}

/// The limit on properties in a block, for wakepath's own metadata.
const MAX_PROPERTIES: usize = 1000;

/// Reads the `trace`, `env` and `clock` blocks in metadata. All three must be there; other blocks are skipped by
/// their braces.
///
/// # Errors
/// With the line, when the text is not TSDL as wakepath writes it.
pub fn read_facts(text: &str) -> Result<Facts, TsdlError> {
    let mut lexer = Lexer::new(text);
    let (mut uuid, mut env, mut clock) = (None, None, None);
    // The words before a block's opening brace: the first names the block.
    let mut block: Option<&str> = None;
    while let Some(token) = lexer.next()? {
        match token {
            Token::Sign('{') => match block.take() {
                Some("trace") => {
                    let properties = properties(&mut lexer)?;
                    let text = text_of(&properties, "uuid");
                    let read = text.and_then(read_uuid);
                    uuid = Some(read.ok_or_else(|| lexer.error("the trace block has no uuid"))?);
                }
                Some("env") => env = Some(properties(&mut lexer)?),
                Some("clock") => {
                    let properties = properties(&mut lexer)?;
                    clock = Some(read_clock(&properties).ok_or_else(|| {
                        lexer.error("the clock block lacks name or freq, or a number in it is out of range")
                    })?);
                }
                _ => skip_block(&mut lexer)?,
            },
            Token::Sign(';') => block = None,
            Token::Word(word) if block.is_none() => block = Some(word),
            _ => {}
        }
    }
    let missing = |what: &str| lexer.error(format!("the metadata ends without {what} block"));
    Ok(Facts {
        uuid: uuid.ok_or_else(|| missing("a trace"))?,
        env: env.ok_or_else(|| missing("an env"))?,
        clock: clock.ok_or_else(|| missing("a clock"))?,
    })
}

/// The properties `key = value;` in a block up to its closing brace; nested structures are skipped.
fn properties(lexer: &mut Lexer<'_>) -> Result<Vec<(String, EnvValue)>, TsdlError> {
    let mut found = Vec::new();
    loop {
        match lexer.next()? {
            Some(Token::Sign('}')) => return Ok(found),
            Some(Token::Word(key)) => {
                if let Some(value) = value(lexer)? {
                    if found.len() == MAX_PROPERTIES {
                        return Err(lexer.error("a block has too many properties"));
                    }
                    found.push((key.to_owned(), value));
                }
            }
            Some(other) => return Err(lexer.error(format!("expected a property, found {other:?}"))),
            None => return Err(lexer.error("a block does not end")),
        }
    }
}

/// The value between a property's name and its semicolon; `None` for a value other than a text or a number.
fn value(lexer: &mut Lexer<'_>) -> Result<Option<EnvValue>, TsdlError> {
    let mut value = None;
    let (mut tokens, mut assigned, mut negative) = (0, false, false);
    loop {
        match lexer.next()? {
            None => return Err(lexer.error("a property does not end")),
            Some(Token::Sign(';')) => return Ok(if tokens == 1 { value } else { None }),
            Some(Token::Sign('=')) if !assigned => assigned = true,
            Some(Token::Sign('-')) if assigned && tokens == 0 => negative = true,
            Some(Token::Sign('{')) => {
                skip_block(lexer)?;
                tokens += 1;
            }
            Some(token) => {
                if assigned {
                    tokens += 1;
                }
                value = match token {
                    Token::Text(text) => Some(EnvValue::Text(text.into_owned())),
                    Token::Number(number) => {
                        let number = if negative { -number } else { number };
                        Some(EnvValue::Number(
                            i64::try_from(number).map_err(|_| lexer.error("number too large"))?,
                        ))
                    }
                    _ => None,
                };
            }
        }
    }
}

/// Skips up to the brace that closes the block just opened.
fn skip_block(lexer: &mut Lexer<'_>) -> Result<(), TsdlError> {
    let begun = lexer.begun();
    let mut depth = 1;
    while depth > 0 {
        match lexer.next()? {
            Some(Token::Sign('{')) => depth += 1,
            Some(Token::Sign('}')) => depth -= 1,
            Some(_) => {}
            None => return Err(lexer.error_at(begun, "a block does not end")),
        }
    }
    Ok(())
}

fn read_clock(properties: &[(String, EnvValue)]) -> Option<Clock> {
    let number = |key: &str| number_of(properties, key);
    // CTF's defaults (section 8).
    let or_0 = |key: &str| number(key).unwrap_or(0);
    Some(Clock {
        name: text_of(properties, "name")?.to_owned(),
        uuid: text_of(properties, "uuid").and_then(read_uuid),
        description: text_of(properties, "description").unwrap_or_default().to_owned(),
        frequency: u64::try_from(number("freq")?).ok().filter(|&hertz| hertz > 0)?,
        offset_s: or_0("offset_s"),
        offset: u64::try_from(or_0("offset")).ok()?,
        absolute: None,
    })
}

/// A uuid in its text form.
pub(crate) fn read_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(0..) {
        *byte = u8::from_str_radix(&digits[2 * pair..2 * pair + 2], 16).ok()?;
    }
    Some(uuid)
}
