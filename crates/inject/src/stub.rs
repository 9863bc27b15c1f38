//! The machine code that is put into the process.
//!
//! A stub has 128 bytes, a stub for each site:
//!
//! ```text
//!         endbr64                   a site may lead here through a pointer
//!         push  r11
//!         mov   r11d, SITE
//!         call  enter               the return address at [rsp+16] is kept aside
//!         pop   r11
//!         jc    straight            nothing is measured: as if the stub were not there
//!         lea   rsp, [rsp+8]
//!         call  [CALLEE]            our return address takes the place of the kept one
//!         lea   rsp, [rsp-8]
//!         push  r11
//!         call  leave               the kept one comes back to [rsp+16]
//!         pop   r11
//!         ret
//! straight:
//!         jmp   [CALLEE]
//! CALLEE: the address of the function, and behind it that of the stub
//! ```
//!
//! All registers keep their values: a compiler that sees both functions may rely on any register (`-fipa-ra`). `lea`
//! leaves the flags, which carry `enter`'s result.
//!
//! A signal may come between any two instructions, and its handler may make measured calls. A kept return address is
//! found by its place on the stack, so the handler's calls, at other places, do not collide with it.

use std::arch::global_asm;

use crate::data;

/// A stub's size, bytes: a cache line for code, and a cache line for addresses.
pub(crate) const STUB_BYTES: u64 = 128;
/// The stubs' offset in a region, behind the code that all share.
pub(crate) const STUBS_AT: u64 = 0x400;
/// The instruction that fills the rest.
pub(crate) const BREAK_POINT: u8 = 0xcc;
/// The function address's offset in a stub.
const CALLEE: usize = 64;
/// The offset of the stub's own address, for a site that calls through a pointer.
pub(crate) const POINTER_AT: u64 = 72;

global_asm!(
    ".pushsection .rodata.wakepath_inject, \"a\", @progbits",
    ".balign 64",
    "wakepath_inject_shared:",
    "wakepath_inject_data: .quad 0",
    "wakepath_inject_states: .quad 0",
    // ---- enter: CF is set where the call is not measured. The return address's place is rsp + 72 below.
    "wakepath_inject_enter:",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "mov rdi, [rip + wakepath_inject_data]",
    "cmp qword ptr [rdi + {DEADLINE}], 0",
    "je 90f",
    // This thread's state, in rsi.
    "mov rsi, [rip + wakepath_inject_states]",
    "rdfsbase rax",
    "mov rcx, rax",
    "shr rcx, 12",
    "mov rdx, rax",
    "shr rdx, 23",
    "xor ecx, edx",
    "and ecx, {MAX_THREADS} - 1",
    "mov r8d, {THREAD_WAYS}",
    "20:",
    "cmp [rsi + rcx*8 + {KEYS}], rax",
    "je 21f",
    "cmp qword ptr [rsi + rcx*8 + {KEYS}], 0",
    "je 90f",
    "inc ecx",
    "and ecx, {MAX_THREADS} - 1",
    "dec r8d",
    "jnz 20b",
    "jmp 90f",
    "21:",
    "shl ecx, {STATE_BITS}",
    "lea rsi, [rsi + rcx + {STATES}]",
    "mov r8, [rsi + {STATE_OF}]",
    "test r8, r8",
    "jz 90f",
    // The innermost open call, in rcx: calls at or below this call's place on the stack were unwound.
    "lea rdx, [rsp + 72]",
    "mov rcx, [rsi + {STATE_INNERMOST}]",
    "xor r9d, r9d",
    "30:",
    "test rcx, rcx",
    "jz 90f",
    "cmp [rcx + {CALL_SLOT}], rdx",
    "ja 31f",
    "inc r9d",
    "mov rcx, [rcx + {CALL_AROUND}]",
    "jmp 30b",
    "31:",
    "push r9",
    // The site with this call's node as its parent, in rax.
    "mov eax, r11d",
    "mov r9d, [rcx + {CALL_NODE}]",
    "40:",
    "shl eax, 5",
    "lea rax, [rdi + rax + {SITES}]",
    "cmp [rax + {SITE_PARENT}], r9d",
    "je 41f",
    "mov eax, [rax + {SITE_NEXT}]",
    "test eax, eax",
    "jnz 40b",
    "jmp 89f",
    // Its frame: the function's innermost call, not another call above it.
    "41:",
    "mov r11d, [rax + {SITE_FRAME}]",
    "mov r9, rdx",
    "cmp r11d, 1",
    "cmove r9, rbp",
    "ja 42f",
    "add r9, [rax + {SITE_DISTANCE}]",
    "cmp r9, [rcx + {CALL_SLOT}]",
    "jne 89f",
    "42:",
    // A slot for the return address, in r11.
    "mov edi, [rax + {SITE_NODE}]",
    "movabs r11, {CALL_FACTOR}",
    "imul r11, rdx",
    "shr r11, 64 - {CALL_BITS}",
    "shl r11, 6",
    "add r11, [rip + wakepath_inject_data]",
    "add r11, {CALLS}",
    "mov r9d, {CALL_WAYS}",
    "50:",
    "mov rax, [r11 + {CALL_SLOT}]",
    "cmp rax, rdx",
    "je 52f",
    "test rax, rax",
    "jnz 51f",
    "lock cmpxchg [r11 + {CALL_SLOT}], rdx",
    "jz 52f",
    "51:",
    "add r11, 64",
    "dec r9d",
    "jnz 50b",
    "inc qword ptr [rsi + {STATE_CROWDED}]",
    "jmp 89f",
    "52:",
    "pop r9",
    "add [rsi + {STATE_LEFT}], r9",
    "mov [r11 + {CALL_AROUND}], rcx",
    "mov [r11 + {CALL_STATE}], rsi",
    "mov [r11 + {CALL_OF}], r8",
    "mov [r11 + {CALL_NODE}], edi",
    "mov rax, [rdx]",
    "mov [r11 + {CALL_RETURN}], rax",
    "mov [rsi + {STATE_INNERMOST}], r11",
    "mov rdi, [rip + wakepath_inject_data]",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [r11 + {CALL_BEGAN}], rax",
    "cmp rax, [rdi + {DEADLINE}]",
    "ja 88f",
    "clc",
    "jmp 91f",
    // The process that put the stub here no longer looks after it.
    "88:",
    "mov [rsi + {STATE_INNERMOST}], rcx",
    "mov qword ptr [r11 + {CALL_SLOT}], 0",
    "jmp 90f",
    "89:",
    "pop r9",
    "90:",
    "stc",
    "91:",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    // ---- leave: the return address comes back to its place.
    ".balign 64",
    "wakepath_inject_leave:",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov r9, rax",
    "lea rdx, [rsp + 72]",
    "movabs r11, {CALL_FACTOR}",
    "imul r11, rdx",
    "shr r11, 64 - {CALL_BITS}",
    "shl r11, 6",
    "add r11, [rip + wakepath_inject_data]",
    "add r11, {CALLS}",
    "mov ecx, {CALL_WAYS}",
    "60:",
    "cmp [r11 + {CALL_SLOT}], rdx",
    "je 61f",
    "add r11, 64",
    "dec ecx",
    "jnz 60b",
    // There is no such call, so there is no return address.
    "ud2",
    "61:",
    "mov rcx, [r11 + {CALL_RETURN}]",
    "mov [rdx], rcx",
    // In a forked child, the call was its parent's.
    "mov rdi, [rip + wakepath_inject_data]",
    "cmp qword ptr [rdi + {DEADLINE}], 0",
    "je 63f",
    "mov rsi, [r11 + {CALL_STATE}]",
    "mov r8, [r11 + {CALL_OF}]",
    "cmp [rsi + {STATE_OF}], r8",
    "jne 63f",
    // A coroutine may have gone on in another thread.
    "rdfsbase rax",
    "cmp [rsi + {STATE_THREAD}], rax",
    "jne 63f",
    "mov eax, [r11 + {CALL_NODE}]",
    "and eax, {MAX_NODES} - 1",
    "shl eax, 5",
    "lea rcx, [rsi + rax + {NODES}]",
    "cmp [rcx], r8",
    "je 62f",
    "mov [rcx], r8",
    "xor eax, eax",
    "mov [rcx + 8], rax",
    "mov [rcx + 16], rax",
    "mov [rcx + 24], rax",
    "62:",
    // The CPUs' stamp counters may differ by some ticks.
    "xor eax, eax",
    "sub r9, [r11 + {CALL_BEGAN}]",
    "cmovb r9, rax",
    "mov rax, [rcx + 8]",
    "cmp rax, r9",
    "cmovb rax, r9",
    "mov [rcx + 8], rax",
    "add [rcx + 16], r9",
    "inc qword ptr [rcx + 24]",
    // Calls below this call were unwound: by an exception, or by a jump.
    "cmp [rsi + {STATE_INNERMOST}], r11",
    "je 64f",
    "inc qword ptr [rsi + {STATE_LEFT}]",
    "64:",
    "mov rax, [r11 + {CALL_AROUND}]",
    "mov [rsi + {STATE_INNERMOST}], rax",
    "63:",
    "mov qword ptr [r11 + {CALL_SLOT}], 0",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    "wakepath_inject_end:",
    ".popsection",
    KEYS = const data::KEYS,
    MAX_THREADS = const data::MAX_THREADS,
    THREAD_WAYS = const data::THREAD_WAYS,
    STATES = const data::STATES,
    STATE_BITS = const data::STATE_BITS,
    STATE_OF = const data::STATE_OF,
    STATE_INNERMOST = const data::STATE_INNERMOST,
    STATE_THREAD = const data::STATE_THREAD,
    STATE_LEFT = const data::STATE_LEFT,
    STATE_CROWDED = const data::STATE_CROWDED,
    SITES = const data::SITES,
    SITE_PARENT = const data::SITE_PARENT,
    SITE_NODE = const data::SITE_NODE,
    SITE_FRAME = const data::SITE_FRAME,
    SITE_NEXT = const data::SITE_NEXT,
    SITE_DISTANCE = const data::SITE_DISTANCE,
    CALLS = const data::CALLS,
    CALL_BITS = const data::CALL_BITS,
    CALL_WAYS = const data::CALL_WAYS,
    CALL_FACTOR = const data::CALL_FACTOR,
    CALL_SLOT = const data::CALL_SLOT,
    CALL_RETURN = const data::CALL_RETURN,
    CALL_BEGAN = const data::CALL_BEGAN,
    CALL_AROUND = const data::CALL_AROUND,
    CALL_STATE = const data::CALL_STATE,
    CALL_OF = const data::CALL_OF,
    CALL_NODE = const data::CALL_NODE,
    NODES = const data::NODES,
    MAX_NODES = const data::MAX_NODES,
    DEADLINE = const data::DEADLINE,
);

unsafe extern "C" {
    static wakepath_inject_shared: u8;
    static wakepath_inject_enter: u8;
    static wakepath_inject_leave: u8;
    static wakepath_inject_end: u8;
}

/// The offsets of `enter` and `leave` in the shared code, and its length.
fn shared_layout() -> (usize, usize, usize) {
    let from = &raw const wakepath_inject_shared as usize;
    (
        &raw const wakepath_inject_enter as usize - from,
        &raw const wakepath_inject_leave as usize - from,
        &raw const wakepath_inject_end as usize - from,
    )
}

/// The code that all stubs share, for data and states at these addresses in the process.
pub(crate) fn shared(data: u64, states: u64) -> Vec<u8> {
    let (.., length) = shared_layout();
    // SAFETY: the bytes between the two symbols are read-only data in this program, put there by the assembler above.
    let bytes = unsafe { std::slice::from_raw_parts(&raw const wakepath_inject_shared, length) };
    let mut code = bytes.to_vec();
    code[..8].copy_from_slice(&data.to_le_bytes());
    code[8..16].copy_from_slice(&states.to_le_bytes());
    code
}

/// The stub at an address, for the site with this number and the function at `callee`; the shared code stands at
/// `region`.
pub(crate) fn stub(region: u64, at: u64, site: u32, callee: u64) -> [u8; STUB_BYTES as usize] {
    let (enter, leave, _) = shared_layout();
    let mut code = Code { at, bytes: Vec::with_capacity(STUB_BYTES as usize) };
    code.put(&[0xf3, 0x0f, 0x1e, 0xfa]); // endbr64
    code.put(&[0x41, 0x53]); // push r11
    code.put(&[0x41, 0xbb]); // mov r11d, SITE
    code.put(&site.to_le_bytes());
    code.call(region + enter as u64);
    code.put(&[0x41, 0x5b]); // pop r11
    code.put(&[0x72, 26]); // jc straight
    code.put(&[0x48, 0x8d, 0x64, 0x24, 0x08]); // lea rsp, [rsp+8]
    code.through_callee(0x15); // call
    code.put(&[0x48, 0x8d, 0x64, 0x24, 0xf8]); // lea rsp, [rsp-8]
    code.put(&[0x41, 0x53]); // push r11
    code.call(region + leave as u64);
    code.put(&[0x41, 0x5b]); // pop r11
    code.put(&[0xc3]); // ret
    // straight:
    code.through_callee(0x25); // jmp
    code.bytes.resize(CALLEE, BREAK_POINT);
    code.put(&callee.to_le_bytes());
    code.put(&at.to_le_bytes());
    code.bytes.resize(STUB_BYTES as usize, BREAK_POINT);
    code.bytes.try_into().unwrap_or([BREAK_POINT; STUB_BYTES as usize])
}

struct Code {
    at: u64,
    bytes: Vec<u8>,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn call(&mut self, target: u64) {
        let next = self.at + self.bytes.len() as u64 + 5;
        self.put(&[0xe8]);
        self.put(&(target.wrapping_sub(next) as u32).to_le_bytes());
    }

    /// `call` or `jmp` to the address at the stub's end.
    fn through_callee(&mut self, which: u8) {
        let next = self.bytes.len() + 6;
        self.put(&[0xff, which]);
        self.put(&((CALLEE - next) as u32).to_le_bytes());
    }
}
