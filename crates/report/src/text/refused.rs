//! Targets that cannot be counted beside others, as sentences.

use wakepath_engine::latency::RefusedTarget;

use crate::escape::escape;

/// The most targets named for a reason.
const MAX_NAMED: usize = 5;

/// A sentence for each reason, with its targets, in the order of the first ones.
pub fn refused(targets: &[RefusedTarget]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for RefusedTarget { target, why } in targets {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(target),
            None => reasons.push((why, vec![target])),
        }
    }
    let sentence = |(why, names): (&str, Vec<&str>)| {
        let shown = names.iter().take(MAX_NAMED).map(|name| escape(name.as_bytes()));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("left out {shown}{more}: {}", escape(why.as_bytes()))
    };
    reasons.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_sentence_with_its_first_targets() {
        let target = |name: &str, why: &str| RefusedTarget { target: name.to_owned(), why: why.to_owned() };
        let mut targets = vec![target("a:f\u{7}", "a loop\u{7}"), target("kernel:x", "of a module")];
        assert_eq!(refused(&[]), [""; 0]);
        assert_eq!(refused(&targets), ["left out a:f\\x07: a loop\\x07", "left out kernel:x: of a module"]);
        targets.extend((0..4).map(|n| target(&format!("a:{n}"), "a loop\u{7}")));
        assert_eq!(refused(&targets)[0], "left out a:f\\x07, a:0, a:1, a:2, a:3: a loop\\x07");
        targets.push(target("a:4", "a loop\u{7}"));
        assert_eq!(refused(&targets)[0], "left out a:f\\x07, a:0, a:1, a:2, a:3 and 1 more: a loop\\x07");
        assert_eq!(refused(&targets).len(), 2);
    }
}
