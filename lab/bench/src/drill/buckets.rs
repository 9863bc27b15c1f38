//! The shortest calls that stay in their bucket while a search measures below them (T08 tables 8.2 and 8.3).
//!
//! T08 calculates it from the mean added time: calls in the middle of a bucket, at 1.5 · 2^n, leave it if the added time
//! is half of 2^n or more. Here such calls are made, and the middle call's bucket is checked.

use anyhow::{Context, Result, ensure};

use super::asked::{Asked, Calls, command};
use super::held::{self, By, Held};
use super::search::words;
use super::{Options, Setting, print_failed};
use crate::progress;

/// f0, a function called by it, and the number of such functions.
const FUNCTIONS: [(&str, &str, usize); 2] = [("one", "one_1", 1), ("nine", "nine_1", 9)];
/// The tried buckets: from 256 ns to 65 µs.
const BUCKETS: std::ops::RangeInclusive<usize> = 8..=15;
/// Calls in each.
const CALLS: u64 = 301;

/// The buckets in which calls stayed, by level.
#[derive(Default)]
struct Rounds {
    /// With the calls counted, with the calls below measured by probes, and by stubs.
    levels: [Vec<Vec<(usize, bool)>>; 3],
}

/// Prints the table.
pub fn table(setting: &Setting<'_>, options: &Options) -> Result<()> {
    let mut all = FUNCTIONS.map(|_| Rounds::default());
    let mut failed = Vec::new();
    for round in 1..=options.tree_rounds {
        for ((function, below, _), rounds) in FUNCTIONS.iter().zip(&mut all) {
            progress(&format!("buckets, round {round} of {}: {function}", options.tree_rounds));
            let asked = Asked::start(&[], setting.program, None)?;
            match one(setting, function, below, By::Probes, asked) {
                Ok([counted, measured]) => {
                    rounds.levels[0].push(counted);
                    rounds.levels[1].push(measured);
                }
                Err(error) => failed.push(format!("{function}: {error:#}")),
            }
            let asked = Asked::start(&[], setting.program, None)?;
            match one(setting, function, below, By::Stubs, asked) {
                Ok([_, measured]) => rounds.levels[2].push(measured),
                Err(error) => failed.push(format!("{function}, by stubs: {error:#}")),
            }
        }
    }
    progress("");
    print_failed(&failed);
    println!("### The shortest calls that stay in their bucket\n");
    println!(
        "`{}`; calls of 1.5 · 2ⁿ ns, the middle of bucket n, of a function that calls 1 or 9 empty ones, all of which are probed. The caller \
         stamps each call, and the call in the middle of {CALLS} stays in its bucket or not: the lowest n from which on it stays, in \
         each of {} rounds.\n",
        command(setting.shown, None).join(" "),
        all[0].levels[0].len(),
    );
    println!(
        "| | with the calls counted (level 0) | with those below measured (level 1) | the same by --stubs |\n|---|---:|---:|---:|"
    );
    for ((_, _, callees), rounds) in FUNCTIONS.iter().zip(&all) {
        let [counted, measured, stubs] = rounds.levels.each_ref().map(|rounds| worded(lowest(rounds)));
        let plural = if *callees == 1 { "" } else { "s" };
        println!("| {callees} function{plural} below | {counted} | {measured} | {stubs} |");
    }
    println!(
        "| T08 table 8.3: 2 or 4, in the kernel | 2¹² cycles, 1.5 µs | 2¹⁴ cycles, 5.9 µs | – |\n\
         | T08 table 8.3: 8, in the kernel | 2¹³ cycles, 2.9 µs | 2¹⁵ cycles, 11.7 µs | – |\n"
    );
    let arguments = held::arguments(By::Probes);
    println!("- `wakepath {}`", {
        words(setting.shown, FUNCTIONS[1].0, "PID", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
            .join(" ")
    });
    println!(
        "\nT08 counts cycles of 2.8 GHz and calculates from means (equation 8.1); its table 8.2, with the analysis in a thread of its own, \
         has 2¹⁵ at level 1 in all cases. It has no such table for user space.\n"
    );
    Ok(())
}

/// The buckets in which calls stayed, while they were counted and while the functions below were measured.
fn one(
    setting: &Setting<'_>,
    function: &str,
    below: &str,
    by: By,
    mut asked: Asked,
) -> Result<[Vec<(usize, bool)>; 2]> {
    for bucket in BUCKETS {
        let middle = middle(&mut asked, function, bucket)?;
        ensure!(middle == bucket, "calls meant for bucket {bucket} are in {middle} alone");
    }
    let mut held = Held::start(setting.places, setting.program, function, &[below.to_owned()], by, asked)?;
    let counted = stayed(held.asked(), function)?;
    held.stays()?;
    held.descend()?;
    let measured = stayed(held.asked(), function)?;
    held.stays()?;
    let (_, asked) = held.finish()?;
    asked.end()?;
    Ok([counted, measured])
}

fn stayed(asked: &mut Asked, function: &str) -> Result<Vec<(usize, bool)>> {
    BUCKETS.map(|bucket| Ok((bucket, middle(asked, function, bucket)? == bucket))).collect()
}

/// The middle call's bucket, for calls that would alone be in the middle of this bucket.
fn middle(asked: &mut Asked, function: &str, bucket: usize) -> Result<usize> {
    let stamped = asked.stamped(Calls { function, calls: CALLS, ns: length(bucket) })?;
    stamped.middle().context("no calls")
}

/// The middle of a bucket, ns.
const fn length(bucket: usize) -> u64 {
    3 << (bucket - 1)
}

/// The lowest bucket from which on calls stayed in each round; `None` if they left the highest tried bucket.
fn lowest(rounds: &[Vec<(usize, bool)>]) -> Option<usize> {
    let stays =
        |bucket: usize| !rounds.is_empty() && rounds.iter().all(|round| round.contains(&(bucket, true)));
    BUCKETS.rev().take_while(|&bucket| stays(bucket)).last()
}

fn worded(bucket: Option<usize>) -> String {
    bucket.map_or_else(
        || format!("above n = {}", BUCKETS.end()),
        |bucket| format!("n = {bucket}, {:.1} µs", (1_u64 << bucket) as f64 / 1e3),
    )
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, length, lowest, worded};

    fn round(leaves: &[usize]) -> Vec<(usize, bool)> {
        BUCKETS.map(|bucket| (bucket, !leaves.contains(&bucket))).collect()
    }

    #[test]
    fn the_lowest_bucket_is_the_one_above_the_last_that_calls_left() {
        assert_eq!(lowest(&[round(&[8, 9, 10])]), Some(11));
        assert_eq!(lowest(&[round(&[8, 10])]), Some(11), "one that stayed below is no end");
        assert_eq!(lowest(&[round(&[])]), Some(8));
        assert_eq!(lowest(&[round(&[15])]), None);
        assert_eq!(lowest(&[]), None, "no round, no bucket");
        assert_eq!(lowest(&[round(&[8]), round(&[8, 9, 12])]), Some(13), "in each round");
    }

    #[test]
    fn calls_are_in_the_middle_of_their_bucket() {
        assert_eq!(BUCKETS.map(length).collect::<Vec<_>>()[..3], [384, 768, 1536]);
    }

    #[test]
    fn a_bucket_is_shown_with_its_lower_bound() {
        assert_eq!(worded(Some(12)), "n = 12, 4.1 µs");
        assert_eq!(worded(None), "above n = 15");
    }
}
