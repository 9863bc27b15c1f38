//! `wakepath-split`: splits a host's recording into several hosts' recordings. For developers.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use wakepath_event::Tid;
use wakepath_split::{Clock, Host, Side, split};

/// Rewrites a host's recording as recordings of several hosts, which are its network namespaces.
///
/// Each host gets its own recording, OUT/NAME, with a clock five hours ahead of the previous host's
/// and 50 millionths faster.
#[derive(Debug, Parser)]
struct Options {
    /// The recording.
    recording: PathBuf,
    /// An existing folder.
    out: PathBuf,
    /// A host: its name, its network namespace's inode, its processes.
    #[arg(long = "host", value_name = "NAME:NETNS:PID,PID", required = true)]
    hosts: Vec<String>,
    /// A process that carries packets from host to host and is on neither.
    #[arg(long, value_name = "PID")]
    wire: Vec<u32>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let hosts = options
        .hosts
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let [name, netns, processes] = text.split(':').collect::<Vec<_>>()[..] else {
                bail!("`{text}` is no NAME:NETNS:PID,PID");
            };
            let number_in =
                |text: &str| text.parse::<u32>().with_context(|| format!("`{text}` is no number"));
            let processes =
                processes.split(',').map(|pid| Ok(Tid(number_in(pid)?))).collect::<Result<_>>()?;
            let number = number as u32;
            Ok(Host {
                name: name.to_owned(),
                side: Side { netns: number_in(netns)?, processes },
                clock: Clock { ahead_ns: u64::from(number) * 18_000_000_000_000, ppm: 50 * number as i32 },
                recording: options.out.join(name),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let wire: Vec<Tid> = options.wire.iter().map(|&pid| Tid(pid)).collect();
    Ok(split(&options.recording, &hosts, &wire)?)
}
