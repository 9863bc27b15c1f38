//! One function per question that the command line, or another shell, asks.
//!
//! The engine never prints and never serialises: it returns data ([`PathAnswer`] and its siblings), and `report` turns
//! the data into text, JSON or a Perfetto trace.

mod answer;
mod calls;
mod clocks;
mod code_names;
mod comparison;
mod cost;
pub mod doctor;
pub mod drill;
mod go_traces;
mod head;
mod hosts;
mod info;
pub mod latency;
mod open;
mod overview;
mod path;
mod paths_head;
mod problem;
mod query;
mod reclaims;
pub mod record;
pub mod requests;
mod source;
pub mod spans;
mod time_spec;
mod user_states;
pub mod watch;

pub use answer::{Head, NextQuestion, NextThread, OtherPath, PathAnswer, Question};
pub use calls::{
    CallsAnswer, CallsError, CallsOf, CallsQuery, Ender, EndersRequest, FunctionStacks, Group, MAX_CALLS,
    Which, calls, function_stacks, has_calls_of,
};
pub use comparison::{Compared, Comparison, Profile, compare};
pub use cost::{Cost, CostInKernel, CostOfKind};
pub use info::{InfoAnswer, info};
pub use open::{Synchronised, open, open_all, open_marks, sync};
pub use overview::Overview;
pub use path::{Answer, path};
pub use query::{PathQuery, QueryError, Scope, Subject, is_meant};
pub use reclaims::Reclaims;
pub use source::{OpenError, is_recording};
pub use time_spec::{TimeSpec, TimeSpecError, duration};
pub use user_states::UserState;
pub use wakepath_critical_path::{Algorithm, Severity, Window};
pub use wakepath_distribution::Measure;
pub use wakepath_event::{Comm, Tid};
pub use wakepath_import::Fault;
pub use wakepath_loaded::{
    CallKey, CallName, Caller, CodeNames, Command, CommandLine, Counts, CpuLimit, Frame, Host, Interval,
    Intervals, Name, Names, Object, Peer, Problem, ProblemKind, Recorded, Sampled, Session, Site, SiteId,
    Stack, Stacks, Survey, ThreadInfo, Unit, sampled,
};
pub use wakepath_recording::{FORMAT, OpenError as RecordingError, ReadFault};
pub use wakepath_symbols::{Found, Function};
pub use wakepath_sync::{HostClock, Pair, Synchronisation};
