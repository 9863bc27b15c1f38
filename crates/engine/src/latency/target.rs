//! The grammar of latency targets, the same for live counting and for recordings.

use wakepath_event::Call;
use wakepath_functions::{Pattern, similar};

/// The most names in an error.
pub const MAX_LISTED: usize = 5;

/// A target as users write it, before a look-up on a machine or in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target<'a> {
    /// `runqueue`.
    RunQueue,
    /// `lock`, `lock:user`, `lock:kernel`.
    Lock(Option<LockKind>),
    /// `disk`, `disk:NAME`.
    Disk(Option<&'a str>),
    /// `syscall:NAME`.
    SystemCall(Pattern),
    /// `blocked:NAME`.
    Blocked(Pattern),
    /// `segment:KIND`.
    Segment(Pattern),
    /// `span:SERVICE/OPERATION`.
    Span(Pattern),
    /// `ust:PROVIDER:NAME`.
    User(Pattern),
    /// `kernel:FUNCTION`.
    KernelFunction(Pattern),
    /// `FILE:FUNCTION`, or a function alone.
    Function,
}

/// The side with a kind of lock: user space (futexes) or the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// User space.
    User,
    /// The kernel.
    Kernel,
}

/// The error for a text that is no target, or for an absent target.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TargetError {
    #[error("`{0}` is not a target")]
    NotATarget(String),
    #[error("there is no `{target}`{}", quoted("; similar: ", .similar))]
    Unknown { target: String, similar: Vec<String> },
    #[error("there is no `{target}` {place}{}", quoted("; available: ", .there))]
    Absent { target: String, place: &'static str, there: Vec<String> },
}

/// `names` with an introduction; nothing for no names.
fn quoted(introduction: &str, names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!("{introduction}{only}"),
        Some((last, others)) => format!("{introduction}{} and {last}", others.join(", ")),
    }
}

impl<'a> Target<'a> {
    /// The target named by `text`.
    ///
    /// # Errors
    /// When a lock kind is unknown: all else is looked up later.
    pub fn parse(text: &'a str) -> Result<Self, TargetError> {
        Ok(match text.split_once(':') {
            None if text == "runqueue" => Self::RunQueue,
            None if text == "lock" => Self::Lock(None),
            None if text == "disk" => Self::Disk(None),
            Some(("lock", "user")) => Self::Lock(Some(LockKind::User)),
            Some(("lock", "kernel")) => Self::Lock(Some(LockKind::Kernel)),
            Some(("lock", _)) => {
                let similar = ["lock:user", "lock:kernel"].map(String::from).to_vec();
                return Err(TargetError::Unknown { target: text.to_owned(), similar });
            }
            Some(("disk", name)) => Self::Disk(Some(name)),
            Some(("syscall", name)) => Self::SystemCall(Pattern::new(name)),
            Some(("blocked", name)) => Self::Blocked(Pattern::new(name)),
            Some(("segment", kind)) => Self::Segment(Pattern::new(kind)),
            Some(("span", name)) => Self::Span(Pattern::new(name)),
            Some(("ust", name)) => Self::User(Pattern::new(name)),
            Some(("kernel", name)) => Self::KernelFunction(Pattern::new(name)),
            _ => Self::Function,
        })
    }
}

/// The named system calls, with their numbers.
fn system_calls() -> impl Iterator<Item = (&'static str, u32)> + Clone {
    (0..Call::COUNT).filter_map(|number| Some((Call::name(number)?, number)))
}

/// The system calls matching the pattern, each with its target's name, and the calls that today's C library makes in
/// their place: `*stat` also means `newfstatat`, which `stat()` makes. At least one.
///
/// # Errors
/// When none matches.
pub fn matching_calls<T>(
    prefix: &str,
    pattern: &Pattern,
    kind: impl Fn(u32) -> T + Clone,
) -> Result<Vec<(String, T)>, TargetError> {
    let calls = system_calls().map(|(name, number)| (name, kind(number)));
    if pattern.is_exact() {
        return matching(prefix, pattern, calls);
    }
    let instead: Vec<_> = system_calls()
        .filter(|(name, _)| pattern.matches(name))
        .filter_map(|(name, _)| Call::made_instead_of(name))
        .collect();
    let meant = |name: &str| pattern.matches(name) || instead.contains(&name);
    let found: Vec<_> = calls.clone().filter(|(name, _)| meant(name)).collect();
    match found.is_empty() {
        true => matching(prefix, pattern, calls),
        false => Ok(found.into_iter().map(|(name, kind)| (format!("{prefix}:{name}"), kind)).collect()),
    }
}

/// The names matched by the pattern, with their targets' names; at least one.
///
/// # Errors
/// When none matches.
pub fn matching<'n, T>(
    prefix: &str,
    pattern: &Pattern,
    names: impl Iterator<Item = (&'n str, T)> + Clone,
) -> Result<Vec<(String, T)>, TargetError> {
    let target = |name: &str| format!("{prefix}:{name}");
    let matched = names.clone().filter(|(name, _)| pattern.matches(name));
    let found: Vec<_> = matched.map(|(name, value)| (target(name), value)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let similar = similar(pattern.as_str(), names.map(|(name, _)| name.into()));
    Err(TargetError::Unknown {
        target: target(pattern.as_str()),
        similar: similar.iter().map(|name| target(name)).collect(),
    })
}
