//! A recording in memory, its names, and a thread's identity at a time.
//!
//! [`Recorded`] is a recording after reading: its graph, and beside it the data outside the graph, from which
//! everything gets its name. Nothing here reads a recording; only [`CodeNames`] opens files, to name their
//! functions. Names are bytes that other programs chose: the views escape them.

mod code;
mod collections;
mod contexts;
mod descriptor;
mod failed_calls;
mod far_end;
mod flow;
mod host;
mod intervals;
mod io_limit;
mod name;
mod names;
mod pools;
mod problem;
mod receiver;
mod recorded;
mod samples;
mod scheduling;
mod script;
mod signals;
mod stacks;
mod survey;
mod syscall;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thread;
mod unit;
mod user_marks;
mod wall_clock;

pub use code::CodeNames;
pub use contexts::Contexts;
pub use descriptor::{CallKey, CallName, Object, SetSize, TimerEnd, call_name};
pub use failed_calls::{AttemptId, FailedCalls};
pub use far_end::{FarEnd, FarEndKind, FarEnds};
pub use flow::{Endpoint, Peer};
pub use host::Host;
pub use intervals::{DiskRequest, Interval, Intervals};
pub use io_limit::IoLimit;
pub use name::Name;
pub use names::{CommandLine, CpuLimit, Names, Refaults, UnitLimit};
pub use pools::waits_for_job;
pub use problem::{Problem, ProblemKind};
pub use receiver::{AcceptQueue, Receiver, ReceiverKind};
pub use recorded::Recorded;
pub use samples::{Sampled, sampled};
pub use scheduling::{AllowedBy, AllowedCpus, Scheduling, SchedulingClass, Sharing};
pub use script::Script;
pub use signals::{Sending, Signals};
pub use stacks::{Caller, Frame, Site, SiteId, Stack, Stacks};
pub use survey::{Command, Counts, FrameCounts, OtherHost, Session, Survey};
pub use syscall::CallSet;
pub use thread::{ThreadInfo, pool_family, worker_family};
pub use unit::Unit;
pub use user_marks::{Stretch, StretchEnd, StretchKind, Stretches, UserMarks};
pub use wall_clock::WallClock;
