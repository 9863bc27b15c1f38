//! The thread behind each tid at present.

use std::collections::HashMap;

use wakepath_event::Tid;

use crate::ThreadIndex;

const PAGE: usize = 1024;
/// The tids of sixteen hosts. Higher numbers belong to further hosts, or to no host: input may hold any
/// number.
const DIRECT: u32 = 16 * Tid::LIMIT;
const NONE: u32 = u32::MAX;

/// The thread with each tid: a paged table, since every record needs a look-up.
#[derive(Debug, Default)]
pub(crate) struct Tids {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    beyond: HashMap<u32, u32>,
}

impl Tids {
    #[inline]
    pub(crate) fn get(&self, tid: Tid) -> Option<ThreadIndex> {
        let index = if tid.0 < DIRECT {
            let page = self.pages.get(tid.0 as usize / PAGE)?.as_ref()?;
            page[tid.0 as usize % PAGE]
        } else {
            *self.beyond.get(&tid.0)?
        };
        (index != NONE).then_some(ThreadIndex(index))
    }

    pub(crate) fn set(&mut self, tid: Tid, thread: Option<ThreadIndex>) {
        let index = thread.map_or(NONE, |thread| thread.0);
        if tid.0 >= DIRECT {
            self.beyond.insert(tid.0, index);
            return;
        }
        let page = tid.0 as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NONE; PAGE]))[tid.0 as usize % PAGE] = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tid_belongs_to_the_thread_that_took_it_last() {
        let mut tids = Tids::default();
        for tid in [1, 1023, 1024, DIRECT - 1, DIRECT, u32::MAX] {
            assert_eq!(tids.get(Tid(tid)), None);
            tids.set(Tid(tid), Some(ThreadIndex(tid / 2)));
            assert_eq!(tids.get(Tid(tid)), Some(ThreadIndex(tid / 2)));
            tids.set(Tid(tid), None);
            assert_eq!(tids.get(Tid(tid)), None);
        }
    }
}
