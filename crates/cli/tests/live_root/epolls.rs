//! Waits in `epoll_wait`, recorded live: the descriptor that ended each, and time-outs without a timer's descriptor.

use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{adds_up, length, list, path, place, program, record, run};

/// Successive waits, 300 ms each: for nothing; for a timer's descriptor; for four messages from a thread (a byte through a
/// pipe, an eventfd count, a datagram, and a byte through a pipe whose descriptor number means another file by then); for
/// a timer's descriptor by poll.
const EPOLLS: &str = r#"
    #include <arpa/inet.h>
    #include <fcntl.h>
    #include <poll.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <sys/epoll.h>
    #include <sys/eventfd.h>
    #include <sys/socket.h>
    #include <sys/timerfd.h>
    #include <unistd.h>
    static int ends[2], hidden[2], count, set, asked, asker;
    static uint64_t one = 1;
    static void *writer(void *unused)
    {
        usleep(300000);
        write(ends[1], "!", 1);
        usleep(300000);
        write(count, &one, sizeof(one));
        usleep(300000);
        send(asker, "?", 1, 0);
        usleep(300000);
        write(hidden[1], "!", 1);
        return unused;
    }
    static void add(int fd)
    {
        struct epoll_event readable = {.events = EPOLLIN | EPOLLET};
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &readable);
    }
    int main(void)
    {
        struct itimerspec soon = {{0, 0}, {0, 300000000}};
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(5354)};
        struct epoll_event ready;
        pthread_t thread;
        inet_pton(AF_INET, "127.0.0.9", &to.sin_addr);
        asked = socket(AF_INET, SOCK_DGRAM, 0);
        asker = socket(AF_INET, SOCK_DGRAM, 0);
        bind(asked, (void *)&to, sizeof(to));
        connect(asker, (void *)&to, sizeof(to));
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        pipe(ends);
        count = eventfd(0, 0);
        set = epoll_create1(0);
        add(ends[0]);
        add(count);
        add(asked);
        add(timer);
        epoll_wait(set, &ready, 1, 300);
        timerfd_settime(timer, 0, &soon, 0);
        epoll_wait(set, &ready, 1, 5000);
        // The set keeps a pipe whose descriptor was closed, and its number given to another file.
        pipe(hidden);
        int closed = dup(hidden[0]);
        add(closed);
        close(closed);
        if (open("/dev/null", O_RDONLY) != closed)
            return 7;
        pthread_create(&thread, 0, writer, 0);
        epoll_wait(set, &ready, 1, 5000);
        epoll_wait(set, &ready, 1, 5000);
        epoll_wait(set, &ready, 1, 5000);
        epoll_wait(set, &ready, 1, 5000);
        struct pollfd both[2] = {{timer, POLLIN, 0}, {count, POLLHUP, 0}};
        read(timer, &one, sizeof(one));
        timerfd_settime(timer, 0, &soon, 0);
        poll(both, 2, 5000);
    }
"#;

/// The total time of the thread's timer segments in this call, by basis, rule and object name.
fn timers(document: &Value, call: &str) -> Vec<(String, i64)> {
    let mut totals: Vec<(String, i64)> = Vec::new();
    for segment in list(&document["segments"]) {
        if segment["kind"] != "timer" || segment["call"] != call {
            continue;
        }
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let object = &segment["object"];
        let words =
            [&segment["basis"], &segment["rule"], &object["name"], &object["rule"]].map(word).join(" ");
        // Where the hypervisor had the CPU of the timer's interrupt, the wait's end is perhaps late.
        if segment["rule"] == "perhaps_late" {
            let (of, total) = totals.last_mut().expect("a wait before its late end");
            assert!(of.ends_with(&[word(&object["name"]), word(&object["rule"])].join(" ")), "{document}");
            *total += length(segment);
            continue;
        }
        // A late interrupt, whose time was stolen, cuts a wait into parts.
        match totals.iter_mut().find(|(of, _)| *of == words) {
            Some((_, total)) => *total += length(segment),
            None => totals.push((words, length(segment))),
        }
    }
    totals
}

fn is_300_ms(ns: i64) -> bool {
    (290_000_000..400_000_000).contains(&ns)
}

fn screen(folder: &Path) -> String {
    run(folder, &["path"], 0).0.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_wait_in_epoll_names_the_descriptor_that_ended_it() {
    let Some(folder) = place("epoll_wait names the descriptor that ended it") else { return };
    let epolls = program(&folder, "epolls", EPOLLS, &["-pthread"]);
    record(&folder, &["--", &epolls], 0);
    let document = path(&folder);
    adds_up(&document);

    let timers_of = |call| {
        let timers = timers(&document, call);
        assert!(timers.iter().all(|(_, ns)| is_300_ms(*ns)), "{timers:?}");
        timers.into_iter().map(|(words, _)| words).collect::<Vec<_>>()
    };
    assert_eq!(
        timers_of("epoll_wait"),
        ["measured - [eventpoll] -", "inferred ready_descriptor [timerfd] ready_descriptor"]
    );
    assert_eq!(timers_of("poll"), ["measured - any of 2 descriptors ([eventfd], [timerfd]) -"]);

    let by_thread: Vec<_> = list(&document["waits"])
        .iter()
        .filter(|wait| wait["depth"] == 0 && wait["call"] == "epoll_wait")
        .map(|wait| (&wait["via"], &wait["object"]["type"], &wait["object"]["name"], &wait["basis"]))
        .map(|words| format!("{} {} {} {}", words.0, words.1, words.2, words.3).replace('"', ""))
        .collect();
    let expected = [
        "wakeup pipe null measured",
        "wakeup anonymous [eventfd] measured",
        "packet socket null measured",
        "wakeup anonymous [eventpoll] measured",
    ];
    // Some kernels do not report all task switches; a wait that lacks a switch is not known.
    if list(&document["losses"]).is_empty() {
        assert_eq!(by_thread, expected);
    } else {
        assert!(by_thread.iter().all(|words| expected.contains(&words.as_str())), "{by_thread:?}");
    }

    let screen = screen(&folder);
    for words in [
        " waiting until a time-out: nothing came, 1 wait in epoll_wait",
        " waiting until a timerfd expired, 1 wait in epoll_wait on [timerfd]",
        " waiting until a time-out, or until a timer that it waited for, 1 wait in poll",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
}

/// An io_uring request, a time-out of 300 ms, for which a thread waits.
const URING: &str = r#"
    #include <linux/io_uring.h>
    #include <linux/time_types.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    int main(void)
    {
        struct io_uring_params p = {0};
        struct __kernel_timespec time = {0, 300000000};
        int ring = syscall(SYS_io_uring_setup, 4, &p);
        if (ring < 0)
            return 7;
        char *sq = mmap(0, p.sq_off.array + 4 * 4, 3, MAP_SHARED, ring, IORING_OFF_SQ_RING);
        struct io_uring_sqe *sqe = mmap(0, 4 * sizeof(*sqe), 3, MAP_SHARED, ring, IORING_OFF_SQES);
        memset(sqe, 0, sizeof(*sqe));
        sqe->opcode = IORING_OP_TIMEOUT;
        sqe->addr = (unsigned long)&time;
        sqe->len = 1;
        ((unsigned *)(sq + p.sq_off.array))[0] = 0;
        *(unsigned *)(sq + p.sq_off.tail) = 1;
        syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
    }
"#;

#[test]
fn a_wait_in_io_uring_says_that_its_request_is_not_recorded() {
    let Some(folder) = place("io_uring's request is not recorded, and that is said") else { return };
    let uring = program(&folder, "uring", URING, &[]);
    if std::process::Command::new(folder.join("uring")).status().is_ok_and(|it| it.code() == Some(7)) {
        return wakepath_harness::live::not_possible("no io_uring here", "the request is not recorded");
    }
    record(&folder, &["--", &uring], 0);
    let document = path(&folder);
    let problems = list(&document["problems"]);
    let said = problems.iter().find(|problem| problem["code"] == "io_uring");
    assert_eq!(
        said.map(|problem| &problem["text"]),
        Some(&"io_uring: which request ended the wait is not recorded".into()),
        "{problems:?}"
    );
    let screen = screen(&folder);
    assert!(screen.contains(" 1 wait in io_uring_enter (which request is not recorded)"), "{screen}");
    for never in ["nothing came", "sleeping"] {
        assert!(!screen.contains(never), "{screen}");
    }
}
