//! Two sets of latency distributions compared, as text.

use wakepath_engine::{Comparison, Measure};

use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{amount, count};

/// Each target's calls and averages before and after, with the scores by all measures; differing targets come
/// first.
pub fn comparison(comparison: &Comparison, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let differ = comparison.pairs.iter().filter(|pair| pair.differ).count();
    let decisive = comparison.measure;
    let head = format!("{differ} of {} differ", count(comparison.pairs.len() as u64, "target"));
    let how = format!(", by {decisive} above {}", score(comparison.threshold));
    screen.wrapped(0, Line::strong(head).add(Style::Normal, how));
    if !comparison.pairs.is_empty() {
        screen.blank();
    }
    for pair in &comparison.pairs {
        let (verdict, style) = match (pair.differ, pair.doubtful) {
            (true, false) => ("differs  ", Style::Strong),
            (true, true) => ("differs* ", Style::Strong),
            (false, _) => ("alike    ", Style::Faint),
        };
        let [before, after] = pair.histograms.each_ref().map(|histogram| {
            let mean = histogram
                .mean()
                .map_or_else(|| String::from("none"), |mean| amount(mean as u64, histogram.unit()));
            (histogram.calls(), mean)
        });
        let calls = count(after.0, "call");
        let text = format!(": {} → {calls}, {} → {} on average", before.0, before.1, after.1);
        let line = Line::new().add(style, escape(pair.target.as_bytes())).add(Style::Normal, text);
        screen.hanging(Line::new().add(style, verdict), 9, line);
        let scores = Measure::ALL.iter().zip(pair.scores);
        let scores: Vec<_> = scores.map(|(measure, value)| format!("{measure} {}", score(value))).collect();
        screen.indented(9, Line::faint(scores.join("  ")));
    }
    if comparison.pairs.iter().any(|pair| pair.differ && pair.doubtful) {
        screen.blank();
        let text = "* fewer than 1000 calls: the difference may be chance";
        screen.wrapped(2, Line::warning(text));
    }
    for (only, which) in [(&comparison.only_first, "first"), (&comparison.only_second, "second")] {
        if !only.is_empty() {
            let names: Vec<_> = only.iter().map(|name| escape(name.as_bytes())).collect();
            screen.blank();
            let text = format!("only in the {which} profile: {}", names.join(", "));
            screen.wrapped(2, Line::warning(text));
        }
    }
    screen.into_text()
}

/// A score with at most three digits.
fn score(value: f64) -> String {
    match value {
        value if value.is_infinite() => String::from("∞"),
        value if value >= 99.95 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use wakepath_engine::compare;

    use super::*;
    use crate::sample::profile;

    #[test]
    fn what_differs_is_told_first_with_all_measures() {
        let before = vec![
            profile("syscall:read", &[(900, 5000)]),
            profile("disk", &[(100_000, 700), (4_000_000, 20)]),
            profile("./a\u{7}:f", &[]),
        ];
        let after = vec![
            profile("syscall:read", &[(900, 5100)]),
            profile("disk", &[(100_000, 500), (4_000_000, 220)]),
            profile("runqueue", &[(1, 1)]),
        ];
        let found = compare(before, after, None).expect("one unit");
        expect![[r#"
            1 of 2 targets differ, by EARTHMOVER above 58.0

            differs* disk: 720 → 720 calls, 208 µs → 1.29 ms on average
                     TOTOPS 0.0  TOTLAT 463  CHISQUARE 100  EARTHMOVER 139  GROUPOPS 55.6  GROUPLAT 100
            alike    syscall:read: 5000 → 5100 calls, 900 ns → 900 ns on average
                     TOTOPS 2.0  TOTLAT 2.0  CHISQUARE 68.0  EARTHMOVER 0.0  GROUPOPS 2.0  GROUPLAT 2.0

            * fewer than 1000 calls: the difference may be chance

            only in the first profile: ./a\x07:f

            only in the second profile: runqueue
        "#]]
        .assert_eq(&comparison(&found, Layout::PLAIN));
    }
}
