//! Words for the classes of blocked threads.

/// The meanings: undecided, sleeping and idle time, and idle time found by a rule.
pub const CLASSES: [(&str, &str); 4] = [
    (
        "undecided",
        "blocked for work or for an answer, and the recording does not show which (a futex without an owner, \
         epoll_wait, poll)",
    ),
    ("sleeping", "in a sleeping call"),
    ("idle", "waiting for the next connection, request or job"),
    (
        "idle, inferred",
        "the other end opened the connection, and has the next word by the packets or ports; or the stack shows a \
         pool's thread without a job",
    ),
];

/// The meanings of these classes as far as they occur, and the numbers of undecided, sleeping and idle threads at
/// the end; empty if there are none.
pub fn blocked_classes(occurs: [bool; 4], at_end: [usize; 3]) -> Vec<String> {
    let meanings = CLASSES.iter().zip(occurs).filter(|(_, occurs)| *occurs);
    let mut lines: Vec<_> = meanings.map(|((class, meaning), _)| format!("{class}: {meaning}")).collect();
    let counts = CLASSES.iter().zip(at_end).filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts.map(|((class, _), count)| format!("{count} {class}")).collect();
    if !counts.is_empty() {
        lines.push(format!("threads blocked at the end: {}", counts.join(", ")));
    }
    lines
}
