//! Compiles every `bpf/*.bpf.c` and writes three skeletons: for `bpf/latency.bpf.c`, which counts latencies; for
//! `bpf/drill.bpf.c`, which measures the functions below a function; and for all others, which record and are linked
//! into a single object.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo:rerun-if-changed={}", bpf.display());

    let mut sources: Vec<PathBuf> = fs::read_dir(&bpf)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();

    let linked = out.join("wakepath.bpf.o");
    let mut linker = libbpf_rs::Linker::new(&linked)?;
    for source in &sources {
        println!("cargo:rerun-if-changed={}", source.display());
        let object = out.join(source.file_name().ok_or("a source without a name")?).with_extension("o");
        let alone = ["latency", "drill"].into_iter().find(|name| source.ends_with(format!("{name}.bpf.c")));
        SkeletonBuilder::new()
            .source(source)
            .obj(&object)
            .clang_args([
                "-I",
                bpf.to_str().ok_or("the path of bpf/ is not UTF-8")?,
                "-mcpu=v3",
                "-Wall",
                "-Werror",
            ])
            .build()?;
        match alone {
            Some(name) => {
                SkeletonBuilder::new().obj(&object).generate(out.join(format!("{name}.skel.rs")))?;
            }
            None => linker.add_file(&object)?,
        }
    }
    linker.link()?;
    SkeletonBuilder::new().obj(&linked).generate(out.join("wakepath.skel.rs"))?;
    Ok(())
}
