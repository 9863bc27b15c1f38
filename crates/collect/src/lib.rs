//! Loads the BPF programs, drains their buffers, runs a session.
//!
//! The only crate that loads BPF. It writes the kernel's events into a recording on disk and draws no conclusion from
//! them. A thread sleeps, wakes rarely, takes the rings' bytes and sleeps again; no record wakes it. Work that may
//! wait for a disk has separate threads: writing the recording, and reading the processes' mapped files.

mod callers;
mod child;
mod clocks;
mod command_lines;
mod contexts;
mod cost;
mod doctor;
mod drill;
mod error;
mod far_ends;
mod file_locks;
mod flight;
mod goroutines;
mod io_limit;
mod kernel_probes;
mod latency;
mod libbpf;
mod limits;
mod mapped_code;
mod mappings;
mod names;
mod options;
mod priority;
mod probe_budget;
mod probes;
mod programs;
mod raw_records;
mod refaults;
mod relocation;
mod rights;
mod rings;
mod sampling;
mod scheduling;
mod scripts;
mod session;
mod signals;
mod skeleton;
mod skips;
mod sockets;
mod stack_copy;
mod start_step;
mod steal;
mod unwind_rules;
mod unwinder;
mod watch;
mod write_behind;

pub use child::{Running, exit_code};
pub use contexts::{OpenSpans, UnreadContexts};
pub use doctor::{Check, CheckVerdict, examine};
pub use drill::{
    CallPlace, Drill, DrillCall, DrillCommand, DrillCounts, DrillEdge, DrillNode, DrillPlan, HandOverCounts,
    HandOverProbes, KernelCallee, KernelPlace, MAX_DRILL_NODES, MAX_DRILL_SAMPLES, MAX_KERNEL_PLACES,
    MAX_PYTHON_FUNCTIONS, OpenStorage, PlaceHits, PythonCall, PythonCounts, argument_register,
    kernel_allows_probes,
};
pub use error::Error;
pub use flight::{FlightOptions, KeptRecording};
pub use goroutines::{GoFound, GoRefused, GoStarted, IsAsked, find_go};
pub use kernel_probes::{KernelFunction, KernelTypes};
pub use latency::calibrate::{Calibration, calibrate};
pub use latency::counts::{Counts, Group, GroupCounts, Groups, Reading};
pub use latency::options::{Counted, LatencyOptions, MAX_DISKS, MAX_TARGETS};
pub use latency::{LatencyOutcome, count, try_kernel_functions};
pub use mappings::MappedFile;
pub use names::cgroup_paths;
pub use options::{Callers, DefaultVariable, Goroutines, KeptAttributes, Options, Stacks};
pub use probe_budget::{AHEAD, ProbeBudget, RemovedProbes, SINGLE_STEP_NS, to_remove};
pub use programs::Missing;
pub use rights::drop_rights;
pub use session::{Outcome, record};
pub use signals::{Moment, Signals, ask_to_keep, keep_child_status};
pub use start_step::StartStep;
pub use wakepath_inject::{
    Frame, Node as StubNode, Refusal as StubRefusal, Site as StubSite, SiteRefusal, Unwinder,
    needs_its_return_address,
};
pub use watch::{EndReason, GRACE};
pub use write_behind::Destination;
