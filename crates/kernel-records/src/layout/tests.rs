//! The layout table has every kind once, without gaps.

use wakepath_event::NameSpace;

use super::*;

#[test]
fn every_kind_has_one_layout_without_gaps() {
    assert!(LAYOUTS.is_sorted_by(|one, next| one.kind < next.kind), "{:?}", Kind::ALL);
    for layout in LAYOUTS {
        let mut at = HEADER_BYTES;
        for field in layout.fields {
            assert_eq!(field.offset, at, "{}.{}", layout.name, field.name);
            at += field.ty.bytes();
        }
        assert_eq!(at, layout.bytes, "{}", layout.name);
        assert_eq!(at % 8, 0, "{}", layout.name);
        for tail in layout.tail {
            let count = layout.field(tail.count).expect("a count");
            assert_eq!(count.ty, Number(4), "{}.{}", layout.name, tail.name);
        }
    }
}

#[test]
fn every_kind_stands_in_some_buffer() {
    for layout in LAYOUTS {
        assert!(layout.buffers().next().is_some(), "{}", layout.name);
    }
}

#[test]
fn a_kind_is_found_by_its_number_and_by_no_other() {
    for number in 0..=255 {
        match Kind::from_number(number) {
            Some(kind) => assert_eq!(kind.number(), number),
            None => assert!(Kind::ALL.iter().all(|kind| kind.number() != number)),
        }
    }
}

/// For a single such name, other readers refuse the whole recording.
#[test]
fn no_name_is_a_keyword_of_the_metadata_language() {
    const KEYWORDS: [&str; 25] = [
        "align",
        "callsite",
        "char",
        "clock",
        "const",
        "double",
        "enum",
        "env",
        "event",
        "float",
        "floating_point",
        "int",
        "integer",
        "long",
        "short",
        "signed",
        "stream",
        "string",
        "struct",
        "trace",
        "typealias",
        "typedef",
        "unsigned",
        "variant",
        "void",
    ];
    let fields = LAYOUTS.iter().flat_map(|layout| layout.fields).chain(HEADER).map(|field| field.name);
    let tails = LAYOUTS.iter().flat_map(|layout| layout.tail).map(|tail| tail.name);
    for name in fields.chain(tails) {
        assert!(!KEYWORDS.contains(&name), "{name}");
    }
}

#[test]
fn a_record_has_the_forms_of_its_kind_and_of_the_values_that_have_names() {
    let mut mark = vec![0; 32];
    mark[8] = Kind::Mark.number();
    let layout = Layout::of(Kind::Mark);
    let field = layout.fields.iter().find(|field| matches!(field.ty, Choice(..))).expect("a field");
    assert_eq!(forms_of(&mark), Ok([("mark", "", "")].into()), "no name has the number 0");
    mark[field.offset] = 3;
    let expected = [("mark", "", ""), ("mark", field.name, "COMMAND")];
    assert_eq!(forms_of(&mark), Ok(expected.into()));
    assert!(expected.iter().all(|form| every_form().contains(form)));
    assert_eq!(every_form().iter().filter(|(_, field, _)| field.is_empty()).count(), LAYOUTS.len());
    assert!(forms_of(&mark[..20]).is_err());
}

#[test]
fn each_name_space_has_a_word_in_the_metadata() {
    let spaces = NameSpace::ALL.map(|space| space as u64);
    assert_eq!(NAME_SPACES.iter().map(|(_, number)| *number).collect::<Vec<_>>(), spaces);
}
