//! Two alternating threads in this process, on the same CPU.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::priority::RaisedPriority;

/// A datagram that does not come back within this time never will.
const PATIENCE: Duration = Duration::from_millis(50);

/// Keeps this thread on its current CPU, with raised priority, until this value is dropped. Threads that it starts
/// inherit both.
pub(super) struct Pinned {
    before: libc::cpu_set_t,
    _priority: RaisedPriority,
}

impl Pinned {
    pub(super) fn new() -> Option<Self> {
        // SAFETY: an empty set is valid.
        let (mut before, mut one) =
            unsafe { (std::mem::zeroed::<libc::cpu_set_t>(), std::mem::zeroed::<libc::cpu_set_t>()) };
        // SAFETY: the kernel fills a set with this size, or refuses.
        let read = unsafe { libc::sched_getaffinity(0, size_of_val(&before), &raw mut before) };
        // SAFETY: takes nothing.
        let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        if read != 0 || cpu >= libc::CPU_SETSIZE as usize {
            return None;
        }
        // SAFETY: the number lies within the set.
        unsafe { libc::CPU_SET(cpu, &mut one) };
        // SAFETY: reads a set with this size.
        let set = unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
        (set == 0).then(|| Self { before, _priority: RaisedPriority::starting() })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: reads a set with this size, which the kernel filled.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.before), &raw const self.before) };
    }
}

/// Two alternating threads: this thread, and an answering thread.
pub(super) struct PingPong {
    way: Way,
    ended: Arc<AtomicBool>,
    answers: Option<JoinHandle<()>>,
}

enum Way {
    Pipes { to: Option<PipeWriter>, from: PipeReader },
    Loopback(UdpSocket),
}

impl PingPong {
    /// Through two pipes. A round trip has two switches and two wake-ups.
    pub(super) fn through_pipes() -> io::Result<Self> {
        let ((mut asked, to), (from, mut answer)) = (pipe()?, pipe()?);
        Self::new(Way::Pipes { to: Some(to), from }, move |_| {
            let mut byte = [0];
            while asked.read_exact(&mut byte).is_ok() && answer.write_all(&byte).is_ok() {}
        })
    }

    /// By datagrams over the loopback interface. A round trip has two packets, each sent and received, in two
    /// softirqs.
    pub(super) fn over_loopback() -> io::Result<Self> {
        let own = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        own.connect(other.local_addr()?)?;
        other.connect(own.local_addr()?)?;
        own.set_read_timeout(Some(PATIENCE))?;
        other.set_read_timeout(Some(PATIENCE))?;
        Self::new(Way::Loopback(own), move |ended| {
            let mut message = [0; 32];
            while !ended.load(Ordering::Relaxed) {
                if let Ok(1..) = other.recv(&mut message) {
                    // A datagram not sent is missed by the other side.
                    let _ = other.send(&message);
                }
            }
        })
    }

    fn new(way: Way, answer: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = std::thread::Builder::new().spawn(move || answer(&seen))?;
        Ok(Self { way, ended, answers: Some(thread) })
    }

    /// The time for some round trips; `None` if a trip failed.
    pub(super) fn slice(&mut self, trips: u64) -> Option<Duration> {
        let began = Instant::now();
        for _ in 0..trips {
            match &mut self.way {
                Way::Pipes { to, from } => {
                    to.as_mut()?.write_all(&[0]).ok()?;
                    from.read_exact(&mut [0]).ok()?;
                }
                Way::Loopback(socket) => {
                    socket.send(&[0; 32]).ok()?;
                    socket.recv(&mut [0; 32]).ok()?;
                }
            }
        }
        Some(began.elapsed())
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        match &mut self.way {
            // The other thread reads the end of its pipe.
            Way::Pipes { to, .. } => drop(to.take()),
            Way::Loopback(socket) => {
                let _ = socket.send(&[]);
            }
        }
        if let Some(thread) = self.answers.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_take_time_and_the_other_thread_ends() {
        let mut through_pipes = PingPong::through_pipes().unwrap();
        assert!(through_pipes.slice(10).unwrap() > Duration::ZERO);
        drop(through_pipes);
        let mut over_loopback = PingPong::over_loopback().unwrap();
        assert!(over_loopback.slice(10).unwrap() > Duration::ZERO);
    }

    #[test]
    fn a_pinned_thread_gets_its_cpus_back() {
        let cpus = || std::thread::available_parallelism().unwrap().get();
        let before = cpus();
        let pinned = Pinned::new().unwrap();
        assert_eq!(cpus(), 1);
        drop(pinned);
        assert_eq!(cpus(), before);
    }
}
