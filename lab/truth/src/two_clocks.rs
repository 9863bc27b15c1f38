//! Compares the clocks of two guests, as `wakepath sync` finds them from packets, with notes that the guests made by
//! other means (`lab/workloads/clocknote.c`).
//!
//! - *Rate.* Each guest notes its clock beside the processor's counter, which emulated guests share with the host. Two
//!   notes, before and after, give each clock's rate by that counter; the ratio of two rates is independent of packets
//!   and exact to a fraction of a millionth.
//! - *Steering.* The kernel's raw clock does not follow `adjtimex`, the monotonic clock does: their ratio is the drift
//!   set.
//! - *Offset.* The host stamps files written by a guest, and the guest notes its clock before and after: each file
//!   bounds the difference. The host's stamps are those at its last tick.
//!
//! Numbers here are guests' uptimes, far below 2⁵³ ns, so `f64` holds them exactly.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The largest age of a file's stamp: Linux ticks at least 100 times a second.
const MAX_TICK_NS: i64 = 10_000_000;
/// A clock's largest rate error; `adjtimex` allows no more.
const MAX_RATE_ERROR: f64 = 500e-6;
/// The largest difference between the drift set by `adjtimex` and its effect, and between readings of two clocks right
/// after each other, over ten seconds or more.
const MAX_STEERING_ERROR: f64 = 1e-6;
/// The largest useful error bound. Packets bound the offset to half the shortest round trip: 0.1 ms on real machines
/// through a switch, here up to ten times as much for the emulated network stack and as much again for the two programs
/// that carry the link.
const MAX_ERROR_NS: i64 = 2_000_000;
/// The smallest number of matched packets: at least three a request (request, answer, acknowledgement).
const MIN_PACKETS: u64 = 300;

/// The document of `wakepath sync --json`, with only the keys that the judge needs.
#[derive(Debug, Deserialize)]
pub struct SyncDocument {
    /// In the given order: the client, the server.
    pub hosts: Vec<HostClock>,
    /// The pairs of hosts that exchanged packets.
    pub pairs: Vec<Pair>,
}

/// A host's conversion to the reference clock.
#[derive(Debug, Deserialize)]
pub struct HostClock {
    /// Its name.
    pub name: String,
    /// The conversion's quality.
    pub quality: String,
    /// The largest error bound, ns.
    pub error_ns: Option<i64>,
    /// The conversion's pieces.
    pub pieces: Vec<Piece>,
}

/// Reference time = slope × host time + offset.
#[derive(Debug, Deserialize)]
pub struct Piece {
    /// Its beginning on the host's clock, ns, a decimal.
    pub from_ns: String,
    /// Its end, likewise.
    pub to_ns: String,
    /// The slope, a decimal.
    pub slope: String,
    /// The offset, ns, a decimal.
    pub offset_ns: String,
}

/// Two hosts that exchanged packets.
#[derive(Debug, Deserialize)]
pub struct Pair {
    /// The number of matched packets, each way.
    pub matched_each_way: [u64; 2],
    /// The number of packets that would arrive before they were sent.
    pub inversions: u64,
}

/// A guest's clock readings at a time, from `FOLDER/clocks`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Clocks {
    monotonic_ns: i64,
    raw_ns: i64,
    counter: i64,
    /// The counter's advance while the clocks were read.
    took: i64,
}

/// The host clock's lead over a guest's clock, ns, at a time on the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockLead {
    at: i64,
    least: i64,
    most: i64,
}

/// A guest's notes.
#[derive(Debug, Clone, Copy)]
pub struct ClockNotes {
    before: Clocks,
    after: Clocks,
    ahead: ClockLead,
}

impl ClockNotes {
    /// Reads the notes that `clocknote` left in this folder's `before` and `after`.
    ///
    /// # Errors
    ///
    /// If a file is missing or has the wrong form, or the host's stamps contradict each other.
    pub fn read(folder: &Path) -> Result<Self> {
        let clocks = |when: &str| -> Result<Clocks> {
            let file = folder.join(when).join("clocks");
            let text = fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
            serde_json::from_slice(&text).with_context(|| format!("cannot parse `{}`", file.display()))
        };
        Ok(Self { before: clocks("before")?, after: clocks("after")?, ahead: ahead(&folder.join("after"))? })
    }

    /// Nanoseconds on the guest's clock for each step of the counter, and the relative error.
    fn rate(&self) -> (f64, f64) {
        let counted = (self.after.counter - self.before.counter) as f64;
        let passed = (self.after.monotonic_ns - self.before.monotonic_ns) as f64;
        (passed / counted, (self.before.took + self.after.took) as f64 / counted)
    }

    /// Converts a time on this machine's clock to another's, except for a constant: both have the same counter, with
    /// different zeros.
    pub(crate) fn on(&self, other: &Self, at: i64) -> i64 {
        let counted = (at - self.before.monotonic_ns) as f64 / self.rate().0;
        other.before.monotonic_ns + (counted * other.rate().0).round() as i64
    }

    /// The measured drift of the guest's clock against its raw clock, as a fraction.
    fn steered(&self) -> f64 {
        let raw = (self.after.raw_ns - self.before.raw_ns) as f64;
        (self.after.monotonic_ns - self.before.monotonic_ns) as f64 / raw - 1.0
    }
}

/// Reads the list `written` and the host's stamp of each file in it.
fn ahead(folder: &Path) -> Result<ClockLead> {
    let list = folder.join("written");
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read `{}`", list.display()))?;
    let mut files = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, from, to] = fields[..] else {
            anyhow::bail!("`{}` has a line `{line}`, not FILE FROM TO", list.display())
        };
        let stamped = fs::metadata(folder.join(name))
            .and_then(|file| file.modified())
            .with_context(|| format!("cannot read the time of `{name}` in `{}`", folder.display()))?;
        let stamped = stamped.duration_since(UNIX_EPOCH)?.as_nanos();
        files.push((from.parse()?, to.parse()?, i64::try_from(stamped)?));
    }
    narrowest(&files).with_context(|| format!("the host's stamps in `{}`", folder.display()))
}

/// The bounds from all files together; each file has the guest's times before and after, and the host's stamp.
fn narrowest(files: &[(i64, i64, i64)]) -> Result<ClockLead> {
    let (first, last) = files.first().zip(files.last()).context("there are no files")?;
    let least = files.iter().map(|&(_, to, stamped)| stamped - to).max().unwrap_or(i64::MIN);
    let most = files.iter().map(|&(from, _, stamped)| stamped + MAX_TICK_NS - from).min().unwrap_or(i64::MAX);
    // The clocks may have drifted apart while the files were written.
    let meanwhile = ((last.1 - first.0) as f64 * MAX_RATE_ERROR) as i64;
    ensure!(
        least - meanwhile <= most + meanwhile,
        "they contradict each other: the clocks differ by at least {least} ns and at most {most} ns"
    );
    Ok(ClockLead { at: last.1, least: least - meanwhile, most: most + meanwhile })
}

impl HostClock {
    fn lines(&self) -> Result<Vec<(i64, i64, f64, i64)>> {
        ensure!(!self.pieces.is_empty(), "nothing links the clock of {}", self.name);
        let parse = |piece: &Piece| -> Result<_> {
            // The reference's own piece has no end; an offset may have a fraction of a nanosecond.
            let at = |text: &str| text.parse().map(|ns: u64| i64::try_from(ns).unwrap_or(i64::MAX));
            let offset = piece.offset_ns.split('.').next().unwrap_or_default();
            Ok((at(&piece.from_ns)?, at(&piece.to_ns)?, piece.slope.parse()?, offset.parse()?))
        };
        self.pieces.iter().map(parse).collect()
    }

    /// Converts a host time to reference time; a time outside the pieces uses the next piece, or the last.
    fn reference(&self, at: i64) -> Result<i64> {
        let lines = self.lines()?;
        let (.., slope, offset) = lines.iter().find(|line| at < line.1).unwrap_or(&lines[lines.len() - 1]);
        Ok((at as f64 * slope) as i64 + offset)
    }

    /// Its rate over all pieces, and their length, ns.
    fn rate(&self) -> Result<(f64, f64)> {
        let lines = self.lines()?;
        let (from, to) = (lines[0].0, lines[lines.len() - 1].1);
        let last = to - 1;
        Ok((
            (self.reference(last)? - self.reference(from)?) as f64 / (last - from) as f64,
            (to - from) as f64,
        ))
    }
}

/// The findings, in sentences.
#[derive(Debug, Default)]
pub struct Findings {
    /// All findings.
    pub facts: Vec<String>,
    /// The errors among them.
    pub violations: Vec<String>,
}

impl Findings {
    /// Adds a fact, and a violation unless it is `right`.
    pub(crate) fn check(&mut self, right: bool, fact: String) {
        if !right {
            self.violations.push(fact.clone());
        }
        self.facts.push(fact);
    }
}

/// Judges `sync` by the notes of client and server; `drift` is the drift set for the server's clock, as a fraction.
///
/// # Errors
///
/// If the document does not have two linked hosts.
pub fn judge(sync: &SyncDocument, client: &ClockNotes, server: &ClockNotes, drift: f64) -> Result<Findings> {
    let mut found = Findings::default();
    let ([of_client, of_server], [pair]) = (&sync.hosts[..], &sync.pairs[..]) else {
        anyhow::bail!("`wakepath sync` has {} hosts and {} pairs", sync.hosts.len(), sync.pairs.len());
    };
    ensure!(
        (of_client.name.as_str(), of_server.name.as_str()) == ("client", "server"),
        "the hosts have the names `{}` and `{}`",
        of_client.name,
        of_server.name
    );
    let [there, back] = pair.matched_each_way;
    found.check(
        there.min(back) >= MIN_PACKETS / 3 && there + back >= MIN_PACKETS && pair.inversions == 0,
        format!(
            "{} packets matched, {there} to the server and {back} back; inversions: {}",
            there + back,
            pair.inversions
        ),
    );
    let error = of_client.error_ns.zip(of_server.error_ns).map(|(a, b)| a + b);
    let qualities = [&of_client.quality, &of_server.quality];
    found.check(
        error.is_some_and(|error| error > 0 && error <= MAX_ERROR_NS)
            && qualities.iter().all(|quality| *quality == "exact"),
        format!(
            "error bound of the clocks: {} (at most {}), {} and {}",
            error.map_or_else(|| "none".to_owned(), us),
            us(MAX_ERROR_NS),
            qualities[0],
            qualities[1]
        ),
    );
    let Some(error) = error else { return Ok(found) };

    for (name, notes, given) in [("client", client, 0.0), ("server", server, drift)] {
        let steered = notes.steered();
        found.check(
            (steered - given).abs() <= MAX_STEERING_ERROR,
            format!("the {name}'s clock drifts by {}; it was set to {}", ppm(steered), ppm(given)),
        );
    }
    // The server clock's drift against the client's.
    let ((client_rate, client_length), (server_rate, server_length)) = (of_client.rate()?, of_server.rate()?);
    let faster = client_rate / server_rate - 1.0;
    let ((by_client, off_client), (by_server, off_server)) = (client.rate(), server.rate());
    let counted = by_server / by_client - 1.0;
    // A line with this error bound at both ends has a slope error of at most twice that bound over its length.
    let allowed = 2.0 * error as f64 / client_length.min(server_length) + off_client + off_server;
    found.check(
        (faster - counted).abs() <= allowed,
        format!(
            "the server's clock is faster by {}; by the processor's counter, by {}: a difference of {}, at most {}",
            ppm(faster),
            ppm(counted),
            ppm((faster - counted).abs()),
            ppm(allowed)
        ),
    );

    // The host clock's lead over the reference, by either guest's files.
    let of = |clock: &HostClock, notes: &ClockNotes| -> Result<ClockLead> {
        let at = notes.ahead.at;
        let differ = at - clock.reference(at)?;
        Ok(ClockLead {
            at: at + notes.ahead.least,
            least: notes.ahead.least + differ,
            most: notes.ahead.most + differ,
        })
    };
    let (client_ahead, server_ahead) = (of(of_client, client)?, of(of_server, server)?);
    // The two leads hold at different times; the clocks may drift apart in between.
    let between = (client_ahead.at - server_ahead.at).abs() as f64 * MAX_RATE_ERROR;
    let half = |ahead: &ClockLead| (ahead.most - ahead.least) / 2;
    let middle = |ahead: &ClockLead| ahead.least + half(ahead);
    let apart = (middle(&client_ahead) - middle(&server_ahead)).abs();
    let allowed = half(&client_ahead) + half(&server_ahead) + between as i64 + error;
    found.check(
        apart <= allowed,
        format!(
            "the clocks are {:.3} s apart; files that the host stamped differ from that by {}, at most {}",
            (client.ahead.least - server.ahead.least).abs() as f64 / 1e9,
            us(apart),
            us(allowed)
        ),
    );
    Ok(found)
}

fn us(ns: i64) -> String {
    format!("{} µs", ns / 1000)
}

fn ppm(part: f64) -> String {
    format!("{:.2} ppm", part * 1e6)
}

#[cfg(test)]
pub(crate) mod tests;
