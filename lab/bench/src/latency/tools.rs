//! The tools that report call latencies, as a person would run them, and their output.

use std::path::Path;

use anyhow::{Context, Result};
use wakepath_runner::alone;

use super::Run;
use crate::peers::{PerfProbes, is_missing, owned, said};

/// The paths of programs and files.
pub struct Paths<'a> {
    /// `lab/workloads/bin/calls`, by its absolute path.
    pub calls: &'a Path,
    pub wakepath: &'a Path,
    pub output: &'a Path,
}

/// The calls with measured latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// `counted` in the load, which does next to nothing.
    Function,
    /// `getcpu`.
    SystemCall,
}

/// The measuring tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Wakepath,
    Bpftrace,
    /// Every entry and return as an event; a script would compute their latencies.
    PerfRecord,
    /// The number of calls alone.
    PerfStat,
    PerfTrace,
}

impl Question {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Function => "calls of a function",
            Self::SystemCall => "calls of `getcpu`",
        }
    }

    pub const fn tools(self) -> &'static [Tool] {
        match self {
            Self::Function => &[Tool::Wakepath, Tool::Bpftrace, Tool::PerfRecord, Tool::PerfStat],
            Self::SystemCall => &[Tool::Wakepath, Tool::Bpftrace, Tool::PerfTrace],
        }
    }

    /// The command that makes the calls.
    pub fn load(self, place: &Paths<'_>, calls: u64) -> Vec<String> {
        let flag = match self {
            Self::Function => format!("functions={calls}"),
            Self::SystemCall => format!("syscalls={calls}"),
        };
        let program = place.calls.display().to_string();
        [alone(), vec![program, flag]].concat()
    }

    pub fn alone(self, place: &Paths<'_>, calls: u64) -> Result<Run> {
        let said = said(&self.load(place, calls))?;
        Ok(Run { a_call: self.a_call(&said, calls)?, counted: None })
    }

    fn a_call(self, said: &str, calls: u64) -> Result<f64> {
        let name = match self {
            Self::Function => "functions_ns",
            Self::SystemCall => "syscalls_ns",
        };
        let line = said.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().parse::<f64>().ok());
        Ok(line.with_context(|| format!("no {name} in: {}", said.trim()))? / calls as f64)
    }
}

impl Tool {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wakepath => "wakepath latency",
            Self::Bpftrace => "bpftrace",
            Self::PerfRecord => "perf record, for a script to join",
            Self::PerfStat => "perf stat, the number alone",
            Self::PerfTrace => "perf trace -s",
        }
    }

    /// The required program, if it is missing.
    pub fn missing(self) -> Option<&'static str> {
        let program = match self {
            Self::Wakepath => return None,
            Self::Bpftrace => "bpftrace",
            Self::PerfRecord | Self::PerfStat | Self::PerfTrace => "perf",
        };
        is_missing(program).then_some(program)
    }

    /// The command line as the page shows it: CALLS is the program, LOAD the command that runs it.
    pub fn command(self, question: Question) -> String {
        let place =
            Paths { calls: Path::new("CALLS"), wakepath: Path::new("wakepath"), output: Path::new(".") };
        let words = self.words(question, &place, &[String::from("LOAD")]);
        let quoted =
            words.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() });
        let run = quoted.collect::<Vec<_>>().join(" ");
        match self {
            Self::PerfRecord | Self::PerfStat => {
                format!("perf probe -x CALLS counted; perf probe -x CALLS counted%return; {run}")
            }
            _ => run,
        }
    }

    fn words(self, question: Question, place: &Paths<'_>, load: &[String]) -> Vec<String> {
        let calls = place.calls.display();
        let wakepath = place.wakepath.display().to_string();
        let data = place.output.join("perf.data").display().to_string();
        let events = "probe_calls:counted,probe_calls:counted__return";
        let own = match self {
            Self::Wakepath => {
                let target = match question {
                    Question::Function => format!("{calls}:counted"),
                    Question::SystemCall => "syscall:getcpu".to_owned(),
                };
                owned(&[&wakepath, "latency", &target, "--json", "--"])
            }
            Self::Bpftrace => {
                let [enter, leave] = match question {
                    Question::Function => {
                        [format!("uprobe:{calls}:counted"), format!("uretprobe:{calls}:counted")]
                    }
                    Question::SystemCall => {
                        ["enter", "exit"].map(|end| format!("tracepoint:syscalls:sys_{end}_getcpu"))
                    }
                };
                let script = format!("{enter} {{ @s[tid] = nsecs }} {leave} {{ @ = hist(nsecs - @s[tid]) }}");
                return owned(&["bpftrace", "-e", &script, "-c", &absolute(load).join(" ")]);
            }
            Self::PerfRecord => owned(&["perf", "record", "-m", "64M", "-e", events, "-o", &data, "--"]),
            Self::PerfStat => owned(&["perf", "stat", "-x", ",", "-e", events, "--"]),
            Self::PerfTrace => owned(&["perf", "trace", "-s", "-e", "getcpu", "--"]),
        };
        [&own[..], load].concat()
    }

    pub fn run(self, question: Question, place: &Paths<'_>, calls: u64) -> Result<Run> {
        let probes = matches!(self, Self::PerfRecord | Self::PerfStat)
            .then(|| PerfProbes::put(place.calls, "calls", "counted"))
            .transpose()?;
        let answer = said(&self.words(question, place, &question.load(place, calls)));
        drop(probes);
        if self == Self::PerfRecord {
            let _ = std::fs::remove_file(place.output.join("perf.data"));
        }
        let answer = answer?;
        Ok(Run { a_call: question.a_call(&answer, calls)?, counted: self.counted(&answer) })
    }

    /// The number of calls that the tool itself reports.
    fn counted(self, said: &str) -> Option<u64> {
        match self {
            Self::Wakepath => {
                let line = said.lines().find(|line| line.starts_with('{'))?;
                serde_json::from_str::<serde_json::Value>(line).ok()?["targets"][0]["count"].as_u64()
            }
            Self::Bpftrace => {
                let counts = said.lines().filter(|line| line.starts_with('[')).filter_map(|line| {
                    let (_, rest) = line.split_once([')', ']'])?;
                    rest.split_whitespace().next()?.parse::<u64>().ok()
                });
                Some(counts.sum())
            }
            // Each call is two events.
            Self::PerfRecord => {
                let (before, _) = said.split_once(" samples)")?;
                Some(before.rsplit_once('(')?.1.parse::<u64>().ok()? / 2)
            }
            Self::PerfStat => {
                let line = said.lines().find(|line| line.contains("probe_calls:counted,"))?;
                line.split(',').next()?.parse().ok()
            }
            Self::PerfTrace => {
                let mut rows = said.lines().filter_map(|line| line.trim().strip_prefix("getcpu "));
                rows.next()?.split_whitespace().next()?.parse().ok()
            }
        }
    }
}

/// bpftrace refuses a program name found in two folders of the search path.
fn absolute(words: &[String]) -> Vec<String> {
    let mut words = words.to_vec();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(&words[0])).find(|path| path.is_file());
    if let Some(found) = found {
        words[0] = found.display().to_string();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Question, Tool};

    #[test]
    fn each_tool_says_how_many_calls_it_saw() {
        for (tool, said, counted) in [
            (Tool::Wakepath, "functions 7\n{\"targets\":[{\"count\":7}]}\n", Some(7)),
            (Tool::Bpftrace, "@:\n[256, 512)   5 |@@@  |\n[1K, 2K)     2 |@    |\n\n@s[12]: 99\n", Some(7)),
            (
                Tool::PerfRecord,
                "[ perf record: Captured and wrote 0.1 MB perf.data (14 samples) ]\n",
                Some(7),
            ),
            (
                Tool::PerfStat,
                "7,,probe_calls:counted,9,100.00,,\n8,,probe_calls:counted__return,9,100.00,,\n",
                Some(7),
            ),
            (Tool::PerfTrace, "   syscall  calls\n   getcpu        7      0    11.1\n", Some(7)),
            (Tool::PerfRecord, "", None),
            (Tool::Wakepath, "", None),
        ] {
            assert_eq!(tool.counted(said), counted, "{tool:?}");
        }
    }

    #[test]
    fn the_load_says_how_long_its_calls_took() {
        let said = "functions 100\nfunctions_ns 5000\nsyscalls_ns 0\n";
        assert_eq!(Question::Function.a_call(said, 100).ok(), Some(50.0));
        assert!(Question::Function.a_call("functions 100", 100).is_err());
    }
}
