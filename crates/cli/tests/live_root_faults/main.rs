//! Failures while `wakepath record` runs: each ends with a documented exit code and a clear message, and what was
//! written before can be read.

mod buffers;
mod crowd;
mod interrupt;
mod kill;
mod question;
mod room;

use std::path::Path;

/// Runs `wakepath record` in a folder. Its cost is not measured before: many recorders run at once here, and each would record
/// the load of the others' measurements.
#[track_caller]
fn record(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    wakepath_harness::live::record(folder, &[&["--no-calibration"], arguments].concat(), code)
}
