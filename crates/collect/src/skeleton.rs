//! The BPF objects' Rust interfaces, which the build generates from `bpf/`.
#![allow(
    missing_docs,
    unused_imports,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code"
)]

include!(concat!(env!("OUT_DIR"), "/wakepath.skel.rs"));

/// The names of the types that this object's relocations are against, a line each.
pub const RELOCATED: &str = include_str!(concat!(env!("OUT_DIR"), "/wakepath.types"));

/// The interface of `bpf/latency.bpf.c`.
pub mod latency {
    include!(concat!(env!("OUT_DIR"), "/latency.skel.rs"));
}

/// The interface of `bpf/drill.bpf.c`.
pub mod drill {
    include!(concat!(env!("OUT_DIR"), "/drill.skel.rs"));
}
