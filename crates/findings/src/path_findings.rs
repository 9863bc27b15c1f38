//! The findings about a path, as its first screen shows them: rows with their evidence, and the headline.

#[cfg(test)]
mod cases;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use wakepath_critical_path::{Algorithm, Basis, JoinedSum};
use wakepath_event::Comm;

use crate::headline::headline;
use crate::polling::Spins;
use crate::scheduling::cpu_reasons;
use crate::time_outs::other_reading;
use crate::{
    CpuReasons, Evidence, Headline, LastWaits, OtherReading, PartKey, Row, RowKey, Spinning, Tally, rows,
};

/// The findings about a path.
#[derive(Debug, Clone)]
pub struct PathFindings {
    /// The rows, largest first; together they are the whole window.
    pub rows: Vec<Finding>,
    /// The number of first rows worth a line each.
    pub shown: usize,
    /// The first sentence.
    pub headline: Headline,
    /// The headline's other reading.
    pub other_reading: Option<OtherReading>,
    /// The time with several explanations, ns.
    pub ambiguous_ns: u64,
}

/// A row with its evidence.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The blamed cause.
    pub key: RowKey,
    /// Its time.
    pub row: Row,
    /// Functions in which the row's threads ran, by thread name: for running time, or another process.
    pub ran: Vec<(Comm, Tally)>,
    /// Functions in which the row's waits began.
    pub waited: Tally,
    /// Calls failing again and again while the row's threads ran.
    pub spins: Vec<Spinning>,
    /// Why its threads waited for a CPU; nothing in other rows.
    pub cpu: CpuReasons,
    /// The threads that lost the time, largest loss first; empty if the window's own thread alone did.
    pub lost_by: Vec<(Comm, u64)>,
}

/// Samples get a line in rows with at least this share.
const MIN_SAMPLED_SHARE: f64 = 0.01;

/// Rows below this share of the window, and rows beyond this number, are put together.
const MIN_SHARE: f64 = 0.0005;
const MAX_SHOWN: usize = 12;

impl PathFindings {
    /// The findings about a path. `other` is a path with more joined waits, or fewer, and the sum over these.
    pub fn new(
        evidence: &Evidence<'_>,
        waits: LastWaits<'_>,
        other: Option<(Evidence<'_>, JoinedSum)>,
    ) -> Self {
        let (rows, spins) = (rows(evidence), Spins::new(evidence));
        let headline = headline(evidence, &rows, waits);
        let other_reading = other.and_then(|(other, timed_out)| {
            let joins = other.path.algorithm == Algorithm::JoinedIfAlike;
            other_reading(headline.largest.as_ref(), &rows, &other, timed_out, joins)
        });
        let ambiguous = evidence.segments().filter(|segment| segment.basis == Basis::Ambiguous);
        Self {
            shown: shown(&rows, evidence.window_ns()),
            headline,
            other_reading,
            ambiguous_ns: ambiguous.map(|segment| segment.to.since(segment.from)).sum(),
            rows: rows.into_iter().map(|(key, row)| Finding::new(evidence, &spins, key, row)).collect(),
        }
    }

    /// The rows not worth a line each: their number, and their total time, ns.
    pub fn rest(&self) -> (usize, u64) {
        let rest = self.rows.get(self.shown..).unwrap_or_default();
        (rest.len(), rest.iter().map(|finding| finding.row.total_ns).sum())
    }
}

/// The number of first rows worth a line each.
fn shown(rows: &[(RowKey, Row)], window_ns: u64) -> usize {
    let is_large = |(_, row): &&(RowKey, Row)| row.total_ns as f64 >= window_ns as f64 * MIN_SHARE;
    rows.iter().take(MAX_SHOWN).take_while(is_large).count()
}

impl Finding {
    fn new(evidence: &Evidence<'_>, spins: &Spins, key: RowKey, row: Row) -> Self {
        let names: BTreeSet<Comm> = match &key {
            RowKey::Running(_) => row.users.keys().map(|(name, _)| *name).collect(),
            RowKey::Process(..) => {
                let ran = evidence.ran().filter(|(thread, ..)| row.threads.contains(thread));
                ran.map(|(_, comm, ..)| comm).collect()
            }
            _ => BTreeSet::new(),
        };
        let samples = |comm| evidence.samples(comm, |thread| row.threads.contains(&thread));
        let ran = names.into_iter().map(|comm| (comm, samples(comm))).collect();
        let subject = evidence.subject().comm;
        let is_told = row.users.keys().any(|(name, _)| *name != subject);
        let mut lost_by: Vec<_> = row.users_by_name().into_iter().filter(|_| is_told).collect();
        lost_by.sort_by_key(|(user, ns)| (Reverse(*ns), *user));
        let spins = spins.in_row(&key, &row);
        let cpu = match key {
            RowKey::Cpu => cpu_reasons(evidence, row.total_ns),
            _ => CpuReasons::default(),
        };
        Self { ran, cpu, waited: evidence.functions(&row.sites), spins, lost_by, key, row }
    }

    /// The parts of the row's time, largest first.
    pub fn parts(&self) -> Vec<(&PartKey, u64)> {
        let mut parts: Vec<_> = self.row.parts.iter().map(|(part, ns)| (part, *ns)).collect();
        parts.sort_by_key(|(part, ns)| (Reverse(*ns), *part));
        parts
    }

    /// The samples worth a line; the window in ns. Those of a pool's threads are a single line.
    pub fn sampled(&self, window_ns: u64) -> Vec<Tally> {
        if (self.row.total_ns as f64) < window_ns as f64 * MIN_SAMPLED_SHARE {
            return Vec::new();
        }
        let all = self.ran.iter().map(|(_, ran)| ran.clone());
        let lines: Vec<Tally> = match self.key {
            RowKey::Running(_) => all.reduce(Tally::with).into_iter().collect(),
            _ => all.collect(),
        };
        lines.into_iter().filter(Tally::is_enough).collect()
    }

    /// Whether the parts say more than the key.
    pub fn is_divided(&self) -> bool {
        self.row.parts.len() >= 2 || matches!(self.key, RowKey::Cpu | RowKey::Lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activity;
    use crate::testing::{Story, checkout, checkout_stacks};
    use wakepath_critical_path::{Cause, SegmentKind};

    #[test]
    fn rows_of_half_a_thousandth_are_shown_but_no_more_than_twelve() {
        let rows = |times: &[u64]| -> Vec<(RowKey, Row)> {
            let row = |total_ns| (RowKey::Cpu, Row { total_ns, ..Row::default() });
            times.iter().map(|ns| row(*ns)).collect()
        };
        assert_eq!(shown(&rows(&[9_985, 5, 5, 4, 1]), 10_000), 3);
        assert_eq!(shown(&rows(&[100; 12]), 1_200), 12);
        assert_eq!(shown(&rows(&[100; 13]), 1_300), 12);
        assert_eq!(shown(&rows(&[]), 0), 0);
        let findings = |count: usize| {
            let mut story = Story::default();
            let own = story.thread(7, 1, b"app", 7);
            for number in 0..count {
                let comm = Comm::new(format!("t{number}").as_bytes());
                story.then(10 + number as u64, own, None, SegmentKind::Running, Cause::None);
                let to = story.segments[number].to.ns() - crate::testing::ORIGIN;
                story.add_at(to, wakepath_event::EventKind::Rename { tid: wakepath_event::Tid(7), comm });
            }
            let story = story.finish();
            let found = PathFindings::new(&story.evidence(), LastWaits::default(), None);
            (found.shown, found.rest())
        };
        assert_eq!(findings(12), (12, (0, 0)));
        assert_eq!(findings(14), (12, (2, 21)));
    }

    #[test]
    fn a_row_has_the_code_of_its_own_threads_and_the_threads_that_lost_its_time() {
        let mut story = checkout();
        story.stacks = checkout_stacks(&story.path);
        let found = PathFindings::new(&story.evidence(), LastWaits::default(), None);
        let told: Vec<_> = found
            .rows
            .iter()
            .map(|one| {
                let ran = one.ran.iter().map(|(comm, tally)| (comm.lossy().into_owned(), tally.total()));
                let lost: Vec<_> =
                    one.lost_by.iter().map(|(comm, ns)| (comm.lossy().into_owned(), *ns)).collect();
                (ran.collect::<Vec<_>>(), one.waited.total(), lost, one.is_divided())
            })
            .collect();
        let name = |name: &str, n: u64| vec![(name.to_owned(), n)];
        let ms = 1_000_000;
        assert_eq!(
            told,
            [
                // A disk; running; the CPU limit; another process; unknown; the CPU.
                (vec![], 14, vec![], true),
                (name("checkout", 24), 0, vec![], false),
                (vec![], 0, vec![], false),
                (name("postgres", 3), 1, name("postgres", 88 * ms), true),
                (vec![], 1, vec![], false),
                (vec![], 0, vec![], true),
            ]
        );
        let parts: Vec<_> = found.rows[5].parts().into_iter().map(|(_, ns)| ns).collect();
        assert_eq!(parts, [2 * ms, ms / 10], "the largest first");
        assert_eq!(found.ambiguous_ns, 0);
    }

    #[test]
    fn samples_are_worth_a_line_where_they_are_five_and_their_row_has_a_hundredth_of_the_window() {
        let mut story = checkout();
        story.stacks = checkout_stacks(&story.path);
        let found = PathFindings::new(&story.evidence(), LastWaits::default(), None);
        let lines = |row: usize, window_ns| found.rows[row].sampled(window_ns).len();
        let (running_ns, window_ns) = (found.rows[1].row.total_ns, story.evidence().window_ns());
        assert_eq!((found.rows[1].ran[0].1.total(), found.rows[3].ran[0].1.total()), (24, 3));
        assert_eq!((lines(1, window_ns), lines(3, window_ns)), (1, 0));
        assert_eq!((lines(1, 100 * running_ns), lines(1, 100 * running_ns + 100)), (1, 0));
    }

    #[test]
    fn the_ambiguous_time_is_that_of_segments_with_several_explanations() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let bases = [Basis::Measured, Basis::Ambiguous, Basis::Sampled, Basis::Ambiguous];
        for (ns, basis) in (1..).zip(bases) {
            story.then(10 * ns, own, None, SegmentKind::Running, Cause::None).basis = basis;
        }
        let found = PathFindings::new(&story.finish().evidence(), LastWaits::default(), None);
        assert_eq!(found.ambiguous_ns, 60);
        let part = PartKey::Activity(Activity::plain(SegmentKind::Running));
        assert_eq!(found.rows[0].parts(), [(&part, 100)]);
    }
}
