//! The names of a recording's code: kernel names only in the boot that recorded them.

use wakepath_recording::this_host;

use crate::{CodeNames, Recorded};

/// The functions in a recording's code, found on request.
pub(crate) fn code_names(recorded: &Recorded) -> CodeNames<'_> {
    let boot = this_host().boot_id;
    CodeNames::new(recorded, !boot.is_empty() && boot == recorded.host.boot_id)
}
