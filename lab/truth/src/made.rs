//! Hand-made truths and paths, for the judge's tests.

use serde_json::{Value, json};

/// A thread: its tid and its name.
pub(crate) type Named<'a> = (u32, &'a str);

/// A truth for these threads, with the window of the first: from `from_ns` on, with these parts. A part has its thread,
/// kind, system call and ns.
pub(crate) fn truth(
    threads: &[Named<'_>],
    from_ns: i64,
    parts: &[(Named<'_>, &str, Option<&str>, i64)],
) -> Value {
    let own = threads[0];
    let thread = |(tid, comm): Named<'_>| json!({"pid": own.0, "tid": tid, "comm": comm});
    let with = |mut thread: Value, keys: Value| {
        for (key, value) in keys.as_object().into_iter().flatten() {
            thread[key] = value.clone();
        }
        thread
    };
    let contributor = |&(of, kind, call, ns): &(Named<'_>, &str, Option<&str>, i64)| {
        with(thread(of), json!({"kind": kind, "what": null, "call": call, "total_ns": ns}))
    };
    let window: i64 = parts.iter().map(|part| part.3).sum();
    let ran = parts.iter().filter(|part| part.0 == own && ["running", "beside"].contains(&part.1));
    json!({
        "schema": "wakepath.truth/1", "workload": own.1,
        "window": with(thread(own), json!({"from_ns": from_ns, "to_ns": from_ns + window})),
        "clocks": {"unawares_ns": 0, "stolen_ns": 0, "running_ns": ran.map(|part| part.3).sum::<i64>()},
        "must": [], "never": [],
        "threads": threads.iter().copied().map(thread).collect::<Vec<_>>(),
        "contributors": parts.iter().map(contributor).collect::<Vec<_>>(),
    })
}

/// A thread's path over all these segments, the first from 0 on.
pub(crate) fn path((tid, comm): Named<'_>, segments: &[Value]) -> Value {
    let length = |segment: &Value| segment["to_ns"].as_i64().unwrap() - segment["from_ns"].as_i64().unwrap();
    let window: i64 = segments.iter().map(length).sum();
    let contributor = |segment: &Value| {
        json!({"host": segment["host"], "tid": segment["tid"], "kind": segment["kind"],
               "total_ns": length(segment), "share": length(segment) as f64 / window as f64})
    };
    json!({
        "schema": "wakepath.path/1", "origin_ns": "0",
        "window": {"tid": tid, "comm": comm, "from_ns": 0, "to_ns": window},
        "segments": segments, "contributors": segments.iter().map(contributor).collect::<Vec<_>>(),
        "waits": [], "losses": [],
    })
}
