//! How the clocks of two guests lie, as `wakepath sync` finds it from packets, held against what the
//! guests noted of them by other means (`workloads/clocknote.c`).
//!
//! - *How fast they go.* Each guest notes its clock beside the processor's counter, which is the host's
//!   for all emulated guests. Two notes, before and after, give each clock's rate by that counter; the
//!   ratio of two rates owes nothing to packets and is good to a fraction of a millionth.
//! - *How they were steered.* The kernel's raw clock does not follow `adjtimex`, the monotonic one does:
//!   their ratio is the drift that was given.
//! - *Where they stand.* The host stamps files that a guest writes, and the guest notes its clock before
//!   and after: each file bounds the difference. The host's stamps are those of its last tick.
//!
//! Numbers here are guests' uptimes, far below 2⁵³ ns, so that `f64` holds them exactly.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// No Linux ticks more seldom than a hundred times a second; the stamp of a file may be that old.
const TICK_NS: i64 = 10_000_000;
/// No clock in use is off by more than this, whatever steers it (`adjtimex` itself allows no more).
const FASTEST: f64 = 500e-6;
/// What `adjtimex` was given and what it makes of it differ by less, as do readings of two clocks one
/// right after the other, over ten seconds or more.
const STEERED: f64 = 1e-6;
/// The largest error that is worth having. Half of the shortest way there and back is what packets can
/// bound: 0.1 ms on real machines through a switch, here up to ten times as much for the emulated
/// network stack and as much again for the two programs that carry the link.
const ERROR_NS: i64 = 2_000_000;
/// Some hundred packets: three a request at least (asked, answered, acknowledged).
const PACKETS: u64 = 300;

/// The document of `wakepath sync --json`. Only the keys that the judge needs.
#[derive(Debug, Deserialize)]
pub struct SyncDocument {
    /// In the order given: the client, the server.
    pub hosts: Vec<HostClock>,
    /// Those that exchanged packets.
    pub pairs: Vec<Pair>,
}

/// A host's way to the reference clock.
#[derive(Debug, Deserialize)]
pub struct HostClock {
    /// What people call it.
    pub name: String,
    /// How good it is.
    pub quality: String,
    /// The largest error, ns.
    pub error_ns: Option<i64>,
    /// Its lines.
    pub pieces: Vec<Piece>,
}

/// Reference time = slope × host time + offset.
#[derive(Debug, Deserialize)]
pub struct Piece {
    /// From here on the host's clock, ns, a decimal.
    pub from_ns: String,
    /// To here.
    pub to_ns: String,
    /// A decimal.
    pub slope: String,
    /// A decimal, ns.
    pub offset_ns: String,
}

/// Two hosts that exchanged packets.
#[derive(Debug, Deserialize)]
pub struct Pair {
    /// Packets that were matched, there and back.
    pub matched_each_way: [u64; 2],
    /// Packets that would arrive before they were sent.
    pub inversions: u64,
}

/// What a guest noted of its clocks at one moment, `FOLDER/clocks`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Clocks {
    monotonic_ns: i64,
    raw_ns: i64,
    counter: i64,
    /// How far the counter went while the clocks were read.
    took: i64,
}

/// By how much the host's clock is ahead of a guest's, at a moment of the guest's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ahead {
    at: i64,
    least: i64,
    most: i64,
}

/// All that one guest noted.
#[derive(Debug, Clone, Copy)]
pub struct Notes {
    before: Clocks,
    after: Clocks,
    ahead: Ahead,
}

impl Notes {
    /// Reads what `clocknote` left in `before` and `after` of that folder.
    ///
    /// # Errors
    ///
    /// When a file is missing or is of another form, or the host's stamps contradict each other.
    pub fn read(folder: &Path) -> Result<Self> {
        let clocks = |when: &str| -> Result<Clocks> {
            let file = folder.join(when).join("clocks");
            let text = fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
            serde_json::from_slice(&text).with_context(|| format!("`{}` is no note", file.display()))
        };
        Ok(Self { before: clocks("before")?, after: clocks("after")?, ahead: ahead(&folder.join("after"))? })
    }

    /// Nanoseconds of the guest's clock a step of the counter, and how wrong that may be, as a part.
    fn rate(&self) -> (f64, f64) {
        let counted = (self.after.counter - self.before.counter) as f64;
        let passed = (self.after.monotonic_ns - self.before.monotonic_ns) as f64;
        (passed / counted, (self.before.took + self.after.took) as f64 / counted)
    }

    /// What another machine's clock would say at that moment of this one's, but for a constant: the counter
    /// is common to both, its zero is not.
    pub(crate) fn on(&self, other: &Self, at: i64) -> i64 {
        let counted = (at - self.before.monotonic_ns) as f64 / self.rate().0;
        other.before.monotonic_ns + (counted * other.rate().0).round() as i64
    }

    /// By which part its clock was made to go faster.
    fn steered(&self) -> f64 {
        let raw = (self.after.raw_ns - self.before.raw_ns) as f64;
        (self.after.monotonic_ns - self.before.monotonic_ns) as f64 / raw - 1.0
    }
}

/// Reads the list `written`, and when the host stamped each file of it.
fn ahead(folder: &Path) -> Result<Ahead> {
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
            .with_context(|| format!("cannot tell when `{name}` of `{}` was written", folder.display()))?;
        let stamped = stamped.duration_since(UNIX_EPOCH)?.as_nanos();
        files.push((from.parse()?, to.parse()?, i64::try_from(stamped)?));
    }
    narrowest(&files).with_context(|| format!("the host's stamps in `{}`", folder.display()))
}

/// What files written between two moments of the guest's say together, with when the host stamped each.
fn narrowest(files: &[(i64, i64, i64)]) -> Result<Ahead> {
    let (first, last) = files.first().zip(files.last()).context("there are none")?;
    let least = files.iter().map(|&(_, to, stamped)| stamped - to).max().unwrap_or(i64::MIN);
    let most = files.iter().map(|&(from, _, stamped)| stamped + TICK_NS - from).min().unwrap_or(i64::MAX);
    // While they were written the clocks went on, one faster than the other.
    let meanwhile = ((last.1 - first.0) as f64 * FASTEST) as i64;
    ensure!(
        least - meanwhile <= most + meanwhile,
        "they cannot be: the clocks differ by {least} ns at least and {most} at most"
    );
    Ok(Ahead { at: last.1, least: least - meanwhile, most: most + meanwhile })
}

impl HostClock {
    fn lines(&self) -> Result<Vec<(i64, i64, f64, i64)>> {
        ensure!(!self.pieces.is_empty(), "nothing links the clock of {}", self.name);
        let parse = |piece: &Piece| -> Result<_> {
            // The reference's own line has no end; a line's offset may have a fraction of a nanosecond.
            let at = |text: &str| text.parse().map(|ns: u64| i64::try_from(ns).unwrap_or(i64::MAX));
            let offset = piece.offset_ns.split('.').next().unwrap_or_default();
            Ok((at(&piece.from_ns)?, at(&piece.to_ns)?, piece.slope.parse()?, offset.parse()?))
        };
        self.pieces.iter().map(parse).collect()
    }

    /// Reference time at that time of the host's; beyond its lines as on the nearest.
    fn reference(&self, at: i64) -> Result<i64> {
        let lines = self.lines()?;
        let (.., slope, offset) = lines.iter().find(|line| at < line.1).unwrap_or(&lines[lines.len() - 1]);
        Ok((at as f64 * slope) as i64 + offset)
    }

    /// Its rate over all, and how long that is, ns.
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

/// What was found, in sentences, and what of it is wrong.
#[derive(Debug, Default)]
pub struct Findings {
    /// All of it.
    pub facts: Vec<String>,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Findings {
    /// A fact, which is a violation too unless it is right.
    pub(crate) fn check(&mut self, right: bool, fact: String) {
        if !right {
            self.violations.push(fact.clone());
        }
        self.facts.push(fact);
    }
}

/// Judges `sync` by what client and server noted; `drift` is by which part the server's clock was made to
/// go faster.
///
/// # Errors
///
/// When the document is not of two hosts that something links.
pub fn judge(sync: &SyncDocument, client: &Notes, server: &Notes, drift: f64) -> Result<Findings> {
    let mut found = Findings::default();
    let ([of_client, of_server], [pair]) = (&sync.hosts[..], &sync.pairs[..]) else {
        anyhow::bail!("`wakepath sync` knows {} hosts and {} pairs", sync.hosts.len(), sync.pairs.len());
    };
    ensure!(
        (of_client.name.as_str(), of_server.name.as_str()) == ("client", "server"),
        "the hosts are called `{}` and `{}`",
        of_client.name,
        of_server.name
    );
    let [there, back] = pair.matched_each_way;
    found.check(
        there.min(back) >= PACKETS / 3 && there + back >= PACKETS && pair.inversions == 0,
        format!(
            "{} packets matched, {there} to the server and {back} back; inversions: {}",
            there + back,
            pair.inversions
        ),
    );
    let error = of_client.error_ns.zip(of_server.error_ns).map(|(a, b)| a + b);
    let qualities = [&of_client.quality, &of_server.quality];
    found.check(
        error.is_some_and(|error| error > 0 && error <= ERROR_NS)
            && qualities.iter().all(|quality| *quality == "exact"),
        format!(
            "clocks known to within {} (at most {}), {} and {}",
            error.map_or_else(|| "nothing".to_owned(), us),
            us(ERROR_NS),
            qualities[0],
            qualities[1]
        ),
    );
    let Some(error) = error else { return Ok(found) };

    for (name, notes, given) in [("client", client, 0.0), ("server", server, drift)] {
        let steered = notes.steered();
        found.check(
            (steered - given).abs() <= STEERED,
            format!("the {name}'s clock is steered by {}, as it was told: {}", ppm(steered), ppm(given)),
        );
    }
    // How much faster the server's clock goes than the client's.
    let ((client_rate, client_length), (server_rate, server_length)) = (of_client.rate()?, of_server.rate()?);
    let faster = client_rate / server_rate - 1.0;
    let ((by_client, off_client), (by_server, off_server)) = (client.rate(), server.rate());
    let counted = by_server / by_client - 1.0;
    // A line that is off by no more than the error at both its ends has a slope that is off by no more
    // than twice the error over its length.
    let allowed = 2.0 * error as f64 / client_length.min(server_length) + off_client + off_server;
    found.check(
        (faster - counted).abs() <= allowed,
        format!(
            "the server's clock goes faster by {}; by the processor's counter by {}: {} apart, of {} allowed",
            ppm(faster),
            ppm(counted),
            ppm((faster - counted).abs()),
            ppm(allowed)
        ),
    );

    // By how much the host's clock is ahead of the reference, by either guest's files.
    let of = |clock: &HostClock, notes: &Notes| -> Result<Ahead> {
        let at = notes.ahead.at;
        let differ = at - clock.reference(at)?;
        Ok(Ahead {
            at: at + notes.ahead.least,
            least: notes.ahead.least + differ,
            most: notes.ahead.most + differ,
        })
    };
    let (client_ahead, server_ahead) = (of(of_client, client)?, of(of_server, server)?);
    // Each at the moment of its own files, at which the reference is as far from the host's clock only as
    // these drift apart in between.
    let between = (client_ahead.at - server_ahead.at).abs() as f64 * FASTEST;
    let half = |ahead: &Ahead| (ahead.most - ahead.least) / 2;
    let middle = |ahead: &Ahead| ahead.least + half(ahead);
    let apart = (middle(&client_ahead) - middle(&server_ahead)).abs();
    let allowed = half(&client_ahead) + half(&server_ahead) + between as i64 + error;
    found.check(
        apart <= allowed,
        format!(
            "the clocks are {:.3} s apart; by files that the host stamped {} more or less, of {} allowed",
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
