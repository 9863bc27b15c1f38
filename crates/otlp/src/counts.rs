//! The numbers of received spans and requests, by outcome.

use std::collections::HashSet;
use std::hash::BuildHasher as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::filter::Kept;

/// A receiver's spans and requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// The addresses at which it listened.
    pub addresses: Vec<SocketAddr>,
    /// Written spans.
    pub spans: u64,
    /// The number of services with written spans; [`MAX_SERVICES`] stands for this number and more.
    pub services: usize,
    /// Spans refused for invalid ids.
    pub invalid: u64,
    /// Refused requests that could not be decoded, or were cut off.
    pub malformed: u64,
    /// Refused requests above the largest size.
    pub too_large: u64,
    /// Requests refused because too much was waiting already; clients send them again.
    pub busy: u64,
    /// Requests that took too long to arrive.
    pub slow: u64,
    /// Connections closed at once, because too many were open.
    pub connections_refused: u64,
    /// Valid spans that could not be written.
    pub unwritten: u64,
    /// The reason why they could not be written.
    pub why_unwritten: Option<String>,
    /// Dropped requests with metrics, logs or profiles.
    pub dropped: u64,
    /// The forwarded requests, if forwarding is on.
    pub forwarded: Option<Forwarded>,
}

/// The forwarded requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// The backend's URL.
    pub url: String,
    /// Requests with an answer.
    pub answered: u64,
    /// Requests whose answer was an error, among the answered.
    pub refused: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// The reason for the last failure.
    pub why_failed: Option<String>,
}

/// The largest number of services that is counted.
pub const MAX_SERVICES: usize = 4096;

/// The counts of a running receiver.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    spans: AtomicU64,
    invalid: AtomicU64,
    malformed: AtomicU64,
    too_large: AtomicU64,
    busy: AtomicU64,
    slow: AtomicU64,
    connections_refused: AtomicU64,
    unwritten: AtomicU64,
    dropped: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    rest: Mutex<Rest>,
}

#[derive(Debug, Default)]
struct Rest {
    /// Hashes, since names may be long.
    services: HashSet<u64>,
    hasher: foldhash::fast::RandomState,
    why_unwritten: Option<String>,
    why_failed: Option<String>,
}

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn written(&self, kept: &Kept) {
        self.spans.fetch_add(kept.spans, Ordering::Relaxed);
        let mut rest = self.rest();
        for name in &kept.services {
            if rest.services.len() < MAX_SERVICES {
                let hash = rest.hasher.hash_one(name);
                rest.services.insert(hash);
            }
        }
    }

    pub(crate) fn unwritten(&self, spans: u64) {
        self.unwritten.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn cannot_write(&self, why: String) {
        self.rest().why_unwritten.get_or_insert(why);
    }

    /// The reason why nothing can be written any more.
    pub(crate) fn why_unwritten(&self) -> Option<String> {
        self.rest().why_unwritten.clone()
    }

    pub(crate) fn invalid(&self, spans: u64) {
        self.invalid.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn malformed(&self) {
        one_more(&self.malformed);
    }

    pub(crate) fn too_large(&self) {
        one_more(&self.too_large);
    }

    pub(crate) fn busy(&self) {
        one_more(&self.busy);
    }

    pub(crate) fn slow(&self) {
        one_more(&self.slow);
    }

    pub(crate) fn connection_refused(&self) {
        one_more(&self.connections_refused);
    }

    pub(crate) fn dropped(&self) {
        one_more(&self.dropped);
    }

    pub(crate) fn answered(&self, is_error: bool) {
        one_more(&self.answered);
        if is_error {
            one_more(&self.refused);
        }
    }

    pub(crate) fn failed(&self, why: String) {
        one_more(&self.failed);
        self.rest().why_failed = Some(why);
    }

    /// The counts so far, without the fields that only the receiver knows.
    pub(crate) fn received(&self) -> Received {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let rest = self.rest();
        Received {
            addresses: Vec::new(),
            spans: get(&self.spans),
            services: rest.services.len(),
            invalid: get(&self.invalid),
            malformed: get(&self.malformed),
            too_large: get(&self.too_large),
            busy: get(&self.busy),
            slow: get(&self.slow),
            connections_refused: get(&self.connections_refused),
            unwritten: get(&self.unwritten),
            why_unwritten: rest.why_unwritten.clone(),
            dropped: get(&self.dropped),
            forwarded: Some(Forwarded {
                url: String::new(),
                answered: get(&self.answered),
                refused: get(&self.refused),
                failed: get(&self.failed),
                why_failed: rest.why_failed.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_counted_once_and_up_to_a_bound() {
        for (sent, counted) in
            [(0, 0), (1, 1), (MAX_SERVICES, MAX_SERVICES), (MAX_SERVICES + 1, MAX_SERVICES)]
        {
            let counts = Counts::default();
            let services: Vec<_> = (0..sent).map(|number| number.to_string()).collect();
            for _ in 0..2 {
                counts.written(&Kept { services: services.clone(), spans: 3, ..Kept::default() });
            }
            let received = counts.received();
            assert_eq!((received.services, received.spans), (counted, 6), "{sent}");
        }
    }
}
