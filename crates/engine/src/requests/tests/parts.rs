//! Requests' paths in a bounded number of parts.

use super::*;

/// `a` runs, waits for `b`, which works for another request and waits for a sleeper of the kernel, and runs again.
const CHAIN: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11 blocked
    thread w tid=13 blocked kernel
    0 c0 idle started
    0 c0 idle switch a
    100 c0 a waking b
    100 c1 idle switch b
    110 c0 a switch idle blocked
    300 c1 b waking w
    300 c3 idle switch w
    310 c1 b switch idle blocked
    600 c3 w waking b
    600 c1 idle switch b
    610 c3 w switch idle blocked
    800 c1 b waking a
    805 c0 idle switch a
    810 c1 b switch idle blocked
    900 c0 a switch idle blocked
    1000 c0 idle stopped
";

/// A request's path in at most this many long parts: each with its length, its time by kind, the measured share and its blocker.
fn parts_of(made: &Made, most: usize) -> String {
    let joined = made.joined();
    let answer = request(&joined, made.request("a/a"), Algorithm::Active);
    let path = answer.path.as_ref().expect("a path");
    let parts = path.parts(most);
    let mut until = path.pieces[0].from;
    let mut place = 0;
    let texts = parts.iter().map(|part| {
        assert_eq!((part.from, part.pieces.start), (until, place), "the parts tile the path");
        (until, place) = (part.to, part.pieces.end);
        let kinds = path.kinds(part);
        assert_eq!(kinds.iter().map(|(_, ns)| ns).sum::<u64>(), part.length_ns());
        assert!(kinds.is_sorted_by_key(|(_, ns)| std::cmp::Reverse(*ns)), "{kinds:?}");
        let kinds: Vec<_> = kinds.iter().map(|(kind, ns)| format!("{kind:?} {ns}")).collect();
        let basis = path.basis(part);
        assert_eq!(basis.measured + basis.inferred, part.length_ns());
        let inferred = match basis.inferred {
            0 => String::new(),
            ns => format!(" ({ns} inferred)"),
        };
        let by = path.blocker(part).map(|request| format!(" by {}", made.root(request)));
        let missing = path.missing_blocker(part).map(|trace| format!(" by missing {:x}", trace.0[0] >> 4));
        let mixed = if part.is_uniform { "" } else { "mixed " };
        let blocker = by.or(missing).unwrap_or_default();
        format!("{mixed}{}{inferred}{blocker}", kinds.join(" + "))
    });
    let texts: Vec<_> = texts.collect();
    assert_eq!(
        (until, place),
        (answer.path.as_ref().expect("a path").answer.path.window.to, path.pieces.len())
    );
    texts.join(", ")
}

#[test]
fn a_path_in_few_parts_keeps_the_longest_ones_and_joins_the_others_between_them() {
    let own = "service s\na/a 1000000..1000900 tid=10";
    let by_b = made(CHAIN, &format!("{own}\nb/b 1000150..1000700 tid=11"));
    for (most, expected) in [
        (
            9,
            "Running 110, Running 40, Running 160 by b/b, Running 290 by b/b, Running 100 by b/b, Running 100, Runnable 5, Running 95",
        ),
        (
            3,
            "Running 110, Running 40, Running 160 by b/b, Running 290 by b/b, mixed Running 295 + Runnable 5",
        ),
        (2, "mixed Running 150, Running 160 by b/b, Running 290 by b/b, mixed Running 295 + Runnable 5"),
        (1, "mixed Running 310, Running 290 by b/b, mixed Running 295 + Runnable 5"),
        (0, "mixed Running 895 + Runnable 5"),
    ] {
        assert_eq!(parts_of(&by_b, most), expected, "{most}");
    }
}

#[test]
fn a_part_of_a_path_has_one_blocker_and_one_request_throughout() {
    let own = "service s\na/a 1000000..1000900 tid=10";
    for (spans, expected) in [
        // The other request ends within a wait.
        (
            "b/b 1000150..1000450 tid=11",
            "Running 110, Running 40, Running 160 by b/b, Running 290 by b/b, Running 200, Runnable 5, Running 95",
        ),
        // A span within the request is no part of its own.
        (
            "a/b < a 1000020..1000060 tid=10",
            "Running 110, Running 200, Running 290, Running 200, Runnable 5, Running 95",
        ),
        // A part of the request itself blocks nothing.
        (
            "service t\na/b < a 1000150..1000450 server tid=11",
            "Running 110, Running 40, Running 160, Running 290, Running 200, Runnable 5, Running 95",
        ),
    ] {
        assert_eq!(parts_of(&made(CHAIN, &format!("{own}\n{spans}")), 9), expected, "{spans}");
    }
    let said = CHAIN
        .replace("300 c1 b waking w", "300 c1 b context 7/7 unsampled\n300 c1 b waking w")
        .replace("310 c1 b switch", "310 c1 b context 7/7 unsampled\n310 c1 b switch")
        .replace("800 c1 b waking", "800 c1 b context 7/7 unsampled\n800 c1 b waking");
    assert_eq!(
        parts_of(&made(&said, own), 9),
        "Running 110, Running 190, Running 10 by missing 7, Running 290 by missing 7, Running 200 by missing 7, Runnable 5, Running 95"
    );
    assert_eq!(
        parts_of(&made(&said, own), 1),
        "mixed Running 310, Running 290 by missing 7, mixed Running 295 + Runnable 5"
    );
}
