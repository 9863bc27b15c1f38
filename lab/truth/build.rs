//! Compiles the BPF program that reads the run queues' clocks.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=run_queue.bpf.c");
    println!("cargo:rerun-if-changed=../../bpf/kernel.h");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    SkeletonBuilder::new()
        .source("run_queue.bpf.c")
        .obj(out.join("run_queue.bpf.o"))
        .clang_args(["-mcpu=v3", "-Wall", "-Werror", "-I../../bpf"])
        .build()?;
    Ok(())
}
