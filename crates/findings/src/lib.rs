//! Findings about a path, many calls or a set of threads, drawn from evidence by rules.
//!
//! Time is added up by typed keys ([`RowKey`], [`Activity`]); rules decide what is responsible, what is idle, and
//! which step leads further. A finding knows no question, holds no sentence and is never serialised: the engine
//! hands findings out, and the views word them.

mod attempts;
mod basis;
mod calls_findings;
mod causes;
mod chain;
mod deaths;
mod evidence;
mod far_ends;
mod far_process;
mod full_queue;
mod function_tree;
mod groups;
mod headline;
mod idleness;
mod keys;
mod left_alone;
mod method;
mod open_waits;
mod path_findings;
mod pauses;
mod polling;
mod rows;
mod scheduling;
mod sleep_loop;
mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod threads;
mod time_outs;
mod tree;
mod unheeded;
mod who;

pub use basis::{BasisMix, Certainty};
pub use calls_findings::{CallsFindings, CallsHeadline};
pub use causes::{CallCause, CallCausePart, CallPlace, ShownParts, causes, first_cause};
pub use chain::Chain;
pub use deaths::awaited::expected as awaited_deaths;
pub use deaths::{AwaitedBy, AwaitedWait, Death, DeathPart, KilledBy, WindowDeath, deaths, window_deaths};
pub use evidence::Evidence;
pub use far_ends::{KernelPart, OpenChain, OpenEnd, Way, open_chains};
pub use far_process::{Doing, FarProcess};
pub use function_tree::{
    ENOUGH_SAMPLES, ENOUGH_WAITS, FunctionTree, GroupTimes, SampledDoubt, SampledPath, Spent, Step,
};
pub use groups::PerGroup;
pub use headline::{Blames, Headline, LargestPart, LastWaits, WindowEnd};
pub use idleness::Pools;
pub use keys::{
    Activity, Blamed, DiskUse, EndKey, EndedBy, Expected, PartKey, RowKey, ThreadKey, ThreadName,
};
pub use left_alone::{ChildWait, LeftAlone, child_waits, left_alone};
pub use method::Method;
pub use open_waits::{
    OpenWaits, ThreadsHeadline, WindowWaits, open_waits_of_threads, threads_headline, waits_of_window,
};
pub use path_findings::{Finding, PathFindings};
pub use pauses::Pauses;
pub use polling::{Polling, Spinning, Tried};
pub use rows::{End, Row, Waits, rows};
pub use scheduling::{Behind, Confined, CpuReasons, Standing};
pub use sleep_loop::SleepLoop;
pub use tally::{Code, Seen, Sites, Tally};
pub use threads::{LongestWait, ThreadTimes, thread_to_ask, threads};
pub use time_outs::{Awaited, OtherReading, Readings, readings};
pub use tree::{CauseTree, Leaf, MAX_DEPTH, Node, Sum, cause_tree, merged_tree};
pub use unheeded::{LivedUntil, LivesOn, Unheeded, unheeded};
pub use who::{Doers, Who};
