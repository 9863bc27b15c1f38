//! Compiles the empty BPF programs.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=empty.bpf.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    SkeletonBuilder::new()
        .source("empty.bpf.c")
        .obj(out.join("empty.bpf.o"))
        .clang_args(["-Wall", "-Werror"])
        .build()?;
    Ok(())
}
