//! The grammar for types (CTF 1.8, section 4 and appendix C).

use std::borrow::Cow;

use super::lexer::{Token, TsdlError};
use super::names::{Kind, MAX_DEPTH, Names, depth, parts};
use super::tokens::{Tokens, Value, shown};
use crate::schema::{
    Base, ByteOrder, Encoding, Field, FieldType, Float, Integer, Mapping, Selector, Structure, Variant,
};

/// Reads types and keeps their names.
pub(super) struct Types<'a> {
    pub tokens: Tokens<'a>,
    pub names: Names,
    /// The default byte order for types.
    pub byte_order: ByteOrder,
    depth: usize,
    written: WrittenIntegers<'a>,
}

/// Largest alignment, bits.
const MAX_ALIGN: u32 = 512;

/// The placeholder for a moved type.
const NO_TYPE: FieldType = FieldType::Text(Encoding::None);

impl<'a> Types<'a> {
    pub fn new(text: &'a str, byte_order: ByteOrder) -> Self {
        Self {
            tokens: Tokens::new(text),
            names: Names::new(text.len()),
            byte_order,
            depth: 0,
            written: WrittenIntegers::default(),
        }
    }

    /// Takes a declaration of type names, if it is next; returns whether it was.
    pub fn declaration(&mut self) -> Result<bool, TsdlError> {
        match self.tokens.peek_word()? {
            Some("typealias") => self.typealias()?,
            Some("typedef") => self.typedef()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn typealias(&mut self) -> Result<(), TsdlError> {
        self.tokens.next()?;
        let ty = self.specifier_or_alias()?;
        self.tokens.expect(':')?;
        self.tokens.expect('=')?;
        let mut name = String::new();
        loop {
            match self.tokens.next()? {
                Some(Token::Sign(';')) => break,
                Some(Token::Word(word)) => push_word(&mut name, word),
                Some(Token::Sign('*')) => push_word(&mut name, "*"),
                found => {
                    let found = shown(found.as_ref());
                    return Err(self.tokens.error(format!("expected the name of a type, found {found}")));
                }
            }
        }
        self.declare(Kind::Alias, &name, &ty)
    }

    fn typedef(&mut self) -> Result<(), TsdlError> {
        self.tokens.next()?;
        let mut declared = Vec::new();
        self.fields_of_one_type(&mut declared)?;
        for field in declared {
            self.declare(Kind::Alias, &field.name, &field.ty)?;
        }
        Ok(())
    }

    fn declare(&mut self, kind: Kind, name: &str, ty: &FieldType) -> Result<(), TsdlError> {
        if name.is_empty() {
            return Err(self.tokens.error("a type without a name"));
        }
        if self.names.declare(kind, name, ty) { Ok(()) } else { Err(self.too_large()) }
    }

    fn too_large(&self) -> TsdlError {
        self.tokens.error("the types of this metadata have too many parts")
    }

    fn find(&mut self, kind: Kind, name: &str) -> Result<FieldType, TsdlError> {
        match self.names.find(kind, name) {
            Some(Ok(ty)) => Ok(ty),
            Some(Err(())) => Err(self.too_large()),
            None => Err(self.tokens.error(format!("no type `{name}` is declared here"))),
        }
    }

    /// A type that begins with a TSDL keyword; `None` if the next word is none.
    pub fn specifier(&mut self) -> Result<Option<FieldType>, TsdlError> {
        let word = self.tokens.peek_word()?.unwrap_or_default();
        if !matches!(word, "integer" | "floating_point" | "string" | "struct" | "variant" | "enum") {
            return Ok(None);
        }
        let word = self.tokens.word("a type")?;
        if self.depth == MAX_DEPTH {
            return Err(self.tokens.error("types nest too deep"));
        }
        self.depth += 1;
        let ty = match word {
            "integer" => FieldType::Integer(self.integer()?),
            "floating_point" => self.float()?,
            "string" => self.text()?,
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            _ => self.enumeration()?,
        };
        self.depth -= 1;
        if !self.names.take(1) {
            return Err(self.too_large());
        }
        self.bounded(ty).map(Some)
    }

    fn bounded(&self, ty: FieldType) -> Result<FieldType, TsdlError> {
        // Its parts are bounded already, so this does not go deep.
        if depth(&ty) > MAX_DEPTH { Err(self.tokens.error("types nest too deep")) } else { Ok(ty) }
    }

    /// A type, followed by no words but its own.
    pub fn specifier_or_alias(&mut self) -> Result<FieldType, TsdlError> {
        if let Some(ty) = self.specifier()? {
            return Ok(ty);
        }
        let mut name = self.tokens.word("a type")?.to_owned();
        while let Some(word) = self.tokens.peek_word()? {
            push_word(&mut name, word);
            self.tokens.next()?;
        }
        self.find(Kind::Alias, &name)
    }

    /// `type a, b[3];`
    fn fields_of_one_type(&mut self, into: &mut Vec<Field>) -> Result<(), TsdlError> {
        let (mut ty, mut name) = match self.specifier()? {
            // A declaration of the type's name only.
            Some(_) if self.tokens.accept(';')? => return Ok(()),
            Some(ty) => (ty, self.tokens.word("a field's name")?),
            None => {
                let mut name = self.tokens.word("a field")?;
                let mut alias = String::new();
                while let Some(Token::Word(_)) = self.tokens.peek()? {
                    push_word(&mut alias, name);
                    name = self.tokens.word("a field's name")?;
                }
                (self.find(Kind::Alias, &alias)?, name)
            }
        };
        loop {
            let lengths = self.lengths()?;
            // The last name takes the type itself.
            let more = self.tokens.next_is(',')?;
            let mut field = if more { ty.clone() } else { std::mem::replace(&mut ty, NO_TYPE) };
            for length in lengths.into_iter().rev() {
                field = match length {
                    Length::Fixed(length) => FieldType::Array(Box::new(field), length),
                    Length::Field(path) => FieldType::Sequence(Box::new(field), path),
                };
            }
            if !self.names.take(1) {
                return Err(self.too_large());
            }
            into.push(Field { name: name.to_owned(), ty: self.bounded(field)? });
            match self.tokens.next()? {
                Some(Token::Sign(';')) => return Ok(()),
                // Each name takes a clone, perhaps of a large type.
                Some(Token::Sign(',')) if self.names.take(parts(&ty)) => {
                    name = self.tokens.word("a field's name")?;
                }
                found => {
                    let found = shown(found.as_ref());
                    return Err(self.tokens.error(format!("expected `;` behind a field, found {found}")));
                }
            }
        }
    }

    fn lengths(&mut self) -> Result<Vec<Length>, TsdlError> {
        let mut lengths = Vec::new();
        while self.tokens.accept('[')? {
            if lengths.len() == MAX_DEPTH {
                return Err(self.tokens.error("types nest too deep"));
            }
            lengths.push(match self.tokens.peek()? {
                Some(Token::Word(_)) => Length::Field(self.tokens.path()?.into_owned()),
                _ => {
                    let number = self.tokens.number()?;
                    let number = u64::try_from(number).map_err(|_| self.tokens.error("a negative length"))?;
                    Length::Fixed(number)
                }
            });
            self.tokens.expect(']')?;
        }
        Ok(lengths)
    }

    /// Members up to the closing brace; the opening brace is already taken.
    fn members(&mut self) -> Result<Vec<Field>, TsdlError> {
        self.names.enter();
        let mut fields = Vec::new();
        while !self.tokens.accept('}')? {
            if !self.declaration()? {
                self.fields_of_one_type(&mut fields)?;
            }
        }
        self.names.leave();
        Ok(fields)
    }

    fn structure(&mut self) -> Result<FieldType, TsdlError> {
        let name = self.name()?;
        let mut structure = if self.tokens.accept('{')? {
            Structure { fields: self.members()?, align: 1 }
        } else {
            let name = name.unwrap_or_default();
            match self.find(Kind::Struct, name)? {
                FieldType::Struct(structure) => structure,
                _ => return Err(self.tokens.error(format!("`{name}` is no structure"))),
            }
        };
        if self.tokens.peek_word()? == Some("align") {
            self.tokens.next()?;
            self.tokens.expect('(')?;
            let align = self.tokens.number()?;
            structure.align = structure.align.max(self.align(align)?);
            self.tokens.expect(')')?;
        }
        let ty = FieldType::Struct(structure);
        if let Some(name) = name {
            self.declare(Kind::Struct, name, &ty)?;
        }
        Ok(ty)
    }

    fn variant(&mut self) -> Result<FieldType, TsdlError> {
        let name = self.name()?;
        let mut tag = self.tag()?;
        let (options, declared) = if self.tokens.accept('{')? {
            (self.members()?, true)
        } else {
            match self.find(Kind::Variant, name.unwrap_or_default())? {
                FieldType::Variant(variant) => {
                    tag = tag.or(Some(variant.tag));
                    (variant.options, false)
                }
                _ => return Err(self.tokens.error("no variant")),
            }
        };
        let ty =
            FieldType::Variant(Variant { tag: tag.unwrap_or_default(), options, selector: Selector::Names });
        if let (Some(name), true) = (name, declared) {
            self.declare(Kind::Variant, name, &ty)?;
        }
        Ok(ty)
    }

    fn tag(&mut self) -> Result<Option<String>, TsdlError> {
        if !self.tokens.accept('<')? {
            return Ok(None);
        }
        let tag = self.tokens.path()?;
        self.tokens.expect('>')?;
        Ok(Some(tag.into_owned()))
    }

    /// The name behind `struct` and the like, if any.
    fn name(&mut self) -> Result<Option<&'a str>, TsdlError> {
        if self.tokens.peek_word()?.is_some() { self.tokens.word("a name").map(Some) } else { Ok(None) }
    }

    fn enumeration(&mut self) -> Result<FieldType, TsdlError> {
        let name = self.name()?;
        let container = if self.tokens.accept(':')? { Some(self.specifier_or_alias()?) } else { None };
        if !self.tokens.accept('{')? {
            return self.find(Kind::Enum, name.unwrap_or_default());
        }
        let container = match container {
            Some(container) => container,
            None => self.find(Kind::Alias, "int")?,
        };
        let (FieldType::Integer(integer) | FieldType::Enumeration(integer, _)) = container else {
            return Err(self.tokens.error("an enumeration of something else than integers"));
        };
        let ty = FieldType::Enumeration(integer, self.mappings()?);
        if let Some(name) = name {
            self.declare(Kind::Enum, name, &ty)?;
        }
        Ok(ty)
    }

    fn mappings(&mut self) -> Result<Vec<Mapping>, TsdlError> {
        let (mut mappings, mut next) = (Vec::new(), 0_i128);
        while !self.tokens.accept('}')? {
            let name = match self.tokens.next()? {
                Some(Token::Word(name)) => name.to_owned(),
                Some(Token::Text(name)) => name.into_owned(),
                found => {
                    let found = shown(found.as_ref());
                    return Err(self
                        .tokens
                        .error(format!("expected a name in an enumeration, found {found}")));
                }
            };
            let (mut from, mut to) = (next, next);
            if self.tokens.accept('=')? {
                from = self.tokens.number()?;
                to = from;
                if self.tokens.accept('.')? {
                    self.tokens.expect('.')?;
                    self.tokens.expect('.')?;
                    to = self.tokens.number()?;
                }
            }
            if from > to {
                return Err(self.tokens.error("a range in an enumeration that ends before it begins"));
            }
            next = to.saturating_add(1);
            if !self.names.take(1) {
                return Err(self.too_large());
            }
            mappings.push(Mapping { name, from, to });
            if !self.tokens.next_is('}')? {
                self.tokens.expect(',')?;
            }
        }
        Ok(mappings)
    }

    /// `{ key = value; … }`; the brace is not taken yet.
    fn properties(&mut self) -> Result<Vec<(Cow<'a, str>, Value<'a>)>, TsdlError> {
        self.tokens.expect('{')?;
        let mut properties = Vec::with_capacity(8);
        while !self.tokens.accept('}')? {
            let key = self.tokens.path()?;
            self.tokens.expect('=')?;
            let value = self.tokens.value()?;
            if properties.len() == 64 {
                return Err(self.tokens.error("a type has too many properties"));
            }
            properties.push((key, value));
        }
        Ok(properties)
    }

    /// An integer; the same text as an earlier integer's, byte for byte, gives the same integer.
    fn integer(&mut self) -> Result<Integer, TsdlError> {
        let before = self.tokens.ahead();
        if let Some(text) = before
            && let Some((bytes, integer)) = self.written.find(text)
        {
            self.tokens.pass(bytes);
            return Ok(integer);
        }
        let integer = self.integer_by_tokens()?;
        if let (Some(before), Some(behind)) = (before, self.tokens.ahead()) {
            self.written.keep(&before[..before.len() - behind.len()], &integer);
        }
        Ok(integer)
    }

    fn integer_by_tokens(&mut self) -> Result<Integer, TsdlError> {
        let mut integer = Integer { byte_order: self.byte_order, ..Integer::unsigned(0) };
        let mut align = None;
        for (key, value) in self.properties()? {
            let bad = |what: &str| self.tokens.error(format!("an integer whose {key} is no {what}"));
            match &*key {
                "size" => {
                    integer.bits = number_in(&value, 1, 64).ok_or_else(|| bad("number from 1 to 64"))?
                }
                "align" => align = value.number(),
                "signed" => integer.signed = truth(&value).ok_or_else(|| bad("truth value"))?,
                "byte_order" => {
                    integer.byte_order =
                        byte_order(&value.text(), self.byte_order).ok_or_else(|| bad("byte order"))?;
                }
                "base" => integer.base = base(&value).ok_or_else(|| bad("base"))?,
                "encoding" => integer.encoding = encoding(&value).ok_or_else(|| bad("encoding"))?,
                "map" => integer.clock = clock_of(&value),
                _ => {}
            }
        }
        if integer.bits == 0 {
            return Err(self.tokens.error("an integer without a size"));
        }
        integer.align = match align {
            Some(align) => self.align(align)?,
            None if integer.bits.is_multiple_of(8) => 8,
            None => 1,
        };
        Ok(integer)
    }

    fn float(&mut self) -> Result<FieldType, TsdlError> {
        let (mut digits, mut align, mut order) = (0, None, self.byte_order);
        for (key, value) in self.properties()? {
            match &*key {
                "exp_dig" | "mant_dig" => digits += number_in(&value, 1, 64).unwrap_or(1000),
                "align" => align = value.number(),
                "byte_order" => {
                    order = byte_order(&value.text(), self.byte_order)
                        .ok_or_else(|| self.tokens.error("a floating_point with a strange byte order"))?;
                }
                _ => {}
            }
        }
        // A binary digit in the mantissa is not stored, but counts for the sign.
        if digits != 32 && digits != 64 {
            return Err(self.tokens.error("a floating_point that is neither of 32 nor of 64 bits"));
        }
        let align = self.align(align.unwrap_or(8))?;
        Ok(FieldType::Float(Float { bits: digits, align, byte_order: order }))
    }

    fn text(&mut self) -> Result<FieldType, TsdlError> {
        let mut read = Encoding::Utf8;
        if self.tokens.next_is('{')? {
            for (key, value) in self.properties()? {
                if key == "encoding" {
                    read = encoding(&value)
                        .ok_or_else(|| self.tokens.error("a string with a strange encoding"))?;
                }
            }
        }
        Ok(FieldType::Text(read))
    }

    fn align(&self, align: i128) -> Result<u32, TsdlError> {
        let bits = u32::try_from(align).ok().filter(|bits| bits.is_power_of_two() && *bits <= MAX_ALIGN);
        bits.ok_or_else(|| {
            self.tokens.error(format!("an alignment that is no power of two up to {MAX_ALIGN}"))
        })
    }
}

/// Integers by their text. Tracers write each field's type in full, in a dozen forms: token by token, this took most
/// of the time for reading metadata.
#[derive(Default)]
struct WrittenIntegers<'a>(Vec<(&'a str, Integer)>);

/// The limit on kept texts. Each is compared for each integer.
const MAX_WRITTEN: usize = 16;

impl<'a> WrittenIntegers<'a> {
    /// The integer at the beginning of a text, and the size of its own text, bytes.
    fn find(&self, text: &str) -> Option<(usize, Integer)> {
        let (written, integer) = self.0.iter().find(|(written, _)| text.starts_with(written))?;
        Some((written.len(), integer.clone()))
    }

    /// Keeps an integer's text, from behind its first word up to and including its closing brace.
    fn keep(&mut self, written: &'a str, integer: &Integer) {
        if self.0.len() < MAX_WRITTEN && written.ends_with('}') {
            self.0.push((written, integer.clone()));
        }
    }
}

enum Length {
    Fixed(u64),
    Field(String),
}

fn push_word(name: &mut String, word: &str) {
    if !name.is_empty() {
        name.push(' ');
    }
    name.push_str(word);
}

fn number_in(value: &Value<'_>, from: u32, to: u32) -> Option<u32> {
    value.number().and_then(|number| u32::try_from(number).ok()).filter(|number| (from..=to).contains(number))
}

fn truth(value: &Value<'_>) -> Option<bool> {
    match &*value.text() {
        "true" | "TRUE" | "1" => Some(true),
        "false" | "FALSE" | "0" => Some(false),
        _ => None,
    }
}

/// `native`: the trace's byte order.
pub(super) fn byte_order(value: &str, native: ByteOrder) -> Option<ByteOrder> {
    match value {
        "le" => Some(ByteOrder::Little),
        "be" | "network" => Some(ByteOrder::Big),
        "native" => Some(native),
        _ => None,
    }
}

fn base(value: &Value<'_>) -> Option<Base> {
    match &*value.text() {
        "2" | "binary" | "b" => Some(Base::Binary),
        "8" | "octal" | "oct" | "o" => Some(Base::Octal),
        "10" | "decimal" | "dec" | "d" | "i" | "u" => Some(Base::Decimal),
        "16" | "hexadecimal" | "hex" | "x" | "X" | "p" => Some(Base::Hexadecimal),
        _ => None,
    }
}

fn encoding(value: &Value<'_>) -> Option<Encoding> {
    match &*value.text().to_ascii_lowercase() {
        "none" => Some(Encoding::None),
        "utf8" | "utf-8" => Some(Encoding::Utf8),
        "ascii" => Some(Encoding::Ascii),
        _ => None,
    }
}

/// `clock.NAME.value`
fn clock_of(value: &Value<'_>) -> Option<String> {
    let text = value.text();
    let name = text.strip_prefix("clock.")?;
    Some(name.strip_suffix(".value").unwrap_or(name).to_owned())
}
