//! Programs whose users' functions are not machine code in the file.

use std::fmt;

use crate::image::Image;

/// A language whose functions a program interprets, or compiles while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interpreter {
    /// Node, and other programs with V8 and Node's interface.
    JavaScript,
    /// A Java virtual machine, its launcher or its library.
    Java,
    /// CPython.
    Python,
}

impl Interpreter {
    /// The interpreter in a file, by a function in each of its builds, or by the function starting it.
    pub(crate) fn of(image: &Image) -> Option<Self> {
        image.symbols.iter().find_map(|symbol| match (image.symbols.name(symbol), symbol.imported) {
            ("napi_create_function", false) => Some(Self::JavaScript),
            ("JNI_CreateJavaVM", false) | ("JLI_Launch", _) => Some(Self::Java),
            ("_PyEval_EvalFrameDefault", false) | ("Py_BytesMain", _) => Some(Self::Python),
            _ => None,
        })
    }
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JavaScript => "JavaScript",
            Self::Java => "Java",
            Self::Python => "Python",
        })
    }
}

#[cfg(test)]
mod tests {
    use object::elf;

    use super::Interpreter::{self, Java, JavaScript, Python};
    use crate::testing::{CODE, Elf};

    const CODE_BYTES: [u8; 1] = [0xc3];

    #[test]
    fn an_interpreter_is_known_by_its_own_functions_and_not_by_its_callers() {
        for (name, defined, imported) in [
            ("napi_create_function", Some(JavaScript), None),
            ("JNI_CreateJavaVM", Some(Java), None),
            ("JLI_Launch", Some(Java), Some(Java)),
            ("_PyEval_EvalFrameDefault", Some(Python), None),
            ("Py_BytesMain", Some(Python), Some(Python)),
            ("main", None, None),
        ] {
            let elf = Elf::default().code(CODE, &CODE_BYTES);
            let own = elf.clone().function(name, CODE, 1).write();
            assert_eq!(Interpreter::of(&own.image()), defined, "{name}");
            let other = elf.imported(name, elf::STT_FUNC, 0).write();
            assert_eq!(Interpreter::of(&other.image()), imported, "{name} of another file");
        }
    }
}
