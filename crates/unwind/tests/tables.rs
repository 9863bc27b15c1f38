//! Tables in real files, whole and damaged: their rules, and no panic for any bytes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use wakepath_unwind::{Base, Module, Rule, SavedBp, Table};

/// Functions with known frames.
const SOURCE: &str = "
    __attribute__((noinline)) int leaf(int n) { __asm__ volatile(\"\"); return n + 1; }
    __attribute__((noinline)) int caller(int n) { int found = leaf(n); __asm__ volatile(\"\"); return found + 2; }
    int main(int argc, char **argv) { return caller(argc) - 4; }
";

/// Functions with table contents that compilers seldom write.
const ODD: &str = r#"
    #define FUNCTION(name, table) \
        ".globl " name "\n.type " name ", @function\n" name ":\n.cfi_startproc\n" table "\nnop\n.cfi_endproc\n"
    __asm__(
        ".text\n"
        FUNCTION("elsewhere", ".cfi_offset rip, -16")
        FUNCTION("outermost", ".cfi_undefined rip")
        FUNCTION("handler", ".cfi_signal_frame")
        FUNCTION("of_rbx", ".cfi_def_cfa rbx, 16")
        FUNCTION("uneven", ".cfi_def_cfa_offset 12")
        FUNCTION("bp_in_rbx", ".cfi_register rbp, rbx")
        FUNCTION("bp_saved", ".cfi_def_cfa_offset 32\n.cfi_offset rbp, -24")
        FUNCTION("ends_in_call", ".cfi_def_cfa_offset 48\ncall abort")
        FUNCTION("behind", ".cfi_def_cfa_offset 96"));
    int main(void) { return 0; }
"#;

fn program(name: &str, options: &[&str]) -> PathBuf {
    program_of(SOURCE, name, options)
}

fn program_of(text: &str, name: &str, options: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&source, text).expect("a writable folder");
    let built = Command::new("cc").args(["-O2", "-o"]).arg(&binary).arg(&source).args(options).status();
    assert!(built.expect("a C compiler").success());
    binary
}

/// A function's address in its file.
fn function(file: &Path, name: &str) -> u64 {
    let data = std::fs::read(file).expect("the program");
    let elf = object::File::parse(&*data).expect("an ELF file");
    elf.symbols().find(|symbol| symbol.name() == Ok(name)).expect("the function").address()
}

#[test]
fn the_rules_of_compiled_functions_are_those_of_their_frames() {
    for (name, options) in
        [("whole", &["-fomit-frame-pointer"][..]), ("unlisted", &["-Wl,--no-eh-frame-hdr"])]
    {
        let path = program(name, options);
        let table = Table::of(&File::open(&path).expect("the program")).expect("a table");
        let entry = Rule::frame(Base::Sp, 1, SavedBp::Unchanged);
        for of in ["leaf", "caller", "main"] {
            assert_eq!(table.rule(function(&path, of)), entry, "{name} {of}");
        }
        assert_eq!(table.rule(0x10), Rule::NoTable, "{name}");
        assert_eq!(table.rule(u64::MAX), Rule::NoTable, "{name}");
        assert_eq!(table.rule(function(&path, "_start")), Rule::Outermost, "{name}");
        assert!(table.bytes() > 100);
    }
    let path = program("pointers", &["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]);
    let table = Table::of(&File::open(&path).expect("the program")).expect("a table");
    let from = function(&path, "caller");
    let with_frame = Rule::frame(Base::Bp, 2, SavedBp::At(2));
    assert!((from..from + 32).any(|address| table.rule(address) == with_frame));
    assert!((from..from + 32).any(|address| table.rule(address) == Rule::frame(Base::Sp, 2, SavedBp::At(2))));
}

#[test]
fn a_table_that_says_something_else_leads_nowhere() {
    let path = program_of(ODD, "odd", &["-no-pie"]);
    let table = Table::of(&File::open(&path).expect("the program")).expect("a table");
    for (name, rule) in [
        ("elsewhere", Rule::Unsupported),
        ("outermost", Rule::Outermost),
        ("handler", Rule::Unsupported),
        ("of_rbx", Rule::Unsupported),
        ("uneven", Rule::Unsupported),
        ("bp_in_rbx", Rule::frame(Base::Sp, 1, SavedBp::Lost)),
        ("bp_saved", Rule::frame(Base::Sp, 4, SavedBp::At(3))),
    ] {
        assert_eq!(table.rule(function(&path, name)), rule, "{name}");
    }
}

#[test]
fn a_call_at_the_end_of_a_function_has_the_rule_of_that_function() {
    let path = program_of(ODD, "ends", &["-no-pie"]);
    let data = std::fs::read(&path).expect("the program");
    let elf = object::File::parse(&*data).expect("an ELF file");
    let text = elf.section_by_name(".text").expect("code");
    let in_file = |address: u64| address - text.address() + text.file_range().expect("in the file").0;
    let module = Module::new(File::open(&path).expect("the program"), false);
    // Behind the call and a nop stands the next function.
    let behind = in_file(function(&path, "behind"));
    let returns = behind - 1;
    assert!(module.place(returns, false).called);
    assert_eq!(module.place(returns, false).rule, Rule::frame(Base::Sp, 6, SavedBp::Unchanged));
    assert_eq!(module.place(behind, false).rule, Rule::frame(Base::Sp, 6, SavedBp::Unchanged));
    assert_eq!(module.place(behind, true).rule, Rule::frame(Base::Sp, 12, SavedBp::Unchanged));
}

/// Functions with these names as Go's linker writes them: with `.debug_frame` alone, and with the Go runtime's table.
fn go_program(name: &str, functions: &[String], runtime_table: &str) -> PathBuf {
    let function = |name: &String| {
        format!(
            ".globl {name}\n.type {name}, @function\n{name}:\n.cfi_startproc\n.cfi_def_cfa_offset 32\n\
             nop\nnop\n.cfi_endproc\n.size {name}, . - {name}\n"
        )
    };
    let functions: String = functions.iter().map(function).collect();
    let text = format!(
        "{runtime_table}\n.cfi_sections .debug_frame\n.text\n.globl _start\n_start:\nnop\n{functions}"
    );
    let lines: String = text.lines().map(|line| format!("\"{line}\\n\"\n")).collect();
    program_of(&format!("__asm__({lines});\n"), name, &["-nostdlib", "-static"])
}

#[test]
fn functions_of_go_that_change_stacks_have_no_rule_under_any_of_their_names() {
    const CHANGE: [&str; 13] = [
        "systemstack",
        "mcall",
        "morestack",
        "asmcgocall",
        "cgocallback",
        "gogo",
        "sigtramp",
        "sigreturn__sigaction",
        "asyncPreempt",
        "goexit",
        "mstart",
        "rt0_go",
        "mstart0",
    ];
    let change = CHANGE.map(|name| format!("runtime.{name}"));
    // Go's linker gives this suffix to functions in assembly (`cmd/internal/obj`: ABI0).
    let change: Vec<String> = change.iter().flat_map(|name| [name.clone(), format!("{name}.abi0")]).collect();
    let others = [
        "main.main",
        "main.mcall",
        "main.mcall.abi0",
        "runtime.mcall2",
        "runtime.mcall.abi1",
        "runtime.mcall.abi0.func1",
        "runtime.gogo.abi0.abi0",
        "runtime.mallocgc.abi0",
        "runtime.mallocgc",
        "mcall",
    ]
    .map(String::from);
    let all = [&change[..], &others].concat();
    let frame = Rule::frame(Base::Sp, 4, SavedBp::Unchanged);
    for (file, runtime_table, of_go) in [
        ("go", ".section .gopclntab,\\\"a\\\"\n.quad 1", true),
        // Another language may have functions with such names.
        ("other_language", "", false),
    ] {
        let path = go_program(file, &all, runtime_table);
        let table = Table::of(&File::open(&path).expect("the program")).expect("a table");
        let rules = |name: &String| [0, 1].map(|behind| table.rule(function(&path, name) + behind));
        for name in &change {
            let rule = if of_go { Rule::NoTable } else { frame };
            assert_eq!(rules(name), [rule; 2], "{name} in {file}");
        }
        for name in &others {
            assert_eq!(rules(name), [frame; 2], "{name} in {file}");
        }
    }
}

#[test]
fn a_table_of_more_bytes_than_any_honest_file_has_is_not_read() {
    let path = program("sparse", &["-fomit-frame-pointer"]);
    let mut bytes = std::fs::read(&path).expect("the program");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let index = elf.section_by_name(".eh_frame").expect("a table").index().0;
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().expect("8 bytes")) as usize;
    let (offset, size) = (headers + index * 64 + 0x18, headers + index * 64 + 0x20);
    let whole = bytes.len() as u64;
    for (claimed, is_read) in [(60_u64 << 20, true), (100 << 20, false), (u64::MAX, false)] {
        bytes[offset..offset + 8].copy_from_slice(&whole.to_le_bytes());
        bytes[size..size + 8].copy_from_slice(&claimed.to_le_bytes());
        std::fs::write(&path, &bytes).expect("a writable folder");
        let file = File::options().write(true).read(true).open(&path).expect("the program");
        // A hole takes no room on the disk.
        file.set_len(whole + (200 << 20)).expect("a sparse file");
        assert_eq!(Table::of(&file).is_some(), is_read, "{claimed:x}");
    }
}

#[test]
fn only_an_address_behind_a_call_is_called() {
    let path = program("called", &["-fomit-frame-pointer"]);
    let module = Module::new(File::open(&path).expect("the program"), false);
    let data = std::fs::read(&path).expect("the program");
    let elf = object::File::parse(&*data).expect("an ELF file");
    let text = elf.section_by_name(".text").expect("code");
    let (file_offset, _) = text.file_range().expect("in the file");
    let from = function(&path, "caller") - text.address() + file_offset;
    // call rel32
    let call = (from..from + 64).find(|&at| data[at as usize] == 0xe8).expect("a call");
    assert!(module.place(call + 5, false).called);
    assert!(!module.place(call + 4, false).called && !module.place(call, false).called);
    assert!(module.place(call, true).called, "where a thread stands, no call needs to be");
    // A return address behind a function's last instruction has its call's rule.
    assert_eq!(module.place(call + 5, false).rule, module.place(call + 4, true).rule);
    for offset in [0, 3, 8, data.len() as u64, u64::MAX] {
        assert!(!module.place(offset, false).called, "{offset}");
    }
    assert!(module.bytes() > data.len() / 100);
}

#[test]
fn no_damage_of_a_file_makes_a_panic() {
    let path = program("damaged", &["-fomit-frame-pointer"]);
    let whole = std::fs::read(&path).expect("the program");
    let addresses = ["leaf", "caller", "main"].map(|name| function(&path, name));
    let broken = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken");
    let elf = object::File::parse(&*whole).expect("an ELF file");
    let ranges: Vec<_> = [".eh_frame", ".eh_frame_hdr"]
        .iter()
        .filter_map(|name| elf.section_by_name(name)?.file_range())
        .chain([
            (0, 64),
            (elf.section_by_name(".shstrtab").map_or(0, |names| names.file_range().unwrap().0), 64),
        ])
        .collect();
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut rules = 0;
    for round in 0..600 {
        let mut bytes = whole.clone();
        let (from, length) = ranges[round % ranges.len()];
        for _ in 0..1 + round % 5 {
            let at = (from + random() % length.max(1)) as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        if round % 7 == 0 {
            bytes.truncate(random() as usize % bytes.len());
        }
        std::fs::write(&broken, &bytes).expect("a writable folder");
        let module = Module::new(File::open(&broken).expect("the file"), false);
        for address in addresses {
            for at in [0, 5, 17] {
                rules +=
                    u32::from(matches!(module.place(address + at, round % 2 == 0).rule, Rule::Frame { .. }));
            }
        }
    }
    assert!(rules > 600, "most damage is elsewhere: {rules}");
}

#[test]
fn a_table_of_any_bytes_is_read() {
    let mut seed = 11_u64;
    for length in 0..400_usize {
        let bytes: Vec<u8> = (0..length * 3)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 40) as u8 & if length % 2 == 0 { 0x0f } else { 0xff }
            })
            .collect();
        // A readable list begins like this; other bytes are no list.
        let listed = [&[0x01, 0x1b, 0x03, 0x3b], &*bytes].concat();
        for list in [None, Some((0x4000, bytes.clone())), Some((0x4000, listed))] {
            let table = Table::from_eh_frame(0x1000, bytes.clone(), list);
            for address in [0, 0x1000, 0x1008, 0x4000, u64::MAX] {
                let _ = table.rule(address);
            }
        }
    }
    assert!(Table::of(&File::open("/dev/null").expect("it")).is_none());
}
