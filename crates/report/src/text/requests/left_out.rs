//! The spans that an answer about requests lacks, in sentences.

use wakepath_engine::requests::Traced;

use crate::escape::escape;
use crate::screen::{Line, Screen, Style};
use crate::units::{count, was};
use crate::wording;

/// A warning for each reason why spans are missing from an answer, or misplaced.
pub(super) fn left_out(screen: &mut Screen, traced: &Traced) {
    for text in spans_left_out(traced) {
        screen.wrapped(9, Line::warning("warning: ").add(Style::Normal, text));
    }
}

/// The reasons why spans are missing from an answer, or misplaced, each in a sentence.
pub(crate) fn spans_left_out(traced: &Traced) -> Vec<String> {
    let mut sentences = Vec::new();
    let reasons = [
        (traced.dropped.without_id, "without an id in hex or base64"),
        (traced.dropped.without_length, "without a beginning and an end"),
        (traced.dropped.too_many, "without room"),
    ];
    for (missing, why) in reasons.into_iter().filter(|(missing, _)| *missing > 0) {
        sentences.push(format!("{} {why} {} left out", count(missing, "span"), was(missing)));
    }
    for path in &traced.torn {
        sentences.push(format!("the spans in {} are cut off: later ones are missing", wording::file(path)));
    }
    for (path, damage) in &traced.damaged {
        let (path, damage) = (wording::file(path), escape(damage.as_bytes()));
        sentences.push(format!("{path}: {damage}; the spans before it are kept, later ones are missing"));
    }
    let in_circles = traced.requests.in_circles;
    if in_circles > 0 {
        // No circle has fewer than two spans.
        sentences.push(format!("{} were their own ancestors", count(in_circles, "span")));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use wakepath_engine::requests::read_spans;

    use super::*;

    #[test]
    fn spans_that_are_missing_cut_off_or_in_circles_are_named_and_counted() {
        let (spans, mut dropped) = read_spans(&Vec::new().into()).expect("no spans");
        let sentences = |traced: &Traced| spans_left_out(traced).join("\n");
        dropped.repeated = 3;
        let mut traced = Traced::new(spans, dropped);
        assert_eq!(sentences(&traced), "");
        traced.dropped.without_length = 1;
        assert_eq!(sentences(&traced), "1 span without a beginning and an end was left out");
        traced.dropped.without_id = 1;
        traced.torn = vec!["a.rec".into(), "b.rec".into()];
        traced.damaged = vec![("c.json".into(), "cannot be read".to_owned())];
        traced.requests.in_circles = 3;
        assert_eq!(
            sentences(&traced),
            "1 span without an id in hex or base64 was left out\n\
             1 span without a beginning and an end was left out\n\
             the spans in a.rec are cut off: later ones are missing\n\
             the spans in b.rec are cut off: later ones are missing\n\
             c.json: cannot be read; the spans before it are kept, later ones are missing\n\
             3 spans were their own ancestors"
        );
    }
}
