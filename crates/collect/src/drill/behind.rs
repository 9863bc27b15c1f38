//! Callees below f0 that may leave by a jump: their returns are seen behind their calls, at places known from the callers' code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use libbpf_rs::{Link, MapCore, MapFlags};

use super::{Drill, detach};
use crate::callers::are_too_many;
use crate::libbpf::word;

/// The cookie for a probe behind a measured function's call: `WP_DRILL_CALL_PLACE`.
const CALL_PLACE: u64 = 1;

/// A call instruction, and the place behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPlace {
    /// The file to give to the kernel.
    pub file: PathBuf,
    /// The call instruction's offset in it, bytes, and its address in the process.
    pub call: (u64, u64),
    /// The same for the instruction behind it, where calls return.
    pub behind: (u64, u64),
}

/// The hits of both probes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaceHits {
    /// Calls from this place, to whatever function.
    pub calls: u64,
    /// Returns to it.
    pub returns: u64,
    /// The returns that ended no measured call.
    pub strays: u64,
}

/// The probes at and behind calls, by the address at which the calls return.
#[derive(Debug)]
pub(super) struct CallPlaces<L = Vec<Link>>(BTreeMap<u64, Probed<L>>);

#[derive(Debug)]
struct Probed<L> {
    call: u64,
    /// `None`: not needed now, refused by the kernel, or hit too often by others' returns.
    link: Option<L>,
    is_refused: bool,
    began: Instant,
    /// The strays then.
    strays: u64,
}

impl<L> Default for CallPlaces<L> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<L> CallPlaces<L> {
    /// Takes the probes that are not needed from their places, and puts probes to the others by `attach`, which also counts the strays so far.
    /// Returns the removed probes.
    fn change(
        &mut self,
        needed: &[CallPlace],
        mut attach: impl FnMut(&CallPlace) -> Option<(L, u64)>,
    ) -> Vec<L> {
        let is_needed = |at: u64| needed.iter().any(|place| place.behind.1 == at);
        let gone = self.0.iter_mut().filter(|(at, _)| !is_needed(**at));
        let gone = gone.filter_map(|(_, probed)| probed.link.take()).collect();
        for place in needed {
            let new = Probed {
                call: place.call.1,
                link: None,
                is_refused: false,
                began: Instant::now(),
                strays: 0,
            };
            let probed = self.0.entry(place.behind.1).or_insert(new);
            if probed.link.is_none() && !probed.is_refused {
                match attach(place) {
                    Some((link, strays)) => {
                        (probed.link, probed.began, probed.strays) = (Some(link), Instant::now(), strays);
                    }
                    None => probed.is_refused = true,
                }
            }
        }
        gone
    }

    /// Takes the probes from places at which too many returns ended no call, for good. Returns the probes.
    fn refuse_strays(&mut self, hits: impl Fn(u64, u64) -> PlaceHits) -> Vec<L> {
        let is_strayed = |at: u64, probed: &Probed<L>| {
            let strays = hits(probed.call, at).strays.saturating_sub(probed.strays);
            are_too_many(strays, probed.began.elapsed())
        };
        let strayed =
            self.0.iter_mut().filter(|(at, probed)| probed.link.is_some() && is_strayed(**at, probed));
        let taken = strayed.filter_map(|(_, probed)| {
            probed.is_refused = true;
            probed.link.take()
        });
        taken.collect()
    }
}

impl Drill<'_> {
    /// Sees the returns at these places and no others from now on; where the kernel refuses a probe, or others' returns hit it too often,
    /// [`Drill::is_seen_behind`] is false.
    pub fn see_returns(&mut self, needed: &[CallPlace]) {
        let mut places = std::mem::take(&mut self.call_places);
        let gone = places.change(needed, |place| self.attach_place(place));
        self.call_places = places;
        detach(gone.into_iter().flatten().collect());
    }

    /// The place's two probes, first behind the call, since a function's probes see its calls as soon as they are there; and the strays.
    fn attach_place(&self, place: &CallPlace) -> Option<(Vec<Link>, u64)> {
        let hits = &self.skeleton.maps.call_places;
        for (_, address) in [place.call, place.behind] {
            // The hits of an earlier time stay.
            if hits.lookup(&address.to_ne_bytes(), MapFlags::ANY).ok()?.is_none() {
                hits.update(&address.to_ne_bytes(), &[0; 16], MapFlags::ANY).ok()?;
            }
        }
        let behind = ("drill_returned", "drill_returned_one");
        let mut links = self.attach(behind, false, &place.file, &[(CALL_PLACE, place.behind.0)]).ok()?;
        links.extend(
            self.attach(("drill_called", "drill_called_one"), false, &place.file, &[(0, place.call.0)])
                .ok()?,
        );
        Some((links, self.hits_between(place.call.1, place.behind.1).strays))
    }

    /// Takes the probes from places where too many returns end no measured call.
    pub fn refuse_strays(&mut self) {
        let mut places = std::mem::take(&mut self.call_places);
        let gone = places.refuse_strays(|call, behind| self.hits_between(call, behind));
        self.call_places = places;
        detach(gone.into_iter().flatten().collect());
    }

    /// Whether a probe sees the returns to this address.
    pub fn is_seen_behind(&self, returns_to: u64) -> bool {
        self.call_places.0.get(&returns_to).is_some_and(|probed| probed.link.is_some())
    }

    /// The hits at a call that returns to this address, and behind it.
    pub fn place_hits(&self, returns_to: u64) -> PlaceHits {
        let probed = self.call_places.0.get(&returns_to);
        probed.map_or_else(PlaceHits::default, |probed| self.hits_between(probed.call, returns_to))
    }

    fn hits_between(&self, call: u64, behind: u64) -> PlaceHits {
        let read = |address: u64| {
            let found = self.skeleton.maps.call_places.lookup(&address.to_ne_bytes(), MapFlags::ANY);
            found.ok().flatten().map_or((0, 0), |value| (word(&value, 0), word(&value, 8)))
        };
        let ((calls, _), (returns, strays)) = (read(call), read(behind));
        PlaceHits { calls, returns, strays }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(behind: u64) -> CallPlace {
        CallPlace { file: PathBuf::new(), call: (behind - 5, behind - 5), behind: (behind, behind) }
    }

    #[test]
    fn only_needed_places_have_probes_and_refused_places_get_none_again() {
        let mut places = CallPlaces::<u64>::default();
        let with_probes = |places: &CallPlaces<u64>| -> Vec<u64> {
            places.0.iter().filter(|(_, probed)| probed.link.is_some()).map(|(at, _)| *at).collect()
        };
        let attach = |place: &CallPlace| (place.behind.1 != 30).then_some((place.behind.1, 7));
        assert_eq!(places.change(&[place(10), place(20), place(30)], attach), [0; 0]);
        assert_eq!(with_probes(&places), [10, 20]);
        let again = |place: &CallPlace| panic!("{place:?} is known");
        assert_eq!(places.change(&[place(20), place(30)], again), [10]);
        // Others' returns: those before the probes came do not count.
        let strays = |strays| {
            move |_, at| PlaceHits { strays: if at == 20 { strays } else { 0 }, ..PlaceHits::default() }
        };
        assert_eq!(places.refuse_strays(strays(7 + 100)), [0; 0]);
        assert_eq!(places.refuse_strays(strays(7 + 10_000)), [20]);
        assert_eq!(places.change(&[place(10), place(20)], |place| Some((place.behind.1 + 1, 0))), [0; 0]);
        assert_eq!(with_probes(&places), [10]);
        assert_eq!(places.change(&[], attach), [11]);
    }
}
