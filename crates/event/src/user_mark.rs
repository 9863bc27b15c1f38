//! Marks that programs make themselves, by tracepoints in user space.

use std::sync::Arc;

use crate::Tid;

/// A hit tracepoint of a program. The ids are those in the process's own pid namespace, as the program sees itself: a tracer in
/// user space knows no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMark {
    /// The tracepoint: `provider:event`.
    pub name: Arc<str>,
    /// The process; `None` if the tracer did not note it.
    pub process: Option<Tid>,
    /// The thread; `None` if the tracer did not note it.
    pub thread: Option<Tid>,
    /// The payload's first plain fields, each with its value as text: at most [`MAX_MARK_FIELDS`].
    pub fields: Box<[(Arc<str>, Box<str>)]>,
}

/// The limit on a mark's fields.
pub const MAX_MARK_FIELDS: usize = 8;

/// The limit on a field's text, bytes: longer texts are cut.
pub const MAX_MARK_TEXT: usize = 64;
