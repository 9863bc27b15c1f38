/// By which clock of its host stamps are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, as our own recordings'.
    Monotonic,
    /// Another clock that can be asked for: its number.
    Numbered(u32),
    /// perf's own, the scheduler's: about the time since the boot, and no other clock.
    Perf,
    /// ftrace's own, the scheduler's on each CPU: those of two CPUs can differ.
    Local,
    /// The same, made to agree between CPUs.
    Global,
    /// The time since the boot, as often as the timer ticks.
    Uptime,
    /// The CPU's time stamp counter, in ns as the file says how.
    Tsc,
}

impl Clock {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Numbered(0) => "realtime",
            Self::Numbered(4) => "monotonic_raw",
            Self::Numbered(7) => "boottime",
            Self::Numbered(11) => "tai",
            Self::Numbered(_) => "unknown",
            Self::Perf => "perf",
            Self::Local => "local",
            Self::Global => "global",
            Self::Uptime => "uptime",
            Self::Tsc => "x86-tsc",
        }
    }
}
