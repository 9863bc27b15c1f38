//! Paths over machines that a small scheduler ran, which knows what was so: one machine, and the same as two hosts.

mod explanation;
mod hosts;
mod schedules;
