//! Names with `*` and `?` in them.

/// A function's name as a person writes it: exact, or with `*` (any run) and `?` (any one character).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Every text is a pattern.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names one thing, so that not finding it is worth an explanation.
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether `name` is meant, wholly.
    ///
    /// A star that cannot be matched by what follows it swallows one more byte; only the last star is
    /// ever taken back, so the time is at most the product of the two lengths.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        if self.is_exact() {
            return pattern == name;
        }
        let (mut p, mut n) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(&byte) if byte == b'?' || byte == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match star {
                    Some((at, swallowed)) => {
                        star = Some((at, swallowed + 1));
                        p = at + 1;
                        n = swallowed + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|&byte| byte == b'*')
    }
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
