//! Waits in `poll` and `select`, recorded live: the awaited descriptors, and repeated polls of the same set as one
//! wait.

use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{adds_up, length, list, number, path, place, program, record, run};

/// Successive waits, 300 ms each: for a datagram, for any of two descriptors, for more than 16, for none. Then it polls
/// a socket every 100 ms until its child answers after 700 ms.
const POLLS: &str = r#"
    #include <arpa/inet.h>
    #include <poll.h>
    #include <string.h>
    #include <sys/select.h>
    #include <sys/socket.h>
    #include <time.h>
    #include <unistd.h>
    static void sleep_ms(long ms)
    {
        struct timespec time = {0, ms * 1000000};
        nanosleep(&time, 0);
    }
    int main(void)
    {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(5353)};
        int ends[2], silent = socket(AF_INET, SOCK_DGRAM, 0), asked = socket(AF_INET, SOCK_DGRAM, 0);
        fd_set many;
        inet_pton(AF_INET, "127.0.0.9", &to.sin_addr);
        bind(silent, (void *)&to, sizeof(to));
        connect(asked, (void *)&to, sizeof(to));
        send(asked, "?", 1, 0);
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        struct pollfd both[2] = {{asked, POLLIN, 0}, {ends[0], POLLIN, 0}};
        poll(both, 1, 300);
        poll(both, 2, 300);
        FD_ZERO(&many);
        int pipes[2], last = 0;
        for (int i = 0; i < 20; i++) {
            pipe(pipes);
            FD_SET(pipes[0], &many);
            last = pipes[0];
        }
        struct timeval time = {0, 300000};
        select(last + 1, &many, 0, 0, &time);
        poll(0, 0, 300);
        if (!fork()) {
            close(ends[0]);
            recv(ends[1], &time, 1, 0);
            sleep_ms(700);
            send(ends[1], "!", 1, 0);
            return 0;
        }
        send(ends[0], "?", 1, 0);
        while (!poll(both + 1, 1, 100))
            ;
    }
"#;

/// The total time of the thread's timer segments with this object, and their calls.
fn timers<'a>(document: &'a Value, object: &str) -> (u64, Vec<&'a str>) {
    let own = list(&document["segments"]).iter().filter(|segment| {
        segment["kind"] == "timer" && segment["comm"] == "polls" && segment["object"]["name"] == object
    });
    let mut calls: Vec<_> = own.clone().filter_map(|segment| segment["call"].as_str()).collect();
    calls.dedup();
    (own.map(|segment| length(segment) as u64).sum(), calls)
}

fn is_300_ms(ns: u64) -> bool {
    (290_000_000..400_000_000).contains(&ns)
}

fn screen(folder: &Path) -> String {
    run(folder, &["path"], 0).0.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_poll_names_its_descriptors_and_polls_of_one_set_are_one_wait() {
    let Some(folder) = place("poll and select name their descriptors") else { return };
    let polls = program(&folder, "polls", POLLS, &[]);
    record(&folder, &["--", &polls], 0);
    let document = path(&folder);
    adds_up(&document);

    let (ns, calls) = timers(&document, "udp 127.0.0.9:5353");
    assert!(is_300_ms(ns) && calls == ["poll"], "{ns} ns in {calls:?}: {document}");
    let (ns, calls) = timers(&document, "any of 2 descriptors (a socket, udp 127.0.0.9:5353)");
    assert!(is_300_ms(ns) && calls == ["poll"], "{ns} ns in {calls:?}: {document}");
    let (ns, calls) = timers(&document, "any of more than 16 descriptors (a pipe)");
    assert!(
        is_300_ms(ns) && matches!(calls[..], ["select" | "pselect6"]),
        "{ns} ns in {calls:?}: {document}"
    );

    let screen = screen(&folder);
    assert!(screen.contains(" and 2 others until a time-out: nothing came, "), "{screen}");
    assert!(
        screen.contains(" sleeping until a timer, "),
        "a poll of nothing, and the child's sleep: {screen}"
    );

    // Some kernels do not report all task switches; a wait that lacks a switch is not joined.
    if list(&document["losses"]).is_empty() {
        let waits = list(&document["waits"]).iter().filter(|wait| wait["timed_out"] == true);
        let joined: Vec<_> =
            waits.map(|wait| (&wait["call"], &wait["rule"], wait["ended_by"]["tid"].is_u64())).collect();
        assert!((5..=7).contains(&joined.len()), "polls of 100 ms in 700 ms: {joined:?}");
        assert!(
            joined.iter().all(|wait| *wait == (&"poll".into(), &"joined_timeouts".into(), true)),
            "{joined:?}"
        );
        assert_eq!(number(&document["joined"]["waits"]), joined.len() as u64);
    }
}
