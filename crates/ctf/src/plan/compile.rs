//! The compiler from types to plans.

use std::collections::HashMap;

use super::known::Known;
use super::run::MAX_LOOP_DEPTH;
use super::scope::{References, Scopes};
use super::{Choice, Count, EventPart, FieldInfo, FieldKind, Integers, Loop, NONE, Op, Plan};
use crate::schema::{
    ByteOrder, Encoding, Field, FieldType, Integer, Mapping, Range, Selector, StreamClass, Structure,
    Variant, shown,
};

/// Why a type cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlanError {
    #[error("field `{field}` refers to `{to}`, which is no number in front of it")]
    Dangling { field: String, to: String },
    #[error("field `{0}` is an array in too many arrays")]
    Nesting(String),
    #[error("there are too many fields")]
    Fields,
}

/// The fields to pass on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Want<'a> {
    /// All, by their index in [`Plan::fields`].
    All,
    /// The fields with these paths, to these slots.
    Slots(&'a [(&'a str, u16)]),
    /// An event header's fields: `id` to slot 0, stamps to a slot by their width.
    Header,
}

impl Want<'_> {
    /// A field's path, if paths matter.
    fn path(self, prefix: &str, name: &str) -> String {
        match self {
            Self::Slots([_, ..]) => join(prefix, name),
            _ => String::new(),
        }
    }
}

/// A number to which other fields refer.
#[derive(Debug, Clone)]
struct Referred {
    register: u16,
    signed: bool,
    mappings: Vec<Mapping>,
}

/// Makes a stream class's plans: the first part of a packet first.
#[derive(Debug)]
pub(crate) struct Compiler<'a> {
    references: References,
    referred: HashMap<String, Referred>,
    /// The current event's paths in `referred`, removed behind it.
    event_paths: Vec<String>,
    scopes: Scopes<'a>,
    known: Known,
    /// Reset for each event: all begin at the header's end.
    plan: Plan,
    /// Operations from here on are not merged with those before: this is a jump target.
    barrier: usize,
    loops: usize,
    next_register: u16,
    /// The surrounding field, and the part.
    parent: u16,
    part: EventPart,
}

/// A field on the way to its operations.
#[derive(Clone, Copy)]
struct At<'a> {
    name: &'a str,
    path: &'a str,
    /// Its name for display; empty for an array's elements.
    label: &'a str,
    want: Want<'a>,
}

impl<'a> Compiler<'a> {
    pub fn new(header: &'a Structure, stream: &'a StreamClass) -> Self {
        Self {
            references: References::collect(header, stream),
            referred: HashMap::new(),
            event_paths: Vec::new(),
            scopes: Scopes::default(),
            known: Known::START,
            plan: Plan::default(),
            barrier: 0,
            loops: 0,
            next_register: 0,
            parent: NONE,
            part: EventPart::Payload,
        }
    }

    /// Events begin anywhere.
    pub fn anywhere(&mut self) {
        self.known = Known::NOTHING;
    }

    /// The plan for structures in a row, each with its index among an event's six structures and the path prefix for
    /// its fields.
    pub fn plan(
        &mut self,
        parts: &[(usize, &'a Structure, &str)],
        want: Want<'_>,
    ) -> Result<Plan, PlanError> {
        self.plan = Plan::default();
        self.barrier = 0;
        for (root, structure, prefix) in parts {
            self.scopes.enter_root(*root);
            (self.parent, self.loops) = (NONE, 0);
            self.part = match root {
                3 => EventPart::StreamContext,
                4 => EventPart::Context,
                _ => EventPart::Payload,
            };
            // A structure without members takes no room, but for its own alignment.
            if !structure.fields.is_empty() || structure.align > 1 {
                self.align(structure.aligned());
                self.members(&structure.fields, prefix, want)?;
            }
            self.scopes.leave_root();
        }
        let mut plan = std::mem::take(&mut self.plan);
        let last = plan.ops.iter().rposition(|op| !matches!(op, Op::Skip(_)));
        plan.reporting = last.map_or(0, |last| last + 1);
        Ok(plan)
    }

    /// An event's plan, after which the state is as before.
    pub fn event(
        &mut self,
        parts: &[(usize, &'a Structure, &str)],
        want: Want<'_>,
    ) -> Result<Plan, PlanError> {
        let (known, registers) = (self.known, self.next_register);
        self.event_paths.clear();
        let plan = self.plan(parts, want);
        (self.known, self.next_register) = (known, registers);
        for path in self.event_paths.drain(..) {
            self.referred.remove(&path);
        }
        self.scopes.leave_event();
        plan
    }

    /// The register for the number with this path, if another field refers to it.
    pub fn register(&self, path: &str) -> Option<u16> {
        self.referred.get(path).map(|referred| referred.register)
    }

    fn members(&mut self, fields: &'a [Field], prefix: &str, want: Want<'_>) -> Result<(), PlanError> {
        for field in fields {
            let label = shown(&field.name);
            let path = want.path(prefix, label);
            self.field(At { name: &field.name, path: &path, label, want }, &field.ty)?;
            self.scopes.passed(&field.name);
        }
        Ok(())
    }

    fn field(&mut self, at: At<'_>, ty: &'a FieldType) -> Result<(), PlanError> {
        match ty {
            FieldType::Integer(integer) => self.number(at, ty, integer, &[]),
            FieldType::Enumeration(integer, mappings) => self.number(at, ty, integer, mappings),
            FieldType::Leb128(integer, mappings) => {
                let slot = self.slot(at, ty)?;
                self.align(8);
                let register = self.register_for(at, integer, mappings)?;
                self.push(Op::Leb128 { slot, register, signed: integer.signed });
                self.known = self.known.plus_any(8);
                Ok(())
            }
            FieldType::Float(float) => {
                let slot = self.slot(at, ty)?;
                self.align(float.align);
                if slot == NONE {
                    self.skip(float.bits.into());
                } else {
                    let big = float.byte_order == ByteOrder::Big;
                    self.push(Op::Float { slot, wide: float.bits == 64, big });
                    self.known = self.known.plus(float.bits.into());
                }
                Ok(())
            }
            FieldType::Text(_) => {
                let slot = self.slot(at, ty)?;
                self.align(8);
                self.push(if slot == NONE { Op::SkipText } else { Op::Text(slot) });
                self.known = self.known.plus_any(8);
                Ok(())
            }
            FieldType::Array(element, count) => self.array(at, ty, element, Count::Fixed(*count)),
            FieldType::Sequence(element, length) => {
                let count = Count::Register(self.refer(at, length)?.register);
                self.array(at, ty, element, count)
            }
            FieldType::Struct(structure) => {
                self.align(structure.aligned());
                let group = self.group(at, ty)?;
                self.scopes.enter(at.name);
                self.members(&structure.fields, at.path, at.want)?;
                self.scopes.leave();
                self.close(group);
                Ok(())
            }
            FieldType::Variant(variant) => self.variant(at, ty, variant),
        }
    }

    /// A value's slot.
    fn slot(&mut self, at: At<'_>, ty: &FieldType) -> Result<u16, PlanError> {
        match at.want {
            Want::All => self.info(at.label, ty),
            Want::Slots(wanted) => {
                let found = wanted.iter().find(|(path, _)| *path == at.path);
                Ok(found.map_or(NONE, |(_, slot)| *slot))
            }
            Want::Header => Ok(match ty {
                FieldType::Integer(integer) if integer.clock.is_some() => integer.bits as u16,
                FieldType::Integer(_) | FieldType::Enumeration(..) | FieldType::Leb128(..)
                    if at.name == "id" =>
                {
                    0
                }
                _ => NONE,
            }),
        }
    }

    fn info(&mut self, label: &str, ty: &FieldType) -> Result<u16, PlanError> {
        let index = self.plan.fields.len();
        let index = u16::try_from(index).ok().filter(|&index| index != NONE).ok_or(PlanError::Fields)?;
        self.plan.fields.push(FieldInfo {
            name: label.to_owned(),
            kind: FieldKind::of(ty),
            part: self.part,
            parent: self.parent,
        });
        Ok(index)
    }

    /// Begins a structure or the like, in a plan with all fields; returns the argument for [`Compiler::close`].
    fn group(&mut self, at: At<'_>, ty: &FieldType) -> Result<(u16, u16), PlanError> {
        if !matches!(at.want, Want::All) {
            return Ok((NONE, NONE));
        }
        let slot = self.info(at.label, ty)?;
        self.push(Op::Open(slot));
        Ok((slot, std::mem::replace(&mut self.parent, slot)))
    }

    /// Ends it; `outer` is the surrounding structure.
    fn close(&mut self, (slot, outer): (u16, u16)) {
        if slot != NONE {
            self.push(Op::Close(slot));
            self.parent = outer;
        }
    }

    fn number(
        &mut self,
        at: At<'_>,
        ty: &FieldType,
        integer: &Integer,
        mappings: &[Mapping],
    ) -> Result<(), PlanError> {
        let slot = self.slot(at, ty)?;
        self.align(integer.align);
        let register = self.register_for(at, integer, mappings)?;
        let big = integer.byte_order == ByteOrder::Big && integer.bits != 8;
        let in_bytes = self.known.padding(8) == Some(0);
        match (integer.bits, integer.signed) {
            _ if slot == NONE && register == NONE => {
                self.skip(integer.bits.into());
                return Ok(());
            }
            (8, false) if register == NONE && in_bytes => self.push(Op::U8(slot)),
            (8, true) if register == NONE && in_bytes => self.push(Op::I8(slot)),
            (16, false) if register == NONE && in_bytes && !big => self.push(Op::U16(slot)),
            (16, true) if register == NONE && in_bytes && !big => self.push(Op::I16(slot)),
            (32, false) if register == NONE && in_bytes && !big => self.push(Op::U32(slot)),
            (32, true) if register == NONE && in_bytes && !big => self.push(Op::I32(slot)),
            (64, false) if register == NONE && in_bytes && !big => self.push(Op::U64(slot)),
            (64, true) if register == NONE && in_bytes && !big => self.push(Op::I64(slot)),
            (bits, signed) => {
                let big = integer.byte_order == ByteOrder::Big;
                self.push(Op::Number { slot, register, bits: bits as u8, big, signed });
            }
        }
        self.known = self.known.plus(integer.bits.into());
        Ok(())
    }

    /// The register to keep a number in, if another field refers to it.
    fn register_for(
        &mut self,
        at: At<'_>,
        integer: &Integer,
        mappings: &[Mapping],
    ) -> Result<u16, PlanError> {
        let Some(path) = self.references.path(&self.scopes, at.name) else { return Ok(NONE) };
        let register = self.next_register;
        if register == 256 {
            return Err(PlanError::Fields);
        }
        self.next_register += 1;
        let mappings = mappings.to_vec();
        self.event_paths.push(path.clone());
        self.referred.insert(path, Referred { register, signed: integer.signed, mappings });
        Ok(register)
    }

    fn refer(&self, at: At<'_>, reference: &str) -> Result<&Referred, PlanError> {
        let path = self.scopes.resolve(reference);
        path.and_then(|path| self.referred.get(&path))
            .ok_or_else(|| PlanError::Dangling { field: at.name.to_owned(), to: reference.to_owned() })
    }

    fn array(
        &mut self,
        at: At<'_>,
        ty: &FieldType,
        element: &'a FieldType,
        count: Count,
    ) -> Result<(), PlanError> {
        self.align(element.align());
        let plain = match element {
            FieldType::Integer(integer) | FieldType::Enumeration(integer, _) => Some(integer),
            _ => None,
        };
        // Without gaps between the elements, they count as a single element.
        let Some(plain) = plain.filter(|integer| integer.bits.is_multiple_of(integer.align)) else {
            return self.each(at, ty, element, count);
        };
        let is_text = plain.bits == 8 && plain.align == 8 && plain.encoding != Encoding::None;
        let in_bytes = plain.bits.is_multiple_of(8) && plain.align.is_multiple_of(8);
        let total = match count {
            Count::Fixed(count) => Some(count.saturating_mul(plain.bits.into())),
            Count::Register(_) => None,
        };
        if let (Want::All, false) = (at.want, is_text) {
            let array = self.info(at.label, ty)?;
            let outer = std::mem::replace(&mut self.parent, array);
            let element = self.info("", element)?;
            self.parent = outer;
            let index = u16::try_from(self.plan.integers.len()).map_err(|_| PlanError::Fields)?;
            self.plan.integers.push(Integers {
                array,
                element,
                count,
                bits: plain.bits as u8,
                big: plain.byte_order == ByteOrder::Big,
                signed: plain.signed,
                stride: plain.bits,
            });
            self.push(Op::Integers(index));
        } else {
            let slot = self.slot(at, &FieldType::Text(plain.encoding))?;
            let skipped = slot == NONE || !in_bytes;
            match count {
                Count::Fixed(_) if skipped => {
                    self.skip(total.unwrap_or(u64::MAX));
                    return Ok(());
                }
                Count::Register(register) if skipped => {
                    self.push(Op::SkipOf { register, bits: plain.bits });
                }
                Count::Fixed(count) => {
                    match u32::try_from(count.saturating_mul(u64::from(plain.bits) / 8)) {
                        Ok(bytes) if is_text => self.push(Op::Chars { slot, bytes }),
                        Ok(bytes) => self.push(Op::Bytes { slot, bytes }),
                        // No packet holds it.
                        Err(_) => self.push(Op::Skip(u64::MAX)),
                    }
                }
                Count::Register(register) if is_text => self.push(Op::CharsOf { slot, register }),
                Count::Register(register) => {
                    self.push(Op::BytesOf { slot, register, bytes: (plain.bits / 8) as u16 });
                }
            }
        }
        self.known = match total {
            Some(bits) => self.known.plus(bits),
            None => self.known.plus_any(plain.bits.into()),
        };
        Ok(())
    }

    /// An array with elements other than plain numbers.
    fn each(
        &mut self,
        at: At<'_>,
        ty: &FieldType,
        element: &'a FieldType,
        count: Count,
    ) -> Result<(), PlanError> {
        if self.loops == MAX_LOOP_DEPTH {
            return Err(PlanError::Nesting(at.name.to_owned()));
        }
        let group = self.group(at, ty)?;
        let index = u16::try_from(self.plan.loops.len()).map_err(|_| PlanError::Fields)?;
        self.plan.loops.push(Loop { count, end: 0 });
        self.push(Op::Repeat(index));
        self.land();
        self.known = Known::NOTHING;
        self.loops += 1;
        self.field(At { label: "", ..at }, element)?;
        self.loops -= 1;
        self.push(Op::Again);
        self.land();
        self.plan.loops[usize::from(index)].end = self.here();
        self.known = Known::NOTHING;
        self.close(group);
        Ok(())
    }

    fn variant(&mut self, at: At<'_>, ty: &FieldType, variant: &'a Variant) -> Result<(), PlanError> {
        let tag = self.refer(at, &variant.tag)?.clone();
        let group = self.group(at, ty)?;
        let index = u16::try_from(self.plan.choices.len()).map_err(|_| PlanError::Fields)?;
        let bias = if tag.signed { 1 << 63 } else { 0 };
        self.plan.choices.push(Choice { register: tag.register, bias, ranges: Vec::new(), otherwise: None });
        self.push(Op::Choose(index));
        let before = self.known;
        let (mut after, mut jumps) = (None::<Known>, Vec::new());
        self.scopes.enter(at.name);
        for (number, option) in variant.options.iter().enumerate() {
            self.land();
            let from = self.here();
            let ranges = values(variant, number, option, &tag).into_iter();
            let ranges = ranges.filter_map(|values| range(values, tag.signed)).map(|(a, b)| (a, b, from));
            self.plan.choices[usize::from(index)].ranges.extend(ranges);
            self.known = before;
            let label = shown(&option.name);
            let path = at.want.path(at.path, label);
            self.field(At { name: &option.name, path: &path, label, ..at }, &option.ty)?;
            after = Some(after.map_or(self.known, |after| after.or(self.known)));
            jumps.push(self.plan.ops.len());
            self.push(Op::Jump(0));
        }
        self.scopes.leave();
        self.land();
        let end = self.here();
        for jump in jumps {
            self.plan.ops[jump] = Op::Jump(end);
        }
        if let Selector::Optional(_) = variant.selector {
            self.plan.choices[usize::from(index)].otherwise = Some(end);
            after = after.map(|after| after.or(before));
        }
        self.known = after.unwrap_or(before);
        self.close(group);
        Ok(())
    }

    fn align(&mut self, bits: u32) {
        match self.known.padding(bits.into()) {
            Some(0) => {}
            Some(padding) => self.skip(padding),
            None => {
                self.push(Op::Align(bits));
                self.known = Known::aligned(bits.into());
            }
        }
    }

    fn skip(&mut self, bits: u64) {
        self.known = self.known.plus(bits);
        if self.plan.ops.len() > self.barrier
            && let Some(Op::Skip(before)) = self.plan.ops.last_mut()
        {
            *before = before.saturating_add(bits);
        } else if bits > 0 {
            self.push(Op::Skip(bits));
        }
    }

    fn push(&mut self, op: Op) {
        self.plan.ops.push(op);
    }

    fn here(&self) -> u32 {
        self.plan.ops.len() as u32
    }

    /// Marks the next operation as a jump target.
    fn land(&mut self) {
        self.barrier = self.plan.ops.len();
    }
}

fn join(prefix: &str, name: &str) -> String {
    match (prefix, name) {
        ("", name) => name.to_owned(),
        // An option without a name is its variant.
        (prefix, "") => prefix.to_owned(),
        (prefix, name) => format!("{prefix}.{name}"),
    }
}

/// A tag's values for an option.
fn values(variant: &Variant, number: usize, option: &Field, tag: &Referred) -> Vec<Range> {
    match &variant.selector {
        Selector::Names => {
            let named = tag.mappings.iter().filter(|mapping| mapping.name == option.name);
            named.map(|mapping| (mapping.from, mapping.to)).collect()
        }
        Selector::Ranges(ranges) => ranges.get(number).cloned().unwrap_or_default(),
        Selector::Optional(ranges) => ranges.clone(),
    }
}

/// Values in the order of unsigned numbers, as far as the tag has them.
fn range((first, last): Range, signed: bool) -> Option<(u64, u64)> {
    let (least, most) = if signed { (i64::MIN.into(), i64::MAX.into()) } else { (0, i128::from(u64::MAX)) };
    let (from, to) = (first.max(least), last.min(most));
    (from <= to).then(|| ((from - least) as u64, (to - least) as u64))
}
