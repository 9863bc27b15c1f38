//! The reason why each turn of a span became ready, where its program noted it.
//!
//! Between two turns, only what made the next turn ready explains the wait: the loop may have woken for other things meanwhile.

use std::str::FromStr;

/// A turn's reason to be ready. Times are ns before the turn's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Not known, or the turn continues another in the same callback.
    Unknown,
    /// A timer of the loop, due then.
    Timer(u64),
    /// A descriptor: the loop called the descriptor's callback then.
    Descriptor(u64),
    /// Code in the same thread, which scheduled the turn then, while it worked for a span.
    Scheduled(u64),
    /// Code in the thread with this number, which scheduled the turn then.
    Thread(u32, u64),
    /// A job of the runtime's pool: the loop called the job's callback then.
    Pool(u64),
}

impl Ready {
    /// A reason from its word: `-`, or a letter (`t` timer, `d` descriptor, `s` scheduled, `wTID:` thread, `j` pool) before the ns.
    fn parse(word: &str) -> Option<Self> {
        let rest = |letter| word.strip_prefix(letter);
        if word == "-" {
            return Some(Self::Unknown);
        }
        if let Some((tid, at)) = rest('w').and_then(|rest| rest.split_once(':')) {
            return Some(Self::Thread(number(tid)?, number(at)?));
        }
        let by = [
            ('t', Self::Timer as fn(u64) -> Self),
            ('d', Self::Descriptor),
            ('s', Self::Scheduled),
            ('j', Self::Pool),
        ];
        let (rest, by) = by.into_iter().find_map(|(letter, by)| Some((rest(letter)?, by)))?;
        Some(by(number(rest)?))
    }

    /// The reasons in a text: words with spaces between, and a full stop. `None` for a text that is cut off or malformed.
    pub(crate) fn parse_all(text: &str) -> Option<Vec<Self>> {
        let text = text.strip_suffix('.')?;
        match text {
            "" => Some(Vec::new()),
            text => text.split(' ').map(Self::parse).collect(),
        }
    }
}

/// A number of digits alone: a sign would be parsed with it.
pub(crate) fn number<N: FromStr>(word: &str) -> Option<N> {
    word.parse().ok().filter(|_| word.starts_with(|one: char| one.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_word_for_each_turn() {
        let all = [
            Ready::Unknown,
            Ready::Timer(12),
            Ready::Descriptor(0),
            Ready::Scheduled(7),
            Ready::Thread(4711, 9),
            Ready::Pool(u64::MAX),
        ];
        assert_eq!(Ready::parse_all("- t12 d0 s7 w4711:9 j18446744073709551615."), Some(all.to_vec()));
        assert_eq!(Ready::parse_all("."), Some(Vec::new()));
    }

    #[test]
    fn a_text_that_is_cut_off_or_malformed_has_no_reasons() {
        for text in [
            "",
            "t12",
            "t12 ",
            "t.",
            "t-1.",
            "t+1.",
            "x1.",
            "1.",
            "w1.",
            "w:1.",
            "w1:.",
            "w1:+2.",
            "w4294967296:1.",
            "t1  d1.",
            "--.",
            "t18446744073709551616.",
            "-1.",
        ] {
            assert_eq!(Ready::parse_all(text), None, "{text}");
        }
    }
}
