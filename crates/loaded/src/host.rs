//! The recorded machine.

use wakepath_event::HostIdentity;

use crate::Name;

/// The recorded machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its boot id: it distinguishes hosts, and a machine's boots.
    pub boot_id: String,
    /// Its host name.
    pub name: Name,
    /// Its kernel's release.
    pub kernel: Name,
    /// Its machine type.
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
