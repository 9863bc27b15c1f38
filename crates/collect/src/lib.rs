//! Loads the BPF programs, drains their buffers, runs a session.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, reason = "generated")]
mod skeleton { include!(concat!(env!("OUT_DIR"), "/wakepath.skel.rs")); }

