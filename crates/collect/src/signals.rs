//! Signals that ask to stop, and their passing on to the command.
//!
//! Ctrl-C on a terminal goes to every process in the foreground, the command included; a signal from another process
//! goes to us alone. The second kind is passed on, so that the command gets the same signals as without us.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const WATCHED: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The number of signals so far.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// The signals to pass on to the command, a bit for each.
static TO_PASS_ON: AtomicU32 = AtomicU32::new(0);

/// The number of requests to a flight recorder to keep its records, and the last request's sender.
static ASKED_TO_KEEP: AtomicU32 = AtomicU32::new(0);
static SENDER: AtomicU32 = AtomicU32::new(0);
/// The number of requests from linked recorders, and the earliest and latest time named in requests since the last
/// look, ns.
static LINKED: AtomicU32 = AtomicU32::new(0);
static EARLIEST: AtomicU64 = AtomicU64::new(NO_MOMENT);
static LATEST: AtomicU64 = AtomicU64::new(0);
/// A signal without a time: it means the time at which it is seen, which is later than any named time.
const NO_MOMENT: u64 = u64::MAX;

/// The signals that ask this process to stop, from [`Signals::watch`] on.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    /// From now on Ctrl-C, SIGTERM and SIGHUP ask to stop and do not end the process. Beside a command, ignored
    /// signals (as by `nohup`) stay ignored, for both.
    ///
    /// # Errors
    /// When the kernel refuses, which it has no reason to.
    pub fn watch(beside_command: bool) -> io::Result<Self> {
        for signal in WATCHED {
            if !(beside_command && is_ignored(signal)) {
                set(signal, arrived as *const () as libc::sighandler_t)?;
            }
        }
        Ok(Self(()))
    }

    /// From now on SIGUSR1 asks a flight recorder to keep its records.
    ///
    /// # Errors
    /// When the kernel refuses, which it has no reason to.
    pub fn watch_keep(&self) -> io::Result<()> {
        set(libc::SIGUSR1, asked_to_keep as *const () as libc::sighandler_t)
    }

    /// The number of signals so far.
    pub fn asked(&self) -> u32 {
        ASKED.load(Ordering::Relaxed)
    }

    /// Sends a process the signals that only we got. A dead process, or another user's, gets none.
    pub(crate) fn pass_on(&self, pid: i32) {
        let signals = TO_PASS_ON.swap(0, Ordering::Relaxed);
        for signal in WATCHED.into_iter().filter(|signal| signals & 1 << signal != 0) {
            // SAFETY: plain numbers. The process is our child and was not waited for, so its id is its own.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

/// A time for a flight recorder to keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time, ns on the monotonic clock; 0: when the recorder sees the request.
    pub at: u64,
    /// Another recorder asks, which asks all recorders linked with it.
    pub linked: bool,
}

impl Moment {
    /// The word in the signal.
    fn word(self) -> u64 {
        self.at.min(u64::MAX >> 1) << 1 | u64::from(self.linked)
    }

    const fn from_word(word: u64) -> Self {
        Self { at: word >> 1, linked: word & 1 == 1 }
    }
}

/// The signals that asked to keep a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeepAsked {
    /// The number so far.
    pub(crate) signals: u32,
    /// The number from linked recorders.
    pub(crate) linked: u32,
    /// The last signal's sender; 0 where it is not known.
    pub(crate) sender: u32,
    /// The earliest time named since the last look, ns on the monotonic clock.
    pub(crate) earliest: Option<u64>,
    /// The latest time; `None` where a signal named none.
    pub(crate) latest: Option<u64>,
}

/// The requests so far. Without a new request since `before`, no time is taken, so that a signal in between is not
/// lost.
pub(crate) fn keep_asked(before: KeepAsked) -> KeepAsked {
    let signals = ASKED_TO_KEEP.load(Ordering::Acquire);
    if signals == before.signals {
        return before;
    }
    let moment = |at: u64| Some(at).filter(|&at| at != NO_MOMENT && at != 0);
    KeepAsked {
        signals,
        linked: LINKED.load(Ordering::Relaxed),
        sender: SENDER.load(Ordering::Relaxed),
        earliest: moment(EARLIEST.swap(NO_MOMENT, Ordering::Relaxed)),
        latest: moment(LATEST.swap(0, Ordering::Relaxed)),
    }
}

/// Asks the flight recorder in a process to keep the records around a time.
///
/// # Errors
/// When there is no such process, or it is another user's.
pub fn ask_to_keep(pid: i32, moment: Moment) -> io::Result<()> {
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(moment.word() as usize) };
    // SAFETY: plain numbers; no code follows the value as a pointer.
    let failed = unsafe { libc::sigqueue(pid, libc::SIGUSR1, value) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether SIGCHLD was ignored when the program started.
static CHILDREN_IGNORED: AtomicBool = AtomicBool::new(false);

/// From now on the kernel keeps the wait status of children, also if the program was started with SIGCHLD ignored. The command
/// then ignores it again.
pub fn keep_child_status() {
    if is_ignored(libc::SIGCHLD) {
        CHILDREN_IGNORED.store(true, Ordering::Relaxed);
        // SAFETY: plain numbers.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Gives signals the effects from the program's start again, in a child between fork and exec.
pub(crate) fn unwatch() {
    if CHILDREN_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: an async-signal-safe call with plain numbers.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    for signal in WATCHED.into_iter().filter(|&signal| !is_ignored(signal)) {
        // SAFETY: an async-signal-safe call with plain numbers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Whether a signal is ignored now. Safe in a signal handler.
fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `now` is filled by the call, which changes nothing without a new action; zero is valid for every field.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Blocks or unblocks the watched signals.
pub(crate) fn hold(held: bool) {
    let how = if held { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is made before it is used; all calls are async-signal-safe.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in WATCHED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut());
    }
}

fn set(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: zero is valid for every field; the handler has the form for SA_SIGINFO and touches nothing but atomics.
    let failed = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn arrived(signal: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    // SAFETY: the kernel hands a valid pointer to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    // Positive: sent by the kernel, as by a terminal; else by a process.
    if code <= 0 {
        TO_PASS_ON.fetch_or(1 << signal, Ordering::Relaxed);
    }
    ASKED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn asked_to_keep(_: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    // SAFETY: the kernel hands a valid pointer to a handler with SA_SIGINFO; a process's signal (code 0 or below) has
    // the sender field.
    let sender = unsafe { if (*info).si_code <= 0 { (*info).si_pid() } else { 0 } };
    // SAFETY: as above; a `sigqueue` signal carries a value, which is a number here.
    let word =
        unsafe { if (*info).si_code == libc::SI_QUEUE { (*info).si_value().sival_ptr as u64 } else { 0 } };
    let moment = Moment::from_word(word);
    SENDER.store(sender.max(0) as u32, Ordering::Relaxed);
    let at = if moment.at == 0 { NO_MOMENT } else { moment.at };
    EARLIEST.fetch_min(at, Ordering::Relaxed);
    LATEST.fetch_max(at, Ordering::Relaxed);
    LINKED.fetch_add(u32::from(moment.linked), Ordering::Relaxed);
    ASKED_TO_KEEP.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_came_together_have_their_earliest_and_their_latest_moment() {
        Signals(()).watch_keep().expect("a handler");
        let own = std::process::id() as i32;
        let mut before = keep_asked(KeepAsked::default());
        // The times named in signals, 0 for none; the number from linked recorders.
        for (moments, linked, earliest, latest) in [
            (&[500][..], 1, Some(500), Some(500)),
            (&[0], 0, None, None),
            (&[500, 300, 400], 0, Some(300), Some(500)),
            (&[300, 0], 1, Some(300), None),
            (&[0, 300], 2, Some(300), None),
        ] {
            for (place, at) in moments.iter().enumerate() {
                let moment = Moment { at: *at, linked: place < linked };
                ask_to_keep(own, moment).expect("our own process");
                // Another thread may take the signal, a little later.
                while ASKED_TO_KEEP.load(Ordering::Acquire) == before.signals + place as u32 {
                    std::thread::yield_now();
                }
            }
            let now = keep_asked(before);
            let asked = (now.signals - before.signals, now.linked - before.linked, now.sender);
            assert_eq!(asked, (moments.len() as u32, linked as u32, std::process::id()), "{moments:?}");
            assert_eq!((now.earliest, now.latest), (earliest, latest), "{moments:?}");
            before = now;
            assert_eq!(keep_asked(before), before, "no more of them");
        }
    }

    #[test]
    fn a_moment_survives_its_word() {
        for at in [0, 1, 86_400_000_000_000, u64::MAX >> 1] {
            for linked in [false, true] {
                let moment = Moment { at, linked };
                assert_eq!(Moment::from_word(moment.word()), moment);
            }
        }
        // The value from another sender names no future time.
        assert_eq!(Moment { at: u64::MAX, linked: true }.word(), u64::MAX);
    }
}
