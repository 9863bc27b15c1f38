//! Call sites in a running process, redirected through code of ours: its threads are not stopped, and no break point
//! stays while it runs (x86-64). Traeger 2008 left it as future work (section 12.2).
//!
//! A `call` in the process gets another displacement, and so calls a nearby *stub* of ours. The stub reads the time,
//! calls the site's function, reads the time again and returns to the site. Calls and returns stay in balance, for
//! the CPU's return prediction and for shadow stacks. Meanwhile the return address is kept elsewhere, and the stub's
//! own takes its place, so that arguments on the stack stay where they are.
//!
//! - A kept return address is found by its place on the stack, which is unique among the process's open calls. So
//!   ending threads, jumps out of calls (`longjmp`), signal handlers and coroutines need nothing else.
//! - The stubs themselves measure only calls below a call of f₀: `data` has the mechanism.
//! - The code is changed while the kernel has a probe (an uprobe) at the site: its break point, its care for the
//!   other CPUs, and its removal if wakepath dies.

mod cost;
mod data;
mod error;
mod gate;
mod guard;
mod injection;
mod process;
mod remote;
mod room;
mod send;
mod stub;
mod unwinding;

/// Whether a function, by name, looks at its own return address or returns twice through it. Calls of it are left
/// unchanged.
pub fn needs_its_return_address(name: &str) -> bool {
    let plain = name.split('@').next().unwrap_or(name).trim_start_matches('_');
    // The loader finds its caller by the return address.
    const BY_CALLER: [&str; 6] = ["dlopen", "dlmopen", "dlsym", "dlvsym", "dladdr", "dl_iterate_phdr"];
    const TWICE: [&str; 9] = [
        "setjmp",
        "sigsetjmp",
        "getcontext",
        "setcontext",
        "swapcontext",
        "makecontext",
        "vfork",
        "clone",
        "clone3",
    ];
    // Compilers call them by rules of their own.
    const OF_COMPILERS: [&str; 8] =
        ["fentry", "mcount", "tls_get_addr", "x86_", "morestack", "cyg_profile_func", "chkstk", "Unwind_"];
    // With the C library's internal prefix, as in `__GI___sigsetjmp`.
    let bare = plain.strip_prefix("GI_").unwrap_or(plain).trim_start_matches('_');
    BY_CALLER.contains(&bare)
        || TWICE.contains(&bare)
        || OF_COMPILERS.iter().any(|prefix| bare.starts_with(prefix) || plain.starts_with(prefix))
}

pub use cost::{CallCost, call_cost, ticks};
pub use data::{Frame, MAX_NODES, NodeTimes, SHARED_BYTES, ThreadTimes};
pub use error::{Error, Refusal};
pub use injection::{Injection, Left, Node, Site, SiteRefusal, Unwinder};
