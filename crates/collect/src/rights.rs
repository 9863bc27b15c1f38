//! Capabilities: which are held, and dropping those that are no longer needed.
//!
//! Attaching needs many; draining mapped memory into open files needs none, and reading other
//! processes' mappings two. The path is computed without any.

use std::io;

use wakepath_caller::Caller;

/// `_LINUX_CAPABILITY_VERSION_3`: two 32-bit words.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// A capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capability {
    /// The capability's number in the kernel.
    number: u32,
    /// The capability's name.
    pub(crate) name: &'static str,
}

pub(crate) const PERFMON: Capability = Capability { number: 38, name: "CAP_PERFMON" };
pub(crate) const BPF: Capability = Capability { number: 39, name: "CAP_BPF" };
pub(crate) const SYS_ADMIN: Capability = Capability { number: 21, name: "CAP_SYS_ADMIN" };
pub(crate) const SYS_PTRACE: Capability = Capability { number: 19, name: "CAP_SYS_PTRACE" };
pub(crate) const SYSLOG: Capability = Capability { number: 34, name: "CAP_SYSLOG" };
const CHECKPOINT_RESTORE: Capability = Capability { number: 40, name: "CAP_CHECKPOINT_RESTORE" };
const KILL: Capability = Capability { number: 5, name: "CAP_KILL" };

/// The capabilities for reading other processes' mappings and, through `/proc/PID/map_files`, the mapped files.
const WHILE_RECORDING: [Capability; 2] = [SYS_PTRACE, CHECKPOINT_RESTORE];

impl Capability {
    const fn bit(self) -> u64 {
        1 << self.number
    }

    /// Whether this process has the capability in effect. `CAP_SYS_ADMIN` includes the capabilities split from it.
    pub(crate) fn is_held(self) -> bool {
        let held = get().map_or(0, |sets| sets.effective);
        let split = [PERFMON, BPF, CHECKPOINT_RESTORE].contains(&self);
        held & self.bit() != 0 || split && held & SYS_ADMIN.bit() != 0
    }
}

/// Whether this process may load our programs, as far as capabilities decide.
pub(crate) fn may_load_programs() -> bool {
    BPF.is_held() && PERFMON.is_held()
}

/// Drops all privileges but a running session's: becomes `owner`, if given, and keeps two capabilities; `CAP_KILL`
/// too, for passing signals on, if the command stays root's.
pub(crate) fn keep_for_session(owner: Option<&Caller>, command_is_roots: bool) -> io::Result<()> {
    keep(&WHILE_RECORDING, owner, command_is_roots)
}

/// Drops all privileges: becomes `owner`, if given. Only `CAP_KILL` stays, where the command is root's and signals
/// still have to be passed on to it.
///
/// # Errors
/// When the kernel refuses, which it has no reason to.
pub fn drop_rights(owner: Option<&Caller>, command_is_roots: bool) -> io::Result<()> {
    keep(&[], owner, command_is_roots)
}

fn keep(few: &[Capability], owner: Option<&Caller>, command_is_roots: bool) -> io::Result<()> {
    let held = get()?.permitted;
    let kill = (owner.is_some() && command_is_roots).then_some(&KILL);
    let keep = few.iter().chain(kill);
    let keep = keep.fold(0, |bits, capability| bits | capability.bit()) & held;
    // SAFETY: takes nothing, changes nothing.
    let is_another = |owner: &&Caller| unsafe { libc::getuid() } != owner.uid;
    if let Some(owner) = owner.filter(is_another) {
        // SAFETY: plain numbers; the result is checked.
        let keeps = unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 };
        if !(keeps && owner.assume()) {
            return Err(io::Error::last_os_error());
        }
    }
    set(keep)
}

/// This thread's capabilities, a bit for each.
struct Sets {
    effective: u64,
    permitted: u64,
}

fn get() -> io::Result<Sets> {
    let header = Header { version: VERSION, pid: 0 };
    let mut words = [Word::default(); 2];
    // SAFETY: version 3 fills two words, which are there.
    if unsafe { libc::syscall(libc::SYS_capget, &raw const header, words.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let [low, high] = words;
    let (effective, permitted) = (join(low.effective, high.effective), join(low.permitted, high.permitted));
    Ok(Sets { effective, permitted })
}

fn set(bits: u64) -> io::Result<()> {
    let header = Header { version: VERSION, pid: 0 };
    let word = |bits: u64| Word { effective: bits as u32, permitted: bits as u32, inheritable: 0 };
    let words = [word(bits), word(bits >> 32)];
    // SAFETY: version 3 reads two words, which are there.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `check` in a separate process, which loses its privileges; returns its result.
    fn in_a_process(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `check`, which neither takes locks of other threads nor returns.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child without running the parent's exit handlers.
            0 => unsafe { libc::_exit(i32::from(!check())) },
            child => {
                let mut status = 0;
                // SAFETY: `status` is a live integer.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }

    #[test]
    fn a_session_keeps_no_more_than_two_capabilities_and_an_analysis_none() {
        let few = WHILE_RECORDING.iter().fold(0, |bits, capability| bits | capability.bit());
        assert!(in_a_process(
            || keep_for_session(None, true).is_ok() && get().is_ok_and(|held| held.permitted & !few == 0)
        ));
        assert!(in_a_process(
            || drop_rights(None, true).is_ok() && get().is_ok_and(|held| held.permitted == 0)
        ));
    }

    #[test]
    fn root_becomes_the_user_who_called_sudo() {
        // SAFETY: takes nothing, changes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!(
                "skipped: becoming another user needs root; would show that a session runs as the user who called sudo"
            );
            return;
        }
        let nobody = Caller { uid: 65534, gid: 65534, groups: vec![65534] };
        assert!(in_a_process(move || {
            // SAFETY: takes nothing, changes nothing.
            keep_for_session(Some(&nobody), false).is_ok() && unsafe { libc::getuid() } == 65534
        }));
    }
}
