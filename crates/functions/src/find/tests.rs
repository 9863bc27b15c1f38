//! Searches in small files that lack something, or hold rare things.

use object::elf;

use crate::error::{AbsenceReason, FindError, RefusalReason};
use crate::function::{FunctionNote, Return, Runtime};
use crate::instruction::ProbeMethod::{Emulated, SingleStepped};
use crate::testing::{CODE, Elf, Section, go_table};

const FUNC: u8 = elf::STT_FUNC;

/// `push %rbp`, `pop %rbp`, `ret`.
const PLAIN: [u8; 3] = [0x55, 0x5d, 0xc3];
/// `call *%rax`, `ret`.
const CALLS: [u8; 3] = [0xff, 0xd0, 0xc3];
/// `call *%rax`, `jmp *%rax`.
const LEAVES: [u8; 4] = [0xff, 0xd0, 0xff, 0xe0];

#[test]
fn a_function_without_a_size_reaches_to_the_next_one_or_to_the_end_of_the_code() {
    // endbr64, push, pop, ret, nop; endbr64, 1: push, pop, jnz 1b, jmp to behind the first endbr64.
    let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0xc3, 0x90];
    let looping = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0x75, 0xfc, 0xeb, 0xf2];
    let elf = Elf::default()
        .code(CODE, &[&code[..], &looping].concat())
        .function("first", CODE, 0)
        .function("last", CODE + 8, 0)
        // Another file's function, called by a place here, and data: neither is a function in this file.
        .imported("puts", FUNC, CODE + 13)
        .symbol("table", elf::STT_OBJECT, CODE + 12, 0);
    let made = elf.write();
    let found = |name| {
        let function = made.only(name);
        assert_eq!(function.size, 0);
        (function.address, function.probe.offset - elf.offset(function.address), function.probe.method)
    };
    assert_eq!(found("first"), (CODE, 4, Emulated), "the jump to behind its endbr64 is of the other one");
    assert_eq!(found("last"), (CODE + 8, 0, SingleStepped), "its own loop");
}

#[test]
fn a_function_that_states_more_than_the_code_holds_may_hide_a_loop() {
    let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0xc3];
    let elf = Elf::default().code(CODE, &code);
    for (size, place) in [(7, (4, Emulated)), (8, (0, SingleStepped)), (u64::MAX, (0, SingleStepped))] {
        let found = elf.clone().function("f", CODE, size).write().only("f");
        assert_eq!((found.probe.offset - elf.offset(CODE), found.probe.method), place, "{size}");
    }
}

#[test]
fn a_place_is_inside_of_the_nearest_function_before_it_that_reaches_beyond_it() {
    let made = Elf::default()
        .code(CODE, &PLAIN.repeat(4))
        .function("outer", CODE, 6)
        .function("inner", CODE + 3, 2)
        .function("next", CODE + 6, 3)
        .symbol("label", elf::STT_NOTYPE, CODE + 7, 0)
        .write();
    assert!(made.refusal("inner").contains("a label inside `outer`"));
    assert!(made.refusal("label").contains("a label inside `next`"));
    assert_eq!(made.only("next").address, CODE + 6);
    assert_eq!(made.only("outer").probe.method, Emulated);
}

#[test]
fn a_label_is_a_function_where_it_stands_in_code_and_is_named_exactly() {
    let elf = Elf::default().code(CODE, &PLAIN).symbol("label", elf::STT_NOTYPE, CODE, 0);
    let made = elf.symbol("number", elf::STT_NOTYPE, 42, 0).write();
    assert_eq!(made.only("label").names, ["label"]);
    for absent in ["number", "lab*", "*"] {
        assert!(made.refusal(absent).starts_with(&format!("no function `{absent}` in ")), "{absent}");
    }
}

#[test]
fn each_name_of_a_function_is_listed_once_first_those_that_were_asked_for() {
    let made = Elf::default()
        .code(CODE, &PLAIN.repeat(2))
        .function("open", CODE, 3)
        .function("open64", CODE, 3)
        .function("open@@V2", CODE, 3)
        .function("", CODE, 3)
        .function("other", CODE + 3, 3)
        .imported("ope", FUNC, CODE)
        .symbol("opener", elf::STT_OBJECT, CODE, 3)
        .write();
    assert_eq!(made.only("open").names, ["open", "open64"]);
    assert_eq!(made.only("open64").names, ["open64", "open"]);
    let all: Vec<_> = made.find("*").unwrap().functions.into_iter().map(|found| found.names).collect();
    assert_eq!(all, [vec!["open", "open64"], vec!["other"]]);
    assert!(made.refusal("opener").contains("it is data, not code"));
    assert!(made.refusal("ope").contains("the file calls it from a library"));
}

#[test]
fn a_pattern_without_a_version_is_held_against_names_alone() {
    let made = Elf::default().code(CODE, &PLAIN).function("work@@V2", CODE, 3).write();
    assert_eq!(made.only("work@@V2").names, ["work"]);
    assert_eq!(made.only("w*@@V2").names, ["work"]);
    assert_eq!(made.only("wor*").names, ["work"]);
    assert!(made.refusal("*V2").starts_with("no function `*V2`"));
    assert!(made.refusal("work@@V1").starts_with("no function"));
}

#[test]
fn a_pattern_of_which_nothing_can_be_probed_is_an_error() {
    // `lock incl (%rdi)`, `ret`.
    let code = [&[0xf0, 0xff, 0x07, 0xc3][..], &PLAIN].concat();
    let elf = Elf::default().code(CODE, &code).function("fetch", CODE, 4);
    assert!(elf.clone().write().refusal("f*").contains("does not allow a probe on its first instruction"));
    let found = elf.function("find", CODE + 4, 3).write().find("f*").unwrap();
    let refused: Vec<_> = found.refused.iter().map(|refusal| refusal.name.as_str()).collect();
    assert_eq!((found.functions.len(), refused), (1, vec!["fetch"]));
}

#[test]
fn the_implementations_of_a_chooser_are_functions_that_are_named_after_it() {
    let names = [
        ("__copy_avx_unaligned", FUNC),
        ("__copy_sse2", FUNC),
        ("copy.avx2", FUNC),
        ("copy.resolver", FUNC),
        ("copy_all", FUNC),
        ("__copying", FUNC),
        ("__copy_chk", FUNC),
        ("__copy_chk_avx", FUNC),
        ("__copy_data", elf::STT_OBJECT),
        ("_copy_sse", FUNC),
        ("recopy.avx2", FUNC),
    ];
    let elf = Elf::default().code(CODE, &PLAIN).symbol("copy", elf::STT_GNU_IFUNC, CODE, 3);
    let elf = names.iter().fold(elf, |elf, &(name, kind)| elf.symbol(name, kind, CODE, 3));
    let made = elf.function("copy.avx2", CODE, 3).imported("__copy_erms", FUNC, 0).write();
    match made.find("copy") {
        Err(FindError::Refused(refusal)) => match refusal.why {
            RefusalReason::Ifunc { implementations } => {
                assert_eq!(implementations, ["__copy_avx_unaligned", "__copy_sse2", "copy.avx2"]);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Why a function is not found, and similar names.
fn absence(elf: &Elf, name: &str) -> (AbsenceReason, Vec<String>) {
    match elf.write().find(name) {
        Err(FindError::NotFound(absent)) => (absent.why, absent.similar),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stripped_file_has_the_names_of_what_it_exports() {
    let elf = Elf::default()
        .code(CODE, &PLAIN)
        .function("work", CODE, 3)
        .symbol("fast", elf::STT_GNU_IFUNC, CODE, 3)
        .function("", CODE, 3)
        .symbol("works", elf::STT_OBJECT, 0, 8)
        .imported("puts", FUNC, 0)
        .exported();
    assert_eq!(absence(&elf, "wokr"), (AbsenceReason::Stripped { exported: 2 }, vec!["work".to_owned()]));
    assert_eq!(absence(&elf, "putz"), (AbsenceReason::Stripped { exported: 2 }, vec![]));
    assert_eq!(absence(&elf, "puts").0, AbsenceReason::Imported);
    assert_eq!(absence(&elf, "works").0, AbsenceReason::Data);
    let whole = elf.function("helper", CODE, 3);
    assert_eq!(absence(&whole, "helped"), (AbsenceReason::NoDebug, vec!["helper".to_owned()]));
    let debugged = whole.section(Section::new(".debug_info", &[0; 4]));
    assert_eq!(absence(&debugged, "helped"), (AbsenceReason::Plain, vec!["helper".to_owned()]));
    assert_eq!(absence(&Elf::default(), "work"), (AbsenceReason::Stripped { exported: 0 }, vec![]));
}

#[test]
fn a_table_of_names_that_contradicts_itself_is_left_out_and_said_to_be() {
    let section = |name, kind| Section { kind, ..Section::new(name, &[0; 48]) };
    let (all, exported) = (section(".symtab", elf::SHT_SYMTAB), section(".dynsym", elf::SHT_DYNSYM));
    let longer = |section: &Section| Section { stated: Some(1 << 40), ..section.clone() };
    // Neither has the place of its names.
    for (sections, table) in [
        (vec![longer(&all)], Some(".symtab")),
        (vec![longer(&exported)], Some(".dynsym")),
        (vec![longer(&exported), longer(&all)], Some(".symtab")),
        (vec![all.clone()], Some(".symtab")),
        (vec![exported], Some(".dynsym")),
        (vec![Section { bytes: Vec::new(), ..all.clone() }], None),
    ] {
        let made = sections.iter().cloned().fold(Elf::default(), Elf::section).write();
        let text = made.refusal("work");
        let says = match table {
            Some(table) => {
                let file = made.path.display();
                format!(
                    ": {file} is damaged: its table of names, {table}, contradicts itself and was left out"
                )
            }
            None => ": the file is stripped and exports no function".to_owned(),
        };
        assert!(text.contains(&says), "{sections:?}: {text}");
    }
    let made = Elf::default().build(b"this").debug_link("app.debug", 0).write();
    let debug = made.path.with_file_name("app.debug");
    std::fs::write(&debug, Elf::default().build(b"this").section(longer(&all)).bytes()).unwrap();
    let text = made.refusal("work");
    assert!(
        text.contains(&format!(": {} is damaged: its table of names, .symtab", debug.display())),
        "{text}"
    );
}

#[test]
fn the_obstacle_to_seeing_returns_is_named_with_what_would_break() {
    let throws = |elf: Elf| elf.imported("__cxa_throw", FUNC, 0);
    let switches = |elf: Elf| elf.imported("swapcontext", FUNC, 0);
    let of = |code: &[u8], size| Elf::default().code(CODE, code).function("f", CODE, size);
    let exception = "would crash the program if an exception passes it";
    let switch = "would crash the program if the stack is switched within it";
    for (elf, breaks, why) in [
        (throws(of(&LEAVES, 4)), exception, "a jump to a computed address"),
        (switches(of(&LEAVES, 4)), switch, "a jump to a computed address"),
        (switches(throws(of(&LEAVES, 4))), switch, "a jump to a computed address"),
        (throws(of(&CALLS, 0)), exception, "its symbol does not state its size"),
        (switches(of(&CALLS, 0)), switch, "its symbol does not state its size"),
    ] {
        let text = elf.write().refusal("f");
        assert!(text.contains(breaks) && text.contains(why), "{text}");
    }
    for (elf, notes) in [
        (throws(of(&CALLS, 3)), vec![FunctionNote::ExceptionsPass]),
        (switches(of(&CALLS, 3)), vec![FunctionNote::StacksSwitch]),
        (switches(throws(of(&CALLS, 3))), vec![FunctionNote::StacksSwitch, FunctionNote::ExceptionsPass]),
    ] {
        let found = elf.write().only("f");
        assert_eq!(found.probe.returns, Return::AtInstructions(vec![elf.offset(CODE + 2)]));
        assert_eq!(found.notes, notes);
    }
    // Nothing comes between the entry and the return, or nothing may.
    for elf in [throws(of(&PLAIN, 3)), switches(of(&PLAIN, 3)), of(&CALLS, 3), of(&CALLS, 0), of(&LEAVES, 4)]
    {
        let found = elf.write().only("f");
        assert_eq!((found.probe.returns, found.notes), (Return::ReturnProbe, vec![]));
    }
}

#[test]
fn a_program_that_switches_stacks_says_so_of_each_of_its_functions_but_gos() {
    let elf = Elf::default().code(CODE, &PLAIN).function("f", CODE, 3).imported("swapcontext", FUNC, 0);
    assert!(elf.clone().write().only("f").probe.switches);
    let go = elf.section(Section::new(".go.buildinfo", &[0; 8])).write().only("f");
    assert_eq!((go.probe.runtime, go.probe.switches), (Runtime::Go, false));
}

#[test]
fn the_returns_of_a_go_function_are_at_its_instructions_whatever_c_code_may_throw() {
    let elf = Elf::default().code(CODE, &CALLS).function("main.f", CODE, 3).imported("__cxa_throw", FUNC, 0);
    let found = elf.clone().section(Section::new(".go.buildinfo", &[0; 8])).write().only("main.f");
    assert_eq!(found.probe.returns, Return::AtInstructions(vec![elf.offset(CODE + 2)]));
    assert_eq!((found.probe.runtime, found.notes), (Runtime::Go, vec![]));
}

#[test]
fn only_a_file_of_gos_linker_has_go_functions() {
    let labels = |elf: Elf| {
        let elf = elf.symbol("runtime.text", elf::STT_NOTYPE, CODE, 0);
        elf.symbol("runtime.etext", elf::STT_NOTYPE, CODE + 3, 0)
    };
    let elf = Elf::default().code(CODE, &PLAIN.repeat(2));
    let elf = elf.function("main.f", CODE, 3).function("puts", CODE + 3, 3);
    let go = |elf: &Elf| elf.clone().section(Section::new(".go.buildinfo", &[0; 8]));
    for (elf, f, puts) in [
        (labels(elf.clone()), Runtime::Native, Runtime::Native),
        (go(&labels(elf.clone())), Runtime::Go, Runtime::Native),
        // Without a statement on Go's code, all may be Go's.
        (go(&elf), Runtime::Go, Runtime::Go),
    ] {
        let made = elf.write();
        assert_eq!((made.only("main.f").probe.runtime, made.only("puts").probe.runtime), (f, puts));
    }
}

/// `cmp 0x10(%r14),%rsp`, `ret`, and padding: 8 bytes.
const CHECKED: [u8; 8] = [0x49, 0x3b, 0x66, 0x10, 0xc3, 0x90, 0x90, 0x90];

/// A file without the linker's names, with three Go functions, 8, 16 and 8 bytes long, and a C function behind them.
fn stripped_go(table: &'static str, text: u64) -> Elf {
    let code = [&CHECKED[..], &CHECKED, &[0x90; 8], &CHECKED, &PLAIN].concat();
    let names = go_table(text, &[(0, "main.f"), (8, "main.g"), (24, "main.h")], 32);
    Elf::default()
        .code(CODE, &code)
        .function("puts", CODE + 32, 3)
        .exported()
        .section(Section::new(table, &names))
}

#[test]
fn a_stripped_go_program_has_its_functions_in_gos_own_table() {
    for (elf, what) in [
        (stripped_go(".gopclntab", CODE), "the table says where its code begins"),
        (stripped_go(".data.rel.ro.gopclntab", CODE), "in a program that may be loaded anywhere"),
        (
            stripped_go(".gopclntab", 0)
                .section(Section::new(".go.module", &[CODE.to_le_bytes(); 23].concat())),
            "the table of modules says it",
        ),
        (
            stripped_go(".gopclntab", 0).section(Section { address: CODE, ..Section::new(".text", &[]) }),
            "all code does",
        ),
    ] {
        let made = elf.write();
        for (name, address, size) in [("main.f", CODE, 8), ("main.g", CODE + 8, 16), ("main.h", CODE + 24, 8)]
        {
            let found = made.only(name);
            assert_eq!((found.address, found.size), (address, size), "{what}: {name}");
            assert_eq!(found.probe.returns, Return::AtInstructions(vec![elf.offset(address + 4)]), "{what}");
        }
        let found: Vec<_> = made.find("*").unwrap().functions;
        assert_eq!(found.len(), 4, "{what}: {found:?}");
        let c = made.only("puts");
        assert_eq!((c.probe.runtime, c.probe.returns), (Runtime::Native, Return::ReturnProbe), "{what}");
        assert_eq!(absence(&elf, "main.k").0, AbsenceReason::Plain, "{what}: it has all names");
    }
}

#[test]
fn gos_table_is_not_believed_where_no_function_stands_or_the_linker_names_them() {
    let elf = stripped_go(".gopclntab", CODE + 1);
    assert_eq!(absence(&elf, "main.f").0, AbsenceReason::Stripped { exported: 1 });
    let elf = stripped_go(".gopclntab", CODE).function("main.named", CODE, 8);
    assert_eq!(elf.write().only("main.named").names, ["main.named"]);
    assert_eq!(absence(&elf, "main.f").0, AbsenceReason::Plain);
}

#[test]
fn an_async_function_is_named_by_the_closure_that_is_its_body() {
    let legacy = "_ZN3tok4conn28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE";
    for (symbol, asked, closure) in [
        (legacy, "tok::conn", Some("tok::conn::{{closure}}")),
        ("_RNCNvC3tok4conn0", "tok::conn", Some("tok::conn::{closure#0}")),
        (legacy, "tok::con", None),
        (legacy, "conn", None),
        (legacy, "tok", None),
        (legacy, "tok::conn*x", None),
        // A closure in a closure, and another function's.
        (
            "_ZN3tok4conn28_$u7b$$u7b$closure$u7d$$u7d$28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
            "tok::conn",
            None,
        ),
        ("_ZN3tok4conn4read28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "tok::conn", None),
    ] {
        let elf = Elf::default().code(CODE, &PLAIN).function(symbol, CODE, 3);
        let why = absence(&elf, asked).0;
        let found = match &why {
            AbsenceReason::InClosure { closure, is_known: false } => Some(closure.as_str()),
            _ => None,
        };
        assert_eq!(found, closure, "{asked} in {symbol}: {why:?}");
        if let Some(closure) = closure {
            assert_eq!(elf.write().only(closure).address, CODE, "it is found by the name in the message");
        }
    }
}

#[test]
fn functions_of_another_language_are_not_looked_for_in_its_interpreter() {
    for (symbol, says) in [
        ("napi_create_function", "functions of JavaScript are not supported"),
        ("JNI_CreateJavaVM", "functions of Java are not supported"),
        ("Py_BytesMain", "wakepath drill follows as python:FUNCTION"),
    ] {
        let elf = Elf::default().code(CODE, &PLAIN.repeat(2)).function(symbol, CODE, 3);
        let made = elf.function("free_handle", CODE + 3, 3).exported().write();
        let error = made.refusal("free_handel");
        assert!(error.contains(says) && !error.contains("stripped"), "{error}");
        assert_eq!(error.contains("similar"), symbol.starts_with("Py"), "{error}");
        assert_eq!(made.only("free_handle").address, CODE + 3, "its own functions are");
    }
}
