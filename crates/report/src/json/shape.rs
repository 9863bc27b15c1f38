//! Compares a document with a shape: a text that lists every key and the types of its value.
//!
//! It works both ways. A key in the shape without a key in the document is a broken contract; a key in the document
//! without a key in the shape is an unwritten contract. A golden holds a whole document's values too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use expect_test::ExpectFile;
use serde_json::Value;

/// Reads the document that `write` writes; panics if it does not fit `shape`.
pub fn document(shape: &str, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Value {
    let mut out = Vec::new();
    write(&mut out).expect("a vector takes everything");
    let document = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(misfits(shape, &document), Vec::<String>::new());
    document
}

/// Compares a whole document with a golden file. `UPDATE_EXPECT=1` in front of `cargo test` writes the file anew:
/// read the difference before it is committed.
pub fn golden(document: &Value, expected: &ExpectFile) {
    let text = laid_out(document, 0) + "\n";
    // A file in the repository must not reverse a terminal's text.
    let escaped = |c: char| if c.is_ascii() { String::from(c) } else { format!("\\u{{{:x}}}", u32::from(c)) };
    expected.assert_eq(&text.chars().map(escaped).collect::<String>());
}

/// A value as text: on a single line if short, else with a line for each part; keys in order.
fn laid_out(value: &Value, indent: usize) -> String {
    const MAX_LINE: usize = 110;
    let one_line = on_one_line(value);
    if indent + one_line.len() <= MAX_LINE {
        return one_line;
    }
    let margin = " ".repeat(indent + 2);
    let part = |value| laid_out(value, indent + 2);
    let (parts, [begin, end]): (Vec<_>, _) = match value {
        Value::Object(object) => {
            (sorted(object).map(|(key, of)| format!("{key}: {}", part(of))).collect(), ["{", "}"])
        }
        Value::Array(values) => (values.iter().map(part).collect(), ["[", "]"]),
        _ => return one_line,
    };
    let parts: Vec<_> = parts.iter().map(|part| format!("{margin}{part}")).collect();
    format!("{begin}\n{}\n{}{end}", parts.join(",\n"), " ".repeat(indent))
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let parts: Vec<_> =
                sorted(object).map(|(key, of)| format!("{key}: {}", on_one_line(of))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Array(values) => {
            let parts: Vec<_> = values.iter().map(on_one_line).collect();
            format!("[{}]", parts.join(", "))
        }
        other => other.to_string(),
    }
}

/// An object's keys as JSON writes them, sorted, with their values: another crate in a build may ask for their own order.
fn sorted(object: &serde_json::Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    let sorted: BTreeMap<_, _> = object.iter().collect();
    sorted.into_iter().map(|(key, value)| (Value::from(key.as_str()).to_string(), value))
}

/// The misfits between `document` and `shape`; empty if all fits.
fn misfits(shape: &str, document: &Value) -> Vec<String> {
    let shape = Shape::read(shape);
    let mut misfits = BTreeSet::new();
    shape.check("", document, &mut misfits);
    misfits.into_iter().collect()
}

struct Shape<'a> {
    /// The possible values at a place.
    types: BTreeMap<&'a str, Vec<&'a str>>,
    /// The object keys at a place.
    keys: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> Shape<'a> {
    fn read(text: &'a str) -> Self {
        let mut shape = Self { types: BTreeMap::new(), keys: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (place, types) = line.split_once(": ").expect("a shape's line is `place: types`");
            shape.types.insert(place, types.split(' ').collect());
            let mut above = String::new();
            for part in
                place.split_inclusive("[]").flat_map(|part| part.split('.')).filter(|part| !part.is_empty())
            {
                let key = part.trim_end_matches("[]").trim_end_matches("{}");
                if !key.is_empty() {
                    shape.keys.entry(above.clone()).or_default().insert(key);
                    above = join(&above, key);
                }
                if part.ends_with("[]") {
                    above += "[]";
                }
            }
        }
        shape
    }

    fn check(&self, place: &str, value: &Value, misfits: &mut BTreeSet<String>) {
        let types = self.types.get(place);
        if types.is_some_and(|types| types.iter().any(|one| fits(one, value))) {
            return;
        }
        let values = format!("{place}{{}}");
        match value {
            Value::Object(object) if self.types.contains_key(&*values) => {
                for value in object.values() {
                    self.check(&values, value, misfits);
                }
            }
            Value::Object(object) if self.keys.contains_key(place) => {
                let keys = &self.keys[place];
                for key in object.keys().filter(|key| !keys.contains(key.as_str())) {
                    misfits.insert(format!("{} is in no shape", join(place, key)));
                }
                for key in keys {
                    let below = join(place, key);
                    match object.get(*key) {
                        Some(value) => self.check(&below, value, misfits),
                        None if self.types.get(&*below).is_some_and(|types| types.contains(&"optional")) => {}
                        None => {
                            misfits.insert(format!("{below} is missing"));
                        }
                    }
                }
            }
            Value::Array(elements)
                if self.types.keys().any(|known| known.starts_with(&format!("{place}[]"))) =>
            {
                for element in elements {
                    self.check(&format!("{place}[]"), element, misfits);
                }
            }
            value => {
                let expected = types.map_or(String::from("an object or a list"), |types| types.join(" or "));
                misfits.insert(format!("{place} is {value}, not {expected}"));
            }
        }
    }
}

fn join(above: &str, key: &str) -> String {
    if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") }
}

fn fits(expected: &str, value: &Value) -> bool {
    match (expected, value) {
        ("int", Value::Number(n)) => n.is_i64() || n.is_u64(),
        ("count", Value::Number(n)) => n.is_u64(),
        ("share", Value::Number(n)) => n.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n)),
        ("score", Value::Number(n)) => n.as_f64().is_some_and(|n| n >= 0.0),
        ("bool", Value::Bool(_)) | ("null", Value::Null) | ("text", Value::String(_)) => true,
        ("decimal", Value::String(text)) => text.parse::<i128>().is_ok(),
        (literal, Value::String(text)) => literal == format!("\"{text}\""),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    const SHAPE: &str = "a.b: int\na.c: text null\na.d: null\na.d.e: count\nlist[].x: \"one\" \"two\"\nlist[].y: share optional\nby_name{}: count";

    #[test]
    fn a_document_that_fits_has_no_misfits() {
        for document in [
            json!({"a": {"b": -1, "c": null, "d": null}, "list": [], "by_name": {}}),
            json!({"a": {"b": 1, "c": "x", "d": {"e": 3}}, "list": [{"x": "one", "y": 0.5}, {"x": "two"}], "by_name": {"b": 2, "c": 0}}),
        ] {
            assert_eq!(misfits(SHAPE, &document), Vec::<String>::new());
        }
    }

    #[test]
    fn missing_unknown_and_wrong_are_told_apart() {
        let document = json!({"a": {"b": 1.5, "d": {"e": -1}, "new": 1}, "list": [{"x": "three", "y": 2}], "by_name": {"b": -1}});
        expect![[r#"
            a.b is 1.5, not int
            a.c is missing
            a.d.e is -1, not count
            a.new is in no shape
            by_name{} is -1, not count
            list[].x is "three", not "one" or "two"
            list[].y is 2, not share or optional"#]]
        .assert_eq(&misfits(SHAPE, &document).join("\n"));
    }

    #[test]
    fn every_key_of_a_contract_stands_in_the_page_about_contracts() {
        let page = include_str!("../../../../docs/contracts.md");
        for (name, contract) in [
            ("path", include_str!("../../contract/path.txt")),
            ("overview", include_str!("../../contract/overview.txt")),
            ("info", include_str!("../../contract/info.txt")),
            ("sync", include_str!("../../contract/sync.txt")),
        ] {
            let keys: BTreeSet<&str> = Shape::read(contract).keys.into_values().flatten().collect();
            assert!(keys.len() > 15, "{name} has keys");
            let missing: Vec<_> = keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
            assert!(missing.is_empty(), "docs/contracts.md lacks these keys of {name}: {missing:?}");
        }
    }
}
