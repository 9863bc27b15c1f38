//! The command of a session: held before its exec until recording runs, run as the user who called sudo.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::ptr;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::signals::{self, Signals};

/// The user as whom the command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// All its groups.
    groups: Vec<u32>,
}

impl Identity {
    /// A user, its group and all its groups.
    pub const fn new(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        Self { uid, gid, groups }
    }

    pub(crate) fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// The user who called sudo, if this runs under sudo. Running the command as root instead would change what is
    /// measured.
    pub fn from_sudo() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        let user = CString::new(std::env::var_os("SUDO_USER")?.into_vec()).ok()?;
        let mut groups = vec![0; 1024];
        let mut count = groups.len() as i32;
        // SAFETY: `groups` has room for `count` ids; the call lowers `count` to the number that it wrote.
        let found = unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        groups.truncate(if found < 0 { 0 } else { count.max(0) as usize });
        (uid != 0).then_some(Self { uid, gid, groups })
    }
}

/// The environment from which sudo was called: that of the sudo process. `None` if our parent is no sudo.
fn environment_before_sudo() -> Option<Vec<(OsString, OsString)>> {
    let parent = std::os::unix::process::parent_id();
    let comm = std::fs::read(format!("/proc/{parent}/comm")).ok()?;
    if comm.trim_ascii_end() != b"sudo" {
        return None;
    }
    let environment = std::fs::read(format!("/proc/{parent}/environ")).ok()?;
    let pairs = environment.split(|&b| b == 0).filter_map(|pair| {
        let at = pair.iter().position(|&b| b == b'=')?;
        Some((OsStr::from_bytes(&pair[..at]).into(), OsStr::from_bytes(&pair[at + 1..]).into()))
    });
    Some(pairs.collect())
}

/// A command that waits, before its exec, for [`Held::release`].
pub(crate) struct Held {
    pub(crate) pid: i32,
    /// A byte written here lets the child exec.
    release: File,
    /// The error number if the exec failed.
    failure: File,
}

/// The result of releasing a command.
pub(crate) enum Start {
    Running,
    Failed(io::Error),
}

impl Held {
    /// Forks; the child becomes `identity`, if given, and waits.
    pub(crate) fn spawn(words: &[OsString], identity: Option<&Identity>) -> Result<Self, Error> {
        let failed = |source| Error::Fork { source };
        let environment = match identity {
            Some(_) => environment_before_sudo().unwrap_or_else(|| std::env::vars_os().collect()),
            None => std::env::vars_os().collect(),
        };
        let program = find(&words[0], &environment)?;
        // All of the child's memory is made before the fork: after it, only calls that are safe in a
        // signal handler are allowed.
        let program = c_string(program.as_os_str())?;
        let arguments = words.iter().map(|word| c_string(word)).collect::<Result<Vec<_>, _>>()?;
        let mut assignments = Vec::new();
        for (name, value) in &environment {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            assignments.push(c_string(&pair)?);
        }
        let argv = pointers(&arguments);
        let envp = pointers(&assignments);
        let (release_read, release_write) = pipe().map_err(failed)?;
        let (failure_read, failure_write) = pipe().map_err(failed)?;

        // Signals are held back until the child no longer handles them as we do.
        signals::hold(true);
        // SAFETY: the child calls only async-signal-safe functions on memory made above, and ends
        // in exec or _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            signals::unwatch();
        }
        signals::hold(false);
        match pid {
            -1 => return Err(failed(io::Error::last_os_error())),
            0 => {
                // SAFETY: as above; all pointers are NUL-terminated and live, descriptors are open.
                unsafe {
                    libc::close(release_write.as_raw_fd());
                    let mut go = 0u8;
                    // End of file: the recorder is gone.
                    if libc::read(release_read.as_raw_fd(), (&raw mut go).cast(), 1) != 1 {
                        libc::_exit(125);
                    }
                    let became = identity.is_none_or(|user| {
                        libc::setgroups(user.groups.len(), user.groups.as_ptr()) == 0
                            && libc::setresgid(user.gid, user.gid, user.gid) == 0
                            && libc::setresuid(user.uid, user.uid, user.uid) == 0
                    });
                    if became {
                        // Rust's runtime changed this before main; the command gets the default again.
                        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                        libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr());
                    }
                    let errno = *libc::__errno_location();
                    libc::write(failure_write.as_raw_fd(), (&raw const errno).cast(), 4);
                    libc::_exit(126);
                }
            }
            _ => {}
        }
        drop((release_read, failure_write));
        Ok(Self { pid, release: release_write.into(), failure: failure_read.into() })
    }

    /// Lets the child exec.
    pub(crate) fn release(mut self) -> Start {
        if self.release.write_all(&[1]).is_err() {
            // The child is gone already, interrupted for instance; its wait status reports it.
            return Start::Running;
        }
        let mut errno = [0; 4];
        match self.failure.read_exact(&mut errno) {
            Ok(()) => Start::Failed(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            // Closed by the exec.
            Err(_) => Start::Running,
        }
    }
}

/// A command that outlived its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its process id.
    pub pid: i32,
}

impl Running {
    /// Waits for its end and returns its wait status; `None` if it was asked to stop and did not end within `grace`.
    pub fn wait(self, stop: &Signals, grace: Duration) -> Option<i32> {
        const POLL: Duration = Duration::from_millis(20);
        let before = stop.asked();
        let mut asked = None;
        loop {
            stop.pass_on(self.pid);
            if let Some(status) = ended(self.pid) {
                return Some(status);
            }
            if stop.asked() > before && asked.get_or_insert_with(Instant::now).elapsed() > grace {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// The wait status of `pid` if it has ended; does not block.
pub(crate) fn ended(pid: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: `status` is a live integer.
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
    (reaped == pid).then_some(status)
}

/// The exit code that a shell would report for a wait status.
pub fn exit_code(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

/// The program that `word` names, found as a shell finds it.
fn find(word: &OsStr, environment: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    let not_found = || Error::CommandNotFound { command: word.into() };
    if word.is_empty() {
        return Err(not_found());
    }
    if word.as_bytes().contains(&b'/') {
        let path = PathBuf::from(word);
        let data = path.metadata().map_err(|_| not_found())?;
        // A file that cannot be executed is an error before anything is recorded.
        return match data.is_file() && data.permissions().mode() & 0o111 != 0 {
            true => Ok(path),
            false => {
                Err(Error::Exec { command: word.into(), source: io::ErrorKind::PermissionDenied.into() })
            }
        };
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or(OsStr::new("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    let mut unusable = false;
    for folder in std::env::split_paths(path) {
        let candidate = folder.join(word);
        match candidate.metadata() {
            Ok(data) if data.is_file() && data.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(data) if data.is_file() => unusable = true,
            Ok(_) | Err(_) => {}
        }
    }
    match unusable {
        true => Err(Error::Exec { command: word.into(), source: io::ErrorKind::PermissionDenied.into() }),
        false => Err(not_found()),
    }
}

fn c_string(text: &OsStr) -> Result<CString, Error> {
    CString::new(text.as_bytes()).map_err(|_| Error::CommandNotFound { command: text.into() })
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just opened, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}
