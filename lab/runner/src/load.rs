//! A load that has a CPU of its own, and what it prints of its speed.

/// The CPU of the load; recorders have another.
pub const LOAD_CPU: usize = 1;

/// Real-time, so that nothing of the machine's daily life comes between.
const PRIORITY: &str = "50";

/// The words before a command that give it the load's CPU before all ordinary threads.
pub fn alone() -> Vec<String> {
    ["chrt", "-f", PRIORITY, "taskset", "-c", &LOAD_CPU.to_string()].map(str::to_owned).to_vec()
}

/// The result of one run of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Round trips a second, over the whole run.
    pub rate: f64,
    /// The same in the slice that a tenth of the run's slices beat (`lab/workloads/rate.h`).
    pub quiet: f64,
    /// Round trips in all.
    pub count: f64,
}

impl Run {
    /// Reads `schedfreq: round_trips 200000 seconds 0.564 per_second 354609.2 quiet_per_second 371023.9`.
    pub fn parse(said: &str) -> Option<Self> {
        let words: Vec<&str> = said.split_whitespace().collect();
        let after = |name: &str| -> Option<f64> {
            let index = words.iter().position(|word| *word == name)?;
            words.get(index + 1)?.parse().ok().filter(|figure: &f64| figure.is_finite() && *figure > 0.0)
        };
        Some(Self {
            rate: after("per_second")?,
            quiet: after("quiet_per_second")?,
            count: after("round_trips")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Run;

    #[test]
    fn the_rate_is_read_from_what_the_load_prints() {
        let said =
            "schedfreq: round_trips 200000 seconds 0.5 per_second 354609.2 quiet_per_second 371023.9\nlost 0";
        assert_eq!(Run::parse(said), Some(Run { rate: 354_609.2, quiet: 371_023.9, count: 200_000.0 }));
        for bad in [
            "",
            "round_trips 7 per_second 1",
            "round_trips 7 per_second 0 quiet_per_second 1",
            "round_trips 7 per_second nan quiet_per_second 1",
            "round_trips 7 per_second 1 quiet_per_second 0",
        ] {
            assert_eq!(Run::parse(bad), None, "{bad}");
        }
    }
}
