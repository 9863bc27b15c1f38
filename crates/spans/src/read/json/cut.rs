//! The whole spans in a cut document.
//!
//! A cut document makes no sense to a JSON parser. Its beginning does, once it ends behind a whole span
//! and what is open there is closed:
//!
//! ```text
//! {"data": [{"spans": [{…}, {…}, {"traceID": "7a
//! {"data": [{"spans": [{…}, {…}]}]}
//! ```

/// The lists on the way to the spans, and the spans' own list.
const LISTS: [&str; 9] = [
    "resourceSpans",
    "resource_spans",
    "batches",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "instrumentation_library_spans",
    "data",
    SPANS,
];
const SPANS: &str = "spans";

/// The deepest nesting that the parser reads.
const MAX_DEPTH: usize = 128;

/// An open object or list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    /// A list on the way to the spans.
    Way,
    /// The spans' list.
    Spans,
    /// Any list within a span, or beside the way.
    Other,
}

/// The document's beginning up to a place behind which a span would begin, or an equal part, and the closing
/// brackets; `None` if nothing is whole.
pub(super) fn whole_part(text: &str) -> Option<(&str, String)> {
    let mut open: Vec<Open> = Vec::new();
    let mut whole: Option<(usize, Vec<Open>)> = None;
    // The open text's place, and the last whole text.
    let (mut begun, mut last) = (None, "");
    let mut key = "";
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(from) = begun {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => (begun, last) = (None, &text[from..at]),
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => begun = Some(at + 1),
            b':' => key = last,
            b'{' => open.push(Open::Object),
            b'[' => {
                let list = begun_list(&open, key);
                open.push(list);
            }
            b'}' | b']' => {
                open.pop();
                if open.iter().all(|one| matches!(one, Open::Object | Open::Way | Open::Spans))
                    && !is_within_span(&open)
                {
                    whole = Some((at + 1, open.clone()));
                }
            }
            _ => {}
        }
        if open.len() > MAX_DEPTH {
            return None;
        }
    }
    let (to, open) = whole?;
    let close = open.iter().rev().map(|one| if *one == Open::Object { '}' } else { ']' });
    Some((&text[..to], close.collect()))
}

fn begun_list(open: &[Open], key: &str) -> Open {
    let on_the_way = open.iter().all(|one| matches!(one, Open::Object | Open::Way));
    match open {
        // Zipkin's: a list with spans, or with lists of spans.
        [] | [Open::Spans] => Open::Spans,
        [Open::Object, ..] if on_the_way && key == SPANS => Open::Spans,
        [Open::Object, ..] if on_the_way && LISTS.contains(&key) => Open::Way,
        _ => Open::Other,
    }
}

/// Whether an object within the spans' list is open.
fn is_within_span(open: &[Open]) -> bool {
    let list = open.iter().rposition(|one| *one == Open::Spans);
    list.is_some_and(|list| open[list + 1..].contains(&Open::Object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<String> {
        whole_part(text).map(|(part, close)| format!("{part}{close}"))
    }

    #[test]
    fn the_beginning_ends_behind_the_last_whole_span() {
        for (text, expected) in [
            (r#"{"data":[{"spans":[{"a":[1,{}]},{"b":"}]"#, Some(r#"{"data":[{"spans":[{"a":[1,{}]}]}]}"#)),
            // A bracket or a quote in a text closes nothing.
            (r#"[{"a":"]}\"}"},{"b":"\\"},{"c"#, Some(r#"[{"a":"]}\"}"},{"b":"\\"}]"#)),
            // Zipkin's traces.
            (r#"[[{"a":1},{"#, Some(r#"[[{"a":1}]]"#)),
            // Jaeger's processes stand behind the spans.
            (
                r#"{"data":[{"spans":[{"a":1}],"processes":{"p":{}},"w"#,
                Some(r#"{"data":[{"spans":[{"a":1}],"processes":{"p":{}}}]}"#),
            ),
            // Half a list is none.
            (r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"a"},{"#, None),
            // A span's own lists may have any names.
            (r#"{"spans":[{"a":1},{"data":[{"spans":[{}"#, Some(r#"{"spans":[{"a":1}]}"#)),
            (r#"{"spans":[{"a":1},{"spans":[{}"#, Some(r#"{"spans":[{"a":1}]}"#)),
            (r#"{"spans":[[{}"#, None),
            (r#"{"other":[{"spans":[{"a":1},"#, None),
            ("", None),
            ("{", None),
            (r#"{"spans":[{"a"#, None),
        ] {
            assert_eq!(whole(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_document_deeper_than_the_parser_reads_has_no_whole_part() {
        let deep = |depth: usize| format!("[{{}},{}", "[".repeat(depth));
        assert!(whole(&deep(MAX_DEPTH - 1)).is_some());
        assert_eq!(whole(&deep(MAX_DEPTH)), None);
    }
}
