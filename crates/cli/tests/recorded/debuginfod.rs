//! `--debuginfod`: a stripped program's functions, from a server on this host. The recording is made by the test, as if
//! on another machine.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use wakepath_event::{EventKind, Mapping, Tid};
use wakepath_harness::files::Server;
use wakepath_harness::live::not_possible;
use wakepath_harness::made::{Made, made, told};

/// A program that spends its time in one function.
const SOURCE: &str = "static volatile int sum;
static int __attribute__((noinline)) pack_items(int n) { for (int i = 0; i < n; i++) sum += i; return sum; }
int main(int count, char **words) { return pack_items(count) & 1; }
";

const BASE: u64 = 0x40_0000;

/// A program with symbols and lines, its stripped copy and its debug file; a place in its function.
struct Program {
    folder: tempfile::TempDir,
    hex: String,
    build_id: Vec<u8>,
    offset: u64,
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("shop.c"), SOURCE).expect("written");
        let hex = String::from("00112233445566778899aabbccddeeff01234567");
        let id = format!("-Wl,--build-id=0x{hex}");
        // Such a program is linked to the address BASE, where the segment with its code begins with the file.
        let options = ["-g", "-O1", "-no-pie", "-Wl,-z,noseparate-code", &id, "-o"];
        run(Command::new("cc").args(options).args([path("whole"), path("shop.c")]));
        run(Command::new("objcopy").arg("--only-keep-debug").args([path("whole"), path("shop.debug")]));
        run(Command::new("objcopy").arg("--strip-all").args([path("whole"), path("shop")]));
        let symbols = run(Command::new("nm").arg(path("whole")));
        let address = |name: &str| {
            let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a symbol");
            u64::from_str_radix(line.split(' ').next().expect("an address"), 16).expect("an address")
        };
        let offset = address("pack_items") - BASE;
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("a byte");
        let build_id = (0..hex.len()).step_by(2).map(byte).collect();
        Self { hex, build_id, offset, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A recording in which a thread was seen in the function, in a file with this path.
    fn recording(&self, at: &Path) -> Made {
        const FROM: u64 = 0x7f00_0000_0000;
        let mapping = EventKind::Mapping(Mapping {
            tgid: Tid(10),
            from: FROM,
            to: FROM + (1 << 20),
            offset: 0,
            build_id: self.build_id.as_slice().into(),
            path: at.as_os_str().as_bytes().into(),
        });
        let samples: String =
            (1..9).map(|n| format!("{n}000 c0 shop sample user={}\n", FROM + self.offset)).collect();
        let trace = format!(
            "thread shop tid=10\n0 c0 idle started\n0 c0 idle switch shop\n{samples}9000 c0 shop stopped\n"
        );
        made(&trace, &[mapping])
    }
}

/// The exit code, stdout and stderr of the program with a cache of its own and this list of servers.
fn ask(made: &Made, servers: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = made.wakepath(arguments);
    command.env("DEBUGINFOD_URLS", servers).env("DEBUGINFOD_CACHE_PATH", made.folder().join("cache"));
    command.env("DEBUGINFOD_TIMEOUT", "10").env_remove("DEBUGINFOD_MAXSIZE");
    told(&command.output().expect("the program runs"))
}

const NAMED: &str = "8 of 8 samples in pack_items (shop)";
const UNNAMED: &str = "8 of 8 samples in shop (no symbols; its debug package has them)";

#[test]
fn nothing_is_asked_without_the_option_and_the_answer_names_it() {
    let program = Program::new();
    let server = Server::new(&[(format!("/buildid/{}/debuginfo", program.hex), program.path("shop.debug"))]);
    let made = program.recording(&program.path("shop"));
    let (code, out, err) = ask(&made, &server.url, &["path", "--tid", "10"]);
    assert_eq!((code, out.contains(UNNAMED)), (0, true), "{out}");
    let note =
        "note: shop has no symbols here; wakepath path --debuginfod asks servers for them by build id\n";
    assert_eq!(err, note);
    // A script gets no hint.
    let (code, _, err) = ask(&made, &server.url, &["path", "--tid", "10", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(server.asked(), [""; 0]);
    assert!(!made.folder().join("cache").exists());
    // A file with symbols needs no hint.
    let made = program.recording(&program.path("whole"));
    let (_, out, err) = ask(&made, &server.url, &["path", "--tid", "10"]);
    assert!(out.contains("in pack_items (whole)") && err.is_empty(), "{out}{err}");
}

#[test]
fn a_stripped_programs_functions_come_from_a_server_and_then_from_the_cache() {
    let program = Program::new();
    let path = format!("/buildid/{}/debuginfo", program.hex);
    let server = Server::new(&[(path.clone(), program.path("shop.debug"))]);
    let made = program.recording(&program.path("shop"));
    let (code, out, err) = ask(&made, &server.url, &["path", "--tid", "10", "--debuginfod"]);
    assert!(code == 0 && out.contains(NAMED) && err.is_empty(), "{out}{err}");
    assert_eq!(server.asked(), [path]);
    let option = format!("--debuginfod={}", server.url);
    let (_, out, err) = ask(&made, "", &["path", "--tid", "10", "--json", &option]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let text = document.to_string();
    assert!(text.contains(r#""function":"pack_items""#) && err.is_empty(), "{text}{err}");
    assert_eq!(server.asked(), [""; 0], "it is in the cache");
}

#[test]
fn on_another_machine_the_program_is_fetched_too() {
    let program = Program::new();
    let address = |kind: &str| format!("/buildid/{}/{kind}", program.hex);
    let debug = (address("debuginfo"), program.path("shop.debug"));
    let server = Server::new(&[debug.clone(), (address("executable"), program.path("shop"))]);
    let made = program.recording(Path::new("/nonexistent/shop"));
    let (_, out, err) = ask(&made, &server.url, &["path", "--tid", "10"]);
    assert!(out.contains("8 of 8 samples in shop (cannot be read here)"), "{out}");
    assert!(err.contains("--debuginfod"), "{err}");
    let (code, out, err) = ask(&made, &server.url, &["path", "--tid", "10", "--debuginfod"]);
    assert!(code == 0 && out.contains(NAMED) && err.is_empty(), "{out}{err}");
    assert_eq!(server.asked(), [address("debuginfo"), address("executable")]);
}

#[test]
fn an_answer_without_names_says_what_the_servers_did() {
    let program = Program::new();
    fs::write(program.path("junk"), "<html>").expect("written");
    let path = format!("/buildid/{}/debuginfo", program.hex);
    let empty = Server::new(&[]);
    let wrong = Server::new(&[(path, program.path("junk"))]);
    let made = program.recording(&program.path("shop"));
    let both = format!("{} {}", empty.url, wrong.url);
    let (code, out, err) = ask(&made, &both, &["path", "--tid", "10", "--debuginfod"]);
    assert!(code == 0 && out.contains(UNNAMED), "{out}");
    let expected = format!(
        "warning: {} sends a file without the build id {} (shop)\n\
         warning: no server has debug information for shop\n",
        wrong.url, program.hex
    );
    assert_eq!(err.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn an_option_without_a_server_is_refused() {
    let program = Program::new();
    let made = program.recording(&program.path("shop"));
    for (servers, option, says) in [
        ("", "--debuginfod", "no debuginfod server is given"),
        ("", "--debuginfod=", "no debuginfod server is given"),
        ("shop.example", "--debuginfod", "`shop.example` is no server's address"),
        ("", "--debuginfod=ftp://shop.example", "`ftp://shop.example` is no server's address"),
    ] {
        let (code, out, err) = ask(&made, servers, &["path", "--tid", "10", option]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(says) && err.contains("hint:"), "{err}");
    }
}

#[test]
fn https_needs_a_certificate_that_the_system_trusts() {
    let program = Program::new();
    let openssl = |arguments: &str| {
        let status = Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(program.folder.path())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    fs::write(program.path("names"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        .expect("written");
    let made_keys = openssl(&format!(
        "req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"
    )) && openssl(&format!("req {key} -keyout key.pem -out request -subj /CN=server"))
        && openssl(
            "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile names",
        );
    if !made_keys {
        return not_possible("openssl is missing", "https needs a certificate that the system trusts");
    }
    // The server sends files as they are, with their heads.
    let path = program.path("buildid").join(&program.hex);
    fs::create_dir_all(&path).expect("made");
    let debug = fs::read(program.path("shop.debug")).expect("it was made");
    fs::write(path.join("debuginfo"), [&b"HTTP/1.0 200 OK\r\n\r\n"[..], &debug].concat()).expect("written");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let mut server = Command::new("openssl")
        .args([
            "s_server",
            "-HTTP",
            "-quiet",
            "-cert",
            "own.pem",
            "-key",
            "key.pem",
            "-accept",
            &port.to_string(),
        ])
        .current_dir(program.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let answers = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let made = program.recording(&program.path("shop"));
    let answer = |trusted: &str| {
        let mut command =
            made.wakepath(["path", "--tid", "10", &format!("--debuginfod=https://127.0.0.1:{port}")]);
        command.env("DEBUGINFOD_CACHE_PATH", made.folder().join("cache"));
        told(&command.env("SSL_CERT_FILE", program.path(trusted)).output().expect("the program runs"))
    };
    let (untrusted, trusted) = (answer("names"), answer("ca.pem"));
    server.kill().and_then(|()| server.wait()).expect("its end");
    assert!(answers);
    assert!(untrusted.1.contains(UNNAMED) && untrusted.2.contains("certificate"), "{untrusted:?}");
    assert!(trusted.1.contains(NAMED) && trusted.2.is_empty(), "{trusted:?}");
}
