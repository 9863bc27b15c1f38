//! The recorder's thread priority.

/// Gives this thread, and the writing thread that it starts, priority over others until this value is dropped:
/// recordings are made when CPUs are busy, and a recorder that waits for a CPU lets the rings overflow. It needs a
/// few hundredths of a CPU. The command was started before and keeps its own priority.
pub(crate) struct RaisedPriority {
    before: libc::c_int,
}

impl RaisedPriority {
    /// Without the privilege, nothing changes.
    pub(crate) fn new() -> Self {
        // SAFETY: reads and sets a number for this thread.
        unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
            Self { before }
        }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        // SAFETY: sets a number for this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}
