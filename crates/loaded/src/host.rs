//! The machine that was recorded.

use wakepath_event::HostIdentity;

use crate::Name;

/// The machine that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its boot id: it distinguishes hosts, and boots of one machine.
    pub boot_id: String,
    /// Its host name.
    pub name: Name,
    /// Its kernel's release.
    pub kernel: Name,
    /// Its kind of machine.
    pub machine: Name,
}

impl From<&HostIdentity> for Host {
    fn from(host: &HostIdentity) -> Self {
        Self {
            boot_id: host.boot_id.clone(),
            name: host.name.as_str().into(),
            kernel: host.kernel_release.as_str().into(),
            machine: host.machine.as_str().into(),
        }
    }
}
