//! The `wakepath` program: options become a question to the engine, and its answer is printed.
//!
//! Only this crate prints and exits. Each verb has a file. The verbs share the reading of recordings
//! ([`input`]), the printing of text ([`output`]), failures ([`failure`]) and exit codes ([`exit_code`]).

mod arguments;
#[cfg(feature = "collect")]
mod collecting;
mod completion;
mod debuginfod;
#[cfg(feature = "collect")]
mod doctor;
#[cfg(feature = "collect")]
mod drill;
mod exit_code;
mod export;
mod failure;
mod file;
#[cfg(feature = "collect")]
mod flight;
mod help;
mod info;
mod input;
mod latency;
mod man;
mod output;
mod parse;
mod path;
mod plugin;
#[cfg(feature = "collect")]
mod record;
mod requests;
#[cfg(feature = "collect")]
mod starting;
mod sync;
#[cfg(feature = "collect")]
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Verb};
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    #[cfg(feature = "collect")]
    wakepath_live::record::keep_child_status();
    let arguments = Arguments::parse();
    let output = Output::new(arguments.colour);
    let result = match &arguments.verb {
        #[cfg(feature = "collect")]
        Verb::Record(record) => record::run(record, &output),
        #[cfg(feature = "collect")]
        Verb::Trigger(trigger) => flight::run(trigger, &output),
        Verb::Path(path) => path::run(path, &output),
        Verb::Info(info) => info::run(info, &output),
        #[cfg(feature = "collect")]
        Verb::Doctor(doctor) => doctor::run(doctor, &output),
        Verb::Requests(requests) => requests::run(requests, &output),
        Verb::Latency(latency) => latency::run(latency, &output),
        #[cfg(feature = "collect")]
        Verb::Drill(drill) => drill::run(drill, &output),
        #[cfg(feature = "collect")]
        Verb::Watch(watch) => watch::run(watch, &output),
        Verb::Plugin(plugin) => plugin::run(plugin, &output),
        Verb::Export(export) => export::run(export, &output),
        Verb::Sync(sync) => sync::run(sync, &output),
        Verb::Completion(completion) => completion::run(completion, Arguments::command(), &output),
        Verb::Man => man::run(Arguments::command(), &output),
    };
    result.unwrap_or_else(|failure: Failure| failure.report(&output))
}
