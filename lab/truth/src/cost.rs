//! Checks the recording cost printed by the tool against loads that run alone and recorded, in turn.
//!
//! A load repeats a small operation as often as it can and prints its count. The time that recording adds to a round
//! trip must lie in the recording's range for all the kernel's work, divided by the round trips. Other threads on the
//! machine are in that range too: run it on an otherwise idle machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use wakepath_runner::{Run, alone, document, median, printed};

/// The share of pairs that must lie in the range: 7 of 8.
const MIN_INSIDE: f64 = 0.875;

/// A load, and the recorder's options.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// The program in `lab/workloads/`, with the arguments before the number of round trips.
    pub load: &'static str,
    /// Its round trips in about a second.
    trips: u32,
    /// The options for `record`.
    pub options: &'static [&'static str],
}

const PING: &str = "schedfreq --rounds";
const TCP: &str = "tcpping --rounds";
const LOCK: &str = "handover lock";
const DISK: &str = "diskreads";

/// Every trial. The loads differ from the calibration's, which sends bytes through pipes, and datagrams.
pub const TRIALS: [Trial; 11] = [
    Trial { load: PING, trips: 200_000, options: &[] },
    Trial { load: PING, trips: 200_000, options: &["--path-only"] },
    Trial { load: PING, trips: 200_000, options: &["--stacks"] },
    Trial { load: TCP, trips: 70_000, options: &[] },
    Trial { load: TCP, trips: 70_000, options: &["--path-only"] },
    Trial { load: TCP, trips: 70_000, options: &["--stacks"] },
    Trial { load: LOCK, trips: 200_000, options: &[] },
    Trial { load: LOCK, trips: 200_000, options: &["--path-only"] },
    Trial { load: LOCK, trips: 200_000, options: &["--stacks"] },
    Trial { load: DISK, trips: 20_000, options: &[] },
    Trial { load: DISK, trips: 20_000, options: &["--stacks"] },
];

impl Trial {
    /// Whether its pairs are judged. A disk request's time scatters from run to run by more than recording adds.
    pub fn is_judged(&self) -> bool {
        self.load != DISK
    }

    /// Its load's program.
    pub fn program(&self) -> &'static str {
        self.load.split(' ').next().unwrap_or_default()
    }
}

/// A pair of runs, alone and recorded; ns a round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Alone, by its quiet slices.
    pub alone: f64,
    /// Recorded, likewise.
    pub recorded: f64,
    /// The recording's range.
    pub range: (f64, f64),
}

impl Pair {
    /// The time added by recording.
    pub fn added(&self) -> f64 {
        self.recorded - self.alone
    }

    /// Whether the added time lies in the range.
    pub fn is_inside(&self) -> bool {
        (self.range.0..=self.range.1).contains(&self.added())
    }
}

/// A series' programs and length.
#[derive(Debug)]
pub struct Series {
    /// The tool under judgement.
    pub wakepath: PathBuf,
    /// The folder with the loads.
    pub programs: PathBuf,
    /// About how long a load runs, s.
    pub seconds: f64,
}

impl Series {
    /// Runs a pair. The recording is written into the folder.
    ///
    /// # Errors
    ///
    /// If a program cannot be run, or the recording gives no range.
    pub fn pair(&self, trial: &Trial, folder: &Path) -> Result<Pair> {
        let recording = folder.join("recording");
        let program = self.programs.join(trial.program());
        let trips = (f64::from(trial.trips) * self.seconds).ceil();
        let rounds = trips.to_string();
        // Alone on its CPU under a real-time priority: as in `make bench`.
        let before = alone();
        let arguments = trial.load.split(' ').skip(1).map(Path::new);
        let load =
            before.iter().map(Path::new).chain([&*program]).chain(arguments).chain([Path::new(&rounds)]);
        let load: Vec<&Path> = load.collect();
        let by_itself = printed(Command::new(load[0]).args(&load[1..]))?;
        let mut recorder = Command::new(&self.wakepath);
        recorder.arg("record").arg("-o").arg(&recording).args(trial.options).arg("--").args(&load);
        let recorded = printed(&mut recorder)?;
        let cost: Value = document(Command::new(&self.wakepath).args(["info", "--json"]).arg(&recording))?;
        let cost =
            |key: &str| cost["cost"][key].as_f64().with_context(|| format!("no range: `{key}` is null"));
        let each = |ns: f64| ns / trips;
        Ok(Pair {
            alone: quiet_trip(&by_itself)?,
            recorded: quiet_trip(&recorded)?,
            range: (each(cost("kernel_ns_from")?), each(cost("kernel_ns_to")?)),
        })
    }
}

/// A round trip's time in a load's quiet slices, ns.
fn quiet_trip(said: &str) -> Result<f64> {
    Ok(1e9 / Run::parse(said).context("the load printed no rate")?.quiet)
}

/// The table's head.
pub const HEAD: &str = "\
| load | options | alone | recorded | added | range, medians | inside |\n\
|---|---|---:|---:|---:|---:|---:|";

/// A line of the table: the pairs' medians, ns a round trip, and the number of pairs whose added time lies in their
/// range.
pub fn row(trial: &Trial, pairs: &[Pair]) -> String {
    let of = |figure: &dyn Fn(&Pair) -> f64| {
        median(&pairs.iter().map(figure).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let added = pairs.iter().map(Pair::added);
    let (least, most) =
        added.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), ns| (least.min(ns), most.max(ns)));
    let inside = pairs.iter().filter(|pair| pair.is_inside()).count();
    format!(
        "| {} | {} | {:.0} ns | {:.0} ns | {:.0} ns ({least:.0} to {most:.0}) | {:.0} to {:.0} ns | {} of {}{} |",
        trial.load.trim_end_matches(" --rounds"),
        if trial.options.is_empty() { String::from("–") } else { trial.options.join(" ") },
        of(&|pair| pair.alone),
        of(&|pair| pair.recorded),
        of(&Pair::added),
        of(&|pair| pair.range.0),
        of(&|pair| pair.range.1),
        inside,
        pairs.len(),
        if trial.is_judged() { "" } else { ", not judged" },
    )
}

/// Whether enough pairs lie inside.
pub fn is_inside(pairs: &[Pair]) -> bool {
    let inside = pairs.iter().filter(|pair| pair.is_inside()).count();
    !pairs.is_empty() && inside as f64 >= pairs.len() as f64 * MIN_INSIDE
}

/// Whether each pair has a meaningful range: it begins above zero, and has a width and an end.
pub fn has_a_range(pairs: &[Pair]) -> bool {
    pairs.iter().all(|pair| pair.range.0 > 0.0 && pair.range.0 < pair.range.1 && pair.range.1.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(added: f64) -> Pair {
        Pair { alone: 5000.0, recorded: 5000.0 + added, range: (500.0, 700.0) }
    }

    #[test]
    fn one_of_eight_pairs_may_lie_outside() {
        let mut pairs = vec![pair(600.0); 8];
        assert!(is_inside(&pairs));
        pairs[3] = pair(701.0);
        assert!(is_inside(&pairs));
        pairs[4] = pair(499.0);
        assert!(!is_inside(&pairs));
        assert!(!is_inside(&[]));
    }

    #[test]
    fn a_range_without_width_or_from_nothing_proves_nothing() {
        let exact = Pair { range: (600.0, 600.0), ..pair(600.0) };
        assert!(!has_a_range(&[exact]));
        let all = Pair { range: (0.0, 700.0), ..pair(600.0) };
        assert!(!has_a_range(&[all]));
        let endless = Pair { range: (500.0, f64::INFINITY), ..pair(600.0) };
        assert!(!has_a_range(&[endless]));
        assert!(has_a_range(&[pair(600.0), pair(900.0)]), "whether they lie inside is another question");
    }

    #[test]
    fn a_line_has_the_medians_and_the_number_inside() {
        let trial = TRIALS[0];
        let line = row(&trial, &[pair(600.0), pair(650.0), pair(800.0)]);
        assert_eq!(
            line,
            "| schedfreq | – | 5000 ns | 5650 ns | 650 ns (600 to 800) | 500 to 700 ns | 2 of 3 |"
        );
        let disk = TRIALS.iter().find(|trial| trial.load == DISK).expect("a load");
        assert!(!disk.is_judged() && trial.is_judged());
        assert!(row(disk, &[pair(800.0)]).ends_with("| 0 of 1, not judged |"));
        assert_eq!(trial.program(), "schedfreq");
    }

    #[test]
    fn a_round_trip_is_that_of_the_quiet_slices() {
        let said = "schedfreq: round_trips 9 seconds 1.0 per_second 9.0 quiet_per_second 200000.0\nlost 0";
        assert!((quiet_trip(said).unwrap() - 5000.0).abs() < 1e-9);
        assert!(quiet_trip("nothing").is_err());
    }
}
