//! Span clocks, as text: the clocks that are off.

use wakepath_engine::requests::{SpanClock, SpanOffset, Traced};

use crate::escape::escape;
use crate::screen::{Line, Screen, Style};
use crate::units::{count, duration, duration_range};

/// A warning for each clock that is off for certain, and by a relevant time.
pub(super) fn clocks_off(screen: &mut Screen, traced: &Traced, clocks: &[SpanClock]) {
    for clock in clocks {
        if let Some(text) = sentence(traced, clock) {
            screen.wrapped(9, Line::warning("warning: ").add(Style::Normal, text));
        }
    }
}

fn sentence(traced: &Traced, clock: &SpanClock) -> Option<String> {
    if !clock.is_off() {
        return None;
    }
    let (first, last) = (clock.offsets.first()?, clock.offsets.last()?);
    let how_far = match overlap(first, last) {
        true => off(clock.offsets.iter().map(|one| one.least_ns).min()?, most(&clock.offsets)),
        false => format!("{} at first and {} at last", of(first), of(last)),
    };
    let service = escape(traced.spans.services[clock.service.0 as usize].name.as_bytes());
    let process = match clock.comm {
        Some(comm) => format!("{} ({})", escape(comm.bytes()), clock.process.number()),
        None => clock.process.number().to_string(),
    };
    let of_all = |spans: u64| match spans == clock.spans {
        true => count(spans, "span"),
        false => format!("{spans} of {}", count(clock.spans, "span")),
    };
    let seen = |spans: u64, when: String| {
        (spans > 0).then(|| format!("threads worked for {} {when}", of_all(spans)))
    };
    let these = |spans: u64| if spans == 1 { "it" } else { "these" };
    let early = seen(clock.early, format!("before {} began", these(clock.early)));
    let late = seen(
        clock.late,
        format!("after {} had ended, if they did not keep the context of an ended one", these(clock.late)),
    );
    let seen: Vec<_> = early.into_iter().chain(late).collect();
    Some(format!(
        "the spans of {service} in {process} are stamped by a clock that is {how_far}, and shown as they are: by the kernel's clock {}",
        seen.join(", and ")
    ))
}

/// Whether two offsets may be equal.
fn overlap(one: &SpanOffset, other: &SpanOffset) -> bool {
    let below = |least: i64, most: Option<i64>| most.is_none_or(|most| least <= most);
    below(one.least_ns, other.most_ns) && below(other.least_ns, one.most_ns)
}

/// The largest upper bound.
fn most(offsets: &[SpanOffset]) -> Option<i64> {
    let all: Option<Vec<_>> = offsets.iter().map(|one| one.most_ns).collect();
    all?.into_iter().max()
}

fn of(offset: &SpanOffset) -> String {
    off(offset.least_ns, offset.most_ns)
}

fn off(least_ns: i64, most_ns: Option<i64>) -> String {
    let length = i64::unsigned_abs;
    match (least_ns, most_ns) {
        (0.., None) => format!("at least {} ahead of its host's", duration(length(least_ns))),
        (_, None) => format!("at most {} behind its host's", duration(length(least_ns))),
        (0.., Some(most)) => {
            format!("{} ahead of its host's", duration_range(length(least_ns), length(most)))
        }
        (_, Some(most @ ..=0)) => {
            format!("{} behind its host's", duration_range(length(most), length(least_ns)))
        }
        (_, Some(most)) => {
            format!(
                "up to {} behind its host's or {} ahead",
                duration(length(least_ns)),
                duration(length(most))
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_engine::requests::read_spans;
    use wakepath_event::{Comm, Tid};

    use super::*;

    #[test]
    fn one_span_and_several_have_their_own_words() {
        let file = r#"{"data": [{"spans": [{"traceID": "1", "spanID": "1", "startTime": 5, "processID": "p"}],
            "processes": {"p": {"serviceName": "shop"}}}]}"#;
        let (spans, dropped) = read_spans(&file.to_owned().into()).expect("spans");
        let traced = Traced::new(spans, dropped);
        let said = |spans, early, late| {
            let clock = SpanClock {
                process: Tid(10),
                comm: Some(Comm::new(b"cart")),
                service: traced.spans.spans[0].service,
                spans,
                early,
                late,
                awake: 0,
                asleep: 0,
                offsets: vec![SpanOffset {
                    at: Stamp::from_ns(0),
                    least_ns: 5_000_000_000,
                    most_ns: Some(6_000_000_000),
                }],
            };
            sentence(&traced, &clock).expect("it is off")
        };
        let by = "the spans of shop in cart (10) are stamped by a clock that is 5.0 to 6.0 s ahead of its host's, and shown as they \
                  are: by the kernel's clock threads worked for";
        assert_eq!(said(1, 1, 0), format!("{by} 1 span before it began"));
        assert_eq!(said(3, 3, 0), format!("{by} 3 spans before these began"));
        assert_eq!(
            said(3, 2, 1),
            format!(
                "{by} 2 of 3 spans before these began, and threads worked for 1 of 3 spans after it had ended, if they did not \
                 keep the context of an ended one"
            )
        );
    }

    const SECOND: i64 = 1_000_000_000;

    fn offset(least_ns: i64, most_ns: Option<i64>) -> SpanOffset {
        SpanOffset { at: Stamp::from_ns(0), least_ns, most_ns }
    }

    #[test]
    fn an_offset_says_how_far_a_clock_is_ahead_or_behind_as_far_as_its_bounds_are_known() {
        for (least, most, expected) in [
            (5, None, "at least 5.00 s ahead of its host's"),
            (-5, None, "at most 5.00 s behind its host's"),
            (5, Some(6), "5.0 to 6.0 s ahead of its host's"),
            (0, Some(6), "up to 6.0 s ahead of its host's"),
            (-6, Some(-5), "5.0 to 6.0 s behind its host's"),
            (-6, Some(0), "up to 6.0 s behind its host's"),
            (-6, Some(1), "up to 6.00 s behind its host's or 1.00 s ahead"),
        ] {
            let of = of(&offset(least * SECOND, most.map(|most: i64| most * SECOND)));
            assert_eq!(of, expected, "{least} {most:?}");
        }
    }

    #[test]
    fn offsets_that_may_be_equal_are_one_and_the_largest_bound_is_known_if_all_are() {
        for (one, other, equal) in [
            ((1, Some(3)), (3, Some(5)), true),
            ((1, Some(3)), (4, Some(5)), false),
            ((4, Some(5)), (1, Some(3)), false),
            ((3, Some(5)), (1, Some(3)), true),
            ((1, None), (9, None), true),
            ((1, Some(3)), (9, None), false),
            ((9, None), (1, Some(3)), false),
            ((9, None), (1, Some(9)), true),
        ] {
            let [first, second] = [one, other].map(|(least, most)| offset(least, most));
            assert_eq!(overlap(&first, &second), equal, "{one:?} {other:?}");
        }
        assert_eq!(most(&[offset(1, Some(3)), offset(2, Some(7)), offset(2, Some(5))]), Some(7));
        assert_eq!(most(&[offset(1, Some(3)), offset(2, None)]), None);
    }

    #[test]
    fn a_clock_that_was_set_between_has_two_offsets_and_a_process_without_a_name_its_number() {
        let file = r#"{"data": [{"spans": [{"traceID": "1", "spanID": "1", "startTime": 5, "processID": "p"}],
            "processes": {"p": {"serviceName": "shop"}}}]}"#;
        let (spans, dropped) = read_spans(&file.to_owned().into()).expect("spans");
        let traced = Traced::new(spans, dropped);
        let said = |offsets: Vec<SpanOffset>| {
            let service = traced.spans.spans[0].service;
            let (awake, asleep) = (0, 0);
            let clock = SpanClock {
                process: Tid(10),
                comm: None,
                service,
                spans: 2,
                early: 2,
                late: 0,
                awake,
                asleep,
                offsets,
            };
            sentence(&traced, &clock)
        };
        let words = |how_far: &str| {
            Some(format!(
                "the spans of shop in 10 are stamped by a clock that is {how_far}, and shown as they are: by the kernel's clock \
                 threads worked for 2 spans before these began"
            ))
        };
        let at = |least: i64, most: i64| offset(least * SECOND, Some(most * SECOND));
        let set = "5.0 to 6.0 s ahead of its host's at first and 8.0 to 9.0 s ahead of its host's at last";
        assert_eq!(said(vec![at(5, 6), at(8, 9)]), words(set));
        assert_eq!(said(vec![at(5, 8), at(6, 9)]), words("5.0 to 9.0 s ahead of its host's"));
        assert_eq!(said(vec![offset(-1, Some(1))]), None, "it may be right");
    }
}
