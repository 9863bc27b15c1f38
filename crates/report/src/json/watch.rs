//! `wakepath.watch/1`: a document a line, for each reportable event in a watch and for its end.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde::Serialize;
use wakepath_distribution::{Histogram, Peak};
use wakepath_engine::latency::live::EndReason;
use wakepath_engine::watch::{
    Alarm, Change, Direction, Notice, PeakChange, Short, Stop, Stretch, TargetSummary, WatchEvent, WatchNews,
    Watched, peak_changes, peak_to_explain, shift,
};

use super::latency::{BucketJson, PeakJson, TargetJson, buckets, ns, peaks, target};
use super::{drill, text, write};
use crate::text::KeptFiles;
use crate::wording::latency as words;

/// All keys in a document; keys that do not apply to its event are null.
#[derive(Serialize, Default)]
struct WatchJson {
    schema: &'static str,
    event: &'static str,
    /// Decimal: the origin of times, ns since 1970 UTC.
    origin_realtime_ns: Option<String>,
    /// The time at which the event was known.
    at_ns: u64,
    target: Option<String>,
    of: Option<&'static str>,
    unit: Option<&'static str>,
    /// The beginning.
    from_ns: Option<u64>,
    /// The end.
    to_ns: Option<u64>,
    score: Option<f64>,
    /// Whether calls became slower or faster.
    direction: Option<&'static str>,
    /// The mean after, by the mean before.
    mean_ratio: Option<f64>,
    /// Whether a change or a disturbance is worth attention.
    alarm: Option<&'static str>,
    /// The quiet changes before a target was steady again.
    quiet: Option<u64>,
    before: Option<StretchJson>,
    after: Option<StretchJson>,
    peaks: Option<Vec<PeakChangeJson>>,
    /// The number of the peak in `after` to drill into.
    peak: Option<usize>,
    as_it_was: Option<TimesJson>,
    kept: Option<KeptJson>,
    expected: Option<u64>,
    open: Option<u64>,
    drilled: Option<serde_json::Value>,
    failure: Option<String>,
    summary: Option<SummaryJson>,
}

#[derive(Serialize)]
struct StretchJson {
    from_ns: u64,
    to_ns: u64,
    counted_ns: u64,
    count: u64,
    sum: String,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
}

#[derive(Serialize)]
struct PeakChangeJson {
    change: &'static str,
    /// Its number in `after`; null for a vanished peak.
    number: Option<usize>,
    before: Option<PeakJson>,
    after: Option<PeakJson>,
}

#[derive(Serialize)]
struct TimesJson {
    from_ns: u64,
    to_ns: u64,
}

#[derive(Serialize)]
struct KeptJson {
    before: String,
    after: String,
}

#[derive(Serialize)]
struct SummaryJson {
    reason: &'static str,
    slices: u64,
    left_out: u64,
    targets: Vec<TargetSummaryJson>,
}

#[derive(Serialize)]
struct ChangeJson {
    from_ns: u64,
    score: f64,
    direction: Option<&'static str>,
    mean_ratio: Option<f64>,
}

#[derive(Serialize)]
struct TargetSummaryJson {
    from_ns: u64,
    counted_ns: u64,
    changed: u64,
    short: u64,
    stopped: u64,
    /// The last changes.
    changes: Vec<ChangeJson>,
    differs_from_ns: Option<u64>,
    stopped_from_ns: Option<u64>,
    now: TargetJson,
}

/// Writes an event's document. `kept` are a change's files.
///
/// # Errors
/// Write errors on `out`.
pub fn watch_news(news: &WatchNews<'_>, kept: Option<KeptFiles<'_>>, out: &mut dyn Write) -> io::Result<()> {
    let document = WatchJson {
        target: Some(text(news.target.name.as_bytes())),
        of: Some(words::source(news.target.source).0),
        kept: kept.map(|kept| {
            let [before, after] = [kept.before, kept.after].map(|path| text(path.as_os_str().as_bytes()));
            KeptJson { before, after }
        }),
        ..match news.what {
            WatchEvent::Notice(notice) => notice_json(notice),
            WatchEvent::Refused(why) => WatchJson { failure: Some(text(why.as_bytes())), ..named("refused") },
            WatchEvent::Removed(removed) => {
                WatchJson { failure: Some(words::probes_removed(removed)), ..named("removed") }
            }
            WatchEvent::Drilled(Ok(found)) => {
                let mut drilled = Vec::new();
                drill(found, None, &mut drilled)?;
                // It was written as JSON just now.
                WatchJson { drilled: serde_json::from_slice(&drilled).ok(), ..named("drilled") }
            }
            WatchEvent::Drilled(Err(error)) => {
                WatchJson { failure: Some(text(error.to_string().as_bytes())), ..named("drilled") }
            }
        }
    };
    write(out, &WatchJson { at_ns: ns(news.at), ..with_origin(document, news.origin_realtime_ns) })
}

fn named(event: &'static str) -> WatchJson {
    WatchJson { schema: "wakepath.watch/1", event, ..WatchJson::default() }
}

fn with_origin(document: WatchJson, origin_realtime_ns: Option<u64>) -> WatchJson {
    WatchJson { origin_realtime_ns: origin_realtime_ns.map(|ns| ns.to_string()), ..document }
}

fn notice_json(notice: &Notice) -> WatchJson {
    let unit = |of: &Stretch| Some(words::unit(of.histogram.unit()));
    match notice {
        Notice::Usual(piece) => WatchJson {
            unit: unit(piece),
            from_ns: Some(ns(piece.from)),
            after: Some(stretch(piece)),
            ..named("usual")
        },
        Notice::Changed(change) => change_json(change),
        Notice::Settled { change, quiet } => {
            WatchJson { event: "settled", alarm: None, quiet: Some(*quiet), ..change_json(change) }
        }
        Notice::Short(Short { from, piece, score, quiet }) => WatchJson {
            alarm: Some(alarm(if *quiet { Alarm::Quiet } else { Alarm::Rings })),
            unit: unit(piece),
            from_ns: Some(ns(*from)),
            to_ns: Some(ns(piece.to)),
            score: Some(*score),
            after: Some(stretch(piece)),
            ..named("short")
        },
        Notice::Stopped(Stop { since, expected, open }) => WatchJson {
            from_ns: Some(ns(*since)),
            // A cast of a number above all integers gives the largest.
            expected: Some(*expected as u64),
            open: Some(*open),
            ..named("stopped")
        },
        Notice::Back { stopped, back } => {
            WatchJson { from_ns: Some(ns(*stopped)), to_ns: Some(ns(*back)), ..named("back") }
        }
    }
}

const fn alarm(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::Rings => "rings",
        Alarm::Wavers => "wavers",
        Alarm::Quiet => "quiet",
    }
}

/// The direction and the ratio of the means.
fn direction(Change { before, after, .. }: &Change) -> (Option<&'static str>, Option<f64>) {
    let Some(shift) = shift(&before.histogram, &after.histogram) else { return (None, None) };
    let direction = match shift.direction {
        Direction::Slower => "slower",
        Direction::Faster => "faster",
        Direction::Mixed => "mixed",
    };
    (Some(direction), shift.mean_ratio)
}

fn change_json(change: &Change) -> WatchJson {
    let (direction, mean_ratio) = direction(change);
    let Change { since, before, after, score, as_it_was, alarm: rings } = change;
    WatchJson {
        direction,
        mean_ratio,
        alarm: Some(alarm(*rings)),
        unit: Some(words::unit(after.histogram.unit())),
        from_ns: Some(ns(*since)),
        score: Some(*score),
        before: Some(stretch(before)),
        after: Some(stretch(after)),
        peaks: Some(changes_of_peaks(&before.histogram, &after.histogram)),
        peak: peak_to_explain(&before.histogram, &after.histogram),
        as_it_was: as_it_was.map(|(from, to)| TimesJson { from_ns: ns(from), to_ns: ns(to) }),
        ..named("changed")
    }
}

fn stretch(of: &Stretch) -> StretchJson {
    StretchJson {
        from_ns: ns(of.from),
        to_ns: ns(of.to),
        counted_ns: ns(of.counted),
        count: of.histogram.calls(),
        sum: of.histogram.sum().to_string(),
        buckets: buckets(&of.histogram),
        peaks: peaks(&of.histogram),
    }
}

fn changes_of_peaks(before: &Histogram, after: &Histogram) -> Vec<PeakChangeJson> {
    let of = |change, number, before: Option<Peak>, after: Option<Peak>| PeakChangeJson {
        change,
        number,
        before: before.map(PeakJson::new),
        after: after.map(PeakJson::new),
    };
    let change = |change| match change {
        PeakChange::Stayed { before, after, number } => of("stayed", Some(number), Some(before), Some(after)),
        PeakChange::Moved { before, after, number } => of("moved", Some(number), Some(before), Some(after)),
        PeakChange::Came { after, number } => of("came", Some(number), None, Some(after)),
        PeakChange::Went { before } => of("went", None, Some(before), None),
    };
    peak_changes(before, after).into_iter().map(change).collect()
}

/// Writes a watch's last document.
///
/// # Errors
/// Write errors on `out`.
pub fn watched(watched: &Watched, out: &mut dyn Write) -> io::Result<()> {
    let summary = SummaryJson {
        reason: match watched.reason {
            EndReason::Ended => "ended",
            EndReason::Interrupted => "interrupted",
            EndReason::Duration => "duration",
            EndReason::OverBudget => "over_budget",
        },
        slices: watched.slices,
        left_out: watched.left_out,
        targets: watched.targets.iter().map(target_summary).collect(),
    };
    let document = WatchJson { at_ns: ns(watched.elapsed), summary: Some(summary), ..named("end") };
    write(out, &with_origin(document, watched.origin_realtime_ns))
}

fn target_summary(of: &TargetSummary) -> TargetSummaryJson {
    let from = |time: Option<Duration>| time.map(ns);
    TargetSummaryJson {
        from_ns: ns(of.since),
        counted_ns: ns(of.counted),
        changed: of.counts.changed,
        short: of.counts.short,
        stopped: of.counts.stopped,
        changes: of
            .changes
            .iter()
            .map(|change| {
                let (direction, mean_ratio) = direction(change);
                ChangeJson { from_ns: ns(change.since), score: change.score, direction, mean_ratio }
            })
            .collect(),
        differs_from_ns: from(of.differs_since),
        stopped_from_ns: from(of.stopped_since),
        now: target(&of.distribution),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use wakepath_engine::Host;
    use wakepath_engine::latency::{Distribution, LatencySource, RemovedProbes};
    use wakepath_engine::watch::{NoticeCounts, WatchedTarget, as_latency};

    use super::*;
    use crate::json::shape::{document, golden};
    use crate::json::{live_latency, profiles};
    use crate::sample::{drilled, histogram, slice};

    const SHAPE: &str = include_str!("../../contract/watch.txt");

    fn seconds(from: u64, to: u64, counts: &[(u64, u64)]) -> Stretch {
        Stretch::new(Duration::from_secs(from), Duration::from_secs(to), histogram(counts))
    }

    fn change() -> Change {
        Change {
            since: Duration::from_secs(20),
            before: seconds(0, 10, &[(1000, 3000), (1 << 16, 500)]),
            after: seconds(20, 30, &[(1000, 3000), (1 << 22, 1000), (1 << 30, 1000)]),
            score: 400.0,
            as_it_was: Some((Duration::ZERO, Duration::from_secs(5))),
            alarm: Alarm::Wavers,
        }
    }

    fn with_news<T>(what: WatchEvent<'_>, look: impl FnOnce(&WatchNews<'_>) -> T) -> T {
        let (name, source) = (String::from("./app:f\u{202e}"), LatencySource::Calls);
        look(&WatchNews {
            host: &Host::default(),
            target: &WatchedTarget { name, source, process: Some(7) },
            origin_realtime_ns: Some(1 << 60),
            at: Duration::from_secs(30),
            what,
        })
    }

    #[test]
    fn documents_keep_the_contract() {
        let change = change();
        let short = Short {
            from: Duration::from_secs(10),
            piece: seconds(10, 20, &[(9, 1000)]),
            score: 600.0,
            quiet: true,
        };
        let notices = [
            Notice::Usual(seconds(0, 10, &[(1000, 3000)])),
            Notice::Changed(Box::new(change.clone())),
            Notice::Short(short),
            Notice::Stopped(Stop { since: Duration::from_secs(20), expected: 1000.7, open: 2 }),
            Notice::Back { stopped: Duration::from_secs(20), back: Duration::from_secs(25) },
            Notice::Settled { change: Box::new(change.clone()), quiet: 3 },
        ];
        let kept = KeptFiles { before: Path::new("w/b.json"), after: Path::new("w/a.json") };
        let documents = notices.each_ref().map(|notice| {
            with_news(WatchEvent::Notice(notice), |news| {
                document(SHAPE, |out| {
                    watch_news(news, Some(kept), out)?;
                    assert!(out.is_ascii(), "nothing that turns a terminal's text around");
                    assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 1, "one line");
                    Ok(())
                })
            })
        });
        golden(&json!(documents), &expect_test::expect_file!["../../tests/golden/watch.json"]);
        let events = documents.each_ref().map(|document| document["event"].clone());
        assert_eq!(events, ["usual", "changed", "short", "stopped", "back", "settled"]);
        let changed = &documents[1];
        assert_eq!(changed["origin_realtime_ns"], (1_u64 << 60).to_string());
        assert_eq!(
            (&changed["at_ns"], &changed["from_ns"]),
            (&json!(30_000_000_000_u64), &json!(20_000_000_000_u64))
        );
        assert_eq!(changed["kept"], json!({"before": "w/b.json", "after": "w/a.json"}));
        assert_eq!((&changed["before"]["count"], &changed["after"]["count"]), (&json!(3500), &json!(5000)));
        let peaks: Vec<_> =
            changed["peaks"].as_array().expect("a list").iter().map(|peak| &peak["change"]).collect();
        assert_eq!(peaks, ["stayed", "went", "came", "came"]);
        assert_eq!(changed["peak"], 3);
        assert_eq!((&documents[3]["expected"], &documents[3]["open"]), (&json!(1000), &json!(2)));
        // Each side is a document for `latency --compare`.
        let changed = WatchEvent::Notice(&notices[1]);
        let mut file = Vec::new();
        with_news(changed, |news| live_latency(&as_latency(news, &change.after), &mut file)).expect("room");
        let read = profiles(&file).expect("a document");
        assert_eq!((read.len(), &read[0].histogram), (1, &change.after.histogram));
    }

    #[test]
    fn the_document_of_a_drill_down_stands_within() {
        let found = drilled();
        let within = with_news(WatchEvent::Drilled(Ok(&found)), |news| {
            document(SHAPE, |out| watch_news(news, None, out))
        });
        assert_eq!(within["drilled"]["schema"], "wakepath.drill/1");
        let failed = std::io::Error::other(
            "`f` is not a function of a program: a drill-down needs FILE:FUNCTION, kernel:FUNCTION or python:FUNCTION",
        );
        let failed = with_news(WatchEvent::Drilled(Err(&failed)), |news| {
            document(SHAPE, |out| watch_news(news, None, out))
        });
        golden(&json!([within, failed]), &expect_test::expect_file!["../../tests/golden/watch_drilled.json"]);
        assert!(failed["drilled"].is_null() && failed["failure"].is_string(), "{failed}");
    }

    #[test]
    fn removed_probes_have_their_reason() {
        let removed = RemovedProbes {
            after: Duration::from_secs(2),
            calls: 5,
            per_call_ns: 6000,
            share: 0.5,
            budget: 0.05,
        };
        let document = with_news(WatchEvent::Removed(&removed), |news| {
            document(SHAPE, |out| watch_news(news, None, out))
        });
        let why = "its probes were removed after 2.00 s: each of 5 calls took 6.00 µs longer, 50% of the machine's time; --budget allows more than 5%";
        assert_eq!((&document["event"], &document["failure"]), (&json!("removed"), &json!(why)));
    }

    #[test]
    fn the_end_has_the_distribution_of_now_like_that_of_latency() {
        let counts = [(1000, 30), (1 << 60, 1)];
        let name = String::from("./app:f");
        let mut distribution = Distribution::new(name, LatencySource::Calls, histogram(&counts));
        distribution.slices = vec![slice(0, 1_000_000_000, &counts)];
        let summary = TargetSummary {
            distribution,
            since: Duration::from_secs(2),
            counted: Duration::from_secs(3),
            counts: NoticeCounts { changed: 1, short: 2, stopped: 3 },
            changes: vec![change()],
            differs_since: Some(Duration::from_secs(4)),
            stopped_since: Some(Duration::from_secs(6)),
        };
        let end = Watched {
            host: Host::default(),
            origin_realtime_ns: None,
            elapsed: Duration::from_secs(5),
            slices: 5,
            left_out: 1,
            reason: EndReason::Ended,
            targets: vec![summary],
        };
        let document = document(SHAPE, |out| watched(&end, out));
        golden(&document, &expect_test::expect_file!["../../tests/golden/watch_end.json"]);
        let target = &document["summary"]["targets"][0];
        assert_eq!((&target["changed"], &target["now"]["count"]), (&json!(1), &json!(31)));
        assert_eq!(target["differs_from_ns"], 4_000_000_000_u64);
    }
}
