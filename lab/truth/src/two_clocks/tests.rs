//! Two hand-made guests: the server's clock is 100 ppm faster and began an hour before.

use super::*;

const S: i64 = 1_000_000_000;
const DRIFT: f64 = 100e-6;
/// The host's clock when the client's clock read 0.
const EPOCH: i64 = 1_700_000_000 * S;

fn servers(client: i64) -> i64 {
    3600 * S + client + client / 10_000
}

/// A guest's notes from 10 s and 40 s after the client's zero; `clock` converts a client time to the guest's clock.
pub(crate) fn notes(clock: impl Fn(i64) -> i64, steered: f64) -> ClockNotes {
    let clocks = |at: i64, zero: i64| Clocks {
        monotonic_ns: clock(at),
        raw_ns: (clock(at) as f64 / (1.0 + steered)) as i64,
        counter: zero + at * 2,
        took: 2_000,
    };
    let files: Vec<_> = (0..50)
        .map(|n| {
            let at = 40 * S + n * 13_141_000;
            (clock(at), clock(at + 2_000_000), (EPOCH + at + 1_000_000) / MAX_TICK_NS * MAX_TICK_NS)
        })
        .collect();
    ClockNotes { before: clocks(10 * S, 77), after: clocks(40 * S, 77), ahead: narrowest(&files).unwrap() }
}

/// The document of `wakepath sync`, with these errors in the server's line.
fn sync(matched: [u64; 2], inversions: u64, error: Option<i64>, faster: f64, later: i64) -> SyncDocument {
    // The client's time = (server's − 1 h) / (1 + drift).
    let slope = 1.0 / (1.0 + faster);
    let middle = servers(25 * S);
    let offset = 25 * S - (middle as f64 * slope) as i64 + later;
    let clock = |name: &str, from: i64, to: i64, slope: f64, offset: i64, error| HostClock {
        name: name.to_owned(),
        quality: "exact".to_owned(),
        error_ns: error,
        pieces: vec![Piece {
            from_ns: from.to_string(),
            to_ns: to.to_string(),
            slope: format!("{slope:.18}"),
            offset_ns: format!("{offset}.25"),
        }],
    };
    SyncDocument {
        hosts: vec![
            clock("client", 10 * S, 40 * S, 1.0, 0, Some(0)),
            clock("server", servers(10 * S), servers(40 * S), slope, offset, error),
        ],
        pairs: vec![Pair { matched_each_way: matched, inversions }],
    }
}

/// The findings about a server whose clock drifts by `steered`.
fn found(sync: &SyncDocument, steered: f64) -> Findings {
    judge(sync, &notes(|at| at, 0.0), &notes(servers, steered), DRIFT).unwrap()
}

#[test]
fn packets_must_agree_with_counter_and_files() {
    let ms = 1_000_000;
    for (what, document, wrong) in [
        ("all right", sync([200, 200], 0, Some(ms / 2), DRIFT, 0), 0),
        ("off by less than its error", sync([200, 200], 0, Some(ms / 2), DRIFT + 20e-6, 200_000), 0),
        ("too few", sync([40, 40], 0, Some(ms / 2), DRIFT, 0), 1),
        ("one way only", sync([500, 0], 0, Some(ms / 2), DRIFT, 0), 1),
        ("an effect before its cause", sync([200, 200], 1, Some(ms / 2), DRIFT, 0), 1),
        ("an error too large to show anything", sync([200, 200], 0, Some(3 * ms), DRIFT, 0), 1),
        ("no drift found", sync([200, 200], 0, Some(ms / 2), 0.0, 0), 1),
        ("a drift that its error does not explain", sync([200, 200], 0, Some(ms / 2), DRIFT + 50e-6, 0), 1),
        ("a tenth of a second off", sync([200, 200], 0, Some(ms / 2), DRIFT, 100 * ms), 1),
    ] {
        let found = found(&document, DRIFT);
        assert_eq!((found.facts.len(), found.violations.len()), (6, wrong), "{what}: {:?}", found.facts);
    }
}

#[test]
fn without_a_bound_nothing_else_is_believed() {
    let found = found(&sync([200, 200], 0, None, DRIFT, 0), DRIFT);
    assert_eq!((found.facts.len(), found.violations.len()), (2, 1));
}

#[test]
fn a_guest_with_another_drift_than_it_was_given_is_noticed() {
    let violations = found(&sync([200, 200], 0, Some(500_000), DRIFT, 0), 0.0).violations;
    assert!(violations.len() == 1 && violations[0].contains("it was set to"), "{violations:?}");
}

#[test]
fn files_bound_how_far_two_clocks_are_apart_to_within_a_tick_and_what_writing_took() {
    let ahead = notes(|at| at, 0.0).ahead;
    assert!(ahead.least <= EPOCH && EPOCH <= ahead.most, "{ahead:?}");
    assert!(ahead.most - ahead.least < MAX_TICK_NS + 2_000_000, "{ahead:?}");
}

#[test]
fn stamps_that_contradict_each_other_are_refused() {
    assert!(narrowest(&[(0, 1000, EPOCH), (2000, 3000, EPOCH + S)]).is_err());
    assert!(narrowest(&[]).is_err());
}
