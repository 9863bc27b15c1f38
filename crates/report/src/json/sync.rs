//! The clocks of several hosts, as JSON.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_clock::ErrorBound;
use wakepath_engine::{Host, HostClock, Pair, Synchronised};

use super::text;
use crate::wording;

#[derive(Serialize)]
struct SyncJson {
    schema: &'static str,
    /// The host with the common clock.
    reference: Option<String>,
    hosts: Vec<HostJson>,
    pairs: Vec<PairJson>,
}

#[derive(Serialize)]
struct HostJson {
    host: String,
    name: String,
    quality: &'static str,
    /// Null without a bound.
    error_ns: Option<u64>,
    pieces: Vec<PieceJson>,
}

/// Reference time = slope × host time + offset, from here to there on the host's clock.
#[derive(Serialize)]
struct PieceJson {
    from_ns: String,
    to_ns: String,
    slope: String,
    offset_ns: String,
    error_ns: Option<u64>,
}

#[derive(Serialize)]
struct PairJson {
    a: String,
    b: String,
    matched: u64,
    /// From a to b, and back.
    matched_each_way: [u64; 2],
    ambiguous: u64,
    inversions: u64,
    error_ns: Option<u64>,
    quality: &'static str,
}

/// Writes the clocks.
///
/// # Errors
/// Those of `out`.
pub fn sync(synchronised: &Synchronised, out: &mut dyn Write) -> io::Result<()> {
    let clocks = &synchronised.clocks;
    let id = |host: usize| synchronised.hosts.get(host).map(|host| text(host.boot_id.as_bytes()));
    let ns = |error: ErrorBound| error.ns();
    let host = |(of, clock): (&Host, &HostClock)| HostJson {
        host: text(of.boot_id.as_bytes()),
        name: text(of.name.bytes()),
        quality: wording::quality_word(clock.quality),
        error_ns: ns(clock.error),
        pieces: clock.transform.iter().flat_map(|transform| transform.pieces()).map(piece).collect(),
    };
    let pair = |pair: &Pair| PairJson {
        a: id(pair.a).unwrap_or_default(),
        b: id(pair.b).unwrap_or_default(),
        matched: pair.matched.iter().sum(),
        matched_each_way: pair.matched,
        ambiguous: pair.ambiguous,
        inversions: pair.inversions,
        error_ns: ns(pair.error),
        quality: wording::quality_word(pair.quality),
    };
    let document = SyncJson {
        schema: "wakepath.sync/1",
        reference: clocks.reference.and_then(id),
        hosts: synchronised.hosts.iter().zip(&clocks.hosts).map(host).collect(),
        pairs: clocks.pairs.iter().map(pair).collect(),
    };
    super::write(out, &document)
}

fn piece(piece: &wakepath_clock::Piece) -> PieceJson {
    PieceJson {
        from_ns: piece.from.to_string(),
        to_ns: piece.to.to_string(),
        slope: piece.line.slope_decimal(),
        offset_ns: piece.line.offset_decimal(),
        error_ns: piece.error.ns(),
    }
}

#[cfg(test)]
mod tests {
    use wakepath_clock::{Line, Local, Quality, Reference, Transform};
    use wakepath_engine::{Name, Synchronisation};

    use super::*;
    use crate::json::shape::misfits;

    /// A host with a clock of its own, and one that nothing links.
    fn example() -> Synchronised {
        let host = |name: &str| Host { boot_id: name.to_owned(), name: Name::from(name), ..Host::default() };
        let line = Line::new(1 << 60, -5).expect("a line");
        let clock = |quality, error, transform| HostClock { quality, error, transform, way: Vec::new() };
        let transform: Transform<Local, Reference> = Transform::line(line, ErrorBound::Within(7));
        let pair = Pair {
            a: 0,
            b: 1,
            matched: [3, 4],
            ambiguous: 1,
            inversions: 0,
            quality: Quality::OneWay,
            error: ErrorBound::Unbounded,
            transform: None,
        };
        let hosts = vec![
            clock(Quality::Exact, ErrorBound::Within(7), Some(transform)),
            clock(Quality::None, ErrorBound::Unbounded, None),
        ];
        let clocks = Synchronisation { reference: Some(0), hosts, pairs: vec![pair] };
        Synchronised { sources: vec!["a".into(), "b".into()], hosts: vec![host("a"), host("b")], clocks }
    }

    #[test]
    fn documents_keep_the_contract() {
        let mut out = Vec::new();
        sync(&example(), &mut out).expect("a vector takes everything");
        let document: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(misfits(include_str!("../../contract/sync.txt"), &document), Vec::<String>::new());
        let piece = &document["hosts"][0]["pieces"][0];
        assert_eq!((&piece["slope"], &piece["error_ns"]), (&"1".into(), &7.into()));
        assert!(document["pairs"][0]["error_ns"].is_null() && document["hosts"][1]["error_ns"].is_null());
    }
}
