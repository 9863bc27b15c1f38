//! Commands that run to their end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

/// A command as a person would type it.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command without input, and returns what it printed.
/// The error of one that fails has what it wrote to stderr.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let line = command_line(command);
    stdout_of(&line, &output.with_context(|| format!("cannot run `{line}`"))?)
}

/// The same of a command that has ended.
pub fn stdout_of(line: &str, output: &Output) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{line}` failed ({}): {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The JSON document that a command prints.
pub fn document<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    let text = printed(command)?;
    serde_json::from_str(&text).with_context(|| format!("`{}` printed no document", command_line(command)))
}

/// Waits until a child ends; `None` if it did not within the time, and was killed.
pub fn ended(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program that says in its first line that it is ready, and ends when its input closes; at the latest with this.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts it. Returns its first line too.
    pub fn start(command: &mut Command) -> Result<(Self, String)> {
        let line = command_line(command);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut running = Self(spawned.with_context(|| format!("cannot start `{line}`"))?);
        let mut first = String::new();
        BufReader::new(running.0.stdout.take().context("no pipe")?).read_line(&mut first)?;
        Ok((running, first.trim_end().to_owned()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_own_words() {
        assert_eq!(printed(&mut sh("cat; echo a; echo b >&2")).unwrap(), "a\n");
        let error = printed(&mut sh("echo no >&2; exit 3")).unwrap_err().to_string();
        assert_eq!(error, "`sh -c echo no >&2; exit 3` failed (exit status: 3): no");
        let error = printed(&mut Command::new("/nonesuch/program")).unwrap_err().to_string();
        assert_eq!(error, "cannot run `/nonesuch/program`");
    }

    #[test]
    fn a_document_is_read_and_nothing_else() {
        assert_eq!(document::<Vec<u8>>(&mut sh("echo '[1, 2]'")).unwrap(), [1, 2]);
        for script in ["echo no", "true", "echo '[1]'; exit 1"] {
            assert!(document::<Vec<u8>>(&mut sh(script)).is_err(), "{script}");
        }
    }

    #[test]
    fn a_child_that_does_not_end_is_killed_after_its_time() {
        let mut child = sh("exit 3").spawn().unwrap();
        let status = ended(&mut child, Duration::from_secs(60)).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(3));
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(ended(&mut child, Duration::from_millis(50)).unwrap(), None);
        assert!(child.try_wait().unwrap().is_some(), "it is awaited, and no longer there");
    }

    #[test]
    fn a_running_program_has_ended_when_it_is_dropped() {
        let folder = std::env::temp_dir().join(format!("wakepath-runner-{}", std::process::id()));
        let (running, first) =
            Running::start(&mut sh(&format!("echo ready; cat; echo ended >{}", folder.display()))).unwrap();
        assert_eq!((first.as_str(), folder.exists()), ("ready", false));
        drop(running);
        assert_eq!(std::fs::read_to_string(&folder).unwrap(), "ended\n");
        std::fs::remove_file(folder).unwrap();
    }
}
