//! The table of layouts against `bpf/records.h`, as the system's C compiler understands it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_kernel_records::layout::{CALL_NONE, CONTEXTS, HEADER, LAYOUTS, MAX_FRAMES};

/// Prints one line for each fact that both sides know: `name value`.
fn program() -> String {
    let mut c = String::from("#include <stdio.h>\n#include <stddef.h>\n#include \"records.h\"\n");
    c.push_str("#define SAY(name, value) printf(\"%s %llu\\n\", name, (unsigned long long)(value))\n");
    c.push_str("int main(void) {\n");
    let structs = LAYOUTS.iter().map(|layout| (layout.name, layout.c_struct, layout.fields));
    for (name, c_struct, fields) in structs.chain([("header", "wp_header", HEADER)]) {
        if c_struct.is_empty() {
            continue;
        }
        let _ = writeln!(c, "SAY(\"{name}\", sizeof(struct {c_struct}));");
        for field in fields {
            let path = field.path;
            let _ = writeln!(c, "SAY(\"{name}.{}\", offsetof(struct {c_struct}, {path}));", field.name);
            let size = format!("sizeof(((struct {c_struct} *)0)->{path})");
            let _ = writeln!(c, "SAY(\"{name}.{}.bytes\", {size});", field.name);
        }
    }
    for layout in LAYOUTS {
        let _ = writeln!(c, "SAY(\"kind {}\", WP_{});", layout.name, layout.name.to_uppercase());
    }
    for (name, _) in CONTEXTS.iter().filter(|(name, _)| !name.starts_with("SOFTIRQ")) {
        let _ = writeln!(c, "SAY(\"context {name}\", WP_CTX_{name});");
    }
    c.push_str("SAY(\"context SOFTIRQ_HI\", WP_CTX_SOFTIRQ);\n");
    c.push_str("SAY(\"context SOFTIRQ_RCU\", WP_CTX_SOFTIRQ_LAST);\n");
    c.push_str("SAY(\"most frames\", WP_MAX_FRAMES);\nSAY(\"no call\", WP_CALL_NONE);\n");
    c.push_str("SAY(\"direction OUT\", WP_OUT);\nSAY(\"direction IN\", WP_IN);\n");
    c.push_str("return 0;\n}\n");
    c
}

/// The same lines, from the table.
fn expected() -> Vec<String> {
    let mut lines = Vec::new();
    let structs = LAYOUTS.iter().map(|layout| (layout.name, layout.c_struct, layout.bytes, layout.fields));
    for (name, c_struct, bytes, fields) in structs.chain([("header", "wp_header", 16, HEADER)]) {
        if c_struct.is_empty() {
            continue;
        }
        lines.push(format!("{name} {bytes}"));
        for field in fields {
            lines.push(format!("{name}.{} {}", field.name, field.offset));
            lines.push(format!("{name}.{}.bytes {}", field.name, field.ty.bytes()));
        }
    }
    for layout in LAYOUTS {
        lines.push(format!("kind {} {}", layout.name, layout.kind.number()));
    }
    let plain = CONTEXTS.iter().filter(|(name, _)| !name.starts_with("SOFTIRQ"));
    let edges = CONTEXTS.iter().filter(|(name, _)| matches!(*name, "SOFTIRQ_HI" | "SOFTIRQ_RCU"));
    lines.extend(plain.chain(edges).map(|(name, number)| format!("context {name} {number}")));
    lines.push(format!("most frames {MAX_FRAMES}"));
    lines.push(format!("no call {CALL_NONE}"));
    lines.push("direction OUT 0".to_owned());
    lines.push("direction IN 1".to_owned());
    lines
}

#[test]
fn the_table_says_what_the_c_compiler_says() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let here = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (here.join("layout.c"), here.join("layout"));
    std::fs::write(&source, program()).expect("a writable directory");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-I"])
        .arg(&bpf)
        .arg("-o")
        .args([&binary, &source])
        .output()
        .expect("a C compiler named cc is needed to check bpf/records.h");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let said = Command::new(&binary).output().expect("the program just compiled");
    let said = String::from_utf8(said.stdout).expect("text");
    assert_eq!(said.lines().collect::<Vec<_>>(), expected());
}

/// A field that C has and the table has not would be a gap in the table, which `layout`'s own test
/// refuses; but one at a struct's end would not: sizes have to agree, and do above.
#[test]
fn every_struct_of_the_header_is_in_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/records.h");
    let text = std::fs::read_to_string(path).expect("bpf/records.h");
    let structs = text.lines().filter_map(|line| line.strip_prefix("struct ")?.strip_suffix(" {"));
    let mut count = 0;
    for name in structs {
        count += 1;
        assert!(name == "wp_header" || LAYOUTS.iter().any(|layout| layout.c_struct == name), "{name}");
    }
    assert!(count > 10, "found only {count} structs");
    let kinds = text.lines().skip_while(|line| *line != "enum wp_kind {").take_while(|line| *line != "};");
    let kinds: Vec<_> = kinds.filter_map(|line| line.trim().strip_prefix("WP_")?.split(' ').next()).collect();
    let table: Vec<_> = LAYOUTS.iter().map(|layout| layout.name.to_uppercase()).collect();
    assert_eq!(kinds, table);
}
