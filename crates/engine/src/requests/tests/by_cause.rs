//! The slowest requests, grouped by cause.

use wakepath_findings::Certainty;

use super::*;
use crate::requests::RequestHeadline;

/// A trace and its spans: requests in a row, each added with its times and work.
struct Story {
    at: u64,
    host: String,
    /// The spans by `shop`.
    spans: String,
    /// The spans by `bank`, which `shop` calls.
    called: String,
    traces: u64,
}

/// The clock's 0 on the realtime clock.
const REALTIME: u64 = 1_000_000;

impl Story {
    /// `a` serves requests; `b`, `c` and `d` are other processes; `d` is called `c`, too.
    fn new() -> Self {
        let host = "host web3 realtime=1000000
            thread a tid=10
            thread b tid=11 blocked
            thread c tid=12 blocked
            thread d tid=13
            0 c0 idle started
            0 c0 idle switch a
            0 c2 idle switch d
            1 c2 d rename d c
            2 c2 d switch idle blocked\n";
        Self {
            at: 1000,
            host: host.to_owned(),
            spans: String::from("service shop host=web3\n"),
            called: String::from("service bank host=web3\n"),
            traces: 0,
        }
    }

    fn span(&mut self, operation: &str, (from, to): (u64, u64), thread: Option<u32>) {
        self.traces += 1;
        let tid = thread.map_or(String::new(), |tid| format!(" tid={tid}"));
        let (trace, from, to) = (self.traces, REALTIME + from, REALTIME + to);
        self.spans += &format!("{trace:x}/1 {from}..{to} server as={operation}{tid}\n");
    }

    /// A request that runs for 100, waits while `other` runs for `ns`, and runs for 10.
    fn waits(&mut self, operation: &str, ns: u64, other: &str) -> (u64, u64) {
        let (at, cpu) = (self.at, if other == "b" { 1 } else { 2 });
        let (begin, end) = (at + 100, at + 100 + ns);
        self.host += &format!(
            "{begin} c0 a waking {other}
             {begin} c{cpu} idle switch {other}
             {begin} c0 a switch idle blocked call=0:3
             {end} c{cpu} {other} waking a
             {end} c0 idle switch a
             {end} c{cpu} {other} switch idle blocked\n"
        );
        self.span(operation, (at, end + 10), Some(10));
        self.at = end + 1000;
        (begin, end)
    }

    /// The same while the other thread works for another request.
    fn blocked(&mut self, operation: &str, by: &str, ns: u64) {
        let times = self.waits(operation, ns, "b");
        self.span(by, times, Some(11));
    }

    /// The same while the other thread works for a called request.
    fn calls(&mut self, operation: &str, called: &str, ns: u64) {
        let (from, to) = self.waits(operation, ns, "c");
        let (trace, from, to) = (self.traces, REALTIME + from, REALTIME + to);
        self.called += &format!("{trace:x}/2 < 1 {from}..{to} server tid=12 as={called}\n");
    }

    fn made(self) -> Made {
        let end = self.at;
        let host = self.host + &format!("{end} c0 a switch idle blocked\n{} c0 idle stopped", end + 1);
        made(&host, &(self.spans + &self.called))
    }
}

/// A group in a line: its cause, its requests with their lengths, the time due to the cause, the operations.
fn line(made: &Made, group: &CauseGroup<'_>) -> String {
    let name =
        |operation: OperationIndex| made.traced.spans.operations[operation.0 as usize].name.to_string();
    let cause = match &group.cause {
        RequestCause::Blocked(BlockerOf::Operation(operation)) => format!("blocked by {}", operation.name),
        RequestCause::Blocked(BlockerOf::WithoutSpans { sampled, .. }) => {
            format!("blocked, sampled {sampled}")
        }
        RequestCause::Path { key, called } => {
            let called = called.map_or(String::new(), |called| format!(" for {}", name(called)));
            format!("{key:?}{called}")
        }
        RequestCause::Spans { operation, is_outside } => {
            format!("spans {}{}", name(*operation), if *is_outside { " outside" } else { "" })
        }
        RequestCause::Empty => String::from("empty"),
    };
    let requests: Vec<_> = group.requests.iter().map(|(_, ns)| ns.to_string()).collect();
    let operations: Vec<_> =
        group.operations.iter().map(|(operation, count)| format!("{} {count}", name(*operation))).collect();
    assert_eq!(group.total_ns, group.requests.iter().map(|(_, ns)| ns).sum::<u64>());
    assert_eq!(group.requests.len() as u64, group.operations.iter().map(|(_, count)| count).sum::<u64>());
    let (requests, operations) = (requests.join(" "), operations.join(", "));
    format!("{cause}: {requests}; {} by {:?}; {operations}", group.cause_ns, group.certainty())
}

fn grouped(made: &Made, slowest: usize) -> Vec<String> {
    let joined = made.joined();
    let all = requests(&made.recorded, &made.traced, &RequestsQuery::default()).expect("requests");
    let answer = requests_by_cause(&joined, &all.requests, slowest, Algorithm::default(), |_| {});
    let count: usize = answer.groups.iter().map(|group| group.requests.len()).sum();
    assert_eq!(
        (answer.explained, count, answer.all),
        (count, slowest.min(all.requests.len()), all.requests.len())
    );
    answer.groups.iter().map(|group| line(made, group)).collect()
}

#[test]
fn requests_are_grouped_by_the_operation_that_blocked_them_most_time_first() {
    let mut story = Story::new();
    story.blocked("GET", "DELETE", 900);
    story.blocked("GET", "PUT", 3000);
    story.blocked("POST", "PUT", 2000);
    story.blocked("GET", "PUT", 4000);
    let made = story.made();
    let all = [
        "Caller: 4000 3000 2000 900; 9900 by Measured; PUT 3, DELETE 1",
        "blocked by PUT: 4110 3110 2110; 9000 by Inferred; GET 2, POST 1",
        "blocked by DELETE: 1010; 900 by Inferred; GET 1",
    ];
    assert_eq!(grouped(&made, 100), all);
    assert_eq!(grouped(&made, 8), all);
    let three =
        ["blocked by PUT: 4110 3110; 7000 by Inferred; GET 2", "Caller: 4000; 4000 by Measured; PUT 1"];
    assert_eq!(grouped(&made, 3), three);
    assert_eq!(grouped(&made, 0), Vec::<String>::new());
}

#[test]
fn an_operation_blocks_by_all_of_its_requests_together() {
    let mut story = Story::new();
    let (from, _) = story.waits("GET", 1000, "b");
    for (by, begin, end) in [("PUT", 0, 300), ("DELETE", 300, 700), ("PUT", 700, 1000)] {
        story.span(by, (from + begin, from + end), Some(11));
    }
    let made = story.made();
    let joined = made.joined();
    let all = requests(&made.recorded, &made.traced, &RequestsQuery::default()).expect("requests");
    let answer = request(&joined, all.requests[0], Algorithm::default());
    let RequestHeadline::Blocked(first) = answer.headline() else { panic!("it is blocked") };
    assert_eq!(first.total_ns(), 400, "no single request blocked it longer than DELETE");
    assert_eq!(grouped(&made, 1), ["blocked by PUT: 1110; 600 by Inferred; GET 1"]);
}

#[test]
fn the_first_operation_is_the_cause_where_two_blocked_equally_long() {
    let mut story = Story::new();
    let (from, _) = story.waits("GET", 1000, "b");
    for (by, begin, end) in [("PUT", 0, 500), ("DELETE", 500, 1000)] {
        story.span(by, (from + begin, from + end), Some(11));
    }
    assert_eq!(grouped(&story.made(), 1), ["blocked by DELETE: 1110; 500 by Inferred; GET 1"]);
}

#[test]
fn a_request_that_others_blocked_for_less_than_a_tenth_has_its_paths_cause() {
    for (ns, expected) in
        [(13, "blocked by PUT: 123; 13 by Inferred; GET 1"), (12, "Caller: 122; 110 by Measured; GET 1")]
    {
        let mut story = Story::new();
        story.blocked("GET", "PUT", ns);
        assert_eq!(grouped(&story.made(), 1), [expected]);
    }
}

#[test]
fn requests_without_spans_that_block_are_a_cause_of_their_own() {
    for (flag, sampled) in [(" unsampled", false), ("", true)] {
        let mut story = Story::new();
        story.host +=
            &format!("10 c1 idle switch b\n11 c1 b context f/f{flag}\n12 c1 b switch idle blocked\n");
        story.waits("GET", 1000, "b");
        let expected = format!("blocked, sampled {sampled}: 1110; 1000 by Inferred; GET 1");
        assert_eq!(grouped(&story.made(), 1), [expected]);
    }
}

#[test]
fn groups_stand_by_the_time_due_to_their_cause_not_by_their_requests_time() {
    let mut story = Story::new();
    let (from, _) = story.waits("GET", 1000, "b");
    for (by, begin, end) in [("PUT", 0, 550), ("DELETE", 550, 1000)] {
        story.span(by, (from + begin, from + end), Some(11));
    }
    story.waits("ASK", 600, "c");
    assert_eq!(
        grouped(&story.made(), 2),
        ["Process(\"c\", None): 710; 600 by Measured; ASK 1", "blocked by PUT: 1110; 550 by Inferred; GET 1"]
    );
}

/// Waits for processes with the same name and for called requests, and requests without a path.
fn several() -> Made {
    let mut story = Story::new();
    story.waits("ASK", 5000, "c");
    story.waits("ASK", 500, "d");
    story.calls("ASK", "RATE", 4000);
    story.calls("ASK", "RATE", 2000);
    story.calls("ASK", "PRICE", 7000);
    story.waits("ASK", 50, "c");
    story.span("LOST", (story.at - 900, story.at - 100), None);
    story.span("OUT", (1_000_000, 1_090_000), Some(10));
    story.span("OUT", (1_000_000, 1_020_000), None);
    story.span("NONE", (1000, 1000), Some(10));
    story.made()
}

#[test]
fn requests_are_grouped_by_their_paths_largest_cause_and_by_the_operation_that_they_called() {
    assert_eq!(
        grouped(&several(), 100),
        [
            "Caller: 7000 4000 2000 160; 13110 by Measured; RATE 2, ASK 1, PRICE 1",
            "Process(\"c\", None) for PRICE: 7110; 7000 by Measured; ASK 1",
            "Process(\"c\", None) for RATE: 4110 2110; 6000 by Measured; ASK 2",
            "Process(\"c\", None): 5110 610; 5500 by Measured; ASK 2",
            "spans LOST: 800; 800 by Inferred; LOST 1",
            "empty: 0; 0 by Inferred; NONE 1",
            // The largest, from another time.
            "spans OUT outside: 90000 20000; 110000 by Inferred; OUT 2",
        ]
    );
}

#[test]
fn a_group_has_its_slowest_request_as_example_and_all_requests_processes() {
    let made = several();
    let joined = made.joined();
    let all = requests(&made.recorded, &made.traced, &RequestsQuery::default()).expect("requests");
    let mut progress = Vec::new();
    let answer =
        requests_by_cause(&joined, &all.requests, 9, Algorithm::default(), |done| progress.push(done));
    assert_eq!(progress, (0..9).collect::<Vec<_>>());
    for group in &answer.groups {
        let example = group.example.as_ref().expect("an example");
        assert_eq!(example.request, group.slowest());
        assert!(group.requests.iter().all(|(_, ns)| *ns <= group.requests[0].1));
    }
    let to_c = |group: &&CauseGroup<'_>| matches!(group.cause, RequestCause::Path { called: None, .. });
    let group = answer.groups.iter().filter(to_c).find(|group| group.cause_ns == 5500).expect("a group");
    let processes: Vec<_> = group.row.processes.iter().map(|process| process.number()).collect();
    assert_eq!((processes, group.row.threads.len(), group.called_ns), (vec![12, 13], 2, 0));
    let called: Vec<_> = answer.groups.iter().map(|group| group.called_ns).filter(|ns| *ns > 0).collect();
    assert_eq!(called, [7000, 6000]);
    // The last to end has no path.
    let (from, to) = answer.times.expect("times");
    assert_eq!(
        (answer.without_path.to_string(), from.stamp().ns()),
        ("the thread is not known".into(), 1000)
    );
    assert_eq!(to.stamp().ns(), made.recorded.to().ns() - 101);
    let whole = requests_by_cause(&joined, &all.requests, 100, Algorithm::default(), |_| {});
    assert_eq!(
        whole.without_path.to_string(),
        "not all of the time was recorded (2), the length is 0 (1), the thread is not known (1)"
    );
}

#[test]
fn a_cause_is_most_of_a_groups_time_above_half_of_it() {
    let made = several();
    let all = requests(&made.recorded, &made.traced, &RequestsQuery::default()).expect("requests");
    let joined = made.joined();
    let mut answer = requests_by_cause(&joined, &all.requests, 1, Algorithm::default(), |_| {});
    let group = &mut answer.groups[0];
    for (cause_ns, expected) in [(500, false), (501, true)] {
        (group.cause_ns, group.total_ns) = (cause_ns, 1000);
        assert_eq!(group.is_most(), expected);
    }
}

#[test]
fn equal_groups_stand_by_their_number_of_requests_and_then_by_their_causes_order() {
    let mut story = Story::new();
    story.blocked("GET", "PUT", 3000);
    story.blocked("GET", "DELETE", 1000);
    story.blocked("GET", "DELETE", 2000);
    story.blocked("GET", "POST", 3000);
    let causes: Vec<_> = grouped(&story.made(), 100)
        .iter()
        .map(|line| line.split(':').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(causes, ["Caller", "blocked by DELETE", "blocked by POST", "blocked by PUT"]);
}

#[test]
fn spans_alone_are_grouped_by_the_operation_with_the_most_own_time() {
    let spans = "service shop
        1/1 1000..1600 as=GET
        1/2 < 1 1100..1500 as=SELECT
        2/1 1000..1500 as=GET
        2/2 < 1 1100..1300 as=SELECT
        3/1 1000..1900 as=PUT
        3/2 < 1 1000..1800 as=SELECT
        4/1 1000..1000 as=PUT
        5/1 0..18446744073709551615 as=HUGE
        6/1 0..18446744073709551615 as=HUGE";
    let traced = wakepath_joining::testing::traced(spans, Vec::new());
    let all = requests_alone(&traced, &RequestsQuery::default()).expect("requests");
    let answer = requests_by_cause_alone(&traced, &all.requests, 5);
    assert_eq!((answer.all, answer.explained), (6, 5));
    assert!(answer.head.is_none() && answer.groups.iter().all(|group| group.example.is_none()));
    let row = |group: &CauseGroup<'_>| {
        let RequestCause::Spans { operation, is_outside: false } = group.cause else { panic!("by spans") };
        let name = &traced.spans.operations[operation.0 as usize].name;
        assert_eq!(group.certainty(), Certainty::Inferred);
        format!("{name} {} of {}, {}", group.cause_ns, group.total_ns, group.requests.len())
    };
    assert_eq!(
        answer.groups.iter().map(row).collect::<Vec<_>>(),
        // Lengths add up to the largest number.
        [
            format!("HUGE {0} of {0}, 2", u64::MAX),
            String::from("SELECT 1200 of 1500, 2"),
            String::from("GET 300 of 500, 1")
        ]
    );
}
