//! The ways to see returns.

use std::path::Path;
use std::process::Command;

use wakepath_functions::{Finder, FunctionNote, Return, Target};

use crate::programs::{Programs, bytes_at, function, only, refusal, run};

fn returns(instructions: &str) -> Return {
    let programs = Programs::new();
    let library = programs.assemble("one.s", &function("f", instructions));
    only(&library, "f").probe.returns
}

#[test]
fn a_function_of_which_no_call_can_return_is_noticed() {
    for (what, instructions, never) in [
        ("it returns", "push %rbp\npop %rbp\nret", false),
        ("it ends in a trap", "push %rbp\nud2", true),
        ("it loops for ever", "push %rbp\n1: jmp 1b", true),
        ("it calls what does not return", "push %rbp\ncall 1f\n1: call *%rax", true),
        ("it leaves by a jump", "push %rbp\npop %rbp\njmp *%rax", false),
        ("or by a jump to another", ".globl g\npush %rbp\npop %rbp\njmp g@PLT", false),
        ("or by a condition", ".globl g\ntest %edi, %edi\njz g@PLT\nud2", false),
        ("it runs on into what comes next", "push %rbp\npop %rbp", false),
        ("even behind a system call", "push %rbp\nsyscall", false),
        ("it holds data", "push %rbp\nud2\n.byte 6, 6", false),
    ] {
        let expected = if never { Return::Never } else { Return::ReturnProbe };
        assert_eq!(returns(instructions), expected, "{what}");
    }
}

#[test]
fn never_returning_is_said_of_compiled_code() {
    let programs = Programs::new();
    let source = "
        #include <stdlib.h>
        __attribute__((noinline, noreturn)) void fail(int x) { exit(x); }
        int main(int argc, char **argv) { fail(argc); }
    ";
    let app = programs.compile("app.c", source, &["-O2"]);
    let fail = only(&app, "fail");
    assert_eq!((fail.probe.returns, fail.notes), (Return::Never, vec![FunctionNote::NeverReturns]));
}

#[test]
fn a_symbol_without_a_size_is_not_said_to_never_return() {
    let programs = Programs::new();
    let library = programs.assemble("plain.s", ".text\n.globl plain\nplain: push %rbp\nud2\n");
    assert_eq!(only(&library, "plain").probe.returns, Return::ReturnProbe);
}

#[test]
fn functions_that_return_twice_are_refused() {
    let programs = Programs::new();
    for name in ["setjmp", "_setjmp", "__sigsetjmp", "getcontext", "swapcontext"] {
        let library = programs.assemble("one.s", &function(name, "push %rbp\npop %rbp\nret"));
        assert!(refusal(&library, name).contains("for a second return"), "{name}");
    }
    let library = programs.assemble("one.s", &function("setjmper", "push %rbp\npop %rbp\nret"));
    only(&library, "setjmper");
}

fn at_instructions(file: &Path, name: &str) -> Vec<u64> {
    let function = only(file, name);
    match function.probe.returns {
        Return::AtInstructions(places) => places,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn where_an_exception_may_pass_each_return_instruction_is_the_place() {
    let programs = Programs::new();
    let source = "
        extern \"C\" __attribute__((noinline)) int thrower(int x) { if (x == 7) throw x; return x; }
        extern \"C\" __attribute__((noinline)) int between(int x) { int y = thrower(x); asm(\"\"); return y + 1; }
        extern \"C\" __attribute__((noinline)) int leaf(int x) { asm(\"\"); return x * 3; }
        int main(int argc, char **) { try { return between(argc) + leaf(argc); } catch (int) { return 1; } }
    ";
    // With optimisation, the throwing part stands apart from the rest of `thrower`.
    for options in [&["-O2"][..], &["-O0"]] {
        let app = programs.compile("app.cc", source, options);
        for name in ["between", "thrower"] {
            let places = at_instructions(&app, name);
            assert!(!places.is_empty(), "{name}");
            for place in places {
                assert_eq!(bytes_at::<1>(&app, place), [0xc3], "{name}");
            }
            assert!(only(&app, name).notes.contains(&FunctionNote::ExceptionsPass));
        }
        assert_eq!(only(&app, "leaf").probe.returns, Return::ReturnProbe, "nothing it calls can throw");
        let target = Target::parse(&format!("{}:between", app.display())).unwrap();
        let promised = Finder::new(&[]).without_exceptions().find(&target).unwrap();
        assert_eq!(promised.functions[0].probe.returns, Return::ReturnProbe);
    }
}

#[test]
fn where_a_function_leaves_by_a_jump_its_callers_may_be_learned() {
    let programs = Programs::new();
    let source = "
        struct H { virtual int handle(int) = 0; };
        extern \"C\" __attribute__((noinline)) int jumps(H *h, int x) { if (x == 7) throw x; return h->handle(x); }
        extern \"C\" __attribute__((noinline)) int returns(H *h, int x) { if (x == 7) throw x; return h->handle(x) + 1; }
        struct A : H { int handle(int x) override { return x; } };
        int main(int argc, char **) { A a; try { return jumps(&a, argc) + returns(&a, argc); } catch (int) { return 1; } }
    ";
    let app = programs.compile("app.cc", source, &["-O2"]);
    assert!(refusal(&app, "jumps").contains("leave by a jump to a computed address"));
    let find = |name: &str, finder: Finder| {
        let target = Target::parse(&format!("{}:{name}", app.display())).unwrap();
        finder.find(&target).unwrap().functions.remove(0)
    };
    let learned = find("jumps", Finder::new(&[]).learning_callers());
    assert_eq!(
        (learned.probe.returns, learned.notes),
        (Return::AtCallers, vec![FunctionNote::CallersLearned])
    );
    // Where each return is known, they are cheaper.
    let known = find("returns", Finder::new(&[]).learning_callers());
    assert!(matches!(known.probe.returns, Return::AtInstructions(_)), "{known:?}");
}

#[test]
fn where_stacks_are_switched_each_return_instruction_is_the_place() {
    let programs = Programs::new();
    let source = "
        #include <ucontext.h>
        static ucontext_t here, there;
        __attribute__((noinline)) int switches(int x) { swapcontext(&here, &there); return x + 1; }
        __attribute__((noinline)) int leaf(int x) { __asm__(\"\"); return x * 3; }
        int main(int argc, char **argv) { return switches(argc) + leaf(argc); }
    ";
    for options in [&["-O1"][..], &["-O1", "-static"]] {
        let app = programs.compile("app.c", source, options);
        let found = only(&app, "switches");
        assert!(matches!(found.probe.returns, Return::AtInstructions(_)), "{options:?}: {found:?}");
        // C's library brings the functions for exceptions with it.
        assert!(
            found.probe.switches && found.notes.contains(&FunctionNote::StacksSwitch),
            "{options:?}: {found:?}"
        );
        assert_eq!(only(&app, "leaf").probe.returns, Return::ReturnProbe, "nothing comes between");
        let target = Target::parse(&format!("{}:switches", app.display())).unwrap();
        let promised = Finder::new(&[]).without_exceptions().find(&target).unwrap();
        assert_eq!(promised.functions[0].probe.returns, Return::ReturnProbe);
    }
    // It has functions that switch stacks for others.
    let target = Target::parse("libc:malloc").unwrap();
    let libc = Finder::new(&[]).find(&target).unwrap();
    assert_eq!(libc.functions[0].probe.returns, Return::ReturnProbe);
}

#[test]
fn a_part_that_stands_elsewhere_is_known_without_its_symbol() {
    let programs = Programs::new();
    let source = "
        void thrower(int x) __attribute__((noinline, cold));
        void thrower(int x) { if (x) throw x; }
        extern \"C\" __attribute__((noinline)) int apart(int x) {
            int s = 0;
            for (int i = 0; i < x; i++) { s += i * x; asm(\"\" : \"+r\"(s)); if (__builtin_expect(s == 77, 0)) thrower(s); }
            return s;
        }
        int main(int argc, char **) { return apart(argc); }
    ";
    let options = ["-O2", "-rdynamic", "-fno-inline"];
    let app = programs.compile("app.cc", source, &options);
    let before = only(&app, "apart").probe;
    assert!(only_cold(&app), "the compiler did not put a part elsewhere");
    run(Command::new("strip").arg(&app));
    assert_eq!(only(&app, "apart").probe, before);
}

/// Whether `apart` has a part with a symbol.
fn only_cold(app: &Path) -> bool {
    refusal(app, "apart.cold").contains("the cold part of `apart`")
}

#[test]
fn what_the_kernel_enters_has_no_return_address_to_replace() {
    let programs = Programs::new();
    for (name, uncalled) in [("_start", true), ("__restore_rt", true), ("_starter", false)] {
        let library = programs.assemble("one.s", &function(name, "push %rbp\nsyscall"));
        assert_eq!(only(&library, name).probe.returns == Return::Never, uncalled, "{name}");
    }
}

#[test]
fn a_jump_out_hides_a_return_where_exceptions_pass() {
    let programs = Programs::new();
    let personality = ".globl __gxx_personality_v0\n__gxx_personality_v0: ret\n";
    let leaves = function("f", "push %rbp\npop %rbp\njmp *%rax");
    let with_table = |body: &str| function("f", &format!(".cfi_startproc\n{body}\nret\n.cfi_endproc"));
    // The same jump, while the frame is on the stack, and when it is not any more.
    let amid = with_table(
        "push %rbp\n.cfi_adjust_cfa_offset 8\ncall *%rax\njmp *%rax\npop %rbp\n.cfi_adjust_cfa_offset -8",
    );
    let after =
        with_table("push %rbp\n.cfi_adjust_cfa_offset 8\npop %rbp\n.cfi_adjust_cfa_offset -8\njmp *%rax");
    let library = programs.assemble("amid.s", &(amid + personality));
    assert_eq!(at_instructions(&library, "f").len(), 1, "a jump by a table, inside");
    let library = programs.assemble("after.s", &(after + personality));
    assert!(refusal(&library, "f").contains("a jump to a computed address"));
    // Another function without a symbol begins as functions do, and has its own callers.
    let other = ".cfi_startproc\n.Lother: push %rbp\npop %rbp\nret\n.cfi_endproc\n";
    let leaves_to_it = function("f", ".cfi_startproc\ncall *%rax\njmp .Lother\n.cfi_endproc");
    let library = programs.assemble("other.s", &(leaves_to_it + other + personality));
    assert!(refusal(&library, "f").contains("it also leaves by a jump to 0x"));
    let returns = function("f", "push %rbp\ncall *%rax\npop %rbp\nret");
    let library = programs.assemble("one.s", &(leaves.clone() + personality));
    assert!(refusal(&library, "f").contains("would crash the program if an exception passes it"));
    let library = programs.assemble("two.s", &(returns + personality));
    assert_eq!(at_instructions(&library, "f").len(), 1);
    let library = programs.assemble("three.s", &leaves);
    assert_eq!(only(&library, "f").probe.returns, Return::ReturnProbe, "no exceptions in such a file");
}

#[test]
fn a_function_may_have_sixteen_parts_that_stand_elsewhere() {
    let programs = Programs::new();
    let personality = ".globl __gxx_personality_v0\n__gxx_personality_v0: ret\n";
    for (parts, found) in [(1, true), (16, true), (17, false)] {
        let mut source = function("f", ".cfi_startproc\ncall *%rax\njmp .Lpart1\n.cfi_endproc");
        for part in 1..=parts {
            let next = if part == parts { "ret".to_owned() } else { format!("jmp .Lpart{}", part + 1) };
            source +=
                &format!(".Lpart{part}: .cfi_startproc\n.cfi_def_cfa_offset 16\n{next}\n.cfi_endproc\n");
        }
        let library = programs.assemble("parts.s", &(source + personality));
        match found {
            true => assert_eq!(at_instructions(&library, "f").len(), 1, "{parts}"),
            false => assert!(refusal(&library, "f").contains("it also leaves by a jump to 0x"), "{parts}"),
        }
    }
}

#[test]
fn a_part_that_several_jumps_lead_into_is_one() {
    let programs = Programs::new();
    let personality = ".globl __gxx_personality_v0\n__gxx_personality_v0: ret\n";
    let body = "call *%rax\njz .Lpart\njs .Lwithin\nret";
    let source = function("f", &format!(".cfi_startproc\n{body}\n.cfi_endproc"));
    let part = ".Lpart: .cfi_startproc\n.cfi_def_cfa_offset 16\nnop\n.Lwithin: ret\n.cfi_endproc\n";
    let library = programs.assemble("part.s", &(source + part + personality));
    assert_eq!(at_instructions(&library, "f").len(), 2, "its own return and that of the part");
}
