//! The user who called, and the files and directories that are written with this user's rights.
//!
//! Under sudo a path is given by a user who is not root, and other users may have prepared the directories on the way.
//! So everything is opened and created with the caller's rights ([`Caller::act`]), through descriptors of directories;
//! symbolic links are followed only where the caller or root owns them; and what another user owns is never replaced.

mod directory;
mod file;
mod rights;
mod way;

pub use directory::Directory;
pub use file::Destination;
pub use rights::{Acting, Caller, acting_uid};

use std::io;
use std::path::Path;

/// `user 1000`, or `root`.
pub fn user_name(uid: u32) -> String {
    if uid == 0 { "root".to_owned() } else { format!("user {uid}") }
}

/// The error about something that another user owns.
pub fn belongs_to_another(what: &str, path: &Path, uid: u32) -> io::Error {
    let text = format!("{what} {} belongs to {}", path.display(), user_name(uid));
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
