//! A line's parts, taken from its begin or from its end.

/// A thread's longest name in the kernel, bytes.
pub(super) const MAX_COMM_BYTES: usize = 15;

/// A line's rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<'a>(pub &'a [u8]);

impl<'a> Scan<'a> {
    /// Takes this text from the begin.
    pub fn take(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Takes this text from the end.
    pub fn take_last(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_suffix(text)?;
        Some(())
    }

    /// Takes spaces from the begin, and returns their number.
    pub fn spaces(&mut self) -> usize {
        self.take_while(|byte| byte == b' ').len()
    }

    /// Takes such bytes from the begin.
    pub fn take_while(&mut self, is: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !is(byte)).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at(end);
        self.0 = rest;
        part
    }

    /// Takes such bytes from the end.
    pub fn take_last_while(&mut self, is: impl Fn(u8) -> bool) -> &'a [u8] {
        let from = self.0.iter().rposition(|&byte| !is(byte)).map_or(0, |at| at + 1);
        let (rest, part) = self.0.split_at(from);
        self.0 = rest;
        part
    }

    /// Takes a decimal number from the begin.
    pub fn number(&mut self) -> Option<u64> {
        decimal(self.take_while(|byte| byte.is_ascii_digit()))
    }

    /// Takes a decimal number from the end, perhaps negative.
    pub fn last_number(&mut self) -> Option<i64> {
        let number = i64::try_from(decimal(self.take_last_while(|byte| byte.is_ascii_digit()))?).ok()?;
        match self.take_last(b"-") {
            Some(()) => Some(-number),
            None => Some(number),
        }
    }

    /// Takes a hexadecimal number from the begin, with or without `0x`.
    pub fn hex(&mut self) -> Option<u64> {
        let _ = self.take(b"0x");
        let digits = self.take_while(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The single way to split `text` into two parts with an `infix` between them, `infix` takes it from the
/// begin. `None` without such a way, and with several: then no part is known.
pub(super) fn split_once_only<'a, T>(
    text: &'a [u8],
    infix: impl Fn(&mut Scan<'a>) -> Option<T>,
    fits: impl Fn(&'a [u8], &T, &'a [u8]) -> bool,
) -> Option<(&'a [u8], T, &'a [u8])> {
    let ways = (0..text.len()).filter_map(|at| {
        let mut rest = Scan(&text[at..]);
        let between = infix(&mut rest)?;
        fits(&text[..at], &between, rest.0).then_some((&text[..at], between, rest.0))
    });
    only(ways)
}

/// The single item.
pub(super) fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// Whether a line's part can be a thread's name.
pub(super) const fn is_comm(part: &[u8]) -> bool {
    part.len() <= MAX_COMM_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_two_readings_has_none() {
        let split = |text: &'static str| {
            split_once_only(text.as_bytes(), |rest| rest.take(b" to "), |a, (), b| is_comm(a) && is_comm(b))
                .map(|(a, (), b)| (String::from_utf8_lossy(a), String::from_utf8_lossy(b)))
        };
        assert_eq!(split("here to there"), Some(("here".into(), "there".into())));
        assert_eq!(split("a to b to c"), None, "the name `a to b`, or the name `b to c`");
        assert_eq!(split("a to b to cccccccccccc"), Some(("a to b".into(), "cccccccccccc".into())));
        assert_eq!(split("nothing"), None);
    }

    #[test]
    fn numbers_are_taken_from_both_ends_and_none_is_cut() {
        let mut line = Scan(b"12 x=-34");
        assert_eq!((line.number(), line.last_number()), (Some(12), Some(-34)));
        assert_eq!(line.0, b" x=");
        assert_eq!(Scan(b"99999999999999999999").number(), None);
        assert_eq!(Scan(b"x").last_number(), None);
        assert_eq!(
            (Scan(b"0xffx").hex(), Scan(b"7f).").hex(), Scan(b"-").hex()),
            (Some(255), Some(127), None)
        );
    }
}
