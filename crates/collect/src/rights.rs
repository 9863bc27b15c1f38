//! Gives up rights as soon as they have served.
//!
//! Attaching needs much; draining mapped memory into files that are open needs nothing, and reading
//! other processes' mappings a little. The path is computed with no capability at all.

use std::io;

use crate::Identity;

/// `_LINUX_CAPABILITY_VERSION_3`: two words of 32 bits each.
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

/// What reading other processes' mappings takes: `CAP_SYS_PTRACE`, and for the files behind them
/// `CAP_CHECKPOINT_RESTORE`.
const WHILE_RECORDING: [u32; 2] = [19, 40];

/// What passing a signal on to another user's command takes: `CAP_KILL`.
const TO_SIGNAL: u32 = 5;

/// From here on only what a running session needs: becomes `owner`, if one called sudo, and keeps
/// two capabilities; a third one if the command stays root's.
pub(crate) fn lower_for_session(owner: Option<&Identity>, command_is_roots: bool) -> io::Result<()> {
    let held = get()?;
    let to_signal = (owner.is_some() && command_is_roots).then_some(TO_SIGNAL);
    let keep = WHILE_RECORDING.into_iter().chain(to_signal);
    let keep = keep.fold(0u64, |bits, number| bits | 1 << number) & held;
    if let Some(owner) = owner {
        // SAFETY: plain numbers and a live array with its own length; results are checked.
        let became = unsafe {
            libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0
                && libc::setgroups(owner.groups().len(), owner.groups().as_ptr()) == 0
                && libc::setresgid(owner.gid, owner.gid, owner.gid) == 0
                && libc::setresuid(owner.uid, owner.uid, owner.uid) == 0
        };
        if !became {
            return Err(io::Error::last_os_error());
        }
    }
    set(keep)
}

/// From here on no capability at all.
///
/// # Errors
/// When the kernel refuses, which it has no reason to.
pub fn drop_capabilities() -> io::Result<()> {
    set(0)
}

/// Capabilities permitted to this thread, a bit each.
fn get() -> io::Result<u64> {
    let header = Header { version: VERSION, pid: 0 };
    let mut words = [Word::default(); 2];
    // SAFETY: version 3 fills two words, which are there.
    if unsafe { libc::syscall(libc::SYS_capget, &raw const header, words.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(words[1].permitted) << 32 | u64::from(words[0].permitted))
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

    /// Runs `check` in a process of its own, whose rights it may spoil; true when it says so.
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
        let few = WHILE_RECORDING.iter().fold(0u64, |bits, number| bits | 1 << number);
        assert!(in_a_process(
            || lower_for_session(None, true).is_ok() && get().is_ok_and(|held| held & !few == 0)
        ));
        assert!(in_a_process(|| drop_capabilities().is_ok() && get().is_ok_and(|held| held == 0)));
    }

    #[test]
    fn root_becomes_the_one_who_called_sudo() {
        // SAFETY: takes nothing, changes nothing.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!(
                "skipped: becoming another user needs root; would show that a session runs as who called sudo"
            );
            return;
        }
        let nobody = Identity::new(65534, 65534, vec![65534]);
        assert!(in_a_process(move || {
            // SAFETY: takes nothing, changes nothing.
            lower_for_session(Some(&nobody), false).is_ok() && unsafe { libc::getuid() } == 65534
        }));
    }
}
