//! babeltrace2's text: lines, and the values in them.

/// `[00000002357617051683] sched_wakeup: { cpu_id = 2 }, { comm = "a", tid = 4297 }`.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub stamp: u64,
    pub name: &'a [u8],
    pub cpu: u64,
    /// All text behind the packet's context.
    pub fields: &'a [u8],
}

impl<'a> Line<'a> {
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let stamp = std::str::from_utf8(line.get(1..21)?).ok()?.parse().ok()?;
        let rest = line.get(21..)?.strip_prefix(b"] ")?;
        let name = &rest[..find(rest, b": { cpu_id = ")?];
        let rest = &rest[name.len() + b": { cpu_id = ".len()..];
        let cpu = &rest[..find(rest, b" }, ")?];
        let fields = &rest[cpu.len() + b" }, ".len()..];
        Some(Self { stamp, name, cpu: number(cpu)?, fields })
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

/// A value.
#[derive(Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A number, as written.
    Word(&'a [u8]),
    /// A text, without quotation marks and escapes.
    Text(Vec<u8>),
}

/// The field values in their order: the text behind each ` = `, unless it is a group with more fields.
pub struct Tokens<'a>(pub &'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let next = self.0.iter().position(|&byte| byte == b'"' || byte == b'=')?;
            let quoted = self.0[next] == b'"';
            self.0 = &self.0[next + 1..];
            // The name of an enumeration's value, which may contain any character.
            if quoted {
                self.quoted();
                continue;
            }
            let Some(value) = self.0.strip_prefix(b" ") else { continue };
            match value.first()? {
                b'"' => {
                    self.0 = &value[1..];
                    return Some(Token::Text(self.quoted()));
                }
                b'{' | b'[' | b'(' => {}
                _ => {
                    let ends = |byte: &u8| matches!(byte, b',' | b' ' | b'\n');
                    let len = value.iter().position(ends).unwrap_or(value.len());
                    self.0 = &value[len..];
                    return Some(Token::Word(&value[..len]));
                }
            }
        }
    }
}

impl Tokens<'_> {
    /// A text up to its closing quotation mark, which is skipped.
    fn quoted(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut bytes = self.0.iter();
        while let Some(&byte) = bytes.next() {
            text.push(match byte {
                b'"' => break,
                b'\\' => match bytes.next() {
                    Some(b'n') => b'\n',
                    Some(b't') => b'\t',
                    Some(b'r') => b'\r',
                    Some(b'a') => 7,
                    Some(b'b') => 8,
                    Some(b'v') => 11,
                    Some(b'f') => 12,
                    Some(b'e') => 27,
                    Some(&other) => other,
                    None => break,
                },
                other => other,
            });
        }
        self.0 = bytes.as_slice();
        text
    }
}

/// A number in its prefix's base, with all its 64 bits.
pub fn number(word: &[u8]) -> Option<u64> {
    let word = std::str::from_utf8(word).ok()?;
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = word.strip_prefix("0b") {
        return u64::from_str_radix(digits, 2).ok();
    }
    if word.len() > 1 && word.starts_with('0') {
        return u64::from_str_radix(word, 8).ok();
    }
    word.parse::<u64>().ok().or_else(|| word.parse::<i64>().ok().map(|value| value as u64))
}

/// A fraction as C's `%g` prints it, with six digits.
pub fn six_digits(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".to_owned() } else { value.to_string() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::{Line, Token, Tokens, number, six_digits};

    #[test]
    fn a_line_has_its_stamp_name_and_cpu() {
        let line = b"[00000002357617051683] sched_wakeup: { cpu_id = 2 }, { comm = \"a }, b\", tid = 7 }\n";
        let parsed = Line::parse(line).unwrap();
        assert_eq!((parsed.stamp, parsed.name, parsed.cpu), (2_357_617_051_683, &b"sched_wakeup"[..], 2));
        assert_eq!(parsed.fields, b"{ comm = \"a }, b\", tid = 7 }\n");
        assert_eq!(Line::parse(b"nothing"), None);
    }

    #[test]
    fn values_come_in_the_order_of_the_fields() {
        let text = br#"{ tid = 4 }, { comm = "a = \"b\"\n", kind = ( "x = 1" : container = 5 ), at = [ [0] = 0x1F, [1] = -3 ], none = [ ], in = { f = 1.5 } }"#;
        let words = |tokens: Tokens<'_>| {
            tokens
                .map(|token| match token {
                    Token::Word(word) => String::from_utf8_lossy(word).into_owned(),
                    Token::Text(text) => format!("'{}'", String::from_utf8_lossy(&text)),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(words(Tokens(text)), ["4", "'a = \"b\"\n'", "5", "0x1F", "-3", "1.5"]);
    }

    #[test]
    fn numbers_have_all_their_bits() {
        assert_eq!(number(b"0xFFFFFFFFFFFFFFFF"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"-1"), Some(u64::MAX));
        assert_eq!(number(b"0755"), Some(0o755));
        assert_eq!(number(b"0b101"), Some(5));
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"x"), None);
    }

    /// The texts come from C's `printf("%g")`.
    #[test]
    fn fractions_are_compared_as_they_are_printed() {
        for (value, printed) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-2.0, "-2"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23457e+08"),
            (0.0001, "0.0001"),
            (0.000_012_345_67, "1.23457e-05"),
            (2.414_213_562, "2.41421"),
            (999_999.5, "1e+06"),
        ] {
            assert_eq!(six_digits(value), printed);
        }
    }
}
