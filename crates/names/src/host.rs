//! The machine that was recorded.

use crate::Name;

/// The machine that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its boot id: what tells one host, and one boot of it, from another.
    pub boot_id: String,
    /// What it calls itself.
    pub name: Name,
    /// Its kernel's release.
    pub kernel: Name,
    /// Its kind of machine.
    pub machine: Name,
}
