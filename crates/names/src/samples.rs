//! Where in the code a path's threads were seen running.
//!
//! Samples are counted, never stretched into time: a sample says where a thread was at one moment. Only
//! those count that fell into a segment in which that thread ran and the path says so.

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Path, SegmentKind};
use wakepath_event::Comm;
use wakepath_wait_graph::ThreadIndex;

use crate::{CodeNames, Place};

/// Samples of the running segments of a path, by thread and what it was called then.
pub type Sampled = BTreeMap<(ThreadIndex, Comm), BTreeMap<Place, u64>>;

/// The same samples by the segment that each fell into.
#[derive(Debug, Clone, Default)]
pub struct SampledSegments {
    places: Vec<Place>,
    /// A segment, and which of the places, in the order of segments.
    seen: Vec<(usize, usize)>,
}

impl SampledSegments {
    /// Each sample: the number of its segment, and where it was taken. In the order of segments.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Place)> {
        self.seen.iter().filter_map(|&(segment, place)| Some((segment, self.places.get(place)?)))
    }
}

/// Counts the samples of a path by place, and finds the segment of each.
pub fn sampled(path: &Path, names: &mut CodeNames<'_>) -> (Sampled, SampledSegments) {
    let graph = &names.recorded.graph;
    let mut threads: Vec<ThreadIndex> =
        path.segments.iter().filter(|s| s.kind == SegmentKind::Running).filter_map(|s| s.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut places = Sampled::new();
    let mut seen = Vec::new();
    let mut numbers: BTreeMap<Place, usize> = BTreeMap::new();
    for thread in threads {
        for sample in graph.samples(thread, path.window.from, path.window.to) {
            let Some(segment) = runs_at(path, thread, sample.at) else { continue };
            let place = names.place(sample);
            let next = numbers.len();
            seen.push((segment, *numbers.entry(place.clone()).or_insert(next)));
            let comm = graph.thread(thread).name_at(sample.at);
            *places.entry((thread, comm)).or_default().entry(place).or_default() += 1;
        }
    }
    seen.sort_unstable();
    let mut by_number: Vec<_> = numbers.into_iter().map(|(place, number)| (number, place)).collect();
    by_number.sort_unstable();
    (places, SampledSegments { places: by_number.into_iter().map(|(_, place)| place).collect(), seen })
}

/// The segment in which the path says that `thread` ran at `at`.
fn runs_at(path: &Path, thread: ThreadIndex, at: Stamp<Reference>) -> Option<usize> {
    let last = path.segments.partition_point(|segment| segment.from <= at).checked_sub(1)?;
    let segment = path.segments.get(last)?;
    (segment.thread == Some(thread) && segment.kind == SegmentKind::Running && at < segment.to)
        .then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, mapping, read, thread};
    use wakepath_critical_path::{Window, active};
    use wakepath_event::{Event, EventKind, Stack, SwitchOut, Tid};
    use wakepath_symbols::Found;

    fn sample(at: u64, current: u32, kernel: &[u64], user: &[u64]) -> Event {
        let stack = Stack { tgid: Tid(current), kernel: kernel.into(), user: user.into(), scanned: 0 };
        event(at, 0, current, EventKind::Sample(stack))
    }

    #[test]
    fn samples_count_where_the_path_says_that_the_thread_ran() {
        let switch = |at, from, to, out| {
            event(at, 0, from, EventKind::Switch { next: Tid(to), out, interrupts_ns: 0, call: None })
        };
        let recorded = read(&[
            event(0, 0, 0, thread(7, 7, 1, "own")),
            event(0, 0, 0, thread(8, 8, 1, "other")),
            switch(0, 0, 7, SwitchOut::Runnable),
            sample(10, 7, &[], &[0x1010, 0x5021]),
            sample(20, 7, &[], &[0x1010, 0x1501, 0x5021]),
            sample(25, 7, &[0xffff_8000], &[0x5100]),
            switch(30, 7, 8, SwitchOut::Runnable),
            // Another thread had the CPU: that is no part of how this one ran.
            sample(40, 8, &[], &[0x1010]),
            switch(50, 8, 7, SwitchOut::Runnable),
            mapping(0x1000, "/nonexistent/lib"),
            mapping(0x5000, "/nonexistent/program"),
            switch(100, 7, 0, SwitchOut::Runnable),
        ]);
        let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: Stamp::from_ns(100) };
        let path = active(&recorded.graph, window);
        let (places, segments) = sampled(&path, &mut CodeNames::new(&recorded, false));
        let gone = |file: &str| Found::Unreadable(file.as_bytes().to_vec());
        let in_library = Place { leaf: gone("lib"), in_kernel: false, caller: Some(gone("program")) };
        let in_kernel = Place { leaf: Found::Kernel, in_kernel: true, caller: Some(gone("program")) };
        let key = (ThreadIndex(0), Comm::new(b"own"));
        assert_eq!(
            places,
            Sampled::from([(key, BTreeMap::from([(in_library.clone(), 2), (in_kernel.clone(), 1)]))])
        );
        let seen: Vec<_> = segments.iter().collect();
        assert_eq!(seen, [(0, &in_library), (0, &in_library), (0, &in_kernel)]);
    }

    #[test]
    fn a_newborn_runs_its_parents_code_until_it_runs_a_program() {
        let switch = |at, from, to| {
            let what =
                EventKind::Switch { next: Tid(to), out: SwitchOut::Runnable, interrupts_ns: 0, call: None };
            event(at, 0, from, what)
        };
        let later = |at, from, path| {
            let Event { kind: EventKind::Mapping(own), .. } = mapping(from, path) else { unreachable!() };
            event(at, 0, 9, EventKind::Mapping(wakepath_event::Mapping { tgid: Tid(9), ..own }))
        };
        let born = |tid, parent| {
            let EventKind::Thread { identity, .. } = thread(tid, tid, parent, "own") else { unreachable!() };
            EventKind::Fork {
                child: wakepath_event::ThreadIdentity { start: Stamp::from_ns(65), ..identity },
            }
        };
        let events = [
            event(0, 0, 0, thread(7, 7, 1, "own")),
            switch(0, 0, 7),
            mapping(0x1000, "/nonexistent/program"),
            event(65, 0, 7, born(9, 7)),
            switch(70, 7, 9),
            sample(75, 9, &[], &[0x1010]),
            later(80, 0x5000, "/nonexistent/other"),
            sample(85, 9, &[], &[0x1010]),
            sample(85, 9, &[], &[0x5010]),
            switch(100, 9, 0),
        ];
        let found = |tracer: Option<crate::Name>| {
            let mut recorded = read(&events);
            recorded.tracer = tracer;
            let thread = recorded.with_tid(Tid(9))[0];
            let window = Window { thread, from: Stamp::from_ns(70), to: Stamp::from_ns(100) };
            let path = active(&recorded.graph, window);
            let places = sampled(&path, &mut CodeNames::new(&recorded, false)).0;
            let leaves = places.into_values().flatten().map(|(place, count)| (place.leaf, count));
            leaves.collect::<Vec<_>>()
        };
        let file = |file: &str| Found::Unreadable(file.as_bytes().to_vec());
        let nobodys = Found::Unnamed(Vec::new());
        let expected = [(nobodys.clone(), 1), (file("other"), 1), (file("program"), 1)];
        assert_eq!(found(Some("perf".into())), expected);
        // Our own recorder looks at what each process has mapped.
        assert_eq!(found(None), [(nobodys, 2), (file("other"), 1)]);
    }

    #[test]
    fn a_thread_that_ran_beside_the_path_is_not_counted() {
        let blocked = SwitchOut::Blocked(wakepath_event::BlockedState::Interruptible);
        let switch = |at, cpu, from, to, out| {
            event(at, cpu, from, EventKind::Switch { next: Tid(to), out, interrupts_ns: 0, call: None })
        };
        let on = |cpu, sample: Event| Event { cpu: wakepath_event::Cpu(cpu), ..sample };
        let recorded = read(&[
            event(0, 0, 0, thread(7, 7, 1, "own")),
            event(0, 0, 0, thread(8, 8, 1, "helper")),
            switch(0, 0, 0, 7, SwitchOut::Runnable),
            switch(0, 1, 0, 8, SwitchOut::Runnable),
            // While own ran, what the helper did was nobody's wait.
            on(1, sample(10, 8, &[], &[1])),
            switch(30, 0, 7, 0, blocked),
            on(1, sample(40, 8, &[], &[1])),
            event(60, 1, 8, EventKind::Waking { target: Tid(7), irq: 0, newborn: false, socket: None }),
            switch(60, 0, 0, 7, SwitchOut::Runnable),
            switch(100, 0, 7, 0, SwitchOut::Runnable),
        ]);
        let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: Stamp::from_ns(100) };
        let path = active(&recorded.graph, window);
        let places = sampled(&path, &mut CodeNames::new(&recorded, false)).0;
        let counts: Vec<u64> = places.values().flat_map(|places| places.values()).copied().collect();
        assert_eq!(counts, [1]);
    }
}
