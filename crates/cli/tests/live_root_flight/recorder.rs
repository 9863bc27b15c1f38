//! A flight recorder started by a test, and its kept recordings.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use prost::Message as _;
use wakepath_event::{EventKind, EventSource as _, Mark, RecordingFormat as _};
use wakepath_harness::live::command;
use wakepath_harness::spans::{PROTOBUF, post, request, span};
use wakepath_recording::Recording;

/// The recorder's words about a recording kept by a linked recorder.
const BY_ANOTHER: &str = ": by a linked recorder";

/// A flight recorder in a folder: its process, and its output.
pub struct Recorder {
    pub process: Child,
    pub folder: PathBuf,
    pub address: SocketAddr,
}

impl Recorder {
    /// Begins a recorder with these options, whose directory is `directory`.
    pub fn start(folder: &Path, directory: &Path, options: &[&str]) -> Self {
        Self::start_with(folder, directory, options, &std::env::var("PATH").expect("a path"))
    }

    /// The same, with programs found in `programs`.
    pub fn start_with(folder: &Path, directory: &Path, options: &[&str], programs: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let (port, at) = (address.port().to_string(), directory.to_str().expect("a path"));
        let basic = ["record", "-a", "-o", at, "--otlp", &port];
        let said = fs::File::create(folder.join("said")).expect("a file");
        let mut command = command(folder, &[&basic, options].concat());
        let process =
            command.env("PATH", programs).stdout(Stdio::null()).stderr(said).spawn().expect("wakepath");
        let mut recorder = Self { process, folder: folder.to_owned(), address };
        let body = request("first", vec![span(1, "first")]).encode_to_vec();
        recorder.wait_until("it receives spans", |recorder| {
            TcpStream::connect(recorder.address).is_ok()
                && post(recorder.address, "/v1/traces", &[PROTOBUF], &body).status == 200
        });
        recorder
    }

    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).expect("text")
    }

    /// The lines about the recorder's own kept recordings.
    pub fn kept(&self) -> Vec<String> {
        self.lines(false)
    }

    /// The lines about recordings kept by linked recorders.
    pub fn kept_by_others(&self) -> Vec<String> {
        self.lines(true)
    }

    fn lines(&self, by_another: bool) -> Vec<String> {
        let said = self.said();
        let kept = said.lines().filter(|line| line.starts_with("kept: "));
        kept.filter(|line| line.contains(BY_ANOTHER) == by_another).map(str::to_owned).collect()
    }

    pub fn wait_until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is(self) {
            let ended = self.process.try_wait().expect("a process");
            assert!(ended.is_none() && began.elapsed() < Duration::from_secs(60), "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the `nth` kept recording; returns its line and path.
    pub fn nth(&mut self, nth: usize) -> (String, PathBuf) {
        self.wait_until("a recording is kept", |recorder| recorder.kept().len() >= nth);
        let line = self.kept().swap_remove(nth - 1);
        let path = line["kept: ".len()..].split(": ").next().expect("a path");
        let path = self.folder.join(path);
        (line, path)
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: plain numbers; the process was not waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, signal) }, 0);
    }

    /// Ends the recorder as Ctrl-C does. Returns its output.
    pub fn stop(mut self) -> String {
        self.signal(libc::SIGINT);
        let status = self.process.wait().expect("its end");
        assert!(status.success(), "{status}: {}", self.said());
        self.said()
    }

    /// The recorder's current memory, bytes.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// The beginning and end of a recording, by its marks, ns.
pub fn window(recording: &Path) -> (u64, u64) {
    let (mut started, mut stopped) = (None, None);
    let problems = Recording::open(recording).expect("a recording").read(
        |event| match event.kind {
            EventKind::Mark(Mark::Started) => started = Some(event.at.ns()),
            EventKind::Mark(Mark::Stopped) => stopped = Some(event.at.ns()),
            _ => {}
        },
        |_| {},
    );
    assert!(problems.is_empty(), "{problems:?}");
    (started.expect("a beginning"), stopped.expect("an end"))
}

/// The names in a recorder's directory beside the recorder's own file.
pub fn wakepath_loaded(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).expect("it").map(|it| it.expect("it").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "recorder").collect()
}
