//! From field classes to the schema's types: roles become names, and locations become paths.

use std::rc::Rc;

use super::class::{ChoiceOption, Class, Kind, Length, Role};
use super::location::Location;
use super::names::{self, Names};
use super::object::quoted;
use super::scopes::{Found, Level, Scopes, Target};
use crate::schema::{Field, FieldType, Integer, Mapping, Range, Selector, Structure, Variant};

/// The number of parts for any metadata, all types together; each byte of it allows two more. Aliases in aliases can
/// double with each line.
const MIN_PARTS: usize = 1 << 12;

/// The parts left.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub const fn new(bytes: usize) -> Self {
        Self(MIN_PARTS.saturating_add(bytes.saturating_mul(2)))
    }

    /// Takes a part, and more for a long name.
    fn take(&mut self, name_bytes: usize) -> Result<(), String> {
        let left = self.0.checked_sub(1 + name_bytes / 16);
        self.0 = left.ok_or("the field classes of this metadata have too many parts")?;
        Ok(())
    }
}

/// Makes an event's structure.
pub(super) struct Lowering<'a> {
    pub scopes: Scopes<'a>,
    /// The data stream's default clock.
    pub clock: Option<&'a str>,
    pub budget: &'a mut Budget,
}

impl Lowering<'_> {
    /// The structure, and its members for later locations.
    pub fn root(mut self, class: &Class) -> Result<(Structure, Level), String> {
        let Kind::Structure { members, align } = &class.kind else {
            return Err("is not a structure".to_owned());
        };
        let (structure, level) = self.structure(members, *align)?;
        Ok((structure, level))
    }

    fn structure(
        &mut self,
        members: &[(String, Rc<Class>)],
        align: u32,
    ) -> Result<(Structure, Level), String> {
        self.scopes.enter_structure();
        let mut known = Names::default();
        let mut fields = Vec::with_capacity(members.len());
        for (given, class) in members {
            let member = |error| format!("member {}: {error}", quoted(given));
            let role = self.role(class).map_err(member)?;
            let reserved = role.and_then(|role| role.reserved_name(self.scopes.root));
            let name = known.add(given, reserved, self.scopes.root)?;
            self.budget.take(name.len())?;
            self.scopes.enter_member(given, &name);
            let (ty, target) = self.field(class, role).map_err(member)?;
            self.scopes.leave_member(target);
            fields.push(Field { name, ty });
        }
        Ok((Structure { fields, align }, self.scopes.leave_structure()))
    }

    /// Whether a field is neither a root's member nor optional.
    fn is_inside(&self) -> bool {
        self.scopes.depth() > 1 || self.scopes.steps.iter().skip(1).any(|step| !step.is_empty())
    }

    /// A field's role here, if it has one; an optional field has the role of the field that may be there.
    fn role(&self, class: &Class) -> Result<Option<Role>, String> {
        if let Kind::Optional { field, .. } = &class.kind {
            return self.role(field);
        }
        let here = |role: &&Role| role.reserved_name(self.scopes.root).is_some();
        let mut roles: Vec<Role> = class.roles.iter().filter(here).copied().collect();
        // A packet with such a field has no padding: its total length says both.
        if roles.contains(&Role::TotalLength) {
            roles.retain(|role| *role != Role::ContentLength);
        }
        match roles.as_slice() {
            [] => Ok(None),
            [Role::StreamId] => Ok(Some(Role::StreamId)),
            [_] if self.scopes.root < 2 && self.is_inside() => {
                Err("a role inside a field of the packet's header or context, which is not read".to_owned())
            }
            [role] => Ok(Some(*role)),
            _ => Err("two roles at once, which are not read".to_owned()),
        }
    }

    fn field(&mut self, class: &Class, role: Option<Role>) -> Result<(FieldType, Target), String> {
        self.budget.take(0)?;
        match &class.kind {
            Kind::Number { integer, mappings, boolean } => {
                let integer = Integer { clock: self.clock_of(role)?, ..integer.clone() };
                let target = self.number(&integer, *boolean, mappings)?;
                let ty = if mappings.is_empty() {
                    FieldType::Integer(integer)
                } else {
                    FieldType::Enumeration(integer, mappings.clone())
                };
                Ok((ty, target))
            }
            Kind::Leb128 { integer, mappings } => {
                if let Some(Role::Stamp) = role.filter(|_| self.scopes.root == 2) {
                    return Err("a timestamp of variable length, which is not read".to_owned());
                }
                let integer = Integer { clock: self.clock_of(role)?, ..integer.clone() };
                let target = self.number(&integer, false, mappings)?;
                Ok((FieldType::Leb128(integer, mappings.clone()), target))
            }
            Kind::Float(float) => Ok((FieldType::Float(float.clone()), Target::Other)),
            Kind::Text => Ok((FieldType::Text(crate::schema::Encoding::Utf8), Target::Other)),
            Kind::Bytes { text, length } => {
                let byte = if *text { Integer::character() } else { Integer::unsigned(8) };
                let ty = self.elements(FieldType::Integer(byte), length)?;
                Ok((ty, Target::Other))
            }
            Kind::Array { element, length, align } => {
                if self.role(element)?.is_some() {
                    return Err("a role for an array's elements, which is not read".to_owned());
                }
                let (element, _) = self.field(element, None)?;
                if *align > element.align() {
                    return Err("an array aligned beyond its elements, which is not read".to_owned());
                }
                Ok((self.elements(element, length)?, Target::Barrier("an array")))
            }
            Kind::Structure { members, align } => {
                let (structure, level) = self.structure(members, *align)?;
                Ok((FieldType::Struct(structure), Target::Structure(level)))
            }
            Kind::Variant { selector, options } => {
                Ok((self.variant(selector, options)?, Target::Barrier("a variant")))
            }
            Kind::Optional { selector, ranges, field } => {
                let ty = self.optional(selector, ranges.as_deref(), field)?;
                Ok((ty, Target::Barrier("an optional field")))
            }
        }
    }

    fn clock_of(&self, role: Option<Role>) -> Result<Option<String>, String> {
        match (role, self.clock) {
            (Some(Role::Stamp | Role::EndStamp), Some(clock)) => Ok(Some(clock.to_owned())),
            (Some(Role::Stamp | Role::EndStamp), None) => {
                Err("a timestamp of a data stream without a default clock".to_owned())
            }
            _ => Ok(None),
        }
    }

    fn number(&mut self, integer: &Integer, boolean: bool, mappings: &[Mapping]) -> Result<Target, String> {
        for mapping in mappings {
            self.budget.take(mapping.name.len())?;
        }
        Ok(Target::Number { signed: integer.signed, boolean, mappings: mappings.into() })
    }

    fn elements(&mut self, element: FieldType, length: &Length) -> Result<FieldType, String> {
        Ok(match length {
            Length::Fixed(count) => FieldType::Array(Box::new(element), *count),
            Length::At(location) => {
                let found = self.find(location)?;
                if found.signed || found.boolean {
                    return Err("a length that is no unsigned integer".to_owned());
                }
                FieldType::Sequence(Box::new(element), found.path)
            }
        })
    }

    fn find(&mut self, location: &Location) -> Result<Found, String> {
        let found = self.scopes.find(location)?;
        self.budget.take(found.path.len())?;
        Ok(found)
    }

    fn variant(&mut self, selector: &Location, options: &[ChoiceOption]) -> Result<FieldType, String> {
        let found = self.find(selector)?;
        if found.boolean {
            return Err("a variant chosen by a boolean".to_owned());
        }
        let mut fields = Vec::with_capacity(options.len());
        for option in options {
            let name = option.name.as_deref().map(names::option).unwrap_or_default();
            if self.scopes.root < 2 && self.role(&option.field)?.is_some() {
                return Err("a role for a variant's option, which is not read".to_owned());
            }
            fields.push(self.option(name, &option.field)?);
        }
        let by_name =
            fields.iter().zip(options).all(|(field, option)| is_named(field, option, &found.mappings));
        let selector = if by_name {
            Selector::Names
        } else {
            Selector::Ranges(options.iter().map(|option| option.ranges.clone()).collect())
        };
        Ok(FieldType::Variant(Variant { tag: found.path, options: fields, selector }))
    }

    fn optional(
        &mut self,
        selector: &Location,
        ranges: Option<&[Range]>,
        field: &Class,
    ) -> Result<FieldType, String> {
        let found = self.find(selector)?;
        let ranges = match (found.boolean, ranges) {
            // Any bit set is true.
            (true, _) => vec![(1, u64::MAX.into())],
            (false, Some(ranges)) => ranges.to_vec(),
            (false, None) => return Err("an optional field without ranges for its selector".to_owned()),
        };
        let options = vec![self.option(String::new(), field)?];
        Ok(FieldType::Variant(Variant { tag: found.path, options, selector: Selector::Optional(ranges) }))
    }

    fn option(&mut self, name: String, class: &Class) -> Result<Field, String> {
        self.budget.take(name.len())?;
        self.scopes.steps.push(name.clone());
        let role = self.role(class)?;
        let (ty, _) = self.field(class, role)?;
        self.scopes.steps.pop();
        // An event header's reader looks for the name at any depth.
        let reserved = role.filter(|_| self.scopes.root == 2).and_then(|role| role.reserved_name(2));
        Ok(Field { name: reserved.map_or(name, str::to_owned), ty })
    }
}

/// Whether the selector's names choose the option as its ranges do.
fn is_named(field: &Field, option: &ChoiceOption, mappings: &[Mapping]) -> bool {
    let named = mappings.iter().filter(|mapping| mapping.name == field.name);
    let mut ranges = option.ranges.clone();
    ranges.sort_unstable();
    !field.name.is_empty() && named.map(|mapping| (mapping.from, mapping.to)).eq(ranges)
}
