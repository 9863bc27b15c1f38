//! Two real machines: an scp between virtual machines, traced with LTTng. Packets have a sequence number,
//! an acknowledgement and flags, and no addresses (Trace Compass's public test traces).
//!
//! Needs `WAKEPATH_TRACES`, a directory with `scp_src` and `scp_dest`, and babeltrace2, whose text is read.

use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_clock::{ErrorBound, Local, Quality, Stamp};
use wakepath_event::{Direction, FlowId, Packet};
use wakepath_packets::Traffic;
use wakepath_sync::{Host, Options, synchronise};

/// A trace's packets, and the stamps of its first event and its last.
struct Trace {
    traffic: Vec<Traffic>,
    window: (Stamp<Local>, Stamp<Local>),
}

fn trace(path: &Path) -> Trace {
    // Without its muxer, which gives up at the packets' bounds.
    let output = Command::new("babeltrace2")
        .args(["run", "--component=in:source.ctf.fs"])
        .arg(format!("--params=inputs=[\"{}\"]", path.display()))
        .args(["--component=out:sink.text.pretty", "--params=clock-seconds=true,no-delta=true"])
        .arg("--connect=in:out")
        .output()
        .expect("babeltrace2 can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let events: Vec<(Stamp<Local>, &str)> = text.lines().filter_map(event).collect();
    let at = |event: Option<&(Stamp<Local>, &str)>| event.expect("events").0;
    let window = (at(events.first()), at(events.last()));
    let traffic = events.iter().filter_map(|&(at, rest)| packet(at, rest)).collect();
    Trace { traffic, window }
}

/// `[SECONDS.NANOSECONDS] HOST NAME: …`
fn event(line: &str) -> Option<(Stamp<Local>, &str)> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (seconds, ns) = stamp.split_once('.')?;
    let stamp = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
    Some((Stamp::from_ns(stamp), rest))
}

fn packet(at: Stamp<Local>, rest: &str) -> Option<Traffic> {
    let name = rest.split(' ').nth(1)?;
    let direction = match name {
        "inet_sock_local_in:" => Direction::In,
        "inet_sock_local_out:" => Direction::Out,
        _ => return None,
    };
    let field = |name: &str| {
        let (_, value) = rest.split_once(&format!(" {name} = 0x"))?;
        let digits = value.split([',', ' ']).next()?;
        u32::from_str_radix(digits, 16).ok()
    };
    Some(Traffic::Packet(
        at,
        Packet {
            flow: FlowId(0),
            direction,
            seq: field("seq")?,
            ack: field("ack_seq")?,
            len: 0,
            tcp_flags: field("flags")? as u16,
            netns: 0,
            interface: 0,
        },
    ))
}

/// The result of another convex-hull implementation, from `scp_src` to `scp_dest`.
fn other_tools(stamp: u64) -> i128 {
    let (slope, offset) = (99_994_137_837_030_i128, 79_796_507_913_179_333_i128);
    (i128::from(stamp) * slope / 100_000_000_000_000 * 1000 + offset) / 1000
}

#[test]
fn the_scp_pair_matches_46_packets_and_agrees_with_what_others_found() {
    let Some(traces) = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from) else {
        eprintln!(
            "skipped: not possible here: WAKEPATH_TRACES does not name scp_src and scp_dest; would show that real clocks are found"
        );
        return;
    };
    let traces = [trace(&traces.join("scp_dest")), trace(&traces.join("scp_src"))];
    let hosts = [0, 1].map(|i| Host { source: &traces[i].traffic, window: Some(traces[i].window) });
    let sync = synchronise(&hosts, &Options { reference: Some(0), ..Options::default() });
    let pair = &sync.pairs[0];
    println!(
        "{:?} matched, {} ambiguous, {:?}, error {:?}",
        pair.matched, pair.ambiguous, pair.quality, sync.hosts[1].error
    );
    assert!(pair.matched[0] + pair.matched[1] >= 46, "{:?}", pair.matched);
    assert_eq!((pair.inversions, pair.quality), (0, Quality::Exact));
    let source = sync.hosts[1].transform.as_ref().expect("linked");
    for piece in source.pieces() {
        println!(
            "{} to {}: {} × + {}, {:?}",
            piece.from,
            piece.to,
            piece.line.slope_decimal(),
            piece.line.offset_decimal(),
            piece.error
        );
    }
    let (from, to) = traces[1].window;
    for stamp in (0..=100).map(|i| from.ns() + (to.ns() - from.ns()) / 100 * i) {
        let (at, error) = source.convert(Stamp::from_ns(stamp));
        let ErrorBound::Within(error) = error else { panic!("traffic went both ways") };
        let theirs = other_tools(stamp);
        let apart = (i128::from(at.ns()) - theirs).unsigned_abs();
        // A slope with fourteen digits leaves 7 µs open at 1.4 × 10^18 ns.
        assert!(apart <= u128::from(error) + 7_000, "{apart} ns apart at {stamp}, error {error}");
    }
}
