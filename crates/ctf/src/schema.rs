//! The metadata of a trace (CTF 1.8, section 7), as data.

/// A trace's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Identifies the trace; every packet repeats it. Some tracers do without.
    pub uuid: Option<[u8; 16]>,
    /// The byte order of types without their own.
    pub byte_order: ByteOrder,
    /// Facts about the trace that are none of CTF's business.
    pub env: Vec<(String, EnvValue)>,
    /// The clocks that stamps are of.
    pub clocks: Vec<Clock>,
    /// Fields that every packet begins with.
    pub packet_header: Structure,
    /// The streams.
    pub streams: Vec<StreamClass>,
}

impl Metadata {
    /// A text of the `env` block.
    pub fn text(&self, key: &str) -> Option<&str> {
        text_of(&self.env, key)
    }

    /// A number of the `env` block.
    pub fn number(&self, key: &str) -> Option<i64> {
        number_of(&self.env, key)
    }

    /// The clock of this name.
    pub fn clock(&self, name: &str) -> Option<&Clock> {
        self.clocks.iter().find(|clock| clock.name == name)
    }
}

/// A value in the `env` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// The text of this name among values.
pub(crate) fn text_of<'a>(values: &'a [(String, EnvValue)], key: &str) -> Option<&'a str> {
    values.iter().find_map(|(name, value)| match value {
        EnvValue::Text(text) if name == key => Some(text.as_str()),
        _ => None,
    })
}

/// The number of this name among values.
pub(crate) fn number_of(values: &[(String, EnvValue)], key: &str) -> Option<i64> {
    values.iter().find_map(|(name, value)| match value {
        EnvValue::Number(number) if name == key => Some(*number),
        _ => None,
    })
}

/// A clock, counting `frequency` ticks a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Its name, which fields refer to.
    pub name: String,
    /// Which clock it is: that of traces with the same one. LTTng puts the boot's id here.
    pub uuid: Option<[u8; 16]>,
    /// Its description.
    pub description: String,
    /// Ticks a second.
    pub frequency: u64,
    /// Its origin, in whole seconds since 1970, UTC.
    pub offset_s: i64,
    /// And in ticks beyond those.
    pub offset: u64,
}

impl Clock {
    /// The time of its value 0, ns since 1970, UTC; rounded down.
    pub const fn origin_ns(&self) -> i128 {
        self.offset_s as i128 * NS_PER_S as i128 + ns(self.offset, self.frequency) as i128
    }

    /// A reading of it as ns since its value 0, rounded down; at most `u64::MAX`.
    pub const fn ns(&self, ticks: u64) -> u64 {
        if self.frequency == NS_PER_S as u64 {
            return ticks;
        }
        let ns = ns(ticks, self.frequency);
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }
}

const NS_PER_S: u128 = 1_000_000_000;

/// Exact but for the fraction of a nanosecond: 64 bits times 10^9 fit 128. A clock that never ticks, which
/// no reader hands out, stands at 0.
const fn ns(ticks: u64, frequency: u64) -> u128 {
    if frequency == 0 { 0 } else { ticks as u128 * NS_PER_S / frequency as u128 }
}

/// A kind of stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamClass {
    /// Its number; packets carry it.
    pub id: u64,
    /// Fields behind each packet's header.
    pub packet_context: Structure,
    /// Fields that every event begins with.
    pub event_header: Structure,
    /// Fields behind every event's header.
    pub event_context: Structure,
    /// Its events.
    pub events: Vec<EventClass>,
}

/// A kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventClass {
    /// Its number, unique in its stream class.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Fields between the stream's event context and the payload.
    pub context: Structure,
    /// Its payload.
    pub fields: Structure,
}

/// Members, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// In order.
    pub fields: Vec<Field>,
    /// Its alignment, bits, if more than that of its members.
    pub align: u32,
}

impl Default for Structure {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<Field>> for Structure {
    fn from(fields: Vec<Field>) -> Self {
        Self { fields, align: 1 }
    }
}

impl FromIterator<Field> for Structure {
    fn from_iter<T: IntoIterator<Item = Field>>(fields: T) -> Self {
        Vec::from_iter(fields).into()
    }
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

    /// Its name as people see it: without the underscore that tracers put in front, lest it be a word of
    /// TSDL.
    pub fn shown(&self) -> &str {
        shown(&self.name)
    }
}

/// A name without the one underscore that tracers put in front.
pub fn shown(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// A type (CTF 1.8, section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// A number.
    Integer(Integer),
    /// A number whose values have names.
    Enumeration(Integer, Vec<Mapping>),
    /// A fixed number of elements of a type.
    Array(Box<FieldType>, u64),
    /// Elements of a type; the field of this name before it has their number: a path, with dots.
    Sequence(Box<FieldType>, String),
    /// Members, one behind the other.
    Struct(Structure),
    /// One of several, as an enumeration says.
    Variant(Variant),
    /// A number with a fraction.
    Float(Float),
    /// Bytes up to a NUL.
    Text(Encoding),
}

impl FieldType {
    /// Its alignment, bits.
    pub fn align(&self) -> u32 {
        match self {
            Self::Integer(integer) | Self::Enumeration(integer, _) => integer.align,
            Self::Array(element, _) | Self::Sequence(element, _) => element.align(),
            Self::Struct(structure) => structure.aligned(),
            // The chosen field aligns itself.
            Self::Variant(_) => 1,
            Self::Float(float) => float.align,
            Self::Text(_) => 8,
        }
    }
}

impl Structure {
    /// Its alignment, bits: its own or the largest of its members.
    pub fn aligned(&self) -> u32 {
        self.fields.iter().map(|field| field.ty.align()).fold(self.align.max(1), u32::max)
    }
}

/// One of several types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The enumeration that chooses: a path, with dots.
    pub tag: String,
    /// Each named as one of that enumeration's names.
    pub options: Vec<Field>,
}

/// A number with a fraction, of 32 or 64 bits, as IEEE 754 has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Float {
    /// Its width, bits.
    pub bits: u32,
    /// Its alignment, bits.
    pub align: u32,
    /// Its byte order.
    pub byte_order: ByteOrder,
}

/// A name in an enumeration, for all values from one to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The name.
    pub name: String,
    /// The first value.
    pub from: i128,
    /// The last.
    pub to: i128,
}

impl Mapping {
    /// A name for one value.
    pub fn new(name: &str, value: u64) -> Self {
        Self { name: name.to_owned(), from: value.into(), to: value.into() }
    }
}

/// An integer type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Integer {
    /// Its width, bits.
    pub bits: u32,
    /// Its alignment, bits.
    pub align: u32,
    /// Its byte order, and where in a byte its first bit is.
    pub byte_order: ByteOrder,
    /// Two's complement.
    pub signed: bool,
    /// In which base people read it.
    pub base: Base,
    /// Its encoding, if it is a character.
    pub encoding: Encoding,
    /// The clock it is a stamp of.
    pub clock: Option<String>,
}

impl Integer {
    /// An unsigned integer without alignment beyond the byte, in base 10.
    pub const fn unsigned(bits: u32) -> Self {
        Self {
            bits,
            align: 8,
            byte_order: ByteOrder::Little,
            signed: false,
            base: Base::Decimal,
            encoding: Encoding::None,
            clock: None,
        }
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
    Binary,
    Octal,
    Decimal,
    Hexadecimal,
}

/// The encoding of an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Encoding {
    None,
    Ascii,
    Utf8,
}

/// Which byte comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ByteOrder {
    Little,
    Big,
}
