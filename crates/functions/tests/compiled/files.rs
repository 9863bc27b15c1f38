//! Files that are no programs.

use std::process::Command;

use crate::programs::{Programs, refusal, run};

#[test]
fn what_is_no_program_says_what_it_is() {
    let programs = Programs::new();
    let app = programs.compile("app.c", "int main(void) { return 0; }", &[]);
    let content = std::fs::read(&app).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = content.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    for (name, bytes, says) in [
        ("text", b"hello".to_vec(), "is not an ELF file"),
        ("empty", Vec::new(), "is not an ELF file"),
        ("script", b"#!/bin/sh -e\necho\n".to_vec(), "a script, which /bin/sh runs"),
        ("strange", b"#!".to_vec(), "a script, which an interpreter runs"),
        ("arm", with(18, &[183, 0]), "64-bit ARM (aarch64); only x86-64 is supported"),
        ("i386", with(18, &[3, 0]), "32-bit x86"),
        ("arm32", with(18, &[40, 0]), "ARM; only"),
        ("riscv", with(18, &[243, 0]), "RISC-V"),
        ("power", with(5, &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 21]), "64-bit POWER"),
        ("mainframe", with(5, &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 22]), "IBM Z"),
        ("x32", with(4, &[1]), "x32"),
        ("odd", with(18, &[0x34, 0x12]), "a machine that ELF numbers 4660"),
        ("cut", content[..10].to_vec(), "is damaged: its header is cut off"),
        ("headers", content[..64].to_vec(), "is damaged"),
    ] {
        let path = programs.path(name);
        std::fs::write(&path, bytes).unwrap();
        let error = refusal(&path, "main");
        assert!(error.contains(says) && error.contains(name), "{name}: {error}");
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let programs = Programs::new();
    let pipe = programs.path("pipe");
    run(Command::new("mkfifo").arg(&pipe));
    assert!(refusal(&pipe, "main").contains("is not a regular file"));
    assert!(refusal(pipe.parent().unwrap(), "main").contains("is not a regular file"));
    assert!(refusal(&programs.path("missing"), "main").contains("cannot read"));
}
