//! A process on this host does not answer: the answer names it, and what it did instead. Each cause has a twin with an
//! answer, or with another reason.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{Beside, path, place, record, run};

/// Starts a script that writes a file `ready` when its sockets are open.
fn server(folder: &Path, text: &str) -> Beside {
    let ready = folder.join("ready");
    ["ready", "go"].into_iter().for_each(|name| drop(std::fs::remove_file(folder.join(name))));
    std::fs::write(folder.join("s.py"), text.replace("READY", "open('ready', 'w').close()"))
        .expect("a script");
    // Its port is the same in each run: the server of a run that was killed must not keep it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "python3", "s.py"]).current_dir(folder).stdin(Stdio::null());
    let server = Beside(command.spawn().expect("python3"));
    let began = Instant::now();
    while !ready.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no server");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// The first screen about a client's script, in one line.
fn client(folder: &Path, text: &str) -> String {
    std::fs::write(folder.join("c.py"), text).expect("a script");
    record(folder, &["--", "python3", "c.py"], 0);
    let (screen, _) = run(folder, &["path"], 0);
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asks anew where this kernel left a switch of the wait unrecorded, and the answer says so: thrice at most.
fn recorded<T>(ask: impl Fn() -> (T, String)) -> (T, String) {
    let (mut kept, mut said) = ask();
    for _ in 1..3 {
        if !said.contains("mostly unknown: a task switch was not recorded") {
            break;
        }
        drop(kept);
        (kept, said) = ask();
    }
    (kept, said)
}

/// The largest row that has a far process.
fn far(folder: &Path) -> Value {
    let document = path(folder);
    let rows = document["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["far"].clone()).find(|far| !far.is_null()).unwrap_or_default()
}

/// A listener with its own port, which accepts a while after the client began; connections are asked for before.
const LISTENER: &str = "import os, socket, struct, time\ns = socket.socket()\n\
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\ns.bind(('127.0.0.1', PORT))\ns.listen(1)\nBEFORE\nREADY\n\
    while not os.path.exists('go'): time.sleep(0.01)\nbegan = time.monotonic()\nWAIT\nAFTER\nwhile True: c, _ = s.accept(); c.close()\n";
const CONNECT: &str =
    "import socket\nopen('go', 'w').close()\nsocket.create_connection(('127.0.0.1', PORT)).recv(1)\n";
/// Two connections that fill the queue.
const FILL: &str = "k = [socket.socket() for _ in range(2)]\nfor c in k: c.setblocking(False); c.connect_ex(('127.0.0.1', PORT))";
/// A filter that takes nothing: `return 0`.
const LOSE: &str = "import ctypes\nf = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0))\n\
    s.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HL', 1, ctypes.addressof(f)))";

fn listener(port: u16, before: &str, wait: &str, after: &str) -> String {
    let text = LISTENER.replace("BEFORE", before).replace("WAIT", wait).replace("AFTER", after);
    text.replace("PORT", &port.to_string())
}

#[test]
fn a_syn_without_an_answer_names_the_process_with_the_full_queue_and_what_it_did() {
    let Some(folder) = place("a full accept queue is named with its process") else { return };
    let connect = |port: u16| client(&folder, &CONNECT.replace("PORT", &port.to_string()));
    for (port, wait, did) in [
        (18_451, "time.sleep(2.6)", "it slept"),
        (18_452, "while time.monotonic() - began < 2.6: pass", "it ran"),
    ] {
        let (server, said) = recorded(|| (server(&folder, &listener(port, FILL, wait, "")), connect(port)));
        assert!(said.contains(&format!("from tcp 127.0.0.1:{port}: the SYN was sent again")), "{said}");
        let full = format!("the accept queue of python3 s.py ({}) was full", server.0.id());
        // On a busy machine it waits for a CPU as well.
        assert!(said.contains(&full) && (said.contains(did) || did == "it ran"), "{full}, {did}: {said}");
        let far = far(&folder);
        assert_eq!(far["queue"]["waiting"], 2, "{far}");
        assert_eq!(far["processes"], Value::from(vec![server.0.id()]), "{far}");
    }
    // A process that began the one which is to accept, and waits for it itself, has the socket too.
    let forks = "import os, signal, socket, time\ns = socket.socket()\ns.bind(('127.0.0.1', 18453))\ns.listen(1)\n\
        k = [socket.create_connection(('127.0.0.1', 18453)) for _ in range(2)]\nchild = os.fork()\n\
        if child == 0:\n open('/proc/self/comm', 'w').write('taker'); time.sleep(1.5)\n while True: s.accept()\n\
        socket.create_connection(('127.0.0.1', 18453))\nos.kill(child, signal.SIGKILL)\n";
    let ((), said) = recorded(|| ((), client(&folder, forks)));
    assert!(said.contains("; the accept queue of taker"), "{said}");
    assert!(said.contains(") was full, it slept"), "{said}");
    // The twin: the queue has room, but SYNs are lost on their way.
    let loses = listener(18_454, LOSE, "time.sleep(1.6)", "s.setsockopt(socket.SOL_SOCKET, 27, 0)");
    let (server, said) = recorded(|| (server(&folder, &loses), connect(18_454)));
    assert!(said.contains("from tcp 127.0.0.1:18454: the SYN was sent again"), "{said}");
    assert!(said.contains(&format!("python3 s.py ({}) listens there, it slept", server.0.id())), "{said}");
    assert!(!said.contains("full") && far(&folder)["queue"].is_null(), "{said}");
}

const ANSWERS: &str = "import socket\nl = socket.socket()\nl.bind(('127.0.0.1', PORT))\nl.listen(5)\nREADY\n\
    c, _ = l.accept()\nc.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, NODELAY)\n\
    while c.recv(100):\n c.send(b'head')\n c.send(b'body')\nc.close()\n";
const ASKS: &str = "import socket\nc = socket.create_connection(('127.0.0.1', PORT))\nfor i in range(30):\n c.send(b'q'); n = 0\n \
    while n < 8: n += len(c.recv(8 - n))\n";

#[test]
fn data_that_nagles_algorithm_holds_back_is_charged_to_the_side_that_wrote_it() {
    let Some(folder) = place("the sender without TCP_NODELAY is named") else { return };
    let asked = |port: u16, no_delay: u8| {
        let with = |text: &str| {
            text.replace("PORT", &port.to_string())
                .replace("NODELAY, NODELAY", &format!("NODELAY, {no_delay}"))
        };
        let server = server(&folder, &with(ANSWERS));
        let pid = server.0.id();
        (client(&folder, &with(ASKS)), pid)
    };
    let (said, pid) = asked(18_455, 0);
    let expected = format!(
        "mostly waiting for data that python3 s.py ({pid}) had written: held back until a delayed acknowledgement (Nagle); \
         set TCP_NODELAY on tcp 127.0.0.1:18455"
    );
    assert!(said.contains(&expected), "{said}");
    let (said, _) = asked(18_456, 1);
    assert!(!said.contains("NODELAY") && !said.contains("Nagle"), "{said}");
}

/// In a network namespace of its own, connections begin with a congestion window of one segment: what a server writes
/// behind its first segment leaves with the acknowledgement, which the client delays. `BOTH` are the lengths of its two writes.
const ONE_SEGMENT: &str = r"import ctypes, fcntl, os, signal, socket, struct
ctypes.CDLL(None).unshare(0x40000000)
l = socket.socket()
fcntl.ioctl(l, 0x8914, struct.pack('16sH14x', b'lo', 0x49))
own = socket.inet_aton('127.0.0.1')
def attribute(kind, data): return struct.pack('HH', 4 + len(data), kind) + data
route = struct.pack('8BI', 2, 32, 0, 0, 255, 2, 254, 2, 0) + attribute(1, own) + attribute(4, struct.pack('I', 1))
route += attribute(7, own) + attribute(8, attribute(11, struct.pack('I', 1)))
kernel = socket.socket(16, socket.SOCK_RAW, 0)
kernel.send(struct.pack('IHHII', 16 + len(route), 24, 0x505, 1, 0) + route)
assert kernel.recv(99)[16:20] == bytes(4), 'no route'
l.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
l.bind(('127.0.0.1', 18461))
l.listen(9)
server = os.fork()
if server == 0:
    while True:
        c, _ = l.accept()
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, NO_DELAY)
        segment = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        c.recv(1)
        for size in BOTH: c.send(bytes(size))
        c.recv(9)
for i in range(12):
    c = socket.create_connection(('127.0.0.1', 18461))
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    c.send(b'?')
    segment = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    c.recv(sum(BOTH), socket.MSG_WAITALL)
    c.close()
os.kill(server, signal.SIGKILL)
";

#[test]
fn data_that_waited_for_an_acknowledgement_for_another_reason_is_not_charged_to_nagles_algorithm() {
    let Some(folder) = place("the congestion window is not Nagle's algorithm") else { return };
    let said = |no_delay: &str, both: &str| {
        client(&folder, &ONE_SEGMENT.replace("NO_DELAY", no_delay).replace("BOTH", both))
    };
    let nagle = said("0", "(100, 100)");
    assert!(nagle.contains("held back until a delayed acknowledgement (Nagle)"), "{nagle}");
    // With TCP_NODELAY; behind a whole segment; a whole segment.
    for (no_delay, both) in [("1", "(100, 100)"), ("0", "(segment, 100)"), ("0", "(100, segment)")] {
        let other = said(no_delay, both);
        assert!(
            other.contains("waiting for a delayed acknowledgement from tcp 127.0.0.1:"),
            "{both}: {other}"
        );
        assert!(!other.contains("Nagle"), "{both}: {other}");
    }
}

const LATE: &str =
    "import socket, time\nl = socket.socket()\nl.bind(('127.0.0.1', PORT))\nl.listen(5)\nREADY\nACCEPT\nDO\n";
const TRIES: &str = "import socket\nc = socket.create_connection(('127.0.0.1', PORT))\nc.settimeout(1.2)\nc.send(b'q')\n\
    try: c.recv(9)\nexcept TimeoutError: pass\n";

#[test]
fn a_connection_without_an_answer_names_the_process_and_what_it_did_instead() {
    let Some(folder) = place("the process that does not answer is named") else { return };
    let began = "began = time.monotonic()\n";
    for (port, accept, action, expected) in [
        (18_457, "c, _ = l.accept()", "time.sleep(60)", "has the other end, it slept"),
        (
            18_458,
            "c, _ = l.accept()",
            "while time.monotonic() - began < 9: pass",
            "has the other end, it ran",
        ),
        (18_459, "", "time.sleep(60)", "has not accepted the connection, it slept"),
    ] {
        let text = LATE.replace("PORT", &port.to_string()).replace("ACCEPT", accept);
        let server = server(&folder, &text.replace("DO", &format!("{began}{action}")));
        let said = client(&folder, &TRIES.replace("PORT", &port.to_string()));
        let expected = format!("until a time-out: nothing came; python3 s.py ({}) {expected}", server.0.id());
        // On a busy machine it waits for a CPU as well.
        let other = expected.replace("it ran", "it waited for a CPU");
        assert!(said.contains(&expected) || said.contains(&other), "{expected}: {said}");
    }
    // The twin is answered at once.
    let text = LATE
        .replace("PORT", "18460")
        .replace("ACCEPT", "c, _ = l.accept()")
        .replace("DO", "c.send(c.recv(1)); time.sleep(60)");
    let _server = server(&folder, &text);
    let said = client(&folder, &TRIES.replace("PORT", "18460"));
    let headline = said.split(" share time ").next().expect("a headline");
    assert!(!headline.contains("s.py") && !said.contains("time-out"), "{said}");
}

const NAMES: &str = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.83', 53))\nREADY\n\
    while True:\n q, a = s.recvfrom(512)\n ANSWER\n";
const LOOKS_UP: &str = "import select, socket\nc = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nc.connect(('127.0.0.83', 53))\n\
    p = select.poll()\np.register(c, select.POLLIN)\nfor i in range(2): c.send(b'example.org?'); p.poll(900)\n";

#[test]
fn a_name_server_that_does_not_answer_is_called_that_with_its_process() {
    let Some(folder) = place("a silent name server is named") else { return };
    let silent = server(&folder, &NAMES.replace("ANSWER", "pass"));
    let said = client(&folder, LOOKS_UP);
    let expected = format!(
        "waiting for DNS server 127.0.0.83:53, which did not answer, until a time-out: nothing came; python3 s.py ({}) has the \
         socket there, it waited in recvfrom",
        silent.0.id()
    );
    assert!(said.contains(&expected), "{said}");
    drop(silent);
    let _answers = server(&folder, &NAMES.replace("ANSWER", "s.sendto(q, a)"));
    let said = client(&folder, LOOKS_UP);
    assert!(!said.contains("did not answer") && !said.contains("time-out"), "{said}");
}
