//! The priority of the receiver's threads: behind the recorder, and behind what it records.

/// The nice value of the receiver's threads.
const NICE: i32 = 10;

/// Lowers the priority of the calling thread, which has perhaps inherited that of the recorder.
pub(crate) fn lower() {
    // Lowering needs no right; a thread that cannot goes on as it is.
    let _ = rustix::process::setpriority_process(None, NICE);
}
