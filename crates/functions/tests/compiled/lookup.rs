//! Functions by name.

use wakepath_functions::{Cost, Return};

use crate::programs::{Programs, bytes_at, find, only};

const HANDLERS: &str = "
    __attribute__((noinline)) int handle_get(int x) { __asm__(\"\"); return x + 1; }
    __attribute__((noinline)) int handle_put(int x) { __asm__(\"\"); return x + 2; }
    __attribute__((noinline)) static int helper(int x) { __asm__(\"\"); return x + 3; }
    int same_as_get(int x) __attribute__((alias(\"handle_get\")));
    int table[4];
    int main(int argc, char **argv) { return handle_get(argc) + handle_put(argc) + helper(argc) + table[0]; }
";

#[test]
fn a_function_is_found_by_name_and_probed_at_its_first_instruction() {
    let programs = Programs::new();
    let app = programs.compile("app.c", HANDLERS, &["-O0", "-fcf-protection=none"]);
    let function = only(&app, "helper");
    assert_eq!(function.names, ["helper"]);
    assert_eq!(function.file, app);
    assert_eq!(function.probe.cost, Cost::Emulated);
    assert_eq!(function.probe.returns, Return::ReturnProbe);
    assert_eq!(
        bytes_at::<4>(&app, function.probe.offset),
        [0x55, 0x48, 0x89, 0xe5],
        "push %rbp; mov %rsp,%rbp"
    );
    assert!(function.size > 8, "{function:?}");
}

#[test]
fn a_pattern_finds_several_and_two_names_of_one_function_are_one() {
    let programs = Programs::new();
    let app = programs.compile("app.c", HANDLERS, &["-O0", "-fcf-protection=none"]);
    let found = find(&app, "handle_*").unwrap();
    let names: Vec<_> = found.functions.iter().map(|function| function.names.clone()).collect();
    assert_eq!(names, [vec!["handle_get", "same_as_get"], vec!["handle_put"]]);
    assert_eq!(only(&app, "same_as_get").names, ["same_as_get", "handle_get"]);
}
