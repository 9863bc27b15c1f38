//! The receiver threads' priority: below the recorder and the recorded programs.

/// The receiver threads' nice value.
const NICE: i32 = 10;

/// Lowers the calling thread's priority, which is perhaps inherited from the recorder.
pub(crate) fn lower() {
    // Lowering needs no privilege; on failure the thread goes on as it is.
    let _ = rustix::process::setpriority_process(None, NICE);
}
