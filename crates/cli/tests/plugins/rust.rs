//! The crate: its own tests, and the reader that stops the thread behind any instruction, with and without optimisation.

use std::process::Command;

use crate::c::{EXPORTED, is_right_at_every_stop};
use crate::{plugin, succeeds};

#[test]
fn the_crate_for_rust_passes_its_tests_and_is_right_at_every_instruction() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).args(["--offline", "--locked", "--quiet", "--target-dir"]).arg(folder);
        succeeds(command.current_dir(plugin("rust")))
    };
    assert!(cargo(&["test"]).contains("9 passed; 0 failed"));
    for (profile, options) in [("debug", &[][..]), ("release", &["--release"][..])] {
        cargo(&[&["build", "--example", "spans"], options].concat());
        let mut link = Command::new("cc");
        // Pulls the functions out of the library, though the program does without them.
        link.arg(plugin("c/tests/step.c")).arg("-Wl,-u,act,-u,where");
        link.arg(folder.join(profile).join("examples/libspans.a"));
        link.args([EXPORTED, "-ldl", "-lm", "-pthread", "-o", "step"]);
        succeeds(link.current_dir(folder));
        is_right_at_every_stop(folder, &["Rust", profile], &[]);
    }
}
