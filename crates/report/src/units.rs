//! Numbers with their units, as readers expect them: times with three significant digits, shares with one decimal.

use wakepath_distribution::Unit;

/// A duration with three significant digits: `738 ms`, `1.20 s`, `92 ns`.
pub fn duration(ns: u64) -> String {
    // Each unit, and the value from which on the next larger unit is used. Seconds last to two minutes and minutes
    // to two hours, as in speech.
    const UNITS: [(f64, f64, &str); 6] = [
        (1.0, 999.5, "ns"),
        (1e3, 999.5, "µs"),
        (1e6, 999.5, "ms"),
        (1e9, 119.5, "s"),
        (60e9, 119.5, "min"),
        (3600e9, f64::INFINITY, "h"),
    ];
    let (size, unit) = UNITS
        .iter()
        .find(|(size, below, _)| ns as f64 / size < *below)
        .map_or((3600e9, "h"), |&(size, _, unit)| (size, unit));
    if unit == "ns" { format!("{ns} ns") } else { format!("{} {unit}", three_digits(ns as f64 / size)) }
}

/// A range of durations, rounded outwards to two digits in the larger duration's unit: `160 to 210 ms`,
/// `0.9 to 1.3 s`, `up to 2.6 µs`.
pub fn duration_range(from_ns: u64, to_ns: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    let (size, unit) = *UNITS.iter().find(|(size, _)| to_ns >= *size).unwrap_or(&UNITS[3]);
    let step = match to_ns / size {
        100.. => size.saturating_mul(10),
        10.. => size,
        _ => (size / 10).max(1),
    };
    let decimals = usize::from(step < size);
    let text = |steps: u64| format!("{:.decimals$}", steps as f64 * (step as f64 / size as f64));
    match (from_ns / step, to_ns.div_ceil(step)) {
        (from, to) if from == to => format!("{} {unit}", text(to)),
        (0, to) => format!("up to {} {unit}", text(to)),
        (from, to) => format!("{} to {} {unit}", text(from), text(to)),
    }
}

/// A range of shares, rounded outwards: `9 to 13%`, `0.4 to 0.7%`, `up to 0.1%`.
pub fn percent_range(from: f64, to: f64) -> String {
    let (steps, decimals) = if to < 0.02 { (1000.0, 1) } else { (100.0, 0) };
    let text = |share: f64| format!("{:.decimals$}", share / steps * 100.0);
    let (low, high) = ((from * steps).floor(), (to * steps).ceil());
    if to < 0.0005 {
        String::from("less than 0.1%")
    } else if low < 1.0 {
        format!("up to {}%", text(high))
    } else {
        format!("{} to {}%", text(low), text(high))
    }
}

/// A least share, rounded down: `9%`.
pub fn percent_least(share: f64) -> String {
    let (steps, decimals) = if share < 0.02 { (1000.0, 1) } else { (100.0, 0) };
    format!("{:.decimals$}%", (share * steps).floor() / steps * 100.0)
}

/// A latency, or a sum of latencies, in its unit.
pub fn amount(n: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => duration(n),
        Unit::Cycles => cycles(n),
    }
}

/// Processor cycles with three significant digits: `738 cycles`, `1.20 Mcycles`.
fn cycles(n: u64) -> String {
    let units = [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];
    let above = units.iter().take_while(|(size, _)| n as f64 >= 0.9995 * size).last();
    match above {
        None => count(n, "cycle"),
        Some((size, unit)) => format!("{} {unit}cycles", three_digits(n as f64 / size)),
    }
}

pub fn three_digits(value: f64) -> String {
    // 9.995 prints with two decimals as 9.99 or 10.00, so decide on the rounded value.
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

/// A share with one decimal: `61.3%`. Only exact 0 and exact 1 read `0.0%` and `100%`.
pub fn share(part: u64, whole: u64) -> String {
    percent(part, whole, 1)
}

/// A share with one decimal, as [`share`]; reads on within a sentence.
pub fn percent_text(part: u64, whole: u64) -> String {
    // More than the whole is possible here: two recorder threads can take more than a CPU.
    if part > whole { format!("{:.1}%", part as f64 / whole as f64 * 100.0) } else { share(part, whole) }
}

/// A share without decimals: `61%`.
pub fn rough_share(part: u64, whole: u64) -> String {
    percent(part, whole, 0)
}

fn percent(part: u64, whole: u64, decimals: usize) -> String {
    if whole == 0 {
        return String::from("–");
    }
    let step = 0.1_f64.powi(decimals as i32);
    let value = part as f64 / whole as f64 * 100.0;
    if part == whole {
        String::from("100%")
    } else if part > 0 && value < step / 2.0 {
        format!("<{step:.decimals$}%")
    } else if part < whole && value >= 100.0 - step / 2.0 {
        format!(">{:.decimals$}%", 100.0 - step)
    } else {
        format!("{value:.decimals$}%")
    }
}

/// The number `part` of `whole` `what`; a percentage only from a hundred on, since fewer do not support it.
pub fn part_of(part: u64, whole: u64, what: &str) -> String {
    if whole < 100 {
        format!("{part} of {whole} {what}")
    } else {
        format!("{} of {what}", rough_share(part, whole))
    }
}

/// A count with its noun: `1 record`, `2 records`.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {}", plural(noun)) }
}

/// A number with commas between groups of three digits: `26,082`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The verb after a count, in the past tense.
pub const fn was(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// The verb after a count.
pub const fn is(n: u64) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// The pronoun for counted things named before.
pub const fn them(n: u64) -> &'static str {
    if n == 1 { "it" } else { "them" }
}

/// A noun's plural: `records`, `processes`.
pub fn plural(noun: &str) -> String {
    format!("{noun}{}", if noun.ends_with(['s', 'x', 'h']) { "es" } else { "s" })
}

/// A size in bytes with three significant digits: `16.4 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A size in the units of I/O limits, with three significant digits at most: `1 MB`, `1.05 MB`.
pub fn decimal_bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 { format!("{n}") } else { three_digits(value) };
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => &digits,
    };
    format!("{digits} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        for (ns, expected) in [
            (0, "0 ns"),
            (92, "92 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_995, "10.0 µs"),
            (9_996, "10.0 µs"),
            (99_949, "99.9 µs"),
            (99_950, "100 µs"),
            (99_960, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (999_600, "1.00 ms"),
            (738_000_000, "738 ms"),
            (1_204_000_000, "1.20 s"),
            (72_300_000_000, "72.3 s"),
            (119_400_000_000, "119 s"),
            (119_500_000_000, "1.99 min"),
            (120_000_000_000, "2.00 min"),
            (7_164_000_000_000, "119 min"),
            (7_170_000_000_000, "1.99 h"),
            (7_200_000_000_000, "2.00 h"),
            (u64::MAX, "5124096 h"),
        ] {
            assert_eq!(duration(ns), expected, "{ns}");
        }
    }

    #[test]
    fn a_range_is_rounded_outwards() {
        for (from, to, expected) in [
            (163_000_000, 201_000_000, "160 to 210 ms"),
            (950_000_000, 1_210_000_000, "0.9 to 1.3 s"),
            (13_900_000, 21_100_000, "13 to 22 ms"),
            (0, 7, "up to 7 ns"),
            (65, 2_600, "up to 2.6 µs"),
            (300_000, 1_200_000, "0.3 to 1.2 ms"),
            (0, u64::MAX, "up to 18446744080 s"),
            (118, 165, "110 to 170 ns"),
            (0, 0, "0 ns"),
            (200_000_000, 200_000_000, "200 ms"),
            // A unit begins at its first whole number, and a step by ten at a hundred.
            (500_000, 1_000_000, "0.5 to 1.0 ms"),
            (500_000, 999_999, "500 to 1000 µs"),
            (1_500_000, 10_000_000, "1 to 10 ms"),
            (1_500_000, 9_990_000, "1.5 to 10.0 ms"),
            (15_000_000, 100_000_000, "10 to 100 ms"),
            (15_000_000, 99_500_000, "15 to 100 ms"),
        ] {
            assert_eq!(duration_range(from, to), expected, "{from} to {to}");
        }
        for (from, to, expected) in [
            (0.0911, 0.1201, "9 to 13%"),
            (0.0041, 0.0068, "0.4 to 0.7%"),
            (0.0004, 0.0011, "up to 0.2%"),
            (0.0001, 0.0004, "less than 0.1%"),
            (0.0001, 0.0005, "up to 0.1%"),
            (0.011, 0.02, "1 to 2%"),
            (0.011, 0.0199, "1.1 to 2.0%"),
            (0.009, 0.03, "up to 3%"),
            (0.01, 0.03, "1 to 3%"),
        ] {
            assert_eq!(percent_range(from, to), expected, "{from} to {to}");
        }
        for (least, expected) in
            [(0.099, "9%"), (0.02, "2%"), (0.0199, "1.9%"), (0.0119, "1.1%"), (0.0, "0.0%")]
        {
            assert_eq!(percent_least(least), expected, "{least}");
        }
    }

    #[test]
    fn a_small_share_is_not_none_and_a_large_one_is_not_all() {
        for (part, whole, expected) in [
            (613, 1000, "61.3%"),
            (0, 1000, "0.0%"),
            (1, 100_000, "<0.1%"),
            (99_999, 100_000, ">99.9%"),
            (5, 5, "100%"),
            (0, 0, "–"),
            (1, 2_000, "0.1%"),
            (1, 2_001, "<0.1%"),
            (1_999, 2_000, ">99.9%"),
            (1_998, 2_000, "99.9%"),
        ] {
            assert_eq!(share(part, whole), expected, "{part} of {whole}");
        }
        assert_eq!(rough_share(613, 1000), "61%");
        assert_eq!(rough_share(1, 1000), "<1%");
        assert_eq!(rough_share(999, 1000), ">99%");
        // Two threads can take more than a CPU.
        assert_eq!(
            [(3, 2), (2, 2), (1, 2)].map(|(part, whole)| percent_text(part, whole)),
            ["150.0%", "100%", "50.0%"]
        );
        assert_eq!(rough_share(3, 2), "150%");
        assert_eq!(percent_text(1, 100_000), "<0.1%");
    }

    #[test]
    fn cycles_have_three_digits_and_the_multiple_that_fits() {
        for (n, expected) in [
            (999, "999 cycles"),
            (1_000, "1.00 kcycles"),
            (738_000, "738 kcycles"),
            (999_499, "999 kcycles"),
            (999_500, "1.00 Mcycles"),
            (1_204_000, "1.20 Mcycles"),
            (72_300_000_000, "72.3 Gcycles"),
            (5_000_000_000_000, "5.00 Tcycles"),
        ] {
            assert_eq!(amount(n, Unit::Cycles), expected);
        }
        assert_eq!(amount(738_000, Unit::Nanoseconds), "738 µs");
    }

    #[test]
    fn one_thing_and_none_and_several_have_their_own_noun_verb_and_pronoun() {
        for (n, cycles, words) in [
            (0, "0 cycles", ["were", "are", "them"]),
            (1, "1 cycle", ["was", "is", "it"]),
            (2, "2 cycles", ["were", "are", "them"]),
        ] {
            assert_eq!((amount(n, Unit::Cycles).as_str(), [was(n), is(n), them(n)]), (cycles, words));
        }
        for (noun, expected) in
            [("record", "records"), ("process", "processes"), ("mutex", "mutexes"), ("switch", "switches")]
        {
            assert_eq!([1, 2].map(|n| count(n, noun)), [format!("1 {noun}"), format!("2 {expected}")]);
        }
    }

    #[test]
    fn few_samples_are_counted_and_never_a_percentage() {
        assert_eq!(part_of(23, 24, "samples"), "23 of 24 samples");
        assert_eq!(part_of(98, 99, "samples"), "98 of 99 samples");
        assert_eq!(part_of(50, 100, "samples"), "50% of samples");
    }

    #[test]
    fn sizes_of_limits_have_decimal_units_and_no_zeros_behind_the_point() {
        for (n, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1 kB"),
            (999_499, "999 kB"),
            (999_500, "1 MB"),
            (1_000_000, "1 MB"),
            (1_048_576, "1.05 MB"),
            (1_500_000, "1.5 MB"),
            (20_000_000, "20 MB"),
            (100_000_000, "100 MB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(decimal_bytes(n), expected, "{n}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        for (n, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_048_000, "1023 KiB"),
            (1_048_064, "1.00 MiB"),
            (17_196_646, "16.4 MiB"),
            (3 << 30, "3.00 GiB"),
            (5 << 40, "5.00 TiB"),
            (7 << 50, "7.00 PiB"),
            // No larger unit has a name here.
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(n), expected);
        }
    }
}
