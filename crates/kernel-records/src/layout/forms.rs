//! Record forms: a test that must know every form compares its own with the table.

use std::collections::BTreeSet;

use super::{FieldType, LAYOUTS, Layout};
use crate::{DecodeError, Header, Kind, record_length};

/// A record kind's name, a field's name, and the field value's name; the latter two are empty for the kind itself.
pub type Form = (&'static str, &'static str, &'static str);

/// Every form: each kind, and each named value in its fields.
pub fn every_form() -> BTreeSet<Form> {
    let values = |layout: &'static Layout| {
        let named = layout.fields.iter().flat_map(|field| match field.ty {
            FieldType::Choice(_, choices) => choices.iter().map(|(value, _)| (field.name, *value)).collect(),
            _ => Vec::new(),
        });
        named.chain([("", "")]).map(|(field, value)| (layout.name, field, value))
    };
    LAYOUTS.iter().flat_map(values).collect()
}

/// The forms of the first record in `bytes`: a value without a name has no form.
///
/// # Errors
/// If there is no whole record.
pub fn forms_of(bytes: &[u8]) -> Result<BTreeSet<Form>, DecodeError> {
    let record = bytes.get(..record_length(bytes)?).unwrap_or_default();
    let kind = Header::read(record).map_or(0, |header| header.kind);
    let layout = Layout::of(Kind::from_number(kind).ok_or(DecodeError::UnknownKind(kind))?);
    let value = |field: &'static super::Field| {
        let FieldType::Choice(width, choices) = field.ty else { return None };
        let number = crate::length::number(record, field.offset, width);
        let (name, _) = choices.iter().find(|(_, value)| *value == number)?;
        Some((layout.name, field.name, *name))
    };
    Ok(layout.fields.iter().filter_map(value).chain([(layout.name, "", "")]).collect())
}
