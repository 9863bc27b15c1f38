//! Styled text with a certain width. A view's text is filtered here once more, so that only our own control
//! characters reach a terminal, and colours appear only where they are wanted.

use unicode_width::UnicodeWidthStr;

use crate::escape::escape;

/// The text's medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns.
    pub width: usize,
    /// Whether it shows colours.
    pub colour: bool,
}

impl Layout {
    /// For files and pipes: a hundred columns, no colours.
    pub const PLAIN: Self = Self { width: 100, colour: false };
    /// Narrower tables cannot be read: on a narrower terminal, lines are longer than it.
    const MIN_WIDTH: usize = 40;
}

/// The look of a piece of text, if there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// The default.
    Normal,
    /// The answer.
    Strong,
    /// Text that most readers skip.
    Faint,
    /// Text that casts doubt on the answer.
    Warning,
}

/// A piece of text in a single style.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    style: Style,
    text: String,
}

/// Text in pieces, without line breaks of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<Piece>);

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Text that is the answer.
    pub fn strong(text: impl Into<String>) -> Self {
        Self::new().add(Style::Strong, text)
    }

    /// Text that most readers skip.
    pub fn faint(text: impl Into<String>) -> Self {
        Self::new().add(Style::Faint, text)
    }

    /// Text that casts doubt on the answer.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new().add(Style::Warning, text)
    }

    /// Adds text.
    pub fn add(mut self, style: Style, text: impl Into<String>) -> Self {
        self.push(style, text);
        self
    }

    /// Adds text.
    pub fn push(&mut self, style: Style, text: impl Into<String>) {
        self.0.push(Piece { style, text: text.into() });
    }

    /// Whether it has no text.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| piece.text.is_empty())
    }

    /// The text alone.
    pub fn into_plain(self) -> String {
        self.0.into_iter().map(|piece| escape(piece.text.as_bytes())).collect()
    }

    /// Adds another line's pieces.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::new().add(Style::Normal, text)
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// Text written line by line in a layout.
#[derive(Debug)]
pub struct Screen {
    layout: Layout,
    text: String,
}

impl Screen {
    /// An empty screen.
    pub fn new(layout: Layout) -> Self {
        Self { layout: Layout { width: layout.width.max(Layout::MIN_WIDTH), ..layout }, text: String::new() }
    }

    /// The text so far.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Writes an empty line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Writes a line as it is, however long.
    pub fn unwrapped(&mut self, line: impl Into<Line>) {
        for Piece { style, text } in line.into().0 {
            self.styled(style, &escape(text.as_bytes()));
        }
        self.end_line();
    }

    /// Writes a line, breaking it between words at the screen's width. Further lines begin `indent` columns in.
    pub fn wrapped(&mut self, indent: usize, line: impl Into<Line>) {
        self.hanging("", indent, line);
    }

    /// Writes a line `indent` columns in, wrapped there.
    pub fn indented(&mut self, indent: usize, line: impl Into<Line>) {
        self.hanging(" ".repeat(indent), indent, line);
    }

    /// Writes `head` as it is and `line` behind it from column `indent` on, wrapped there.
    pub fn hanging(&mut self, head: impl Into<Line>, indent: usize, line: impl Into<Line>) {
        self.beside(head, &" ".repeat(indent), line);
    }

    /// Writes `what: text`, the form of errors and warnings.
    pub fn complaint(&mut self, what: &str, text: &str) {
        let lead = match what {
            "" => Line::from("  "),
            "hint" => Line::strong("hint:"),
            what => Line::warning(format!("{what}:")),
        };
        self.unwrapped(lead.add(Style::Normal, format!(" {text}")));
    }

    /// Writes `head` as it is and `line` behind it, wrapped there; further lines begin with `margin`.
    pub fn beside(&mut self, head: impl Into<Line>, margin: &str, line: impl Into<Line>) {
        let head = head.into();
        let indent = margin.width();
        let mut column = 0;
        for Piece { style, text } in &head.0 {
            let text = escape(text.as_bytes());
            column += text.width();
            self.styled(*style, &text);
        }
        if !head.is_empty() {
            column += self.spaces(indent.saturating_sub(column));
        }
        let first_column = column;
        // A break may stand at each space; several pieces may form a word.
        let mut pending_space = 0;
        for word in words(&line.into()) {
            let width: usize = word.pieces.iter().map(|(_, text)| text.width()).sum();
            if word.after_space {
                pending_space += 1;
            }
            let full = column + pending_space + width > self.layout.width;
            if full && word.after_space && column > indent.max(first_column) {
                self.end_line();
                self.styled(Style::Faint, margin);
                column = indent;
            } else {
                column += self.spaces(pending_space);
            }
            pending_space = 0;
            for (style, text) in &word.pieces {
                self.styled(*style, text);
            }
            column += width;
        }
        self.end_line();
    }

    fn spaces(&mut self, n: usize) -> usize {
        self.text.extend(std::iter::repeat_n(' ', n));
        n
    }

    fn end_line(&mut self) {
        let end = self.text.trim_end_matches(' ').len();
        self.text.truncate(end);
        self.text.push('\n');
    }

    fn styled(&mut self, style: Style, text: &str) {
        let code = match style {
            Style::Strong => "1",
            Style::Faint => "2",
            Style::Warning => "33",
            Style::Normal => "",
        };
        if self.layout.colour && !code.is_empty() && !text.is_empty() {
            self.text.extend(["\x1b[", code, "m", text, "\x1b[0m"]);
        } else {
            self.text.push_str(text);
        }
    }
}

struct Word {
    after_space: bool,
    pieces: Vec<(Style, String)>,
}

fn words(line: &Line) -> Vec<Word> {
    let mut words = vec![Word { after_space: false, pieces: Vec::new() }];
    for Piece { style, text } in &line.0 {
        for (i, part) in text.split(' ').enumerate() {
            if i > 0 {
                words.push(Word { after_space: true, pieces: Vec::new() });
            }
            if let (false, Some(word)) = (part.is_empty(), words.last_mut()) {
                word.pieces.push((*style, escape(part.as_bytes())));
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(write: impl FnOnce(&mut Screen), expected: Expect) {
        let mut screen = Screen::new(NARROW);
        write(&mut screen);
        expected.assert_eq(&screen.into_text());
    }

    const NARROW: Layout = Layout { width: 40, colour: false };

    #[test]
    fn a_long_line_breaks_between_words_and_hangs_from_its_column() {
        check(
            |screen| {
                let line = Line::from("disk sda, 14 × fdatasync of orders.db, through jbd2/sda1-8");
                screen.hanging(" 61.3%  738 ms", 16, line);
                screen.wrapped(2, "no head: the second line is two columns in");
            },
            expect![[r#"
                 61.3%  738 ms  disk sda, 14 × fdatasync
                                of orders.db, through
                                jbd2/sda1-8
                no head: the second line is two columns
                  in
            "#]],
        );
    }

    #[test]
    fn a_word_longer_than_the_paper_stands_alone_and_whole() {
        let long = "x".repeat(50);
        check(
            |screen| screen.wrapped(0, format!("a {long} b")),
            expect![[r#"
                a
                xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                b
            "#]],
        );
    }

    #[test]
    fn wide_characters_count_as_the_columns_they_take() {
        check(
            |screen| screen.wrapped(0, format!("{} {}", "日本".repeat(9), "語".repeat(2))),
            expect![[r#"
                日本日本日本日本日本日本日本日本日本
                語語
            "#]],
        );
    }

    #[test]
    fn colours_appear_only_where_they_are_wanted() {
        let line = Line::strong("why it").add(Style::Normal, " was slow");
        let colours = |colour| {
            let mut screen = Screen::new(Layout { width: 80, colour });
            screen.wrapped(0, line.clone());
            screen.into_text()
        };
        assert_eq!(colours(false), "why it was slow\n");
        assert_eq!(colours(true), "\x1b[1mwhy\x1b[0m \x1b[1mit\x1b[0m was slow\n");
    }

    #[test]
    fn what_slipped_through_unescaped_is_escaped_here() {
        check(
            |screen| {
                screen.wrapped(0, "a\x1b[31m\nb");
                screen.unwrapped("c\u{202e}");
            },
            expect![[r#"
                a\x1b[31m\nb
                c\u{202e}
            "#]],
        );
    }
}
