//! Measures the time from a recorder's command line to the begin of the command that it records.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use wakepath_runner::printed;

use crate::peers::{is_missing, owned};
use crate::places::Places;
use crate::statistics::{median, or_dash, quantile};
use crate::{machine, progress};

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds; each starts the command under each recorder.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Busy threads for each CPU in the second table.
    #[arg(long, default_value_t = 10)]
    busy: usize,
    /// Print the time, ns, and end: the command that is recorded.
    #[arg(long, hide = true)]
    now: bool,
    #[command(flatten)]
    places: Places,
}

/// Prints a table for an idle machine and a table for a busy one.
pub fn run(options: &Options) -> Result<()> {
    if options.now {
        println!("{}", now_ns());
        return Ok(());
    }
    ensure!(options.rounds > 0, "nothing to run: no rounds");
    ensure!(machine::is_root(), "recording needs root\nhint: sudo make bench");
    std::fs::create_dir_all(&options.places.output).context("cannot make the folder for recordings")?;
    println!("## Start\n\nFrom the command line to the command's begin, ms; {}\n", machine::describe());
    table("idle", options)?;
    let mut busy = Vec::new();
    for _ in 0..options.busy * machine::cpus() {
        busy.push(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().context("cannot start sh")?);
    }
    let done = table(&format!("{} busy threads a CPU", options.busy), options);
    for mut one in busy {
        one.kill().and_then(|()| one.wait()).context("cannot end sh")?;
    }
    done
}

fn table(state: &str, options: &Options) -> Result<()> {
    let output = options.places.output.join("start");
    let output = output.to_str().context("a path that is no text")?;
    let wakepath = options.places.wakepath.to_str().context("a path that is no text")?;
    let recorders = [
        ("no recorder", Vec::new()),
        ("`wakepath record`", owned(&[wakepath, "record", "-o", output, "--"])),
        (
            "`wakepath record --no-calibration`",
            owned(&[wakepath, "record", "--no-calibration", "-o", output, "--"]),
        ),
        ("`perf record -a`", owned(&["perf", "record", "-q", "-a", "-o", output, "--"])),
        ("`perf sched record`", owned(&["perf", "sched", "record", "-q", "-o", output, "--"])),
    ];
    println!("| {state} | median | quickest | slowest |\n|---|---:|---:|---:|");
    for (name, words) in &recorders {
        if words.first().is_some_and(|program| is_missing(program)) {
            println!("| {name} | not on this machine | | |");
            continue;
        }
        let mut times = Vec::new();
        for round in 1..=options.rounds {
            progress(&format!("{state}, {name}, round {round} of {}", options.rounds));
            times.push(once(words)?);
            // Each begins without the files of the one before.
            let _ = std::fs::remove_file(output);
            for end in ["", ".old"] {
                let _ = std::fs::remove_dir_all(format!("{output}{end}"));
            }
        }
        let ms = |value| or_dash(value, |ms| format!("{ms:.0}"));
        let [least, most] = [0.0, 1.0].map(|share| ms(quantile(&times, share)));
        println!("| {name} | {} | {least} | {most} |", ms(median(&times)));
    }
    progress("");
    println!();
    Ok(())
}

/// The time from a recorder's command line to the begin of its command, ms.
fn once(words: &[String]) -> Result<f64> {
    let itself = std::env::current_exe().context("the bench has no path")?;
    let mut words = words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
    words.extend([itself.into(), "start".into(), "--now".into()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stderr(Stdio::null());
    let from = now_ns();
    let said = printed(&mut command)?;
    let begin =
        said.lines().find_map(|line| line.parse::<u64>().ok()).context("the command printed no time")?;
    Ok(begin.saturating_sub(from) as f64 / 1e6)
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
