//! The command that a session started, at the session's end.

use wakepath_collect::Running;

/// The command of a session that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandEnd {
    /// The command, if it goes on.
    pub running: Option<Running>,
    /// Its wait status, if it ended.
    pub status: Option<i32>,
}
