//! The abilities of a machine with the rights that there are. `live` tries them.

/// A tried feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The feature.
    pub what: String,
    /// The result.
    pub verdict: CheckVerdict,
}

/// The result of trying a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckVerdict {
    /// It works; with a detail worth showing, or an empty text.
    Works(String),
    /// It does not work, and answers lack something.
    Lacking {
        /// The error.
        why: String,
        /// The consequence: the gaps in answers.
        consequence: String,
        /// The next thing to try, as a noun phrase or an imperative.
        hint: String,
    },
    /// It does not work, and nothing can be recorded without it.
    Blocking {
        /// The error.
        why: String,
        /// The next thing to try, as a noun phrase or an imperative.
        hint: String,
    },
}
