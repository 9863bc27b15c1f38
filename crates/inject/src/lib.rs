//! Call sites of a running process that are led through code of ours: no stop of its threads, no break point while it runs
//! on (x86-64). Traeger 2008 left it as future work (section 12.2).
//!
//! A `call` of the process gets another displacement, and so calls a *stub* near it, which is ours. The stub reads the
//! time, calls the function that the site called before, reads the time again and returns to the site. Calls and
//! returns stay in balance, for the CPU's prediction of returns, and for shadow stacks. The return address is kept aside
//! meanwhile, and the stub's own takes its place, so that the arguments on the stack stay where they are.
//!
//! - A kept return address is found by its place on the stack, which is another one for each call that is open in the whole
//!   process. So threads that end, jumps out of calls (`longjmp`), signal handlers and coroutines need nothing else.
//! - Only calls below one of f₀ are measured, by the stubs themselves: `data` says how they know.
//! - The code is changed while the kernel has a probe (an uprobe) at the site: its break point, its care for the other
//!   CPUs, and its removal if we die.

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

/// Whether a function looks at its own return address, or returns twice through it: a call of it stays as it is. By name.
pub fn needs_its_return_address(name: &str) -> bool {
    let plain = name.split('@').next().unwrap_or(name).trim_start_matches('_');
    // The loader finds by it who asks.
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
    // A compiler calls them by rules of its own.
    const OF_COMPILERS: [&str; 8] =
        ["fentry", "mcount", "tls_get_addr", "x86_", "morestack", "cyg_profile_func", "chkstk", "Unwind_"];
    // With a name of the C library of its own, as in `__GI___sigsetjmp`.
    let bare = plain.strip_prefix("GI_").unwrap_or(plain).trim_start_matches('_');
    BY_CALLER.contains(&bare)
        || TWICE.contains(&bare)
        || OF_COMPILERS.iter().any(|prefix| bare.starts_with(prefix) || plain.starts_with(prefix))
}

pub use cost::{CallCost, call_cost, ticks};
pub use data::{Frame, MAX_NODES, NodeTimes, SHARED_BYTES, ThreadTimes};
pub use error::{Error, Refusal};
pub use injection::{Injection, Left, Node, Site, SiteRefusal, Unwinder};
