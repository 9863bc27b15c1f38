//! Servers that answer well, badly, late and without end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// A server on this host: each connection gets one answer.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, noted, answer) =
                    (stream.expect("a connection"), Arc::clone(&noted), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
                    let first = lines.next().expect("a line").expect("text");
                    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
                    let path = first.split(' ').nth(1).expect("a path").to_owned();
                    noted.lock().expect("a list").push(path.clone());
                    answer(&path, &mut stream);
                });
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a list").clone()
    }
}

fn whole(stream: &mut TcpStream, bytes: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(bytes));
}

fn absent(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// A program with this build id, as bytes.
fn program(folder: &Path, build_id: &str) -> Vec<u8> {
    let [source, program] = ["a.c", "a"].map(|name| folder.join(name));
    fs::write(&source, "int main(void) { return 0; }").expect("a file");
    let id = format!("-Wl,--build-id=0x{build_id}");
    let made = Command::new("cc").arg(id).arg("-o").args([&program, &source]).status();
    assert!(made.expect("a C compiler").success());
    fs::read(program).expect("it was made")
}

const HEX: &str = "00112233445566778899aabbccddeeff01234567";
const ID: [u8; 20] = [
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01,
    0x23, 0x45, 0x67,
];

const PATIENT: Limits = Limits {
    silence: Duration::from_secs(60),
    one_file: Duration::from_secs(60),
    all_files: Duration::from_secs(120),
    bytes: 1 << 20,
};

fn servers(urls: &[&Server], folder: &Path, limits: Limits) -> Servers {
    let urls: Vec<&str> = urls.iter().map(|server| server.url.as_str()).collect();
    Servers::new(&urls.join(" "), folder.join("cache"), limits, Box::new(|_| true)).expect("addresses")
}

/// The files in the cache.
fn kept(folder: &Path) -> Vec<String> {
    let Ok(builds) = fs::read_dir(folder.join("cache")) else { return Vec::new() };
    let files = builds.flat_map(|build| fs::read_dir(build.expect("an entry").path()).expect("a folder"));
    files.map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// The troubles as texts, with `SERVER` for the server's address.
fn troubles(servers: &Servers, server: &Server) -> Vec<String> {
    servers.troubles().iter().map(|trouble| trouble.to_string().replace(&server.url, "SERVER")).collect()
}

#[test]
fn a_file_is_fetched_once_for_all_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = program(folder.path(), HEX);
    let sent = bytes.clone();
    let server = Server::new(move |_, stream| whole(stream, &sent));
    let seen = Arc::new(AtomicUsize::new(0));
    let (of_watch, url, all) = (Arc::clone(&seen), server.url.clone(), bytes.len() as u64);
    let watch: Watch = Box::new(move |progress| {
        if let Some(progress) = progress {
            assert_eq!((progress.url, progress.name), (url.as_str(), &b"a"[..]));
            assert!(progress.of_bytes.is_none_or(|of| of == all) && progress.bytes <= all);
            of_watch.fetch_max(progress.bytes as usize, Ordering::Relaxed);
        }
        true
    });
    let first = Servers::new(&server.url, folder.path().join("cache"), PATIENT, watch).expect("an address");
    let read = |file: Option<File>| {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut file.expect("it was fetched"), &mut text).expect("readable");
        text
    };
    assert_eq!(read(first.file(Wanted::DebugInfo, &ID, b"a")), bytes);
    assert_eq!(seen.load(Ordering::Relaxed), bytes.len());
    assert_eq!(read(first.file(Wanted::DebugInfo, &ID, b"a")), bytes);
    let second = servers(&[&server], folder.path(), PATIENT);
    assert_eq!(read(second.file(Wanted::DebugInfo, &ID, b"a")), bytes);
    assert_eq!(server.asked(), [format!("/buildid/{HEX}/debuginfo")]);
    assert_eq!(read(second.file(Wanted::Program, &ID, b"a")), bytes);
    assert_eq!(server.asked()[1..], [format!("/buildid/{HEX}/executable")]);
    assert_eq!((first.troubles(), second.troubles()), (vec![], vec![]));
}

#[test]
fn a_file_with_another_build_id_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = program(folder.path(), "0011223344");
    for bytes in [other, b"<html>".to_vec(), Vec::new()] {
        let server = Server::new(move |_, stream| whole(stream, &bytes));
        let servers = servers(&[&server], folder.path(), PATIENT);
        assert!(servers.file(Wanted::DebugInfo, &ID, b"a").is_none());
        let expected = [
            format!("SERVER sends a file without the build id {HEX} (a)"),
            "no server has debug information for a".into(),
        ];
        assert_eq!(troubles(&servers, &server), expected);
        assert_eq!(kept(folder.path()), [""; 0]);
    }
}

#[test]
fn a_file_in_the_cache_counts_only_with_the_build_id_and_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = program(folder.path(), HEX);
    let server = Server::new(move |_, stream| whole(stream, &bytes));
    let there = folder.path().join("cache").join(HEX).join("debuginfo");
    fs::create_dir_all(there.parent().expect("a folder")).expect("made");
    // Other clients keep an empty file where no server had one.
    fs::write(&there, "").expect("written");
    let servers = servers(&[&server], folder.path(), PATIENT);
    assert!(servers.file(Wanted::DebugInfo, &ID, b"a").is_some(), "{:?}", servers.troubles());
    assert_eq!(server.asked().len(), 1);
    assert!(fs::metadata(there).expect("it is there").len() > 0);
}

#[test]
fn needs_root_a_cached_file_of_another_user_is_neither_read_nor_replaced() {
    if wakepath_caller::acting_uid() != 0 {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = program(folder.path(), HEX);
    let there = folder.path().join("cache").join(HEX).join("debuginfo");
    fs::create_dir_all(there.parent().expect("a folder")).expect("made");
    fs::write(&there, &bytes).expect("written");
    std::os::unix::fs::chown(&there, Some(54321), None).expect("root may");
    let server = Server::new(move |_, stream| whole(stream, &bytes));
    let servers = servers(&[&server], folder.path(), PATIENT);
    assert!(servers.file(Wanted::DebugInfo, &ID, b"a").is_none());
    let troubles = troubles(&servers, &server);
    assert!(troubles[0].ends_with("debuginfo belongs to user 54321"), "{troubles:?}");
    assert_eq!(kept(folder.path()), ["debuginfo"]);
}

#[test]
fn a_server_that_does_not_answer_is_asked_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let hangs = Server::new(|_, _| std::thread::sleep(Duration::from_secs(60)));
    let pauses = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n\x7fELF");
        std::thread::sleep(Duration::from_secs(60));
    });
    let gone = Server { url: String::from("http://127.0.0.1:1"), asked: Arc::default() };
    for (server, says) in [
        (&hangs, "SERVER does not answer in time; it is asked nothing more"),
        (&pauses, "SERVER does not answer in time; it is asked nothing more"),
        (&gone, "SERVER cannot be reached: "),
    ] {
        let limits = Limits { silence: Duration::from_millis(300), ..PATIENT };
        let servers = servers(&[server], folder.path(), limits);
        let began = Instant::now();
        for name in [b"a", b"b"] {
            let id = [&ID[..], name].concat();
            assert!(servers.file(Wanted::DebugInfo, &id, name).is_none());
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let troubles = troubles(&servers, server);
        assert!(troubles.len() == 2 && troubles[0].starts_with(says), "{troubles:?}");
        assert_eq!(troubles[1], "no server has debug information for a, b");
        assert!(server.asked().len() <= 1);
        assert_eq!(kept(folder.path()), [""; 0]);
    }
}

#[test]
fn a_server_that_sends_without_end_is_cut_off_by_size_and_by_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let floods = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\x7fELF");
        while stream.write_all(&[0; 1 << 16]).is_ok() {}
    });
    let says_so = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n\x7fELF");
    });
    let too_large = "SERVER sends more than 1048576 bytes (DEBUGINFOD_MAXSIZE) for a file (a)";
    for server in [&floods, &says_so] {
        let servers = servers(&[server], folder.path(), PATIENT);
        assert!(servers.file(Wanted::DebugInfo, &ID, b"a").is_none());
        assert_eq!(troubles(&servers, server)[0], too_large);
        assert_eq!(kept(folder.path()), [""; 0]);
    }
    let drips = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\x7fELF");
        while stream.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let limits = Limits { one_file: Duration::from_secs(2), ..PATIENT };
    let servers = servers(&[&drips], folder.path(), limits);
    let began = Instant::now();
    assert!(servers.file(Wanted::DebugInfo, &ID, b"a").is_none());
    let took = began.elapsed();
    assert!(took >= limits.one_file && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(troubles(&servers, &drips)[0], "SERVER does not answer in time; it is asked nothing more");
}

#[test]
fn a_file_of_exactly_the_largest_size_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = program(folder.path(), HEX);
    for (most, taken) in [(bytes.len() as u64 - 1, false), (bytes.len() as u64, true)] {
        for with_length in [true, false] {
            let sent = bytes.clone();
            let server = Server::new(move |_, stream| match with_length {
                true => whole(stream, &sent),
                false => {
                    let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                    let _ = stream.write_all(head).and_then(|()| stream.write_all(&sent));
                }
            });
            let folder = tempfile::tempdir().expect("a folder");
            let servers = servers(&[&server], folder.path(), Limits { bytes: most, ..PATIENT });
            let file = servers.file(Wanted::DebugInfo, &ID, b"a");
            assert_eq!(file.is_some(), taken, "{most} {with_length}");
        }
    }
}

#[test]
fn a_file_that_one_server_does_not_have_is_asked_of_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = program(folder.path(), HEX);
    let empty = Server::new(|_, stream| absent(stream));
    let broken = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let full = Server::new(move |path, stream| match path.contains(HEX) {
        true => whole(stream, &bytes),
        false => absent(stream),
    });
    let servers = servers(&[&empty, &broken, &full], folder.path(), PATIENT);
    assert!(servers.file(Wanted::DebugInfo, &ID, b"a").is_some());
    for name in ["b", "c", "d", "e", "f", "g", "g"] {
        assert!(
            servers.file(Wanted::DebugInfo, &[name.as_bytes(), &ID[1..]].concat(), name.as_bytes()).is_none()
        );
    }
    assert_eq!((empty.asked().len(), broken.asked().len(), full.asked().len()), (7, 1, 7));
    let expected = [
        "SERVER answers with status 503; it is asked nothing more",
        "no server has debug information for b, c, d, e, f and 1 more",
    ];
    assert_eq!(troubles(&servers, &broken), expected);
}

#[test]
fn the_time_for_all_files_ends_all_questions_and_so_does_the_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::new(|_, stream| {
        std::thread::sleep(Duration::from_millis(120));
        absent(stream);
    });
    let limits = Limits { all_files: Duration::from_millis(100), ..PATIENT };
    let servers = servers(&[&server], folder.path(), limits);
    for last in 0..3 {
        assert!(servers.file(Wanted::DebugInfo, &[&ID[..], &[last]].concat(), b"a").is_none());
    }
    assert_eq!(server.asked().len(), 1);
    let troubles = servers.troubles();
    assert_eq!(troubles.iter().filter(|it| matches!(it, Trouble::OutOfTime(_))).count(), 1, "{troubles:?}");

    let stopped = Servers::new(&server.url, folder.path().join("cache"), PATIENT, Box::new(|_| false));
    let stopped = stopped.expect("an address");
    for last in 0..2 {
        assert!(stopped.file(Wanted::DebugInfo, &[&ID[..], &[last]].concat(), b"a").is_none());
    }
    assert_eq!(server.asked().len(), 1);
    assert_eq!(stopped.troubles()[0], Trouble::Stopped);
}

#[test]
fn an_address_is_of_http() {
    let new = |urls| {
        let servers = Servers::new(urls, PathBuf::from("/nonexistent"), PATIENT, Box::new(|_| true));
        servers.map(|servers| servers.urls)
    };
    assert_eq!(
        new(" https://a/ ima:enforcing\nhttp://b:1/x// "),
        Ok(vec!["https://a".into(), "http://b:1/x".into()])
    );
    assert_eq!(new(" ima:ignore "), Err(NoServers::None));
    for bad in ["file:///srv", "a.example", "https://", "ftp://a"] {
        assert_eq!(new(bad), Err(NoServers::Address(bad.into())));
    }
}
