//! Calls failing before sleeps, and calls failing again and again, in a row of the document.

use serde::Serialize;
use wakepath_event::Attempt;
use wakepath_findings::{Polling, Spinning};
use wakepath_loaded::call_name;

use super::findings::ObjectJson;
use crate::wording;

#[derive(Serialize)]
pub(super) struct FailedCallJson {
    call: String,
    /// Null for a success by which a process still runs.
    error: Option<String>,
    /// The command for fcntl, the operation for flock, the signal for kill; else 0.
    operation: u32,
    object: Option<ObjectJson>,
    /// The processes seen holding the lock.
    held_by: Vec<u32>,
    sleeps: u64,
    tries: u64,
    total_ns: u64,
    /// It came before two thirds of the row's sleeps.
    explains: bool,
}

impl FailedCallJson {
    pub fn new(polling: &Polling) -> Self {
        let Attempt { call, error, operation, object, .. } = &polling.attempt;
        let object = wording::attempt_object(object);
        Self {
            call: call_name(*call).into_owned(),
            error: (*error != 0).then(|| wording::error_name(*error).into_owned()),
            operation: *operation,
            object: object
                .map(|(kind, name)| ObjectJson { kind, name: Some(name).filter(|name| !name.is_empty()) }),
            held_by: polling.holders.iter().map(|process| process.number()).collect(),
            sleeps: polling.tried.sleeps,
            tries: polling.tried.tries,
            total_ns: polling.tried.ns,
            explains: polling.explains,
        }
    }
}

#[derive(Serialize)]
pub(super) struct SpinJson {
    call: String,
    error: String,
    count: u64,
    total_ns: u64,
}

impl SpinJson {
    pub fn new(spin: &Spinning) -> Self {
        Self {
            call: call_name(spin.call).into_owned(),
            error: wording::error_name(spin.error).into_owned(),
            count: spin.count,
            total_ns: spin.ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::{Value, json};

    use crate::json::{path, shape};
    use crate::sample::{path_of, polled};

    #[test]
    fn a_document_has_the_failures_of_its_rows() {
        let rows = |trace: &str, key: &str| {
            let found = RefCell::new(Vec::new());
            path_of(trace, 10, |answer| {
                let shape = include_str!("../../../contract/path.txt");
                let written = shape::document(shape, |out| path(answer, &["a.rec".into()], out));
                let rows = written["rows"].as_array().expect("rows").iter();
                found.replace(
                    rows.flat_map(|row| row[key].as_array().expect("a list").clone()).collect::<Vec<Value>>(),
                );
            });
            found.into_inner()
        };
        let lock = polled("72 11 op=6 file=lock holder=python3 tries=2");
        assert_eq!(
            rows(&lock, "failed_calls"),
            [json!({
                "call": "fcntl", "error": "EAGAIN", "operation": 6, "object": {"type": "file", "name": "lock"},
                "held_by": [812], "sleeps": 3, "tries": 6, "total_ns": 300, "explains": true
            })]
        );
        let alive = rows(&polled("62 0 process=4711"), "failed_calls");
        assert_eq!((&alive[0]["error"], &alive[0]["object"]["type"]), (&Value::Null, &json!("process")));
        assert_eq!(rows(&polled("39 38"), "failed_calls")[0]["object"], Value::Null);
        let spin = "thread app tid=10\n0 c0 idle started\n0 c0 idle switch app
            100000000 c0 app spin 3 9 from=10000000 count=1200000
            200000000 c0 app stopped";
        assert_eq!(
            rows(spin, "spins"),
            [json!({"call": "close", "error": "EBADF", "count": 1_200_000, "total_ns": 90_000_000})]
        );
    }
}
