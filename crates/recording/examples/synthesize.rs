//! Writes a synthetic recording: `synthesize DIR EVENTS [CPUS [THREADS_PER_CPU [SEED]]]`.

use std::path::Path;
use std::process::ExitCode;

use wakepath_recording::synthetic::{self, Machine};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| match arguments.get(index) {
        Some(text) => text.replace('_', "").parse().ok(),
        None => Some(default),
    };
    let (Some(path), Some(events), Some(cpus), Some(threads), Some(seed)) =
        (arguments.first(), number(1, 1_000_000), number(2, 4), number(3, 16), number(4, 1))
    else {
        eprintln!("usage: synthesize DIR EVENTS [CPUS [THREADS_PER_CPU [SEED]]]");
        return ExitCode::from(2);
    };
    let machine = Machine { cpus: cpus as u16, threads_per_cpu: threads as u32, events, seed };
    match synthetic::write(Path::new(path), &machine) {
        Ok(events) => {
            println!("{events} switches and wakings in {path}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}
