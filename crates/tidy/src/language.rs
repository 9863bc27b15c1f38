//! Rules for language, for a tool to check: sentence openings, unused words, the line at the top of each
//! file, and the names of limits. `docs/style.md` has the rules with their reasons.
//!
//! A file's prose is its comments, or a whole document, read as Markdown: code in it is not prose.

use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{Finding, line_of};

/// Forbidden first words in a sentence, except a question.
const OPENINGS: [&str; 6] = ["As", "Of", "What", "Who", "Whom", "Whose"];

/// Words and phrases unused in prose, in lower case, each with its alternatives.
const UNUSED: [(&str, &str); 6] = [
    ("tell", "emit, read, print, report, name, count, distinguish"),
    ("tells", "emits, reads, prints, reports, names, counts, distinguishes"),
    ("telling", "emitting, reading, printing, reporting"),
    ("told", "emitted, read, printed, reported, named, counted, distinguished"),
    ("nobody knows", "not known"),
    ("so many", "the number of, at most N"),
];

/// Beginnings of limit names that are called `MAX_` here.
const LIMITS: [&str; 4] = ["MOST_", "LONGEST_", "DEEPEST_", "WIDEST_"];

/// The folders with pages for readers.
const PAGES: [&str; 2] = ["docs", "lab/results"];

/// The first words of each such page, behind its title.
const PAGE_OPENING: &str = "After this page you ";

/// The page with the words not to use, and the page with examples of bad style.
const ABOUT_WORDS: [&str; 2] = ["docs/glossary.md", "docs/style.md"];

/// Checks a file, given by its path within the tree.
pub fn check(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mut say = |line: usize, text: String| {
        findings.push(Finding::new(format!("{}:{line}", path.display()), text));
    };
    if extension == "rs" && !has_header(text) {
        say(1, String::from("the file does not begin with a `//!` line that says what it holds"));
    }
    if PAGES.iter().any(|folder| path.starts_with(folder)) && extension == "md" {
        let first = text.lines().enumerate().find(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        if let Some((index, _)) = first.filter(|(_, line)| !line.starts_with(PAGE_OPENING)) {
            say(index + 1, format!("a page begins with what its reader can do: `{PAGE_OPENING}…`"));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = limit(line).filter(|_| matches!(extension, "rs" | "c" | "h")) {
            say(index + 1, format!("`{name}` is a limit: call it `MAX_…`, with its unit"));
        }
    }
    let prose = if is_about_words(path) { Vec::new() } else { prose(path, text) };
    for (line, sentence) in prose {
        let opening = OPENINGS.iter().find(|word| starts_with_word(&sentence, word));
        if let Some(word) = opening.filter(|_| !sentence.ends_with('?')) {
            say(line, format!("a sentence begins with `{word}`: begin with its subject"));
        }
        for (phrase, instead) in UNUSED {
            if has_phrase(&sentence, phrase) {
                say(line, format!("`{phrase}` is not used here: {instead}"));
            }
        }
    }
    findings
}

/// Whether a page is about words, and so contains unused words.
fn is_about_words(path: &Path) -> bool {
    ABOUT_WORDS.iter().any(|page| path == Path::new(page))
}

/// The sentences in a file's prose, each with its line: the comments in code, the text of a page.
pub(crate) fn prose(path: &Path, text: &str) -> Vec<(usize, String)> {
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "md" => sentences(text),
        "rs" => comments(text, &["///", "//!", "//"]),
        "c" | "h" => comments(text, &["//", "/*"]),
        "sh" | "py" => comments(text, &["#"]),
        _ if text.starts_with("#!") => comments(text, &["#"]),
        _ => Vec::new(),
    }
}

/// Whether the first lines, apart from licence and attributes, are documentation for the file.
fn has_header(text: &str) -> bool {
    let is_before = |line: &&str| {
        line.is_empty() || line.starts_with("#![") || (line.starts_with("//") && !line.starts_with("//!"))
    };
    text.lines().map(str::trim).find(|line| !is_before(line)).is_some_and(|line| line.starts_with("//!"))
}

/// The name that a line of code gives to a limit, if it should be called `MAX_`.
fn limit(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    let name = ["const ", "static ", "#define "].iter().find_map(|begin| line.strip_prefix(begin))?;
    let name = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    LIMITS.iter().any(|begin| name.starts_with(begin)).then_some(name)
}

fn starts_with_word(sentence: &str, word: &str) -> bool {
    let rest = sentence.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-'))
}

/// Whether a phrase's words stand in a sentence, one behind the other.
fn has_phrase(sentence: &str, phrase: &str) -> bool {
    let lower = sentence.to_lowercase();
    let words: Vec<_> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let phrase: Vec<_> = phrase.split(' ').collect();
    words.windows(phrase.len()).any(|window| window == phrase)
}

/// The sentences in code comments, with their lines.
///
/// A marker begins a comment line; the longest comes first. Consecutive lines with the same marker are a single
/// text.
fn comments(code: &str, markers: &[&'static str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block = String::new();
    let mut open: Option<(&str, usize)> = None;
    let mut in_block = false;
    for (index, line) in code.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let marker = match markers.iter().find(|marker| line.starts_with(**marker)) {
            // A script's first line names its shell.
            _ if line.starts_with("#!") => None,
            None if in_block && line.starts_with('*') => Some("/*"),
            found => found.copied(),
        };
        if open.is_some_and(|(last, _)| marker != Some(last))
            && let Some((_, first)) = open.take()
        {
            found.extend(sentences(&block).into_iter().map(|(line, text)| (first + line, text)));
            block.clear();
        }
        if let Some(marker) = marker {
            open.get_or_insert((marker, index));
            let text = line.strip_prefix(marker).unwrap_or(&line[1..]);
            block.push_str(text.strip_prefix(' ').unwrap_or(text).trim_end_matches("*/"));
            block.push('\n');
            in_block = marker == "/*" && !line.ends_with("*/");
        }
    }
    found
}

/// The sentences in a Markdown text, each with its line: from paragraphs, list items, headings and cells.
fn sentences(markdown: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut text = String::new();
    // The line at each position in `text` where a piece begins.
    let mut lines: Vec<(usize, usize)> = Vec::new();
    let mut is_code = false;
    for (event, span) in Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter() {
        let mut add = |piece: &str| {
            lines.push((text.len(), line_of(markdown, span.start)));
            text.push_str(piece);
        };
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(_) if is_code => {}
            Event::Text(piece) => add(&piece),
            Event::Code(_) => add("`"),
            Event::SoftBreak | Event::HardBreak => add(" "),
            Event::Start(Tag::Item | Tag::List(_))
            | Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell) => {
                let starts = std::iter::once(0).chain(breaks(&text)).collect::<Vec<_>>();
                for (index, start) in starts.iter().enumerate() {
                    let end = starts.get(index + 1).copied().unwrap_or(text.len());
                    let line = lines.iter().rfind(|(at, _)| at <= start).map_or(1, |(_, line)| *line);
                    let sentence = text[*start..end].trim();
                    if !sentence.is_empty() {
                        found.push((line, sentence.to_owned()));
                    }
                }
                text.clear();
                lines.clear();
            }
            _ => {}
        }
    }
    found
}

/// The positions at which sentences begin, except the first: at a capital behind a full stop, a question or an
/// exclamation mark.
fn breaks(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().filter_map(|(at, c)| {
        let before = text[..at].trim_end_matches(' ');
        let is_apart = before.len() < at;
        let is_end = before.trim_end_matches(')').ends_with(['.', '!', '?']);
        (c.is_uppercase() && is_apart && is_end).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::path::Path;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(Path::new(path), text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_source_file_begins_with_a_line_that_says_what_it_holds() {
        for good in ["//! Holds x.\n", "// SPDX-License-Identifier: MIT\n\n#![no_main]\n//! Holds x.\n"] {
            assert_eq!(findings("a.rs", good), [""; 0]);
        }
        for bad in ["use x;\n//! Late.\n", "/// An item.\nfn f() {}\n", ""] {
            let expected = "a.rs:1: the file does not begin with a `//!` line that says what it holds";
            assert_eq!(findings("a.rs", bad), [expected]);
        }
        assert_eq!(findings("a.c", "int x;\n"), [""; 0]);
    }

    #[test]
    fn a_sentence_begins_with_its_subject() {
        let text =
            "//! Holds x.\n\n/// The thread. As a shell does,\n/// it waits. Whose it is.\nfn f() {}\n";
        assert_eq!(
            findings("a.rs", text),
            [
                "a.rs:3: a sentence begins with `As`: begin with its subject",
                "a.rs:4: a sentence begins with `Whose`: begin with its subject"
            ]
        );
        let document = "# What is it?\n\n- Of two.\n\n| What | b |\n|---|---|\n| a | Who ran |\n";
        assert_eq!(
            findings("a.md", document),
            [
                "a.md:3: a sentence begins with `Of`: begin with its subject",
                "a.md:5: a sentence begins with `What`: begin with its subject",
                "a.md:7: a sentence begins with `Who`: begin with its subject"
            ]
        );
        assert_eq!(findings("a.c", "/* The\n * ring. Of it: */\n*x = 1; // What\n").len(), 1);
        assert_eq!(findings("run", "#!/bin/sh\n# What it does\necho What\n").len(), 1);
    }

    #[test]
    fn questions_and_code_and_longer_words_may_begin_so() {
        for good in [
            "What is a peak? Why does it matter?",
            "`What` is a type.",
            "```\nWhat he said.\n```",
            "Ask: what ran?",
            "Often it waits. Assume nothing. Whatever it is.",
            "It takes 2 ms, e.g. as JSON. (See there.)",
        ] {
            assert_eq!(findings("a.md", good), [""; 0], "{good}");
        }
    }

    #[test]
    fn words_with_many_meanings_are_not_used() {
        assert_eq!(
            findings("a.md", "The page\ntells it."),
            ["a.md:1: `tells` is not used here: emits, reads, prints, reports, names, counts, distinguishes"]
        );
        assert_eq!(findings("a.md", "So many of them; nobody\nknows.").len(), 2);
        assert_eq!(findings("a.md", "A teller, `told`, intelligible; also many."), [""; 0]);
        assert_eq!(findings("docs/glossary.md", "After this page you tell nothing."), [""; 0]);
    }

    #[test]
    fn a_page_begins_with_what_its_reader_can_do() {
        for page in ["docs/a.md", "lab/results/a.md"] {
            let expected =
                format!("{page}:3: a page begins with what its reader can do: `After this page you …`");
            assert_eq!(findings(page, "# A\n\nThe format.\n"), [expected]);
        }
        assert_eq!(findings("docs/a.md", "# A\n\nAfter this page you know it.\n"), [""; 0]);
        assert_eq!(findings("a.md", "# A\n\nThe format.\n"), [""; 0]);
    }

    #[test]
    fn limits_are_called_max() {
        assert_eq!(
            findings("a.rs", "//! X.\n    pub const LONGEST_NAME: usize = 1;\n"),
            ["a.rs:2: `LONGEST_NAME` is a limit: call it `MAX_…`, with its unit"]
        );
        assert_eq!(findings("a.h", "#define MOST_CPUS 1\n").len(), 1);
        assert_eq!(findings("a.rs", "//! X.\nconst MAX_NAME_BYTES: usize = LONGEST_A;\n"), [""; 0]);
    }
}
