//! Go programs' execution traces beside a recording's streams: the files `go_trace_0` and so on, with the bytes as the programs wrote them. Go's own
//! tools read them too; this crate does not.

use std::ffi::OsStr;
use std::io::{self, Read};

use wakepath_caller::Directory;

/// The files' names begin so; a number follows.
const PREFIX: &str = "go_trace_";
/// The largest trace, bytes. A step takes some five bytes of it, and twenty times as many in memory.
pub const MAX_GO_TRACE_BYTES: u64 = 128 << 20;
/// The most traces in a recording.
pub const MAX_GO_TRACES: usize = 64;

/// A Go program's execution trace.
#[derive(Debug)]
pub struct GoTraceFile {
    /// The file's name in the recording.
    pub name: String,
    /// Its bytes, at most [`MAX_GO_TRACE_BYTES`].
    pub bytes: io::Result<Vec<u8>>,
}

/// A trace's file name, by its number.
pub(crate) fn name_of(number: usize) -> String {
    format!("{PREFIX}{number}")
}

/// Whether a trace may have this file name.
pub(crate) fn is_name(name: &OsStr) -> bool {
    (0..MAX_GO_TRACES).any(|number| name == name_of(number).as_str())
}

/// All traces in a recording's directory, by number.
pub(crate) fn read(directory: &Directory) -> Vec<GoTraceFile> {
    let one = |name: String| {
        let file = match directory.open_file(OsStr::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            file => file,
        };
        let mut bytes = Vec::new();
        let read = file.and_then(|file| file.take(MAX_GO_TRACE_BYTES).read_to_end(&mut bytes));
        Some(GoTraceFile { name, bytes: read.map(|_| bytes) })
    };
    (0..MAX_GO_TRACES).map(name_of).filter_map(one).collect()
}
