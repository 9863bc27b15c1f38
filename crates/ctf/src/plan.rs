//! Plans: flat lists of operations that decode a structure's fields, made once from its type.
//!
//! Sizes fixed by the type become jumps, alignments fixed by it cost nothing, and unwanted fields are passed in a
//! single step where possible. A plan allocates nothing and never goes beyond the given bytes.

mod bits;
mod compile;
mod known;
mod run;
mod scope;

pub use compile::PlanError;
pub(crate) use compile::{Compiler, Want};
pub(crate) use run::{Registers, Stop};
pub(crate) use scope::ROOTS;

use crate::schema::{FieldType, Integer, Mapping};

/// Takes the values of an event's fields, in order.
///
/// `field` is an index into [`Plan::fields`], or the requested slot.
pub trait Visitor {
    /// An event's fields begin. All fields before belong to another event, or to the same event read again with more
    /// bytes.
    fn begin(&mut self) {}
    /// A number.
    fn unsigned(&mut self, field: u16, value: u64);
    /// A signed number.
    fn signed(&mut self, field: u16, value: i64);
    /// A floating-point number.
    fn float(&mut self, field: u16, value: f64);
    /// A text without its NUL, or a requested array of numbers, unchanged from the file.
    fn bytes(&mut self, field: u16, value: &[u8]);
    /// A structure, an array or a variant begins.
    fn open(&mut self, field: u16) {
        let _ = field;
    }
    /// The structure, array or variant ends.
    fn close(&mut self, field: u16) {
        let _ = field;
    }
}

/// Ignores all fields.
#[derive(Debug, Clone, Copy)]
pub struct Ignore;

impl Visitor for Ignore {
    fn unsigned(&mut self, _: u16, _: u64) {}
    fn signed(&mut self, _: u16, _: i64) {}
    fn float(&mut self, _: u16, _: f64) {}
    fn bytes(&mut self, _: u16, _: &[u8]) {}
}

/// A field that a plan passes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldInfo {
    /// Its name for display; empty for an array's elements.
    pub name: String,
    /// Its kind.
    pub kind: FieldKind,
    /// The part of the event with the field.
    pub part: EventPart,
    /// The surrounding field, or [`NONE`]. Whole paths would cost the square of the metadata's size.
    parent: u16,
}

/// An event's parts behind its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventPart {
    /// The stream's context for all events.
    StreamContext,
    /// The event class's context, in front of the payload.
    Context,
    /// The payload.
    Payload,
}

impl EventPart {
    /// The path prefix for its fields.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::StreamContext => "context.",
            Self::Context => "own-context.",
            Self::Payload => "",
        }
    }
}

/// A field's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in `FieldType`")]
pub enum FieldKind {
    Integer(Integer),
    Enumeration(Integer, Vec<Mapping>),
    Float(u32),
    Text,
    Struct,
    Array,
    Variant,
}

impl FieldKind {
    fn of(ty: &FieldType) -> Self {
        match ty {
            FieldType::Integer(integer) => Self::Integer(integer.clone()),
            FieldType::Leb128(integer, mappings) if mappings.is_empty() => Self::Integer(integer.clone()),
            FieldType::Enumeration(integer, mappings) | FieldType::Leb128(integer, mappings) => {
                Self::Enumeration(integer.clone(), mappings.clone())
            }
            FieldType::Float(float) => Self::Float(float.bits),
            FieldType::Text(_) => Self::Text,
            FieldType::Struct(_) => Self::Struct,
            FieldType::Array(..) | FieldType::Sequence(..) => Self::Array,
            FieldType::Variant(_) => Self::Variant,
        }
    }
}

/// Decodes a structure, or several in a row.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub(crate) ops: Vec<Op>,
    /// The number of operations up to the last other than a skip.
    reporting: usize,
    loops: Vec<Loop>,
    integers: Vec<Integers>,
    choices: Vec<Choice>,
    /// The passed fields, for a plan with all fields.
    fields: Vec<FieldInfo>,
}

impl Plan {
    /// The passed fields, for a plan with all fields, by the number that [`Visitor`] gets.
    pub fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// A passed field's path: the names of all surrounding structures and its own, joined by dots.
    pub fn path(&self, field: u16) -> String {
        let mut names = Vec::new();
        let mut next = self.fields.get(usize::from(field));
        let part = next.map_or(EventPart::Payload, |field| field.part);
        while let Some(field) = next {
            if !field.name.is_empty() {
                names.push(field.name.as_str());
            }
            next = self.fields.get(usize::from(field.parent));
        }
        names.reverse();
        format!("{}{}", part.prefix(), names.join("."))
    }

    /// The plan's size in bits, if always the same.
    pub(crate) fn size(&self) -> Option<u64> {
        self.ops.iter().try_fold(0_u64, |sum, op| {
            let bits = match *op {
                Op::U8(_) | Op::I8(_) => 8,
                Op::U16(_) | Op::I16(_) => 16,
                Op::U32(_) | Op::I32(_) => 32,
                Op::U64(_) | Op::I64(_) => 64,
                Op::Number { bits, .. } => bits.into(),
                Op::Float { wide, .. } => {
                    if wide {
                        64
                    } else {
                        32
                    }
                }
                Op::Chars { bytes, .. } | Op::Bytes { bytes, .. } => u64::from(bytes) * 8,
                Op::Skip(bits) => bits,
                Op::Open(_) | Op::Close(_) => 0,
                _ => return None,
            };
            sum.checked_add(bits)
        })
    }
}

/// No slot, or no register.
const NONE: u16 = u16::MAX;

/// A step. Operations with a fixed width are for little-endian numbers that begin with a byte.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    U8(u16),
    U16(u16),
    U32(u16),
    U64(u16),
    I8(u16),
    I16(u16),
    I32(u16),
    I64(u16),
    /// Any number, at any bit; passed to a slot, kept in a register, or both.
    Number {
        slot: u16,
        register: u16,
        bits: u8,
        big: bool,
        signed: bool,
    },
    /// A number with 7 bits in each byte, as `Number` passed on and kept.
    Leb128 {
        slot: u16,
        register: u16,
        signed: bool,
    },
    Float {
        slot: u16,
        wide: bool,
        big: bool,
    },
    /// Up to a NUL.
    Text(u16),
    /// Text in this number of bytes, up to a NUL.
    Chars {
        slot: u16,
        bytes: u32,
    },
    CharsOf {
        slot: u16,
        register: u16,
    },
    /// This number of bytes, unchanged.
    Bytes {
        slot: u16,
        bytes: u32,
    },
    BytesOf {
        slot: u16,
        register: u16,
        bytes: u16,
    },
    /// An array of plain numbers; an index into `integers`.
    Integers(u16),
    Skip(u64),
    SkipText,
    SkipOf {
        register: u16,
        bits: u32,
    },
    Align(u32),
    Open(u16),
    Close(u16),
    /// Repeats the following operations, up to `Again`; an index into `loops`.
    Repeat(u16),
    Again,
    /// Continues at the chosen option; an index into `choices`.
    Choose(u16),
    Jump(u32),
}

#[derive(Debug, Clone, Copy)]
enum Count {
    Fixed(u64),
    Register(u16),
}

#[derive(Debug, Clone, Copy)]
struct Loop {
    count: Count,
    /// The operation behind its `Again`.
    end: u32,
}

#[derive(Debug, Clone, Copy)]
struct Integers {
    array: u16,
    element: u16,
    count: Count,
    bits: u8,
    big: bool,
    signed: bool,
    /// The distance between elements, bits.
    stride: u32,
}

#[derive(Debug, Clone)]
struct Choice {
    register: u16,
    /// With this added, values have the order of unsigned numbers.
    bias: u64,
    /// From, to (both biased), and the operation to continue at.
    ranges: Vec<(u64, u64, u32)>,
    /// The operation to continue at if no range fits; without, the event is damaged.
    otherwise: Option<u32>,
}
