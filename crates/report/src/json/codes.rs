//! The words by which documents name typed keys: one for each variant, which stays as it is once it was released.

use wakepath_critical_path::Responsible;
use wakepath_findings::{Blamed, CauseKey, RowKey};

/// The code of the responsible cause; `None` for the thread itself.
pub const fn responsible(responsible: Responsible) -> Option<&'static str> {
    Some(match responsible {
        Responsible::Itself => return None,
        Responsible::Competitor(_) => "competitor",
        Responsible::IdleCpu => "idle_cpu",
        Responsible::Timer => "timer",
        Responsible::Disk { .. } => "block_request",
        Responsible::Flow(_) => "packet",
        Responsible::Interrupt { .. } => "interrupt",
        Responsible::Lock { .. } => "lock",
        Responsible::StillWaiting => "still_waiting",
        Responsible::BeforeRecording => "before_recording",
        Responsible::NoWakeupSeen => "no_wakeup_seen",
        Responsible::Lost => "lost",
        Responsible::Unrecorded => "unrecorded",
        Responsible::NotAlive => "not_alive",
    })
}

/// The same, by name.
pub const fn blamed(blamed: &Blamed) -> Option<&'static str> {
    match blamed {
        Blamed::Cause(cause) => responsible(*cause),
        Blamed::Threads(_) => Some("competitor"),
        Blamed::CpuLimit(_) => Some("cpu_limit"),
        Blamed::KernelThread(_) => Some("kernel_thread"),
        Blamed::Sender(_) => Some("packet"),
    }
}

/// A cause of calls' time.
pub const fn cause(key: &CauseKey) -> &'static str {
    match key {
        CauseKey::Caller => "caller",
        CauseKey::Row(key) => match key {
            RowKey::Running(_) => "running",
            RowKey::Interrupts => "interrupts",
            RowKey::Hypervisor => "hypervisor",
            RowKey::Cpu => "cpu",
            RowKey::CpuLimit(_) => "cpu_limit",
            RowKey::Disk(_) => "disk",
            RowKey::Timer => "timer",
            RowKey::Network(_) => "network",
            RowKey::Lock => "lock",
            RowKey::UserInput => "user_input",
            RowKey::Device(_) => "device",
            RowKey::Process(..) => "process",
            RowKey::KernelThread(_) => "kernel_thread",
            RowKey::StillWaiting => "still_waiting",
            RowKey::Unknown(_) => "unknown",
        },
    }
}
