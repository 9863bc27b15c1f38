//! A search that is held at a level while its cost is measured there (T08 §8.2 does the same).
//!
//! A level ends with calls in the peak, and the peak consists of slow calls, made only on request: between them, fast calls
//! are measured by the level's probes, and decide nothing.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use wakepath_process::Process;

use super::asked::{Asked, Calls};
use super::search::{Answer, Search};
use crate::places::Places;

/// A slow call's time, ns: the middle of a bucket, far above the probes' cost.
pub const SLOW_NS: u64 = 3 << 20;
/// The number of calls in which f0's peaks are found, with slow calls among them as a second peak.
const START_OPS: u64 = 20_000;
const SLOW_OF_THEM: u64 = 100;
/// The size of a chunk at level 0: all chunks and looks together are fewer than the calls in which peaks are found.
pub const MAX_CALLS_AT_LEVEL_0: u64 = START_OPS / 8;
/// Fast calls between two looks whether the peak is chosen, and slow calls between two looks whether a level is decided.
const FAST_FEED: u64 = 2000;
const SLOW_FEED: u64 = 2;
/// Slow calls that decide a level: many more than come before the level's beginning is seen.
const DECISION_CALLS: u64 = 20;

/// The way in which calls below f0 are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Probes,
    /// Code in the process: other callers' calls take no longer, so only the changed code shows it.
    Stubs,
}

/// The longest time until stubs are inserted, and the time after it until they measure.
const PATIENCE: Duration = Duration::from_secs(20);
const SETTLED: Duration = Duration::from_millis(300);

pub struct Held<'a> {
    function: &'a str,
    /// The program's code at this level, if stubs measure.
    code: Option<Vec<u8>>,
    asked: Asked,
    search: Search,
    /// A function on each level below, and its calls' time before the search.
    below: Vec<(String, f64)>,
    level: usize,
}

/// The arguments behind every search's common arguments.
pub fn arguments(by: By) -> Vec<String> {
    let (start, decision) = (START_OPS.to_string(), DECISION_CALLS.to_string());
    let mut words = vec!["--start-ops", &start, "--decision-calls", &decision, "--max-depth", "16"];
    if by == By::Stubs {
        words.push("--stubs");
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Waits until stubs are inserted: until the program's code has changed and settled. Returns the code.
pub fn until_changed(
    search: &mut Search,
    asked: &mut Asked,
    before: &[u8],
    feed: Calls<'_>,
) -> Result<Vec<u8>> {
    let began = Instant::now();
    while code(asked.pid)? == before {
        ensure!(search.runs()?, "the search ended before");
        if began.elapsed() > PATIENCE {
            bail!("no stub within {} s", PATIENCE.as_secs());
        }
        asked.a_call(feed)?;
    }
    std::thread::sleep(SETTLED);
    code(asked.pid)
}

/// The code of a process's program, as in its memory.
pub fn code(pid: u32) -> Result<Vec<u8>> {
    let process = Process::open(pid)?;
    let mapping = process.mappings()?.into_iter().find(|it| it.permissions == *b"r-xp").context("no code")?;
    let Range { start, end } = mapping.addresses;
    Ok(process.memory()?.bytes(start, end - start)?)
}

impl<'a> Held<'a> {
    /// Starts a search below a function. It is at level 0: its calls are counted, and nothing below it is probed. `below` has
    /// a measured function for each level from 1 on.
    pub fn start(
        places: &Places,
        program: &Path,
        function: &'a str,
        below: &[String],
        by: By,
        mut asked: Asked,
    ) -> Result<Self> {
        let alone = asked.look(function)?;
        let below =
            below.iter().map(|name| Ok((name.clone(), asked.look(name)?))).collect::<Result<Vec<_>>>()?;
        let arguments = arguments(by);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Places { wakepath, output, .. } = places;
        let mut search = Search::start(wakepath, output, program, function, asked.pid, &arguments)?;
        let nothing = Calls { function, calls: 0, ns: 0 };
        search.until_measured(&mut asked, function, alone, nothing)?;
        asked.a_call(Calls { function, calls: SLOW_OF_THEM, ns: SLOW_NS })?;
        // Now f0 has its probes.
        let code = (by == By::Stubs).then(|| code(asked.pid)).transpose()?;
        Ok(Self { function, code, asked, search, below, level: 0 })
    }

    /// Goes a level down. At level 0 there may be no more calls than the search uses to find peaks.
    pub fn descend(&mut self) -> Result<()> {
        let function = self.function;
        let (below, alone) = self.below.get(self.level).cloned().context("there is no level below")?;
        let (below, alone) = (below.as_str(), &alone);
        let feed = match self.level {
            0 => Calls { function, calls: FAST_FEED, ns: 0 },
            _ => Calls { function, calls: SLOW_FEED, ns: SLOW_NS },
        };
        let measured = match &mut self.code {
            Some(code) => until_changed(&mut self.search, &mut self.asked, code, feed).map(|now| *code = now),
            None => self.search.until_measured(&mut self.asked, below, *alone, feed),
        };
        self.level += 1;
        measured.with_context(|| format!("level {} below {function}", self.level))
    }

    /// A call's time at this level, ns. An error if the search went on meanwhile.
    pub fn a_call(&mut self, calls: Calls<'_>) -> Result<f64> {
        let time = self.asked.a_call_in_chunks(calls)?;
        self.stays()?;
        Ok(time)
    }

    /// An error if the search has left this level.
    pub fn stays(&mut self) -> Result<()> {
        let (function, level) = (self.function, self.level);
        ensure!(self.search.runs()?, "the search below {function} ended at level {level}");
        if let Some(before) = &self.code {
            ensure!(
                code(self.asked.pid)? == *before,
                "the search below {function} left level {level} too early"
            );
        } else if let Some((below, alone)) = self.below.get(level) {
            let left = self.asked.sees_probe(below, *alone)?;
            ensure!(!left, "the search below {function} left level {level} too early");
        }
        Ok(())
    }

    /// The workload.
    pub fn asked(&mut self) -> &mut Asked {
        &mut self.asked
    }

    /// Lets the search go on to its answer, and returns the workload.
    pub fn finish(mut self) -> Result<(Answer, Asked)> {
        let feed = Calls { function: self.function, calls: SLOW_FEED, ns: SLOW_NS };
        while self.search.runs()? {
            self.asked.a_call(feed)?;
        }
        let answer = self.search.answer()?;
        ensure!(answer.calls >= START_OPS, "the search saw {} calls alone", answer.calls);
        Ok((answer, self.asked))
    }
}
