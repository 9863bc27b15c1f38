//! A session's end: its command or processes ended, its time is over, or it was asked to stop.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::child;
use crate::signals::Signals;

/// The time that an interrupted command has to end before recording, or waiting for it, stops without it.
pub const GRACE: Duration = Duration::from_secs(2);

/// The reason why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The command, or all target processes, ended.
    Ended,
    /// The requested time was over.
    Duration,
    /// A signal asked to stop.
    Interrupted,
    /// The recording reached its maximum size, or the disk its minimum free space.
    OutOfRoom,
    /// Nothing is probed any more: all probes took more than their budget.
    OverBudget,
}

/// The events that a session waits for.
pub(crate) struct Watch {
    command: Option<i32>,
    /// The processes still running.
    processes: Vec<OwnedFd>,
    until_ended: bool,
    began: Instant,
    duration: Option<Duration>,
    /// When a signal asked to stop.
    interrupted: Option<Instant>,
}

impl Watch {
    /// Watches a session that begins now. It ends with its command, or else with the last of these processes, if
    /// there are any, or when the time is over.
    pub fn new(command: Option<i32>, processes: &[u32], duration: Option<Duration>) -> Self {
        let watched = match command {
            Some(pid) => vec![pid as u32],
            None => processes.to_vec(),
        };
        Self {
            command,
            until_ended: !watched.is_empty(),
            processes: watched.into_iter().filter_map(pidfd).collect(),
            began: Instant::now(),
            duration,
            interrupted: None,
        }
    }

    /// Adds this time to the session's.
    pub const fn add_time(&mut self, more: Duration) {
        if let Some(duration) = &mut self.duration {
            *duration = duration.saturating_add(more);
        }
    }

    fn remaining(&self) -> Option<Duration> {
        self.duration.map(|duration| duration.saturating_sub(self.began.elapsed()))
    }

    /// Sleeps until an event may have come, or `input` is readable; `at_most` this long. Returns whether nothing
    /// came.
    pub fn sleep(&mut self, at_most: Duration, input: Option<BorrowedFd<'_>>) -> bool {
        let time = self.remaining().map_or(at_most, |remaining| remaining.min(at_most));
        wait(&mut self.processes, input, time)
    }

    /// The reason why the session is over, and the command's wait status if it ended; `None` while it goes on.
    pub fn ended(&mut self, stop: &Signals) -> Option<(EndReason, Option<i32>)> {
        if let Some(pid) = self.command
            && let Some(status) = child::ended(pid)
        {
            let reason = if self.interrupted.is_some() { EndReason::Interrupted } else { EndReason::Ended };
            return Some((reason, Some(status)));
        }
        if self.until_ended && self.processes.is_empty() && self.command.is_none() {
            return Some((EndReason::Ended, None));
        }
        if self.remaining() == Some(Duration::ZERO) {
            return Some((EndReason::Duration, None));
        }
        if stop.asked() > 0 {
            // The command got the signal as well, and its ending belongs to its time.
            let since = *self.interrupted.get_or_insert_with(Instant::now);
            if let Some(pid) = self.command {
                stop.pass_on(pid);
            }
            if self.command.is_none() || since.elapsed() > GRACE {
                return Some((EndReason::Interrupted, None));
            }
        }
        None
    }
}

/// A process's descriptor; `None` if there is no such process.
pub(crate) fn pidfd(pid: u32) -> Option<OwnedFd> {
    // SAFETY: plain numbers; the result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: the kernel just opened this descriptor for us, and nothing else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sleeps until a process ends, `input` is readable, a signal comes or the time is over; returns whether the time is
/// over. Removes processes that ended.
fn wait(processes: &mut Vec<OwnedFd>, input: Option<BorrowedFd<'_>>, at_most: Duration) -> bool {
    let descriptors = processes.iter().map(AsRawFd::as_raw_fd).chain(input.map(|fd| fd.as_raw_fd()));
    let mut polled: Vec<libc::pollfd> =
        descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
    };
    // SAFETY: `polled` and `time` live across the call, the count is `polled`'s; no signal mask.
    let ready = unsafe {
        libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const time, std::ptr::null())
    };
    let mut ended = polled.iter().map(|poll| poll.revents != 0);
    processes.retain(|_| !ended.next().unwrap_or(false));
    ready == 0
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_sleep_ends_early_where_a_process_ends_or_input_is_there() {
        let long = Duration::from_secs(20);
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        let mut watch = Watch::new(None, &[child.id()], None);
        let began = Instant::now();
        assert!(!watch.sleep(long, None) && watch.processes.is_empty());
        child.wait().expect("its end");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert!(watch.sleep(Duration::from_millis(1), Some(reader.as_fd())), "nothing came");
        drop(writer);
        assert!(!watch.sleep(long, Some(reader.as_fd())));
        assert!(began.elapsed() < long);
    }
}
