//! Escaping of names: a process can choose a terminal's control sequence as its name, so every view shows names through
//! [`escape`].

use std::fmt::Write;

/// `bytes` as text that changes nothing on a terminal: control characters, characters that turn the text direction
/// or take no space, and bytes outside UTF-8 are spelled out.
///
/// `\n` stays readable as `\n`, other bytes as `\x1b`, other characters as `\u{202e}`. A backslash stays a
/// backslash, since systemd's units have them.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut out, c);
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn push(out: &mut String, c: char) {
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\t' => write!(out, "\\t"),
        '\r' => write!(out, "\\r"),
        c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
        c if c.is_control() || is_invisible(c) => write!(out, "\\u{{{:x}}}", u32::from(c)),
        c => write!(out, "{c}"),
    };
}

/// An external name as a JSON string's text.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// Characters that reorder, join or hide the text around them.
pub(crate) const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_drive_the_terminal_is_spelled_out() {
        for (bytes, expected) in [
            (b"checkout".as_slice(), "checkout"),
            (b"\x1b[31mred", r"\x1b[31mred"),
            (b"two\nlines\r\t", r"two\nlines\r\t"),
            (b"\xff\xfe", r"\xff\xfe"),
            (b"half \xe2\x82", r"half \xe2\x82"),
            ("grüße 日本".as_bytes(), "grüße 日本"),
            ("c1 \u{9b}31m".as_bytes(), r"c1 \u{9b}31m"),
            ("rtl \u{202e}gpj".as_bytes(), r"rtl \u{202e}gpj"),
            ("zero\u{200b}width".as_bytes(), r"zero\u{200b}width"),
            (b"\x7f\x00", r"\x7f\x00"),
            (br"dev-disk-by\x2duuid.device", r"dev-disk-by\x2duuid.device"),
        ] {
            assert_eq!(escape(bytes), expected);
        }
    }

    #[test]
    fn what_was_escaped_once_stays_as_it_is() {
        for bytes in [b"\x1b[2J\xff".as_slice(), "\u{202e}".as_bytes()] {
            let once = escape(bytes);
            assert_eq!(escape(once.as_bytes()), once);
        }
    }
}
