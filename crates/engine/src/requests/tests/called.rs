//! A goroutine's call to a service in another language, whose thread waits for another request.

use super::*;

/// Goroutine 7 of `g` calls; 9 reads the answer. `worker`, another process, answers; from 300 to 600 it waits for `holder`, which waits for
/// `helper`, a thread without a request, from 400 to 550.
const HOST: &str = "
    host web3 realtime=1000000
    thread g tid=13
    thread worker tid=30
    thread holder tid=31 tgid=30
    thread helper tid=32 tgid=30
    0 c0 idle started
    0 c0 idle switch g
    0 c1 idle switch worker
    0 c2 idle switch holder
    0 c3 idle switch helper
    60 c0 g go 7 runs
    110 c0 g go 7 begins e/e
    120 c0 g go 7 begins e/f
    130 c0 g go 7 parks 1
    300 c1 worker switch idle blocked call=202:0x1000
    400 c2 holder switch idle blocked call=202:0x2000
    550 c3 helper waking holder
    550 c2 idle switch holder
    600 c2 holder waking worker
    600 c1 idle switch worker
    800 c0 g go 9 runs
    810 c0 g go 7 ready 9
    815 c0 g go 9 parks 1
    816 c0 g go 7 runs
    890 c0 g switch idle blocked
    890 c1 worker switch idle blocked
    890 c2 holder switch idle blocked
    890 c3 helper switch idle blocked
    1000 c0 idle stopped
";

/// The requests that blocked `e/e`, and those that it called, with their times.
fn told(called: &str) -> (String, String) {
    let spans = format!(
        "service s host=web3 pid=13
        e/e 1000110..1000890 server
        e/f < e 1000120..1000850 client
        service t host=web3 pid=30
        b/b 1000100..1000750 server tid=31
        {called}"
    );
    let made = made(HOST, &spans);
    let (joined, which) = (made.joined(), made.request("e/e"));
    let answer = request(&joined, which, Algorithm::default());
    let path = answer.path.as_ref().expect("a path");
    assert!(path.answer.path.tiles_window() && path.goroutine.is_some());
    let list = |all: Vec<(RequestIndex, u64)>| {
        all.iter().map(|(one, ns)| format!("{} {ns}; ", made.root(*one))).collect::<String>()
    };
    let blocked = path.blocked_by.iter().map(|one| (one.request, one.total_ns)).collect();
    let called = path.called.iter().map(|one| (one.request, one.total_ns)).collect();
    let most = path.called_most().map(|one| made.root(one.request));
    assert_eq!(most, path.called.first().filter(|one| one.total_ns > 390).map(|_| "e/1"));
    (list(blocked), list(called))
}

#[test]
fn a_request_that_blocks_the_called_request_blocks_its_caller() {
    let found = told("e/1 < f 1000200..1000700 server tid=30");
    assert_eq!(found, (String::from("b/b 300; "), String::from("e/1 500; ")));
}

#[test]
fn a_called_request_without_a_thread_is_a_wait_for_the_network() {
    assert_eq!(told("e/1 < f 1000200..1000700 server"), (String::new(), String::from("e/1 500; ")));
    assert_eq!(told("e/1 < f 1000200..1000300 server"), (String::new(), String::from("e/1 100; ")));
    assert_eq!(told(""), (String::new(), String::new()));
}
