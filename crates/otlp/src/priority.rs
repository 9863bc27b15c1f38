//! The receiver threads' priority: below the recorder and the recorded programs.

/// The step down from an inherited priority, as a nice value.
const STEP: i32 = 10;
/// The lowest priority, as a nice value.
const LOWEST: i32 = 19;

/// Lowers the calling thread's priority, which is perhaps inherited from a recorder with a raised or lowered one.
pub(crate) fn lower() {
    let inherited = rustix::process::getpriority_process(None).unwrap_or_default();
    // Lowering needs no privilege; on failure the thread goes on as it is.
    let _ = rustix::process::setpriority_process(None, (inherited.max(0) + STEP).min(LOWEST));
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpriority_process, setpriority_process};

    use super::*;

    #[test]
    fn a_thread_falls_below_its_inherited_priority_and_never_rises() {
        let inherited = getpriority_process(None).expect("a priority");
        for (from, to) in [(0, 10), (5, 15), (10, 19), (15, 19), (19, 19)] {
            if from < inherited {
                continue;
            }
            let lowered = std::thread::spawn(move || {
                setpriority_process(None, from).expect("lower than before");
                lower();
                getpriority_process(None).expect("a priority")
            });
            assert_eq!(lowered.join().expect("no panic"), to, "from {from}");
        }
    }
}
