//! Says where functions would be probed: `cargo run -p wakepath-functions --example where libc:malloc`.

use std::process::ExitCode;

use wakepath_functions::{Finder, Target};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(target) = args.next() else {
        eprintln!("usage: where FILE:FUNCTION [PID…]");
        return ExitCode::from(2);
    };
    let processes: Vec<u32> = args.filter_map(|pid| pid.parse().ok()).collect();
    let found = match Target::parse(&target).map(|target| Finder::new(&processes).find(&target)) {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    for function in found.functions {
        let probe = &function.probe;
        println!(
            "{} {} {:#x} {:?} {:?}",
            function.readable,
            probe.file.display(),
            probe.offset,
            probe.method,
            probe.returns
        );
        println!("    at {:#x}, {} bytes, {:?}", function.address, function.size, function.names);
        for note in function.notes {
            println!("    note: {note}");
        }
    }
    for refusal in found.refused {
        println!("{refusal}");
    }
    ExitCode::SUCCESS
}
