//! Hosts on one clock, over made-up networks: which packet is which, and what the clocks are found to be.

mod hosts;
mod many_streams;
mod matching;
mod network;
