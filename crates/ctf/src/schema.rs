//! What a trace says about itself (CTF 1.8, section 7), as data.

/// A trace's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Identifies the trace; every packet repeats it.
    pub uuid: [u8; 16],
    /// Facts about the trace that are none of CTF's business.
    pub env: Vec<(String, EnvValue)>,
    /// The clock that stamps are of.
    pub clock: Clock,
    /// Fields that every packet begins with.
    pub packet_header: Vec<Field>,
    /// The streams.
    pub streams: Vec<StreamClass>,
}

/// A value in the `env` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// A clock, counting `frequency` ticks a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Its name, which fields refer to.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// Ticks a second.
    pub frequency: u64,
    /// Its origin, in whole seconds since 1970, UTC.
    pub offset_s: i64,
    /// And in ticks beyond those.
    pub offset: u64,
}

/// A kind of stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamClass {
    /// Its number; packets carry it.
    pub id: u64,
    /// Fields behind each packet's header.
    pub packet_context: Vec<Field>,
    /// Fields that every event begins with.
    pub event_header: Vec<Field>,
    /// Fields behind every event's header.
    pub event_context: Vec<Field>,
    /// Its events.
    pub events: Vec<EventClass>,
}

/// A kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventClass {
    /// Its number, unique in its stream class.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its payload.
    pub fields: Vec<Field>,
}

/// A named member of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name; an identifier of C.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
}

impl Field {
    /// A field.
    pub fn new(name: &str, ty: FieldType) -> Self {
        Self { name: name.to_owned(), ty }
    }
}

/// A type (CTF 1.8, section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// A number.
    Integer(Integer),
    /// A number whose values have names.
    Enumeration(Integer, Vec<Mapping>),
    /// So many of a type.
    Array(Box<FieldType>, u64),
    /// As many of a type as the field of this name before it says.
    Sequence(Box<FieldType>, String),
    /// Members, one behind the other.
    Struct(Vec<Field>),
}

/// A value's name in an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The name.
    pub name: String,
    /// The value.
    pub value: u64,
}

/// An integer type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Integer {
    /// Its width, bits.
    pub bits: u32,
    /// Its alignment, bits.
    pub align: u32,
    /// Two's complement.
    pub signed: bool,
    /// In which base people read it.
    pub base: Base,
    /// What it encodes, when it is a character.
    pub encoding: Encoding,
    /// The clock it is a stamp of.
    pub clock: Option<String>,
}

impl Integer {
    /// An unsigned integer without alignment beyond the byte, in base 10.
    pub const fn unsigned(bits: u32) -> Self {
        Self { bits, align: 8, signed: false, base: Base::Decimal, encoding: Encoding::None, clock: None }
    }

    /// The same, shown in base 16.
    pub fn hexadecimal(bits: u32) -> Self {
        Self { base: Base::Hexadecimal, ..Self::unsigned(bits) }
    }

    /// A byte of UTF-8 text.
    pub fn character() -> Self {
        Self { encoding: Encoding::Utf8, ..Self::unsigned(8) }
    }
}

/// The base in which people read an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Base {
    Decimal,
    Hexadecimal,
}

/// What an integer encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Encoding {
    None,
    Utf8,
}
