//! The function path behind a peak: the decisions of DARC (Traeger 2008, chapter 3) as a state machine without I/O.
//!
//! A driver owns the program, its functions and the probes. It hands in [`Event`]s and obeys [`Effect`]s:
//!
//! 1. The driver counts the calls to f₀ and hands in their [`Event::Histogram`]; a peak is chosen by the parameters
//!    `start_ops` and `start_peak`, or by [`Event::Peak`].
//! 2. [`Effect::FindSites`] asks for a function's call sites; [`Event::Sites`] answers.
//! 3. [`Effect::Measure`] names all nodes in the function tree whose calls are to be measured now. From then on, the
//!    driver hands in an [`Event::Call`] for each call to f₀, with the times of the measured calls inside it.
//! 4. After `decision_calls` calls within the peak the largest contributors are chosen: back to 2 for each of them, and
//!    [`Effect::Remove`] for nodes no longer needed. [`Effect::Finished`] comes when every path has ended.
//!
//! [`Drilldown`] is the machine. A node is a call in the context of its path (section 3.1): the same function below two
//! callers, or called at two places in the same caller, is two nodes. Several peaks at once are several machines.
//!
//! Rules beyond the paper:
//!
//! - *Probe time is taken off* all latencies, also off f₀'s latency before its comparison with the peak. A vote that
//!   depends on it is counted, and is a doubt (`latencies`).
//! - *A call has a vote on a node only if the node took its time in it*, at least half of its latency when it was
//!   chosen: a peak may have several causes, and the calls with one cause say nothing about another. A round goes on
//!   until each node has ten votes, at most four times as long (`machine::round`).
//! - *A loop is an answer with its number of calls*: the calls to f₀ also vote on the largest part of a function's own
//!   time.
//! - *A cause that takes the CPU and hits several callees*, none in half of the calls, is the answer at their caller
//!   (`tally`).
//! - *A level that does not fit in `max_nodes`* is measured in batches, and no call site is dropped (`machine::round`).
//! - *Each answer has a confidence and its doubts* ([`Doubt`]).

mod answer;
mod contributor;
mod decision;
mod effect;
mod event;
mod latencies;
mod machine;
mod parameters;
mod save;
mod tally;
mod tree;

pub use answer::{Doubt, End, LevelVotes, NodeCause, RootCause, Status, StopReason};
pub use contributor::{Contributor, Foreign};
pub use decision::{Batch, Contribution, Decision, Spread};
pub use effect::{Effect, MeasuredNode, Measurement};
pub use event::{
    CallRecord, Drift, Epoch, Event, FunctionId, InterruptTime, LatencyRange, NoSites, NodeId, NodeRecord,
    OwnTime, ProbeCost, Refusal, Site, SiteId, SiteKind,
};
pub use machine::{Calls, Drilldown, EventError, TreeNode};
pub use parameters::{MAX_DEPTH, MAX_NODES, Mode, ParameterError, Parameters, ParametersFile};
pub use save::{SAVE_VERSION, Save, SaveError};
pub use tree::NodeState;
