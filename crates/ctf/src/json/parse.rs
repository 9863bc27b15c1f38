//! From JSON to field classes.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::class::{ChoiceOption, Class, Kind, Length, Role};
use super::location::Location;
use super::object::{Object, quoted};
use crate::schema::{Base, ByteOrder, Float, Integer, Mapping, Range};

/// A field class's deepest nesting, aliases included.
pub(super) const MAX_DEPTH: usize = 24;

/// The largest alignment, bits.
const MAX_ALIGN: u64 = 512;

/// The field classes with a name.
#[derive(Debug, Default)]
pub(super) struct Aliases(HashMap<String, Rc<Class>>);

impl Aliases {
    pub fn add(&mut self, object: Object<'_>) -> Result<(), String> {
        let name = object.needed_text("name")?;
        let class = self.class(object.needed("field-class")?)?;
        match self.0.insert(name.to_owned(), class) {
            None => Ok(()),
            Some(_) => Err(format!("the field class alias {} is declared twice", quoted(name))),
        }
    }

    /// A field class, or the class with the given name.
    pub fn class(&self, value: &Value) -> Result<Rc<Class>, String> {
        if let Some(name) = value.as_str() {
            let found = self.0.get(name).cloned();
            return found
                .ok_or_else(|| format!("no field class alias {} is declared in front of it", quoted(name)));
        }
        let object = Object::of(value, "a field class")?;
        let kind = self.kind(object)?;
        let mut roles = Vec::new();
        for role in object.array("roles")?.unwrap_or_default() {
            roles.extend(role.as_str().and_then(Role::named));
        }
        let inside = match &kind {
            Kind::Array { element, .. } => element.depth,
            Kind::Structure { members, .. } => {
                members.iter().map(|(_, class)| class.depth).max().unwrap_or(0)
            }
            Kind::Variant { options, .. } => {
                options.iter().map(|option| option.field.depth).max().unwrap_or(0)
            }
            Kind::Optional { field, .. } => field.depth,
            _ => 0,
        };
        if inside >= MAX_DEPTH {
            return Err("field classes nest too deep".to_owned());
        }
        Ok(Rc::new(Class { kind, roles, depth: inside + 1 }))
    }

    fn kind(&self, object: Object<'_>) -> Result<Kind, String> {
        let name = object.needed_text("type")?;
        Ok(match name {
            "fixed-length-bit-array" | "fixed-length-bit-map" => number(object, false, Base::Hexadecimal)?,
            "fixed-length-boolean" => match number(object, false, Base::Decimal)? {
                Kind::Number { integer, mappings, .. } => Kind::Number { integer, mappings, boolean: true },
                other => other,
            },
            // In drafts, enumerations have their own types.
            "fixed-length-unsigned-integer" | "fixed-length-unsigned-enumeration" => {
                number(object, false, base(object)?)?
            }
            "fixed-length-signed-integer" | "fixed-length-signed-enumeration" => {
                number(object, true, base(object)?)?
            }
            "variable-length-unsigned-integer" | "variable-length-unsigned-enumeration" => {
                leb128(object, false)?
            }
            "variable-length-signed-integer" | "variable-length-signed-enumeration" => leb128(object, true)?,
            "fixed-length-floating-point-number" => {
                let (bits, align, byte_order) = bits(object)?;
                if bits != 32 && bits != 64 {
                    return Err(format!("a floating-point number with {bits} bits, which is not read"));
                }
                Kind::Float(Float { bits, align, byte_order })
            }
            "null-terminated-string" => {
                utf8(object)?;
                Kind::Text
            }
            "static-length-string" | "dynamic-length-string" => {
                utf8(object)?;
                Kind::Bytes { text: true, length: length(object, name)? }
            }
            "static-length-blob" | "dynamic-length-blob" => {
                Kind::Bytes { text: false, length: length(object, name)? }
            }
            "static-length-array" | "dynamic-length-array" => Kind::Array {
                element: self.class(object.needed("element-field-class")?)?,
                length: length(object, name)?,
                align: align(object, "minimum-alignment")?,
            },
            "structure" => {
                Kind::Structure { members: self.members(object)?, align: align(object, "minimum-alignment")? }
            }
            "variant" => self.variant(object)?,
            "optional" => Kind::Optional {
                selector: Location::parse(object.needed("selector-field-location")?)?,
                ranges: object.value("selector-field-ranges").map(ranges).transpose()?,
                field: self.class(object.needed("field-class")?)?,
            },
            other => return Err(format!("a field class of type {}, which is not read", quoted(other))),
        })
    }

    fn members(&self, object: Object<'_>) -> Result<Vec<(String, Rc<Class>)>, String> {
        let member = |value| {
            let member = Object::of(value, "a member class")?;
            let name = member.needed_text("name")?;
            let class = member.needed("field-class").and_then(|class| self.class(class));
            Ok((name.to_owned(), class.map_err(|error| format!("member {}: {error}", quoted(name)))?))
        };
        object.array("member-classes")?.unwrap_or_default().iter().map(member).collect()
    }

    fn variant(&self, object: Object<'_>) -> Result<Kind, String> {
        object.needed("options")?;
        let option = |value| {
            let option = Object::of(value, "an option")?;
            Ok(ChoiceOption {
                name: option.text("name")?.map(str::to_owned),
                ranges: ranges(option.needed("selector-field-ranges")?)?,
                field: self.class(option.needed("field-class")?)?,
            })
        };
        let options = object.array("options")?.unwrap_or_default().iter().map(option);
        Ok(Kind::Variant {
            options: options.collect::<Result<_, String>>()?,
            selector: Location::parse(object.needed("selector-field-location")?)?,
        })
    }
}

/// Width, alignment and byte order.
fn bits(object: Object<'_>) -> Result<(u32, u32, ByteOrder), String> {
    let length = object.needed_number("length")?;
    let bits = u32::try_from(length).ok().filter(|bits| (1..=64).contains(bits));
    let bits = bits.ok_or_else(|| format!("a field with {length} bits, which is not read: 1 to 64 are"))?;
    let (byte_order, natural) = match object.needed_text("byte-order")? {
        "little-endian" => (ByteOrder::Little, "first-to-last"),
        "big-endian" => (ByteOrder::Big, "last-to-first"),
        other => return Err(format!("{} is no byte order", quoted(other))),
    };
    if let Some(order) = object.text("bit-order")?.filter(|order| *order != natural) {
        return Err(format!("a bit order {} against the byte order, which is not read", quoted(order)));
    }
    Ok((bits, align(object, "alignment")?, byte_order))
}

fn number(object: Object<'_>, signed: bool, base: Base) -> Result<Kind, String> {
    let (bits, align, byte_order) = bits(object)?;
    let integer = Integer { bits, align, byte_order, signed, base, ..Integer::unsigned(bits) };
    Ok(Kind::Number { integer, mappings: mappings(object)?, boolean: false })
}

fn leb128(object: Object<'_>, signed: bool) -> Result<Kind, String> {
    let integer = Integer { signed, base: base(object)?, ..Integer::unsigned(64) };
    Ok(Kind::Leb128 { integer, mappings: mappings(object)? })
}

fn base(object: Object<'_>) -> Result<Base, String> {
    match object.number("preferred-display-base")? {
        None | Some(10) => Ok(Base::Decimal),
        Some(2) => Ok(Base::Binary),
        Some(8) => Ok(Base::Octal),
        Some(16) => Ok(Base::Hexadecimal),
        Some(other) => Err(format!("{other} is no base for display")),
    }
}

/// The values' names, in order.
fn mappings(object: Object<'_>) -> Result<Vec<Mapping>, String> {
    let mut found = Vec::new();
    for (name, values) in object.map("mappings")?.unwrap_or(&Map::new()) {
        let values = ranges(values)?.into_iter();
        found.extend(values.map(|(from, to)| Mapping { name: name.clone(), from, to }));
    }
    found.sort_by(|a, b| (a.from, a.to, &a.name).cmp(&(b.from, b.to, &b.name)));
    Ok(found)
}

fn ranges(value: &Value) -> Result<Vec<Range>, String> {
    let wrong = || "ranges of values that are not pairs of numbers, the lower first".to_owned();
    let number = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    let range = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([from, to]) => number(from).zip(number(to)).filter(|(from, to)| from <= to).ok_or_else(wrong),
        _ => Err(wrong()),
    };
    value.as_array().ok_or_else(wrong)?.iter().map(range).collect()
}

fn align(object: Object<'_>, key: &str) -> Result<u32, String> {
    let align = object.number(key)?.unwrap_or(1);
    let fits = align.is_power_of_two() && align <= MAX_ALIGN;
    let bits = u32::try_from(align).ok().filter(|_| fits);
    bits.ok_or_else(|| format!("its `{key}` of {align} is no power of two up to {MAX_ALIGN}"))
}

fn utf8(object: Object<'_>) -> Result<(), String> {
    match object.text("encoding")? {
        None | Some("utf-8") => Ok(()),
        Some(other) => Err(format!("a string in {}, which is not read: only utf-8 is", quoted(other))),
    }
}

/// A field class's length, by its type's name.
fn length(object: Object<'_>, name: &str) -> Result<Length, String> {
    if name.starts_with("static") {
        return object.needed_number("length").map(Length::Fixed);
    }
    Location::parse(object.needed("length-field-location")?).map(Length::At)
}
