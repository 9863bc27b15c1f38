//! Time specifications for `--from` and `--to`: UTC, seconds since the start, time before the end.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, NaiveDate};
use wakepath_clock::{Reference, Stamp};

/// A point in time within a recording, as `--from` and `--to` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSpec {
    /// After the recording's beginning, ns.
    AfterStart(u64),
    /// Before the recording's end, ns.
    BeforeEnd(u64),
    /// A date and time in UTC, ns since 1970.
    Utc(u64),
    /// A time of day in UTC, ns since midnight: on the recording's first day, or on the next if that is nearer to the
    /// recording.
    TimeOfDay(u64),
}

/// The error for a text that is no time specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a time: write UTC (`02:58:41.310` or `2026-11-21T02:58:41`), seconds since the start (`1.5`), or time before the end (`-5s`)"
)]
pub struct TimeSpecError(String);

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

impl TimeSpec {
    /// This time's stamp between `from` and `to`, the recording's beginning and end; `realtime_ns` is UTC at `from`. A
    /// time outside gives the nearer end. `None` for a UTC time without `realtime_ns`.
    pub fn place(
        self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        realtime_ns: Option<u64>,
    ) -> Option<Stamp<Reference>> {
        let utc = |ns: u64| Some(from.plus(ns.saturating_sub(realtime_ns?)));
        let at = match self {
            Self::AfterStart(ns) => from.plus(ns),
            Self::BeforeEnd(ns) => to.minus(ns),
            Self::Utc(ns) => utc(ns)?,
            Self::TimeOfDay(of_day) => {
                let start = realtime_ns?;
                let today = (start - start % DAY).saturating_add(of_day);
                let tomorrow = today.saturating_add(DAY);
                // A time before the start may mean after midnight: the day nearer to the recording is taken.
                let end = start.saturating_add(to.since(from));
                let next_day = today < start && tomorrow.saturating_sub(end) < start - today;
                utc(if next_day { tomorrow } else { today })?
            }
        };
        Some(at.clamp(from, to.max(from)))
    }
}

/// The same time as an option's value, for a command that repeats it.
impl Display for TimeSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fraction = |ns: u64| match ns % SECOND {
            0 => String::new(),
            part => format!(".{part:09}"),
        };
        match *self {
            Self::AfterStart(ns) => write!(f, "{}{}", ns / SECOND, fraction(ns)),
            Self::BeforeEnd(ns) => write!(f, "-{}{}", ns / SECOND, fraction(ns)),
            Self::Utc(ns) => {
                let at = DateTime::UNIX_EPOCH + Duration::from_nanos(ns);
                write!(f, "{}{}", at.format("%Y-%m-%dT%H:%M:%S"), fraction(ns))
            }
            Self::TimeOfDay(ns) => {
                // The day's last minute may have a leap second.
                let hours = (ns / SECOND / 3600).min(23);
                let minutes = (ns / SECOND / 60 - hours * 60).min(59);
                let seconds = ns / SECOND - (hours * 60 + minutes) * 60;
                write!(f, "{hours:02}:{minutes:02}:{seconds:02}{}", fraction(ns))
            }
        }
    }
}

impl FromStr for TimeSpec {
    type Err = TimeSpecError;

    fn from_str(text: &str) -> Result<Self, TimeSpecError> {
        let utc = text.strip_suffix('Z').unwrap_or(text);
        let found = if let Some((date, time)) = utc.split_once(['T', ' ']) {
            date_and_time(date, time).map(Self::Utc)
        } else if utc.contains(':') {
            time_of_day(utc).map(Self::TimeOfDay)
        } else if let Some(before) = text.strip_prefix('-') {
            duration(before).map(Self::BeforeEnd)
        } else {
            duration(text).map(Self::AfterStart)
        };
        found.ok_or_else(|| TimeSpecError(text.to_owned()))
    }
}

/// A date, and a time on this day, as ns since 1970.
fn date_and_time(date: &str, time: &str) -> Option<u64> {
    days(date)?.checked_mul(DAY)?.checked_add(time_of_day(time)?)
}

/// `5s`, `250ms`, `10us`, `7ns`, `2min`, `1.5` (seconds), as ns.
pub fn duration(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" | "s" => SECOND,
        "ms" => 1_000_000,
        "us" | "µs" => 1_000,
        "ns" => 1,
        "min" | "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let part = u128::from(digits(fraction)?) * u128::from(unit) / 10_u128.pow(fraction.len() as u32);
    digits(whole)?.checked_mul(unit)?.checked_add(u64::try_from(part).ok()?)
}

/// `02:58` or `02:58:41.310`, as ns since midnight.
fn time_of_day(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let (hours, minutes) = (two_digits(parts.next()?, 24)?, two_digits(parts.next()?, 60)?);
    let seconds = match parts.next() {
        None => 0,
        // 60: a leap second, which counts as the next minute's first.
        Some(seconds) => {
            let whole = seconds.split('.').next()?;
            two_digits(whole, 61)?;
            duration(seconds).filter(|_| seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.'))?
        }
    };
    parts.next().is_none().then_some((hours * 60 + minutes) * 60 * SECOND + seconds)
}

fn two_digits(text: &str, below: u64) -> Option<u64> {
    let all_digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&n| all_digits && n < below)
}

/// `2026-11-21`, as days since 1970-01-01.
fn days(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let year = parts.next().filter(|year| year.len() == 4)?.parse().ok()?;
    let (month, day) = (two_digits(parts.next()?, 13)?, two_digits(parts.next()?, 32)?);
    let date = NaiveDate::from_ymd_opt(year, month as u32, day as u32).filter(|_| parts.next().is_none())?;
    u64::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_specifications_are_read_as_people_write_them() {
        let of_day = (2 * 3600 + 58 * 60 + 41) * SECOND + 310_000_000;
        for (text, expected) in [
            ("1.5", TimeSpec::AfterStart(1_500_000_000)),
            ("0", TimeSpec::AfterStart(0)),
            ("250ms", TimeSpec::AfterStart(250_000_000)),
            ("-5s", TimeSpec::BeforeEnd(5 * SECOND)),
            ("-.5", TimeSpec::BeforeEnd(SECOND / 2)),
            ("02:58:41.310", TimeSpec::TimeOfDay(of_day)),
            ("02:58", TimeSpec::TimeOfDay((2 * 60 + 58) * 60 * SECOND)),
            // `date -u -d '2026-11-21 02:58:41' +%s`
            ("2026-11-21T02:58:41.310Z", TimeSpec::Utc(1_795_229_921 * SECOND + 310_000_000)),
            ("2026-11-21 02:58:41.31", TimeSpec::Utc(1_795_229_921 * SECOND + 310_000_000)),
            ("2024-02-29T00:00", TimeSpec::Utc(1_709_164_800 * SECOND)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_time_specification_is_written_as_it_can_be_read_again() {
        for (text, expected) in [
            ("1.5", "1.500000000"),
            ("90min", "5400"),
            ("7ns", "0.000000007"),
            ("-250ms", "-0.250000000"),
            ("02:58:41.310", "02:58:41.310000000"),
            ("00:00", "00:00:00"),
            ("23:59:60.5", "23:59:60.500000000"),
            ("2026-11-21T02:58:41.310Z", "2026-11-21T02:58:41.310000000"),
            ("2024-02-29 00:00", "2024-02-29T00:00:00"),
            ("2554-07-21T23:34:33", "2554-07-21T23:34:33"),
        ] {
            let spec: TimeSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), expected);
            assert_eq!(expected.parse(), Ok(spec), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_time_is_refused_by_name() {
        for text in [
            "",
            "-",
            ".",
            "yesterday",
            "5x",
            "1e3",
            "25:00",
            "2:58",
            "02:58:61",
            "02:58:41:10",
            "2026-13-01T00:00",
            "2023-02-29T00:00",
            "2026-11-21",
            "99999999999999999999",
            "1.5.2",
            "26-11-21T00:00",
            "1969-12-31T00:00",
            "02:58:1s",
        ] {
            let error = text.parse::<TimeSpec>().expect_err(text);
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn a_time_specification_names_a_stamp_of_the_recording() {
        let (from, to) = (Stamp::from_ns(1000), Stamp::from_ns(1000 + 10 * SECOND));
        // It began five seconds before midnight.
        let realtime = Some(20_000 * DAY - 5 * SECOND);
        for (text, expected) in [
            ("1.5", 1_500_000_000),
            ("99", 10 * SECOND),
            ("-1s", 9 * SECOND),
            ("-99s", 0),
            ("23:59:58", 3 * SECOND),
            ("00:00:02", 7 * SECOND),
            ("00:00:42", 10 * SECOND),
            ("23:59:42", 0),
            ("2024-10-04T00:00:00", 5 * SECOND),
        ] {
            let at = text.parse::<TimeSpec>().expect(text).place(from, to, realtime).expect(text);
            assert_eq!(at.since(from), expected, "{text}");
        }
        // A recording's stated time may be anything, its clock's last day included.
        let late = "23:59:59".parse::<TimeSpec>().expect("a time").place(from, to, Some(u64::MAX));
        assert_eq!(late, Some(from));
        let no_clock = "23:59:58".parse::<TimeSpec>().expect("a time").place(from, to, None);
        assert_eq!(no_clock, None);
    }
}
