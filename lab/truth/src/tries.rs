//! Runs repeated because they show too little, and the largest share of them in a series.

use anyhow::Result;

/// A run's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was judged, and nothing is wrong.
    Right,
    /// Nothing is wrong in the judged part, and another part could not be judged.
    Void,
    /// Something is wrong, whatever else could not be judged.
    Wrong,
}

impl Outcome {
    /// The outcome of a run with or without errors, judged completely or not.
    pub fn of(is_right: bool, is_judged: bool) -> Self {
        match (is_right, is_judged) {
            (true, true) => Self::Right,
            (true, false) => Self::Void,
            (false, _) => Self::Wrong,
        }
    }

    /// Its name in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Void => "void",
            Self::Wrong => "WRONG",
        }
    }
}

/// The largest share of void runs in a series.
///
/// A void run is repeated, up to [`MAX_TRIES`] runs in all. If one in four is void by chance, all runs of a program are
/// void in one case in 256: a table with 40 programs is complete in most series. If one in two were void, the table
/// would lack two programs each time, and the others would be judged on their quiet runs only.
pub const MAX_VOID: f64 = 0.25;

/// The smallest series to which the bound applies: in fewer runs, two void runs may be chance.
pub const MIN_SERIES: u32 = 10;

/// The largest number of runs of a program until a run can be judged.
pub const MAX_TRIES: u32 = 4;

/// The run counts of a series.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// All runs, including the repeated runs.
    pub runs: u32,
    /// The void runs.
    pub void: u32,
}

impl Tally {
    /// Runs until a run is right or wrong, at most `tries` times. Each void run but the last is given to `discard`,
    /// which has to show it: it is never judged again. A wrong run is the result, whatever is unknown beside it.
    ///
    /// # Errors
    ///
    /// If a run fails. It is not repeated.
    pub fn until_judged<T>(
        &mut self,
        tries: u32,
        run: impl Fn() -> Result<T>,
        outcome: impl Fn(&T) -> Outcome,
        mut discard: impl FnMut(&T, u32),
    ) -> Result<T> {
        for turn in 1.. {
            let judged = run()?;
            self.runs += 1;
            let is_void = outcome(&judged) == Outcome::Void;
            self.void += u32::from(is_void);
            if !is_void || turn >= tries {
                return Ok(judged);
            }
            discard(&judged, turn);
        }
        unreachable!("the last turn returns")
    }

    /// The share of void runs.
    pub fn share(&self) -> f64 {
        f64::from(self.void) / f64::from(self.runs.max(1))
    }

    /// Whether a series has few enough void runs, or is too short for the bound.
    pub fn is_within_bound(&self) -> bool {
        self.runs < MIN_SERIES || self.share() <= MAX_VOID
    }

    /// The figure and its bound, as a line.
    pub fn line(&self) -> String {
        format!(
            "Void: {} of {} runs ({:.1}%), at most {:.0}%: {}",
            self.void,
            self.runs,
            self.share() * 100.0,
            MAX_VOID * 100.0,
            match (self.is_within_bound(), self.runs < MIN_SERIES) {
                (false, _) => "WRONG",
                (true, true) => "too few runs for the bound",
                (true, false) => "right",
            }
        )
    }
}
