use std::io;
use std::path::PathBuf;

/// Why a `perf.data` cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PerfDataError {
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is no perf.data: it does not begin with PERFILE2", .0.display())]
    NotPerfData(PathBuf),
    #[error(
        "{} was written by perf to a pipe, and such a stream is not read: record into a file \
         (perf record -o FILE)", .0.display()
    )]
    Pipe(PathBuf),
    #[error("{} was recorded on a big-endian machine: only recordings of little-endian ones are read", .0.display())]
    BigEndian(PathBuf),
    #[error("{} is compressed: record without -z", .0.display())]
    Compressed(PathBuf),
    #[error(
        "{}: perf did not finish it, so that it lacks the description of its events: let perf record end \
         by itself, or by ctrl-C", .0.display()
    )]
    Unfinished(PathBuf),
    #[error("{} at byte {offset}: {what}", .path.display())]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error(
        "{} holds no switches of threads (it holds {holds}), so that nothing is known of what anybody waited \
         for: record them with {RECORD_WITH}", .path.display()
    )]
    NoSwitches { path: PathBuf, holds: String },
}

/// How to record what answers why something was slow.
const RECORD_WITH: &str = "perf record -a -k CLOCK_MONOTONIC -e sched:sched_switch,sched:sched_waking,\
                           sched:sched_wakeup_new,irq:*,timer:hrtimer_expire_* -- COMMAND";
