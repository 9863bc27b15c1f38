//! Several hosts' clocks, as JSON.

use std::io::{self, Write};

use serde::Serialize;
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
/// Write errors on `out`.
pub fn sync(synchronised: &Synchronised, out: &mut dyn Write) -> io::Result<()> {
    let clocks = &synchronised.clocks;
    let id = |host: usize| synchronised.hosts.get(host).map(|host| text(host.boot_id.as_bytes()));
    let host = |(of, clock): (&Host, &HostClock)| HostJson {
        host: text(of.boot_id.as_bytes()),
        name: text(of.name.bytes()),
        quality: wording::quality(clock.quality).0,
        error_ns: clock.error.ns(),
        pieces: clock.transform.iter().flat_map(|transform| transform.pieces()).map(piece).collect(),
    };
    let pair = |pair: &Pair| PairJson {
        a: id(pair.a).unwrap_or_default(),
        b: id(pair.b).unwrap_or_default(),
        matched: pair.matched.iter().sum(),
        matched_each_way: pair.matched,
        ambiguous: pair.ambiguous,
        inversions: pair.inversions,
        error_ns: pair.error.ns(),
        quality: wording::quality(pair.quality).0,
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
    use super::*;
    use crate::json::shape::{document, golden};
    use crate::sample::synchronised;

    #[test]
    fn documents_keep_the_contract() {
        let document = document(include_str!("../../contract/sync.txt"), |out| sync(&synchronised(), out));
        golden(&document, &expect_test::expect_file!["../../tests/golden/sync.json"]);
        let [web, slow] = [0, 1].map(|host| &document["hosts"][host]["pieces"][0]);
        assert_eq!((&web["slope"], &slow["error_ns"]), (&"1".into(), &19_000_000.into()));
        assert!(document["pairs"][2]["error_ns"].is_null() && document["hosts"][4]["error_ns"].is_null());
    }
}
