//! From all recorders' rounds to a table.

use std::fmt::Write;
use std::time::Duration;

use crate::comparison::{QUIET, Speed, Turn, WHOLE, scatter};
use crate::load::{Load, Run};
use crate::recorders::{Recorded, Recorder};
use crate::statistics::{Estimate, judged, median, or_dash};

/// In place of each figure that the rounds do not show.
const TOO_NOISY: &str = "too noisy to judge";

/// A recorder's runs under a load: one run per round, in the rounds' order.
#[derive(Default)]
pub struct Row {
    name: String,
    command: String,
    rounds: Vec<Round>,
    /// The recorder's CPU seconds, and the runs' seconds.
    consumer: (f64, f64),
    bytes: Vec<f64>,
    lost: Option<u64>,
}

struct Round {
    turn: Turn,
    /// Events per round trip, if the recorder counts them.
    events: Option<f64>,
}

/// A round with fewer events than this share of the median round does not show a recorder's cost: it began late or
/// was held up.
const MIN_EVENTS: f64 = 0.95;

impl Row {
    /// A row without runs.
    pub fn new(recorder: &dyn Recorder) -> Self {
        Self { name: recorder.name(), command: recorder.command(), ..Self::default() }
    }

    /// Adds a round: the recorder used `consumer` CPU time while the load ran.
    pub fn add(&mut self, turn: Turn, consumer: Duration, recorded: Recorded) {
        let events = recorded.events.map(|events| events as f64 / turn.with.count);
        self.rounds.push(Round { turn, events });
        self.consumer.0 += consumer.as_secs_f64();
        self.consumer.1 += turn.with.count / turn.with.rate;
        if let Some((events, bytes)) = recorded.events.filter(|events| *events > 0).zip(recorded.bytes) {
            self.bytes.push(bytes as f64 / events as f64);
        }
        if let Some(lost) = recorded.lost {
            self.lost = Some(self.lost.unwrap_or(0) + lost);
        }
    }

    /// A round trip's additional time, ns, if the rounds show it.
    pub fn added_ns(&self, speed: Speed) -> Option<Estimate> {
        judged(&self.added(speed))
    }

    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// The rounds in their order; `None` for a round without all events.
    fn whole(&self) -> impl Iterator<Item = Option<&Turn>> {
        let events: Vec<f64> = self.rounds.iter().filter_map(|round| round.events).collect();
        let usual = median(&events).unwrap_or(0.0);
        let is_whole = move |round: &&Round| round.events.is_none_or(|events| events >= MIN_EVENTS * usual);
        self.rounds.iter().map(move |round| Some(round).filter(is_whole).map(|round| &round.turn))
    }

    fn added(&self, speed: Speed) -> Vec<f64> {
        self.whole().flatten().map(|turn| turn.added_ns(speed)).collect()
    }

    fn overhead(&self, speed: Speed) -> Option<Estimate> {
        judged(&self.whole().flatten().map(|turn| turn.overhead(speed)).collect::<Vec<_>>())
    }

    /// The ratio of this recorder's cost to the peer's: each round gives a separate ratio.
    fn ratio_to(&self, peer: &Self, speed: Speed) -> Option<Estimate> {
        // A round's ratio means little if either cost may be zero.
        self.added_ns(speed)?;
        peer.added_ns(speed)?;
        let rounds = self.whole().zip(peer.whole()).filter_map(|(ours, theirs)| ours.zip(theirs));
        let ratios = rounds.map(|(ours, theirs)| ours.added_ns(speed) / theirs.added_ns(speed));
        judged(&ratios.collect::<Vec<_>>())
    }

    /// The events in a round trip, and the number of rounds with too few.
    fn events(&self) -> String {
        let events: Vec<f64> = self.rounds.iter().filter_map(|round| round.events).collect();
        let found = or_dash(median(&events), |events| format!("{events:.2}"));
        match self.whole().filter(Option::is_none).count() {
            0 => found,
            short => format!("{found} ({short} rounds with fewer left out)"),
        }
    }
}

/// A figure, or the words in its place.
fn or_noisy(value: Option<Estimate>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| TOO_NOISY.to_owned(), |found| text(found.median))
}

/// A load's rows as a table in Markdown, with the commands below. `alone`: its runs alone, in their order.
pub fn table(load: &Load, rows: &[Row], alone: &[Run]) -> String {
    let seconds: Vec<f64> = alone.iter().map(|run| 1.0 / run.rate).collect();
    let rounds = rows.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
    let percent = |value: f64| format!("{:.1}%", value * 100.0);
    let mut text = format!("### {}\n\n", load.name);
    let _ = writeln!(
        text,
        "`{}`: {} a round trip when nothing records; medians of {rounds} rounds. Runs alone differ from the runs \
         alone before and after them by {} (the median; {} in quiet slices).\n",
        load.command(),
        or_dash(median(&seconds), |seconds| format!("{:.2} µs", seconds * 1e6)),
        or_dash(scatter(alone, WHOLE), percent),
        or_dash(scatter(alone, QUIET), percent),
    );
    text.push_str(
        "| recorder | overhead | with 95% confidence | in quiet slices | added to a round trip | ratio to the floor \
         | to ftrace | to perf | events a round trip | lost | bytes an event | its own CPU |\n|---|",
    );
    text.push_str(&"---:|".repeat(11));
    text.push('\n');
    for row in rows {
        let _ = writeln!(text, "| {} |", cells(row, rows).join(" | "));
    }
    text.push('\n');
    for row in rows {
        let _ = writeln!(text, "- {}: `{}`", row.name, row.command);
    }
    text
}

fn cells(row: &Row, rows: &[Row]) -> Vec<String> {
    let percent = |value: f64| format!("{:.1}%", value * 100.0);
    let times = |value: f64| format!("{value:.2}");
    let ratio_to = |name: &str| {
        let peer = rows.iter().find(|peer| peer.name.contains(name) && peer.name != row.name);
        peer.map_or_else(|| "–".to_owned(), |peer| or_noisy(row.ratio_to(peer, WHOLE), times))
    };
    let overhead = row.overhead(WHOLE);
    let (cpu, of) = row.consumer;
    vec![
        row.name.clone(),
        or_noisy(overhead, percent),
        overhead.map_or_else(
            || "–".to_owned(),
            |found| format!("{} to {}", percent(found.low), percent(found.high)),
        ),
        or_noisy(row.overhead(QUIET), percent),
        or_noisy(row.added_ns(WHOLE), |ns| format!("{ns:.0} ns")),
        ratio_to("floor"),
        ratio_to("ftrace"),
        ratio_to("perf"),
        row.events(),
        row.lost.map_or_else(|| "–".to_owned(), |lost| lost.to_string()),
        or_dash(median(&row.bytes), |bytes| format!("{bytes:.0}")),
        percent(if of > 0.0 { cpu / of } else { 0.0 }),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Row, TOO_NOISY, cells};
    use crate::comparison::{QUIET, Turn, WHOLE};
    use crate::load::Run;
    use crate::recorders::Recorded;

    /// A row from rounds, each given as a round trip's ns: alone, and recorded.
    fn row(name: &str, rounds: &[(f64, f64)]) -> Row {
        let run = |ns: f64| Run { rate: 1e9 / ns, quiet: 1e9 / ns, count: 1000.0 };
        let mut row = Row { name: name.to_owned(), ..Row::default() };
        for &(alone, with) in rounds {
            let turn = Turn { before: run(alone), with: run(with), after: run(alone) };
            row.add(turn, Duration::ZERO, Recorded::default());
        }
        row
    }

    /// Twelve rounds; each is slower than the round before, and so is its recorded run.
    fn drifting(name: &str, times: f64) -> Row {
        let rounds: Vec<_> = (0..12).map(|round| 5000.0 + 100.0 * f64::from(round)).collect();
        row(name, &rounds.iter().map(|alone| (*alone, alone * times)).collect::<Vec<_>>())
    }

    #[test]
    fn the_figure_of_a_quiet_day_is_printed() {
        let cells = cells(&drifting("ours", 1.1), &[]);
        assert_eq!(&cells[..5], ["ours", "10.0%", "10.0% to 10.0%", "10.0%", "555 ns"]);
    }

    #[test]
    fn a_noisy_day_is_said_and_has_no_percentage() {
        let noisy: Vec<_> = (0..12).map(|at| (5000.0, if at % 2 == 0 { 5100.0 } else { 5900.0 })).collect();
        let cells = cells(&row("ours", &noisy), &[]);
        assert_eq!(&cells[1..5], [TOO_NOISY, "–", TOO_NOISY, TOO_NOISY]);
        assert!(cells[..11].iter().all(|cell| !cell.contains('%')), "{cells:?}");
    }

    #[test]
    fn a_negative_overhead_is_never_a_result() {
        let faster = row("ours", &[(5000.0, 4815.0); 12]);
        let cells = cells(&faster, &[]);
        assert_eq!(&cells[1..5], [TOO_NOISY, "–", TOO_NOISY, TOO_NOISY]);
        assert_eq!((faster.added_ns(WHOLE), faster.added_ns(QUIET)), (None, None));
    }

    #[test]
    fn too_few_rounds_judge_nothing() {
        assert_eq!(cells(&row("ours", &[(5000.0, 5500.0); 5]), &[])[1], TOO_NOISY);
        assert_eq!(cells(&row("ours", &[(5000.0, 5500.0); 6]), &[])[1], "10.0%");
    }

    /// The ratio of the medians would be 1.82.
    #[test]
    fn a_ratio_is_that_of_the_same_round() {
        let costs = [(100.0, 200.0), (110.0, 198.0), (120.0, 240.0)].repeat(4);
        let of = |name, cost: fn(&(f64, f64)) -> f64| {
            row(name, &costs.iter().map(|both| (5000.0, 5000.0 + cost(both))).collect::<Vec<_>>())
        };
        let rows = [of("the floor", |both| both.0), of("ours", |both| both.1)];
        assert_eq!(cells(&rows[1], &rows)[5], "2.00");
        assert_eq!(cells(&rows[0], &rows)[5], "–");
    }

    /// A recorder that had not begun costs nothing, and has no events.
    #[test]
    fn rounds_without_all_events_are_left_out() {
        let run = |ns: f64| Run { rate: 1e9 / ns, quiet: 1e9 / ns, count: 1000.0 };
        let mut row = Row { name: "ours".to_owned(), ..Row::default() };
        for round in 0..12 {
            let late = round % 3 == 0;
            let with = run(if late { 5000.0 } else { 5500.0 });
            let events = Some(if late { 1500 } else { 4000 });
            let recorded = Recorded { events, ..Recorded::default() };
            row.add(Turn { before: run(5000.0), with, after: run(5000.0) }, Duration::ZERO, recorded);
        }
        let cells = cells(&row, &[]);
        assert_eq!((cells[1].as_str(), cells[2].as_str()), ("10.0%", "10.0% to 10.0%"));
        assert_eq!(cells[8], "4.00 (4 rounds with fewer left out)");
    }

    #[test]
    fn no_ratio_is_printed_to_a_peer_whose_cost_is_not_known() {
        let noisy: Vec<_> = (0..12).map(|at| (5000.0, if at % 2 == 0 { 4900.0 } else { 5400.0 })).collect();
        let rows = [row("the floor", &noisy), drifting("ours", 1.1)];
        assert_eq!(cells(&rows[1], &rows)[5], TOO_NOISY);
    }

    /// The ratios are within a quarter of 2, but the interval of either cost reaches further than a quarter of it.
    #[test]
    fn a_steady_ratio_needs_both_costs_known() {
        let of = |name, costs: [f64; 6]| row(name, &costs.map(|cost| (5000.0, 5000.0 + cost)));
        let floor = of("the floor", [70.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        let rows = [floor, of("ours", [160.0, 200.0, 200.0, 200.0, 200.0, 200.0])];
        assert_eq!(
            (cells(&rows[1], &rows)[5].as_str(), cells(&rows[1], &rows)[4].as_str()),
            (TOO_NOISY, "200 ns")
        );
        let floor = of("the floor", [80.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        let rows = [floor, of("ours", [140.0, 200.0, 200.0, 200.0, 200.0, 200.0])];
        assert_eq!(
            (cells(&rows[1], &rows)[5].as_str(), cells(&rows[0], &rows)[4].as_str()),
            (TOO_NOISY, "100 ns")
        );
    }
}
