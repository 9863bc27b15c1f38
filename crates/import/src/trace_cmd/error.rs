use std::io;
use std::path::PathBuf;

/// Why a `trace.dat` cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TraceDatError {
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is no trace.dat: it does not begin with 17 08 44 and `tracing`", .0.display())]
    NotTraceDat(PathBuf),
    #[error(
        "{} is a trace.dat of version {version}, and versions 6 and 7 are read: convert it \
         (trace-cmd convert --file-version 7 --compression none -i FILE -o NEW)", .path.display()
    )]
    Version { path: PathBuf, version: String },
    #[error("{} was recorded on a big-endian machine: only recordings of little-endian ones are read", .0.display())]
    BigEndian(PathBuf),
    #[error(
        "{} is compressed by {by}, which is not read: convert it \
         (trace-cmd convert --compression none -i FILE -o NEW)", .path.display()
    )]
    Compressed { path: PathBuf, by: String },
    #[error(
        "{} holds what a latency tracer printed, and no events: record events with {RECORD_WITH}", .0.display()
    )]
    Latency(PathBuf),
    #[error("{} has stamps of the clock `{clock}`, which {why}: record with -C mono", .path.display())]
    Clock { path: PathBuf, clock: String, why: &'static str },
    #[error("{} at byte {offset}: {what}", .path.display())]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error(
        "{} holds no switches of threads (it holds {holds}), so that nothing is known of what anybody waited \
         for: record them with {RECORD_WITH}", .path.display()
    )]
    NoSwitches { path: PathBuf, holds: String },
}

/// How to record what answers why something was slow.
const RECORD_WITH: &str = "trace-cmd record -C mono -e sched_switch -e sched_waking \
                           -e sched_wakeup_new -e irq -e hrtimer_expire_entry -e hrtimer_expire_exit COMMAND";
