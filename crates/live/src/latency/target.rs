//! A target for live counting.

use std::path::PathBuf;

use wakepath_collect::Counted;
use wakepath_functions::Function;

use super::LatencySource;
use super::error::LiveLatencyError;
use wakepath_engine::latency::RefusedTarget;
use wakepath_engine::latency::target::LockKind;

/// Targets as users write them, on this machine.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// At least one, each once.
    pub targets: Vec<LiveTarget>,
    /// The refused functions.
    pub refused: Vec<RefusedTarget>,
}

impl Resolved {
    /// The targets of all these texts, if any can be counted. A refused function does not spoil the others; a text
    /// without meaning does.
    ///
    /// # Errors
    /// The error about the first text without meaning; the first refusal if no target is left.
    pub fn all<'a>(
        texts: impl Iterator<Item = &'a str>,
        resolve: impl Fn(&str) -> Result<Self, LiveLatencyError>,
    ) -> Result<Self, LiveLatencyError> {
        let mut all = Self::default();
        let mut first = None;
        for text in texts {
            match resolve(text) {
                Ok(found) => {
                    for target in found.targets {
                        if !all.targets.iter().any(|other| other.counted == target.counted) {
                            all.targets.push(target);
                        }
                    }
                    all.refused.extend(found.refused);
                }
                Err(error) => {
                    let Some(why) = error.refusal() else { return Err(error) };
                    all.refused.push(RefusedTarget { target: text.to_owned(), why });
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) if all.targets.is_empty() => Err(error),
            _ => Ok(all),
        }
    }
}

impl From<Vec<LiveTarget>> for Resolved {
    fn from(targets: Vec<LiveTarget>) -> Self {
        Self { targets, refused: Vec::new() }
    }
}

/// A target that this machine can count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveTarget {
    pub name: String,
    pub source: LatencySource,
    pub counted: Counted,
    /// The file of a user function, as processes see it.
    pub file: Option<PathBuf>,
    /// The user function.
    pub function: Option<Function>,
    pub notes: Vec<String>,
}

impl LiveTarget {
    pub(super) fn new(name: impl Into<String>, source: LatencySource, counted: Counted) -> Self {
        Self { name: name.into(), source, counted, file: None, function: None, notes: Vec::new() }
    }

    pub(super) fn lock(kind: LockKind) -> Self {
        let (name, counted) = match kind {
            LockKind::User => ("lock:user", Counted::UserLock),
            LockKind::Kernel => ("lock:kernel", Counted::KernelLock),
        };
        Self::new(name, LatencySource::LockWaits, counted)
    }
}

#[cfg(test)]
mod tests {
    use wakepath_engine::latency::TargetError;
    use wakepath_functions::{FindError, Refusal, RefusalReason};

    use super::*;

    /// `a` and `b` are a target each; `-x` is refused; `*` has `b`, `c` and a refused function; others mean nothing.
    fn resolve(text: &str) -> Result<Resolved, LiveLatencyError> {
        let disk = |number| {
            LiveTarget::new(format!("t{number}"), LatencySource::DiskRequests, Counted::Disk(Some(number)))
        };
        let refused =
            |target: &str| RefusedTarget { target: target.to_owned(), why: String::from("a reason") };
        match text {
            "a" => Ok(vec![disk(1)].into()),
            "b" => Ok(vec![disk(2)].into()),
            "*" => Ok(Resolved { targets: vec![disk(2), disk(3)], refused: vec![refused("d")] }),
            _ if text.starts_with('-') => {
                let (name, file) = (text.to_owned(), String::from("app"));
                Err(FindError::from(Refusal { name, file, why: RefusalReason::LoopToEntry }).into())
            }
            _ => Err(TargetError::NotATarget(text.to_owned()).into()),
        }
    }

    #[test]
    fn a_refused_function_spoils_no_other_target_and_a_text_without_meaning_does() {
        let loops = RefusalReason::LoopToEntry.to_string();
        for (texts, targets, refused) in [
            (&["a", "-x", "b"][..], &["t1", "t2"][..], &[("-x", loops.as_str())][..]),
            (&["-x", "b", "-y"], &["t2"], &[("-x", &loops), ("-y", &loops)]),
            (&["b", "*", "a", "b"], &["t2", "t3", "t1"], &[("d", "a reason")]),
            (&[], &[], &[]),
        ] {
            let found = Resolved::all(texts.iter().copied(), resolve).expect("targets");
            let names: Vec<_> = found.targets.iter().map(|target| target.name.as_str()).collect();
            let left: Vec<_> =
                found.refused.iter().map(|one| (one.target.as_str(), one.why.as_str())).collect();
            assert_eq!((names.as_slice(), left.as_slice()), (targets, refused), "{texts:?}");
        }
        for (texts, error) in [
            (&["-x", "-y"][..], "cannot probe `-x` in app: a loop"),
            (&["a", "?", "b"], "`?` is not a target"),
            (&["-x", "?"], "`?` is not a target"),
        ] {
            let found = Resolved::all(texts.iter().copied(), resolve).expect_err("no targets").to_string();
            assert!(found.starts_with(error), "{texts:?}: {found}");
        }
    }
}
