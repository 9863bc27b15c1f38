// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that begin, nest and end, with the two that a reader may see at each instruction: `plugins/c/tests/step.c` calls it.

use core::ptr::{addr_of, addr_of_mut};

use wakepath_context::Record;

extern "C" {
    fn dlsym(library: *mut u8, name: *const u8) -> *mut u8;
}

/// The span before and behind the step that the thread is at, 0 for none; equal between steps.
#[repr(C)]
pub struct Allowed {
    before: u8,
    after: u8,
}

fn before(allowed: *mut Allowed, id: u8) {
    // SAFETY: it is alive while this program runs.
    unsafe { addr_of_mut!((*allowed).before).write_volatile(id) }
}

fn after(allowed: *mut Allowed, id: u8) {
    // SAFETY: it is alive while this program runs.
    unsafe { addr_of_mut!((*allowed).after).write_volatile(id) }
}

#[inline(never)]
fn use_stack() {
    let mut bytes = [0u8; 256];
    for byte in &mut bytes {
        // SAFETY: it is a place of the array.
        unsafe { (byte as *mut u8).write_volatile(0xee) };
    }
}

#[inline(never)]
fn span(allowed: *mut Allowed, id: u8, inner: u8) {
    // SAFETY: it is alive while this program runs.
    let outer = unsafe { addr_of!((*allowed).before).read_volatile() };
    after(allowed, id);
    Record::new([id; 16], [id; 8], id).with(|| {
        before(allowed, id);
        if inner != 0 {
            block(allowed, inner);
        }
        use_stack();
        after(allowed, outer);
    });
    before(allowed, outer);
}

#[inline(never)]
fn block(allowed: *mut Allowed, id: u8) {
    // SAFETY: it is alive while this program runs.
    let outer = unsafe { addr_of!((*allowed).before).read_volatile() };
    after(allowed, id);
    {
        wakepath_context::attach!([id; 16], [id; 8], id);
        before(allowed, id);
        use_stack();
        after(allowed, outer);
    }
    before(allowed, outer);
}

#[no_mangle]
extern "C" fn act(allowed: *mut Allowed) {
    for round in 1..3 {
        span(allowed, round, round + 0x10);
        use_stack();
    }
}

#[no_mangle]
extern "C" fn r#where() -> *mut u8 {
    // SAFETY: the name ends with 0. A null library is the program.
    unsafe { dlsym(core::ptr::null_mut(), b"otel_thread_ctx_v1\0".as_ptr()) }
}
