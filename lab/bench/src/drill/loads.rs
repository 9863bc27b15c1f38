//! Loads like real programs: stat() on a file in memory (T08 §8.3), and random reads from a disk (T08 §8.4).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::asked::{Asked, Calls, command};
use super::held::{By, code, until_changed};
use super::search::{Answer, Search, words};
use super::{Options, Setting, print_failed, shown};
use crate::statistics::{median, or_dash};
use crate::{processes, progress};

/// A search that goes on while its cost is measured: it would decide only after more calls than are made.
const UNDECIDED: [&str; 4] = ["--start-ops", "200", "--decision-calls", "1000000"];
/// The read file's size, bytes.
const FILE: usize = 64 << 20;

/// A load: the called function, an empty function below it, and the calls in a chunk.
struct Load {
    name: &'static str,
    function: &'static str,
    below: &'static str,
    calls: u64,
    by: By,
    paper: &'static str,
}

impl Load {
    /// The option that chooses its measurement.
    fn option(&self) -> &'static [&'static str] {
        match self.by {
            By::Probes => &[],
            By::Stubs => &["--stubs"],
        }
    }
}

const LOADS: [Load; 3] = [
    Load {
        name: "stat() of a file in memory",
        function: "examine",
        below: "weigh",
        calls: 10_000,
        by: By::Probes,
        paper: "49.5%, 1.1 µs (figure 8.5, in the kernel by call trampolines; first by kprobes 7.7 times as long)",
    },
    Load {
        name: "the same by --stubs",
        function: "examine",
        below: "weigh",
        calls: 10_000,
        by: By::Stubs,
        paper: "",
    },
    Load {
        name: "reads of 4 KiB at random",
        function: "read_block",
        below: "choose",
        calls: 800,
        by: By::Probes,
        paper: "none to be seen (figure 8.7, reads of 14 ms)",
    },
];

/// A program's calls alone and during a search from its start to its answer.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// A call alone, ns: the mean of before and after.
    pub alone: f64,
    /// A call meanwhile, ns: the mean of all, including calls before the first probe.
    pub with: f64,
    /// The calls meanwhile.
    pub calls: f64,
    /// From the start of `wakepath` to its end.
    pub seconds: f64,
    /// From the first probe to the answer, and the calls seen in this time.
    pub probed_seconds: f64,
    pub probed_calls: f64,
    pub most_probed: f64,
}

impl Beside {
    /// `times` has a call's time in each chunk of `chunk` calls.
    fn of(around: [f64; 2], times: &[f64], chunk: u64, seconds: f64, answer: &Answer) -> Self {
        Self {
            alone: around.iter().sum::<f64>() / 2.0,
            with: times.iter().sum::<f64>() / times.len() as f64,
            calls: times.len() as f64 * chunk as f64,
            seconds,
            probed_seconds: answer.seconds,
            probed_calls: answer.calls as f64,
            most_probed: answer.most_probed as f64,
        }
    }

    /// The total time added to the calls, ms.
    pub fn lost_ms(&self) -> f64 {
        (self.with - self.alone) * self.calls / 1e6
    }
}

/// A round of a load.
#[derive(Debug, Clone, Copy)]
struct Round {
    alone: f64,
    held: f64,
    search: Beside,
}

impl Round {
    /// A call's additional time while the search measures, percent.
    fn overhead(&self) -> f64 {
        (self.held / self.alone - 1.0) * 100.0
    }

    /// The same, µs.
    fn added_us(&self) -> f64 {
        (self.held - self.alone) / 1e3
    }
}

/// Runs a search from its start to its answer beside calls to its function.
pub fn beside(
    asked: &mut Asked,
    setting: &Setting<'_>,
    calls: Calls<'_>,
    arguments: &[&str],
) -> Result<(Beside, Answer)> {
    let before = asked.a_call_in_chunks(calls)?;
    let (wakepath, output) = (&setting.places.wakepath, &setting.places.output);
    let mut search = Search::start(wakepath, output, setting.program, calls.function, asked.pid, arguments)?;
    let mut times = Vec::new();
    while search.runs()? {
        times.push(asked.a_call(calls)?);
    }
    let seconds = search.elapsed().as_secs_f64();
    let answer = search.answer()?;
    let after = asked.a_call_in_chunks(calls)?;
    ensure!(!times.is_empty(), "the search ended at once");
    Ok((Beside::of([before, after], &times, calls.calls, seconds, &answer), answer))
}

/// Prints the table.
pub fn table(setting: &Setting<'_>, options: &Options) -> Result<()> {
    let file = Removed(setting.places.output.join("drill.data"));
    write(&file.0)?;
    let mut rounds = LOADS.each_ref().map(|_| Vec::new());
    let mut failed = Vec::new();
    let mut way = "";
    for round in 1..=options.rounds {
        for (load, rounds) in LOADS.iter().zip(&mut rounds) {
            progress(&format!("loads, round {round} of {}: {}", options.rounds, load.name));
            let mut asked = Asked::start(&[], setting.program, Some(&file.0))?;
            way = if asked.is_direct { "past the page cache" } else { "whose pages are dropped before each" };
            match one(setting, load, &mut asked) {
                Ok(round) => rounds.push(round),
                Err(error) => failed.push(format!("{}: {error:#}", load.name)),
            }
            asked.end()?;
        }
    }
    progress("");
    print_failed(&failed);
    println!("### stat() and reads at random\n");
    println!(
        "`{}`, reads {way}; chunks of {} and {} calls; medians of {} rounds, the least and the most in brackets. *While it measures*: a search \
         that is kept at level 1, as T08 keeps it at work for the whole run. *Until the answer*: a search with the parameters that it has by default; \
         *time lost* from the start of `wakepath` to its end.\n",
        command(setting.shown, Some(Path::new("FILE"))).join(" "),
        LOADS[0].calls,
        LOADS[2].calls,
        options.rounds,
    );
    print!("{}", rows(&LOADS, &rounds));
    println!();
    for load in &LOADS {
        let line = |arguments: &[&str]| words(setting.shown, load.function, "PID", arguments).join(" ");
        println!(
            "- {}: `wakepath {}`; until the answer `wakepath {}`",
            load.name,
            line(&[&UNDECIDED, load.option()].concat()),
            line(load.option())
        );
    }
    println!();
    Ok(())
}

fn rows(loads: &[Load], rounds: &[Vec<Round>]) -> String {
    let mut text = String::from(
        "| load | calls a second alone | while it measures | overhead | added to a call | T08 | until the answer | time lost |\n\
         |---|---:|---:|---:|---:|---|---:|---:|\n",
    );
    for (load, rounds) in loads.iter().zip(rounds) {
        let of = |value: &dyn Fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
        let rate = |ns: Vec<f64>| or_dash(median(&ns), |ns| format!("{:.0}", 1e9 / ns));
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} of {} |\n",
            load.name,
            rate(of(&|round| round.alone)),
            rate(of(&|round| round.held)),
            shown(&of(&Round::overhead), 1, "%"),
            shown(&of(&Round::added_us), 1, " µs"),
            load.paper,
            shown(&of(&|round| round.search.probed_seconds), 2, " s"),
            shown(&of(&|round| round.search.lost_ms()), 0, " ms"),
            shown(&of(&|round| round.search.seconds), 1, " s"),
        );
    }
    text
}

fn one(setting: &Setting<'_>, load: &Load, asked: &mut Asked) -> Result<Round> {
    let calls = Calls { function: load.function, calls: load.calls, ns: 0 };
    let below = asked.look(load.below)?;
    let before = asked.a_call_in_chunks(calls)?;
    let (wakepath, output) = (&setting.places.wakepath, &setting.places.output);
    let f0 = asked.look(load.function)?;
    let arguments = [&UNDECIDED, load.option()].concat();
    let mut search = Search::start(wakepath, output, setting.program, load.function, asked.pid, &arguments)?;
    let feed = Calls { calls: load.calls / 10, ..calls };
    match load.by {
        By::Probes => search.until_measured(asked, load.below, below, feed)?,
        By::Stubs => {
            // Without calls the search stays at f0, whose probes change the code too.
            search.until_measured(asked, load.function, f0, Calls { calls: 0, ..calls })?;
            let before = code(asked.pid)?;
            until_changed(&mut search, asked, &before, feed)?;
        }
    }
    let held = asked.a_call_in_chunks(calls)?;
    search.stop()?;
    let after = asked.a_call_in_chunks(calls)?;
    let (search, _) = beside(asked, setting, Calls { calls: load.calls / 5, ..calls }, load.option())?;
    Ok(Round { alone: (before + after) / 2.0, held, search })
}

/// A file that is removed on drop.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes the file, and waits until it is on the disk. Its blocks are not zeros, which some file systems do not store.
fn write(path: &Path) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let block: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for _ in 0..FILE / block.len() {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    processes::settle(std::time::Duration::from_millis(50));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Answer, Beside, LOADS, Round, rows};

    #[test]
    fn a_search_is_beside_the_calls_before_and_after_it() {
        let answer = Answer { path: None, is_found: true, calls: 150, seconds: 0.5, most_probed: 3 };
        let beside = Beside::of([900.0, 1100.0], &[1000.0, 3000.0], 100, 2.0, &answer);
        assert_eq!((beside.alone, beside.with, beside.calls), (1000.0, 2000.0, 200.0));
        assert_eq!((beside.seconds, beside.probed_seconds, beside.probed_calls), (2.0, 0.5, 150.0));
        assert!((beside.lost_ms() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn the_overhead_is_beside_the_same_rounds_run_alone() {
        let search = Beside {
            alone: 1000.0,
            with: 1100.0,
            calls: 1e6,
            seconds: 1.5,
            probed_seconds: 0.5,
            probed_calls: 2e5,
            most_probed: 3.0,
        };
        let round = |alone, held| Round { alone, held, search };
        assert!((round(1000.0, 1500.0).overhead() - 50.0).abs() < 1e-9);
        let of_first = vec![round(1000.0, 1500.0), round(2000.0, 3200.0), round(1000.0, 1550.0)];
        let rounds = [of_first, Vec::new(), Vec::new()];
        let text = rows(&LOADS, &rounds);
        let row = text.lines().nth(2).expect("a row");
        assert_eq!(
            row.replace(LOADS[0].paper, "T08's"),
            "| stat() of a file in memory | 1000000 | 645161 | 55.0% (50.0 to 60.0) | 0.6 µs (0.5 to 1.2) | T08's | 0.50 s (0.50 to 0.50) | 100 ms (100 to 100) of 1.5 s (1.5 to 1.5) |"
        );
        assert!(text.lines().nth(3).is_some_and(|row| row.contains("| – | – | – |")), "{text}");
    }
}
