//! The cost of a probed call, entry and return, with `wakepath drill` and with other tools that probe functions in a
//! running program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::asked::{Asked, Calls, command};
use super::held::{self, By, Held};
use super::search::{Search, words};
use super::{Options, Setting, print_failed, shown};
use crate::peers::{PerfProbes, is_missing, owned, said};
use crate::statistics::{median, or_dash};
use crate::{processes, progress};

/// An empty function, and a function that calls another 32 times (`lab/workloads/asked.c`).
const FUNCTION: &str = "nothing";
const CALLER: &str = "many";
const CALLEE: &str = "child";
const CHILDREN: u64 = 32;
/// A number of calls that no chunk reaches.
const UNREACHED: &str = "1000000000";
/// The wait after the first probe is seen, until the other is attached too.
const BOTH_ENDS: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(30);

/// A way to probe a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// f0, while its calls are counted.
    Counted,
    /// A function called by f0, while the calls within f0's are measured.
    Measured,
    /// The same, by a stub in the process.
    Stubs,
    Bpftrace,
    PerfStat,
    Uftrace,
}

const TOOLS: [Tool; 6] =
    [Tool::Measured, Tool::Stubs, Tool::Counted, Tool::Bpftrace, Tool::PerfStat, Tool::Uftrace];

/// A tool in a round.
#[derive(Debug, Clone, Copy)]
struct Pair {
    alone: f64,
    with: f64,
    /// The share of calls that the tool saw, if it counts them.
    seen: Option<f64>,
}

/// A tool's rounds; `None` for a failed round.
struct Row {
    tool: Tool,
    rounds: Vec<Option<Pair>>,
}

impl Pair {
    /// The pair for `child`: a call's share of the time that the callees' probes add to a call of `many`.
    fn for_callee(alone: f64, counted: f64, measured: f64) -> Self {
        Self { alone, with: alone + (measured - counted) / CHILDREN as f64, seen: None }
    }

    fn added(&self) -> f64 {
        self.with - self.alone
    }
}

impl Row {
    fn of(&self, value: impl Fn(&Pair) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().flatten().filter_map(value).collect()
    }

    /// The ratio of this tool's added time to another's, in each round.
    fn times(&self, other: &Self) -> Vec<f64> {
        let both = self.rounds.iter().zip(&other.rounds);
        let both = both.filter_map(|(own, other)| Some((own.as_ref()?.added(), other.as_ref()?.added())));
        both.filter(|&(_, other)| other > 0.0).map(|(own, other)| own / other).collect()
    }
}

/// Prints the table.
pub fn table(setting: &Setting<'_>, options: &Options) -> Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for tool in TOOLS {
        match tool.program().filter(|program| is_missing(program)) {
            Some(program) => println!("skipped: {}: no {program} on this machine\n", tool.name()),
            None => rows.push(Row { tool, rounds: Vec::new() }),
        }
    }
    let mut failed = Vec::new();
    for round in 1..=options.rounds {
        let mut kept = Vec::new();
        for mut row in rows {
            progress(&format!("probed calls, round {round} of {}: {}", options.rounds, row.tool.name()));
            match row.tool.pair(setting, options.calls) {
                Ok(pair) => {
                    row.rounds.push(Some(pair));
                    kept.push(row);
                }
                Err(error) if row.tool.program().is_some() => {
                    println!("skipped: {}: {error:#}\n", row.tool.name());
                }
                Err(error) => {
                    failed.push(format!("{}: {error:#}", row.tool.name()));
                    row.rounds.push(None);
                    kept.push(row);
                }
            }
        }
        rows = kept;
    }
    progress("");
    print_failed(&failed);
    println!("### A probed call\n");
    println!(
        "`{}`; medians of {} rounds, the least and the most in brackets, {} calls of an empty function each\n",
        command(setting.shown, None).join(" "),
        options.rounds,
        options.calls
    );
    println!("| tool | a call takes | added to a call | times a callee's | times f0's | calls seen |");
    println!("|---|---:|---:|---:|---:|---:|");
    let of = |tool| rows.iter().find(|row: &&Row| row.tool == tool);
    for row in &rows {
        let ratio = |other: Tool| {
            let other = of(other).filter(|other| other.tool != row.tool);
            other.map_or_else(|| "–".to_owned(), |other| shown(&row.times(other), 2, ""))
        };
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            row.tool.name(),
            or_dash(median(&row.of(|pair| Some(pair.with))), |ns| format!("{ns:.0} ns")),
            shown(&row.of(|pair| Some(pair.added())), 0, " ns"),
            ratio(Tool::Measured),
            ratio(Tool::Counted),
            or_dash(median(&row.of(|pair| pair.seen)), |seen| format!("{:.0}%", seen * 100.0)),
        );
    }
    println!();
    for row in &rows {
        println!("- {}: `{}`", row.tool.name(), row.tool.command());
    }
    println!(
        "\nT08 table 8.1, on a Xeon of 2.8 GHz: in user space 4.59 µs a call (suprobes, two a call); in the kernel 2.75 \
         and 1.89 µs by two kprobes, 1.54 µs by a kprobe and a return trampoline, 0.76 µs by call and return trampolines.\n"
    );
    Ok(())
}

impl Tool {
    const fn name(self) -> &'static str {
        match self {
            Self::Counted => "wakepath drill, f0 counted",
            Self::Measured => "wakepath drill, a callee measured",
            Self::Stubs => "wakepath drill --stubs, a callee measured",
            Self::Bpftrace => "bpftrace",
            Self::PerfStat => "perf stat, the number alone",
            Self::Uftrace => "uftrace record, in user space",
        }
    }

    /// The required program, except ours.
    const fn program(self) -> Option<&'static str> {
        match self {
            Self::Counted | Self::Measured | Self::Stubs => None,
            Self::Bpftrace => Some("bpftrace"),
            Self::PerfStat => Some("perf"),
            Self::Uftrace => Some("uftrace"),
        }
    }

    const fn by(self) -> By {
        match self {
            Self::Stubs => By::Stubs,
            _ => By::Probes,
        }
    }

    /// The command line as the page shows it: ASKED is the program.
    fn command(self) -> String {
        let asked = Path::new("ASKED");
        let drill = |function: &str, arguments: &[&str]| {
            format!("wakepath {}", words(asked, function, "PID", arguments).join(" "))
        };
        match self {
            Self::Counted => drill(FUNCTION, &["--start-ops", UNREACHED]),
            Self::Measured | Self::Stubs => {
                let arguments = held::arguments(self.by());
                drill(CALLER, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Self::Bpftrace => format!("bpftrace -p PID -e '{}'", script(asked)),
            Self::PerfStat => format!(
                "perf probe -x ASKED {FUNCTION}; perf probe -x ASKED {FUNCTION}%return; {}",
                perf_stat("PID").join(" ")
            ),
            Self::Uftrace => format!("{} ASKED", uftrace(Path::new("DIR")).join(" ")),
        }
    }

    fn pair(self, setting: &Setting<'_>, calls: u64) -> Result<Pair> {
        let mut asked = Asked::start(&[], setting.program, None)?;
        let nothing = Calls { function: FUNCTION, calls, ns: 0 };
        match self {
            Self::Measured | Self::Stubs => return measured(asked, setting, self.by(), calls),
            Self::Uftrace => {
                let alone = asked.a_call_in_chunks(nothing)?;
                asked.end()?;
                return by_uftrace(alone, setting, nothing);
            }
            Self::Counted | Self::Bpftrace | Self::PerfStat => {}
        }
        let alone = asked.a_call_in_chunks(nothing)?;
        if self == Self::Counted {
            let places = &setting.places;
            let arguments = ["--start-ops", UNREACHED];
            let (wakepath, output) = (&places.wakepath, &places.output);
            let mut search =
                Search::start(wakepath, output, setting.program, FUNCTION, asked.pid, &arguments)?;
            search.until_measured(&mut asked, FUNCTION, alone, Calls { calls: 0, ..nothing })?;
            let with = asked.a_call_in_chunks(nothing)?;
            search.stop()?;
            return Ok(Pair { alone, with, seen: None });
        }
        let pid = asked.pid.to_string();
        let probes = (self == Self::PerfStat)
            .then(|| PerfProbes::put(setting.program, "asked", FUNCTION))
            .transpose()?;
        let words = match self {
            Self::Bpftrace => owned(&["bpftrace", "-p", &pid, "-e", &script(setting.program)]),
            _ => perf_stat(&pid),
        };
        let attached = Attached::start(&words)?;
        asked.until_probed(FUNCTION, alone, |_| Ok(()))?;
        // The return probe may come behind the entry probe.
        std::thread::sleep(BOTH_ENDS);
        let with = asked.a_call_in_chunks(nothing)?;
        let said = attached.stop()?;
        drop(probes);
        let seen = self.seen(&said).with_context(|| format!("no calls in: {}", said.trim()))?;
        let made = nothing.calls * super::asked::CHUNKS as u64;
        ensure!(seen >= made, "it saw {seen} of {made} calls");
        Ok(Pair { alone, with, seen: Some(1.0) })
    }

    /// The number of calls that the tool itself reports.
    fn seen(self, said: &str) -> Option<u64> {
        match self {
            Self::Bpftrace => {
                let rows = said.lines().filter(|line| line.starts_with('['));
                let counts = rows.map(|line| {
                    let (_, rest) = line.split_once([')', ']'])?;
                    rest.split_whitespace().next()?.parse::<u64>().ok()
                });
                counts.sum()
            }
            // Fewer returns than entries mean calls that it did not see whole.
            Self::PerfStat => {
                let of = |event: &str| {
                    let line = said.lines().find(|line| line.split(',').nth(2) == Some(event))?;
                    line.split(',').next()?.parse::<u64>().ok()
                };
                Some(of("probe_asked:nothing")?.min(of("probe_asked:nothing__return")?))
            }
            // `TOTAL us  SELF us  CALLS  NAME`.
            Self::Uftrace => {
                let words = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
                let row = words.into_iter().find(|words| words.last() == Some(&FUNCTION))?;
                row.get(row.len().checked_sub(2)?)?.parse().ok()
            }
            Self::Counted | Self::Measured | Self::Stubs => None,
        }
    }
}

/// The calls to `child` within calls to `many`: the time that its probes add to the probes on `many`.
fn measured(mut asked: Asked, setting: &Setting<'_>, by: By, calls: u64) -> Result<Pair> {
    // At level 0 no more calls are made than the search uses to find peaks.
    let callers =
        Calls { function: CALLER, calls: (calls / CHILDREN).clamp(1, held::MAX_CALLS_AT_LEVEL_0), ns: 0 };
    let alone = asked.a_call_in_chunks(callers)? / CHILDREN as f64;
    let mut held = Held::start(setting.places, setting.program, CALLER, &[CALLEE.to_owned()], by, asked)?;
    let counted = held.a_call(callers)?;
    held.descend()?;
    let with = held.a_call(callers)?;
    let (answer, asked) = held.finish()?;
    asked.end()?;
    ensure!(answer.is_found, "no answer below {CALLER}");
    Ok(Pair::for_callee(alone, counted, with))
}

/// uftrace starts the program: another process than in the run alone just before.
fn by_uftrace(alone: f64, setting: &Setting<'_>, nothing: Calls<'_>) -> Result<Pair> {
    let folder = setting.places.output.join("uftrace.data");
    let _ = std::fs::remove_dir_all(&folder);
    let mut asked = Asked::start(&uftrace(&folder), setting.program, None)?;
    let with = asked.a_call_in_chunks(nothing)?;
    asked.end()?;
    let report = owned(&["uftrace", "report", "-d", &folder.display().to_string()]);
    let said = said(&report);
    std::fs::remove_dir_all(&folder)?;
    let said = said?;
    let seen = Tool::Uftrace.seen(&said).with_context(|| format!("no calls in: {}", said.trim()))?;
    let made = nothing.calls * super::asked::CHUNKS as u64;
    ensure!(seen > 0, "it saw none of {made} calls");
    Ok(Pair { alone, with, seen: Some(seen as f64 / made as f64) })
}

fn script(program: &Path) -> String {
    let at = format!("{}:{FUNCTION}", program.display());
    format!("uprobe:{at} {{ @s[tid] = nsecs }} uretprobe:{at} {{ @ = hist(nsecs - @s[tid]) }}")
}

fn perf_stat(pid: &str) -> Vec<String> {
    let events = format!("probe_asked:{FUNCTION},probe_asked:{FUNCTION}__return");
    owned(&["perf", "stat", "-x", ",", "-e", &events, "-p", pid])
}

fn uftrace(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    owned(&["uftrace", "record", "-P", FUNCTION, "--no-libcall", "--no-event", "-d", &folder])
}

/// A tool attached to a running process until Ctrl-C.
struct Attached(Option<Child>);

impl Attached {
    fn start(words: &[String]) -> Result<Self> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(Some(command.spawn().with_context(|| format!("cannot run {}", words[0]))?)))
    }

    /// All its output.
    fn stop(mut self) -> Result<String> {
        let child = self.0.take().context("it has ended")?;
        let output = processes::interrupt(child, PATIENCE)?;
        let [out, err] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        Ok(format!("{out}\n{err}"))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            let _ = processes::interrupt(child, PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pair, Row, Tool};

    #[test]
    fn each_tool_says_how_many_calls_it_saw() {
        let histogram =
            "Attaching 2 probes...\n\n@:\n[256, 512)   5 |@@@  |\n[1K, 2K)     2 |@    |\n\n@s[12]: 99\n";
        let stat = "8,,probe_asked:nothing,9,100.00,,\n7,,probe_asked:nothing__return,9,100.00,,\n";
        let report = "  Total time   Self time       Calls  Function\n  ==========  ==========  ==========  ====\n   \
                      1.234 ms    1.234 ms           7  nothing\n";
        for (tool, said, seen) in [
            (Tool::Bpftrace, histogram, Some(7)),
            (Tool::Bpftrace, "@:\n[256, 512)   x |@@@  |\n", None),
            (Tool::PerfStat, stat, Some(7)),
            (Tool::PerfStat, "8,,probe_asked:nothing,9,100.00,,\n", None),
            (Tool::Uftrace, report, Some(7)),
            (Tool::Uftrace, "  Total time   Self time       Calls  Function\n", None),
        ] {
            assert_eq!(tool.seen(said), seen, "{tool:?}: {said}");
        }
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let pair = |added: f64| Some(Pair { alone: 2.0, with: 2.0 + added, seen: None });
        let ours = Row { tool: Tool::Measured, rounds: vec![pair(1000.0), None, pair(2000.0), pair(0.0)] };
        let peers =
            Row { tool: Tool::Bpftrace, rounds: vec![pair(1500.0), pair(7.0), pair(3000.0), pair(1.0)] };
        assert_eq!(peers.of(|pair| Some(pair.added())), [1500.0, 7.0, 3000.0, 1.0]);
        assert_eq!(ours.of(|pair| Some(pair.with)), [1002.0, 2002.0, 2.0]);
        assert_eq!(peers.times(&ours), [1.5, 1.5], "a round that failed or cost nothing is no measure");
    }

    #[test]
    fn a_callee_costs_its_share_of_what_its_probes_add() {
        let pair = Pair::for_callee(2.0, 1064.0, 1064.0 + 32.0 * 1500.0);
        assert_eq!((pair.alone, pair.with, pair.added()), (2.0, 1502.0, 1500.0));
    }

    #[test]
    fn commands_name_the_functions_that_are_probed() {
        assert!(
            Tool::Measured
                .command()
                .starts_with("wakepath drill ASKED:many -p PID --json --no-waits --start-ops")
        );
        assert!(Tool::Counted.command().contains("ASKED:nothing"));
        assert!(
            Tool::PerfStat.command().contains("-e probe_asked:nothing,probe_asked:nothing__return -p PID")
        );
        assert!(Tool::Uftrace.command().starts_with("uftrace record -P nothing"));
    }
}
