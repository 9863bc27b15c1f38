//! Flight recorders on this host and on others, asked to keep the same moment.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use wakepath_caller::Caller;

use super::{ClockReading, Moment, TriggerError, is_written, kept_recordings, trigger};

/// The interval between checks for a new recording.
const POLL: Duration = Duration::from_millis(50);
/// ssh's limit for connecting to another host, s.
const CONNECT: &str = "ConnectTimeout=10";

/// A flight recorder's place: its directory, on this host or on another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    /// The host, as ssh takes it.
    pub host: Option<String>,
    /// Its directory there.
    pub directory: PathBuf,
}

impl FromStr for Recorder {
    type Err = String;

    /// Reads `HOST:DIR`, as scp takes it, or `DIR`. A directory with a colon in its first name needs `./` in front.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_host = |host: &str| !host.contains('/');
        match text.split_once(':').filter(|(host, _)| is_host(host)) {
            Some((host, directory)) if host.is_empty() || host.starts_with('-') || directory.is_empty() => {
                Err("expected DIR or HOST:DIR, such as web2:/var/lib/flight".to_owned())
            }
            Some((host, directory)) => {
                Ok(Self { host: Some(host.to_owned()), directory: PathBuf::from(directory) })
            }
            None if text.is_empty() => Err("expected DIR or HOST:DIR".to_owned()),
            None => Ok(Self { host: None, directory: PathBuf::from(text) }),
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{host}:")?;
        }
        write!(f, "{}", self.directory.display())
    }
}

/// The way to ask recorders.
#[derive(Debug, Clone)]
pub struct Way {
    /// The moment to keep, ns since 1970; `None`: now.
    pub at: Option<u64>,
    /// The asker is itself a recorder, so the asked recorders ask no others.
    pub linked: bool,
    /// The time to wait for a recording.
    pub wait: Duration,
    /// wakepath's command line on other hosts.
    pub program: String,
}

/// A recording that a recorder kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkedRecording {
    /// It is on this host.
    Here(PathBuf),
    /// It is on another one.
    There {
        /// The host, as ssh takes it.
        host: String,
        /// The path, as the program there printed it.
        path: String,
    },
}

/// Why a recorder kept nothing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum AskError {
    #[error("{recorder}: cannot run ssh: {error}")]
    NoSsh { recorder: Recorder, error: io::Error },
    #[error("{recorder}: {said}")]
    Refused { recorder: Recorder, said: String },
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    #[error("no recording came within {} s", .wait.as_secs())]
    Late { wait: Duration },
}

impl Recorder {
    /// Asks this recorder to keep a moment, and waits for the recording. Returns its place.
    ///
    /// # Errors
    /// When it cannot be asked, or keeps nothing.
    pub fn ask(&self, way: &Way) -> Result<LinkedRecording, AskError> {
        match &self.host {
            None => ask_here(&self.directory, way).map(LinkedRecording::Here),
            Some(host) => self.ask_there(host, way),
        }
    }

    fn ask_there(&self, host: &str, way: &Way) -> Result<LinkedRecording, AskError> {
        let output = self.ssh(host, way).stdin(Stdio::null()).output();
        let output = output.map_err(|error| AskError::NoSsh { recorder: self.clone(), error })?;
        match path_or_reason(output.status.success(), &output.stdout, &output.stderr) {
            Ok(path) => Ok(LinkedRecording::There { host: host.to_owned(), path }),
            Err(said) => {
                let said = if said.is_empty() { output.status.to_string() } else { said };
                Err(AskError::Refused { recorder: self.clone(), said })
            }
        }
    }

    /// The ssh process which runs the command line on the other host.
    fn ssh(&self, host: &str, way: &Way) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(["-o", "BatchMode=yes", "-o", CONNECT, "--", host, &self.command(way)]);
        // Use the keys and known hosts of the user who called sudo.
        if let Some(caller) = Caller::from_sudo().filter(|_| wakepath_caller::acting_uid() == 0) {
            ssh.uid(caller.uid).gid(caller.gid);
        }
        ssh
    }

    /// The command line on the other host.
    fn command(&self, way: &Way) -> String {
        let mut words = format!("{} trigger --wait {}ms", way.program, way.wait.as_millis());
        if way.linked {
            words += " --linked";
        }
        if let Some(at) = way.at {
            words += &format!(" --at {}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
        }
        words + " -- " + &quoted(&self.directory.to_string_lossy())
    }
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The path that wakepath printed on another host, or its reason in one line; empty without a reason.
fn path_or_reason(succeeded: bool, out: &[u8], err: &[u8]) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if succeeded {
        return Ok(text(out));
    }
    let said = text(err);
    let said = said.lines().map(|line| line.trim_start_matches("error: "));
    Err(said.collect::<Vec<_>>().join("; "))
}

fn ask_here(directory: &Path, way: &Way) -> Result<PathBuf, AskError> {
    let before = kept_recordings(directory).unwrap_or_default();
    let at = way.at.map_or(0, |at| on_monotonic_clock(at, ClockReading::now()));
    trigger(directory, Moment { at, linked: way.linked })?;
    let began = Instant::now();
    while began.elapsed() < way.wait {
        let now = kept_recordings(directory).unwrap_or_default();
        if let Some(new) = newest(&before, &now, is_written) {
            return Ok(new.to_owned());
        }
        std::thread::sleep(POLL);
    }
    Err(AskError::Late { wait: way.wait })
}

/// Converts a moment, ns since 1970, to the monotonic clock: never 0, which stands for no moment.
fn on_monotonic_clock(at: u64, now: ClockReading) -> u64 {
    // The asking host's clock may be ahead.
    now.monotonic_ns.saturating_sub(now.realtime_ns.saturating_sub(at)).max(1)
}

/// The newest whole recording that was not there before. Both lists begin with the oldest.
fn newest<'a>(
    before: &[PathBuf],
    now: &'a [PathBuf],
    is_written: impl Fn(&Path) -> bool,
) -> Option<&'a Path> {
    let new = |path: &&PathBuf| !before.contains(path) && is_written(path);
    now.iter().rev().find(new).map(PathBuf::as_path)
}

/// The moment for all recorders, so that recorders asked later keep the same. `None`: a single recorder takes its own time.
pub fn shared_moment(asked: Option<u64>, recorders: usize, now: impl FnOnce() -> u64) -> Option<u64> {
    asked.or_else(|| (recorders != 1).then(now))
}

/// The current time, ns since 1970.
pub fn now() -> u64 {
    ClockReading::now().realtime_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_is_a_directory_here_or_behind_a_host() {
        let recorder = |host: Option<&str>, directory: &str| {
            Ok(Recorder { host: host.map(str::to_owned), directory: directory.into() })
        };
        assert_eq!("/var/lib/flight".parse(), recorder(None, "/var/lib/flight"));
        assert_eq!("web2:/var/lib/flight".parse(), recorder(Some("web2"), "/var/lib/flight"));
        assert_eq!("root@web2:flight".parse(), recorder(Some("root@web2"), "flight"));
        assert_eq!("./a:b".parse(), recorder(None, "./a:b"));
        // ssh takes a host beginning with `-` for an option.
        for text in ["", ":x", "web2:", "-oProxyCommand=x:/y"] {
            assert!(text.parse::<Recorder>().is_err(), "{text}");
        }
    }

    #[test]
    fn another_host_is_asked_by_one_command_line_in_which_no_directory_is_a_command() {
        let recorder = Recorder { host: Some("web2".to_owned()), directory: "it's $(x)".into() };
        let mut way = Way {
            at: None,
            linked: false,
            wait: Duration::from_secs(60),
            program: "sudo -n wakepath".to_owned(),
        };
        assert_eq!(recorder.command(&way), r"sudo -n wakepath trigger --wait 60000ms -- 'it'\''s $(x)'");
        (way.at, way.linked) = (Some(1_795_229_921_000_000_250), true);
        let words = recorder.command(&way);
        assert!(words.contains(" --linked --at 1795229921.000000250 -- "), "{words}");
    }

    #[test]
    fn a_moment_goes_to_the_monotonic_clock_and_one_to_come_is_now() {
        let now = ClockReading { monotonic_ns: 5_000, realtime_ns: 1_000_000 };
        for (at, expected) in
            [(1_000_000, 5_000), (999_000, 4_000), (995_001, 1), (995_000, 1), (0, 1), (1_000_001, 5_000)]
        {
            assert_eq!(on_monotonic_clock(at, now), expected, "{at}");
        }
    }

    #[test]
    fn the_recording_of_a_trigger_is_the_newest_one_that_was_not_there_and_is_whole() {
        let paths = |names: &str| names.split_whitespace().map(PathBuf::from).collect::<Vec<_>>();
        // The recordings before and now, the unwritten among them, and the returned recording.
        for (before, now, unwritten, expected) in [
            ("", "", "", None),
            ("a", "a", "", None),
            ("a", "a b", "", Some("b")),
            ("a", "a b c", "", Some("c")),
            ("a", "a b c", "c", Some("b")),
            ("a", "a b", "b", None),
            ("a b", "b c", "", Some("c")),
        ] {
            let (before, now, unwritten) = (paths(before), paths(now), paths(unwritten));
            let found = newest(&before, &now, |path| !unwritten.contains(&path.to_owned()));
            assert_eq!(found, expected.map(Path::new), "{before:?}, {now:?}");
        }
    }

    #[test]
    fn one_recorder_takes_its_own_time_and_several_the_same_moment() {
        for (asked, recorders, expected) in
            [(None, 1, None), (Some(5), 1, Some(5)), (None, 2, Some(9)), (Some(5), 2, Some(5))]
        {
            assert_eq!(shared_moment(asked, recorders, || 9), expected, "{recorders} recorders");
        }
    }

    #[test]
    fn another_host_answers_with_a_path_or_with_a_reason_in_one_line() {
        for (succeeded, out, err, expected) in [
            (true, "/var/lib/flight/kept-1\n", "note: x\n", Ok("/var/lib/flight/kept-1")),
            (true, "/var/\u{1b}[31mkept\n", "", Ok("/var/\u{1b}[31mkept")),
            (
                false,
                "",
                "error: no flight recorder\nhint: start one\n",
                Err("no flight recorder; hint: start one"),
            ),
            (false, "/kept", "ssh: unknown host web2\n", Err("ssh: unknown host web2")),
            (false, "/kept", "", Err("")),
        ] {
            let answer = path_or_reason(succeeded, out.as_bytes(), err.as_bytes());
            assert_eq!(answer, expected.map(str::to_owned).map_err(str::to_owned));
        }
    }

    #[test]
    fn ssh_asks_nobody_for_a_password_and_takes_no_host_for_an_option() {
        let recorder = Recorder { host: Some("web2".to_owned()), directory: "flight".into() };
        let way =
            Way { at: Some(5), linked: true, wait: Duration::from_secs(1), program: "wakepath".to_owned() };
        let ssh = recorder.ssh("web2", &way);
        let words: Vec<_> = ssh.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let command = recorder.command(&way);
        assert_eq!(words, ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", "web2", &command]);
        assert_eq!(recorder.to_string(), "web2:flight");
        assert_eq!(Recorder { host: None, ..recorder }.to_string(), "flight");
    }
}
