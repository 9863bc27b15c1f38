//! From runs to a table.

use std::fmt::Write;
use std::time::Duration;

use crate::load::{Load, Run};
use crate::recorders::{Recorded, Recorder};

/// One recorder's runs under one load.
#[derive(Default)]
pub struct Row {
    name: String,
    command: String,
    /// Seconds of a round trip, alone.
    alone: Vec<f64>,
    /// Time of a round trip when recorded, as a ratio to its pair's run alone, less 1: in quiet slices.
    overhead: Vec<f64>,
    /// The same over whole runs.
    whole: Vec<f64>,
    /// Nanoseconds that recording adds to a round trip.
    added_ns: Vec<f64>,
    consumer: Vec<f64>,
    events_per_trip: Vec<f64>,
    events: Vec<f64>,
    bytes: Vec<f64>,
    lost: Option<u64>,
}

impl Row {
    /// No run yet.
    pub fn new(recorder: &dyn Recorder) -> Self {
        Self { name: recorder.name(), command: recorder.command(), ..Self::default() }
    }

    /// A pair of runs: alone, then recorded with `consumer` CPU time used by the recorder meanwhile.
    pub fn add(&mut self, alone: &Run, with: &Run, consumer: Duration, recorded: Recorded) {
        self.alone.push(1.0 / alone.quiet);
        self.overhead.push(alone.quiet / with.quiet - 1.0);
        self.whole.push(alone.rate / with.rate - 1.0);
        self.added_ns.push((1.0 / with.quiet - 1.0 / alone.quiet) * 1e9);
        self.consumer.push(consumer.as_secs_f64() * with.rate / with.count);
        if let Some(events) = recorded.events {
            self.events.push(events as f64);
            self.events_per_trip.push(events as f64 / with.count);
            if let Some(bytes) = recorded.bytes.filter(|_| events > 0) {
                self.bytes.push(bytes as f64 / events as f64);
            }
        }
        if let Some(lost) = recorded.lost {
            self.lost = Some(self.lost.unwrap_or(0) + lost);
        }
    }
}

/// The value at a fraction of the sorted values, between neighbours by proportion; `None` of none.
pub fn quantile(values: &[f64], fraction: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = fraction * (sorted.len().checked_sub(1)?) as f64;
    let (below, above) = (*sorted.get(at.floor() as usize)?, *sorted.get(at.ceil() as usize)?);
    Some(below + (above - below) * at.fract())
}

/// The middle value; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// A figure, or a dash where there is none.
pub fn or_dash(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

/// The rows of a load as a table in Markdown, with the commands below.
pub fn table(load: &Load, rows: &[Row]) -> String {
    let alone: Vec<f64> = rows.iter().flat_map(|row| row.alone.iter().copied()).collect();
    let pairs = rows.iter().map(|row| row.overhead.len()).max().unwrap_or(0);
    let mut text = format!("### {}\n\n", load.name);
    let _ = writeln!(
        text,
        "`{}`: {} a round trip when nothing records; medians of {pairs} pairs of runs\n",
        load.command(),
        or_dash(median(&alone), |seconds| format!("{:.2} µs", seconds * 1e6)),
    );
    text.push_str(
        "| recorder | overhead | quartiles | over whole runs | added to a round trip | ratio to the floor | to ftrace | to perf \
         | events | a round trip | lost | bytes an event | its own CPU |\n|---|",
    );
    text.push_str(&"---:|".repeat(12));
    text.push('\n');
    for row in rows {
        let overhead = median(&row.overhead);
        let ratio_to = |name: &str| {
            let peer = rows.iter().find(|peer| peer.name.contains(name) && peer.name != row.name)?;
            Some(overhead? / median(&peer.overhead)?)
        };
        let percent = |value: f64| format!("{:.1}%", value * 100.0);
        let times = |value: f64| format!("{value:.2}");
        let quartiles = [0.25, 0.75].map(|at| or_dash(quantile(&row.overhead, at), percent));
        let cells = [
            row.name.clone(),
            or_dash(overhead, percent),
            quartiles.join(" to "),
            or_dash(median(&row.whole), percent),
            or_dash(median(&row.added_ns), |ns| format!("{ns:.0} ns")),
            or_dash(ratio_to("floor"), times),
            or_dash(ratio_to("ftrace"), times),
            or_dash(ratio_to("perf"), times),
            or_dash(median(&row.events), |events| format!("{events:.0}")),
            or_dash(median(&row.events_per_trip), times),
            row.lost.map_or_else(|| "–".to_owned(), |lost| lost.to_string()),
            or_dash(median(&row.bytes), |bytes| format!("{bytes:.0}")),
            or_dash(median(&row.consumer), percent),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
    for row in rows {
        let _ = writeln!(text, "- {}: `{}`", row.name, row.command);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{median, quantile};

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 1.0, 2.0, 3.0, 4.0], 0.25), Some(1.0));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }
}
