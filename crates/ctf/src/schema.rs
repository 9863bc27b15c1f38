//! A trace's metadata (CTF 1.8, section 7; CTF 2), as data.

/// A trace's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The trace's identity, repeated in every packet; absent from some tracers' metadata.
    pub uuid: Option<[u8; 16]>,
    /// The default byte order for types.
    pub byte_order: ByteOrder,
    /// Facts about the trace outside CTF's scope.
    pub env: Vec<(String, EnvValue)>,
    /// The clocks for stamps.
    pub clocks: Vec<Clock>,
    /// The fields at the beginning of every packet.
    pub packet_header: Structure,
    /// The streams.
    pub streams: Vec<StreamClass>,
}

impl Metadata {
    /// A text in the `env` block.
    pub fn text(&self, key: &str) -> Option<&str> {
        text_of(&self.env, key)
    }

    /// A number in the `env` block.
    pub fn number(&self, key: &str) -> Option<i64> {
        number_of(&self.env, key)
    }

    /// The clock with this name.
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

/// The text with this name among values.
pub(crate) fn text_of<'a>(values: &'a [(String, EnvValue)], key: &str) -> Option<&'a str> {
    values.iter().find_map(|(name, value)| match value {
        EnvValue::Text(text) if name == key => Some(text.as_str()),
        _ => None,
    })
}

/// The number with this name among values.
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
    /// The clock's identity, which traces with the same clock share. LTTng puts the boot id here.
    pub uuid: Option<[u8; 16]>,
    /// Its description.
    pub description: String,
    /// Ticks a second.
    pub frequency: u64,
    /// Its origin, in whole seconds since 1970, UTC.
    pub offset_s: i64,
    /// The origin's further ticks.
    pub offset: u64,
    /// Whether the origin is given in the time since 1970; not in every trace.
    pub absolute: Option<bool>,
}

impl Clock {
    /// The time of its value 0, ns since 1970, UTC; rounded down.
    pub const fn origin_ns(&self) -> i128 {
        self.offset_s as i128 * NS_PER_S as i128 + ns(self.offset, self.frequency) as i128
    }

    /// The same, if known: without an offset and without `absolute`, a clock names no date.
    pub const fn date_ns(&self) -> Option<i128> {
        let is_absolute = match self.absolute {
            Some(absolute) => absolute,
            None => self.offset_s != 0 || self.offset != 0,
        };
        if is_absolute { Some(self.origin_ns()) } else { None }
    }

    /// A reading as ns since its value 0, rounded down; at most `u64::MAX`.
    pub const fn ns(&self, ticks: u64) -> u64 {
        if self.frequency == NS_PER_S as u64 {
            return ticks;
        }
        let ns = ns(ticks, self.frequency);
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }
}

const NS_PER_S: u128 = 1_000_000_000;

/// Exact but for the fraction of a nanosecond: 64 bits times 10^9 fit 128. A clock that never ticks, which no reader
/// returns, stands at 0.
const fn ns(ticks: u64, frequency: u64) -> u128 {
    if frequency == 0 { 0 } else { ticks as u128 * NS_PER_S / frequency as u128 }
}

/// A stream class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamClass {
    /// Its number, which packets repeat.
    pub id: u64,
    /// Fields behind each packet's header.
    pub packet_context: Structure,
    /// The fields at the beginning of every event.
    pub event_header: Structure,
    /// Fields behind every event's header.
    pub event_context: Structure,
    /// Its events.
    pub events: Vec<EventClass>,
}

/// An event class.
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

/// Members in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// In order.
    pub fields: Vec<Field>,
    /// Its alignment, bits, if more than its members'.
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
    /// Its name, without a dot; a C identifier in CTF 1.8, perhaps empty for a variant's option in CTF 2.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
}

impl Field {
    /// A field.
    pub fn new(name: &str, ty: FieldType) -> Self {
        Self { name: name.to_owned(), ty }
    }

    /// Its name for display: without the underscore that tracers put in front, to avoid TSDL keywords.
    pub fn shown(&self) -> &str {
        shown(&self.name)
    }
}

/// A name without the single underscore that tracers put in front.
pub fn shown(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// A type (CTF 1.8, section 4; CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// A number.
    Integer(Integer),
    /// A number whose values have names.
    Enumeration(Integer, Vec<Mapping>),
    /// A fixed number of elements of a type.
    Array(Box<FieldType>, u64),
    /// Elements with the same type; their number is in the earlier field with this name: a path, with dots.
    Sequence(Box<FieldType>, String),
    /// Members in a row.
    Struct(Structure),
    /// A choice among types, by an enumeration.
    Variant(Variant),
    /// A floating-point number.
    Float(Float),
    /// Bytes up to a NUL.
    Text(Encoding),
    /// A number with 7 bits in each byte (LEB128, in CTF 2 alone). Its width is the limit; its values may have names.
    Leb128(Integer, Vec<Mapping>),
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
            Self::Text(_) | Self::Leb128(..) => 8,
        }
    }
}

impl Structure {
    /// Its alignment, bits: its own or its members' largest.
    pub fn aligned(&self) -> u32 {
        self.fields.iter().map(|field| field.ty.align()).fold(self.align.max(1), u32::max)
    }
}

/// A choice among types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The number that chooses: a path, with dots.
    pub tag: String,
    /// The types.
    pub options: Vec<Field>,
    /// The rule for the choice.
    pub selector: Selector,
}

/// The rule by which a tag chooses a variant's option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The option with the value's name in the tag's enumeration (CTF 1.8).
    Names,
    /// The option with the value in its ranges; as many as options (CTF 2).
    Ranges(Vec<Vec<Range>>),
    /// The only option if the value is in these ranges, or nothing: an optional field (CTF 2).
    Optional(Vec<Range>),
}

/// Values, from the first to the last.
pub type Range = (i128, i128);

/// An IEEE 754 floating-point number with 32 or 64 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Float {
    /// Its width, bits.
    pub bits: u32,
    /// Its alignment, bits.
    pub align: u32,
    /// Its byte order.
    pub byte_order: ByteOrder,
}

/// A name in an enumeration, for a range of values.
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
    /// A name for a single value.
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
    /// Its byte order, which also decides where its first bit is in a byte.
    pub byte_order: ByteOrder,
    /// Two's complement.
    pub signed: bool,
    /// The base for display.
    pub base: Base,
    /// The encoding of a character.
    pub encoding: Encoding,
    /// The clock, if the integer is a stamp.
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

/// An integer's base for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Base {
    Binary,
    Octal,
    Decimal,
    Hexadecimal,
}

/// An integer's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Encoding {
    None,
    Ascii,
    Utf8,
}

/// The order of bytes: the first is the least or the most significant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ByteOrder {
    Little,
    Big,
}
