//! The recorder's thread priority.

/// The nice value while recording. A lower value would slow the target: where the kernel shares CPU time by session (autogroup),
/// the recorder is in the target's session, whose share on a CPU goes by the weights there. Beside another session's program, a
/// target took 4.5 times as long with a recorder at -20, 1.4 times at -10, 1.1 times at -5.
const RECORDING: libc::c_int = -5;
/// The nice value for a start and its calibration, which take some tenths of a second of a CPU. At the usual value they took
/// 5.5 s beside 20 busy threads on two CPUs.
const STARTING: libc::c_int = -20;

/// Gives this thread, and the writing thread that it starts, priority over others until this value is dropped:
/// recordings are made when CPUs are busy, and a recorder that waits for a CPU lets the rings overflow. It needs a
/// few hundredths of a CPU. The command was started before and keeps its own priority.
pub(crate) struct RaisedPriority {
    before: libc::c_int,
}

impl RaisedPriority {
    /// For as long as the target is recorded.
    pub(crate) fn recording() -> Self {
        Self::new(RECORDING)
    }

    /// Until the target is recorded. A process that is forked meanwhile inherits it.
    pub(crate) fn starting() -> Self {
        Self::new(STARTING)
    }

    /// Without the privilege, nothing changes.
    fn new(nice: libc::c_int) -> Self {
        // SAFETY: reads and sets a number for this thread.
        unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, before.min(nice));
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
