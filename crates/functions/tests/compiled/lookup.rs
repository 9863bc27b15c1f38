//! Functions by name.

use std::path::Path;
use std::process::Command;

use wakepath_functions::{FunctionNote, MAX_FOUND, ProbeMethod, Return};

use crate::programs::{Programs, bytes_at, find, function, only, refusal, run};

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
    assert_eq!(function.probe.file, app);
    assert_eq!(function.probe.method, ProbeMethod::Emulated);
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

#[test]
fn a_cpp_function_is_found_mangled_and_as_it_is_written() {
    let programs = Programs::new();
    let source = "
        namespace shop { struct Cart { int add(int n); int add(long n); }; }
        __attribute__((noinline)) int shop::Cart::add(int n) { return n; }
        __attribute__((noinline)) int shop::Cart::add(long n) { return n + 1; }
        template <typename T> __attribute__((noinline)) T twice(T x) { return x + x; }
        int main(int argc, char **) { shop::Cart c; return c.add(argc) + c.add(1L) + twice<int>(argc); }
    ";
    let app = programs.compile("app.cc", source, &["-O0", "-fno-exceptions"]);
    for name in ["_ZN4shop4Cart3addEi", "shop::Cart::add(int)"] {
        assert_eq!(only(&app, name).readable, "shop::Cart::add(int)", "{name}");
    }
    let both: Vec<_> = find(&app, "shop::Cart::add")
        .unwrap()
        .functions
        .into_iter()
        .map(|function| function.readable)
        .collect();
    assert_eq!(both, ["shop::Cart::add(int)", "shop::Cart::add(long)"]);
    assert_eq!(find(&app, "shop::*").unwrap().functions.len(), 2);
    assert_eq!(only(&app, "twice<int>").names, ["_Z5twiceIiET_S0_"]);
    assert!(
        refusal(&app, "Cart::ad").contains("similar: shop::Cart::add(int)"),
        "{}",
        refusal(&app, "Cart::ad")
    );
}

/// Two functions with the same name; the older is kept for old programs.
pub fn versioned(programs: &Programs) -> std::path::PathBuf {
    let source = "
        __asm__(\".symver old, work@V1\\n.symver new, work@@V2\");
        __attribute__((used, noinline)) int old(int x) { __asm__(\"\"); return x; }
        __attribute__((used, noinline)) int new(int x) { __asm__(\"\"); return x + 1; }
    ";
    let map = programs.path("versions");
    std::fs::write(&map, "V1 { global: work; local: *; };\nV2 { global: work; } V1;\n").unwrap();
    let script = format!("-Wl,--version-script={}", map.display());
    programs.compile("libwork.c", source, &["-shared", "-fPIC", "-O1", &script])
}

#[test]
fn a_name_means_all_its_versions_unless_one_is_named() {
    let programs = Programs::new();
    let library = versioned(&programs);
    // Without the table of all symbols too: exported names have tables for their versions.
    for strip in [false, true] {
        if strip {
            run(Command::new("strip").arg(&library));
        }
        let names: Vec<_> = find(&library, "work")
            .unwrap()
            .functions
            .into_iter()
            .map(|function| function.names.into_iter().find(|name| name.starts_with("work")).unwrap())
            .collect();
        assert_eq!(names, ["work@V1", "work"]);
        let old = only(&library, "work@V1");
        let new = only(&library, "work@@V2");
        assert_eq!((&old.names[0], &new.names[0]), (&"work@V1".to_owned(), &"work".to_owned()));
        assert_ne!(old.address, new.address);
    }
}

#[test]
fn a_name_that_is_not_there_is_explained_with_similar_names() {
    let programs = Programs::new();
    let source = "
        #include <stdlib.h>
        int limits[4];
        __attribute__((noinline)) void *handle_get(void) { return malloc(8); }
        int main(void) { limits[0] = 1; return handle_get() == 0; }
    ";
    let app = programs.compile("app.c", source, &["-O1", "-rdynamic"]);
    for (name, parts) in [
        ("handle_gte", &["no function `handle_gte` in ", "app", "similar: handle_get"][..]),
        ("get", &["similar: handle_get"]),
        ("malloc", &["the file calls it", "such as libc:malloc"]),
        ("limits", &["it is data, not code"]),
    ] {
        let error = refusal(&app, name);
        for part in parts {
            assert!(error.contains(part), "{name}: {error}");
        }
        assert!(!error.contains("stripped"), "{error}");
    }
    run(Command::new("strip").arg(&app));
    // Exported names outlive stripping.
    assert_eq!(only(&app, "handle_get").names, ["handle_get"]);
    let error = refusal(&app, "handle_gte");
    assert!(error.contains("is stripped, and only its ") && error.contains("similar: handle_get"), "{error}");
}

#[test]
fn a_file_without_any_name_says_that_it_is_stripped() {
    let programs = Programs::new();
    let app = programs.compile("app.c", HANDLERS, &["-O1", "-s"]);
    let error = refusal(&app, "handle_get");
    assert!(error.contains("is stripped and exports no function: install its debug file"), "{error}");
}

#[test]
fn a_symbol_that_chooses_names_what_it_chooses_from() {
    let programs = Programs::new();
    let source = "
        __attribute__((target_clones(\"avx2\", \"default\"), noinline)) int sum(int *x, int n) {
            int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s;
        }
        int main(void) { int x[2] = {1, 2}; return sum(x, 2); }
    ";
    let app = programs.compile("app.c", source, &["-O2"]);
    let error = refusal(&app, "sum");
    assert!(error.contains("IFUNC") && error.contains("probe the implementations: sum.avx2"), "{error}");
    assert!(error.contains("sum.default") && !error.contains("resolver"), "{error}");
    assert_eq!(only(&app, "sum.avx2").probe.returns, Return::ReturnProbe);
}

#[test]
fn an_exact_name_of_which_one_version_is_refused_is_an_error() {
    let programs = Programs::new();
    let source = "
        __attribute__((used)) int old(int x) { return x; }
        static int fast(int x) { return x; }
        __attribute__((used)) static void *choose(void) { return fast; }
        __asm__(\".globl new\\n.type new, @gnu_indirect_function\\n.set new, choose\\n\"
                \".symver old, work@V1\\n.symver new, work@@V2\");
    ";
    let map = programs.path("versions");
    std::fs::write(&map, "V1 { global: work; local: *; };\nV2 { global: work; } V1;\n").unwrap();
    let script = format!("-Wl,--version-script={}", map.display());
    let library = programs.compile("libwork.c", source, &["-shared", "-fPIC", "-O1", &script]);
    assert!(refusal(&library, "work").contains("IFUNC"), "{}", refusal(&library, "work"));
    let some = find(&library, "wor*").unwrap();
    assert_eq!((some.functions.len(), some.refused.len()), (1, 1), "{some:?}");
    assert_eq!(only(&library, "work@V1").names[0], "work@V1");
}

#[test]
fn a_pattern_that_means_too_many_is_refused() {
    let programs = Programs::new();
    let source: String = (0..=MAX_FOUND).map(|n| function(&format!("f{n}"), "ret")).collect();
    let library = programs.assemble("many.s", &source);
    let error = refusal(&library, "f*");
    assert!(error.contains("matches 1025 functions, more than 1024: narrow the pattern"), "{error}");
    assert_eq!(find(&library, "f1*").unwrap().functions.len(), 136);
    let source: String = (0..MAX_FOUND).map(|n| function(&format!("f{n}"), "ret")).collect();
    let library = programs.assemble("most.s", &source);
    assert_eq!(find(&library, "f*").unwrap().functions.len(), MAX_FOUND);
}

#[test]
fn a_function_called_once_is_noted() {
    let programs = Programs::new();
    let app = programs.compile("app.c", HANDLERS, &["-O1"]);
    assert_eq!(only(&app, "main").notes, [FunctionNote::CalledOnce]);
    assert_eq!(only(&app, "handle_get").notes, []);
}

#[test]
fn copies_that_a_compiler_made_are_found_by_the_name_in_the_source_and_its_rests_by_their_own() {
    let programs = Programs::new();
    let body = "push %rbp\npop %rbp\nret";
    let library = |names: &[&str]| {
        let source: String = names.iter().map(|name| function(name, body)).collect();
        programs.assemble("copies.s", &source)
    };
    let names = |library: &Path, asked: &str| {
        let found = find(library, asked).unwrap().functions;
        found.into_iter().map(|found| found.readable).collect::<Vec<_>>()
    };
    let all = ["work.isra.0", "work.isra.0.cold", "work.constprop.0", "work.part.0", "work.part.0.cold"];
    let renamed = library(&all);
    assert_eq!(names(&renamed, "work"), ["work.isra.0", "work.constprop.0"]);
    assert_eq!(names(&renamed, "work*"), ["work.isra.0", "work.constprop.0", "work.part.0"]);
    assert_eq!(only(&renamed, "work.isra.0").notes, [FunctionNote::Copy]);
    assert_eq!(only(&renamed, "work.part.0").notes, [FunctionNote::PartlyInlined]);
    assert!(refusal(&renamed, "work.isra.0.cold").contains("the cold part of `work.isra.0`"));
    assert!(refusal(&renamed, "work.part.0.cold").contains("the cold part of `work.part.0`"));
    assert_eq!(names(&library(&["work", "work.part.0", "work.cold"]), "work"), ["work"]);
    let rest = refusal(&library(&["work.part.0", "work.part.0.cold", "worker"]), "work");
    for part in
        ["only `work.part.0` is left", "which calls ending in the beginning do not reach", "probe a caller"]
    {
        assert!(rest.contains(part), "{part} is missing in {rest}");
    }
    assert!(!rest.contains("inlined it") && !rest.contains("similar"), "{rest}");
    let cold = refusal(&library(&["work.cold"]), "work");
    assert!(cold.starts_with("no function `work`") && !cold.contains("is left"), "{cold}");
    // The names in C++ and Rust.
    let cpp = library(&["_ZN3svc5serveEi.isra.0", "_ZN3svc5serveEi.isra.0.cold"]);
    for asked in ["svc::serve", "svc::serve(int)", "svc::serve(int).isra.0"] {
        assert_eq!(names(&cpp, asked), ["svc::serve(int).isra.0"], "{asked}");
    }
    assert!(refusal(&cpp, "_ZN3svc5serveEi.isra.0.cold").contains("the cold part of"));
    assert!(refusal(&cpp, "svc::serve(int).isra.0.cold").contains("the cold part of"));
}
