//! Reads cause, thread and size from a first screen and a document, and compares them with the planted incident.

use serde_json::Value;

use super::MAX_ERROR;
use super::script::{nanoseconds, unit_ns};
use super::twin::TwinVerdict;

/// The verdict on an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncidentVerdict {
    /// Screen and document both name the cause, the thread and the size.
    Right,
    /// The answer has a wrong cause or size, or lacks the cause without admitting that it is unknown.
    Wrong(String),
    /// The answer says nothing false, and lacks something.
    NoAnswer(String),
    /// The answer says that it does not know.
    Undecided(String),
    /// The incident could not be planted here.
    NotRun(String),
}

/// A checked answer.
#[derive(Debug)]
pub struct Checked {
    /// The verdict.
    pub verdict: IncidentVerdict,
    /// The screen's block with the name, the cause and, if possible, the size; with a forbidden word, that block; else
    /// the headline.
    pub said: String,
    /// The planted size as text.
    pub planted: String,
    /// How many commands were asked for it.
    pub commands: usize,
    /// A forbidden word stands beside the size.
    pub is_false: bool,
    /// The twin's verdicts, idle and beside load.
    pub twins: Vec<TwinVerdict>,
}

impl Checked {
    /// A verdict without an answer.
    pub(super) const fn of(verdict: IncidentVerdict) -> Self {
        Self {
            verdict,
            said: String::new(),
            planted: String::new(),
            commands: 0,
            is_false: false,
            twins: Vec::new(),
        }
    }
}

/// The expected parts of an answer, with the run's facts filled in.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The size, as text.
    pub size: String,
    /// The names that a single block of the screen has, beside the size.
    pub who: Vec<String>,
    /// The words for the cause in that block.
    pub says: Vec<String>,
    /// The words that must not stand beside the size.
    pub never: Vec<String>,
    /// The words beside the size for an answer that is true and stops short of the cause.
    pub short: Vec<String>,
    /// The document's parts.
    pub json: Vec<String>,
}

/// The number of lines in a first screen.
const SCREEN_LINES: usize = 30;

/// Compares an answer with the planted incident.
pub fn check(expected: &Expected, screen: &str, document: &Value) -> Checked {
    let mut blocks = blocks(screen);
    let headline = blocks.first().cloned().unwrap_or_default();
    let unknown = unknown(&blocks);
    blocks.extend(blamed_row(&blocks, document).map(|row| format!("{headline} {row}")));
    let size = nanoseconds(&expected.size);
    let text = size.map_or_else(|| expected.size.clone(), |ns| format!("{:.0} ms", ns / 1e6));
    let checked = |verdict, said: &str| Checked {
        said: said.to_owned(),
        planted: text.clone(),
        ..Checked::of(verdict)
    };
    let Some(planted) = size else {
        let why = "the program did not write the planted size".to_owned();
        return checked(IncidentVerdict::NotRun(why), &headline);
    };
    if planted <= 0.0 {
        let why = "the cause did not hold the program, by its own clock".to_owned();
        return checked(IncidentVerdict::NotRun(why), &headline);
    }
    if headline.is_empty() {
        return checked(IncidentVerdict::NoAnswer("nothing was said".to_owned()), "");
    }
    let near = |ns: f64| (ns - planted).abs() <= MAX_ERROR * planted;
    let sized: Vec<&String> = blocks.iter().filter(|block| times(block).into_iter().any(near)).collect();
    if let Some((block, word)) = beside(&sized, &expected.never) {
        let verdict = IncidentVerdict::Wrong(format!("the screen says `{word}`"));
        return Checked { is_false: true, ..checked(verdict, block) };
    }
    let is_named = |block: &&String| expected.who.iter().all(|name| has_word(block, name));
    let is_cause = |block: &&String| expected.says.iter().all(|words| block.contains(words.as_str()));
    let shown = sized.iter().copied().find(|block| is_named(block) && is_cause(block));
    let of_cause = blocks.iter().find(|block| is_named(block) && is_cause(block));
    let said = shown.or(of_cause).unwrap_or(&headline);

    let sizes: Vec<Option<f64>> = expected.json.iter().map(|part| sum(document, part)).collect();
    let missing = expected.json.iter().zip(&sizes).find(|(_, size)| size.is_none());
    let in_document = sizes.first().copied().flatten();
    let in_it = |is: &dyn Fn(f64) -> bool| expected.json.is_empty() || in_document.is_some_and(is);
    let right_document = missing.is_none() && in_it(&near);
    let reaches =
        |ns: f64| near(ns) || (ns < planted && near((ns + unknown.min(planted / 2.0)).min(planted)));
    let is_rest_unknown =
        shown.or(of_cause).and_then(|block| times(block).first().copied()).is_some_and(reaches)
            && in_it(&reaches);
    let who = expected.who.join("`, `");
    let short = beside(&sized, &expected.short)
        .or_else(|| beside(&of_cause.into_iter().collect::<Vec<_>>(), &expected.short));
    let verdict = match (shown, missing) {
        (Some(_), None) if right_document && expected.says.iter().any(|words| words == UNDECIDED) => {
            IncidentVerdict::Undecided("the recording does not hold the answer".to_owned())
        }
        (Some(_), None) if right_document => IncidentVerdict::Right,
        (Some(_), Some((part, _))) => IncidentVerdict::NoAnswer(format!("the document has no `{part}`")),
        (None, _) if short.is_some() => {
            let word = short.map_or("", |(_, word)| word);
            IncidentVerdict::NoAnswer(format!("the answer stops at `{word}`"))
        }
        (_, None) if is_rest_unknown => {
            IncidentVerdict::Undecided("the answer says that the rest is unknown".to_owned())
        }
        (_, None) if !right_document => {
            IncidentVerdict::Wrong(format!("{:.0} ms in the document", in_document.unwrap_or_default() / 1e6))
        }
        (None, None) if expected.json.is_empty() && admits(&blocks) => {
            IncidentVerdict::Undecided("the answer says that it does not know".to_owned())
        }
        (None, None) if of_cause.is_some() => {
            IncidentVerdict::Wrong("the screen has another size".to_owned())
        }
        (None, None) if !expected.says.is_empty() && sized.iter().any(is_cause) => {
            IncidentVerdict::NoAnswer(format!("the screen does not name `{who}`"))
        }
        (None, Some(_)) if admits(&blocks) => {
            IncidentVerdict::Undecided("the answer says that it does not know".to_owned())
        }
        _ => IncidentVerdict::Wrong(format!("no block of the screen has the cause, its size and `{who}`")),
    };
    let without_samples = said.split(" ~ ").next().unwrap_or(said);
    checked(verdict, without_samples)
}

/// The block with one of these words, and the word.
fn beside<'a>(sized: &[&'a String], words: &'a [String]) -> Option<(&'a String, &'a String)> {
    let word = |block: &&'a String| words.iter().find(|word| block.contains(word.as_str()));
    sized.iter().find_map(|block| Some((*block, word(block)?)))
}

/// The word by which an answer leaves a wait undecided.
const UNDECIDED: &str = "undecided";

/// The row that the headline blames: in the document's words its `row`.
fn blamed_row<'a>(blocks: &'a [String], document: &Value) -> Option<&'a String> {
    let place = document["headline"]["row"].as_u64().unwrap_or(0);
    let has_share = |block: &&String| block.split(' ').next().is_some_and(|share| share.ends_with('%'));
    blocks.iter().filter(has_share).nth(place as usize)
}

/// The time of the rows that say that it is unknown, ns: switches that this machine's kernel does not report.
fn unknown(blocks: &[String]) -> f64 {
    let rows = blocks.iter().filter(|block| block.contains(" unknown: "));
    rows.filter_map(|block| times(block).first().copied()).sum()
}

/// True if the headline, or the largest row, says that the cause is not known.
fn admits(blocks: &[String]) -> bool {
    let top = blocks.iter().find(|block| block.contains('%'));
    blocks
        .first()
        .into_iter()
        .chain(top)
        .any(|block| ["unknown", UNDECIDED, "not known"].iter().any(|word| block.contains(word)))
}

/// A first screen's blocks: a line and the deeper indented lines below it, as a single line; or a figure from a table
/// of threads, with its column and its thread. The window's length is cut off the headline, since it is no answer.
pub(super) fn blocks(screen: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut columns = Vec::new();
    // A headline may take several lines, up to the line with the time.
    let head = screen.lines().take_while(|line| !line.is_empty() && !begins_with_year(line)).count();
    let head = if screen.lines().nth(head).is_some_and(begins_with_year) { head } else { 1 };
    // The other reading of waits that timed out is no answer.
    let first_reading = screen.lines().take(head).take_while(|line| !line.starts_with("or, if ")).count();
    let is_headline = 1..first_reading;
    for (index, line) in screen.lines().take(SCREEN_LINES).enumerate() {
        if (first_reading..head).contains(&index) {
            continue;
        }
        let indented = line.len() - line.trim_start().len();
        if line.trim().is_empty() {
            columns.clear();
        } else if line.ends_with(THREADS_HEAD) {
            columns = line.split_whitespace().collect();
        } else if let Some(figures) = figures(line, &columns) {
            blocks.extend(figures);
        } else if let Some(block) = blocks.last_mut()
            && (indented > MAX_INDENT || is_headline.contains(&index))
        {
            block.push(' ');
            block.push_str(line.trim());
        } else {
            blocks.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    if let Some(headline) = blocks.first_mut() {
        *headline = without_window(headline);
    }
    blocks
}

/// Whether a line begins with a date: `2026-11-24 02:19:51.358 to …`.
pub(crate) fn begins_with_year(line: &str) -> bool {
    line.split_once('-').is_some_and(|(year, _)| year.len() == 4 && year.bytes().all(|c| c.is_ascii_digit()))
}

/// A headline without the window's length: `app took 2.05 s: mostly…`, `…; its 2.05 s were mostly…`.
fn without_window(headline: &str) -> String {
    let behind = |clause: &str, mark| clause.split_once(mark).map_or("", |(_, answer)| answer).to_owned();
    let is_of_window = |clause: &str| clause.starts_with("its ") || clause.starts_with("the ");
    let clause = |clause: &str| match clause {
        _ if clause.contains(" took ") || clause.starts_with("the largest part of ") => behind(clause, ": "),
        // `, which were running` is a part of an answer.
        _ if is_of_window(clause) && clause.contains(" were ") => behind(clause, " were "),
        _ => clause.to_owned(),
    };
    headline.split("; ").map(clause).filter(|clause| !clause.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The end of the head of a table of threads: the columns with figures stand before it.
const THREADS_HEAD: &str = "thread, and its longest wait";
/// The largest indentation of a block's first line.
const MAX_INDENT: usize = 3;

/// A thread's figures, each as `COLUMN TIME THREAD`; its longest wait stands beside the first. `None` if the line does
/// not belong to a table of threads.
fn figures(line: &str, columns: &[&str]) -> Option<Vec<String>> {
    let count = columns.len().checked_sub(THREADS_HEAD.split(' ').count())?;
    let mut words = line.split_whitespace().peekable();
    let mut times = Vec::new();
    for column in &columns[..count] {
        let number = words.next()?;
        let unit = if number == "–" { "" } else { words.next()? };
        times.push(format!("{column} {number} {unit}"));
    }
    let thread = words.collect::<Vec<_>>().join(" ");
    let name = thread.split(", ").next().unwrap_or_default().to_owned();
    let threads = std::iter::once(thread).chain(std::iter::repeat(name));
    Some(times.into_iter().zip(threads).map(|(time, thread)| format!("{time} {thread}")).collect())
}

/// All times in a text, ns.
fn times(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let edges = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let time = |pair: &[&str]| Some(edges(pair[0]).parse::<f64>().ok()? * unit_ns(&edges(pair[1]))?);
    words.windows(2).filter_map(time).collect()
}

/// True if the name stands in the text, without a letter, digit or underscore beside it.
pub(super) fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

/// The sum over the elements that match a part (`contributors kind=timer comm=indexer`), ns: their `total_ns`, their
/// length, their time since `since_ns`, or the key in `sum=KEY`. `None` without such an element.
fn sum(document: &Value, part: &str) -> Option<f64> {
    let mut words = part.split_whitespace();
    let list = words.next()?;
    let (sums, filters): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("sum="));
    let key = sums.first().and_then(|word| word.strip_prefix("sum="));
    let found = list.split('.').fold(vec![document], |lists, key| {
        let mut elements = Vec::new();
        lists.into_iter().for_each(|list| flatten(&list[key], &mut elements));
        elements
    });
    let end = ["window", "scope"].iter().find_map(|key| document[key]["to_ns"].as_f64());
    let lengths = found.into_iter().filter(|element| filters.iter().all(|filter| passes(element, filter)));
    lengths.map(|element| length(element, key, end)).reduce(|sum, one| Some(sum? + one?)).flatten()
}

fn length(element: &Value, key: Option<&str>, end: Option<f64>) -> Option<f64> {
    let ns = |key: &str| element[key].as_f64();
    match key {
        Some(key) => ns(key),
        None => ns("total_ns")
            .or_else(|| Some(ns("to_ns")? - ns("from_ns")?))
            .or_else(|| Some(end? - ns("since_ns")?))
            .or(Some(0.0)),
    }
}

/// The objects in a value: itself, or the objects in its lists.
fn flatten<'a>(value: &'a Value, into: &mut Vec<&'a Value>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| flatten(element, into)),
        Value::Object(_) => into.push(value),
        _ => {}
    }
}

/// True if the element has this value (`KEY=VALUE`) or a value containing it (`KEY~VALUE`); a key may be `A.B`.
fn passes(element: &Value, filter: &str) -> bool {
    let Some(at) = filter.find(['=', '~']) else { return false };
    let (key, value) = (&filter[..at], &filter[at + 1..]);
    let found = key.split('.').fold(element, |element, key| &element[key]);
    let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    if filter[at..].starts_with('=') { text == value } else { text.contains(value) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCREEN: &str = "app took 940 ms: mostly sleeping until a timer (64%, measured)
2026-11-23 14:08:01.437 to 14:08:02.377 UTC on vm

 share     time  what the time went to, largest first
 63.8%   600 ms  sleeping until a timer, 1 wait in clock_nanosleep
                 (indexer)
 31.5%   296 ms  waiting for a CPU (app and indexer)
";

    #[test]
    fn a_headline_may_take_several_lines() {
        let screen = "timeout took 1.00 s; python3 (363) was killed by SIGTERM while waiting 970 ms in\n\
                      read on a pipe; the 1.00 s of timeout were mostly waiting\n\
                      2026-11-24 02:19:51.358 to 02:19:52.360 UTC on vm\n\n share     time\n";
        let read = blocks(screen);
        assert!(read[0].contains("waiting 970 ms in read on a pipe; mostly waiting"), "{}", read[0]);
        assert!(read[1].starts_with("2026-11-24"), "{read:?}");
        // Without a time below it, the headline is a single line.
        assert_eq!(blocks("error: no such file\nhint: record first\n").len(), 2);
    }

    /// The expected parts in the form `SIZE UNIT WHO says WORD` or `SIZE UNIT WHO never WORD`.
    fn expected(planted: &str) -> Expected {
        let words: Vec<&str> = planted.split(' ').collect();
        let of = |key: &str| if words[3] == key { vec![words[4].to_owned()] } else { Vec::new() };
        Expected {
            size: words[..2].join(" "),
            who: vec![words[2].to_owned()],
            says: of("says"),
            never: of("never"),
            short: Vec::new(),
            json: vec!["contributors kind=timer comm=indexer".to_owned()],
        }
    }

    fn document(comm: &str, ms: u64) -> Value {
        json!({"contributors": [{"kind": "timer", "comm": comm, "total_ns": ms * 400_000},
                                {"kind": "timer", "comm": comm, "total_ns": ms * 600_000},
                                {"kind": "running", "comm": comm, "total_ns": 7}]})
    }

    #[test]
    fn an_answer_is_right_where_screen_and_document_name_thread_cause_and_size() {
        let rows = [
            ("600 ms indexer says sleeping", "indexer", 600, "right"),
            ("550 ms indexer says sleeping", "indexer", 600, "right"),
            ("0.54 s indexer says sleeping", "indexer", 600, "WRONG"),
            ("296 ms indexer says sleeping", "indexer", 296, "WRONG"),
            ("600 ms indexer says CPU", "indexer", 600, "WRONG"),
            ("600 ms indexer never sleeping", "indexer", 600, "WRONG"),
            ("600 ms indexer never CPU", "indexer", 600, "right"),
            ("600 ms indexer says sleeping", "indexer", 700, "WRONG"),
            ("600 ms indexer says sleeping", "other", 600, "no answer"),
            ("600 ms index says sleeping", "indexer", 600, "no answer"),
            ("600 ms index says sleeping", "other", 600, "WRONG"),
        ];
        for (planted, comm, ms, verdict) in rows {
            let checked = check(&expected(planted), SCREEN, &document(comm, ms));
            let word = match checked.verdict {
                IncidentVerdict::Right => "right",
                IncidentVerdict::Wrong(_) => "WRONG",
                IncidentVerdict::NoAnswer(_) => "no answer",
                IncidentVerdict::Undecided(_) => "undecided",
                IncidentVerdict::NotRun(_) => "not run",
            };
            assert_eq!(word, verdict, "{planted}, {comm} {ms}: {:?}", checked.verdict);
        }
    }

    #[test]
    fn the_length_of_the_window_is_no_size() {
        let checked = check(&expected("940 ms app says mostly"), SCREEN, &document("indexer", 940));
        assert!(matches!(checked.verdict, IncidentVerdict::Wrong(_)), "{:?}", checked.verdict);
        let rows = [
            ("app took 2.05 s: mostly running (9%, measured)", "mostly running (9%, measured)"),
            ("app was killed; its 2.05 s were mostly running", "app was killed; mostly running"),
            ("app took 1.01 s; py waited 7 ms; the 1.01 s of app were unknown", "py waited 7 ms; unknown"),
            (
                "sh took 2.02 s: mostly waiting for sleep (4 processes), which were sleeping, through make (7)",
                "mostly waiting for sleep (4 processes), which were sleeping, through make (7)",
            ),
            (
                "sh was killed; its 2.02 s were mostly waiting for cc1 (2 processes), which were running",
                "sh was killed; mostly waiting for cc1 (2 processes), which were running",
            ),
            ("app took 1.01 s: mostly running; 2 files were locked", "mostly running; 2 files were locked"),
            ("sh was killed; the largest part of its 2.02 s: running", "sh was killed; running"),
        ];
        for (headline, answer) in rows {
            assert_eq!(without_window(headline), answer);
        }
    }

    #[test]
    fn a_cause_that_held_nothing_is_not_judged() {
        for (size, is_judged) in [("0.0 s", false), ("-0.1 s", false), ("600 ms", true)] {
            let verdict =
                check(&expected(&format!("{size} indexer says sleeping")), SCREEN, &json!({})).verdict;
            assert_eq!(!matches!(verdict, IncidentVerdict::NotRun(_)), is_judged, "{size}");
        }
    }

    #[test]
    fn an_empty_screen_is_no_answer() {
        let checked = check(&expected("600 ms indexer says sleeping"), "", &document("indexer", 600));
        assert!(matches!(checked.verdict, IncidentVerdict::NoAnswer(_)), "{:?}", checked.verdict);
    }

    #[test]
    fn a_screen_that_says_unknown_is_undecided_and_not_wrong() {
        let screen = "app took 940 ms: mostly unknown (64%)\n 64.0%   600 ms  unknown: no wake-up was seen\n";
        let checked = check(&expected("600 ms indexer says sleeping"), screen, &json!({}));
        assert!(matches!(checked.verdict, IncidentVerdict::Undecided(_)), "{:?}", checked.verdict);
    }

    #[test]
    fn a_size_that_lacks_what_the_answer_says_is_unknown_is_undecided() {
        let verdict = |planted: &str, unknown: &str, comm: &str| {
            let row =
                format!("  7.0%   {unknown}  unknown: a task switch was not recorded, 3 waits in fsync\n");
            let screen = SCREEN.replace(" 31.5%", &format!("{row} 31.5%"));
            // The headline blames the unknown row, which counts once.
            let mut document = document(comm, 600);
            document["headline"] = json!({ "row": 1 });
            match check(&expected(planted), &screen, &document).verdict {
                IncidentVerdict::Undecided(why) => why.contains("the rest"),
                IncidentVerdict::Right | IncidentVerdict::Wrong(_) | IncidentVerdict::NoAnswer(_) => false,
                IncidentVerdict::NotRun(why) => panic!("{why}"),
            }
        };
        let says = "indexer says sleeping";
        for (planted, unknown, is_undecided) in [
            ("700 ms", "30.0 ms", true),
            // 630 ms are 90% of it.
            ("701 ms", "30.0 ms", false),
            ("700 ms", "29.0 ms", false),
            ("1.00 s", "900 ms", true),
            // At most half of it may be unknown.
            ("1.60 s", "900 ms", false),
            // More than planted is wrong, and the right size is right.
            ("540 ms", "900 ms", false),
            ("600 ms", "900 ms", false),
        ] {
            assert_eq!(verdict(&format!("{planted} {says}"), unknown, "indexer"), is_undecided, "{planted}");
        }
        assert!(!verdict("700 ms indexer says CPU", "30.0 ms", "indexer"), "another cause");
        assert!(!verdict(&format!("700 ms {says}"), "30.0 ms", "other"), "nothing in the document");
    }

    #[test]
    fn undecided_time_is_counted_apart_also_where_nothing_more_can_be_known() {
        let screen = "2 threads\n 64.0%   600 ms  undecided indexer\n";
        let checked = check(&expected("600 ms indexer says undecided"), screen, &document("indexer", 600));
        assert!(matches!(checked.verdict, IncidentVerdict::Undecided(_)), "{:?}", checked.verdict);
    }

    #[test]
    fn an_answer_that_is_true_and_stops_short_is_no_answer() {
        let mut expected = expected("600 ms lockfile says polling");
        for (short, comm, is_missing) in [
            ("", "other", false),
            ("sleeping", "other", true),
            ("sleeping", "indexer", true),
            ("running", "other", false),
        ] {
            expected.short = [short].into_iter().filter(|word| !word.is_empty()).map(str::to_owned).collect();
            let verdict = check(&expected, SCREEN, &document(comm, 600)).verdict;
            assert_eq!(matches!(verdict, IncidentVerdict::NoAnswer(_)), is_missing, "{short}: {verdict:?}");
        }
    }

    #[test]
    fn a_cause_with_the_size_of_a_larger_row_stops_short_if_the_incident_says_so() {
        let mut expected = expected("350 ms indexer says sleeping");
        let verdict = |expected: &Expected| check(expected, SCREEN, &document("indexer", 350)).verdict;
        assert!(matches!(verdict(&expected), IncidentVerdict::Wrong(_)));
        expected.short = vec!["until a timer".to_owned()];
        assert!(matches!(verdict(&expected), IncidentVerdict::NoAnswer(_)));
    }

    #[test]
    fn the_other_reading_of_waits_that_timed_out_is_no_answer() {
        let screen = |line: &str| {
            format!(
                "app took 940 ms: mostly waiting for render (64%, ambiguous)
{line} none of the 2 waits went on: mostly waiting
for ticker, 600 ms
2026-11-24 02:19:51.358 to 02:19:52.298 UTC on vm
 63.8%   600 ms  running render
"
            )
        };
        let mut expected = expected("600 ms render says running");
        expected.never = vec!["ticker".to_owned()];
        let verdict = |line: &str| check(&expected, &screen(line), &document("indexer", 600)).verdict;
        assert_eq!(verdict("or, if"), IncidentVerdict::Right);
        assert_eq!(verdict("as"), IncidentVerdict::Wrong("the screen says `ticker`".to_owned()));
        expected.who = vec!["ticker".to_owned()];
        expected.never.clear();
        assert_ne!(
            check(&expected, &screen("or, if"), &document("indexer", 600)).verdict,
            IncidentVerdict::Right
        );
    }

    #[test]
    fn a_name_may_stand_in_the_headline_and_the_size_in_the_row_that_it_blames() {
        let screen =
            "curl took 940 ms: mostly waiting for backend (7), which was sleeping (64%), through nginx (9)

 share     time  what the time went to, largest first
 63.8%   600 ms  sleeping until a timer
 31.5%   296 ms  waiting for a CPU
";
        let verdict = |size: &str, who: &str, row: u64| {
            let mut document = document("indexer", size.split(' ').next().unwrap().parse().unwrap());
            document["headline"] = json!({ "row": row });
            check(&expected(&format!("{size} {who} says sleeping")), screen, &document).verdict
        };
        assert_eq!(verdict("600 ms", "nginx", 0), IncidentVerdict::Right);
        assert!(matches!(verdict("600 ms", "nginx", 1), IncidentVerdict::Wrong(_)));
        assert!(matches!(verdict("296 ms", "nginx", 0), IncidentVerdict::Wrong(_)));
        assert_eq!(verdict("296 ms", "nginx", 1), IncidentVerdict::Right);
    }

    #[test]
    fn a_figure_of_a_thread_is_a_block_with_its_column() {
        let screen = "app (7), 2.01 s, 2 threads: ask about one of these threads
2026-11-23 14:08:01.437 to 14:08:02.377 UTC on vm

  waiting       CPU      idle  thread, and its longest wait
  1.80 s   49.6 ms         –   app (7), 900 ms in futex
        –         –    2.01 s     pool (8)

1 thread waits for work at the end
";
        let found = blocks(screen);
        assert_eq!(found[2], "waiting 1.80 s app (7), 900 ms in futex");
        assert_eq!(found[3..6], ["CPU 49.6 ms app (7)", "idle –  app (7)", "waiting –  pool (8)"]);
        assert_eq!(found[7..], ["idle 2.01 s pool (8)", "1 thread waits for work at the end"]);
    }

    #[test]
    fn a_part_of_the_document_is_a_list_and_values_of_its_elements() {
        let document = json!({
            "window": {"to_ns": 100},
            "segments": [{"from_ns": 0, "to_ns": 40, "object": {"name": "udp 127.0.0.9:53"}}],
            "deadlocks": [[{"comm": "a", "since_ns": 30}, {"comm": "b", "since_ns": 40}]],
            "threads": [{"comm": "a", "undecided_ns": 5}],
            "open_chains": [{"waits": [{"comm": "c", "since_ns": 10}]}, {"waits": []}],
        });
        let rows = [
            ("segments object.name~127.0.0.9:53", Some(40.0)),
            ("segments object.name=127.0.0.9:53", None),
            ("deadlocks comm=b", Some(60.0)),
            ("threads comm=a sum=undecided_ns", Some(5.0)),
            ("threads comm=a sum=idle_ns", None),
            ("open_chains.waits comm=c", Some(90.0)),
            ("open_chains.waits comm=d", None),
            ("waits", None),
        ];
        for (part, ns) in rows {
            assert_eq!(sum(&document, part), ns, "{part}");
        }
    }
}
