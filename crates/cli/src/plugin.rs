//! `wakepath plugin`: writes a runtime's plug-in, which comes with the program, into a folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use wakepath_report::escape;

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::file;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  wakepath plugin python           writes ./wakepath-python; then: pip install ./wakepath-python
  wakepath plugin node /opt/node   writes /opt/node/wakepath-context.js";

/// Write the plug-in for a runtime, with which requests are joined to their threads and tasks
///
/// Plug-ins are written in the language of the runtime; what each notes, and its cost, is in its README.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PluginArguments {
    /// The runtime
    #[arg(value_enum)]
    runtime: Runtime,
    /// The folder to write, new or empty [default: ./wakepath-RUNTIME]
    folder: Option<PathBuf>,
}

/// A runtime with a plug-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Runtime {
    /// CPython 3.8 and later: a package for pip
    Python,
    /// Node 18 and later: a file for --require
    Node,
    /// Java 11 and later: an extension of OpenTelemetry's agent, in source
    Java,
    /// C and C++: headers
    C,
    /// Rust: a crate
    Rust,
}

/// A file with its path within the folder.
type Embedded = (&'static str, &'static [u8]);

/// These files from a folder of the source tree.
macro_rules! embedded {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $folder, "/", $path)))),+]
    };
}

const LICENCES: &[Embedded] = embedded!("": "LICENSE-APACHE", "LICENSE-MIT");
const PYTHON: &[Embedded] = embedded!("plugins/python":
    "MANIFEST.in",
    "README.md",
    "pyproject.toml",
    "setup.py",
    "wakepath_context/__init__.py",
    "wakepath_context/_record.c",
    "wakepath_context/callbacks.h",
    "wakepath_context/current_span.py",
    "wakepath_context/ready.h",
    "wakepath_context/shown_span.h",
    "wakepath_context/thread_of_span.py",
    "wakepath_context/turns.h",
    "wakepath_context/turns_of_span.py",
    "wakepath_context/wakepath_context.h",
    "wakepath_context/wakepath_turns.h",
);
const NODE: &[Embedded] = embedded!("plugins/node": "README.md", "wakepath-context.js");
const JAVA: &[Embedded] = embedded!("plugins/java":
    "Makefile",
    "README.md",
    "src/META-INF/services/io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider",
    "src/wakepath/Extension.java",
    "src/wakepath/FollowedContext.java",
    "src/wakepath/OsThread.java",
    "src/wakepath/ThreadOfSpan.java",
    "src/wakepath/Turns.java",
    "src/wakepath/TurnsOfSpan.java",
);
const C: &[Embedded] = embedded!("plugins/c":
    "README.md",
    "wakepath_context.h",
    "wakepath_process.h",
    "wakepath_turns.h",
);
const RUST: &[Embedded] = embedded!("plugins/rust":
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "src/lib.rs",
    "src/turns.rs",
);

impl Runtime {
    const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Java => "java",
            Self::C => "c",
            Self::Rust => "rust",
        }
    }

    const fn files(self) -> &'static [Embedded] {
        match self {
            Self::Python => PYTHON,
            Self::Node => NODE,
            Self::Java => JAVA,
            Self::C => C,
            Self::Rust => RUST,
        }
    }

    /// The next step with the plug-in in this folder.
    fn next(self, folder: &str) -> String {
        match self {
            Self::Python => {
                format!("pip install {folder}, then start the program with opentelemetry-instrument")
            }
            Self::Node => format!("node --require {folder}/wakepath-context.js, beside OpenTelemetry"),
            Self::Java => format!("{folder}/README.md: it is built with the jars of OpenTelemetry's SDK"),
            Self::C | Self::Rust => {
                format!("{folder}/README.md: the program itself says which span is current")
            }
        }
    }
}

/// Writes the plug-in.
pub fn run(arguments: &PluginArguments, output: &Output) -> Result<ExitCode, Failure> {
    let runtime = arguments.runtime;
    let given = arguments.folder.clone();
    let folder = given.unwrap_or_else(|| PathBuf::from(format!("wakepath-{}", runtime.name())));
    let shown = shown(&folder);
    if fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let text = format!("`{shown}` is there, and not empty");
        let hint = format!("name another folder: wakepath plugin {} FOLDER", runtime.name());
        return Err(Failure::new(Code::Input, text).hint(hint));
    }
    for (path, bytes) in runtime.files().iter().chain(LICENCES) {
        write(&folder, path, bytes).map_err(|error| file::cannot(&folder.join(path), &error))?;
    }
    output.text(&format!("wrote {shown}\nnext: {}\n", runtime.next(&shown)))?;
    Ok(ExitCode::SUCCESS)
}

/// A folder as pip and Node take it for a path: a relative one begins with a dot, since else it would be the name of a package.
fn shown(folder: &Path) -> String {
    let text = escape(folder.as_os_str().as_encoded_bytes());
    let begins_with_dots = folder.starts_with(".") || folder.starts_with("..");
    match folder.is_absolute() || begins_with_dots {
        true => text,
        false => format!("./{text}"),
    }
}

/// Writes a new file below the folder.
fn write(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::output::Colour;

    fn written(runtime: Runtime, folder: &Path) -> Result<ExitCode, Failure> {
        let arguments = PluginArguments { runtime, folder: Some(folder.to_owned()) };
        run(&arguments, &Output::new(Colour::Never))
    }

    /// All files below a folder but the tests and what builds leave, with their contents.
    fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                let is_left = ["tests", "target", "build", "__pycache__"].contains(&&*name)
                    || [".egg-info", ".so"].iter().any(|end| name.ends_with(end));
                if is_left {
                    continue;
                }
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let bytes = fs::read(&path).expect("a file");
                        files.insert(path.strip_prefix(folder).expect("below it").to_owned(), bytes);
                    }
                }
            }
        }
        files
    }

    #[test]
    fn each_plug_in_is_written_whole_with_its_licences() {
        for runtime in Runtime::value_variants() {
            let place = tempfile::tempdir().expect("a folder");
            let folder = place.path().join("new/folder");
            assert!(written(*runtime, &folder).is_ok());
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let mut expected = files(&sources.join("plugins").join(runtime.name()));
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                expected.insert(licence.into(), fs::read(sources.join(licence)).expect("a licence"));
            }
            assert!(files(&folder) == expected, "{runtime:?}: {:?}", expected.keys());
        }
    }

    #[test]
    fn a_relative_folder_is_shown_as_a_path_and_never_as_a_packages_name() {
        for (folder, expected) in [
            ("wp", "./wp"),
            ("a/wp", "./a/wp"),
            ("./wp", "./wp"),
            (".wp", "./.wp"),
            ("../wp", "../wp"),
            ("/opt/wp", "/opt/wp"),
            (".", "."),
        ] {
            assert_eq!(shown(Path::new(folder)), expected);
        }
    }

    #[test]
    fn a_folder_with_files_stays_as_it_is_and_an_empty_one_is_used() {
        let place = tempfile::tempdir().expect("a folder");
        assert!(written(Runtime::C, place.path()).is_ok());
        let before = files(place.path());
        let failure = written(Runtime::Node, place.path()).expect_err("not empty");
        assert!(format!("{failure:?}").contains("not empty"), "{failure:?}");
        assert!(files(place.path()) == before);
    }
}
