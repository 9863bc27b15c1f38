//! The rules by which `bpf/drill.bpf.c` assigns calls to nodes, compiled for the host: a thread whose calls a test
//! makes step by step. Interrupts during a call, unseen returns and jumps in place of calls are there at will, and no
//! kernel with probes is needed.

use std::path::Path;
use std::process::Command;

/// Compiles and runs a program whose expectations must hold.
fn check(name: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drill_logic");
    let folder = tempfile::tempdir().expect("a folder");
    // In place of libbpf's headers, whose helpers call the kernel.
    std::fs::create_dir(folder.path().join("bpf")).expect("room");
    for header in ["bpf_core_read.h", "bpf_helpers.h", "bpf_tracing.h"] {
        std::fs::write(folder.path().join("bpf").join(header), "").expect("room");
    }
    let program = folder.path().join(name);
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-w", "-I"])
        .arg(folder.path())
        .arg("-I")
        .arg(tests.join("../../../../bpf"))
        .arg("-o")
        .arg(&program)
        .arg(tests.join(format!("{name}.c")))
        .status();
    assert!(compiled.expect("a C compiler").success(), "{name}.c does not build");
    let output = Command::new(&program).output().expect("a program");
    assert!(output.status.success(), "{}{}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn calls_of_the_kernel_belong_to_the_node_that_makes_them() {
    check("kernel_calls");
}

#[test]
fn a_return_that_nobody_saw_ends_a_call_all_the_same() {
    check("returns");
}

#[test]
fn calls_that_leave_by_a_jump_end_behind_the_call() {
    check("jumps");
}

#[test]
fn a_path_goes_on_below_a_system_call() {
    check("system_calls");
}

#[test]
fn time_without_a_cpu_and_of_interrupts_is_that_of_the_innermost_node() {
    check("charges");
}

#[test]
fn stolen_time_is_that_of_the_innermost_node_and_of_no_interrupt() {
    check("steal");
}

#[test]
fn calls_of_python_belong_to_the_node_whose_frame_makes_them_and_only_phases_count() {
    check("python");
}

#[test]
fn only_calls_whose_requests_were_handed_over_count() {
    check("hand_over");
}
