//! The certainty of summed times.

use wakepath_critical_path::Basis;

/// Time by basis, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BasisMix {
    /// Timed at both ends.
    pub measured: u64,
    /// Estimated from samples.
    pub sampled: u64,
    /// By a rule.
    pub inferred: u64,
    /// More than one explanation fits.
    pub ambiguous: u64,
}

/// The certainty of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// At least 99% was timed at both ends.
    Measured,
    /// More than half was timed at both ends.
    MostlyMeasured,
    /// At least 99% was estimated from samples.
    Sampled,
    /// Any other mix, such as time inferred by rules.
    Inferred,
    /// More than 1% has several explanations, but at most half.
    PartlyAmbiguous,
    /// More than half has several explanations.
    Ambiguous,
}

impl BasisMix {
    /// Adds a time with its basis.
    pub fn add(&mut self, basis: Basis, ns: u64) {
        match basis {
            Basis::Measured => self.measured += ns,
            Basis::Sampled => self.sampled += ns,
            Basis::Inferred(_) => self.inferred += ns,
            Basis::Ambiguous => self.ambiguous += ns,
        }
    }

    /// Adds another sum.
    pub fn add_mix(&mut self, other: Self) {
        self.measured += other.measured;
        self.sampled += other.sampled;
        self.inferred += other.inferred;
        self.ambiguous += other.ambiguous;
    }

    /// The sum with another.
    pub fn with(mut self, other: Self) -> Self {
        self.add_mix(other);
        self
    }

    /// A summary, which never claims more than holds for 99% of the time.
    pub fn certainty(self) -> Certainty {
        let total = self.measured + self.sampled + self.inferred + self.ambiguous;
        let nearly_all = |part: u64| part > 0 && part >= total - total / 100;
        let most = |part: u64| part > total / 2;
        if nearly_all(self.measured) {
            Certainty::Measured
        } else if self.ambiguous > total / 100 {
            if most(self.ambiguous) { Certainty::Ambiguous } else { Certainty::PartlyAmbiguous }
        } else if nearly_all(self.sampled) {
            Certainty::Sampled
        } else if most(self.measured) {
            Certainty::MostlyMeasured
        } else {
            Certainty::Inferred
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_called_by_its_parts_exactly_at_the_limits() {
        let mix = |[measured, sampled, inferred, ambiguous]: [u64; 4]| {
            BasisMix { measured, sampled, inferred, ambiguous }.certainty()
        };
        for (parts, certainty) in [
            ([0, 0, 0, 0], Certainty::Inferred),
            ([9900, 0, 100, 0], Certainty::Measured),
            ([9899, 0, 101, 0], Certainty::MostlyMeasured),
            ([5001, 4999, 0, 0], Certainty::MostlyMeasured),
            ([5000, 5000, 0, 0], Certainty::Inferred),
            ([0, 9900, 100, 0], Certainty::Sampled),
            ([0, 9899, 101, 0], Certainty::Inferred),
            ([0, 9900, 0, 100], Certainty::Sampled),
            ([0, 9899, 0, 101], Certainty::PartlyAmbiguous),
            ([4000, 500, 500, 5000], Certainty::PartlyAmbiguous),
            ([4000, 500, 499, 5001], Certainty::Ambiguous),
        ] {
            assert_eq!(mix(parts), certainty, "{parts:?}");
        }
        let mut mix = BasisMix::default();
        let rule = wakepath_critical_path::Rule::LastCompletion;
        for (basis, ns) in [
            (Basis::Measured, 1),
            (Basis::Sampled, 20),
            (Basis::Inferred(rule), 300),
            (Basis::Ambiguous, 4000),
        ] {
            mix.add(basis, ns);
            mix.add(basis, ns);
        }
        assert_eq!(mix, BasisMix { measured: 2, sampled: 40, inferred: 600, ambiguous: 8000 });
    }

    #[test]
    fn a_mix_never_claims_more_than_nearly_all_of_it_bears() {
        let mix = |measured, inferred, ambiguous| {
            BasisMix { measured, sampled: 0, inferred, ambiguous }.certainty()
        };
        for ((measured, inferred, ambiguous), certainty) in [
            ((100, 0, 0), Certainty::Measured),
            ((99, 1, 0), Certainty::Measured),
            ((98, 2, 0), Certainty::MostlyMeasured),
            ((40, 60, 0), Certainty::Inferred),
            ((98, 0, 2), Certainty::PartlyAmbiguous),
            ((10, 0, 90), Certainty::Ambiguous),
        ] {
            assert_eq!(mix(measured, inferred, ambiguous), certainty, "{measured} {inferred} {ambiguous}");
        }
    }
}
