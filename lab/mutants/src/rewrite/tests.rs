//! Each mutant genre on a snippet.

use std::collections::HashSet;

use super::{Rewritten, rewrite, switch_module};
use crate::mutant::{Genre, Mutant};

fn mutant(number: u32, genre: Genre, at: (usize, usize), replacement: &str) -> Mutant {
    let name = format!("a.rs: {number}");
    Mutant { number, name, file: "a.rs".to_owned(), genre, replacement: replacement.to_owned(), at }
}

/// Rewrites a snippet. In its drawing, `^` stands under a mutant's beginning, in the order of `genres`, which also have the
/// replacements.
fn rewritten(drawing: &str, genres: &[(Genre, &[&str])]) -> (String, Rewritten) {
    let (mut source, mut mutants) = (String::new(), Vec::new());
    let mut genres = genres.iter();
    let mut line = 0;
    for text in drawing.lines() {
        if text.trim_start().starts_with('^') {
            for (column, _) in text.char_indices().filter(|(_, c)| *c == '^') {
                let (genre, replacements) = genres.next().unwrap();
                for replacement in *replacements {
                    mutants.push(mutant(mutants.len() as u32 + 1, *genre, (line, column + 1), replacement));
                }
            }
        } else {
            line += 1;
            source.push_str(text);
            source.push('\n');
        }
    }
    let mutants: Vec<_> = mutants.iter().collect();
    let result = rewrite(&source, &mutants, &HashSet::new()).unwrap();
    syn::parse_file(&result.text).unwrap_or_else(|error| panic!("{error}:\n{}", result.text));
    (source, result)
}

fn check(drawing: &str, genres: &[(Genre, &[&str])], expected: &str) {
    let (_, result) = rewritten(drawing, genres);
    let text = result.text.replace("crate::mutant_switch::on", "ON");
    assert_eq!(text.trim_end(), expected);
}

#[test]
fn an_operator_is_chosen_by_its_switch() {
    check(
        "fn f() -> bool { a < b }\n                   ^",
        &[(Genre::BinaryOperator, &["<=", "=="])],
        "fn f() -> bool { (if ON(1) { (a) <= (b) } else if ON(2) { (a) == (b) } else { a < b }) }",
    );
}

#[test]
fn an_assignment_is_a_statement_as_before() {
    check(
        "fn f() { *x += 1; }\n            ^",
        &[(Genre::BinaryOperator, &["-="])],
        "fn f() { (if ON(1) { (*x) -= (1) } else { *x += 1 }); }",
    );
}

#[test]
fn a_cast_in_front_of_an_operator_is_no_generic_argument() {
    check(
        "fn f() -> bool { a as u8 > b }\n                         ^",
        &[(Genre::BinaryOperator, &["<"])],
        "fn f() -> bool { (if ON(1) { (a as u8) < (b) } else { a as u8 > b }) }",
    );
}

#[test]
fn alternatives_of_nested_operators_have_no_switches() {
    check(
        "fn f() -> bool { a && !b || c }\n                   ^  ^  ^",
        &[(Genre::BinaryOperator, &["||"]), (Genre::UnaryOperator, &[""]), (Genre::BinaryOperator, &["&&"])],
        "fn f() -> bool { (if ON(3) { (a && !b) && (c) } else { (if ON(1) { (a) || (!b) } else { a && \
         (if ON(2) { (b) } else { !b }) }) || c }) }",
    );
}

#[test]
fn a_function_returns_at_once() {
    check(
        "fn f() -> bool { g(); true }\n                 ^",
        &[(Genre::FnValue, &["true", "false"])],
        "fn f() -> bool { if ON(1) { return true; }  if ON(2) { return false; }  g(); true }",
    );
}

#[test]
fn a_switch_in_front_of_a_body_is_outside_of_those_in_it() {
    check(
        "fn f() -> bool {a < b}\n                ^\n                  ^",
        &[(Genre::FnValue, &["true"]), (Genre::BinaryOperator, &["=="])],
        "fn f() -> bool { if ON(1) { return true; } (if ON(2) { (a) == (b) } else { a < b })}",
    );
}

#[test]
fn a_function_of_an_opaque_type_returns_nothing_else() {
    let drawing = "fn f() -> impl Fn() { g() }\n                      ^";
    let (source, result) = rewritten(drawing, &[(Genre::FnValue, &["h()"])]);
    assert_eq!((result.text, result.switched.len()), (source, 0));
}

#[test]
fn an_arm_is_switched_off_by_a_guard() {
    check(
        "fn f() { match x { 1 | 2 => a, _ => b } }\n                   ^",
        &[(Genre::MatchArm, &[""])],
        "fn f() { match x { 1 | 2 if !ON(1) => a, _ => b } }",
    );
}

#[test]
fn an_arm_with_a_guard_is_switched_off_and_its_guard_is_chosen() {
    check(
        "fn f() { match x { n if n < 2 => a, _ => b } }\n                   ^    ^ ^",
        &[
            (Genre::MatchArm, &[""]),
            (Genre::MatchArmGuard, &["true", "false"]),
            (Genre::BinaryOperator, &["=="]),
        ],
        "fn f() { match x { n if !ON(1) && ((if ON(2) { true } else if ON(3) { false } else { \
         (if ON(4) { (n) == (2) } else { n < 2 }) })) => a, _ => b } }",
    );
}

#[test]
fn a_field_is_taken_from_the_base() {
    check(
        "fn f() -> S { S { a: 1, b: 2, ..base } }\n                  ^     ^",
        &[(Genre::StructField, &[""]), (Genre::StructField, &[""])],
        "fn f() -> S { (if ON(1) { S {  b: 2, ..base } } else if ON(2) { S { a: 1,  ..base } } else \
         { S { a: 1, b: 2, ..base } }) }",
    );
}

#[test]
fn code_that_the_compiler_evaluates_has_no_switch() {
    let drawing = "const A: u32 = 1 + 2;
                 ^
static B: [u8; 1 + 1] = [0; 1 + 2];
                 ^            ^
fn f() { let [_, _] = [0; 1 + 1]; }
                            ^";
    let operator: (Genre, &[&str]) = (Genre::BinaryOperator, &["-"]);
    let (source, result) = rewritten(drawing, &[operator; 4]);
    assert_eq!((result.text, result.switched.len()), (source, 0));
}

#[test]
fn a_condition_with_a_let_stays() {
    let drawing = "fn f() { if a && let Some(b) = c && b == d {} }
              ^                  ^    ^";
    let operators: [(Genre, &[&str]); 3] = [
        (Genre::BinaryOperator, &["||"]),
        (Genre::BinaryOperator, &["||"]),
        (Genre::BinaryOperator, &["!="]),
    ];
    check(
        drawing,
        &operators,
        "fn f() { if a && let Some(b) = c && (if ON(3) { (b) != (d) } else { b == d }) {} }",
    );
}

#[test]
fn a_const_function_loses_its_const_unless_it_is_needed() {
    let source = "const fn f() -> bool { true }\nconst fn g() -> bool { 1 < 2 }\nconst fn h() {}\n";
    let mutants = [
        mutant(1, Genre::FnValue, (1, 24), "false"),
        mutant(2, Genre::FnValue, (2, 24), "false"),
        mutant(3, Genre::BinaryOperator, (2, 26), "=="),
    ];
    let keep = HashSet::from(["g".to_owned()]);
    let result = rewrite(source, &mutants.iter().collect::<Vec<_>>(), &keep).unwrap();
    assert_eq!(
        result.text.replace("crate::mutant_switch::on", "ON"),
        "/*const*/ fn f() -> bool { if ON(1) { return false; }  true }\n\
         const fn g() -> bool { 1 < 2 }\nconst fn h() {}\n"
    );
    assert_eq!(result.freed.into_iter().collect::<Vec<_>>(), ["f"]);
    assert_eq!(result.switched.into_iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_piece_is_the_code_of_its_mutant() {
    let (_, result) =
        rewritten("fn f() -> bool { a < b }\n                   ^", &[(Genre::BinaryOperator, &["<="])]);
    let codes: Vec<_> =
        result.pieces.iter().map(|piece| &result.text[piece.bytes.0..piece.bytes.1]).collect();
    assert!(codes.contains(&"(a) <= (b)"), "{codes:?}");
    assert!(codes.iter().any(|code| code.starts_with("(if ") && code.ends_with("})")), "{codes:?}");
}

#[test]
fn text_behind_characters_of_several_bytes_is_found() {
    check(
        "fn f() { /* ä€ */ x += 1; }\n                    ^",
        &[(Genre::BinaryOperator, &["-="])],
        "fn f() { /* ä€ */ (if ON(1) { (x) -= (1) } else { x += 1 }); }",
    );
}

#[test]
fn the_switches_are_rust_with_room_for_each_number() {
    let text = switch_module(7);
    syn::parse_file(&text).unwrap();
    assert!(text.contains("[AtomicBool; 8]"), "{text}");
}
