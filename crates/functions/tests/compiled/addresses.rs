//! Functions by their addresses, as answers name them in stripped files.

use std::path::Path;
use std::process::Command;

use wakepath_functions::{Finder, Probe, Return, Target};

use crate::programs::{Programs, find, only, refusal, run};

const SERVES: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static int table[4];
    __attribute__((noinline)) int leaf(int x) { __asm__(\"\"); return x + table[x & 3]; }
    __attribute__((noinline)) static int rare(int x) { return leaf(x) + leaf(x + 1); }
    __attribute__((noinline)) int serve(int x) {
        if (x == 3) { puts(\"rare\"); abort(); }
        return rare(x) * rare(x + 2);
    }
    __attribute__((noinline)) int loops(int x) { int sum = 0; while (x--) sum += leaf(x); return sum; }
    __attribute__((noinline)) int chooses(int x) {
        switch (x) { case 0: return leaf(1); case 1: return rare(5); case 2: return loops(3);
            case 3: return serve(9); case 4: return leaf(77); default: return 0; }
    }
    int main(int argc, char **argv) { return serve(argc) + loops(argc) + chooses(argc); }
";

const NAMES: [&str; 6] = ["leaf", "rare", "serve", "loops", "chooses", "main"];

fn at(file: &Path, address: u64) -> String {
    let name = file.file_name().unwrap().to_string_lossy();
    format!("{name}+{address:#x}")
}

/// The probe for an address, written in each way.
fn by_address(file: &Path, address: u64) -> (Probe, String) {
    let name = at(file, address);
    let mut found = ["", "+"].map(|mark| only(file, &format!("{mark}{address:#x}"))).to_vec();
    found.push(only(file, &name));
    let alone = Target::parse(&format!("{}+{address:#x}", file.display())).unwrap();
    found.extend(Finder::new(&[]).find(&alone).unwrap().functions);
    assert!(found.len() == 4 && found.iter().all(|other| *other == found[0]), "{found:?}");
    (found[0].probe.clone(), found.remove(0).readable)
}

#[test]
fn a_stripped_function_has_the_same_probes_by_its_address_as_by_its_name() {
    let programs = Programs::new();
    for options in
        [&["-O0"][..], &["-O2"], &["-O2", "-fcf-protection", "-fomit-frame-pointer"], &["-O1", "-static"]]
    {
        let app = programs.compile("app.c", SERVES, options);
        let named = NAMES.map(|name| only(&app, name));
        for (name, function) in NAMES.iter().zip(&named) {
            let (probe, readable) = by_address(&app, function.address);
            assert_eq!((&probe, readable.as_str()), (&function.probe, *name), "{options:?}");
        }
        run(Command::new("strip").arg(&app));
        for (name, function) in NAMES.iter().zip(&named) {
            assert!(find(&app, name).is_err(), "{name} is stripped");
            let (probe, readable) = by_address(&app, function.address);
            assert_eq!(
                (probe, readable),
                (function.probe.clone(), at(&app, function.address)),
                "{name} {options:?}"
            );
        }
    }
}

#[test]
fn the_returns_of_stripped_code_through_which_exceptions_pass_are_all_found() {
    let programs = Programs::new();
    let source = "
        #include <stdexcept>
        __attribute__((noinline)) int work(int x) { if (x == 9) throw std::runtime_error(\"nine\"); return x * 3; }
        __attribute__((noinline)) int serve(int x) { if (x < 0) return -1; int y = work(x); return y + work(y); }
        int main(int argc, char **) { try { return serve(argc); } catch (...) { return 1; } }
    ";
    for options in [&["-O2"][..], &["-O2", "-static"], &["-O2", "-static-libstdc++", "-static-libgcc"]] {
        let app = programs.compile("app.cc", source, options);
        let named = ["serve", "main"].map(|name| only(&app, name));
        run(Command::new("strip").arg(&app));
        for function in named {
            let (probe, _) = by_address(&app, function.address);
            assert!(matches!(probe.returns, Return::AtInstructions(_)), "{options:?}");
            assert_eq!(probe, function.probe, "{} {options:?}", function.readable);
        }
    }
    // C has such places for the end of a thread alone; its functions keep their cheaper probes.
    let source = "
        extern int usleep(unsigned);
        static volatile int ended;
        static void end(int *x) { ended = *x; }
        __attribute__((noinline)) int serve(int n) {
            int x __attribute__((cleanup(end))) = n;
            return usleep(n) + usleep(n + 1);
        }
        int main(int argc, char **argv) { return serve(argc); }
    ";
    let app = programs.compile("cleans.c", source, &["-O2", "-fexceptions"]);
    let serve = only(&app, "serve");
    run(Command::new("strip").arg(&app));
    assert_eq!(by_address(&app, serve.address).0.returns, Return::ReturnProbe);
    let malloc = Finder::new(&[]).find(&Target::parse("libc:malloc").unwrap()).unwrap().functions.remove(0);
    assert_eq!(malloc.probe.returns, Return::ReturnProbe);
}

#[test]
fn an_address_that_begins_no_function_is_refused_with_the_beginning() {
    let programs = Programs::new();
    let app = programs.compile("app.c", SERVES, &["-O2"]);
    let serve = only(&app, "serve");
    for (inside, stripped) in [(1, false), (1, true), (serve.size - 1, true)] {
        if stripped {
            run(Command::new("strip").arg(&app));
        }
        let outer = if stripped { at(&app, serve.address) } else { String::from("serve") };
        let address = serve.address + inside;
        let error = refusal(&app, &at(&app, address));
        let says = format!("the address is in `{outer}`, which begins at {:#x}", serve.address);
        assert!(error.contains(&says) && error.contains(&at(&app, address)), "{error}");
    }
    let error = refusal(&app, "0x10");
    assert!(error.contains("outside the code"), "{error}");
    let error = refusal(&app, "0xffffffffffffffff");
    assert!(error.contains("outside the code"), "{error}");
    // Another file's name, and an offset in a function: names that are not there.
    for name in ["other+0x1000", "serve+0x1"] {
        assert!(refusal(&app, name).starts_with(&format!("no function `{name}`")));
    }
}

#[test]
fn what_the_table_for_unwinding_leaves_open_is_refused() {
    let programs = Programs::new();
    let source = "
        .text
        .cfi_startproc
        push %rbp
        .cfi_def_cfa_offset 16
        pop %rbp
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .cfi_startproc
        .cfi_def_cfa_offset 16
        pop %rbp
        ret
        .cfi_endproc
        push %rbp
        pop %rbp
        ret
    ";
    let library = programs.assemble("bare.s", source);
    let text = {
        // The only code begins at a page.
        let begins =
            (0..0x4000).step_by(0x1000).find(|address| find(&library, &format!("{address:#x}")).is_ok());
        begins.expect("its first function")
    };
    assert_eq!(only(&library, &format!("{text:#x}")).size, 3);
    let error = refusal(&library, &format!("{:#x}", text + 3));
    assert!(error.contains("a function jumps to this part and never calls it"), "{error}");
    let error = refusal(&library, &format!("{:#x}", text + 5));
    assert!(error.contains("nothing in the file shows a function's beginning there"), "{error}");
    let error = refusal(&library, &format!("{:#x}", text + 4));
    assert!(error.contains(&format!("is in `{}`", at(&library, text + 3))), "{error}");
}
