//! Another tracer's file, compared with the output of its own tool.

use std::fmt::Debug;

use wakepath_event::{Event, EventSource};

/// Checks that a file's events, each as a line, equal the lines printed by another tool. Returns their number.
#[track_caller]
pub fn is_read_as<S>(file: &S, line: impl Fn(&Event) -> Option<String>, expected: &[String]) -> usize
where
    S: EventSource<Damage: Debug + PartialEq>,
{
    let mut told = Vec::new();
    let damages = file.for_each(|event| told.extend(line(event)));
    assert_eq!(damages, Vec::new());
    let differ = told.iter().zip(expected).find(|(ours, theirs)| ours != theirs);
    assert_eq!((told.len(), differ), (expected.len(), None));
    told.len()
}
