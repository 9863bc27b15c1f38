//! Requests without a path, counted by reason.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};

use super::NoPath;

/// The numbers of requests without a path, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WithoutPath {
    /// Each reason once; where its thread number differs between requests, the first request's.
    counts: Vec<(NoPath, u64)>,
}

impl WithoutPath {
    pub(super) fn add(&mut self, why: NoPath) {
        match self.counts.iter_mut().find(|(known, _)| known.name() == why.name()) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((why, 1)),
        }
    }

    /// The number of all these requests.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The reasons with their numbers, the most frequent first.
    pub fn by_reason(&self) -> Vec<(NoPath, u64)> {
        let mut counts = self.counts.clone();
        counts.sort_by_key(|(why, count)| (Reverse(*count), why.name()));
        counts
    }
}

/// The reasons in words, each with its number if there are several.
impl Display for WithoutPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let reasons = self.by_reason();
        for (place, (why, count)) in reasons.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            let words = match why {
                NoPath::NoThread => "the thread is not known",
                NoPath::NoGoroutines => "its goroutines were not recorded",
                NoPath::OtherHost => "the spans name a host that was not recorded, or a container",
                NoPath::NotRecorded(_) => "the thread was not recorded",
                NoPath::Outside => "not all of the time was recorded",
                NoPath::Empty => "the length is 0",
            };
            write!(f, "{comma}{words}")?;
            if reasons.len() > 1 {
                write!(f, " ({count})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_named_the_most_frequent_first_and_counted_where_there_are_several() {
        let all = |whys: &[NoPath]| {
            let mut without = WithoutPath::default();
            whys.iter().for_each(|why| without.add(*why));
            assert_eq!(without.total(), whys.len() as u64);
            without.to_string()
        };
        assert_eq!(all(&[]), "");
        assert_eq!(all(&[NoPath::NoThread, NoPath::NoThread]), "the thread is not known");
        assert_eq!(all(&[NoPath::NotRecorded(7), NoPath::NotRecorded(8)]), "the thread was not recorded");
        let several = [NoPath::Empty, NoPath::Outside, NoPath::OtherHost, NoPath::Outside];
        assert_eq!(
            all(&several),
            "not all of the time was recorded (2), the length is 0 (1), the spans name a host that was not recorded, or a container (1)"
        );
    }
}
