//! Capabilities: which are held, and dropping those that are no longer needed.
//!
//! Attaching needs many; draining mapped memory into open files needs none, and reading other
//! processes' mappings two. The path is computed without any.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use wakepath_caller::Caller;

/// A capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capability {
    /// The set of this capability alone.
    set: CapabilitySet,
    /// The capability's name.
    pub(crate) name: &'static str,
}

pub(crate) const PERFMON: Capability = Capability { set: CapabilitySet::PERFMON, name: "CAP_PERFMON" };
pub(crate) const BPF: Capability = Capability { set: CapabilitySet::BPF, name: "CAP_BPF" };
pub(crate) const SYS_ADMIN: Capability = Capability { set: CapabilitySet::SYS_ADMIN, name: "CAP_SYS_ADMIN" };
pub(crate) const SYS_PTRACE: Capability =
    Capability { set: CapabilitySet::SYS_PTRACE, name: "CAP_SYS_PTRACE" };
pub(crate) const SYSLOG: Capability = Capability { set: CapabilitySet::SYSLOG, name: "CAP_SYSLOG" };
const CHECKPOINT_RESTORE: Capability =
    Capability { set: CapabilitySet::CHECKPOINT_RESTORE, name: "CAP_CHECKPOINT_RESTORE" };
const KILL: Capability = Capability { set: CapabilitySet::KILL, name: "CAP_KILL" };

/// The capabilities for reading other processes' mappings and, through `/proc/PID/map_files`, the mapped files.
const WHILE_RECORDING: [Capability; 2] = [SYS_PTRACE, CHECKPOINT_RESTORE];

impl Capability {
    /// Whether this process has the capability in effect. `CAP_SYS_ADMIN` includes the capabilities split from it.
    pub(crate) fn is_held(self) -> bool {
        let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let split = [PERFMON, BPF, CHECKPOINT_RESTORE].contains(&self);
        held.contains(self.set) || split && held.contains(SYS_ADMIN.set)
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
    let held = capabilities(None)?.permitted;
    let kill = (owner.is_some() && command_is_roots).then_some(&KILL);
    let keep = few.iter().chain(kill);
    let keep = keep.fold(CapabilitySet::empty(), |sets, capability| sets | capability.set) & held;
    // SAFETY: takes nothing, changes nothing.
    let is_another = |owner: &&Caller| unsafe { libc::getuid() } != owner.uid;
    if let Some(owner) = owner.filter(is_another) {
        // SAFETY: plain numbers; the result is checked.
        let keeps = unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 };
        if !(keeps && owner.assume()) {
            return Err(io::Error::last_os_error());
        }
    }
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: keep, permitted: keep, inheritable })?)
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
        let few = CapabilitySet::SYS_PTRACE | CapabilitySet::CHECKPOINT_RESTORE;
        let permitted = || capabilities(None).map(|sets| sets.permitted);
        assert!(in_a_process(
            || keep_for_session(None, true).is_ok() && permitted().is_ok_and(|held| few.contains(held))
        ));
        assert!(in_a_process(
            || drop_rights(None, true).is_ok() && permitted().is_ok_and(|held| held.is_empty())
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
