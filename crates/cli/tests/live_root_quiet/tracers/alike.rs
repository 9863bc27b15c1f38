//! The file of another tracer, held against what its own tool prints.

use std::fmt::Debug;

use wakepath_event::{Event, EventSource};

/// Checks that the events of a file, each in a line, are the lines that another tool prints. Returns their number.
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
