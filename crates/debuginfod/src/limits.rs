//! The bounds for what servers may take: time and bytes. The variables are those of the standard client.

use std::time::Duration;

/// The bounds for servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a connection, for an answer to begin, and for each pause in it.
    pub silence: Duration,
    /// For one file.
    pub one_file: Duration,
    /// For all files of a run.
    pub all_files: Duration,
    /// For one file, bytes.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(30),
            one_file: Duration::from_secs(120),
            all_files: Duration::from_secs(300),
            bytes: 1 << 30,
        }
    }
}

impl Limits {
    /// The bounds with what the environment says: `DEBUGINFOD_TIMEOUT` and `DEBUGINFOD_MAXTIME` in seconds,
    /// `DEBUGINFOD_MAXSIZE` in bytes. Nothing there takes a bound away: 0 and words count as not given.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name| variable(name)?.trim().parse::<u64>().ok().filter(|&number| number > 0);
        let seconds = |name| number(name).map(Duration::from_secs);
        let usual = Self::default();
        let one_file = seconds("DEBUGINFOD_MAXTIME").unwrap_or(usual.one_file);
        Self {
            silence: seconds("DEBUGINFOD_TIMEOUT").unwrap_or(usual.silence),
            one_file,
            all_files: usual.all_files.max(one_file),
            bytes: number("DEBUGINFOD_MAXSIZE").unwrap_or(usual.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_sets_bounds_and_takes_none_away() {
        let limits = |value: &str| Limits::from_variables(|_| Some(value.to_owned()));
        let usual = Limits::default();
        assert_eq!(Limits::from_variables(|_| None), usual);
        for none in ["0", "", "-1", "much", "18446744073709551616"] {
            assert_eq!(limits(none), usual, "{none}");
        }
        let second = Duration::from_secs(1);
        let least = Limits { silence: second, one_file: second, all_files: usual.all_files, bytes: 1 };
        assert_eq!(limits("1"), least);
        let long = Duration::from_secs(1000);
        assert_eq!(limits("1000"), Limits { silence: long, one_file: long, all_files: long, bytes: 1000 });
    }
}
