//! The program live on the test machine: claims about small times and shares, which hold only while little else runs.
//! `packaging/noisy-tests` names the tests whose limits a neighbour can break, each with its reason: no other test here
//! runs beside them (`place_alone`).

mod causes;
mod commands;
mod cost;
mod events;
mod latency;
mod probes;
mod stacks;
mod start;
mod steal;
mod tracers;
mod unwinding;
