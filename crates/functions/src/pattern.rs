//! Names with `*` and `?` in them.

/// A function's name as a user writes it: exact, or with `*` (any run) and `?` (any single character).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Every text is a pattern.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern is a single name, so that not finding it is worth an explanation.
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether the whole `name` matches.
    ///
    /// The text between two stars is taken where it first fits, which leaves the most for the rest: the time is at most
    /// the product of the two lengths.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.as_bytes();
        let mut runs = self.0.as_bytes().split(|&byte| byte == b'*');
        let first = runs.next().unwrap_or_default();
        let Some(last) = runs.next_back() else { return fits(first, name) };
        let Some((start, mut rest)) = name.split_at_checked(first.len()) else { return false };
        for run in runs.filter(|run| !run.is_empty()) {
            let Some(at) = rest.windows(run.len()).position(|part| fits(run, part)) else { return false };
            rest = &rest[at + run.len()..];
        }
        let end = rest.len().checked_sub(last.len()).map(|at| &rest[at..]);
        fits(first, start) && end.is_some_and(|end| fits(last, end))
    }
}

/// Whether a text fits a pattern without a star.
fn fits(run: &[u8], text: &[u8]) -> bool {
    run.len() == text.len() && run.iter().zip(text).all(|(&byte, other)| byte == b'?' || byte == *other)
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_star_is_any_run_and_a_question_mark_any_one() {
        for (pattern, yes, no) in [
            ("malloc", &["malloc"][..], &["malloc2", "alloc", ""][..]),
            ("handle_*", &["handle_", "handle_get"], &["handle", "xhandle_get"]),
            ("*alloc", &["malloc", "alloc", "allocalloc"], &["allocs"]),
            ("a*b*c", &["abc", "abbcbc", "a-b-c"], &["ab", "acb", "abcd"]),
            ("h?t", &["hat", "h*t"], &["ht", "heat"]),
            ("*", &["", "x"], &[]),
            ("a**b", &["ab", "axb"], &["a", "b", "abx", "xab"]),
            ("ab*ba", &["abba", "ab-ba"], &["aba", "ab", "abbab"]),
            ("*a?c*e", &["abce", "-abcabce", "aaac-e"], &["abc", "ac-e", "abcef", "a-c"]),
            ("*ab*ab", &["abab", "abxab"], &["ab", "aab", "xab"]),
            ("?", &["a"], &["", "ab"]),
            ("h?t", &["h?t"], &["hat!", "ha"]),
            ("std::*::push*", &["std::vector<int>::push_back"], &["std::push"]),
        ] {
            let parsed = Pattern::new(pattern);
            for name in yes {
                assert!(parsed.matches(name), "{pattern} {name}");
            }
            for name in no {
                assert!(!parsed.matches(name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = Pattern::new(&"*a".repeat(50));
        assert!(!pattern.matches(&("a".repeat(5_000) + "b")));
    }
}
