//! Waits whose time-out expires, recorded live: each row names the awaited event and says that it did not come.

use serde_json::Value;
use wakepath_harness::live::{adds_up, length, list, path, place, program, record, run};

/// Successive waits, 300 ms each: for an answer, a semaphore, an accepted connection, room in a closed window, any of two
/// descriptors by select and ppoll.
const WAITS: &str = r#"
    #define _GNU_SOURCE
    #include <arpa/inet.h>
    #include <poll.h>
    #include <semaphore.h>
    #include <sys/select.h>
    #include <sys/socket.h>
    #include <sys/time.h>
    #include <time.h>
    #include <unistd.h>
    static char bytes[1 << 20];
    static int listen_on(struct sockaddr_in *at, int backlog)
    {
        socklen_t size = sizeof(*at);
        int listener = socket(AF_INET, SOCK_STREAM, 0), small = 65536;
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        at->sin_family = AF_INET;
        at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bind(listener, (void *)at, size);
        listen(listener, backlog);
        getsockname(listener, (void *)at, &size);
        return listener;
    }
    int main(void)
    {
        struct sockaddr_in at = {0}, full = {0};
        struct timeval time = {0, 300000};
        struct timespec spec = {0, 300000000};
        int listener = listen_on(&at, 1), client = socket(AF_INET, SOCK_STREAM, 0), ends[2];
        sem_t semaphore;
        fd_set set;
        connect(client, (void *)&at, sizeof(at));
        accept(listener, 0, 0);
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
        recv(client, bytes, 1, 0);
        sem_init(&semaphore, 0, 0);
        clock_gettime(CLOCK_REALTIME, &spec);
        spec.tv_nsec += 300000000;
        spec.tv_sec += spec.tv_nsec / 1000000000;
        spec.tv_nsec %= 1000000000;
        sem_timedwait(&semaphore, &spec);
        listen_on(&full, 0);
        connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&full, sizeof(full));
        int late = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(late, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
        connect(late, (void *)&full, sizeof(full));
        while (send(client, bytes, sizeof(bytes), 0) == sizeof(bytes))
            ;
        pipe(ends);
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        FD_SET(listener, &set);
        select(ends[0] + 1, &set, 0, 0, &time);
        struct pollfd both[2] = {{ends[0], POLLIN, 0}, {listener, POLLIN, 0}};
        spec.tv_sec = 0;
        spec.tv_nsec = 300000000;
        ppoll(both, 2, &spec, 0);
    }
"#;

#[test]
fn a_wait_that_timed_out_says_what_did_not_come() {
    let Some(folder) = place("waits that time out say what did not come") else { return };
    let waits = program(&folder, "waits", WAITS, &["-pthread"]);
    record(&folder, &["--", &waits], 0);
    let document = path(&folder);
    adds_up(&document);
    let long: Vec<_> =
        list(&document["segments"]).iter().filter(|segment| length(segment) > 100_000_000).collect();
    let calls: Vec<_> = long.iter().map(|segment| segment["call"].as_str().unwrap_or("-")).collect();
    assert!(
        matches!(calls[..], ["recvfrom", "futex", "connect", "sendto", "select" | "pselect6", "ppoll"]),
        "{calls:?}: {document}"
    );
    // Some kernels report several switches a second to no tracer. Then the answer says so, and names no timer; two in these waits
    // are too many for chance.
    let (timed_out, other): (Vec<_>, Vec<_>) = long.iter().partition(|segment| segment["kind"] == "timer");
    let is_unrecorded = |segment: &&&Value| {
        segment["kind"] == "unknown" && segment["cause"]["what"] == "a task switch was not recorded"
    };
    assert!(other.len() <= 1 && other.iter().all(is_unrecorded), "{other:?}: {document}");
    let is_known = |call: &str| timed_out.iter().any(|segment| segment["call"].as_str() == Some(call));
    let screen = run(&folder, &["path"], 0).0;
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for (call, words) in [
        ("connect", " until a time-out: no answer came, 1 wait in connect on tcp 127.0.0.1:"),
        ("futex", " waiting until a time-out, 1 wait in futex"),
        ("sendto", " to read until a time-out: its window was closed, 1 wait in sendto on tcp 127.0.0.1:"),
    ] {
        assert!(screen.contains(words) || !is_known(call), "{words}: {screen}");
    }
    // The read and the two waits for any descriptor in a set share a row, which counts the unnamed waits.
    let sets = ["select", "pselect6", "ppoll"].into_iter().filter(|call| is_known(call)).count();
    if is_known("recvfrom") && sets == 2 {
        assert!(screen.contains(" and 1 other until a time-out: nothing came, "), "{screen}");
    } else {
        assert!(screen.contains(" until a time-out: nothing came, "), "{screen}");
    }
    for never in ["sleeping", "waiting for a timer"] {
        assert!(!screen.contains(never), "{screen}");
    }
}
