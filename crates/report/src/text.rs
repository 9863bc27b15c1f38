//! Answers as text for a reader.

mod calls;
mod comparison;
pub(crate) mod cost;
mod deaths;
mod doctor;
mod drill;
mod explain;
mod footer;
mod function_path;
mod goroutine;
mod hangs;
mod headline;
mod info;
mod latency;
mod open_chains;
mod overview;
mod path;
mod reclaims;
mod refused;
mod requests;
mod segments;
mod spans;
mod sync;
mod time_outs;
mod tree;
mod user_states;
mod watch;

pub use calls::calls;
pub(crate) use calls::{calls_headline, cause_text};
pub use comparison::comparison;
pub use doctor::doctor;
pub use drill::drill;
pub use explain::explain;
pub use footer::Source;
pub use function_path::{function_path, function_stacks};
pub use goroutine::goroutines_unseen;
pub use goroutine::{go_trace, goroutines, goroutines_started};
pub(crate) use headline::headline;
pub use info::info;
pub use latency::live_latency;
pub use latency::{other_processes, recorded_latency, recorded_until};
pub use overview::{candidate, overview};
pub(crate) use overview::{headline as overview_headline, next_words as overview_next};
pub use path::path;
pub(crate) use path::{next_words, record_words, row_text};
pub use refused::refused;
pub(crate) use requests::{
    NextStep, by_cause_sentence, cause_words, next_step, operation_name, other_warnings, request_sentence,
    spans_left_out,
};
pub use requests::{
    next_by_cause, request, request_alone, request_group, requests, requests_alone, requests_by_cause,
};
pub use segments::segments;
pub use spans::{spans_awaited, spans_received, unread_contexts};
pub use sync::sync;
pub use tree::{merged, tree};
pub use watch::{KeptFiles, kept_name, watch_news, watched};

pub use crate::wording::is_shown_nameless;

use std::time::Duration;

use chrono::DateTime;
use wakepath_engine::Head;
use wakepath_engine::requests::SpanTime;

use crate::units::{duration, share};
use crate::wording;

/// A time range as logs have it, and the host.
fn when(head: &Head, from: impl Into<SpanTime>, to: impl Into<SpanTime>) -> String {
    let host = wording::name(&head.host.name);
    let on = if host.is_empty() { String::new() } else { format!(" on {host}") };
    when_anywhere(head, from, to) + &on
}

/// The same without the host: an unrecorded time may be any host's.
fn when_anywhere(head: &Head, from: impl Into<SpanTime>, to: impl Into<SpanTime>) -> String {
    // A request may be older than the recording: its spans came late.
    let since = [from.into(), to.into()].map(|at: SpanTime| at.since_origin(head.origin));
    let Some(origin) = head.origin_realtime_ns else {
        let [from, to] = since.map(|ns| match ns {
            0.. => duration(ns.unsigned_abs()),
            before => format!("-{}", duration(before.unsigned_abs())),
        });
        return format!("{from} to {to} after the start");
    };
    let [from, to] = since.map(|ns| origin.saturating_add_signed(ns));
    format!("{} UTC", utc_range(from, to))
}

/// A part of a window: ` 61.1%   728 ms  `.
fn part(ns: u64, window_ns: u64) -> String {
    format!("{:>6}  {:>7}  ", share(ns, window_ns), duration(ns))
}

/// Seconds, to the nanosecond: `1.5`.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A range in UTC, both ends in ns since 1970: `2026-11-21 02:58:41.310 to 02:58:45.312`. Times are cut, not
/// rounded into the next second.
fn utc_range(from_ns: u64, to_ns: u64) -> String {
    // Enough decimals to distinguish the two ends by a hundredth of their distance.
    let time = match to_ns.saturating_sub(from_ns) {
        0..100_000 => "%H:%M:%S%.9f",
        100_000..100_000_000 => "%H:%M:%S%.6f",
        _ => "%H:%M:%S%.3f",
    };
    let [from, to] = [from_ns, to_ns].map(|ns| DateTime::UNIX_EPOCH + Duration::from_nanos(ns));
    let to_date = if from.date_naive() == to.date_naive() { "" } else { "%Y-%m-%d " };
    format!("{} to {}", from.format(&format!("%Y-%m-%d {time}")), to.format(&format!("{to_date}{time}")))
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;

    use super::*;
    use crate::sample::{Answered, command};
    use wakepath_findings::testing::{ORIGIN, checkout};

    #[test]
    fn a_time_before_the_recording_is_shown_as_it_is() {
        let story = checkout();
        let mut head = story.answer(command()).head.clone();
        let [from, to] = [2_310_000_000, 1_310_000_000].map(|before| Stamp::from_ns(ORIGIN - before));
        assert_eq!(when(&head, from, to), "2026-11-21 02:58:39.000 to 02:58:40.000 UTC on web3");
        head.origin_realtime_ns = None;
        assert_eq!(when(&head, from, to), "-2.31 s to -1.31 s after the start on web3");
        let to = Stamp::from_ns(ORIGIN + 1_310_000_000);
        assert_eq!(when(&head, from, to), "-2.31 s to 1.31 s after the start on web3");
    }

    #[test]
    fn a_range_of_time_has_the_date_once_and_its_times_are_cut() {
        const NS: u64 = 1_000_000_000;
        // Seconds by `date -u -d DATE +%s`.
        for (from, to, expected) in [
            (0, 1, "1970-01-01 00:00:00.000000000 to 00:00:00.000000001"),
            (951_782_400 * NS, 951_868_800 * NS, "2000-02-29 00:00:00.000 to 2000-03-01 00:00:00.000"),
            (
                1_709_164_800 * NS,
                1_709_164_800 * NS + 200_000,
                "2024-02-29 00:00:00.000000 to 00:00:00.000200",
            ),
            (1_795_219_199 * NS, 1_795_219_199 * NS + 999_999_999, "2026-11-20 23:59:59.000 to 23:59:59.999"),
            (4_107_542_400 * NS, u64::MAX, "2100-03-01 00:00:00.000 to 2554-07-21 23:34:33.709"),
        ] {
            assert_eq!(utc_range(from, to), expected);
        }
    }
}
