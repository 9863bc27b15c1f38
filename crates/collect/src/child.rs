//! A session's command: held before its exec until recording runs, run as the user who called sudo.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::ptr;
use std::time::{Duration, Instant};

use wakepath_caller::Caller;
use wakepath_process::Process;

use crate::error::Error;
use crate::options::DefaultVariable;
use crate::signals::{self, Signals};

/// The sudo process's environment, from which sudo was called. `None` if our parent is not sudo.
fn environment_before_sudo() -> Option<Vec<(OsString, OsString)>> {
    let parent = Process::open(std::os::unix::process::parent_id()).ok()?;
    let is_sudo = parent.comm().is_ok_and(|comm| comm == b"sudo");
    is_sudo.then(|| parent.environment().ok())?
}

/// Whether an environment has none of these variables.
fn lacks(environment: &[(OsString, OsString)], names: &[&str]) -> bool {
    !environment.iter().any(|(name, _)| names.iter().any(|unless| name == unless))
}

/// A command waiting, before its exec, for [`Held::release`].
pub(crate) struct Held {
    pub(crate) pid: i32,
    /// Whether the command got the default variable.
    pub(crate) has_default: bool,
    /// A byte written here lets the child exec.
    release: File,
    /// The error number if the exec failed.
    failure: File,
}

impl Held {
    /// Forks; the child becomes `identity`, if given, and waits. Running the command as root instead would change
    /// what is measured.
    pub(crate) fn spawn(
        words: &[OsString],
        identity: Option<&Caller>,
        variable: Option<&DefaultVariable>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Fork { source };
        let mut environment = match identity {
            Some(_) => environment_before_sudo().unwrap_or_else(|| std::env::vars_os().collect()),
            None => std::env::vars_os().collect(),
        };
        let added = variable.filter(|variable| lacks(&environment, variable.unless));
        environment.extend(added.map(|variable| (variable.name.into(), variable.value.clone().into())));
        let program = find(&words[0], &environment)?;
        // All the child's memory is made before the fork: after it, only async-signal-safe calls are allowed.
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
                    if identity.is_none_or(Caller::assume) {
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
        Ok(Self {
            pid,
            has_default: added.is_some(),
            release: release_write.into(),
            failure: failure_read.into(),
        })
    }

    /// Lets the child exec. Returns the error if it could not.
    pub(crate) fn release(mut self) -> io::Result<()> {
        let mut errno = [0; 4];
        // The child may be gone already, interrupted for instance: its wait status reports it. An exec closes the pipe.
        let failed = self.release.write_all(&[1]).and_then(|()| self.failure.read_exact(&mut errno)).is_ok();
        if failed { Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))) } else { Ok(()) }
    }
}

/// A command that outlived its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// The command's process id.
    pub pid: i32,
}

impl Running {
    /// Ends the command: asks it by SIGTERM, and kills it if it goes on for longer than `grace`.
    pub fn end(self, grace: Duration) {
        const POLL: Duration = Duration::from_millis(5);
        let began = Instant::now();
        // SAFETY: takes numbers. The process is our child, and its number is not used again before `ended` reaps it.
        let send = |signal| unsafe { libc::kill(self.pid, signal) };
        send(libc::SIGTERM);
        while ended(self.pid).is_none() {
            if began.elapsed() > grace {
                send(libc::SIGKILL);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the command's end and returns its wait status; `None` if it was asked to stop and did not end within
    /// `grace`.
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

/// The program file for a command's exec.
pub(crate) fn program_of(words: &[OsString], identity: Option<&Caller>) -> Option<PathBuf> {
    let environment = identity.and_then(|_| environment_before_sudo());
    find(words.first()?, &environment.unwrap_or_else(|| std::env::vars_os().collect())).ok()
}

/// The program for the name `word`, found like in a shell.
fn find(word: &OsStr, environment: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    let not_found = || Error::CommandNotFound { command: word.into() };
    let unusable = || Error::Exec { command: word.into(), source: io::ErrorKind::PermissionDenied.into() };
    let is_program = |data: &Metadata| data.is_file() && data.permissions().mode() & 0o111 != 0;
    if word.is_empty() {
        return Err(not_found());
    }
    if word.as_bytes().contains(&b'/') {
        let path = PathBuf::from(word);
        let data = path.metadata().map_err(|_| not_found())?;
        // A file that cannot be executed is an error before anything is recorded.
        return if is_program(&data) { Ok(path) } else { Err(unusable()) };
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or(OsStr::new("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    let mut failure = not_found();
    for candidate in std::env::split_paths(path).map(|folder| folder.join(word)) {
        match candidate.metadata() {
            Ok(data) if is_program(&data) => return Ok(candidate),
            Ok(data) if data.is_file() => failure = unusable(),
            Ok(_) | Err(_) => {}
        }
    }
    Err(failure)
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
