//! From a service's rounds to a table.

use std::fmt::Write;

use super::{BASELINE, Round, Run, SCENARIOS, Service};
use crate::statistics::{Estimate, estimate, median, or_dash};

/// A table in Markdown. Each run sent `share` times the usual number of requests.
pub fn of(service: &Service, rounds: &[Round], share: f64) -> String {
    let mut text = format!(
        "`{} {}`, and on the same CPU {} requests for `{}` by {} clients, of which each sends one as soon as the one before is answered; medians of {} \
         rounds. Two runs of B in the same round differ by {} (the median).\n\n",
        service.program,
        service.arguments.join(" "),
        (service.requests as f64 * share) as usize,
        service.path,
        service.clients,
        rounds.len(),
        or_dash(scatter(rounds), percent),
    );
    let _ = writeln!(
        text,
        "| | scenario | a request, µs | over A | over B | with 95% confidence | {} | times less than system calls (ftrace; perf) | CPU time of the \
         service over B | spans a request, bytes | events a request | lost | the recorder's own CPU |\n|---|---|{}",
        service.beside,
        "---:|".repeat(11)
    );
    for (place, scenario) in SCENARIOS.iter().enumerate() {
        let runs: Vec<Run> = rounds.iter().filter_map(|round| run(round, place)).collect();
        if runs.is_empty() {
            continue;
        }
        let all = |of: fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
        let events: Vec<f64> = runs.iter().filter_map(|run| run.events).collect();
        let lost: Option<u64> = runs.iter().map(|run| run.lost).sum();
        let over_b =
            (place != BASELINE).then(|| estimate(&costs(rounds, place, BASELINE, REQUEST))).flatten();
        let cpu = (place != BASELINE).then(|| estimate(&costs(rounds, place, BASELINE, CPU))).flatten();
        let over_a = (place != 0).then(|| estimate(&costs(rounds, place, 0, REQUEST))).flatten();
        let cells = [
            scenario.letter.to_owned(),
            scenario.name.to_owned(),
            or_dash(all(REQUEST), |seconds| format!("{:.1}", seconds * 1e6)),
            or_dash(over_a.map(|it| it.median), percent),
            or_dash(over_b.map(|it| it.median), percent),
            over_b
                .map_or_else(|| "–".to_owned(), |it| format!("{} to {}", percent(it.low), percent(it.high))),
            service.costs_there[place].to_owned(),
            ratios(rounds, place),
            cpu.map_or_else(
                || "–".to_owned(),
                |it| format!("{} ({} to {})", percent(it.median), percent(it.low), percent(it.high)),
            ),
            or_dash(all(|run| run.spans), |bytes| format!("{bytes:.0}")),
            or_dash(median(&events), |events| format!("{events:.1}")),
            lost.map_or_else(|| "–".to_owned(), |lost| lost.to_string()),
            or_dash(all(|run| run.recorder).filter(|_| !events.is_empty()), percent),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

const REQUEST: fn(&Run) -> f64 = |run| run.request;
const CPU: fn(&Run) -> f64 = |run| run.cpu;

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A scenario's run in a round; for the baseline, the mean of its two runs.
fn run(round: &Round, place: usize) -> Option<Run> {
    let run = round[place]?;
    let second = round.last().copied().flatten().filter(|_| place == BASELINE);
    let Some(second) = second else { return Some(run) };
    let mean = |of: fn(&Run) -> f64| f64::midpoint(of(&run), of(&second));
    Some(Run { request: mean(REQUEST), cpu: mean(CPU), ..run })
}

/// For each round, the additional time over another scenario in the same round, as a share.
fn costs(rounds: &[Round], place: usize, over: usize, of: fn(&Run) -> f64) -> Vec<f64> {
    let pairs = rounds.iter().filter_map(|round| Some((run(round, place)?, run(round, over)?)));
    pairs.map(|(with, without)| of(&with) / of(&without) - 1.0).collect()
}

/// The ratio to each rival that ran.
fn ratios(rounds: &[Round], place: usize) -> String {
    let ran = |rival: &&usize| rounds.iter().any(|round| round[**rival].is_some());
    let rivals = SCENARIOS[place].rivals.iter().filter(ran);
    let ratios: Vec<_> = rivals.map(|&rival| times(rounds, place, rival)).collect();
    if ratios.is_empty() { "–".to_owned() } else { ratios.join("; ") }
}

/// The ratio of the rival's cost to the scenario's: the ratio of the two medians, and the least ratio that their intervals allow. A ratio for
/// each round would mean nothing where the smaller cost is about nothing.
fn times(rounds: &[Round], place: usize, rival: usize) -> String {
    let of = |place| estimate(&costs(rounds, place, BASELINE, REQUEST));
    let (Some(ours), Some(theirs)) = (of(place), of(rival)) else { return "–".to_owned() };
    let least = least(ours, theirs).map_or_else(String::new, |least| format!("at least {least:.1}"));
    match (ours.median > 0.0 && theirs.median > 0.0, least.is_empty()) {
        (true, false) => format!("{:.1} ({least})", theirs.median / ours.median),
        (true, true) => format!("{:.1} (not certain)", theirs.median / ours.median),
        (false, false) => least,
        (false, true) => "not certain".to_owned(),
    }
}

/// The least ratio that both intervals allow; `None` if the rival may cost nothing.
fn least(ours: Estimate, theirs: Estimate) -> Option<f64> {
    (theirs.low > 0.0 && ours.high > 0.0).then(|| theirs.low / ours.high)
}

/// The median difference between the baseline's two runs, as a share.
fn scatter(rounds: &[Round]) -> Option<f64> {
    let pairs = rounds.iter().filter_map(|round| round[BASELINE].zip(round.last().copied().flatten()));
    median(&pairs.map(|(first, second)| (first.request / second.request - 1.0).abs()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::{BASELINE, Round, Run, SCENARIOS, SERVICES};
    use super::{costs, of, scatter, times};

    /// A round in which the baseline takes `base`, and each other scenario its share more.
    fn round(base: f64, shares: [f64; SCENARIOS.len()]) -> Round {
        let run = |share: f64| {
            Some(Run { request: base * (1.0 + share), cpu: 1.0, spans: 100.0, ..Run::default() })
        };
        shares.into_iter().chain([shares[BASELINE]]).map(run).collect()
    }

    const SHARES: [f64; SCENARIOS.len()] = [-0.1, 0.0, 0.04, 0.05, 0.2, 0.12, 0.2, 0.5];

    #[test]
    fn a_cost_is_that_over_the_baseline_of_the_same_round() {
        // The machine becomes twice as slow.
        let rounds: Vec<_> = (0..9).map(|at| round(1.0 + f64::from(at) / 8.0, SHARES)).collect();
        for (place, share) in SHARES.into_iter().enumerate() {
            for cost in costs(&rounds, place, BASELINE, super::REQUEST) {
                assert!((cost - share).abs() < 1e-9, "{place}: {cost}");
            }
        }
        let table = of(&SERVICES[0], &rounds, 1.0);
        let row = table.lines().find(|line| line.starts_with("| C-1 |")).expect("a row");
        let cells: Vec<_> = row.split(" | ").collect();
        assert_eq!(cells[3..8], ["15.6%", "4.0%", "4.0% to 4.0%", "3.2%", "3.0 (at least 3.0)"], "{row}");
        assert_eq!(cells[9], "100");
        let row = table.lines().find(|line| line.contains("| wakepath, to the disk |")).expect("a row");
        assert_eq!(row.split(" | ").nth(7), Some("4.0 (at least 4.0); 10.0 (at least 10.0)"), "{row}");
        let row = table.lines().find(|line| line.starts_with("| B |")).expect("a row");
        assert!(row.contains("| 11.1% | – | – | – | – |"), "{row}");
    }

    #[test]
    fn the_baseline_is_the_mean_of_its_two_runs() {
        let mut both = round(1.0, SHARES);
        both[SCENARIOS.len()] = Some(Run { request: 1.1, cpu: 1.0, ..Run::default() });
        let found = costs(std::slice::from_ref(&both), 2, BASELINE, super::REQUEST);
        assert!((found[0] - (1.04 / 1.05 - 1.0)).abs() < 1e-9, "{found:?}");
        assert!((scatter(&[both]).expect("two runs") - (1.0 - 1.0 / 1.1)).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_has_the_least_that_both_intervals_allow() {
        let with = |ours: f64, theirs: f64| {
            let mut shares = SHARES;
            (shares[2], shares[5]) = (ours, theirs);
            round(1.0, shares)
        };
        let rounds: Vec<_> = [0.02, 0.04, 0.06].repeat(3).into_iter().map(|ours| with(ours, 0.12)).collect();
        assert_eq!(times(&rounds, 2, 5), "3.0 (at least 2.0)");
        let nothing: Vec<_> =
            [-0.02, -0.01, 0.03].repeat(3).into_iter().map(|ours| with(ours, 0.12)).collect();
        assert_eq!(times(&nothing, 2, 5), "at least 4.0");
        let both = vec![with(-0.01, -0.01); 9];
        assert_eq!(times(&both, 2, 5), "not certain");
        let maybe: Vec<_> =
            [-0.02, 0.12, 0.12].repeat(3).into_iter().map(|theirs| with(0.04, theirs)).collect();
        assert_eq!(times(&maybe, 2, 5), "3.0 (not certain)");
        assert_eq!(times(&rounds[..5], 2, 5), "–", "five rounds have no interval");
    }

    #[test]
    fn a_scenario_that_never_ran_has_no_row() {
        let mut rounds = vec![round(1.0, SHARES); 9];
        for round in &mut rounds {
            round[5] = None;
        }
        let table = of(&SERVICES[1], &rounds, 1.0);
        assert!(!table.contains("| D-1 |") && table.contains("| D-2 |"), "{table}");
        let row = table.lines().find(|line| line.starts_with("| C-1 |")).expect("a row");
        assert_eq!(row.split(" | ").nth(7), Some("–"));
    }
}
