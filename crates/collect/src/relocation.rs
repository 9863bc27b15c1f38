//! Kernel types for relocations, in a small file instead of the kernel's large file.
//!
//! libbpf finds the members' offsets on the running kernel (CO-RE): it compares our 69 types' names with the names of the
//! kernel's 126,000 types, which takes longer than the rest of the loading in user space. In a file with the types that
//! the relocations can reach, the same search is short, and finds the same types with the same numbers. Attach points, and
//! kernel functions that programs call, libbpf still finds among all types.
//!
//! Where the small file would not do, libbpf searches the large file: see [`small_file`].

mod reduced;
mod types;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{AsRawLibbpf, OpenObject, libbpf_sys};
use rustix::fs::{MemfdFlags, memfd_create};

use self::types::Types;
use crate::error::Error;
use crate::libbpf::load_error;

/// The kernel's and its modules' types, a file each.
const DIRECTORY: &str = "/sys/kernel/btf";

/// The types for an open object's relocations. Keep them until it is loaded: libbpf reads them then.
#[derive(Debug)]
pub(crate) enum RelocationTypes {
    /// In our file.
    Small { _file: File },
    /// The kernel's file.
    All,
}

/// Opens an object whose relocations are against types with these names, a line each.
pub(crate) fn open<'obj, B: SkelBuilder<'obj>>(
    builder: B,
    kernel: &Btf<'_>,
    names: &str,
    storage: &'obj mut MaybeUninit<OpenObject>,
) -> Result<(B::Output, RelocationTypes), Error> {
    let Some((file, path)) = small_file(kernel, names, Path::new(DIRECTORY)) else {
        return Ok((builder.open(storage).map_err(load_error)?, RelocationTypes::All));
    };
    let options = libbpf_sys::bpf_object_open_opts {
        sz: size_of::<libbpf_sys::bpf_object_open_opts>() as libbpf_sys::size_t,
        btf_custom_path: path.as_ptr(),
        ..Default::default()
    };
    // libbpf copies the path.
    let open = builder.open_opts(options, storage).map_err(load_error)?;
    Ok((open, RelocationTypes::Small { _file: file }))
}

/// A file in memory with the types for relocations, and its path. `None` if the kernel's types are unreadable here, if a
/// type that the kernel lacks may be a module's (libbpf looks into modules only without our file), or without
/// files in memory.
fn small_file(kernel: &Btf<'_>, names: &str, directory: &Path) -> Option<(File, CString)> {
    let all = Types::read(raw(kernel)?, None)?;
    let names: Vec<&str> = names.lines().collect();
    let reduced = reduced::reduce(&all, &names)?;
    if !reduced.missing.is_empty() && may_be_in_modules(&all, &reduced.missing, directory) {
        return None;
    }
    let mut file = File::from(memfd_create("types", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&reduced.file).ok()?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::metadata(&path).ok()?;
    Some((file, CString::new(path).ok()?))
}

/// The bytes that libbpf has read.
fn raw<'a>(kernel: &'a Btf<'_>) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: a live object; the call writes the length.
    let begin = unsafe { libbpf_sys::btf__raw_data(kernel.as_libbpf_object().as_ptr(), &raw mut length) };
    if begin.is_null() {
        return None;
    }
    // SAFETY: the bytes and their length belong to the object, which nothing changes while it is borrowed.
    Some(unsafe { std::slice::from_raw_parts(begin.cast(), length as usize) })
}

/// Whether a module may have a type with any given name: it has such a type, or its types are unreadable.
fn may_be_in_modules(all: &Types<'_>, names: &[&str], directory: &Path) -> bool {
    let Ok(files) = fs::read_dir(directory) else { return true };
    for file in files {
        let Ok(file) = file else { return true };
        if file.file_name() == "vmlinux" {
            continue;
        }
        let has_none = fs::read(file.path()).is_ok_and(|bytes| {
            Types::read(&bytes, Some(all)).is_some_and(|module| !reduced::has_any(&module, names))
        });
        if !has_none {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use libbpf_rs::OpenProgram;
    use libbpf_rs::skel::OpenSkel;

    use super::reduced::tests::written;
    use super::*;
    use crate::libbpf::{kernel_types, silence};
    use crate::skeleton::{self, WakepathSkelBuilder};

    #[test]
    fn a_missing_type_may_be_a_modules() {
        let file = written("int word 4 = 32\nstruct kept 4 = a:1:0", 0);
        let all = Types::read(&file, None).expect("a readable file");
        let names_below = file.len() - types::HEADER_BYTES - 16 - 24;
        // `word`, which the kernel has for another kind.
        let of_kernel = "struct +1 4";
        for (module, may_be) in [
            ("struct other 4", false),
            ("struct gone 4", true),
            ("struct other 4\nunion gone___new 4 = a:2:0", true),
            ("enum gone 4", true),
            ("typedef gone 1\nforward gone 0\nint gone 4 = 32", false),
            (of_kernel, true),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("vmlinux"), "is not read").expect("a file");
            let asked = ["gone___old", "word"];
            assert!(!may_be_in_modules(&all, &asked, folder.path()), "without modules");
            fs::write(folder.path().join("module"), written(module, names_below)).expect("a file");
            assert_eq!(may_be_in_modules(&all, &asked, folder.path()), may_be, "{module}");
            fs::write(folder.path().join("more"), "unreadable").expect("a file");
            assert!(may_be_in_modules(&all, &asked, folder.path()), "an unreadable one beside {module}");
        }
        assert!(may_be_in_modules(&all, &["gone"], Path::new("/nowhere")), "no folder");
    }

    #[test]
    fn types_that_may_be_a_modules_are_left_to_libbpf() {
        let Ok(kernel) = kernel_types() else {
            return eprintln!("skipped: no kernel types here; would show when libbpf reads all of them");
        };
        let folder = tempfile::tempdir().expect("a folder");
        let small = |names| small_file(&kernel, names, folder.path());
        let (file, path) = small("task_struct\nof_no_kernel").expect("a file");
        let read = fs::read(path.to_str().expect("a path")).expect("the path leads to the file");
        assert_eq!(read.len() as u64, file.metadata().expect("a length").len());
        assert!(read.len() < raw(&kernel).expect("all types").len() / 2);
        fs::write(folder.path().join("module"), "unreadable").expect("a file");
        assert!(small("task_struct").is_some(), "no module matters");
        assert!(small("task_struct\nof_no_kernel").is_none());
    }

    /// The programs' instructions after relocation, by name. `None` without the right to load programs.
    fn instructions(open: &mut OpenObject) -> Option<BTreeMap<String, Vec<[u8; 8]>>> {
        for mut map in open.maps_mut() {
            map.set_autocreate(false).expect("a map that is not made");
        }
        for mut program in open.progs_mut() {
            program.set_autoload(true);
        }
        // SAFETY: an open object, which is not loaded yet.
        if unsafe { libbpf_sys::bpf_object__prepare(open.as_libbpf_object().as_ptr()) } != 0 {
            return None;
        }
        let read = |program: OpenProgram<'_>| {
            let raw = program.as_libbpf_object().as_ptr();
            // SAFETY: a live program's instructions, 8 bytes each, and their number.
            let instructions: &[[u8; 8]] = unsafe {
                let count = libbpf_sys::bpf_program__insn_cnt(raw) as usize;
                std::slice::from_raw_parts(libbpf_sys::bpf_program__insns(raw).cast(), count)
            };
            (program.name().to_string_lossy().into_owned(), instructions.to_vec())
        };
        Some(open.progs().map(read).collect())
    }

    #[test]
    fn live_root_each_program_has_the_same_instructions_with_few_types_and_with_all() {
        let skip = |why| {
            assert!(std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(), "all tests must run here: {why}");
            eprintln!("skipped: {why}; would show that relocations are the same");
        };
        silence();
        let Ok(kernel) = kernel_types() else { return skip("no kernel types here") };
        let [mut all, mut few, mut none] = [const { MaybeUninit::uninit() }; 3];
        let mut all = WakepathSkelBuilder::default().open(&mut all).expect("an object");
        let Some(all) = instructions(all.open_object_mut()) else { return skip("no right to load programs") };
        let open_small = |storage| {
            let builder = WakepathSkelBuilder::default();
            let (open, types) = open(builder, &kernel, skeleton::RELOCATED, storage).expect("an object");
            assert!(matches!(types, RelocationTypes::Small { .. }), "this kernel's types are reduced");
            (open, types)
        };
        let (mut few, _types) = open_small(&mut few);
        let few = instructions(few.open_object_mut()).expect("libbpf relocates with few types");
        assert!(all.values().map(Vec::len).sum::<usize>() > 10_000);
        for (program, all) in &all {
            assert!(few[program] == *all, "the instructions of {program}");
        }
        assert_eq!(few.len(), all.len());
        let (mut none, types) = open_small(&mut none);
        drop(types);
        assert_eq!(instructions(none.open_object_mut()), None, "libbpf has no other types");
    }
}
