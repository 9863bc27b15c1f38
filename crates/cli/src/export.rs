//! `wakepath export`: a recording in another tool's format.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use wakepath_engine::{Algorithm, Answer, path};
use wakepath_report::perfetto;

use crate::failure::Failure;
use crate::file;
use crate::input::Input;
use crate::output::Output;
use crate::path::WindowArguments;

/// Write the recording in the format of another tool, with the path as separate tracks
///
/// https://ui.perfetto.dev opens a Perfetto trace, and keeps it in the browser.
#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    input: Input,
    /// The format
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// The file to write; `-` for stdout
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "wakepath.perfetto-trace")]
    output: PathBuf,
    #[command(flatten)]
    window: WindowArguments,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Perfetto's protocol buffers
    Perfetto,
}

/// Reads the recording and writes it in the other format.
pub fn run(arguments: &ExportArguments, output: &Output) -> Result<ExitCode, Failure> {
    let recorded = arguments.input.read()?;
    let answer = path(&recorded, &arguments.window.query(Algorithm::default()))?;
    let paths = match &answer {
        Answer::Paths(paths) => paths.as_slice(),
        // No single window: thread states alone.
        Answer::Overview(_) => &[],
    };
    let Format::Perfetto = arguments.format;
    if arguments.output == Path::new("-") {
        output.write(|out| perfetto(&recorded, paths, out))?;
        return Ok(ExitCode::SUCCESS);
    }
    file::write(&arguments.output, |file| {
        let mut out = BufWriter::new(file);
        perfetto(&recorded, paths, &mut out).and_then(|()| out.flush())
    })?;
    output.note(&format!("wrote {}: open it at https://ui.perfetto.dev", arguments.output.display()));
    Ok(ExitCode::SUCCESS)
}
