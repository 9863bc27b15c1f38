//! Installed third-party tracing backends: they run beside a test, each on its own loopback address.

mod collector;
mod jaeger;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::packages;

/// The longest delay on a busy machine for an action that is immediate on an idle machine.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// A backend's program; `None`, with a printed reason, if `packaging/plugins` did not build it.
fn program(name: &str, would_show: &str) -> Option<PathBuf> {
    packages(name, would_show).map(|folder| folder.join(name))
}

/// A loopback address for this process's `nth` backend, so that it has the standard ports for itself.
fn own_address(nth: u8) -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + nth * 64 + high % 64, middle, low)
}

/// A running backend.
struct Backend {
    child: Child,
    log: PathBuf,
    address: Ipv4Addr,
}

impl Backend {
    /// Starts a program with its configuration in a folder, and waits until it listens at these ports.
    fn start(program: &Path, folder: &Path, configuration: &str, address: Ipv4Addr, ports: &[u16]) -> Self {
        let (file, log) = (folder.join("backend.yaml"), folder.join("backend.log"));
        std::fs::write(&file, configuration).expect("a file");
        let written = std::fs::File::create(&log).expect("a file");
        let mut command = Command::new(program);
        command.arg("--config").arg(&file).current_dir(folder).stdin(Stdio::null());
        command.stdout(written.try_clone().expect("a file")).stderr(written);
        let child = command.spawn().expect("the backend");
        let mut backend = Self { child, log, address };
        for &port in ports {
            let began = Instant::now();
            while TcpStream::connect(backend.at(port)).is_err() {
                let ended = backend.child.try_wait().expect("a child");
                assert!(ended.is_none() && began.elapsed() < MAX_PATIENCE, "{ended:?}: {}", backend.said());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        backend
    }

    fn at(&self, port: u16) -> SocketAddr {
        (self.address, port).into()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends the backend as an administrator does, so that it writes its data.
    fn stop(mut self) -> ExitStatus {
        // SAFETY: `kill` takes two numbers, and no memory. The child is not waited for yet, so the number is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let began = Instant::now();
        loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => return status,
                None => assert!(began.elapsed() < MAX_PATIENCE, "it does not end: {}", self.said()),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
