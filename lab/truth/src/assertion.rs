//! Assertions about a path, written into a truth by its workload and checked by the judge.
//!
//! ```text
//! segments kind=runnable comm=pulse cause.comm=pulse-rival
//! waits via=lock lock.owner.comm=futexowner-h*
//! waits lock.owner
//! ```
//!
//! The first word names a list in the document. All other words must hold for the same item: a field, with dots for
//! nested fields, has that value (a trailing star matches any rest), or, without `=`, is present and not null.

use serde_json::Value;

/// An assertion that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no assertion: it begins with a list of the document, as in `segments kind=timer`")]
pub struct BadAssertion(String);

/// The number of list items for which the assertion holds.
pub fn count(document: &Value, assertion: &str) -> Result<usize, BadAssertion> {
    let bad = || BadAssertion(assertion.to_owned());
    let mut words = assertion.split_whitespace();
    let list = words.next().ok_or_else(bad)?;
    let items = document.get(list).and_then(Value::as_array).ok_or_else(bad)?;
    let tests: Vec<&str> = words.collect();
    Ok(items.iter().filter(|item| tests.iter().all(|test| holds(item, test))).count())
}

fn holds(item: &Value, test: &str) -> bool {
    let (path, wanted) = match test.split_once('=') {
        Some((path, wanted)) => (path, Some(wanted)),
        None => (test, None),
    };
    let found = path.split('.').try_fold(item, |value, key| value.get(key)).unwrap_or(&Value::Null);
    match (found, wanted) {
        (Value::Null, _) => false,
        (_, None) => true,
        (Value::String(text), Some(wanted)) => matches_text(text, wanted),
        (other, Some(wanted)) => {
            let text = other.to_string();
            text == wanted
        }
    }
}

fn matches_text(text: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_assertion_holds_for_one_and_the_same_item() {
        let document = json!({"segments": [
            {"kind": "timer", "call": "poll", "cause": {"type": "timer", "comm": null}},
            {"kind": "lock", "call": "futex", "cause": {"type": "lock", "comm": "owner-1", "pid": 7}},
        ]});
        for (assertion, items) in [
            ("segments", 2),
            ("segments kind=timer", 1),
            ("segments kind=timer call=futex", 0),
            ("segments kind=tim*", 1),
            ("segments kind=tim", 0),
            ("segments cause.comm", 1),
            ("segments cause.comm=owner-* kind=lock", 1),
            ("segments cause.pid=7", 1),
            ("segments cause.pid=8", 0),
            ("segments cause.comm.more", 0),
            ("segments nothing", 0),
        ] {
            assert_eq!(count(&document, assertion), Ok(items), "{assertion}");
        }
    }

    #[test]
    fn an_assertion_about_a_missing_list_is_refused_and_is_not_false() {
        for assertion in ["", "waits", "segment kind=timer"] {
            assert!(count(&json!({"segments": []}), assertion).is_err(), "{assertion}");
        }
    }
}
