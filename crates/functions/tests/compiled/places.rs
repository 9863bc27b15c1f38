//! The entry probe's place.

use wakepath_functions::ProbeMethod::{self, Emulated, Optimised, SingleStepped};

use crate::programs::{Programs, bytes_at, find, function, only, refusal};

const NOP5: &str = ".byte 0x0f, 0x1f, 0x44, 0, 0";

/// Assembles a function; returns the distance from its first byte to its probe, and the probe's cost.
fn probed(name: &str, instructions: &str) -> (u64, ProbeMethod) {
    let programs = Programs::new();
    let library = programs.assemble("one.s", &function(name, instructions));
    let function = only(&library, name);
    // The linker puts code at the same place in the file and in memory, up to a constant.
    let start = only(&programs.assemble("plain.s", &self::function(name, "nop\nret")), name);
    (function.probe.offset - start.probe.offset, function.probe.method)
}

#[test]
fn the_probe_stands_on_the_cheapest_instruction_that_each_call_passes_once() {
    for (what, instructions, place) in [
        ("a push is the place", "push %rbp\npop %rbp\nret".to_owned(), (0, Emulated)),
        ("any other is too, at a price", "sub $8, %rsp\nadd $8, %rsp\nret".to_owned(), (0, SingleStepped)),
        ("behind endbr64 it is cheaper", "endbr64\npush %rbp\npop %rbp\nret".to_owned(), (4, Emulated)),
        ("or is not", "endbr64\nsub $8, %rsp\nadd $8, %rsp\nret".to_owned(), (0, SingleStepped)),
        (
            "a loop to behind endbr64 counts twice",
            "endbr64\n1: push %rbp\npop %rbp\ndec %edi\njnz 1b\nret".to_owned(),
            (0, SingleStepped),
        ),
        (
            "a loop to further on does not",
            "endbr64\npush %rbp\n1: dec %edi\njnz 1b\npop %rbp\nret".to_owned(),
            (4, Emulated),
        ),
        (
            "data amid the code may hide a loop",
            "endbr64\npush %rbp\npop %rbp\nret\n.byte 6, 6, 6".to_owned(),
            (0, SingleStepped),
        ),
        ("a nop of 5 bytes at the entry is best", format!("{NOP5}\nret"), (0, Optimised)),
        ("and nowhere else: behind endbr64", format!("endbr64\n{NOP5}\nret"), (0, SingleStepped)),
        ("nor behind a push", format!("push %rbp\n{NOP5}\npop %rbp\nret"), (0, Emulated)),
        ("nops of one byte are not that", "endbr64\nnop\nnop\nnop\nnop\nnop\nret".to_owned(), (4, Emulated)),
    ] {
        assert_eq!(probed("f", &instructions), place, "{what}");
    }
}

#[test]
fn a_nop_of_5_bytes_across_a_page_takes_no_call() {
    let programs = Programs::new();
    let source = format!(".text\n.balign 4096\n.skip 4092, 0xcc\n{}", function("f", &format!("{NOP5}\nret")));
    let library = programs.assemble("across.s", &source);
    assert_eq!(only(&library, "f").probe.method, Emulated);
}

#[test]
fn what_cannot_be_probed_is_refused_with_a_reason() {
    for (what, instructions, says) in [
        ("a loop to the entry", "f: dec %edi\njnz f\nret", "each iteration would count as a call"),
        (
            "the same on a nop of 5 bytes",
            ".byte 0x0f, 0x1f, 0x44, 0, 0\ndec %edi\njnz f\nret",
            "each iteration",
        ),
        ("a lock", "lock incl (%rdi)\nret", "does not allow a probe on its first instruction (f0 ff 07)"),
        ("a trap", "int3\nret", "probe on its first instruction (cc)"),
        ("no code", ".byte 6, 6, 6", "are not an instruction"),
    ] {
        let programs = Programs::new();
        let library = programs.assemble("one.s", &function("f", instructions.trim_start_matches("f: ")));
        let error = refusal(&library, "f");
        assert!(error.starts_with("cannot probe `f` in ") && error.contains(says), "{what}: {error}");
    }
}

#[test]
fn a_place_inside_a_function_is_none() {
    let programs = Programs::new();
    let inner = format!("push %rbp\n.globl inner\n.type inner, @function\ninner: {NOP5}\npop %rbp\nret");
    let library = programs.assemble("inner.s", &function("outer", &inner));
    let error = refusal(&library, "inner");
    assert!(error.contains("a label inside `outer`") && error.ends_with("probe `outer`"), "{error}");
    assert_eq!(only(&library, "outer").probe.method, Emulated);
}

#[test]
fn a_seldom_run_part_is_no_function_of_its_own() {
    let programs = Programs::new();
    let source = function("work", "test %edi, %edi\njz work.cold\nret")
        + &function("work.cold", "push %rax\npop %rax\nret");
    let library = programs.assemble("cold.s", &source);
    assert!(refusal(&library, "work.cold").contains("the cold part of `work`"));
    let names: Vec<_> =
        find(&library, "work*").unwrap().functions.into_iter().flat_map(|f| f.names).collect();
    assert_eq!(names, ["work"]);
}

#[test]
fn a_jump_back_from_a_seldom_run_part_is_a_loop_too() {
    let programs = Programs::new();
    let source = function("work", "endbr64\n.Lhere: push %rax\npop %rax\ntest %edi, %edi\njz work.cold\nret")
        + &function("work.cold", "dec %edi\njmp .Lhere");
    let library = programs.assemble("cold.s", &source);
    assert_eq!(only(&library, "work").probe.method, SingleStepped);
}

#[test]
fn a_symbol_without_a_size_is_found_by_its_exact_name() {
    let programs = Programs::new();
    let source =
        ".text\n.globl plain\nplain: push %rbp\npop %rbp\nret\n".to_owned() + &function("next", "ret");
    let library = programs.assemble("plain.s", &source);
    let function = only(&library, "plain");
    assert_eq!((function.size, function.probe.method), (0, Emulated));
    assert!(refusal(&library, "plai*").contains("no function"));
}

#[test]
fn a_function_that_is_not_in_code_is_refused() {
    let programs = Programs::new();
    let source = ".data\n.globl f\n.type f, @function\nf: ret\n.size f, 1\n";
    let library = programs.assemble("data.s", source);
    let error = refusal(&library, "f");
    assert!(error.contains("is outside the code of the file"), "{error}");
}

#[test]
fn what_compilers_write_at_an_entry_is_understood() {
    let source = "__attribute__((noinline)) int f(int x) { volatile int y = x; return y; } int main(int c, char **v) { return f(c); }";
    for (options, bytes, cost) in [
        (&["-O0", "-fcf-protection=none"][..], [0x55, 0x48], Emulated),
        (&["-O0", "-fcf-protection=full"], [0x55, 0x48], Emulated),
        (&["-O2", "-fcf-protection=none"], [0x89, 0x7c], SingleStepped),
        (&["-O2", "-fcf-protection=full"], [0xf3, 0x0f], SingleStepped),
        (&["-O2", "-fcf-protection=none", "-fpatchable-function-entry=5"], [0x90, 0x90], Emulated),
        (&["-O2", "-fcf-protection=full", "-fpatchable-function-entry=5"], [0x90, 0x90], Emulated),
    ] {
        let programs = Programs::new();
        let app = programs.compile("app.c", source, options);
        let function = only(&app, "f");
        assert_eq!(bytes_at::<2>(&app, function.probe.offset), bytes, "{options:?}");
        assert_eq!(function.probe.method, cost, "{options:?}");
    }
}
