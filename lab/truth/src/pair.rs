//! Compares a path across two hosts with two truths: a client's on one host and its server's on the other, each with
//! its own half only.
//!
//! While the client waited for an answer (`network` in its truth) the server waited, ran and slept for it, or the
//! message was in flight: the client's wait minus the server's time is the time in flight. So the two halves become a
//! single truth, which is compared like any other. The server's time without a request (`beside` in its truth) is left
//! out; `overlap` corrects for its work before the client waited.
//!
//! A tid is valid on its own host only. In both truth and path, the server host's tids count from `OTHER_HOST` on.

mod overlap;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::audit;
use crate::checks;
use crate::compare::{Limits, NO_THREAD, PathVerdict, compare};
use crate::document::Truth;
use crate::runner::{Judgement, TIMEOUT, answer, read};
use crate::two_clocks::{self, ClockNotes, Findings, SyncDocument};
use overlap::Overlap;

/// The first number that Linux gives to no thread (`PID_MAX_LIMIT`).
const OTHER_HOST: u64 = 1 << 22;

/// The error limit on a machine with usual speed. Two machines add nothing to the 1% for `rpc` on a single machine: an
/// error between their clocks moves the server's time as a whole, so that a flight gets shorter by as much as the other
/// gets longer.
const LIMIT: f64 = 0.01;

/// The smallest number of requests that the path must follow to the server and back.
const MIN_REQUESTS: usize = 100;

/// The judgement on a pair.
#[derive(Debug)]
pub struct PairJudgement {
    /// The judgement on the path.
    pub judged: Judgement,
    /// Its error limit.
    pub limit: f64,
    /// The findings about clocks and packets.
    pub findings: Findings,
}

/// Judges the clocks and the path that `wakepath` finds in the recordings left by `vm/pair` in `folder`.
///
/// # Errors
///
/// If the tool fails, or a document has the wrong form.
pub fn judge(wakepath: &Path, folder: &Path, drift: f64, slowness: f64) -> Result<PairJudgement> {
    let recordings = ["client", "server"].map(|host| folder.join(host).join("recording"));
    let ask =
        |verb: &str| answer(Command::new(wakepath).arg(verb).args(&recordings), &folder.join(verb), TIMEOUT);
    let [client, server] = ["client", "server"].map(|host| folder.join(host));
    let sync =
        SyncDocument::deserialize(ask("sync")?).context("cannot read the output of `wakepath sync`")?;
    let notes = [ClockNotes::read(&client)?, ClockNotes::read(&server)?];
    let mut findings = two_clocks::judge(&sync, &notes[0], &notes[1], drift)?;

    let limits = Limits::with_error(LIMIT).slower(slowness);
    let [client, server] = [client, server].map(|half| read(&half.join("truth.json")));
    let verdict = compare_halves([&client?, &server?], &notes, &ask("path")?, limits, &mut findings)?;
    let runnable = verdict.parts.iter().filter(|part| part.kind == "runnable").map(|part| part.path_ns);
    let runnable = runnable.sum::<i64>() as f64 / verdict.window_ns as f64;
    Ok(PairJudgement {
        judged: Judgement { verdict, by_noise: 0.0, runnable },
        limit: limits.error,
        findings,
    })
}

/// Compares a path across two hosts with the two halves of its truth. Facts about two hosts go to the findings.
fn compare_halves(
    [client, server]: [&Value; 2],
    notes: &[ClockNotes; 2],
    path: &Value,
    limits: Limits,
    findings: &mut Findings,
) -> Result<PathVerdict> {
    let there = other_host(path)?;
    let mut path = path.clone();
    count_on(&mut path, &there);
    let half = Truth::deserialize(server).context("cannot read the server's truth")?;
    let other = Truth::deserialize(client).context("cannot read the client's truth")?;
    let overlap = overlap::overlap(&other, &half, notes)?;
    findings.facts.push(format!(
        "by the programs' logs the server had done {} ms of its work before the client began to wait, \
         ± {} µs a request",
        -(overlap.running_ns + overlap.runnable_ns) / 1_000_000,
        overlap.error_ns / 1000
    ));
    let joined = join(client, server, &overlap)?;
    let mut verdict = compare(&joined, &path, limits)?;
    verdict.void.extend(audit::truth(&half, limits.slowness));
    crossings(&path, &there, findings);
    senders(&path, verdict.window_ns, findings);
    Ok(verdict)
}

/// The id of the host without the window's thread.
fn other_host(path: &Value) -> Result<String> {
    let here = &path["window"]["host"];
    let hosts = path["hosts"].as_array().context("the path has no hosts")?;
    let names: Vec<_> = hosts.iter().map(|host| host["name"].as_str().unwrap_or_default()).collect();
    ensure!(names == ["client", "server"], "the path's hosts are {names:?}");
    ensure!(here.is_string() && hosts[0]["host"] == *here, "the window is not the client's");
    Ok(hosts[1]["host"].as_str().unwrap_or_default().to_owned())
}

/// Adds `OTHER_HOST` to all tids on this host in the document.
fn count_on(document: &mut Value, host: &str) {
    match document {
        Value::Array(items) => items.iter_mut().for_each(|item| count_on(item, host)),
        Value::Object(fields) => {
            let theirs = fields.get("host").and_then(Value::as_str) == Some(host);
            if let Some(tid) = fields.get("tid").and_then(Value::as_u64).filter(|_| theirs) {
                fields.insert("tid".to_owned(), json!(tid + OTHER_HOST));
            }
            fields.values_mut().for_each(|value| count_on(value, host));
        }
        _ => {}
    }
}

/// Joins two halves to a single truth: the client's, with its waits for the server replaced by the server's time and
/// the time in flight.
fn join(client: &Value, server: &Value, overlap: &Overlap) -> Result<Value> {
    let list = |truth: &Value, name: &str| -> Result<Vec<Value>> {
        truth[name].as_array().cloned().with_context(|| format!("a truth has no {name}"))
    };
    let total = |parts: &[Value]| parts.iter().filter_map(|part| part["total_ns"].as_i64()).sum::<i64>();
    let is_wait = |part: &Value| part["kind"] == "network";
    let is_beside = |part: &Value| is_wait(part) || part["kind"] == "beside";
    let theirs = |mut thread: Value| {
        thread["tid"] = json!(thread["tid"].as_u64().unwrap_or(0) + OTHER_HOST);
        thread
    };
    let (waits, mut parts): (Vec<Value>, Vec<Value>) =
        list(client, "contributors")?.into_iter().partition(is_wait);
    let mut did: Vec<Value> =
        list(server, "contributors")?.into_iter().filter(|part| !is_beside(part)).map(theirs).collect();
    for (kind, ns) in [("running", overlap.running_ns), ("runnable", overlap.runnable_ns)] {
        // Without such a part there is nothing to correct.
        if let Some(part) = did.iter_mut().find(|part| part["kind"] == kind) {
            part["total_ns"] = json!(part["total_ns"].as_i64().unwrap_or(0) + ns);
        }
    }
    let flew = total(&waits) - total(&did);
    parts.extend(did);
    let nobody = json!({"pid": NO_THREAD, "tid": NO_THREAD, "comm": "in flight"});
    let mut flight = nobody.clone();
    (flight["kind"], flight["call"], flight["total_ns"]) = (json!("network"), json!(null), json!(flew));
    parts.push(flight);
    let mut threads = list(client, "threads")?;
    threads.extend(list(server, "threads")?.into_iter().map(theirs));
    threads.push(nobody);
    let mut joined = client.clone();
    (joined["contributors"], joined["threads"]) = (json!(parts), json!(threads));
    Ok(joined)
}

/// Checks how often the path goes to the server and comes back.
///
/// The client always waits for the answer. The server may not wait for the request: if the request arrives before the
/// client waits, or the server is still busy after its last answer, the path has no flight to the server. This is rare
/// on a host with a CPU for each guest; a busy host takes a guest's CPU away for 5 to 30 ms just when it passes a
/// packet on. A tenth of the flights must be left.
fn crossings(path: &Value, there: &str, findings: &mut Findings) {
    let none = Vec::new();
    let segments = path["segments"].as_array().unwrap_or(&none);
    let count = |wanted: &dyn Fn(&Value) -> bool| segments.iter().filter(|segment| wanted(segment)).count();
    let flies = |segment: &Value, end: &str| {
        let of_server = |address: &str| address.starts_with("10.77.0.1:");
        segment["kind"] == "network"
            && segment["host"].is_null()
            && segment["cause"][end].as_str().is_some_and(of_server)
    };
    let slept = count(&|segment| segment["host"] == there && segment["kind"] == "timer");
    let (to, back) = (count(&|segment| flies(segment, "to")), count(&|segment| flies(segment, "from")));
    findings.check(
        slept >= MIN_REQUESTS && 10 * to >= slept && back >= slept,
        format!("{to} flights to the server, {slept} sleeps there, {back} flights back"),
    );
}

/// Checks the path's share of waits for a packet without a known sender. Packets between the two hosts have a sender,
/// but a question for an address, or another packet in the same interrupt, can hide it.
fn senders(path: &Value, window_ns: i64, findings: &mut Findings) {
    let none = Vec::new();
    let segments = path["segments"].as_array().unwrap_or(&none);
    let unsent = segments.iter().filter(|segment| segment["kind"] == "network" && !segment["host"].is_null());
    let length = |segment: &Value| Some(segment["to_ns"].as_i64()? - segment["from_ns"].as_i64()?);
    let waited: i64 = unsent.filter_map(length).sum();
    let share = waited as f64 / window_ns as f64;
    findings.check(
        share <= checks::WORTH_NAMING,
        format!(
            "waits for packets without a known sender: {:.2}% of the window (at most {:.1}%)",
            share * 100.0,
            checks::WORTH_NAMING * 100.0
        ),
    );
}

#[cfg(test)]
mod tests;
