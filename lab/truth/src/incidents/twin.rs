//! An incident's twin: the same program without the cause. Its headline must not name the cause.

use super::check::{blocks, has_word};

/// The verdict on a twin's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TwinVerdict {
    /// The headline, which does not name the cause.
    Right(String),
    /// The headline names the cause: the word, and the headline.
    Wrong(String, String),
    /// The program could not show that it lacks the cause, or there was no answer.
    NotJudged(String),
}

/// The largest part of the planted size for which the cause may hold the twin, by the program's own clock.
const MAX_LEFT: f64 = 0.1;

/// Judges a twin's first screens. `left_ns` is the time for which the cause still held the program.
pub fn judge(
    screens: &[String],
    forbidden: &[String],
    left_ns: Option<f64>,
    planted_ns: Option<f64>,
) -> TwinVerdict {
    let not_judged = |why: &str| TwinVerdict::NotJudged(why.to_owned());
    let (Some(left), Some(planted)) = (left_ns, planted_ns) else {
        return not_judged("the program did not write how long the cause held it");
    };
    if left > MAX_LEFT * planted {
        return not_judged(&format!("the cause still held it for {:.0} ms", left / 1e6));
    }
    if let Some(word) = forbidden.iter().find(|word| word.contains('$')) {
        return not_judged(&format!("the program did not write `{word}`"));
    }
    let headlines: Vec<String> = screens.iter().filter_map(|screen| headline(screen)).collect();
    if headlines.len() < screens.len() || headlines.is_empty() {
        return not_judged("a screen has no headline");
    }
    let named = headlines.iter().find_map(|headline| {
        let word = forbidden.iter().find(|word| has_word(headline, word))?;
        Some(TwinVerdict::Wrong(word.clone(), headline.clone()))
    });
    named.unwrap_or_else(|| TwinVerdict::Right(headlines.join("; then: ")))
}

/// A headline's words without its subject: `app took 2.05 s: mostly running` is `mostly running`.
fn headline(screen: &str) -> Option<String> {
    let all = blocks(screen).into_iter().next()?;
    let all = all.strip_prefix("warning: ").unwrap_or(&all);
    if all.starts_with("error: ") {
        return None;
    }
    Some(all.split_once(": ").map_or(all, |(_, answer)| answer).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: &str = "indexer took 940 ms: mostly waiting for vacuum (7), which was
running (64%, measured), through cron (9)
2026-11-23 14:08:01.437 to 14:08:02.377 UTC on vm

 share     time  what the time went to, largest first
 63.8%   600 ms  running vacuum
 31.5%   296 ms  sleeping until a timer (indexer)
";

    fn verdict(forbidden: &str, left_ns: Option<f64>) -> TwinVerdict {
        let forbidden: Vec<String> = forbidden.split(", ").map(str::to_owned).collect();
        judge(&[SCREEN.to_owned()], &forbidden, left_ns, Some(600e6))
    }

    #[test]
    fn a_twin_is_wrong_if_its_headline_has_a_word_of_the_cause() {
        for (forbidden, word) in [
            ("vacuum", Some("vacuum")),
            ("lock, which was running", Some("which was running")),
            ("cron", Some("cron")),
            // The subject, a part of a name, and a row are no blame.
            ("indexer", None),
            ("vac", None),
            ("sleeping", None),
        ] {
            let found = match verdict(forbidden, Some(0.0)) {
                TwinVerdict::Wrong(word, _) => Some(word),
                TwinVerdict::Right(_) => None,
                TwinVerdict::NotJudged(why) => panic!("{why}"),
            };
            assert_eq!(found.as_deref(), word, "{forbidden}");
        }
    }

    #[test]
    fn each_screen_s_headline_is_judged() {
        let screens = ["app took 7 ms: mostly running\n".to_owned(), SCREEN.to_owned()];
        let words = ["vacuum".to_owned()];
        assert!(matches!(judge(&screens, &words, Some(0.0), Some(1e9)), TwinVerdict::Wrong(..)));
        assert!(matches!(judge(&screens[..1], &words, Some(0.0), Some(1e9)), TwinVerdict::Right(_)));
    }

    #[test]
    fn a_twin_that_may_have_the_cause_or_no_answer_is_not_judged() {
        let is_judged = |verdict| !matches!(verdict, TwinVerdict::NotJudged(_));
        assert!(is_judged(verdict("lock", Some(59e6))));
        assert!(!is_judged(verdict("lock", Some(61e6))));
        assert!(!is_judged(verdict("lock", None)));
        assert!(!is_judged(verdict("$port", Some(0.0))));
        let words = ["lock".to_owned()];
        assert!(!is_judged(judge(&[], &words, Some(0.0), Some(1e9))));
        assert!(!is_judged(judge(&["error: no rights\n".to_owned()], &words, Some(0.0), Some(1e9))));
        assert!(!is_judged(judge(&[SCREEN.to_owned()], &words, Some(0.0), None)));
    }

    #[test]
    fn a_headline_loses_its_subject_and_keeps_the_others() {
        for (screen, words) in [
            ("app took 1 s, the largest part: running (9%)", "running (9%)"),
            ("app is still waiting after 2 s in read", "app is still waiting after 2 s in read"),
            (
                "app was killed by SIGINT from sh; its 2 s were mostly running",
                "app was killed by SIGINT from sh; mostly running",
            ),
            ("web (7), 2.01 s, 6 threads: ask about one", "ask about one"),
            ("app took 1 s; py (8) was killed by x", "py (8) was killed by x"),
        ] {
            assert_eq!(headline(screen).as_deref(), Some(words));
        }
        assert_eq!(headline(""), None);
    }
}
