//! Option values as users write them: times, sizes, names.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wakepath_engine::duration;

/// An option's value: its name, its help and its meaning.
pub type Named<T> = (&'static str, Option<&'static str>, T);

/// Parses one of these values by its name.
pub fn one_of<T: Copy + Send + Sync>(values: &'static [Named<T>]) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(name, help, _)| match help {
        Some(help) => PossibleValue::new(*name).help(*help),
        None => PossibleValue::new(*name),
    });
    PossibleValuesParser::new(names).try_map(|text| {
        let known = values.iter().find(|(name, ..)| *name == text);
        known.map(|(.., value)| *value).ok_or("not a value of this option")
    })
}

/// Reads a length of time, not 0.
pub fn time(text: &str) -> Result<Duration, String> {
    let ns = duration(text).filter(|&ns| ns > 0);
    ns.map(Duration::from_nanos)
        .ok_or_else(|| String::from("expected a time such as 10, 2.5s, 500ms or 5min"))
}

/// Reads a length of time, ns.
pub fn ns(text: &str) -> Result<u64, String> {
    duration(text).ok_or_else(|| String::from("expected a time such as 50ms, 2.5s or 300us"))
}

/// Reads a number, not 0.
pub fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| String::from("expected a number from 1 on"))
}

/// Reads a size in bytes, not 0.
#[cfg(feature = "collect")]
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => Some(0),
        "K" | "k" | "KiB" => Some(10),
        "M" | "m" | "MiB" => Some(20),
        "G" | "g" | "GiB" => Some(30),
        "T" | "t" | "TiB" => Some(40),
        _ => None,
    };
    let bytes =
        shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift)).filter(|&n| n > 0);
    bytes.ok_or_else(|| String::from("expected a size such as 4096, 512K, 100M or 2G"))
}

/// Reads the size of a CPU's buffer, bytes.
#[cfg(feature = "collect")]
pub fn buffer(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(size(text)?).unwrap_or(usize::MAX);
    let allowed = wakepath_live::record::Options::BUFFER.contains(&bytes);
    if allowed { Ok(bytes) } else { Err(String::from("expected a size from 16K to 1G")) }
}

/// Reads a share of the machine's time: `5%`, `0.5`.
#[cfg(feature = "collect")]
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok().filter(|it| *it > 0.0 && *it <= 100.0);
    number.map(|percent| percent / 100.0).ok_or_else(|| String::from("expected a percentage such as 5%"))
}

/// Reads a rate of samples, per second and CPU.
#[cfg(feature = "collect")]
pub fn samples(text: &str) -> Result<u32, String> {
    let rate = text.parse().ok().filter(|rate| wakepath_live::record::Options::SAMPLES.contains(rate));
    rate.ok_or_else(|| {
        let most = wakepath_live::record::Options::SAMPLES.end();
        format!("expected a number from 0 to {most}: more samples would take the CPUs from their programs")
    })
}

#[cfg(all(test, feature = "collect"))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, expected) in [
            ("2G", Some(2 << 30)),
            ("512K", Some(512 << 10)),
            ("7", Some(7)),
            ("0", None),
            ("G", None),
            ("2X", None),
            ("-1", None),
            ("99999999T", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn no_rate_of_samples_takes_a_cpu_from_its_programs() {
        for (text, expected) in [
            ("0", Some(0)),
            ("99", Some(99)),
            ("10000", Some(10_000)),
            ("10001", None),
            ("-1", None),
            ("1e3", None),
        ] {
            assert_eq!(samples(text).ok(), expected, "{text}");
        }
    }
}
