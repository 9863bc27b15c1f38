//! `lab/workloads/asked.c`: a process that calls functions on request, and prints their times.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::load::LOAD_CPU;
use crate::statistics::median;

/// Real-time, so that no daily work on the machine interferes.
const PRIORITY: usize = 50;
/// Calls per look whether a function is probed.
const LOOK: u64 = 50;
/// A probed call takes longer by at least this time, ns, and by this part of its own time.
const LEAST_NS: f64 = 30.0;
const LEAST_PART: f64 = 0.5;
/// A hiccup of the machine is no probe: a probe is seen at this number of looks in a row.
const LOOKS: usize = 3;
/// Chunks of calls; their median counts.
pub const CHUNKS: usize = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);

/// The process; it ends on drop.
pub struct Asked {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub pid: u32,
    /// Whether reads bypass the page cache, as the process reports.
    pub is_direct: bool,
}

/// Calls to a function, each computing for `ns`.
#[derive(Debug, Clone, Copy)]
pub struct Calls<'a> {
    pub function: &'a str,
    pub calls: u64,
    pub ns: u64,
}

/// Call latencies, as the process stamped them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamped {
    /// The calls from 2^bucket to below 2^(bucket+1) ns, in order.
    pub buckets: Vec<(usize, u64)>,
}

impl Asked {
    /// Starts it, behind the words of `tool` if a tool runs it.
    pub fn start(tool: &[String], program: &Path, file: Option<&Path>) -> Result<Self> {
        let mut words = tool.to_vec();
        words.extend(command(program, file));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", words[0]))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut asked = Self { child, stdin, stdout, pid: 0, is_direct: false };
        let first = asked.line().with_context(|| format!("`{}` did not begin", words.join(" ")))?;
        let (pid, way) = first.split_once(' ').with_context(|| format!("no process number in {first:?}"))?;
        asked.pid = pid.parse().with_context(|| format!("no process number in {first:?}"))?;
        asked.is_direct = way == "direct";
        Ok(asked)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.stdout.read_line(&mut line)? > 0, "the workload ended early");
        Ok(line.trim().to_owned())
    }

    fn ask(&mut self, how: &str, calls: Calls<'_>) -> Result<String> {
        let stdin = self.stdin.as_mut().context("the workload has ended")?;
        writeln!(stdin, "{how} {} {} {}", calls.function, calls.calls, calls.ns)?;
        self.line()
    }

    /// A call's time, ns: the mean of all.
    pub fn a_call(&mut self, calls: Calls<'_>) -> Result<f64> {
        let answer = self.ask("all", calls)?;
        let ns: f64 = answer.parse().with_context(|| format!("no time in {answer:?}"))?;
        Ok(ns / calls.calls.max(1) as f64)
    }

    /// A call's time, ns: the median of several chunks.
    pub fn a_call_in_chunks(&mut self, calls: Calls<'_>) -> Result<f64> {
        let times: Vec<f64> = (0..CHUNKS).map(|_| self.a_call(calls)).collect::<Result<_>>()?;
        median(&times).context("no chunks")
    }

    /// The latencies of calls.
    pub fn stamped(&mut self, calls: Calls<'_>) -> Result<Stamped> {
        let answer = self.ask("each", calls)?;
        Stamped::parse(&answer).with_context(|| format!("no buckets in {answer:?}"))
    }

    /// A call's time without computing, for later looks whether the function is probed.
    pub fn look(&mut self, function: &str) -> Result<f64> {
        self.a_call(Calls { function, calls: LOOK, ns: 0 })
    }

    /// Whether calls to a function take longer than `alone`: it is probed.
    pub fn sees_probe(&mut self, function: &str, alone: f64) -> Result<bool> {
        for _ in 0..LOOKS {
            if !is_probed(self.look(function)?, alone) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until a function is probed. `meanwhile` is called before each look.
    pub fn until_probed(
        &mut self,
        function: &str,
        alone: f64,
        mut meanwhile: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            meanwhile(self)?;
            if self.sees_probe(function, alone)? {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("`{function}` was not probed within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Ends it, and waits until it and its tool have ended.
    pub fn end(mut self) -> Result<()> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the workload ended with {status}");
        Ok(())
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

impl Stamped {
    /// Reads `NS BUCKET:CALLS ...`.
    fn parse(answer: &str) -> Option<Self> {
        let mut words = answer.split_whitespace();
        words.next()?.parse::<u64>().ok()?;
        let bucket = |word: &str| {
            let (bucket, calls) = word.split_once(':')?;
            Some((bucket.parse().ok()?, calls.parse().ok()?))
        };
        Some(Self { buckets: words.map(bucket).collect::<Option<_>>()? })
    }

    /// The middle call's bucket; with two middle calls, the longer call's.
    pub fn middle(&self) -> Option<usize> {
        let half = self.buckets.iter().map(|(_, calls)| calls).sum::<u64>() / 2;
        let mut below = 0;
        self.buckets.iter().find_map(|&(bucket, calls)| {
            below += calls;
            (below > half).then_some(bucket)
        })
    }
}

/// The command line.
pub fn command(program: &Path, file: Option<&Path>) -> Vec<String> {
    let mut words = vec![program.display().to_string()];
    words.extend([format!("cpu={LOAD_CPU}"), format!("priority={PRIORITY}")]);
    words.extend(file.map(|file| format!("file={}", file.display())));
    words
}

fn is_probed(now: f64, alone: f64) -> bool {
    now > alone + f64::max(LEAST_NS, alone * LEAST_PART)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Asked, Calls, Stamped, is_probed};

    #[test]
    fn latencies_are_read_and_have_a_middle() {
        let stamped = |answer| Stamped::parse(answer);
        assert_eq!(
            stamped("484690 8:997 9:2 14:1"),
            Some(Stamped { buckets: vec![(8, 997), (9, 2), (14, 1)] })
        );
        assert_eq!(stamped("0"), Some(Stamped::default()));
        for bad in ["", "x 8:1", "5 8", "5 8:x", "5 :1", "5 -1:1"] {
            assert_eq!(stamped(bad), None, "{bad}");
        }
        let middle = |answer| stamped(answer).and_then(|it| it.middle());
        assert_eq!(middle("9 8:2 9:3"), Some(9));
        assert_eq!(middle("9 8:3 9:2"), Some(8));
        assert_eq!(middle("9 8:2 9:2"), Some(9));
        assert_eq!(middle("9 8:2 9:1 10:2"), Some(9));
        assert_eq!(middle("0"), None);
    }

    #[test]
    fn a_probe_is_more_than_noise() {
        assert!(is_probed(300.0, 2.0));
        assert!(!is_probed(31.0, 2.0));
        assert!(is_probed(33.0, 2.0));
        assert!(!is_probed(290.0, 200.0));
        assert!(is_probed(310.0, 200.0));
    }

    /// The workload program, built for this test.
    fn built() -> PathBuf {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/asked.c");
        let program = std::env::temp_dir().join(format!("asked-{}", std::process::id()));
        let mut cc = std::process::Command::new("cc");
        let built =
            cc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-o"]).arg(&program).arg(source).status();
        assert!(built.expect("cc").success(), "the C compiler refused lab/workloads/asked.c");
        program
    }

    /// Without priority, which needs root: behind `sh`, which starts it without arguments.
    #[test]
    fn the_workload_calls_what_it_is_asked() {
        let program = built();
        let bare = ["sh".to_owned(), "-c".to_owned(), "exec \"$0\"".to_owned()];
        let mut asked = Asked::start(&bare, &program, None).expect("it starts");
        assert_eq!(asked.pid, asked.child.id(), "it is what was started");
        let computes = asked.a_call(Calls { function: "tree8", calls: 100, ns: 100_000 }).expect("a time");
        assert!((50_000.0..5_000_000.0).contains(&computes), "{computes} ns a call, not of all");
        let stamped = asked.stamped(Calls { function: "one", calls: 100, ns: 3 << 18 }).expect("buckets");
        assert_eq!(stamped.buckets.iter().map(|(_, calls)| calls).sum::<u64>(), 100);
        assert!(stamped.middle() >= Some(18), "{stamped:?}");
        assert!(asked.look("t8_8_1").expect("a time") < 500_000.0);
        assert!(asked.look("no_such_function").is_err());
        std::fs::remove_file(program).expect("its removal");
    }
}
