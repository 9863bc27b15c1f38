//! The blocks in metadata (CTF 1.8, section 7).

use std::borrow::Cow;
use std::collections::HashSet;

use super::facts::read_uuid;
use super::lexer::{Lexer, Token, TsdlError};
use super::tokens::{self, shown};
use super::types::{self, Types};
use crate::schema::{ByteOrder, Clock, EnvValue, EventClass, FieldType, Metadata, StreamClass, Structure};

/// The limit on `env` entries, clocks, streams and events, each.
const MAX_COUNT: usize = 1 << 16;

/// Reads any CTF 1.8 trace's metadata. Parts without use for reading events are left out: call sites, log levels,
/// descriptions of enumerations' containers.
///
/// # Errors
/// With the line and the column, when the text is not TSDL for CTF 1.8. Neither nesting nor types within types take
/// more memory than some multiples of the text.
pub fn read(text: &str) -> Result<Metadata, TsdlError> {
    // Types may come before the block with the default byte order.
    let byte_order = trace_byte_order(text)?.unwrap_or(ByteOrder::Little);
    let mut reader = Reader {
        types: Types::new(text, byte_order),
        metadata: Metadata {
            uuid: None,
            byte_order,
            env: Vec::new(),
            clocks: Vec::new(),
            packet_header: Structure::default(),
            streams: Vec::new(),
        },
        events: Vec::new(),
    };
    while reader.block()? {}
    reader.finish()
}

/// `byte_order` in the `trace` block.
fn trace_byte_order(text: &str) -> Result<Option<ByteOrder>, TsdlError> {
    let mut lexer = Lexer::new(text);
    let (mut depth, mut in_trace) = (0_u64, false);
    let mut before: [Option<Token<'_>>; 2] = [None, None];
    while let Some(token) = lexer.next()? {
        match &token {
            Token::Sign('{') => {
                in_trace |= depth == 0 && before[1] == Some(Token::Word("trace"));
                depth += 1;
            }
            Token::Sign('}') => {
                depth = depth.saturating_sub(1);
                in_trace &= depth > 0;
            }
            Token::Word(word)
                if in_trace
                    && depth == 1
                    && before == [Some(Token::Word("byte_order")), Some(Token::Sign('='))] =>
            {
                return types::byte_order(word, ByteOrder::Little)
                    .map(Some)
                    .ok_or_else(|| lexer.error(format!("`{word}` is no byte order of a trace")));
            }
            _ => {}
        }
        before = [before[1].take(), Some(token)];
    }
    Ok(None)
}

struct Reader<'a> {
    types: Types<'a>,
    metadata: Metadata,
    /// With their stream's id, if any, and their place in the text, bytes.
    events: Vec<(Option<u64>, EventClass, usize)>,
}

/// The value behind a property's name.
enum Value<'a> {
    Tokens(tokens::Value<'a>),
    Type(Structure),
}

impl<'a> Reader<'a> {
    /// Takes a block or a declaration; returns whether there was one.
    fn block(&mut self) -> Result<bool, TsdlError> {
        if self.types.declaration()? || self.types.tokens.accept(';')? {
            return Ok(true);
        }
        let Some(word) = self.types.tokens.peek_word()? else {
            return match self.types.tokens.next()? {
                None => Ok(false),
                Some(found) => {
                    let found = shown(Some(&found));
                    Err(self.types.tokens.error(format!("expected a block, found {found}")))
                }
            };
        };
        if matches!(word, "struct" | "enum" | "variant") {
            self.types.specifier()?;
            self.types.tokens.expect(';')?;
            return Ok(true);
        }
        let block = self.types.tokens.word("a block")?;
        self.types.tokens.expect('{')?;
        let here = self.types.tokens.taken();
        self.types.names.enter();
        match block {
            "trace" => self.trace()?,
            "env" => self.env()?,
            "clock" => self.clock()?,
            "stream" => self.stream()?,
            "event" => self.event(here)?,
            "callsite" => self.types.tokens.skip_block()?,
            other => {
                return Err(self.types.tokens.error(format!("a block `{other}` that CTF 1.8 does not have")));
            }
        }
        self.types.names.leave();
        let full = [
            self.metadata.env.len(),
            self.metadata.clocks.len(),
            self.metadata.streams.len(),
            self.events.len(),
        ];
        if full.into_iter().any(|count| count > MAX_COUNT) {
            return Err(self.types.tokens.error("metadata with too many blocks"));
        }
        Ok(true)
    }

    /// A block's next `key = value;` or `key := type;`; `None` at its end.
    fn property(&mut self) -> Result<Option<(Cow<'a, str>, Value<'a>)>, TsdlError> {
        loop {
            let tokens = &mut self.types.tokens;
            if tokens.accept('}')? {
                return Ok(None);
            }
            if tokens.accept(';')? || self.types.declaration()? {
                continue;
            }
            if matches!(self.types.tokens.peek_word()?, Some("struct" | "enum" | "variant")) {
                self.types.specifier()?;
                self.types.tokens.expect(';')?;
                continue;
            }
            let key = self.types.tokens.path()?;
            if self.types.tokens.accept(':')? {
                self.types.tokens.expect('=')?;
                let FieldType::Struct(structure) = self.types.specifier_or_alias()? else {
                    return Err(self.types.tokens.error(format!("{key} is not a structure")));
                };
                self.types.tokens.expect(';')?;
                return Ok(Some((key, Value::Type(structure))));
            }
            self.types.tokens.expect('=')?;
            return Ok(Some((key, Value::Tokens(self.types.tokens.value()?))));
        }
    }

    fn bad(&self, what: &str) -> TsdlError {
        self.types.tokens.error(what.to_owned())
    }

    fn trace(&mut self) -> Result<(), TsdlError> {
        while let Some((key, value)) = self.property()? {
            match (&*key, value) {
                ("major", Value::Tokens(value)) if value.number() != Some(1) => {
                    return Err(self.bad("metadata of another major version than 1"));
                }
                ("uuid", Value::Tokens(value)) => {
                    let uuid =
                        read_uuid(&value.text()).ok_or_else(|| self.bad("the trace's uuid is none"))?;
                    self.metadata.uuid = Some(uuid);
                }
                ("packet.header", Value::Type(structure)) => self.metadata.packet_header = structure,
                _ => {}
            }
        }
        Ok(())
    }

    fn env(&mut self) -> Result<(), TsdlError> {
        while let Some((key, value)) = self.property()? {
            let Value::Tokens(value) = value else { continue };
            let value = match value.number() {
                Some(number) => match i64::try_from(number) {
                    Ok(number) => EnvValue::Number(number),
                    Err(_) => EnvValue::Text(number.to_string()),
                },
                None => EnvValue::Text(value.text().into_owned()),
            };
            if self.metadata.env.len() == MAX_COUNT {
                return Err(self.bad("the env block has too many entries"));
            }
            self.metadata.env.push((key.into_owned(), value));
        }
        Ok(())
    }

    fn clock(&mut self) -> Result<(), TsdlError> {
        let mut clock = Clock {
            name: String::new(),
            uuid: None,
            description: String::new(),
            // The default (section 8).
            frequency: 1_000_000_000,
            offset_s: 0,
            offset: 0,
            absolute: None,
        };
        while let Some((key, value)) = self.property()? {
            let Value::Tokens(value) = value else { continue };
            match &*key {
                "name" => clock.name = value.text().into_owned(),
                "uuid" => clock.uuid = read_uuid(&value.text()),
                "description" => clock.description = value.text().into_owned(),
                "freq" => {
                    clock.frequency = value
                        .number()
                        .and_then(|hertz| u64::try_from(hertz).ok())
                        .filter(|&hertz| hertz > 0)
                        .ok_or_else(|| self.bad("a clock's freq is no number of ticks a second"))?;
                }
                "offset_s" => {
                    clock.offset_s = self.number(&value, "a clock's offset_s is no number of seconds")?;
                }
                "offset" => clock.offset = self.number(&value, "a clock's offset is no number of ticks")?,
                "absolute" => clock.absolute = Some(matches!(&*value.text(), "TRUE" | "true" | "1")),
                _ => {}
            }
        }
        self.metadata.clocks.push(clock);
        Ok(())
    }

    fn id(&self, value: &tokens::Value<'_>) -> Result<u64, TsdlError> {
        self.number(value, "an id that is no number")
    }

    /// A number with this type; `otherwise` is the error for any other value.
    fn number<T: TryFrom<i128>>(&self, value: &tokens::Value<'_>, otherwise: &str) -> Result<T, TsdlError> {
        let number = value.number().and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.bad(otherwise))
    }

    fn stream(&mut self) -> Result<(), TsdlError> {
        let mut stream = StreamClass::default();
        while let Some((key, value)) = self.property()? {
            match (&*key, value) {
                ("id", Value::Tokens(value)) => stream.id = self.id(&value)?,
                ("packet.context", Value::Type(structure)) => stream.packet_context = structure,
                ("event.header", Value::Type(structure)) => stream.event_header = structure,
                ("event.context", Value::Type(structure)) => stream.event_context = structure,
                _ => {}
            }
        }
        if self.metadata.streams.iter().any(|other| other.id == stream.id) {
            return Err(self.bad(&format!("stream {} is declared twice", stream.id)));
        }
        self.metadata.streams.push(stream);
        Ok(())
    }

    fn event(&mut self, here: usize) -> Result<(), TsdlError> {
        let (mut stream, mut named) = (None, false);
        let mut event = EventClass::default();
        while let Some((key, value)) = self.property()? {
            match (&*key, value) {
                ("id", Value::Tokens(value)) => event.id = self.id(&value)?,
                ("stream_id", Value::Tokens(value)) => stream = Some(self.id(&value)?),
                ("name", Value::Tokens(value)) => (event.name, named) = (value.text().into_owned(), true),
                ("context", Value::Type(structure)) => event.context = structure,
                ("fields", Value::Type(structure)) => event.fields = structure,
                _ => {}
            }
        }
        if !named {
            return Err(self.types.tokens.error_at(here, "an event without a name"));
        }
        self.events.push((stream, event, here));
        Ok(())
    }

    /// Gives the events to their streams, which may stand behind them.
    fn finish(mut self) -> Result<Metadata, TsdlError> {
        let mut streams = std::mem::take(&mut self.metadata.streams);
        if streams.is_empty() && !self.events.is_empty() {
            return Err(self.bad("the metadata ends without a stream block"));
        }
        let only = if let [only] = streams.as_slice() { Some(only.id) } else { None };
        let mut seen = HashSet::new();
        for (stream, event, here) in self.events {
            let error = |text: String| self.types.tokens.error_at(here, text);
            let Some(id) = stream.or(only) else {
                return Err(error(format!("event `{}` does not say which stream it is of", event.name)));
            };
            let Some(stream) = streams.iter_mut().find(|stream| stream.id == id) else {
                return Err(error(format!(
                    "event `{}` is of stream {id}, which is not declared",
                    event.name
                )));
            };
            if !seen.insert((id, event.id)) {
                return Err(error(format!("event {} of stream {id} is declared twice", event.id)));
            }
            stream.events.push(event);
        }
        self.metadata.streams = streams;
        Ok(self.metadata)
    }
}
