//! The rule that notices a change in a target's latencies while they are counted: over time slices, in bounded memory
//! (Traeger 2008, section 12.1, names the problem: which changes over time are worth a person's attention).
//!
//! **Slices become pieces.** Consecutive slices are gathered into a piece until it has [`MIN_CALLS`] calls: with fewer,
//! chance alone may pass the threshold. A busy target has a piece in each slice, a quiet target a piece in several
//! slices.
//!
//! **Pieces are held against a reference.** The first pieces are the reference, until it has [`MAX_REFERENCE_CALLS`]
//! calls. From then on it stays as it is, so that a slow drift is noticed when it has become large enough. A differing
//! piece is never added to it.
//!
//! **A single piece is no change.** The threshold lets up to [`crate::evaluation::LEVEL`] of the same-condition pairs
//! differ, and a disturbance may be short. So a differing piece is a candidate. The next piece decides:
//!
//! | the next piece | meaning |
//! |---|---|
//! | is like the reference | *short*: counted and reported, and the reference stays |
//! | differs, and is like the candidate | *changed*, since the beginning of the first differing piece; both are the new reference |
//! | differs from both | it is the candidate now; the third differing piece in a row is a change anyway |
//!
//! For example, a slice has 1000 similar calls, and the change comes amid the sixth: `aaaaa½bbb`. The sixth piece may
//! differ, and the seventh is not like it; the eighth is like the seventh. The change is noticed there, since the
//! beginning of the sixth.
//!
//! **The condition may have returned.** A changed condition is held against earlier references too.
//!
//! **A cause is a single alarm.** A slow disk also wavers: its distribution changes many times until it is steady again. The first change is an alarm and begins an *episode*, which ends when [`STEADY_PIECES`] pieces in a row are
//! like the reference, and the last change is as long ago as the episode's changes lasted. Further changes in an episode
//! are alarms where they say more than the first:
//!
//! | a further change | meaning |
//! |---|---|
//! | to a mean of at least [`WORSE`] times the largest so far | an alarm: it became worse |
//! | back to the condition before the episode, until it wavers | an alarm: it was as before |
//! | any other, for the first time | an alarm: the target *wavers* |
//! | all others, and short disturbances | *quiet*: counted, no alarm |
//!
//! If there were quiet changes, the episode's end is news, with the condition before the episode and the present
//! condition: the last alarm may be about a third.
//!
//! **A stop changes no distribution.** Calls have stopped where a time without calls should have had
//! [`MIN_EXPECTED_CALLS`] by the reference's rate, and is longer than the pauses in the reference's time. Some targets
//! are called in bursts: their pauses are known from the reference.

mod history;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::evaluation::{DEFAULT_MEASURE, DEFAULT_THRESHOLD, MIN_CALLS};
use crate::histogram::{Histogram, MismatchError};
use history::History;

/// The number of calls at which a reference is complete: ten pieces, so that chance in it is small beside chance in a
/// piece, and a drift cannot become part of it.
pub const MAX_REFERENCE_CALLS: u64 = 10 * MIN_CALLS;
/// The maximum number of earlier references: two kinds of day and of night, and some disturbances.
pub const MAX_EARLIER_REFERENCES: usize = 8;
/// The number of differing pieces in a row that is always a change: a piece in which a condition begins is like
/// neither, and the next piece decides.
pub const MAX_DIFFERING_PIECES: u32 = 3;
/// The calls that the reference's rate predicts for a time without any, before it is a stop. Where calls come
/// independently, chance does this once in e^100 times.
pub const MIN_EXPECTED_CALLS: f64 = 100.0;
/// An episode ends with this number of like pieces in a row.
pub const STEADY_PIECES: u32 = 8;
/// How much larger the mean becomes where a further change in an episode is an alarm: as much as a bucket is wide.
pub const WORSE: f64 = 2.0;

/// The calls in a part of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning, since counting began.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// The counted time within it.
    pub counted: Duration,
    /// Its calls' latencies.
    pub histogram: Histogram,
}

impl Stretch {
    /// A part of the time, counted as a whole.
    pub fn new(from: Duration, to: Duration, histogram: Histogram) -> Self {
        Self { from, to, counted: to.saturating_sub(from), histogram }
    }

    /// Calls a second; 0 for no time.
    pub fn rate(&self) -> f64 {
        let seconds = self.counted.as_secs_f64();
        if seconds > 0.0 { self.histogram.calls() as f64 / seconds } else { 0.0 }
    }

    /// Adds a later part.
    fn extend(&mut self, later: &Self) -> Result<(), MismatchError> {
        self.to = self.to.max(later.to);
        self.counted = self.counted.saturating_add(later.counted);
        self.histogram.merge(&later.histogram)
    }
}

/// The news about a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// There is a reference: from here on, a change can be noticed.
    Usual(Stretch),
    /// The latencies changed.
    Changed(Box<Change>),
    /// An episode with quiet changes is over: the change from the condition before it to the present one.
    Settled {
        /// This change; both conditions may be alike.
        change: Box<Change>,
        /// The quiet changes.
        quiet: u64,
    },
    /// The latencies were different for one or two pieces.
    Short(Short),
    /// There are no calls, though there should be.
    Stopped(Stop),
    /// Calls came again.
    Back {
        /// The time of the first slice without calls.
        stopped: Duration,
        /// The time of the first slice with calls again.
        back: Duration,
    },
}

/// Whether a change is worth a person's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// The first change in an episode, or a further change with news.
    Rings,
    /// The last alarm in an episode, unless it becomes worse: from here on changes are quiet.
    Wavers,
    /// A further change while the target wavers.
    Quiet,
}

/// A change that lasts.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The beginning of the first differing piece.
    pub since: Duration,
    /// The reference until then.
    pub before: Stretch,
    /// The calls since, by which the change was noticed.
    pub after: Stretch,
    /// The score between these two.
    pub score: f64,
    /// The time of the latest earlier reference that is like the new reference.
    pub as_it_was: Option<(Duration, Duration)>,
    /// Whether it is worth attention.
    pub alarm: Alarm,
}

/// A disturbance that did not last.
#[derive(Debug, Clone, PartialEq)]
pub struct Short {
    /// Its beginning.
    pub from: Duration,
    /// The last differing piece.
    pub piece: Stretch,
    /// The piece's score.
    pub score: f64,
    /// Whether it came while the target wavers, and is not worth attention.
    pub quiet: bool,
}

/// A time without calls in which calls were expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// The beginning of the first slice without calls.
    pub since: Duration,
    /// The calls expected since then, by the reference's rate.
    pub expected: f64,
    /// The calls that have not ended.
    pub open: u64,
}

/// The number of notices so far, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoticeCounts {
    /// Changes.
    pub changed: u64,
    /// Short disturbances.
    pub short: u64,
    /// Stops.
    pub stopped: u64,
}

/// Pieces in a row that differ from the reference.
#[derive(Debug, Clone)]
struct Candidate {
    from: Duration,
    pieces: u32,
    last: Stretch,
    score: f64,
}

/// Changes with a common cause.
#[derive(Debug, Clone)]
struct Episode {
    /// The reference before its first change.
    before: Stretch,
    /// When its first change began.
    first: Duration,
    /// When its last change began.
    last: Duration,
    /// Pieces in a row like the reference.
    alike: u32,
    /// The largest mean at an alarm.
    worst: f64,
    /// Whether there was an alarm for wavering.
    wavers: bool,
    quiet: u64,
}

/// A time without calls.
#[derive(Debug, Clone, Copy)]
struct Silence {
    since: Duration,
    counted: Duration,
    noticed: bool,
}

/// Notices changes in a target's latencies. Its memory does not grow with time.
#[derive(Debug, Clone, Default)]
pub struct ChangeDetector {
    reference: Option<Stretch>,
    /// The piece being gathered.
    piece: Option<Stretch>,
    candidate: Option<Candidate>,
    earlier: VecDeque<Stretch>,
    episode: Option<Episode>,
    silence: Option<Silence>,
    /// The longest usual time without calls.
    usual_pause: Duration,
    now: Option<Stretch>,
    history: History,
    counts: NoticeCounts,
}

impl ChangeDetector {
    /// Takes the calls in the next time slice, and returns the news. `open` calls have not ended.
    ///
    /// # Errors
    /// When this slice has another unit than the earlier slices.
    pub fn observe(&mut self, slice: &Stretch, open: u64) -> Result<Vec<Notice>, MismatchError> {
        let mut news = Vec::new();
        // The time before the first call is no pause, and has no rate.
        if self.now.is_none() && slice.histogram.is_empty() {
            return self.history.add(slice).map(|()| news);
        }
        news.extend(self.hear(slice, open));
        extend_or_begin(&mut self.now, slice)?;
        self.history.add(slice)?;
        // A piece across a stop would have neither side's rate.
        if self.silence.is_some_and(|silence| silence.noticed) {
            self.piece = None;
            return Ok(news);
        }
        extend_or_begin(&mut self.piece, slice)?;
        if let Some(piece) = self.piece.take_if(|piece| piece.histogram.calls() >= MIN_CALLS) {
            news.extend(self.judge(piece)?);
        }
        Ok(news)
    }

    /// Whether calls stopped or came back.
    fn hear(&mut self, slice: &Stretch, open: u64) -> Option<Notice> {
        if slice.histogram.is_empty() {
            let silence = self.silence.get_or_insert(Silence {
                since: slice.from,
                counted: Duration::ZERO,
                noticed: false,
            });
            silence.counted = silence.counted.saturating_add(slice.counted);
            let expected = self.reference.as_ref()?.rate() * silence.counted.as_secs_f64();
            if silence.noticed || expected < MIN_EXPECTED_CALLS || silence.counted <= self.usual_pause {
                return None;
            }
            silence.noticed = true;
            self.counts.stopped += 1;
            return Some(Notice::Stopped(Stop { since: silence.since, expected, open }));
        }
        let silence = self.silence.take()?;
        if !self.reference.as_ref().is_some_and(is_whole) {
            self.usual_pause = self.usual_pause.max(silence.counted);
        }
        silence.noticed.then_some(Notice::Back { stopped: silence.since, back: slice.from })
    }

    /// Holds a piece against the reference.
    fn judge(&mut self, piece: Stretch) -> Result<Option<Notice>, MismatchError> {
        let Some(reference) = &mut self.reference else {
            self.reference = Some(piece.clone());
            return Ok(Some(Notice::Usual(piece)));
        };
        let score = distance(reference, &piece)?;
        if score <= DEFAULT_THRESHOLD {
            if !is_whole(reference) {
                reference.extend(&piece)?;
            }
            reference.to = piece.to;
            let to = piece.to;
            let short = self.candidate.take();
            self.counts.short += u64::from(short.is_some());
            let settled = self.settle(to, short.is_some())?;
            let short = short.map(|Candidate { from, last, score, .. }| {
                let quiet = self.episode.as_ref().is_some_and(|episode| episode.wavers);
                Notice::Short(Short { from, piece: last, score, quiet })
            });
            return Ok(short.or(settled));
        }
        let Some(candidate) = self.candidate.take() else {
            self.candidate = Some(Candidate { from: piece.from, pieces: 1, last: piece, score });
            return Ok(None);
        };
        let mut both = candidate.last.clone();
        both.extend(&piece)?;
        // Two similar pieces may each differ from the reference in another way, and together less.
        let lasts = distance(&candidate.last, &piece)? <= DEFAULT_THRESHOLD
            && distance(reference, &both)? > DEFAULT_THRESHOLD;
        let pieces = candidate.pieces + 1;
        if !lasts && pieces < MAX_DIFFERING_PIECES {
            self.candidate = Some(Candidate { from: candidate.from, pieces, last: piece, score });
            return Ok(None);
        }
        let before = reference.clone();
        let after = if lasts { both } else { piece };
        self.change(candidate.from, before, after).map(|change| Some(Notice::Changed(Box::new(change))))
    }

    /// Makes `after` the reference.
    fn change(&mut self, since: Duration, before: Stretch, after: Stretch) -> Result<Change, MismatchError> {
        let mut as_it_was = None;
        for earlier in self.earlier.iter().rev() {
            if distance(earlier, &after)? <= DEFAULT_THRESHOLD {
                as_it_was = Some((earlier.from, earlier.to));
                break;
            }
        }
        if self.earlier.len() == MAX_EARLIER_REFERENCES {
            self.earlier.pop_front();
        }
        self.earlier.push_back(before.clone());
        self.reference = Some(Stretch { from: since, ..after.clone() });
        self.now = Some(after.clone());
        self.counts.changed += 1;
        let score = distance(&before, &after)?;
        let alarm = self.alarm(since, &before, &after)?;
        Ok(Change { since, before, after, score, as_it_was, alarm })
    }

    /// Whether a change is worth attention. It begins an episode if there is none.
    fn alarm(&mut self, since: Duration, before: &Stretch, after: &Stretch) -> Result<Alarm, MismatchError> {
        let worst = after.histogram.mean().unwrap_or(0.0);
        let Some(episode) = &mut self.episode else {
            self.episode = Some(Episode {
                before: before.clone(),
                first: since,
                last: since,
                alike: 0,
                worst,
                wavers: false,
                quiet: 0,
            });
            return Ok(Alarm::Rings);
        };
        (episode.last, episode.alike) = (since, 0);
        if worst >= WORSE * episode.worst {
            episode.worst = worst;
            return Ok(Alarm::Rings);
        }
        if !episode.wavers && distance(&episode.before, after)? <= DEFAULT_THRESHOLD {
            return Ok(Alarm::Rings);
        }
        episode.quiet += 1;
        Ok(if std::mem::replace(&mut episode.wavers, true) { Alarm::Quiet } else { Alarm::Wavers })
    }

    /// Counts a piece like the reference, up to now; `disturbed` by other pieces right before. Ends an episode after a
    /// steady time.
    fn settle(&mut self, now: Duration, disturbed: bool) -> Result<Option<Notice>, MismatchError> {
        let (Some(reference), Some(episode)) = (&self.reference, &mut self.episode) else { return Ok(None) };
        episode.alike = if disturbed { 1 } else { episode.alike + 1 };
        let wavered = episode.last.saturating_sub(episode.first);
        if episode.alike < STEADY_PIECES || now.saturating_sub(episode.last) < wavered {
            return Ok(None);
        }
        let after = reference.clone();
        let Some(Episode { before, quiet: quiet @ 1.., .. }) = self.episode.take() else { return Ok(None) };
        let score = distance(&before, &after)?;
        let as_it_was = (score <= DEFAULT_THRESHOLD).then_some((before.from, before.to));
        let change = Change { since: after.from, before, after, score, as_it_was, alarm: Alarm::Rings };
        Ok(Some(Notice::Settled { change: Box::new(change), quiet }))
    }

    /// All calls since the last change, or since the first call; `None` before that.
    pub fn now(&self) -> Option<&Stretch> {
        self.now.as_ref()
    }

    /// The number of notices so far, by kind.
    pub fn counts(&self) -> NoticeCounts {
        self.counts
    }

    /// The beginning of the pieces that differ from the reference, and are not yet a change.
    pub fn differs_since(&self) -> Option<Duration> {
        self.candidate.as_ref().map(|candidate| candidate.from)
    }

    /// When the current stop began.
    pub fn stopped_since(&self) -> Option<Duration> {
        self.silence.filter(|silence| silence.noticed).map(|silence| silence.since)
    }

    /// All slices so far in order; an element may hold several.
    pub fn history(&self) -> &[Stretch] {
        self.history.parts()
    }
}

/// Whether a reference is complete.
fn is_whole(reference: &Stretch) -> bool {
    reference.histogram.calls() >= MAX_REFERENCE_CALLS
}

fn distance(first: &Stretch, second: &Stretch) -> Result<f64, MismatchError> {
    DEFAULT_MEASURE.score(&first.histogram, &second.histogram)
}

fn extend_or_begin(whole: &mut Option<Stretch>, slice: &Stretch) -> Result<(), MismatchError> {
    match whole {
        Some(whole) => whole.extend(slice),
        None => {
            *whole = Some(slice.clone());
            Ok(())
        }
    }
}
