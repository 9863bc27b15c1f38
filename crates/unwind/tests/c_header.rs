//! The rules' bits and hash against `bpf/unwind.h`, as the system's C compiler understands it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use wakepath_unwind::{Base, RULE_SETS, RULE_WAYS, Rule, SavedBp, hash};

#[test]
fn rules_mean_the_same_to_both_sides() {
    let frame = Rule::frame;
    let rules = [
        (frame(Base::Sp, 1, SavedBp::Unchanged), "1 8 0"),
        (frame(Base::Sp, 8191, SavedBp::At(16382)), "1 65528 16382"),
        (frame(Base::Bp, 2, SavedBp::At(2)), "2 16 2"),
        (frame(Base::Bp, 2, SavedBp::Lost), "2 16 16383"),
        (Rule::NoTable, "3 0 0"),
        (Rule::Outermost, "4 0 0"),
        (Rule::Unsupported, "5 0 0"),
        (Rule::NoCode, "6 0 0"),
    ];
    let hashes = [(0, 0, true), (7, 0x1000, false), (u64::MAX, 0x7fff_ffff_f000, true)];
    let mut c = String::from("#include <stdio.h>\n#include \"unwind.h\"\nint main(void) {\n");
    let mut expected = Vec::new();
    for (rule, means) in rules {
        for (library, called) in [(false, true), (true, false)] {
            let bits = rule.bits(library, called);
            let _ = writeln!(
                c,
                "printf(\"%u %llu %u %d %d\\n\", {bits}u & WP_RULE_KIND, wp_rule_bytes({bits}u) + 0ull, \
                 wp_rule_bp({bits}u), !!({bits}u & WP_RULE_LIBRARY), !({bits}u & WP_RULE_NO_CALL));"
            );
            expected.push(format!("{means} {} {}", u8::from(library), u8::from(called)));
        }
    }
    for (space, address, stands) in hashes {
        let number = u8::from(stands);
        let _ = writeln!(
            c,
            "printf(\"%llu\\n\", (unsigned long long)wp_rule_hash({space}ull, {address}ull, {number}));"
        );
        expected.push(hash(space, address, stands).to_string());
    }
    c.push_str("printf(\"%d %d %zu %d\\n\", WP_RULE_SETS, WP_RULE_WAYS, sizeof(struct wp_rule_set), WP_RULE_BP_LOST);\n");
    c.push_str("return 0;\n}\n");
    expected.push(format!("{RULE_SETS} {RULE_WAYS} {} 16383", RULE_WAYS * 8));

    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (here.join("rules.c"), here.join("rules"));
    std::fs::write(&source, c).expect("a writable directory");
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let mut compiler = Command::new("cc");
    let built =
        compiler.args(["-std=c11", "-Wall", "-I"]).arg(bpf).arg("-o").args([&binary, &source]).status();
    assert!(built.expect("a C compiler named cc").success());
    let said = Command::new(&binary).output().expect("the program just compiled").stdout;
    let said: Vec<String> = String::from_utf8(said).expect("text").lines().map(str::to_owned).collect();
    assert_eq!(said, expected);
}
