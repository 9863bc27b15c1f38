//! Laws that hold for any bytes: for each decoder a function that decodes any input and panics where
//! a law is broken.
//!
//! Two programs call these functions: `fuzz/libfuzzer`, which searches for inputs that break a law,
//! and this crate's test, which replays every kept input. Both count memory ([`memory`]), so that a
//! size trusted by a decoder is found before it is allocated.

pub mod answer;
pub mod ctf;
mod directory;
mod events;
pub mod go_trace;
pub mod graph;
pub mod kernel_records;
pub mod memory;
pub mod otlp;
pub mod perf_data;
pub mod perfetto;
pub mod process;
pub mod recording;
pub mod spans;
pub mod text_trace;
pub mod trace;
pub mod trace_dat;
mod traced;
pub mod words;

/// A decoder: its name, which is also its corpus's name, and the function that puts bytes through it.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: [Decoder; 15] = [
    ("kernel-records", kernel_records::check),
    ("ctf", ctf::check),
    ("trace", trace::check),
    ("perf-data", perf_data::check),
    ("trace-dat", trace_dat::check),
    ("text-trace", text_trace::check),
    ("perfetto", perfetto::check),
    ("recording", recording::check),
    ("graph", graph::check),
    ("answer", answer::check),
    ("otlp", otlp::check),
    ("spans", spans::check),
    ("words", words::check),
    ("process", process::check),
    ("go-trace", go_trace::check),
];

/// Puts `input` through the decoder called `name`, within its memory bound.
///
/// # Panics
/// When a law is broken, or no decoder has this name.
pub fn check(name: &str, input: &[u8]) {
    let found = DECODERS.iter().find(|(decoder, _)| *decoder == name);
    let (_, decode) = found.unwrap_or_else(|| panic!("there is no decoder `{name}`"));
    memory::bounded(memory::bound(input.len()), || decode(input));
}
