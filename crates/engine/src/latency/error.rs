//! Why nothing was counted.

use wakepath_collect::Error as CollectError;
use wakepath_functions::{FindError, TargetError};

use super::kernel::KernelRefusal;

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LatencyError {
    #[error("`{0}` is nothing that can be counted")]
    NoTarget(String),
    #[error("there is no system call `{name}`{}", suggestion(.near))]
    NoCall { name: String, near: Vec<&'static str> },
    #[error("there is no disk `{name}`{}", suggestion(.near))]
    NoDisk { name: String, near: Vec<String> },
    #[error("there are no locks `{0}`; there are `lock:user` and `lock:kernel`")]
    NoLock(String),
    #[error("there is no function `{name}` in this kernel{}", suggestion(.near))]
    NoKernelFunction { name: String, near: Vec<String> },
    #[error("`{name}` is a function of this kernel, whose calls cannot be seen: {source}")]
    KernelFunction { name: String, source: CollectError },
    #[error("cannot probe the kernel's `{name}`: {why}")]
    KernelRefused { name: String, why: KernelRefusal },
    #[error(
        "`kernel:{pattern}` means {count} functions, and at most {most} are counted at once: narrow the pattern"
    )]
    TooManyOfKernel { pattern: String, count: usize, most: usize },
    #[error("that is {asked} targets, and at most {most} are counted at once")]
    TooMany { asked: usize, most: usize },
    #[error("`{0}` cannot be told apart by whose it is: whom a disk's request is for, no request says")]
    Nobodys(String),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(
        "`{name}` in {file} can be probed, but the kernel has to single-step {what}{}",
        trap(*.per_call_ns)
    )]
    Slow { name: String, file: String, what: &'static str, per_call_ns: Option<u64> },
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// What a call costs that the kernel has to single-step.
fn trap(per_call_ns: Option<u64>) -> String {
    match per_call_ns {
        Some(ns) => format!(": {:.1} µs a call on this machine", ns as f64 / 1e3),
        None => String::from(", which costs many times as much; how much could not be measured"),
    }
}

fn suggestion<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; there is {only}"),
        Some((last, others)) => format!("; there are {} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_says_what_a_call_costs_here() {
        let slow = |per_call_ns| LatencyError::Slow {
            name: String::from("f"),
            file: String::from("./app"),
            what: "its first instruction",
            per_call_ns,
        };
        let head = "`f` in ./app can be probed, but the kernel has to single-step its first instruction";
        assert_eq!(slow(Some(21_340)).to_string(), format!("{head}: 21.3 µs a call on this machine"));
        assert_eq!(
            slow(None).to_string(),
            format!("{head}, which costs many times as much; how much could not be measured")
        );
    }
}
