//! The names of code in a recording: those of the kernel only on the machine that recorded it.

use wakepath_recording::this_host;

use crate::{CodeNames, Recorded};

/// The functions of a recording's code, found as they are asked for.
pub(crate) fn code_names(recorded: &Recorded) -> CodeNames<'_> {
    let boot = this_host().boot_id;
    CodeNames::new(recorded, !boot.is_empty() && boot == recorded.host.boot_id)
}
