//! The words for functions in which threads were seen. Samples: `~ 23 of 24 samples in compress_block (libz.so.1),
//! from pack_items checkout.c:88`. Waits: `14 of 14 waits in save_order (checkout), from main checkout.c:88`.

use wakepath_findings::{Code, Tally};
use wakepath_loaded::{Caller, Frame};
use wakepath_symbols::{Found, Function};

use crate::escape::escape;
use crate::units::part_of;

/// The most frequent function; the next too, if no function has most. `None` if no function is known; without a
/// count if another place has the counts.
pub fn tally(tally: &Tally, what: &str) -> Option<String> {
    let total = tally.total();
    let (first, next) = tally.leading()?;
    let counted = |count| if total == 0 { what.to_owned() } else { part_of(count, total, what) };
    let mut text = format!("{} in {}", counted(first.count), function(first.function));
    text += &first.caller.and_then(function_caller).map_or(String::new(), |caller| format!(", {caller}"));
    if let Some(next) = next {
        text += &format!("; {} in {}", counted(next.count), function(next.function));
    }
    Some(text)
}

/// The same for samples, if there are enough.
pub fn samples(of: &Tally) -> Option<String> {
    if of.is_enough() { Some(format!("~ {}", tally(of, "samples")?)) } else { None }
}

/// The functions where threads ran and where they waited, a line each.
pub fn code_lines(code: &Code) -> Vec<String> {
    samples(&code.ran).into_iter().chain(tally(&code.waited, "waits")).collect()
}

/// A function with its file: `compress_block (libz.so.1)`.
pub fn function(key: &Frame) -> String {
    format!("{}{}", found(&key.found, key.in_kernel), if key.proved { "" } else { NOT_PROVED })
}

/// A function's name alone; `None` if unknown.
pub fn function_name(found: &Found) -> Option<String> {
    if let Found::Function(function) = found { Some(escape(function.name.as_bytes())) } else { None }
}

/// The mark after a function that is a guess.
const NOT_PROVED: &str = " (not proved)";

/// A function's caller: `from main checkout.c:88`.
pub fn function_caller(caller: &Caller) -> Option<String> {
    match caller {
        Caller::Function(caller) => Some(format!("from {}", with_line(caller))),
        Caller::Guess(caller) => Some(format!("from {}{NOT_PROVED}", with_line(caller))),
        Caller::Unknown => Some(String::from("callers unknown (not unwound)")),
        Caller::Nobody => None,
    }
}

/// A stack frame: `save_order (checkout) checkout.c:41`.
pub fn frame(frame: &Frame) -> String {
    let text = found(&frame.found, frame.in_kernel);
    match &frame.found {
        Found::Function(Function { line: Some((file, line)), .. }) => {
            format!("{text} {}:{line}", escape(file.as_bytes()))
        }
        _ => text,
    }
}

/// A function with its file.
fn found(found: &Found, in_kernel: bool) -> String {
    match found {
        Found::Function(Function { name, module, .. }) => {
            let file = module.as_ref().map_or_else(|| String::from("kernel"), |module| escape(module));
            let file = if in_kernel { String::from("kernel") } else { file };
            format!("{} ({file})", escape(name.as_bytes()))
        }
        Found::Kernel => String::from("the kernel (its symbols may not be read)"),
        Found::AnotherKernel => String::from("the kernel (not the one that runs here)"),
        Found::Unmapped => String::from("unknown code (the files of its process were not recorded)"),
        Found::Unnamed(file) if file.is_empty() => String::from("code outside of any file"),
        Found::Unnamed(file) => format!("{} (no symbols; its debug package has them)", escape(file)),
        Found::Replaced(file) => format!("{} (replaced since the recording)", escape(file)),
        Found::Another(file) => format!("{} (not the file that is here)", escape(file)),
        Found::Unproved(file) => {
            format!("{} (without a build id; the file that is here may be another one)", escape(file))
        }
        Found::Unreadable(file) => format!("{} (cannot be read here)", escape(file)),
    }
}

/// Whether a printed text has a place in this file's code without the name of its function.
pub fn is_shown_nameless(text: &str, file: &[u8]) -> bool {
    // The screen may have broken a line within the words.
    let on_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = on_a_line(text);
    let nameless = [Found::Unnamed, Found::Replaced, Found::Another, Found::Unproved, Found::Unreadable];
    nameless.iter().any(|nameless| {
        let words = on_a_line(&found(&nameless(file.to_vec()), false));
        // Not the end of a longer file name.
        text.match_indices(&words)
            .any(|(at, _)| text[..at].chars().next_back().is_none_or(|before| before == ' '))
    })
}

/// A function with its line, if known.
fn with_line(caller: &Found) -> String {
    match caller {
        Found::Function(Function { name, line: Some((file, line)), .. }) => {
            format!("{} {}:{line}", escape(name.as_bytes()), escape(file.as_bytes()))
        }
        caller => found(caller, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_findings::testing::function;
    use wakepath_loaded::Site;

    fn text(places_and_counts: &[(Found, bool, Option<Found>, u64)]) -> Option<String> {
        let counts = places_and_counts.iter().map(|(leaf, in_kernel, caller, count)| {
            (Site::new(leaf.clone(), *in_kernel, caller.clone()), *count)
        });
        let mut tally = Tally::default();
        counts.for_each(|(place, count)| tally.add(&place, count));
        samples(&tally)
    }

    #[test]
    fn the_place_with_most_samples_is_told_with_who_called_it() {
        let pack = function("pack_items", Some("checkout"), Some(("checkout.c", 88)));
        let main = function("main", Some("checkout"), Some(("checkout.c", 9)));
        let compress = function("compress_block", Some("libz.so.1"), None);
        let few = [
            (compress.clone(), false, Some(pack.clone()), 20),
            (compress, false, Some(main), 3),
            (pack, false, None, 1),
        ];
        let expected = "~ 23 of 24 samples in compress_block (libz.so.1), from pack_items checkout.c:88";
        assert_eq!(text(&few).as_deref(), Some(expected));
    }

    #[test]
    fn a_text_shows_a_file_without_names_where_it_words_why() {
        let shown = |text: &str| is_shown_nameless(text, b"my shop");
        for nameless in [Found::Unnamed, Found::Replaced, Found::Another, Found::Unproved, Found::Unreadable]
        {
            let words = found(&nameless(b"my shop".to_vec()), false);
            assert!(shown(&words), "{words}");
            assert!(shown(&format!("  8 of 8 samples in {}, from main", words.replace(' ', "\n    "))));
            assert!(
                !shown(&words.replace("my shop", "till")) && !shown(&format!("in old-{words}")),
                "{words}"
            );
        }
        assert!(!shown("90% waiting for my shop (12), 8 of 8 samples in pack_items (my shop)"));
        assert!(shown("old-my shop (cannot be read here); my shop (cannot be read here)"));
    }

    #[test]
    fn no_place_with_half_of_them_is_the_answer_alone() {
        let places = [("a", 40), ("b", 35), ("c", 30)]
            .map(|(name, n)| (function(name, Some("x"), None), false, None, n));
        assert_eq!(text(&places).as_deref(), Some("~ 38% of samples in a (x); 33% of samples in b (x)"));
    }

    #[test]
    fn what_cannot_be_named_says_why() {
        for (leaf, in_kernel, expected) in [
            (Found::Kernel, true, "the kernel (its symbols may not be read)"),
            (function("copy_page", None, None), true, "copy_page (kernel)"),
            (Found::Replaced(b"libz.so".to_vec()), false, "libz.so (replaced since the recording)"),
            (Found::Unreadable(b"a\x1b".to_vec()), false, r"a\x1b (cannot be read here)"),
            (
                Found::Unnamed(b"stripped".to_vec()),
                false,
                "stripped (no symbols; its debug package has them)",
            ),
            (Found::Unnamed(Vec::new()), false, "code outside of any file"),
            (Found::Unmapped, false, "unknown code (the files of its process were not recorded)"),
            (Found::Another(b"libz.so".to_vec()), false, "libz.so (not the file that is here)"),
            (
                Found::Unproved(b"libz.so".to_vec()),
                false,
                "libz.so (without a build id; the file that is here may be another one)",
            ),
            (Found::AnotherKernel, true, "the kernel (not the one that runs here)"),
        ] {
            assert_eq!(text(&[(leaf, in_kernel, None, 5)]), Some(format!("~ 5 of 5 samples in {expected}")));
        }
    }

    #[test]
    fn fewer_than_five_samples_say_nothing() {
        assert_eq!(text(&[(Found::Kernel, true, None, 4)]), None);
        let places = [4, 1].map(|n| (function(&format!("f{n}"), Some("x"), None), false, None, n));
        assert_eq!(text(&places).as_deref(), Some("~ 4 of 5 samples in f4 (x)"));
    }

    #[test]
    fn only_a_function_has_a_name_alone() {
        assert_eq!(function_name(&function("save\x07", Some("x"), None)).as_deref(), Some(r"save\x07"));
        assert_eq!(function_name(&Found::Kernel), None);
    }
}
