//! A path across two hosts, held against two truths: that of a client on one and of its server on the
//! other, each of which knows its own half alone.
//!
//! While the client waited for an answer (`network` in its books) the server waited, ran and slept on its
//! account, or the message was on its way: what the client waited less all that the server did meanwhile
//! was in flight. So two halves become one truth, and it is compared like any other. What the server did
//! while no request was with it (`beside` in its books) is left out, and of what it did before the client
//! waited see `overlap`.
//!
//! A tid means something on its own host only. Those of the server's host are counted on from
//! [`OTHER_HOST`], in truth and path alike.

mod overlap;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::audit;
use crate::checks;
use crate::compare::{Limits, NOBODY, Verdict, compare};
use crate::document::Truth;
use crate::runner::{Judged, read};
use crate::two_clocks::{self, Findings, Notes, SyncDocument};
use overlap::Overlap;

/// No Linux gives tids from here on (`PID_MAX_LIMIT`).
const OTHER_HOST: u64 = 1 << 22;

/// What contributors may differ by, on a machine that is not slower. Two machines add nothing to the 1%
/// of `rpc` on one: how wrong the clocks lie to each other moves what the server did as a whole, and
/// takes from the one flight what it gives to the other.
const LIMIT: f64 = 0.01;

/// Fewer requests than these that the path follows to the server and back show nothing.
const REQUESTS: usize = 100;

/// What the judge made of a pair.
#[derive(Debug)]
pub struct PairJudged {
    /// Of the path, as of any.
    pub judged: Judged,
    /// Of the path.
    pub limit: f64,
    /// What else was found.
    pub findings: Findings,
}

/// Asks `wakepath` for the clocks and the path of what `vm/pair` left in `folder`, and judges both.
///
/// # Errors
///
/// When the tool fails, or a document is none.
pub fn judge(wakepath: &Path, folder: &Path, drift: f64, slowness: f64) -> Result<PairJudged> {
    let recordings = ["client", "server"].map(|host| folder.join(host).join("recording"));
    let ask = |verb: &str| -> Result<Value> {
        let answer = folder.join(verb).with_extension("json");
        let out = File::create(&answer).with_context(|| format!("cannot make `{}`", answer.display()))?;
        let status = Command::new(wakepath)
            .arg(verb)
            .args(&recordings)
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(out)
            .status()
            .with_context(|| format!("cannot start `{}`", wakepath.display()))?;
        ensure!(status.success(), "`wakepath {verb}` ended with {status}");
        read(&answer)
    };
    let [client, server] = ["client", "server"].map(|host| folder.join(host));
    let sync = SyncDocument::deserialize(ask("sync")?).context("cannot read what `wakepath sync` said")?;
    let notes = [Notes::read(&client)?, Notes::read(&server)?];
    let mut findings = two_clocks::judge(&sync, &notes[0], &notes[1], drift)?;

    let limits = Limits::with_error(LIMIT).slower(slowness);
    let [client, server] = [client, server].map(|half| read(&half.join("truth.json")));
    let verdict = compare_halves([&client?, &server?], &notes, &ask("path")?, limits, &mut findings)?;
    let runnable = verdict.parts.iter().filter(|part| part.kind == "runnable").map(|part| part.path_ns);
    let runnable = runnable.sum::<i64>() as f64 / verdict.window_ns as f64;
    Ok(PairJudged { judged: Judged { verdict, by_noise: 0.0, runnable }, limit: limits.error, findings })
}

/// Compares a path across two hosts with the two halves of its truth; what is particular to two hosts
/// goes to the findings.
fn compare_halves(
    [client, server]: [&Value; 2],
    notes: &[Notes; 2],
    path: &Value,
    limits: Limits,
    findings: &mut Findings,
) -> Result<Verdict> {
    let there = other_host(path)?;
    let mut path = path.clone();
    count_on(&mut path, &there);
    let half = Truth::deserialize(server).context("cannot read the server's truth")?;
    let other = Truth::deserialize(client).context("cannot read the client's truth")?;
    let overlap = overlap::overlap(&other, &half, notes)?;
    findings.facts.push(format!(
        "by the programs' books the server had {} ms of its work behind it when the client came to wait, give \
         or take {} µs a request",
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

/// The id of the host that the window's thread is not on.
fn other_host(path: &Value) -> Result<String> {
    let here = &path["window"]["host"];
    let hosts = path["hosts"].as_array().context("the path has no hosts")?;
    let names: Vec<_> = hosts.iter().map(|host| host["name"].as_str().unwrap_or_default()).collect();
    ensure!(names == ["client", "server"], "the path's hosts are {names:?}");
    ensure!(here.is_string() && hosts[0]["host"] == *here, "the window is not the client's");
    Ok(hosts[1]["host"].as_str().unwrap_or_default().to_owned())
}

/// Counts the tids of that host on from [`OTHER_HOST`], wherever one stands beside its host.
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

/// One truth of two halves: the client's, in which its waits for the server are replaced by what the
/// server did, and the rest of them was in flight.
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
        // Without a part there is nothing that could have been too early.
        if let Some(part) = did.iter_mut().find(|part| part["kind"] == kind) {
            part["total_ns"] = json!(part["total_ns"].as_i64().unwrap_or(0) + ns);
        }
    }
    let flew = total(&waits) - total(&did);
    parts.extend(did);
    let nobody = json!({"pid": NOBODY, "tid": NOBODY, "comm": "in flight"});
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

/// How often the path goes to the server and comes back.
///
/// The client always waits for the answer. For its request the server may not: where it arrives before
/// the client has come to wait, or the server is still busy with what follows its last answer, the path
/// steps from the one's time to the other's. On a host with a CPU for each guest that is seldom; a busy one
/// takes a guest's CPU away for 5 to 30 ms just when it hands a packet over. A tenth must be left.
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
        slept >= REQUESTS && 10 * to >= slept && back >= slept,
        format!(
            "{to} times in flight to the server, {slept} times asleep there, {back} times in flight back"
        ),
    );
}

/// How much of the path is a wait for a packet that nobody is known to have sent: of a packet between these
/// two never, but the one who asks where an address is, or a neighbour's packet in the same interrupt, can
/// hide one.
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
            "waits for packets that nobody sent: {:.2}% of the window (at most {:.1}%)",
            share * 100.0,
            checks::WORTH_NAMING * 100.0
        ),
    );
}

#[cfg(test)]
mod tests;
