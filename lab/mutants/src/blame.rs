//! Attributes each compiler error to the mutants that can have caused it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::rewrite::{Extent, Piece, Rewritten};

/// The changes after which a build's errors do not come again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// Mutants whose own code is not accepted: they would not build alone either.
    pub not_building: BTreeSet<u32>,
    /// Mutants that a switch cannot express: the code around them is not accepted with them.
    pub no_switch: BTreeSet<u32>,
    /// Functions that have to be `const`.
    pub keep_const: BTreeSet<String>,
    /// Errors without a mutant.
    pub unexplained: Vec<String>,
}

impl Blame {
    /// Adds a compiler message, as its JSON has it; warnings are ignored.
    pub fn add(&mut self, message: &Value, files: &BTreeMap<String, Rewritten>) {
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        // `aborting due to 3 errors` has no place.
        if message["level"] != "error" || spans.is_empty() {
            return;
        }
        let code = message["code"]["code"].as_str().unwrap_or_default();
        let text = message["message"].as_str().unwrap_or_default();
        if code == "E0015"
            && let Some(name) = called(text)
            && files.values().any(|file| file.freed.contains(name))
        {
            self.keep_const.insert(name.to_owned());
            return;
        }
        let mut places: Vec<_> =
            spans.iter().map(|span| (span["is_primary"] != true, Place::of(span))).collect();
        places.sort_by_key(|(is_secondary, _)| *is_secondary);
        let places: Vec<_> = places.into_iter().map(|(_, place)| place).collect();
        let found = places.iter().any(|place| {
            let Some(file) = files.get(place.file) else { return false };
            self.put_down(code, file, place)
        });
        if !found {
            let rendered = message["rendered"].as_str().unwrap_or(text);
            self.unexplained.push(rendered.to_owned());
        }
    }

    fn put_down(&mut self, code: &str, file: &Rewritten, place: &Place) -> bool {
        let smallest = |extents: &[Extent]| {
            let around =
                file.pieces.iter().filter(|piece| extents.contains(&piece.extent) && place.is_in(piece));
            around.min_by_key(|piece| piece.bytes.1 - piece.bytes.0)
        };
        // A `match` without its switched-off arms leaves values without an arm.
        if code == "E0004"
            && let Some(piece) = smallest(&[Extent::Match])
        {
            self.not_building.extend(&piece.mutants);
            return true;
        }
        match smallest(&[Extent::Alternative, Extent::Choice]) {
            Some(piece) if piece.extent == Extent::Alternative => self.not_building.extend(&piece.mutants),
            Some(piece) => self.no_switch.extend(&piece.mutants),
            None => {
                let Some(function) = smallest(&[Extent::Function]) else { return false };
                let inside =
                    |piece: &&Piece| function.bytes.0 <= piece.bytes.0 && piece.bytes.1 <= function.bytes.1;
                let mutants: BTreeSet<u32> = file
                    .pieces
                    .iter()
                    .filter(inside)
                    .flat_map(|piece| piece.mutants.iter().copied())
                    .collect();
                if mutants.is_empty() {
                    return false;
                }
                self.no_switch.extend(mutants);
            }
        }
        true
    }
}

/// The called function in an error about a call during constant evaluation, without its path.
fn called(text: &str) -> Option<&str> {
    let path = text.split('`').nth(1)?;
    Some(path.rsplit("::").next().unwrap_or(path))
}

struct Place<'a> {
    file: &'a str,
    bytes: (usize, usize),
}

impl<'a> Place<'a> {
    /// A span's place; in a macro, the macro call's place.
    fn of(span: &'a Value) -> Self {
        let mut span = span;
        while span["expansion"].is_object() {
            span = &span["expansion"]["span"];
        }
        let byte = |key: &str| span[key].as_u64().unwrap_or_default() as usize;
        Self {
            file: span["file_name"].as_str().unwrap_or_default(),
            bytes: (byte("byte_start"), byte("byte_end")),
        }
    }

    fn is_in(&self, piece: &Piece) -> bool {
        piece.bytes.0 <= self.bytes.0 && self.bytes.1 <= piece.bytes.1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::{Blame, called};
    use crate::rewrite::{Extent, Piece, Rewritten};

    /// A function in bytes 10 to 90, with a choice between mutants 1 and 2 at 20 to 60 and a match with mutant 3 at
    /// 62 to 80.
    fn files() -> BTreeMap<String, Rewritten> {
        let piece = |extent, from, to, mutants: &[u32]| Piece {
            extent,
            bytes: (from, to),
            mutants: mutants.to_vec(),
        };
        let pieces = vec![
            piece(Extent::Function, 10, 90, &[]),
            piece(Extent::Choice, 20, 60, &[1, 2]),
            piece(Extent::Alternative, 25, 30, &[1]),
            piece(Extent::Alternative, 35, 40, &[2]),
            piece(Extent::Match, 62, 80, &[3]),
        ];
        let freed = BTreeSet::from(["tid".to_owned()]);
        let file = Rewritten { text: String::new(), pieces, switched: BTreeSet::new(), freed };
        BTreeMap::from([("a.rs".to_owned(), file)])
    }

    fn blame(code: &str, text: &str, from: usize, to: usize) -> Blame {
        let mut blame = Blame::default();
        let span = json!({"file_name": "a.rs", "is_primary": true, "byte_start": from, "byte_end": to});
        let message = json!({"level": "error", "code": {"code": code}, "message": text, "spans": [span]});
        blame.add(&message, &files());
        blame
    }

    #[test]
    fn an_error_in_the_code_of_a_mutant_is_its_own() {
        let found = blame("E0308", "mismatched types", 36, 39);
        assert_eq!((found.not_building, found.no_switch), (BTreeSet::from([2]), BTreeSet::new()));
    }

    #[test]
    fn an_error_beside_the_alternatives_takes_the_switches_around_it() {
        let found = blame("E0308", "mismatched types", 50, 55);
        assert_eq!((found.not_building, found.no_switch), (BTreeSet::new(), BTreeSet::from([1, 2])));
    }

    #[test]
    fn an_error_elsewhere_in_a_function_takes_all_of_its_switches() {
        assert_eq!(blame("E0382", "use of moved value", 82, 85).no_switch, BTreeSet::from([1, 2, 3]));
    }

    #[test]
    fn a_match_without_an_arm_for_a_value_takes_the_deleted_arms() {
        assert_eq!(blame("E0004", "non-exhaustive patterns", 68, 69).not_building, BTreeSet::from([3]));
    }

    #[test]
    fn a_function_that_is_called_where_the_compiler_evaluates_stays_const() {
        let text = "cannot call non-const associated function `Stamp::<Local>::tid` in constants";
        assert_eq!(blame("E0015", text, 3, 5).keep_const, BTreeSet::from(["tid".to_owned()]));
        assert_eq!(called("cannot call non-const function `f` in statics"), Some("f"));
        assert_eq!(
            blame("E0015", "cannot call non-const method `g` in constants", 3, 5).unexplained.len(),
            1
        );
    }

    #[test]
    fn an_error_outside_of_all_functions_is_not_explained() {
        assert_eq!(blame("E0425", "cannot find value `x`", 3, 5).unexplained, ["cannot find value `x`"]);
    }
}
