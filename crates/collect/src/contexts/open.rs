//! Spans that a thread works for too long: a trigger before any finished span arrives.
//!
//! A thread's context is read where it leaves the CPU, wakes another thread or sends a packet, and its hash is kept:
//! `contexts_told` of `bpf/thread_context.bpf.h`. A waiting thread has the context with which it left the CPU, so an
//! unchanged hash means an ongoing span.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use wakepath_process::Process;
use wakepath_recording::flight::TriggerCause;

use crate::{clocks, rings};

/// `CONTEXTS_TOLD` of `bpf/thread_context.bpf.h`.
const PLACES: usize = 16384;
/// A hash's bit for a thread that works for a span.
const IS_SPAN: u64 = 1;
/// The interval at which hashes are looked at: a span may trigger this much later than requested.
const INTERVAL: Duration = Duration::from_millis(50);

/// A trigger by ongoing spans.
#[derive(Debug, Clone)]
pub struct OpenSpans {
    /// The time after which a span triggers.
    pub longest: Duration,
    /// Takes the causes.
    pub causes: SyncSender<TriggerCause>,
}

/// The context last seen at a place.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    hash: u64,
    /// The first time, ns on the monotonic clock.
    since: u64,
    /// The span has triggered.
    told: bool,
}

/// Looks for such spans.
pub(crate) struct OpenSpanWatch {
    asked: OpenSpans,
    told: NonNull<u8>,
    seen: Vec<Seen>,
    looked: Instant,
}

// SAFETY: the mapping is owned by this value and reached through atomics alone.
unsafe impl Send for OpenSpanWatch {}

impl OpenSpanWatch {
    /// Maps the array map behind this descriptor.
    pub(crate) fn map(asked: OpenSpans, told: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::of(asked, rings::map(PLACES * 8, libc::MAP_SHARED, told.as_raw_fd())?))
    }

    fn of(asked: OpenSpans, told: NonNull<u8>) -> Self {
        Self { asked, told, seen: vec![Seen::default(); PLACES], looked: Instant::now() }
    }

    fn hash(&self, place: usize) -> &AtomicU64 {
        assert!(place < PLACES);
        // SAFETY: in bounds by the assertion, 8-aligned, and only ever accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.told.as_ptr().add(8 * place).cast()) }
    }

    /// Looks for threads in the known processes that work too long for the same span.
    pub(crate) fn look(&mut self, known: &HashMap<u32, u64>) {
        if self.looked.elapsed() < INTERVAL {
            return;
        }
        self.looked = Instant::now();
        for (place, since) in self.too_long(clocks::now().ns()) {
            for (tgid, tid) in threads(known.keys(), place) {
                let comm = Process::open(tgid).and_then(|process| process.task(tid)?.comm());
                let comm = comm.unwrap_or_default();
                let comm = String::from_utf8_lossy(&comm);
                let longest = self.asked.longest.as_millis();
                let text = format!("{comm} ({tid}) works for one span for more than {longest} ms");
                let cause =
                    TriggerCause { text, word: "open", since: Some(since), asked: false, linked: false };
                // Where many causes wait already, one of them keeps these seconds.
                let _ = self.asked.causes.try_send(cause);
            }
        }
    }

    /// The places whose threads have worked too long for the same span now, each once, with its first time.
    fn too_long(&mut self, now: u64) -> Vec<(u32, u64)> {
        let longest = u64::try_from(self.asked.longest.as_nanos()).unwrap_or(u64::MAX);
        let mut found = Vec::new();
        for place in 0..PLACES {
            let hash = self.hash(place).load(Ordering::Relaxed);
            let seen = &mut self.seen[place];
            if seen.hash != hash {
                *seen = Seen { hash, since: now, told: false };
            }
            let is_due = hash & IS_SPAN != 0 && !seen.told && now - seen.since >= longest;
            if is_due {
                seen.told = true;
                found.push((place as u32, seen.since));
            }
        }
        found
    }
}

impl Drop for OpenSpanWatch {
    fn drop(&mut self) {
        // SAFETY: the mapping made with this value, which nothing else refers to.
        unsafe {
            libc::munmap(self.told.as_ptr().cast(), PLACES * 8);
        }
    }
}

/// The threads at this place in these processes, each behind its process.
fn threads<'a>(processes: impl Iterator<Item = &'a u32>, place: u32) -> Vec<(u32, u32)> {
    let of = |&tgid: &u32| {
        let tids = Process::open(tgid).and_then(|process| process.tasks()).unwrap_or_default().into_iter();
        tids.filter(|tid: &u32| tid % PLACES as u32 == place).map(move |tid| (tgid, tid)).collect::<Vec<_>>()
    };
    processes.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_span_that_goes_on_triggers_once_and_another_one_or_none_does_not() {
        let (causes, _) = sync_channel(1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = rings::map(PLACES * 8, flags, -1).expect("memory");
        let mut watch = OpenSpanWatch::of(OpenSpans { longest: Duration::from_nanos(100), causes }, memory);
        let set = |watch: &OpenSpanWatch, place, hash| watch.hash(place).store(hash, Ordering::Relaxed);
        assert_eq!(watch.too_long(1000), []);
        set(&watch, 7, 0x11);
        set(&watch, 8, 0x20);
        set(&watch, PLACES - 1, 0x31);
        assert_eq!(watch.too_long(1010), []);
        set(&watch, PLACES - 1, 0x33);
        assert_eq!(watch.too_long(1109), []);
        assert_eq!(watch.too_long(1110), [(7, 1010)]);
        assert_eq!(watch.too_long(1208), [], "once");
        assert_eq!(watch.too_long(1209), [(PLACES as u32 - 1, 1109)], "since the new one is there");
        set(&watch, 7, 0x13);
        assert_eq!(watch.too_long(1300), []);
        assert_eq!(watch.too_long(1400), [(7, 1300)], "the next one");
    }

    #[test]
    fn a_place_is_of_the_threads_whose_numbers_are_equal_behind_the_size_of_the_table() {
        let own = std::process::id();
        assert!(threads([own].iter(), own % PLACES as u32).contains(&(own, own)));
        assert!(!threads([own].iter(), (own + 1) % PLACES as u32).contains(&(own, own)));
        let header = include_str!("../../../../bpf/thread_context.bpf.h");
        assert!(header.contains(&format!("#define CONTEXTS_TOLD {PLACES}\n")));
    }
}
