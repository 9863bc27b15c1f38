//! Healthy runs: real programs that nothing holds up. An answer about one must not blame anything.

use serde_json::Value;

use super::check::blocks;

/// Words that blame: a limit, a holder, a peer, a try, a time-out, a signal, a death.
const WORDS: [&str; 28] = [
    "limit of",
    "memory limit",
    "not allowed to run",
    "held back",
    " held",
    "owns",
    "took the lock",
    "polling for",
    "between tries",
    "failed with",
    "timed out",
    "time-out",
    "nothing came",
    "no answer came",
    "sent again",
    "delayed acknowledgement",
    "window was closed",
    "accept queue",
    "not accepted",
    "other end",
    "deadlock",
    "each other",
    "still waiting",
    "stopped by a signal",
    "cut the wait short",
    "killed",
    "nobody woke",
    "has nice",
];

/// Headlines' and rows' codes that blame.
const CODES: [&str; 14] = [
    "cpu_limit",
    "io_limit",
    "memory_limit",
    "timed_out",
    "time_out_or_timer",
    "window_closed",
    "window_probe",
    "syn_sent_again",
    "sent_again",
    "delayed_acknowledgement",
    "signal",
    "stopped",
    "killed",
    "descendant_killed",
];

/// The blame in an answer, if there is any: a word on the first screen, or a code or an element of the document.
///
/// # Errors
///
/// If there is no answer.
pub fn blamed(screen: &str, document: &Value) -> Result<Option<String>, String> {
    if document["rows"].as_array().is_none_or(Vec::is_empty) || !screen.contains(" took ") {
        return Err("nothing was said".to_owned());
    }
    Ok(blame(screen, document))
}

fn blame(screen: &str, document: &Value) -> Option<String> {
    let answer = blocks(screen).into_iter().filter(|block| is_answer(block));
    let word = answer.into_iter().find_map(|block| WORDS.iter().find(|word| block.contains(**word)).copied());
    let codes = std::iter::once(&document["headline"]["code"])
        .chain(elements(&document["rows"]).map(|row| &row["code"]))
        .filter_map(Value::as_str);
    let code = codes.into_iter().find(|code| CODES.contains(code));
    let parts = ["deadlocks", "reclaims", "killed", "still_waiting"];
    let part = parts.into_iter().find(|part| !is_empty(&document[*part]));
    let tries =
        elements(&document["rows"]).find(|row| !is_empty(&row["failed_calls"]) || !is_empty(&row["spins"]));
    let tries = tries.map(|_| "failed_calls");
    word.map(|word| format!("the screen says `{}`", word.trim()))
        .or_else(|| Some(format!("the document has `{}`", code.or(part).or(tries)?)))
}

/// False for the lines below the rows: the losses, the legend, the next command.
fn is_answer(block: &str) -> bool {
    !["lost ", "~ ", "next: ", "note: ", "saved "].iter().any(|begin| block.starts_with(begin))
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCREEN: &str = "tar took 940 ms: mostly waiting for gzip (7), which was running (64%, measured)
2026-11-23 14:08:01.437 to 14:08:02.377 UTC on vm

 share     time  what the time went to, largest first
 63.8%   600 ms  running gzip
 31.5%   296 ms  disk vda, 3 waits in read

lost 0 records
next: wakepath record --failed-calls -- tar
";

    #[test]
    fn an_answer_without_blame_is_healthy() {
        let document = json!({
            "headline": {"code": "running"},
            "rows": [{"code": "running", "failed_calls": []}, {"code": "disk"}],
            "deadlocks": [],
            "killed": null,
        });
        assert_eq!(blamed(SCREEN, &document), Ok(None));
        assert!(blamed("", &document).is_err());
        assert!(blamed(SCREEN, &json!({"rows": []})).is_err());
    }

    #[test]
    fn each_word_of_blame_is_noticed_on_the_screen() {
        for word in WORDS {
            let screen = SCREEN.replace("running gzip", &format!("running gzip {word} x"));
            assert!(blame(&screen, &json!({})).is_some(), "{word}");
        }
    }

    #[test]
    fn each_code_and_each_element_of_blame_is_noticed_in_the_document() {
        for code in CODES {
            for document in
                [json!({"headline": {"code": code}}), json!({"rows": [{"code": "running"}, {"code": code}]})]
            {
                assert_eq!(blame(SCREEN, &document), Some(format!("the document has `{code}`")));
            }
        }
        for document in [
            json!({"deadlocks": [[]]}),
            json!({"reclaims": [{}]}),
            json!({"killed": {}}),
            json!({"still_waiting": {}}),
            json!({"rows": [{"failed_calls": [{}]}]}),
            json!({"rows": [{"spins": [{}]}]}),
        ] {
            assert!(blame(SCREEN, &document).is_some(), "{document}");
        }
    }
}
