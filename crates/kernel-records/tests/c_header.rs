//! The layout table against `bpf/records.h`, as the system's C compiler understands it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_event::Call;
use wakepath_kernel_records::layout::{CALL_NONE, CONTEXTS, HEADER, LAYOUTS, MAX_FRAMES};

/// Prints a line for each fact known to both sides: `name value`.
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
    c.push_str("SAY(\"most frames\", WP_MAX_FRAMES);\nSAY(\"no call\", WP_CALL_NONE);\nSAY(\"page fault\", WP_CALL_FAULT);\n");
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
    lines.push(format!("page fault {}", Call::PAGE_FAULT));
    lines.push("direction OUT 0".to_owned());
    lines.push("direction IN 1".to_owned());
    lines
}

/// The lines printed by a program that includes `bpf/`'s headers.
fn said(name: &str, program: &str) -> Vec<String> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let here = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (here.join(format!("{name}.c")), here.join(name));
    std::fs::write(&source, program).expect("a writable directory");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-I"])
        .arg(&bpf)
        .arg("-o")
        .args([&binary, &source])
        .output()
        .expect("a C compiler named cc is needed to check the headers of bpf/");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let said = Command::new(&binary).output().expect("the program just compiled");
    let said = String::from_utf8(said.stdout).expect("text");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn the_table_says_what_the_c_compiler_says() {
    assert_eq!(said("layout", &program()), expected());
}

/// A C field missing in the table would be a gap in the table, which `layout`'s own test refuses; a field at
/// a struct's end would not, but the sizes have to agree, and do above.
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

/// The BPF programs name a stack by its hash, and so does the reader; the word on which both must agree is compiled here for the host. The search for
/// a call before an address is compared with known encodings.
#[test]
fn a_stack_is_called_the_same_by_who_records_and_who_reads() {
    use wakepath_event::{Stack, Tid};

    let stacks = [
        Stack { tgid: Tid(0), kernel: [].into(), user: [].into(), scanned: 0, proved: 0 },
        Stack {
            tgid: Tid(7),
            kernel: [0xffff_ffff_8100_0001].into(),
            user: [].into(),
            scanned: 0,
            proved: 0,
        },
        Stack {
            tgid: Tid(7),
            kernel: [].into(),
            user: [0xffff_ffff_8100_0001].into(),
            scanned: 0,
            proved: 0,
        },
        Stack {
            tgid: Tid(u32::MAX),
            kernel: [1; 47].into(),
            user: [u64::MAX; 80].into(),
            scanned: 6,
            proved: 3,
        },
    ];
    // Bytes before an address, the nearest last.
    let calls: [(&[u8], bool); 17] = [
        (&[0xe8, 1, 2, 3, 4], true),
        (&[0xff, 0x15, 1, 2, 3, 4], true),
        (&[0xff, 0xd0], true),
        (&[0x41, 0xff, 0xd3], true),
        (&[0xff, 0x10], true),
        (&[0xff, 0x50, 8], true),
        (&[0xff, 0x93, 1, 2, 3, 4], true),
        (&[0xff, 0x14, 0xc8], true),
        (&[0xff, 0x54, 0xc8, 8], true),
        (&[0xff, 0x94, 0xc8, 1, 2, 3, 4], true),
        (&[0xe9, 1, 2, 3, 4], false),
        (&[0xff, 0x25, 1, 2, 3, 4], false),
        (&[0xff, 0xe0], false),
        (&[0xff, 0x14], false),
        (&[0xff, 0x15], false),
        (&[0x0f, 0x05], false),
        (&[0xc3], false),
    ];
    let mut c = String::from("#include <stdio.h>\n#include \"stack.h\"\nint main(void) {\n");
    c.push_str("static union { struct wp_sample r; __u64 room[4 + WP_MAX_FRAMES]; } s;\n");
    for stack in &stacks {
        let (kernel, user) = (stack.kernel.len(), stack.user.len());
        let _ = writeln!(
            c,
            "s.r.tgid = {}u; s.r.kernel_frames = {kernel}; s.r.user_frames = {user};",
            stack.tgid.0
        );
        let _ = writeln!(c, "s.r.scanned = {}; s.r.proved = {};", stack.scanned, stack.proved);
        let _ = writeln!(c, "s.r.frames_len = {};", kernel + user);
        for (i, frame) in stack.kernel.iter().chain(&stack.user).enumerate() {
            let _ = writeln!(c, "s.r.frames[{i}] = {frame}ull;");
        }
        c.push_str("printf(\"%llu\\n\", (unsigned long long)stack_id(&s.r));\n");
    }
    for (bytes, _) in calls {
        let code =
            bytes.iter().rev().enumerate().fold(0, |code, (i, &b)| code | u64::from(b) << (56 - 8 * i));
        let _ = writeln!(c, "printf(\"%d\\n\", ends_in_call({code}ull));");
    }
    c.push_str("int checks = 0; for (unsigned n = 1; n <= 640; n++) checks += is_checked(n);\n");
    c.push_str("printf(\"%d\\n\", checks);\nreturn 0;\n}\n");
    let mut expected: Vec<String> = stacks.iter().map(|stack| stack.id().0.to_string()).collect();
    expected.extend(calls.iter().map(|&(_, is_call)| u8::from(is_call).to_string()));
    // 1, 2, 4, 8, 16 and 32, and the ten multiples of 64.
    expected.push(String::from("16"));
    assert_eq!(said("stack", &c), expected);
}
