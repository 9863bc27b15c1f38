//! Points in time as people compare them with logs: UTC.

const NS: u64 = 1_000_000_000;

/// A date and time of day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    days: u64,
    ns_of_day: u64,
}

impl Utc {
    /// From nanoseconds since 1970-01-01T00:00:00Z.
    pub const fn from_ns(ns: u64) -> Self {
        Self { days: ns / (86_400 * NS), ns_of_day: ns % (86_400 * NS) }
    }

    /// `2026-11-21`.
    pub fn date(self) -> String {
        let (year, month, day) = civil(self.days);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// `02:58:41.310`, with as many decimals of a second as `decimals` says, at most 9; the rest is cut.
    pub fn time(self, decimals: usize) -> String {
        let seconds = self.ns_of_day / NS;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let fraction = format!("{:09}", self.ns_of_day % NS);
        let point = if decimals == 0 { "" } else { "." };
        format!("{hours:02}:{minutes:02}:{seconds:02}{point}{}", &fraction[..decimals.min(9)])
    }

    /// Whether both are on the same day.
    pub const fn same_day(self, other: Self) -> bool {
        self.days == other.days
    }
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar. Years are counted from
/// March, so that the leap day is a year's last; 400 of them are 146 097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Seconds by `date -u -d DATE +%s`.
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_795_219_199, "2026-11-20"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(Utc::from_ns(seconds * NS).date(), expected, "{seconds}");
        }
    }

    #[test]
    fn a_time_of_day_is_cut_and_not_rounded_into_the_next_second() {
        let at = Utc::from_ns(1_795_219_199 * NS + 999_999_999);
        assert_eq!(at.time(3), "23:59:59.999");
        assert_eq!(at.time(0), "23:59:59");
        assert_eq!(at.time(9), "23:59:59.999999999");
    }
}
