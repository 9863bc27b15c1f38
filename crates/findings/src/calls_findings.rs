//! The findings about many calls, as their first screen shows them: causes, and the headline.

use crate::{CallCause, Evidence, PerGroup, causes};

/// The findings about many calls.
#[derive(Debug, Clone)]
pub struct CallsFindings {
    /// The causes, largest difference first. Together they are the calls' time.
    pub causes: Vec<CallCause>,
    /// The indices of the causes worth a line each.
    pub shown: Vec<usize>,
    /// The mean time of a call, ns.
    pub mean_ns: PerGroup<f64>,
    /// Selected calls differ in their largest cause.
    pub is_mixed: bool,
    /// The cause that a sentence names; `None` if no cause takes longer than in the usual calls.
    pub headline: Option<CallsHeadline>,
}

/// The cause named in a sentence about calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsHeadline {
    /// The cause's index.
    pub cause: usize,
    /// The indices of its named parts.
    pub parts: Vec<usize>,
    /// The cause's part of `of_ns`, ns a call.
    pub more_ns: u64,
    /// The extra time of the selected calls over the usual calls, ns a call.
    pub of_ns: u64,
}

/// A cause gets no line with less than this share of the selected calls' time, and at most this share of the usual
/// calls'.
const MIN_SHARE: f64 = 0.005;
const MIN_USUAL: f64 = 0.1;

impl CallsFindings {
    /// The findings about selected calls, compared with usual calls.
    pub fn new(calls: &PerGroup<Vec<Evidence<'_>>>) -> Self {
        let mean = |group: &[Evidence<'_>]| {
            group.iter().map(Evidence::window_ns).sum::<u64>() as f64 / group.len().max(1) as f64
        };
        let usual = if calls.usual.is_empty() { 0.0 } else { mean(&calls.usual) };
        Self::with_causes(causes(calls), PerGroup { asked: mean(&calls.asked), usual })
    }

    fn with_causes(causes: Vec<CallCause>, mean_ns: PerGroup<f64>) -> Self {
        let is_shown = |cause: &CallCause| {
            cause.mean_ns.asked >= mean_ns.asked * MIN_SHARE
                || cause.mean_ns.usual > mean_ns.usual * MIN_USUAL
        };
        let first = causes.first().filter(|first| first.mean_ns.difference() > 0.0);
        let all = mean_ns.difference().max(1.0);
        Self {
            shown: (0..causes.len()).filter(|place| is_shown(&causes[*place])).collect(),
            mean_ns,
            is_mixed: causes.iter().filter(|cause| cause.first_in > 0).count() > 1,
            headline: first.map(|first| CallsHeadline {
                cause: 0,
                parts: first.told_parts(),
                more_ns: first.mean_ns.difference().min(all) as u64,
                of_ns: all as u64,
            }),
            causes,
        }
    }

    /// The causes not worth a line each.
    pub fn rest(&self) -> impl Iterator<Item = &CallCause> {
        let causes = self.causes.iter().enumerate();
        causes.filter(|(place, _)| !self.shown.contains(place)).map(|(_, cause)| cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FUTEX, FinishedStory, Story, call, checkout};
    use crate::{Row, RowKey};
    use wakepath_critical_path::{Cause, SegmentKind, Via};

    /// A call: a thread runs for `ran`, and waits for another process for `waited`.
    fn story(ran: u64, waited: u64) -> FinishedStory {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let other = story.thread(8, 1, b"db", 8);
        story.then(ran, own, None, SegmentKind::Running, Cause::None);
        if waited > 0 {
            let wait = story.wait(waited, own, None, call(FUTEX, 3), Via::Wakeup, other);
            story.then(waited, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        story.finish()
    }

    fn findings(asked: &[FinishedStory], usual: &[FinishedStory]) -> CallsFindings {
        let calls = PerGroup {
            asked: asked.iter().map(FinishedStory::evidence).collect(),
            usual: usual.iter().map(FinishedStory::evidence).collect(),
        };
        CallsFindings::new(&calls)
    }

    #[test]
    fn causes_add_up_to_the_calls_and_the_largest_difference_is_the_headline() {
        let found =
            findings(&[story(100, 900), story(100, 1100), checkout()], &[story(90, 0), story(110, 0)]);
        let total: u64 = found.causes.iter().map(|cause| cause.total_ns.asked).sum();
        assert_eq!(total, 1000 + 1200 + checkout().evidence().window_ns());
        assert_eq!(found.causes.iter().map(|cause| cause.total_ns.usual).sum::<u64>(), 200);
        let found = findings(&[story(100, 900), story(100, 1100)], &[story(90, 0), story(110, 0)]);
        assert_eq!((found.mean_ns.asked, found.mean_ns.usual), (1100.0, 100.0));
        let headline = found.headline.as_ref().expect("a cause");
        assert_eq!(found.causes[headline.cause].key, RowKey::Process(wakepath_event::Comm::new(b"db"), None));
        assert_eq!((headline.more_ns, headline.of_ns, &headline.parts[..]), (1000, 1000, &[0][..]));
        assert!(!found.is_mixed);
        assert_eq!((&found.shown[..], found.rest().count()), (&[0, 1][..], 0));
        // Without usual calls, the difference is the whole time.
        let alone = findings(&[story(100, 900)], &[]);
        assert_eq!(alone.headline.map(|headline| (headline.more_ns, headline.of_ns)), Some((900, 1000)));
        assert!(findings(&[story(100, 0), story(100, 900)], &[]).is_mixed);
        assert_eq!(findings(&[story(100, 0)], &[story(100, 0)]).headline, None, "no difference");
        assert_eq!(findings(&[], &[]).headline, None);
    }

    #[test]
    fn a_cause_has_a_line_from_a_two_hundredth_on_or_if_it_is_more_than_a_tenth_of_the_usual_calls() {
        let cause = |asked: f64, usual: f64| {
            let found = findings(&[story(1, 0)], &[]).causes.remove(0);
            CallCause {
                mean_ns: PerGroup { asked, usual },
                example: (found.example.0, Row::default()),
                ..found
            }
        };
        let causes =
            vec![cause(900.0, 70.0), cause(5.0, 0.0), cause(4.9, 10.0), cause(4.9, 10.1), cause(0.0, 9.9)];
        let found = CallsFindings::with_causes(causes, PerGroup { asked: 1000.0, usual: 100.0 });
        assert_eq!(found.shown, [0, 1, 3]);
        let rest: Vec<_> = found.rest().map(|cause| cause.mean_ns.usual).collect();
        assert_eq!(rest, [10.0, 9.9]);
        let headline = found.headline.expect("a cause");
        assert_eq!((headline.more_ns, headline.of_ns), (830, 900));
        // A cause's difference may exceed the calls' difference, which may be below 1.
        let more =
            CallsFindings::with_causes(vec![cause(900.0, 0.0)], PerGroup { asked: 500.0, usual: 100.0 });
        assert_eq!(more.headline.map(|one| (one.more_ns, one.of_ns)), Some((400, 400)));
        let less = CallsFindings::with_causes(vec![cause(9.0, 0.0)], PerGroup { asked: 5.0, usual: 100.0 });
        assert_eq!(less.headline.map(|one| (one.more_ns, one.of_ns)), Some((1, 1)));
        let mut mixed = vec![cause(9.0, 0.0), cause(5.0, 0.0)];
        mixed.iter_mut().for_each(|cause| cause.first_in = 1);
        assert!(CallsFindings::with_causes(mixed, PerGroup { asked: 14.0, usual: 0.0 }).is_mixed);
    }
}
