//! An operation's requests together.

use super::*;

#[test]
fn a_group_is_of_a_peak_there_is_and_has_the_clocks_of_its_own_service() {
    let mut hosts = String::from(
        "host web3 realtime=1000000
         thread a tid=10
         thread b tid=11
         0 c0 idle started
         0 c0 idle switch a
         0 c1 idle switch b
         150 c0 a context 1/1
         150 c0 a waking a
         190 c0 a context none
         190 c0 a waking a
         1150 c1 b context f/f
         1150 c1 b waking b
         1190 c1 b context none
         1190 c1 b waking b\n",
    );
    hosts += "90000 c0 a switch idle blocked\n90000 c1 b switch idle blocked\n90001 c0 idle stopped\n";
    let mut spans = String::from("service s host=web3\n");
    for digit in 1..15_u64 {
        let (from, length) = (1_000_000 + digit * 5000, if digit > 10 { 4000 } else { 100 });
        let from = if digit == 1 { 1_000_100 } else { from };
        spans += &format!("{digit:x}/{digit:x} {from}..{} tid=10 as=GET\n", from + length);
    }
    spans += "service t host=web3\nf/f 1001100..1001200 tid=11";
    let made = made(&hosts, &spans);
    let joined = made.joined();
    let services: Vec<_> = joined.contexts.clocks.iter().map(|clock| clock.service.0).collect();
    assert_eq!(services, [0, 1], "both services' clocks are known");
    let group = |peak| {
        let requests = RequestsQuery { service: Some("s".into()), operation: Some("GET".into()) };
        request_group(&joined, &GroupQuery { requests, peak, algorithm: Algorithm::default() }, None)
    };
    let slow = group(Some(2)).expect("a second peak");
    assert_eq!((slow.paths.asked, slow.paths.usual), (4, 10));
    assert_eq!(slow.clocks.iter().map(|clock| clock.service.0).collect::<Vec<_>>(), [0]);
    let usual = slow.calls.usual.as_ref().map(|(peak, usual)| (*peak, usual.paths.len()));
    assert_eq!(usual, Some((Some(1), 10)), "the usual ones are those of the first peak");
    // There is nothing beside the peak with most of the requests.
    let most = group(Some(1)).expect("a first peak");
    assert_eq!((most.paths.asked, most.paths.usual), (10, 0));
    assert!(most.calls.usual.is_none() && most.other.is_none());
    let clocks = |service: Option<&str>| {
        let query = RequestsQuery { service: service.map(String::from), operation: None };
        let ranked = requests(&made.recorded, &made.traced, &query).expect("requests").requests;
        let answer = requests_by_cause(&joined, &ranked, 100, Algorithm::default(), |_| {});
        answer.clocks.iter().map(|clock| clock.service.0).collect::<Vec<_>>()
    };
    assert_eq!((clocks(Some("s")), clocks(Some("t")), clocks(None)), (vec![0], vec![1], vec![0, 1]));
    for asked in [0, 3, 4] {
        assert_eq!(group(Some(asked)).err(), Some(RequestsError::NoPeak { asked, there: 2 }));
    }
}

/// Each of three requests of `a` runs for 100, waits for `b` for 400, and runs for 100. `b` works for a PUT for the first 100 of the wait, for
/// another for the next 200, and for a DELETE for the rest.
fn blocked() -> Made {
    let mut host = String::from(
        "host web3 realtime=1000000\nthread a tid=10\nthread b tid=11 blocked\n0 c0 idle started\n0 c0 idle switch a\n",
    );
    let mut spans = String::from("service bank\n");
    for nth in 0..3_u64 {
        let at = 10_000 * (nth + 1);
        host += &format!("{0} c0 a waking b\n{0} c1 idle switch b\n{0} c0 a switch idle blocked\n", at + 100);
        host += &format!("{0} c1 b waking a\n{0} c0 idle switch a\n{0} c1 b switch idle blocked\n", at + 500);
        let wall = 1_000_000 + at;
        let [get, first, second, third] = [1, 5, 9, 13].map(|digit| digit + nth);
        spans += &format!("{get:x}/1 {wall}..{} tid=10 as=GET\n", wall + 600);
        for (id, as_what, from, to) in
            [(first, "PUT", 100, 200), (second, "PUT", 200, 400), (third, "DELETE", 400, 500)]
        {
            spans += &format!("{id:x}/1 {}..{} tid=11 as={as_what}\n", wall + from, wall + to);
        }
    }
    host += "50000 c0 a switch idle blocked\n50001 c0 idle stopped";
    made(&host, &spans)
}

#[test]
fn the_requests_that_block_a_group_are_added_up_by_operation_for_the_group_and_for_the_usual_ones() {
    let made = blocked();
    let joined = made.joined();
    let requests = RequestsQuery { service: Some("bank".into()), operation: Some("GET".into()) };
    let query = GroupQuery { requests, peak: None, algorithm: Algorithm::Active };
    let blockers = |answer: &GroupAnswer<'_>| -> Vec<_> {
        let row = |one: &Blocker| match &one.of {
            BlockerOf::Operation(operation) => (operation.name.to_string(), one.total_ns, one.blocked),
            other => panic!("{other:?}"),
        };
        answer.blocked_by.iter().map(row).collect()
    };
    let per_group = |asked, usual| wakepath_findings::PerGroup { asked, usual };
    let alone = request_group(&joined, &query, None).expect("a group");
    assert_eq!((alone.paths, alone.without_path.asked.total()), (per_group(3, 0), 0));
    assert_eq!(
        blockers(&alone),
        [
            ("PUT".into(), per_group(900, 0), per_group(3, 0)),
            ("DELETE".into(), per_group(300, 0), per_group(3, 0))
        ]
    );
    // Beside another recording, whose requests are the same here.
    let beside = request_group(&joined, &query, Some(&joined)).expect("a group");
    assert_eq!((beside.paths, beside.other.is_some()), (per_group(3, 3), true));
    let usual = beside.calls.usual.as_ref().map(|(peak, usual)| (*peak, usual.paths.len()));
    assert_eq!(usual, Some((None, 3)));
    let mut rows = blockers(&beside);
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        rows,
        [
            ("DELETE".into(), per_group(300, 300), per_group(3, 3)),
            ("PUT".into(), per_group(900, 900), per_group(3, 3))
        ]
    );
}

#[test]
fn half_and_99_of_100_requests_took_no_longer_than_the_quantiles() {
    for (lengths, p50, p99) in [
        ((7..=7).collect::<Vec<u64>>(), 7, 7),
        ((1..=2).collect(), 1, 2),
        ((1..=3).collect(), 2, 3),
        ((1..=99).collect(), 50, 99),
        ((1..=100).collect(), 50, 99),
        ((1..=101).collect(), 51, 100),
        ((1..=200).collect(), 100, 198),
    ] {
        let mut spans = String::from("service s\n");
        lengths.iter().for_each(|length| spans += &format!("1/1 1000..{} as=GET\n", 1000 + length));
        let traced = wakepath_joining::testing::traced(&spans, Vec::new());
        let answer = requests_alone(&traced, &RequestsQuery::default()).expect("requests");
        let [one] = answer.operations.as_slice() else { panic!("one operation") };
        assert_eq!((one.p50_ns, one.p99_ns), (p50, p99), "{} requests", lengths.len());
        assert_eq!(Some(&one.max_ns), lengths.last());
        assert_eq!(traced.root(one.slowest).length_ns(), one.max_ns);
    }
}
