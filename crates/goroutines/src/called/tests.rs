//! Drawn calls: goroutine 0 calls, 1 reads its connection, 2 is the called request.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Rule, SegmentKind, Via};

use crate::drawn::{Drawn, drawn, drawn_over, stamp};
use crate::{Called, Callee, Calls, GoroutineIndex};

/// A call by goroutine 0, open between two columns.
struct Open {
    caller: GoroutineIndex,
    columns: (usize, usize),
    called: Called,
    /// Whether the reader works for another request.
    is_other: bool,
}

impl Calls for Open {
    fn call(
        &self,
        caller: GoroutineIndex,
        reader: Option<GoroutineIndex>,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<Called> {
        let (began, ended) = self.columns;
        let is_within = stamp(began) <= from && to <= stamp(ended);
        let is_for_other = self.is_other && reader.is_some();
        (caller == self.caller && is_within && !is_for_other).then_some(self.called)
    }
}

/// A call between two columns, and its request with `callee` between two others.
fn open(drawn: &Drawn, columns: (usize, usize), callee: Callee, (from, to): (usize, usize)) -> Open {
    let called = Called { callee, from: stamp(from), to: stamp(to) };
    Open { caller: drawn.goroutine(0), columns, called, is_other: false }
}

/// The path of goroutine 0, whose call goroutine 2 answers.
#[track_caller]
fn check(drawing: &str, columns: (usize, usize), request: (usize, usize), expected: &str) {
    let drawn = drawn(drawing, &[]);
    let calls = open(&drawn, columns, Callee::Goroutine(drawn.goroutine(2)), request);
    let path = drawn.path_with(0, (0, 16), &calls);
    assert_eq!(drawn.letters(&path.path, &path.goroutines), expected, "{drawing}");
}

const HANDED_ON: &str = "0 ==ccccccccc1====
                         1 =iiiiiiiip======
                         2 ===ssst=========";

#[test]
fn an_answer_that_the_connections_reader_hands_on_ends_a_wait_for_the_called_request() {
    check(HANDED_ON, (1, 16), (3, 8), "00ntttt2nn110000");
    // Until its reader had it, the answer was on its way.
    check(HANDED_ON, (1, 16), (3, 10), "00ntttt222110000");
    // The request had begun before, and goes on.
    check(HANDED_ON, (1, 16), (0, 16), "002tttt222110000");
}

#[test]
fn a_reader_may_wait_for_the_connection_since_before_the_recording() {
    check(
        "0 ==ccccccccc1====
         1 ??????????======
         2 ===ssst=========",
        (1, 16),
        (3, 8),
        "00ntttt2nn110000",
    );
    // A new goroutine waited for nothing.
    check(
        "0 ==ccccccccc1====
         1<3 __________======
         2 ===ssst=========
         3 ================",
        (1, 16),
        (3, 8),
        "0033333333110000",
    );
}

#[test]
fn a_caller_may_read_its_answer_itself() {
    check(
        "0 ==iiiiiiip======
         1 ================
         2 ===ssst=========",
        (1, 16),
        (3, 8),
        "00ntttt2nn000000",
    );
}

#[test]
fn a_park_within_a_call_that_no_answer_ended_is_left_as_it_is() {
    // A lock, another goroutine without an answer, a time-out, and a sleep.
    for (caller, reader, expected) in [
        ("==lllllllll1====", "=iiiiiiiip======", "00nnnnnnnn110000"),
        ("==ccccccccc1====", "=sssssssst======", "00tttttttt110000"),
        ("==ccccccccc1====", "=ccccccccp======", "00????????110000"),
        ("==ccccccccct====", "=iiiiiiiip======", "00tttttttttt0000"),
        ("==ssssssssst====", "=iiiiiiiip======", "00tttttttttt0000"),
        ("==ccccccccc1====", "================", "0011111111110000"),
    ] {
        let drawing = format!("0 {caller}\n1 {reader}\n2 ===ssst=========");
        check(&drawing, (1, 16), (3, 8), expected);
    }
}

#[test]
fn a_called_request_outside_the_park_does_not_explain_it() {
    let expected = "00nnnnnnnn110000";
    // It ended before, began behind its reader, or the call was not open all the time.
    check(HANDED_ON, (1, 16), (0, 2), expected);
    check(HANDED_ON, (1, 16), (10, 12), expected);
    check(HANDED_ON, (3, 16), (3, 8), expected);
    check(HANDED_ON, (1, 9), (3, 8), expected);
    check(HANDED_ON, (1, 10), (3, 8), "00ntttt2nn110000");
    // Nothing is said of a call there.
    for request in [(0, 2), (10, 12), (12, 14)] {
        let drawn = drawn(HANDED_ON, &[]);
        let calls = open(&drawn, (1, 16), Callee::Goroutine(drawn.goroutine(2)), request);
        let path = drawn.path_with(0, (0, 16), &calls).path;
        assert_eq!((path.waits[0].basis, path.waits[0].via), (Basis::Measured, Via::Wakeup), "{request:?}");
    }
}

#[test]
fn a_goroutine_that_works_for_another_request_has_read_no_answer() {
    let drawn = drawn(HANDED_ON, &[]);
    let callee = Callee::Goroutine(drawn.goroutine(2));
    let calls = Open { is_other: true, ..open(&drawn, (1, 16), callee, (3, 8)) };
    let path = drawn.path_with(0, (0, 16), &calls);
    assert_eq!(drawn.letters(&path.path, &path.goroutines), "00nnnnnnnn110000");
}

#[test]
fn time_below_a_call_is_inferred_and_its_readers_own_time_is_not() {
    let drawn = drawn(HANDED_ON, &[]);
    let calls = open(&drawn, (1, 16), Callee::Goroutine(drawn.goroutine(2)), (3, 8));
    let path = drawn.path_with(0, (0, 16), &calls).path;
    let inferred = Basis::Inferred(Rule::CalledRequest);
    assert_eq!((path.waits[0].basis, path.waits[0].via), (inferred, Via::Packet));
    assert_eq!((path.waits[0].from, path.waits[0].to), (stamp(2), stamp(12)));
    for segment in &path.segments {
        let expected = match (segment.kind, segment.depth) {
            (SegmentKind::Network, _) => Basis::Ambiguous,
            (SegmentKind::Timer, _) => inferred,
            _ if segment.depth == 1 && segment.from < stamp(10) => inferred,
            _ => Basis::Measured,
        };
        assert_eq!((segment.basis, segment.depth <= 1), (expected, true), "{segment:?}");
    }
}

#[test]
fn a_called_thread_has_its_own_path_and_an_unknown_worker_has_none() {
    let (threads, drawing) = (
        "0 ================
         1 ================
         2 ====....========",
        "0 ==ccccccccc1====
         1 =iiiiiiiip======",
    );
    let drawn = drawn_over(threads, drawing);
    let calls = open(&drawn, (1, 16), Callee::Thread(drawn.thread(2)), (3, 9));
    let path = drawn.path_with(0, (0, 16), &calls);
    assert_eq!(drawn.letters(&path.path, &path.goroutines), "00n-????-n110000");
    let calls = open(&drawn, (1, 16), Callee::Unknown, (3, 9));
    let path = drawn.path_with(0, (0, 16), &calls);
    assert_eq!(drawn.letters(&path.path, &path.goroutines), "00nnnnnnnn110000");
    assert_eq!(path.path.waits[0].ended_by, None);
}

#[test]
fn requests_that_call_each_other_end() {
    let drawn = drawn(HANDED_ON, &[]);
    let calls = open(&drawn, (0, 16), Callee::Goroutine(drawn.goroutine(0)), (2, 10));
    let path = drawn.path_with(0, (0, 16), &calls);
    assert_eq!(drawn.letters(&path.path, &path.goroutines), "00nnnnnnnn110000");
}
