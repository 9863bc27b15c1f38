//! A first function that leaves by a jump: its returns are seen behind its calls.

use super::Drill;
use crate::error::Error;

impl Drill<'_> {
    /// Puts probes behind the calls of f0 that came since the last time.
    pub fn learn_callers(&mut self) {
        let mut callers = std::mem::take(&mut self.callers);
        callers.learn(&self.skeleton.maps.callers_seen, |place| {
            let names = ("drill_returned", "drill_returned_one");
            let mut links = self.attach(names, false, &place.file, &[(0, place.offset)])?;
            links.pop().ok_or(Error::Skeleton("drill_returned"))
        });
        self.callers = callers;
    }

    /// The hits behind calls at which no call of f0 ended: each cost a single step.
    pub fn strays(&self) -> u64 {
        self.callers.strays(&self.skeleton.maps.callers_seen)
    }

    /// The calls of f0 whose return no probe showed, since the place behind the call was new or can have none.
    pub fn unseen(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |bss| bss.unseen)
    }
}
