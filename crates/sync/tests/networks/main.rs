//! Hosts on a common clock, over made-up networks: the packets' matches, and the clocks found from them.

mod hosts;
mod many_streams;
mod matching;
mod network;
