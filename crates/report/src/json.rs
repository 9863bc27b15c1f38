//! Answers as JSON: the contract on which scripts build. Keys may be added, never renamed.
//!
//! Times are integers, ns since the document's `origin_ns`. A number that may exceed 2^53, where readers with
//! doubles alone lose digits, is a decimal string. A name is its text if it is UTF-8; any other byte is spelled
//! `\xff`.

mod calls;
mod comparison;
mod doctor;
mod drill;
mod function;
mod goroutine;
mod hang;
mod head;
mod info;
mod latency;
mod overview;
mod path;
mod profiles;
mod requests;
#[cfg(test)]
mod shape;
mod sync;
mod watch;

pub use calls::{calls, function_stacks};
pub use comparison::comparison;
pub use doctor::doctor;
pub use drill::drill;
pub use info::info;
pub use latency::live_latency;
pub use latency::recorded_latency;
pub use overview::overview;
pub use path::path;
pub use profiles::{NoProfiles, profiles};
pub use requests::{Named, request, request_group, requests, requests_alone, requests_by_cause};
pub use sync::sync;
pub use watch::{watch_news, watched};

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::escape::text;

/// Writes a document on a line.
fn write(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    // Most writes have a few bytes, too few for a call through a table of functions.
    let mut out = BufWriter::with_capacity(32 * 1024, out);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Plain);
    document.serialize(&mut serializer)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Compact JSON in which nothing can drive a terminal: JSON itself escapes only the first 32 characters, so here
/// the other control characters and the invisible characters become `\u` too.
struct Plain;

impl serde_json::ser::Formatter for Plain {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return out.write_all(fragment.as_bytes());
        }
        let mut written = 0;
        for (at, c) in fragment.char_indices() {
            if c.is_control() || crate::escape::is_invisible(c) {
                out.write_all(&fragment.as_bytes()[written..at])?;
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
                written = at + c.len_utf8();
            }
        }
        out.write_all(&fragment.as_bytes()[written..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_plain_on_a_terminal_and_reads_back_as_it_was() {
        for name in ["a\x1b[31m", "del\x7f", "c1 \u{9b}2J", "rtl \u{202e}", "tag \u{e0041}", "grüße \"\\"] {
            let mut out = Vec::new();
            write(&mut out, &name).unwrap();
            let shown = String::from_utf8(out).unwrap();
            assert!(
                !shown.trim_end().chars().any(|c| c.is_control() || crate::escape::is_invisible(c)),
                "{shown}"
            );
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_spelled_out() {
        assert_eq!(text(b"ab\xff\xe2\x82c"), r"ab\xff\xe2\x82c");
        assert_eq!(text("日本".as_bytes()), "日本");
    }
}
