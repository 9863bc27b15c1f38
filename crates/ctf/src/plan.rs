//! Plans: flat lists of operations that decode the fields of a structure, made once from its type.
//!
//! Sizes that the type fixes become jumps, alignments that it fixes cost nothing, and fields that are not wanted are
//! passed in one step where possible. Running a plan allocates nothing and never goes beyond the given bytes.

mod bits;
mod compile;
mod known;
mod run;
mod scope;

pub use compile::PlanError;
pub(crate) use compile::{Compiler, Want};
pub(crate) use run::{Registers, Stop};

use crate::schema::{FieldType, Integer, Mapping};

/// Takes the values of an event's fields, in order.
///
/// `field` is an index into [`Plan::fields`], or the slot that was asked for.
pub trait Visitor {
    /// The fields of an event begin. All fields before belong to another event, or to the same one when more of
    /// it had to be read.
    fn begin(&mut self) {}
    /// A number.
    fn unsigned(&mut self, field: u16, value: u64);
    /// A number with a sign.
    fn signed(&mut self, field: u16, value: i64);
    /// A number with a fraction.
    fn float(&mut self, field: u16, value: f64);
    /// A text without its NUL, or an array of numbers as it stands in the file where it was asked for.
    fn bytes(&mut self, field: u16, value: &[u8]);
    /// A structure, an array or a variant begins.
    fn open(&mut self, field: u16) {
        let _ = field;
    }
    /// It ends.
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
    /// Its name as people see it; empty for an array's elements.
    pub name: String,
    /// Its kind.
    pub kind: FieldKind,
    /// Which part of the event it is in.
    pub part: Part,
    /// The field that it is in, or [`NONE`]. Whole paths would cost the square of the metadata's size.
    parent: u16,
}

/// The parts of an event behind its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The context that the stream gives all events.
    StreamContext,
    /// The context of its class, in front of the payload.
    Context,
    /// The payload.
    Payload,
}

impl Part {
    /// The prefix of the paths of its fields.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::StreamContext => "context.",
            Self::Context => "own-context.",
            Self::Payload => "",
        }
    }
}

/// The kind of a field.
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
            FieldType::Enumeration(integer, mappings) => Self::Enumeration(integer.clone(), mappings.clone()),
            FieldType::Float(float) => Self::Float(float.bits),
            FieldType::Text(_) => Self::Text,
            FieldType::Struct(_) => Self::Struct,
            FieldType::Array(..) | FieldType::Sequence(..) => Self::Array,
            FieldType::Variant(_) => Self::Variant,
        }
    }
}

/// Decodes one structure, or several that follow each other.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub(crate) ops: Vec<Op>,
    /// The number of these up to the last one that passes something on.
    reporting: usize,
    loops: Vec<Loop>,
    integers: Vec<Integers>,
    choices: Vec<Choice>,
    /// The fields that it passes on, where all were asked for.
    fields: Vec<FieldInfo>,
}

impl Plan {
    /// The fields that it passes on, where all were asked for, by the number that [`Visitor`] gets.
    pub fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// The path of a field that it passes on: the names of all structures around it and its own, joined by dots.
    pub fn path(&self, field: u16) -> String {
        let mut names = Vec::new();
        let mut next = self.fields.get(usize::from(field));
        let part = next.map_or(Part::Payload, |field| field.part);
        while let Some(field) = next {
            if !field.name.is_empty() {
                names.push(field.name.as_str());
            }
            next = self.fields.get(usize::from(field.parent));
        }
        names.reverse();
        format!("{}{}", part.prefix(), names.join("."))
    }

    /// Bits that it passes, where that is the same each time.
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

/// One step. Those of fixed width are for little-endian numbers that begin with a byte.
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
    /// Any number, at any bit; passed on to a slot, kept in a register, or both.
    Number {
        slot: u16,
        register: u16,
        bits: u8,
        big: bool,
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
    /// Goes on at one of several places; an index into `choices`.
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
    /// From one element to the next, bits.
    stride: u32,
}

#[derive(Debug, Clone)]
struct Choice {
    register: u16,
    /// Values have their order as unsigned numbers after this is added.
    bias: u64,
    /// From, to (both biased), and where to go on.
    ranges: Vec<(u64, u64, u32)>,
}
