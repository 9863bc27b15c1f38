//! A drill-down's parameters, and the file that holds them (Traeger 2008, figure 4.2, under today's names).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakepath_distribution::BUCKETS;

/// The maximum of [`Parameters::max_depth`], in calls.
pub const MAX_DEPTH: u32 = 64;

/// The maximum number of nodes in a function tree; at it, the search stops.
pub const MAX_NODES: usize = 1 << 16;

/// The maximum of [`Parameters::decision_calls`], in calls.
const MAX_DECISION_CALLS: u64 = 1_000_000_000;

/// When decisions are made (Traeger 2008, section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Mode {
    /// After `decision_calls` calls within the peak.
    #[default]
    Automatic,
    /// At each [`crate::Event::Decide`].
    Manual,
}

/// A drill-down's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// When decisions are made.
    pub mode: Mode,
    /// The calls to f₀ within the peak from one decision to the next; `decision_time` in the paper.
    pub decision_calls: u64,
    /// The number of calls after which a path ends.
    pub max_depth: u32,
    /// The votes needed for a contributor's choice, as a percentage of the largest number of votes.
    pub maxcount_percentage: u32,
    /// The lowest bucket, log2 of ns, in which a contributor's latency matters: below it, callees are not examined.
    pub min_bucket: usize,
    /// The number of calls to f₀ in its histogram before the search for `start_peak`.
    pub start_ops: u64,
    /// The peak's number, counted from 1; `None` if the user chooses it later.
    pub start_peak: Option<u32>,
    /// The maximum number of nodes measured at a time.
    pub max_nodes: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            mode: Mode::Automatic,
            decision_calls: 20,
            max_depth: 10,
            maxcount_percentage: 90,
            min_bucket: 0,
            start_ops: 1000,
            start_peak: None,
            max_nodes: 64,
        }
    }
}

/// The error for unusable parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A value is out of its range.
    #[error("`{key}` is {value}; it has to be from {from} to {to}")]
    Range {
        /// The parameter.
        key: &'static str,
        /// Its value.
        value: u64,
        /// The lowest value.
        from: u64,
        /// The highest value.
        to: u64,
    },
    /// There is no room for even one path and two call sites at a time.
    #[error("`max_nodes` is {max_nodes}; a path of `max_depth` {max_depth} needs at least {}", max_depth + 1)]
    TooFewNodes {
        /// The number of nodes.
        max_nodes: u64,
        /// The path's length.
        max_depth: u64,
    },
    /// A line is no comment, and has no `=`.
    #[error("line {line} is not `key = value`: `{text}`")]
    NotAnAssignment {
        /// The line, counted from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A key is not known.
    #[error("line {line}: there is no parameter `{key}`; the parameters are {}", known.join(", "))]
    UnknownKey {
        /// The line, counted from 1.
        line: usize,
        /// The key.
        key: String,
        /// All known keys.
        known: Vec<String>,
    },
    /// A key stands twice in the file.
    #[error("line {line}: `{key}` was set in line {first} already")]
    Twice {
        /// The line, counted from 1.
        line: usize,
        /// The key.
        key: String,
        /// The line of its first use.
        first: usize,
    },
    /// The parameter has no such value.
    #[error("line {line}: `{key}` is `{value}`; it has to be {needed}")]
    Value {
        /// The line, counted from 1.
        line: usize,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The possible values.
        needed: &'static str,
    },
}

/// A parameter file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParametersFile {
    /// The parameters: from the file, and the defaults for all others. Their ranges are not checked yet, since flags
    /// may still change them: [`Parameters::check`].
    pub parameters: Parameters,
    /// The values of the driver's own keys (the target, say), as they stand in the file.
    pub others: BTreeMap<String, String>,
}

const KEYS: [&str; 8] = [
    "mode",
    "decision_calls",
    "max_depth",
    "maxcount_percentage",
    "min_bucket",
    "start_ops",
    "start_peak",
    "max_nodes",
];

impl Parameters {
    /// Whether all values are in their ranges.
    pub fn check(&self) -> Result<(), ParameterError> {
        let range = |key, value: u64, from, to| {
            if (from..=to).contains(&value) {
                Ok(())
            } else {
                Err(ParameterError::Range { key, value, from, to })
            }
        };
        range("decision_calls", self.decision_calls, 1, MAX_DECISION_CALLS)?;
        range("max_depth", self.max_depth.into(), 1, MAX_DEPTH.into())?;
        range("maxcount_percentage", self.maxcount_percentage.into(), 0, 100)?;
        range("min_bucket", self.min_bucket as u64, 0, BUCKETS as u64 - 1)?;
        range("start_ops", self.start_ops, 1, u64::MAX)?;
        range("start_peak", self.start_peak.unwrap_or(1).into(), 1, BUCKETS as u64)?;
        range("max_nodes", self.max_nodes as u64, 2, MAX_NODES as u64)?;
        // A node at depth `max_depth - 1` has as many measured nodes on its path, and two of its sites have to fit.
        if self.max_nodes <= self.max_depth as usize {
            let (max_nodes, max_depth) = (self.max_nodes as u64, self.max_depth.into());
            return Err(ParameterError::TooFewNodes { max_nodes, max_depth });
        }
        Ok(())
    }
}

impl ParametersFile {
    /// Reads lines with the form `key = value`. Empty lines, and text behind a `#`, are passed over.
    ///
    /// `own_keys` are the keys read by the driver itself.
    pub fn parse(text: &str, own_keys: &[&str]) -> Result<Self, ParameterError> {
        let mut file = ParametersFile::default();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, whole) in text.lines().enumerate() {
            let line = index + 1;
            let code = whole.split('#').next().unwrap_or_default().trim();
            if code.is_empty() {
                continue;
            }
            let Some((key, value)) = code.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
            else {
                return Err(ParameterError::NotAnAssignment { line, text: code.to_owned() });
            };
            if !KEYS.contains(&key) && !own_keys.contains(&key) {
                let known = KEYS.iter().chain(own_keys).map(|&key| key.to_owned()).collect();
                return Err(ParameterError::UnknownKey { line, key: key.to_owned(), known });
            }
            if let Some(first) = seen.insert(key, line) {
                return Err(ParameterError::Twice { line, key: key.to_owned(), first });
            }
            file.set(line, key, value)?;
        }
        Ok(file)
    }

    fn set(&mut self, line: usize, key: &str, value: &str) -> Result<(), ParameterError> {
        let wrong =
            |needed| ParameterError::Value { line, key: key.to_owned(), value: value.to_owned(), needed };
        let number = || value.parse::<u64>().map_err(|_| wrong("a number"));
        // A number that does not fit is out of its range, and reported with the range.
        let small = || number().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let parameters = &mut self.parameters;
        match key {
            "mode" => {
                parameters.mode = match value {
                    "automatic" => Mode::Automatic,
                    "manual" => Mode::Manual,
                    _ => return Err(wrong("`automatic` or `manual`")),
                }
            }
            "decision_calls" => parameters.decision_calls = number()?,
            "max_depth" => parameters.max_depth = small()?,
            "maxcount_percentage" => parameters.maxcount_percentage = small()?,
            "min_bucket" => parameters.min_bucket = small()? as usize,
            "start_ops" => parameters.start_ops = number()?,
            "start_peak" => parameters.start_peak = Some(small()?),
            "max_nodes" => parameters.max_nodes = small()? as usize,
            _ => {
                self.others.insert(key.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_figure_4_2_is_read() {
        let text = "# Name or PID of program to analyze.\nprogram_name = grep\n\nstart_function = vfs_readdir\n\
                    decision_calls = 50\nmax_depth=10 # deeper is not needed\nmaxcount_percentage = 97\n\
                    min_bucket = 6\nstart_ops = 100\nstart_peak = 1\nmode = manual\nmax_nodes = 39\n";
        let file = ParametersFile::parse(text, &["program_name", "start_function"]).unwrap();
        let expected = Parameters {
            mode: Mode::Manual,
            decision_calls: 50,
            max_depth: 10,
            maxcount_percentage: 97,
            min_bucket: 6,
            start_ops: 100,
            start_peak: Some(1),
            max_nodes: 39,
        };
        assert_eq!(file.parameters, expected);
        let others: Vec<_> = file.others.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(others, [("program_name", "grep"), ("start_function", "vfs_readdir")]);
        assert_eq!(ParametersFile::parse("", &[]), Ok(ParametersFile::default()));
        assert_eq!(ParametersFile::parse("mode = automatic", &[]), Ok(ParametersFile::default()));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let error = |text: &str| ParametersFile::parse(text, &["pid"]).unwrap_err().to_string();
        assert_eq!(error("\nmax_depth 10"), "line 2 is not `key = value`: `max_depth 10`");
        assert_eq!(
            error("pid = 1\n# decision_time = 1\ndecision_time = 50"),
            "line 3: there is no parameter `decision_time`; the parameters are mode, decision_calls, max_depth, \
             maxcount_percentage, min_bucket, start_ops, start_peak, max_nodes, pid"
        );
        assert_eq!(error("pid = 1\n\npid = 2"), "line 3: `pid` was set in line 1 already");
        assert_eq!(error("max_depth = ten"), "line 1: `max_depth` is `ten`; it has to be a number");
        assert_eq!(error("start_ops = -1"), "line 1: `start_ops` is `-1`; it has to be a number");
        assert_eq!(error("mode = both"), "line 1: `mode` is `both`; it has to be `automatic` or `manual`");
    }

    #[test]
    fn values_have_ranges() {
        let error = |change: fn(&mut Parameters)| {
            let mut parameters = Parameters::default();
            change(&mut parameters);
            parameters.check().map_err(|error| error.to_string())
        };
        assert_eq!(error(|_| ()), Ok(()));
        let out_of = |text: &str| Err(text.to_owned());
        assert_eq!(
            error(|it| it.decision_calls = 0),
            out_of("`decision_calls` is 0; it has to be from 1 to 1000000000")
        );
        assert_eq!(error(|it| it.decision_calls = 1), Ok(()));
        assert_eq!(error(|it| it.max_depth = 0), out_of("`max_depth` is 0; it has to be from 1 to 64"));
        assert_eq!(error(|it| it.max_depth = 65), out_of("`max_depth` is 65; it has to be from 1 to 64"));
        assert_eq!(
            error(|it| it.maxcount_percentage = 101),
            out_of("`maxcount_percentage` is 101; it has to be from 0 to 100")
        );
        assert_eq!(error(|it| it.maxcount_percentage = 0), Ok(()));
        assert_eq!(error(|it| it.min_bucket = 64), out_of("`min_bucket` is 64; it has to be from 0 to 63"));
        assert_eq!(
            error(|it| it.start_ops = 0),
            out_of("`start_ops` is 0; it has to be from 1 to 18446744073709551615")
        );
        assert_eq!(
            error(|it| it.start_peak = Some(0)),
            out_of("`start_peak` is 0; it has to be from 1 to 64")
        );
        assert_eq!(
            error(|it| it.max_nodes = 65537),
            out_of("`max_nodes` is 65537; it has to be from 2 to 65536")
        );
        assert_eq!(
            error(|it| it.max_nodes = 10),
            out_of("`max_nodes` is 10; a path of `max_depth` 10 needs at least 11")
        );
        assert_eq!(error(|it| it.max_nodes = 11), Ok(()));
    }

    #[test]
    fn a_number_that_does_not_fit_is_out_of_range() {
        let file = ParametersFile::parse("max_depth = 4294967306", &[]).unwrap();
        assert_eq!(
            file.parameters.check().unwrap_err().to_string(),
            "`max_depth` is 4294967295; it has to be from 1 to 64"
        );
    }
}
