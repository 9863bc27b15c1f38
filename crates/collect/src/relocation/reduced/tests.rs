//! Made-up files with types, drawn as lines.

use std::fs;

use libbpf_rs::btf::Btf;

use super::*;
use crate::libbpf::silence;
use crate::relocation::types;

/// The kinds' words, by their numbers.
const KINDS: [&str; 20] = [
    "",
    "int",
    "pointer",
    "array",
    "struct",
    "union",
    "enum",
    "forward",
    "typedef",
    "volatile",
    "const",
    "restrict",
    "function",
    "prototype",
    "variable",
    "section",
    "float",
    "tag",
    "type-tag",
    "enum64",
];
/// The kinds whose entries have names.
const NAMED: [&str; 5] = ["struct", "union", "enum", "prototype", "enum64"];

/// A file from a line for each type, as `struct rq 64 = cpu:1:0 curr:2:8`: its kind, its name or `-`, its size or another
/// type's number, and its entries' words, of which the first may be a name. `.` is a gap.
pub(in crate::relocation) fn written(lines: &str, names_below: usize) -> Vec<u8> {
    let (mut types, mut names) = (Vec::new(), if names_below == 0 { vec![0] } else { Vec::new() });
    let mut place = |name: &str| {
        if let Some(below) = name.strip_prefix('+') {
            return below.parse().expect("a place");
        }
        let place = (names_below + names.len()) as u32;
        names.extend(name.bytes().chain([0]));
        if name == "-" { 0 } else { place }
    };
    for line in lines.lines().map(str::trim) {
        let line = if line == "." { "forward - 0" } else { line };
        let (head, entries) = line.split_once(" = ").unwrap_or((line, ""));
        let [kind, name, third] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let number = KINDS.iter().position(|it| *it == kind).expect("a kind") as u32;
        let entries: Vec<_> = entries.split_whitespace().collect();
        let counted =
            if ["int", "array", "variable", "tag"].contains(&kind) { 0 } else { entries.len() as u32 };
        let mut words = vec![place(name), number << 24 | counted, third.parse().expect("a number")];
        for (index, word) in entries.iter().flat_map(|entry| entry.split(':').enumerate()) {
            let is_name = index == 0 && NAMED.contains(&kind);
            words.push(if is_name { place(word) } else { word.parse().expect("a number") });
        }
        types.extend(words.into_iter().flat_map(u32::to_ne_bytes));
    }
    let header = types::header(types.len() as u32, names.len() as u32);
    header.into_iter().chain(types).chain(names).collect()
}

/// A file's lines.
fn drawn(file: &[u8]) -> String {
    let types = Types::read(file, None).expect("a readable file");
    let name = |at| match String::from_utf8_lossy(types.name(at).expect("a name")) {
        name if name.is_empty() => "-".to_owned(),
        name => name.into_owned(),
    };
    let line = |found: Type<'_>| {
        let kind = KINDS[usize::from(found.kind())];
        let mut line = format!("{kind} {} {}", name(found.name()), found.word(8));
        let words = found.bytes().len() / 4 - 3;
        let entry = match kind {
            "int" | "variable" | "tag" => 1,
            "enum" | "prototype" => 2,
            _ => 3,
        };
        for at in 0..words {
            let word = found.word(12 + at * 4);
            let is_name = at % entry == 0 && NAMED.contains(&kind);
            let before = if at == 0 {
                " = "
            } else if at % entry == 0 {
                " "
            } else {
                ":"
            };
            line += &format!("{before}{}", if is_name { name(word) } else { word.to_string() });
        }
        if line == "forward - 0" { ".".to_owned() } else { line }
    };
    types.own().map(|(_, found)| line(found)).collect::<Vec<_>>().join("\n")
}

/// The reduced file's lines, and behind them the missing names.
fn reduced(lines: &str, names: &[&str]) -> Option<String> {
    let file = written(lines, 0);
    let types = Types::read(&file, None).expect("a readable file");
    let reduced = reduce(&types, names)?;
    let missing = reduced.missing.iter().map(|name| format!("\nmissing {name}"));
    Some(drawn(&reduced.file) + &missing.collect::<String>())
}

#[track_caller]
fn check(names: &[&str], lines: &str, expected: &str) {
    let trimmed: Vec<_> = expected.lines().map(str::trim).collect();
    assert_eq!(reduced(lines, names).expect("a reduced file"), trimmed.join("\n"));
}

#[test]
fn a_type_is_kept_with_all_that_it_contains_and_its_number() {
    check(
        &["rq"],
        "int long 8 = 64
         struct other 8 = a:1:0
         struct entity 16 = weight:1:0 next:5:64
         array - 0 = 3:13:4
         pointer - 2
         const - 8
         union - 8 = a:1:0 b:5:0
         typedef number 9
         volatile - 10
         type-tag rcu 11
         restrict - 7
         struct rq 99 = entities:4:0 number:6:512 -:7:576
         int index 4 = 32
         struct behind 8 = a:1:0",
        "int long 8 = 64
         .
         struct entity 16 = weight:1:0 next:5:64
         array - 0 = 3:13:4
         pointer - 0
         const - 8
         union - 8 = a:1:0 b:5:0
         typedef number 9
         volatile - 10
         type-tag rcu 11
         restrict - 7
         struct rq 99 = entities:4:0 number:6:512 -:7:576
         int index 4 = 32",
    );
}

#[test]
fn all_types_with_a_name_are_kept_whatever_their_versions() {
    check(
        &["lock___flat", "way"],
        "struct lock 4
         struct lock___old 8
         struct lock___ 12
         struct lock__old 16
         struct locked 20
         union way 24
         enum way___new 4 = up:1 down:2
         enum64 way 8 = far:1:2
         union lock 28",
        "struct lock 4
         struct lock___old 8
         .
         .
         .
         union way 24
         enum way___new 4 = up:1 down:2
         enum64 way 8 = far:1:2
         union lock 28",
    );
}

#[test]
fn only_the_last_suffix_is_cut_off_as_libbpf_does() {
    for (name, expected) in [
        ("lock", "lock"),
        ("lock___old", "lock"),
        ("lock___old___two", "lock___old"),
        ("lock____old", "lock____old"),
        ("lock___", "lock___"),
        ("___old", "___old"),
        ("a___b", "a"),
        ("", ""),
    ] {
        assert_eq!(stem(name.as_bytes()), expected.as_bytes(), "{name}");
    }
}

#[test]
fn a_name_that_only_other_kinds_have_is_missing() {
    check(
        &["task", "here"],
        "forward task 0
         typedef task 4
         int task 4 = 32
         struct here 4
         function task 6
         prototype - 3 = task:3
         variable task 3 = 0
         float task 8",
        ".
         .
         .
         struct here 4
         missing task",
    );
    check(&["task"], "struct - 4", "\nmissing task");
}

#[test]
fn a_contained_declaration_stays() {
    check(
        &["a"],
        "forward b 0\ntypedef c 1\nstruct a 4 = x:2:0",
        "forward b 0\ntypedef c 1\nstruct a 4 = x:2:0",
    );
}

#[test]
fn what_no_relocation_follows_makes_the_file_unfit() {
    for contained in [
        "function f 1",
        "prototype - 0",
        "variable v 0 = 0",
        "section .data 0",
        "tag t 0 = 0",
        "struct b 0 = c:9:0",
    ] {
        assert_eq!(reduced(&format!("{contained}\nstruct a 4 = x:1:0"), &["a"]), None, "{contained}");
        assert!(reduced(&format!("{contained}\nstruct a 4"), &["a"]).is_some(), "{contained}");
    }
}

#[test]
fn types_that_contain_each_other_come_to_an_end() {
    let lines = "struct a 4 = b:2:0\nstruct b 4 = a:1:0";
    check(&["a"], lines, lines);
}

/// A file with all kinds.
fn with_all_kinds() -> Vec<u8> {
    written(
        "int long 8 = 64
         struct rq 99 = cpu:1:0 curr:3:64
         pointer - 2
         enum e 4 = a:1
         enum64 e 8 = b:1:2
         prototype - 1 = p:1
         function f 6
         variable v 1 = 0
         section .data 4 = 8:0:4
         tag t 2 = 0
         array - 0 = 2:1:4
         union rq 8 = e:4:0 all:11:0",
        0,
    )
}

#[test]
fn a_cut_file_is_unreadable() {
    let file = with_all_kinds();
    assert!(Types::read(&file, None).is_some());
    for length in 0..file.len() {
        assert!(Types::read(&file[..length], None).is_none(), "{length} bytes");
    }
    let length = u32::from_ne_bytes(*file[12..].first_chunk().expect("a word"));
    for (at, word) in [(0, 0), (4, 23), (4, u32::MAX), (12, length - 4), (12, length + 4), (20, u32::MAX)] {
        let mut other = file.clone();
        other[at..][..4].copy_from_slice(&word.to_ne_bytes());
        assert!(Types::read(&other, None).is_none(), "{word} at byte {at}");
    }
    let mut short_header = written("", 0);
    assert!(Types::read(&short_header, None).is_some());
    short_header[4] = 20;
    assert!(Types::read(&short_header, None).is_none(), "a header without the last length");
    let mut later = file;
    later[2] = 2;
    assert!(Types::read(&later, None).is_none(), "another version");
}

#[test]
fn no_byte_of_a_file_makes_it_panic() {
    let file = with_all_kinds();
    let mut readable = 0;
    for at in 0..file.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut other = file.clone();
            other[at] = value;
            let types = Types::read(&other, None);
            let reduced = types.as_ref().and_then(|types| reduce(types, &["rq", "e"]));
            if let Some(reduced) = reduced {
                let again = Types::read(&reduced.file, None).expect("what was written can be read");
                assert!(again.end() <= types.expect("was there").end());
                readable += 1;
            }
        }
    }
    assert!(readable > file.len(), "{readable}");
}

#[test]
fn libbpf_reads_a_reduced_file() {
    let file = with_all_kinds();
    let types = Types::read(&file, None).expect("a readable file");
    let reduced = reduce(&types, &["rq", "e"]).expect("a reduced file");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("types");
    fs::write(&path, &reduced.file).expect("a file");
    silence();
    assert_eq!(Btf::from_path(&path).expect("libbpf's types").len(), 13);
}
