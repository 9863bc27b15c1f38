//! The decoding of kernel code, from bytes written by hand.

use super::*;

const NAMES: &str = "\
ffffffff81001000 T f
ffffffff81001200 T g
ffffffff81001210 T h
ffffffff81001220 t h.cold
ffffffff81001300 T of_entry
ffffffff81001400 T untraced
ffffffff81001500 T bpf_helper
ffffffff81001600 T panic
ffffffff81001700 T next
ffffffff81002000 T __x86_return_thunk
ffffffff81002100 T __x86_indirect_thunk_rax
ffffffff81002120 T __x86_indirect_thunk_r11
ffffffff81002200 T __SCT__pointer
ffffffff81002210 T __SCT__nothing
ffffffff81002220 T __fentry__
ffffffff81002300 T end
ffffffff81001300 T __entry_text_start
ffffffff81001380 T __entry_text_end
ffffffff82000000 D sys_call_table
";
const F: u64 = 0xffff_ffff_8100_1000;
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

/// A jump or call (e9, e8) at an address, with a distance in four bytes.
fn to(opcode: &[u8], at: u64, target: u64) -> Vec<u8> {
    let behind = at + opcode.len() as u64 + 4;
    [opcode, &(target.wrapping_sub(behind) as i32).to_le_bytes()].concat()
}

/// The kernel with this code in `f`, and functions around it.
fn kernel_of(code: &[u8]) -> KernelCode {
    let mut f = code.to_vec();
    f.resize(0x200, 0xcc);
    let ret: &[u8] = &[0x0f, 0x1f, 0x44, 0, 0, 0xc3];
    let jump = to(&[0xe9], 0xffff_ffff_8100_2200, 0xffff_ffff_8100_1200);
    let memory = Memory::of(&[
        (F, &f),
        (0xffff_ffff_8100_1200, &[ret, &[0xcc; 10], ret, &[0xcc; 10], &[0xc3; 0xe0]].concat()),
        (
            0xffff_ffff_8100_1300,
            &[ret, &[0xcc; 0xfa], &[0x90, 0xc3], &[0xcc; 0xfe], ret, &[0xcc; 0xfa]].concat(),
        ),
        (0xffff_ffff_8100_1600, &[ret, &[0xcc; 0xfa], ret, &[0xcc; 0x8fa]].concat()),
        (0xffff_ffff_8100_2200, &[&jump[..], &[0xcc; 11], &[0xc3; 16]].concat()),
        (0xffff_ffff_8200_0000, &0xffff_ffff_8100_1210_u64.to_le_bytes()),
        (0xffff_ffff_8300_0000, &0xffff_ffff_8100_1200_u64.to_le_bytes()),
    ]);
    KernelCode {
        symbols: Symbols::new(NAMES.to_owned(), ""),
        memory,
        build: "ab".to_owned(),
        decoded: HashMap::new(),
    }
}

/// The calls in `f`: each call's offset, and the callee's name or operand.
fn calls(code: &[u8]) -> Vec<(u64, String)> {
    let mut kernel = kernel_of(code);
    let f = kernel.function_at(F).expect("a function");
    let found = kernel.sites(&f).expect("calls");
    let name = |callee: ProcessCallee| match callee {
        ProcessCallee::Function(found) => found.function.readable,
        ProcessCallee::Computed(operand) if operand.in_memory => {
            format!("*{:#x}({})", operand.displacement, operand.base.expect("a register"))
        }
        ProcessCallee::Computed(operand) => format!("*{}", operand.base.expect("a register")),
        other => format!("{other:?}"),
    };
    found.sites.into_iter().map(|site| (site.offset, name(site.callee))).collect()
}

fn entered(code: &[u8]) -> Vec<u8> {
    [&NOP5[..], code].concat()
}

#[test]
fn thunks_are_the_instructions_that_they_stand_for() {
    const AT: u64 = F + 5;
    const INDIRECT: u64 = 0xffff_ffff_8100_2100;
    for (what, code, expected) in [
        ("call g", to(&[0xe8], AT, 0xffff_ffff_8100_1200), Some("g")),
        ("call *%rax", vec![0xff, 0xd0], Some("*0")),
        ("call *0x18(%rax)", vec![0xff, 0x50, 0x18], Some("*0x18(0)")),
        ("call __x86_indirect_thunk_rax", to(&[0xe8], AT, INDIRECT), Some("*0")),
        ("call __x86_indirect_thunk_r11", to(&[0xe8], AT, 0xffff_ffff_8100_2120), Some("*11")),
        ("jmp g", to(&[0xe9], AT, 0xffff_ffff_8100_1200), Some("g")),
        ("je g", to(&[0x0f, 0x84], AT, 0xffff_ffff_8100_1200), Some("g")),
        ("jmp __x86_indirect_thunk_rax", to(&[0xe9], AT, INDIRECT), Some("*0")),
        ("jmp *%rcx", vec![0xff, 0xe1], Some("*1")),
        ("jmp of a table", vec![0xff, 0x24, 0xc5, 0, 0, 0, 0], None),
        ("call of a static call", to(&[0xe8], AT, 0xffff_ffff_8100_2200), Some("g")),
        ("a static call of nothing", to(&[0xe8], AT, 0xffff_ffff_8100_2210), None),
        ("jmp __x86_return_thunk", to(&[0xe9], AT, 0xffff_ffff_8100_2000), None),
        ("call *x(%rip)", to(&[0xff, 0x15], AT, 0xffff_ffff_8300_0000), Some("g")),
        ("syscall", vec![0x0f, 0x05], None),
    ] {
        let found = calls(&entered(&[&code[..], &[0x90, 0xc3]].concat()));
        let expected: Vec<_> = expected.map(|name| (5, name.to_owned())).into_iter().collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn the_call_of_the_tracer_at_the_entry_is_none() {
    let fentry = 0xffff_ffff_8100_2220;
    let endbr64 = [0xf3, 0x0f, 0x1e, 0xfa];
    for code in [
        to(&[0xe8], F, fentry),
        [&endbr64[..], &to(&[0xe8], F + 4, fentry)].concat(),
        // The tracer's trampolines have no names.
        to(&[0xe8], F, 0xffff_ffff_c000_0000),
    ] {
        assert_eq!(calls(&[&code[..], &[0xc3]].concat()), [], "{code:x?}");
        let g = to(&[0xe8], F + code.len() as u64, 0xffff_ffff_8100_1200);
        let with_call = [&code[..], &g, &[0xc3]].concat();
        assert_eq!(calls(&with_call), [(code.len() as u64, "g".to_owned())], "{code:x?}");
    }
}

#[test]
fn a_call_that_never_returns_has_no_place_to_return_to() {
    let call = to(&[0xe8], F + 5, 0xffff_ffff_8100_1200);
    for (behind, is_call) in
        [(&[0x0f, 0x0b][..], false), (&[0xcc], false), (&[0x90, 0xc3], true), (&[0xc3], true)]
    {
        assert_eq!(calls(&entered(&[&call[..], behind].concat())).len(), usize::from(is_call), "{behind:x?}");
    }
    let mut kernel = kernel_of(&entered(&to(&[0xe8], F + 5, 0xffff_ffff_8100_1600)));
    let panic = kernel.function_at(0xffff_ffff_8100_1600).expect("a function");
    assert_eq!(panic.function.probe.returns, Return::Never);
    assert!(kernel.exits(F).is_none(), "it has no return");
}

#[test]
fn the_return_of_a_call_is_also_seen_behind_instructions_that_always_follow() {
    // call g, then mov %eax,%ebx, jmp over a byte, push %rbx, ret.
    let call = to(&[0xe8], F + 5, 0xffff_ffff_8100_1200);
    let code = entered(&[&call[..], &[0x89, 0xc3, 0xeb, 0x01, 0x90, 0x53, 0xc3]].concat());
    let mut kernel = kernel_of(&code);
    let f = kernel.function_at(F).expect("a function");
    kernel.sites(&f).expect("calls");
    let call = kernel.call_at(F, F + 5).expect("a call");
    assert_eq!(call.resumes, [F + 10, F + 12, F + 15]);
    assert_eq!((call.returns_to, call.condition), (Some(F + 10), None));
    // Behind a push the return address would stand elsewhere.
    let call = to(&[0xe8], F + 5, 0xffff_ffff_8100_1200);
    let mut kernel = kernel_of(&entered(&[&call[..], &[0x53, 0x90, 0x5b, 0xc3]].concat()));
    let f = kernel.function_at(F).expect("a function");
    kernel.sites(&f).expect("calls");
    assert_eq!(kernel.call_at(F, F + 5).expect("a call").resumes, [F + 10]);
}

#[test]
fn returns_are_those_of_the_function_and_of_those_that_it_jumps_to() {
    let exits = |code: &[u8]| {
        let found = kernel_of(&entered(code)).exits(F);
        found.map(|exits| exits.into_iter().map(|exit| (exit.address, exit.condition)).collect::<Vec<_>>())
    };
    assert_eq!(exits(&[0x90, 0xc3]), Some(vec![(F + 6, None)]));
    // je g, jne __x86_return_thunk, ret: g's own return is an exit too.
    let code = [
        to(&[0x0f, 0x84], F + 5, 0xffff_ffff_8100_1200),
        to(&[0x0f, 0x85], F + 11, 0xffff_ffff_8100_2000),
        vec![0xc3],
    ]
    .concat();
    let expected = vec![(F + 11, Some(5)), (F + 17, None), (0xffff_ffff_8100_1205, None)];
    assert_eq!(exits(&code), Some(expected));
    // Into the middle of another function; through a pointer; out of the code; to a function that may not be probed.
    for (what, code) in [
        ("amid g", to(&[0xe9], F + 5, 0xffff_ffff_8100_1203)),
        ("jmp *%rax", vec![0xff, 0xe0]),
        ("nothing", vec![0x0f]),
        ("untraced", to(&[0xe9], F + 5, 0xffff_ffff_8100_1400)),
    ] {
        assert_eq!(exits(&code), None, "{what}");
    }
    // A condition is the opcode's lower half.
    let mut kernel =
        kernel_of(&entered(&[&to(&[0x0f, 0x8f], F + 5, 0xffff_ffff_8100_1200)[..], &[0xc3]].concat()));
    let f = kernel.function_at(F).expect("a function");
    kernel.sites(&f).expect("calls");
    assert_eq!(kernel.call_at(F, F + 5).expect("a jump").condition, Some(15));
}

#[test]
fn the_tracer_comes_in_behind_a_landing_place_of_any_kind() {
    let call = to(&[0xe8], 0, 100);
    for landing in [&[][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0x66, 0x0f, 0x1f, 0], &[0x0f, 0x1f, 0x40, 0xd6]] {
        for (behind, is_traceable) in [(&NOP5[..], true), (&call, true), (&[0x90, 0x55], false)] {
            let code = [landing, behind].concat();
            assert_eq!(calls::is_traceable(&code), is_traceable, "{code:x?}");
        }
    }
}

#[test]
fn the_cold_part_belongs_to_its_function() {
    let h = 0xffff_ffff_8100_1210;
    let mut kernel = kernel_of(&[]);
    kernel.decode(h);
    let found = kernel.decoded[&h].as_ref().expect("code");
    assert_eq!(found.exits.len(), 1 + 0xe0, "those of h.cold too");
}

#[test]
fn each_refusal_has_its_reason() {
    let mut kernel = kernel_of(&entered(&[0xc3]));
    for (name, why) in [
        ("of_entry", "it is code by which the kernel is entered"),
        ("untraced", "the kernel does not allow tracing it"),
        ("bpf_helper", "programs at probes call it themselves"),
        ("ff", "there is no `kernel:ff`"),
    ] {
        let error = kernel.named(name).expect_err(name).to_string();
        assert!(error.contains(why), "{error}");
    }
    let f = kernel.named("f").expect("a function");
    assert_eq!((f.address, f.function.size, f.function.probe.runtime), (F, 0x200, Runtime::Kernel));
    let place = kernel.place_of(&f).expect("a place");
    assert_eq!((place.as_str(), kernel.at_place(&place)), ("kernel ab f", Some(f)));
    assert_eq!(kernel.at_place("kernel cd f"), None, "of another build");
    assert_eq!(kernel.system_call(0).expect("a function").function.readable, "h");
    assert!(kernel.system_call(1).is_none());
}
