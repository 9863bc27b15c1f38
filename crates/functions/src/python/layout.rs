//! The offsets of the fields in CPython 3.11's structures, bytes: `bpf/drill_python.bpf.h` has the offsets that it
//! follows. The structures do not change after a minor version's first release.

/// The release, as in the upper half of `Py_Version`.
pub(super) const RELEASE: u64 = 0x030b;
/// `_PyRuntimeState.gilstate.tstate_current`.
pub(super) const CURRENT_THREAD: u64 = 576;
/// `PyVarObject.ob_size`: in a code object, the number of instructions, 2 bytes each.
pub(super) const LENGTH: u64 = 16;
/// `PyCodeObject.co_flags`.
pub(super) const FLAGS: u64 = 48;
/// `PyCodeObject.co_firstlineno`.
pub(super) const FIRST_LINE: u64 = 72;
/// `PyCodeObject.co_filename`.
pub(super) const FILE: u64 = 112;
/// `PyCodeObject.co_name`.
pub(super) const NAME: u64 = 120;
/// `PyCodeObject.co_qualname`.
pub(super) const QUALIFIED_NAME: u64 = 128;
/// `PyCodeObject.co_linetable`.
pub(super) const LINES: u64 = 136;
/// `PyCodeObject.co_code_adaptive`.
pub(super) const INSTRUCTIONS: u64 = 184;
/// `PyASCIIObject.state`, and the object's size, behind which an ASCII string's text stands.
pub(super) const STATE: u64 = 32;
pub(super) const ASCII_TEXT: u64 = 48;
/// The size of a `PyCompactUnicodeObject`, behind which another text stands.
pub(super) const TEXT: u64 = 72;
/// `PyBytesObject.ob_sval`.
pub(super) const BYTES: u64 = 32;
/// The instruction by which a function begins or goes on, and the form that the interpreter puts in its place.
pub(super) const RESUME: usize = 151;
pub(super) const RESUME_QUICK: usize = 150;
/// `CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR`.
pub(super) const SUSPENDS: u32 = 0x20 | 0x80 | 0x100 | 0x200;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SOURCE: &str = r##"
        #define Py_BUILD_CORE 1
        #include <Python.h>
        #include <internal/pycore_runtime.h>
        #include <internal/pycore_frame.h>
        #include <internal/pycore_opcode.h>
        #include <stddef.h>
        #define OF(type, field) (size_t)offsetof(type, field)
        int main(void)
        {
            printf("%zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %d %d %d\n",
                   OF(_PyRuntimeState, gilstate.tstate_current), OF(PyVarObject, ob_size), OF(PyCodeObject, co_flags),
                   OF(PyCodeObject, co_firstlineno), OF(PyCodeObject, co_filename), OF(PyCodeObject, co_name),
                   OF(PyCodeObject, co_qualname), OF(PyCodeObject, co_linetable), OF(PyCodeObject, co_code_adaptive),
                   OF(PyASCIIObject, state), sizeof(PyASCIIObject), sizeof(PyCompactUnicodeObject),
                   OF(PyBytesObject, ob_sval), RESUME, RESUME_QUICK,
                   CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR);
            printf("#define PYTHON_CFRAME %zu #define PYTHON_THREAD %zu #define PYTHON_CURRENT_FRAME %zu "
                   "#define PYTHON_FRAME %zu #define PYTHON_CODE_ADAPTIVE %zu #define PYTHON_RESUME %d "
                   "#define PYTHON_RESUME_QUICK %d\n",
                   OF(PyThreadState, cframe), OF(PyThreadState, thread_id), OF(_PyCFrame, current_frame),
                   OF(_PyInterpreterFrame, f_code), OF(PyCodeObject, co_code_adaptive), RESUME, RESUME_QUICK);
            printf("%zu %zu %zu\n", OF(_PyInterpreterFrame, frame_obj) - OF(_PyInterpreterFrame, f_code),
                   OF(_PyInterpreterFrame, previous) - OF(_PyInterpreterFrame, f_code),
                   OF(_PyInterpreterFrame, prev_instr) - OF(_PyInterpreterFrame, f_code));
            return 0;
        }"##;

    /// The numbers in the header for BPF, as `SOURCE` prints them.
    fn bpf_layout() -> String {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/drill_python.bpf.h");
        let text = std::fs::read_to_string(header).expect("the header");
        let lines = text.lines().filter(|line| line.starts_with("#define PYTHON_"));
        let line = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        lines.map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_offsets_are_those_of_cpythons_headers() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("layout.c"), SOURCE).expect("a file");
        let include = std::env::var("WAKEPATH_PYTHON_HEADERS").unwrap_or("/usr/include/python3.11".into());
        if !std::path::Path::new(&include).join("internal/pycore_frame.h").exists() {
            eprintln!("skipped: no headers of CPython 3.11 at {include}");
            return;
        }
        let compiled = Command::new("cc")
            .args(["-I", &include, "-o", "layout", "layout.c"])
            .current_dir(&folder)
            .status()
            .expect("cc");
        assert!(compiled.success());
        let printed = Command::new(folder.path().join("layout")).output().expect("it runs").stdout;
        let printed = String::from_utf8(printed).expect("text");
        let ours = [
            CURRENT_THREAD,
            LENGTH,
            FLAGS,
            FIRST_LINE,
            FILE,
            NAME,
            QUALIFIED_NAME,
            LINES,
            INSTRUCTIONS,
            STATE,
            ASCII_TEXT,
            TEXT,
            BYTES,
        ];
        let ours = ours.map(|it: u64| it.to_string()).join(" ");
        let expected = format!("{ours} {RESUME} {RESUME_QUICK} {SUSPENDS}\n{}\n8 16 24\n", bpf_layout());
        assert_eq!(printed, expected);
    }
}
