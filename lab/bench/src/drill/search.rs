//! `wakepath drill` beside a workload: from its start to its answer, which the workload's calls can hold back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::asked::{Asked, Calls};
use crate::processes;

/// Removing a deep tree's probes takes the kernel some time.
const PATIENCE: Duration = Duration::from_secs(60);
/// After a function is probed its calls are not measured at once: the old probes are removed first.
const SETTLED: Duration = Duration::from_millis(100);

/// A running search.
pub struct Search {
    child: Option<Child>,
    answer: PathBuf,
    complaints: PathBuf,
    began: Instant,
}

/// A part of a search's document.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The functions from the target to the cause; `None` for several paths.
    pub path: Option<Vec<String>>,
    pub is_found: bool,
    /// The target's calls since its first probe.
    pub calls: u64,
    /// From the first probe to the answer.
    pub seconds: f64,
    /// The largest number of functions probed at once.
    pub most_probed: u64,
}

/// The words behind `wakepath`.
pub fn words(program: &Path, function: &str, pid: &str, arguments: &[&str]) -> Vec<String> {
    let target = format!("{}:{function}", program.display());
    let first = ["drill", &target, "-p", pid, "--json", "--no-waits"];
    first.iter().chain(arguments).map(|&word| word.to_owned()).collect()
}

impl Search {
    pub fn start(
        wakepath: &Path,
        output: &Path,
        program: &Path,
        function: &str,
        pid: u32,
        arguments: &[&str],
    ) -> Result<Self> {
        let (answer, complaints) = (output.join("drill.json"), output.join("drill.err"));
        let create =
            |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let mut command = Command::new(wakepath);
        command.args(words(program, function, &pid.to_string(), arguments)).stdin(Stdio::null());
        command.stdout(create(&answer)?).stderr(create(&complaints)?);
        let child = command.spawn().with_context(|| format!("cannot run {}", wakepath.display()))?;
        Ok(Self { child: Some(child), answer, complaints, began: Instant::now() })
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else { return Ok(false) };
        Ok(child.try_wait()?.is_none())
    }

    /// The time since its start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until a function's calls are measured, or f0's counted; `feed` is called meanwhile.
    pub fn until_measured(
        &mut self,
        asked: &mut Asked,
        function: &str,
        alone: f64,
        feed: Calls<'_>,
    ) -> Result<()> {
        let probed = asked.until_probed(function, alone, |asked| {
            if !self.runs()? {
                bail!("the search ended before");
            }
            if feed.calls > 0 {
                asked.a_call(feed)?;
            }
            Ok(())
        });
        probed.with_context(|| self.said())?;
        std::thread::sleep(SETTLED);
        Ok(())
    }

    fn said(&self) -> String {
        let said = std::fs::read_to_string(&self.complaints).unwrap_or_default();
        format!("wakepath drill: {}", if said.is_empty() { "no error" } else { said.trim() })
    }

    /// The answer of a finished search.
    pub fn answer(mut self) -> Result<Answer> {
        let status = self.child.take().context("it has ended")?.wait()?;
        ensure!(status.success(), "{} ({status})", self.said());
        let text = std::fs::read_to_string(&self.answer)?;
        Answer::parse(&text).with_context(|| format!("no answer: {}", self.said()))
    }

    /// Ends it before its answer, like Ctrl-C.
    pub fn stop(mut self) -> Result<()> {
        let child = self.child.take().context("it has ended")?;
        processes::interrupt(child, PATIENCE)?;
        Ok(())
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = processes::interrupt(child, PATIENCE);
        }
    }
}

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let names = |path: &Value| {
            path.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned())).collect::<Option<Vec<_>>>()
        };
        let path = match document["root_causes"].as_array()?.as_slice() {
            [one] => Some(names(one)?),
            _ => None,
        };
        Some(Self {
            path,
            is_found: document["status"] == "root cause found",
            calls: document["calls"].as_u64()?,
            seconds: document["elapsed_ns"].as_u64()? as f64 / 1e9,
            most_probed: document["most_probed"].as_u64()?,
        })
    }

    /// Whether the search found this path.
    pub fn is(&self, path: &[String]) -> bool {
        self.is_found && self.path.as_deref() == Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    fn answer(paths: &str, status: &str) -> Option<Answer> {
        Answer::parse(&format!(
            "{{\"root_causes\":{paths},\"status\":\"{status}\",\"calls\":7,\"elapsed_ns\":1500000000,\"most_probed\":9}}"
        ))
    }

    #[test]
    fn an_answer_is_one_path_that_was_found() {
        let path = ["f".to_owned(), "g".to_owned()];
        let found = answer(r#"[["f","g"]]"#, "root cause found").expect("an answer");
        assert!(found.is(&path));
        assert_eq!((found.calls, found.seconds, found.most_probed), (7, 1.5, 9));
        let another = answer(r#"[["f"]]"#, "root cause found").expect("an answer");
        assert!(!another.is(&path));
        let stopped = answer(r#"[["f","g"]]"#, "stopped: the time is over").expect("an answer");
        assert!(!stopped.is(&path));
        let two = answer(r#"[["f","g"],["f"]]"#, "root cause found").expect("an answer");
        assert!(!two.is(&path));
        assert!(answer("[]", "stopped: by the user").is_some_and(|none| none.path.is_none()));
    }

    #[test]
    fn a_document_without_its_figures_is_no_answer() {
        for bad in
            ["", "{}", r#"{"root_causes":[],"status":"x","calls":7}"#, r#"{"root_causes":[[1]],"calls":1}"#]
        {
            assert_eq!(Answer::parse(bad), None, "{bad}");
        }
    }
}
