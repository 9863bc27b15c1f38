//! The `wakepath` program: what was typed becomes a question to the engine, its answer a view.
//!
//! Alone in the workspace it prints and exits. Each verb has a file; what they share is how a
//! recording is found ([`input`]), how text leaves ([`output`]) and how failures are told ([`failure`]).

mod arguments;
mod completion;
#[cfg(feature = "collect")]
mod doctor;
mod export;
mod failure;
mod file;
mod info;
mod input;
mod latency;
mod man;
mod output;
mod path;
#[cfg(feature = "collect")]
mod record;
mod recorded_latency;
mod sync;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Verb};
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new(arguments.colour);
    let result = match &arguments.verb {
        #[cfg(feature = "collect")]
        Verb::Record(record) => record::run(record, &output),
        Verb::Path(path) => path::run(path, &output),
        Verb::Info(info) => info::run(info, &output),
        #[cfg(feature = "collect")]
        Verb::Doctor(doctor) => doctor::run(doctor, &output),
        Verb::Latency(latency) => latency::run(latency, &output),
        Verb::Export(export) => export::run(export, &output),
        Verb::Sync(sync) => sync::run(sync, &output),
        Verb::Completion(completion) => completion::run(completion, &output),
        Verb::Man => man::run(&output),
    };
    result.unwrap_or_else(|failure: Failure| failure.tell(&output))
}
