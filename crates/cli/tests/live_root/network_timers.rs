//! Waits prolonged by a TCP timer, recorded live: a repeated SYN, and a delayed acknowledgement while Nagle's algorithm
//! holds back the rest of a request.

use serde_json::Value;
use wakepath_harness::live::{adds_up, length, list, path, place, program, record, run};

/// A third connection to a socket whose queue is full: the kernel drops its SYN, and accepts the next after 1 s.
const SYN: &str = r#"
    #include <arpa/inet.h>
    #include <pthread.h>
    #include <sys/socket.h>
    #include <unistd.h>
    static int listener;
    static void *taker(void *unused)
    {
        usleep(500000);
        accept(listener, 0, 0);
        return unused;
    }
    int main(void)
    {
        struct sockaddr_in at = {.sin_family = AF_INET};
        socklen_t size = sizeof(at);
        pthread_t thread;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener = socket(AF_INET, SOCK_STREAM, 0);
        bind(listener, (void *)&at, size);
        listen(listener, 0);
        getsockname(listener, (void *)&at, &size);
        connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&at, size);
        pthread_create(&thread, 0, taker, 0);
        connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&at, size);
    }
"#;

/// Write, write, read, 10 times: the server waits for the second part of the request.
const NAGLE: &str = r#"
    #include <arpa/inet.h>
    #include <pthread.h>
    #include <sys/socket.h>
    #include <unistd.h>
    static int listener;
    static void *server(void *unused)
    {
        int connection = accept(listener, 0, 0);
        char part[4];
        while (recv(connection, part, 4, MSG_WAITALL) == 4) {
            recv(connection, part, 4, MSG_WAITALL);
            send(connection, "answer", 6, 0);
        }
        return unused;
    }
    int main(void)
    {
        struct sockaddr_in at = {.sin_family = AF_INET};
        socklen_t size = sizeof(at);
        pthread_t thread;
        char answer[6];
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener = socket(AF_INET, SOCK_STREAM, 0);
        bind(listener, (void *)&at, size);
        listen(listener, 1);
        getsockname(listener, (void *)&at, &size);
        pthread_create(&thread, 0, server, 0);
        int client = socket(AF_INET, SOCK_STREAM, 0);
        connect(client, (void *)&at, size);
        for (int i = 0; i < 10; i++) {
            send(client, "head", 4, 0);
            send(client, "body", 4, 0);
            recv(client, answer, 6, MSG_WAITALL);
        }
    }
"#;

/// The segments with this cause type, and their time, ns.
fn caused<'a>(document: &'a Value, cause: &str) -> (Vec<&'a Value>, u64) {
    let segments: Vec<_> =
        list(&document["segments"]).iter().filter(|segment| segment["cause"]["type"] == cause).collect();
    let ns = segments.iter().map(|segment| length(segment) as u64).sum();
    (segments, ns)
}

#[test]
fn a_connect_whose_syn_was_lost_waits_until_it_is_sent_again() {
    let Some(folder) = place("a SYN that is sent again is named") else { return };
    let syn = program(&folder, "syn", SYN, &["-pthread"]);
    record(&folder, &["--", &syn], 0);
    let document = path(&folder);
    adds_up(&document);
    let (segments, ns) = caused(&document, "syn_sent_again");
    // Time stolen by the hypervisor is a separate segment at the end, and may divide the wait.
    assert!((900_000_000..1_200_000_000).contains(&ns), "one SYN was lost: {document}");
    for segment in segments {
        assert_eq!((&segment["call"], &segment["kind"]), (&"connect".into(), &"network".into()), "{segment}");
    }
    let (screen, _) = run(&folder, &["path"], 0);
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains(": mostly waiting for an answer from tcp 127.0.0.1:"), "{screen}");
    assert!(screen.contains(": the SYN was sent again; its own accept queue was full"), "{screen}");
    assert!(!screen.contains("time-out"), "{screen}");
}

#[test]
fn a_request_in_two_parts_waits_for_a_delayed_acknowledgement() {
    let Some(folder) = place("a delayed acknowledgement is named") else { return };
    let nagle = program(&folder, "nagle", NAGLE, &["-pthread"]);
    record(&folder, &["--", &nagle], 0);
    let document = path(&folder);
    adds_up(&document);
    let (segments, ns) = caused(&document, "delayed_acknowledgement");
    // The first few are acknowledged at once, and some kernels do not report all task switches.
    assert!((6..=10).contains(&segments.len()), "{} of 10: {document}", segments.len());
    assert!(ns / segments.len() as u64 > 30_000_000, "40 ms each: {ns} ns in {}", segments.len());
    for segment in segments {
        let basis = (&segment["basis"], &segment["rule"], &segment["call"]);
        assert_eq!(
            basis,
            (&"inferred".into(), &"delayed_acknowledgement".into(), &"recvfrom".into()),
            "{segment}"
        );
    }
    let (screen, _) = run(&folder, &["path"], 0);
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = ": mostly waiting for data that its own process had written: held back until a delayed acknowledgement \
                    (Nagle); set TCP_NODELAY on tcp 127.0.0.1:";
    assert!(screen.contains(expected), "{screen}");
}
