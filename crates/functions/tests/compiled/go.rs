//! Functions from Go's linker, whose stacks move.

use wakepath_functions::{Finder, FunctionNote, ProbeMethod, Return, Runtime, Target};

use crate::programs::{Programs, bytes_at, function, only, refusal};

/// A library that looks as if Go's linker made it.
fn go(functions: &str) -> String {
    let mark = ".section .go.buildinfo, \"aw\"\n.ascii \"\\xff Go buildinf:\"\n";
    format!(
        "{mark}.text\n.globl runtime.text\nruntime.text:\n{functions}\n.globl runtime.etext\nruntime.etext:\n"
    )
}

/// Go's check of the stack's size, and the call that makes it grow.
fn checked(name: &str, compare: &str, rest: &str) -> String {
    function(name, &format!("{compare}\njbe 9f\n{rest}\n9: call *%rax\njmp {name}"))
}

#[test]
fn returns_are_seen_at_each_ret() {
    let programs = Programs::new();
    let body = "push %rbp\nmov %rsp, %rbp\ntest %eax, %eax\njz 1f\npop %rbp\nret\n1: pop %rbp\nret $8";
    let library = programs.assemble("go.s", &go(&checked("main.handle", "cmp 0x10(%r14), %rsp", body)));
    let handle = only(&library, "main.handle");
    assert_eq!(handle.probe.runtime, Runtime::Go);
    let Return::AtInstructions(places) = &handle.probe.returns else { panic!("{handle:?}") };
    assert_eq!(
        places.iter().map(|&place| bytes_at::<1>(&library, place)[0]).collect::<Vec<_>>(),
        [0xc3, 0xc2]
    );
}

#[test]
fn a_call_that_makes_the_stack_grow_is_seen_once() {
    let programs = Programs::new();
    let body = "push %rbp\npop %rbp\nret";
    for (what, compare) in [
        ("small frame", "cmp 0x10(%r14), %rsp"),
        ("bigger frame", "lea -0x100(%rsp), %r12\ncmp 0x10(%r14), %r12"),
        ("huge frame", "mov %rsp, %r12\nsub $0x20000, %r12\njb 9f\ncmp 0x10(%r14), %r12"),
    ] {
        let library = programs.assemble("go.s", &go(&checked("main.f", compare, body)));
        let found = only(&library, "main.f");
        assert_eq!(bytes_at::<2>(&library, found.probe.offset), [0x55, 0x5d], "{what}: push %rbp; pop %rbp");
        assert_eq!(found.probe.method, ProbeMethod::Emulated, "{what}");
    }
}

#[test]
fn without_a_check_the_entry_is_the_place() {
    let programs = Programs::new();
    let library = programs.assemble("go.s", &go(&function("main.f", "push %rbp\npop %rbp\nret")));
    assert_eq!(bytes_at::<1>(&library, only(&library, "main.f").probe.offset), [0x55]);
}

#[test]
fn one_that_does_not_keep_its_goroutine_is_refused() {
    let programs = Programs::new();
    let load = "call *%rax\nmov %fs:0xfffffffffffffff8, %r14\nret";
    let load_by_place = "call *%rax\nmov $-8, %r14\nmov %fs:(%r14), %r14\nret";
    for (what, body, kept) in [
        ("loaded anew behind a call of assembler code", load, true),
        ("the same where the program may be loaded anywhere", load_by_place, true),
        ("called by assembler code", "mov %fs:0xfffffffffffffff8, %r14\ncall *%rax\nret", false),
        ("assembler code", "push %rbp\nxor %r14d, %r14d\npop %rbp\nret", false),
        ("another register's value", "call *%rax\nmov %rax, %r14\nret", false),
        ("read alone", "cmp 0x10(%r14), %rsp\nmov %r14, %rax\ntest %r14, %r14\nret", true),
    ] {
        let library = programs.assemble("go.s", &go(&function("main.f", body)));
        let target = Target::parse(&format!("{}:main.f", library.display())).unwrap();
        let found = Finder::new(&[]).find(&target).map_err(|error| error.to_string());
        assert_eq!(found.is_ok(), kept, "{what}: {found:?}");
        let says = "this function does not keep it in r14";
        assert!(found.is_ok() || found.is_err_and(|error| error.contains(says)), "{what}");
    }
}

#[test]
fn go_before_its_calls_passed_registers_is_refused() {
    let programs = Programs::new();
    let source = |magic: &str| {
        let table = format!(".section .gopclntab, \"a\"\n.long {magic}\n");
        go(&function("main.f", "push %rbp\npop %rbp\nret")) + &table
    };
    let library = programs.assemble("go.s", &source("0xfffffff1"));
    assert_eq!(only(&library, "main.f").probe.runtime, Runtime::Go);
    let library = programs.assemble("go.s", &source("0xfffffffa"));
    let error = refusal(&library, "main.f");
    assert!(error.contains("Go before 1.18 does not keep it in r14"), "{error}");
}

#[test]
fn a_loop_that_is_not_the_check_is_refused() {
    let programs = Programs::new();
    for (what, body) in [
        ("no call before the jump back", "dec %eax\njz 9f\nret\n9: jmp main.f"),
        (
            "the stack was touched before",
            "push %rbp\ncmp %eax, %ebx\njz 9f\npop %rbp\nret\n9: call *%rax\njmp main.f",
        ),
        (
            "a loop to behind the check",
            "cmp 0x10(%r14), %rsp\njbe 9f\n1: dec %eax\njnz 1b\nret\n9: call *%rax\njmp main.f",
        ),
    ] {
        let library = programs.assemble("go.s", &go(&function("main.f", body)));
        let error = refusal(&library, "main.f");
        assert!(error.contains("each iteration would count as a call"), "{what}: {error}");
    }
}

#[test]
fn a_return_that_would_go_unseen_is_said() {
    let programs = Programs::new();
    for (body, says) in [
        (".globl g\npush %rbp\npop %rbp\njmp g@PLT", "it also leaves by a jump to"),
        ("push %rbp\npop %rbp\njmp *%rax", "a jump to a computed address"),
        ("push %rbp\npop %rbp\nret\n.byte 6", "not all of its code"),
        ("push %rbp\npop %rbp", "continues into the next"),
    ] {
        let library = programs.assemble("go.s", &go(&function("main.f", body)));
        let error = refusal(&library, "main.f");
        assert!(error.contains("the returns of a Go function") && error.contains(says), "{body}: {error}");
    }
}

#[test]
fn where_a_call_goes_on_is_named() {
    let programs = Programs::new();
    let source =
        function("main.wrapper", "push %rbp\npop %rbp\njmp main.work") + &function("main.work", "nop\nret");
    let library =
        programs.assemble("go.s", &go(&source).replace(".globl main.work\n", ".hidden main.work\n"));
    let error = refusal(&library, "main.wrapper");
    assert!(error.contains("it also leaves by a jump to `main.work`"), "{error}");
}

#[test]
fn a_jump_by_a_table_stays_inside() {
    let programs = Programs::new();
    // At the end, as Go does it: a call that never returns, and padding.
    let body = "push %rbp\njmp *(%rcx,%rax,8)\n1: pop %rbp\nret\ncall *%rax\nnop";
    let library = programs.assemble("go.s", &go(&function("main.f", body)));
    let Return::AtInstructions(places) = only(&library, "main.f").probe.returns else {
        panic!("no instructions")
    };
    assert_eq!(places.len(), 1);
}

#[test]
fn one_that_never_returns_is_no_problem() {
    let programs = Programs::new();
    let library = programs.assemble("go.s", &go(&function("main.main", "push %rbp\nud2")));
    let main = only(&library, "main.main");
    assert_eq!(
        (main.probe.returns, main.notes),
        (Return::Never, vec![FunctionNote::CalledOnce, FunctionNote::NeverReturns])
    );
}

#[test]
fn c_that_is_linked_in_keeps_its_return_probes() {
    let programs = Programs::new();
    let source =
        go(&function("main.f", "push %rbp\npop %rbp\nret")) + &function("puts", "push %rbp\npop %rbp\nret");
    let library = programs.assemble("go.s", &source);
    assert_eq!(only(&library, "puts").probe.runtime, Runtime::Native);
    assert_eq!(only(&library, "puts").probe.returns, Return::ReturnProbe);
    assert_eq!(only(&library, "main.f").probe.runtime, Runtime::Go);
}
