//! Compiles every `bpf/*.bpf.c` and writes three skeletons: for `bpf/latency.bpf.c`, which counts latencies; for
//! `bpf/drill.bpf.c`, which measures the functions below a function; and for all others, which record and are linked
//! into a single object. For the last it also writes the names of the types that its relocations are against.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::{Btf, BtfKind, BtfType};
use object::{Object, ObjectSection};

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
    let mut names = relocated(&linked)?;
    names.sort();
    names.dedup();
    fs::write(out.join("wakepath.types"), names.join("\n"))?;
    Ok(())
}

/// The name of the type that each CO-RE relocation is against: the records are in the third part of the section
/// `.BTF.ext`, whose layout `struct btf_ext_header` in libbpf's `libbpf_internal.h` describes.
fn relocated(object: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let types = Btf::from_path(object)?;
    let file = fs::read(object)?;
    let file = object::File::parse(&*file)?;
    let section = file.section_by_name(".BTF.ext").ok_or("no section .BTF.ext")?.data()?;
    let word = |at: usize| -> Result<usize, Box<dyn Error>> {
        let bytes = section.get(at..).and_then(|rest| rest.first_chunk()).ok_or("a short .BTF.ext")?;
        Ok(u32::from_ne_bytes(*bytes) as usize)
    };
    let begin = word(4)? + word(24)?;
    let end = begin + word(28)?;
    let (record_bytes, mut at) = (word(begin)?, begin + 4);
    let mut names = Vec::new();
    while at < end {
        // Each program's section has its name, the number of its records, and the records.
        let records = word(at + 4)?;
        at += 8;
        for record in (0..records).map(|record| at + record * record_bytes) {
            let number = u32::try_from(word(record + 4)?)?;
            let found: BtfType<'_> =
                types.type_by_id(number.into()).ok_or("a relocation without its type")?;
            let name = found.name().and_then(|name| name.to_str());
            let name = name.ok_or("a relocation against a type without a name")?;
            // Others would need more of the kernel's types than `src/relocation/reduced.rs` keeps.
            let is_kept =
                matches!(found.kind(), BtfKind::Struct | BtfKind::Union | BtfKind::Enum | BtfKind::Enum64);
            if !is_kept {
                return Err(format!("a relocation is against `{name}`, no struct, union or enum").into());
            }
            names.push(name.to_owned());
        }
        at += records * record_bytes;
    }
    Ok(names)
}
