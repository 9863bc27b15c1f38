//! The code of the process that runs the tests.

use std::hint::black_box;

use super::*;

#[inline(never)]
fn callee(number: u64) -> u64 {
    black_box(number) + 1
}

#[inline(never)]
fn other(number: u64) -> u64 {
    black_box(number) * 3
}

/// Two direct calls, a call through a pointer, and a call to the standard library.
#[inline(never)]
fn caller(pointer: fn(u64) -> u64) -> u64 {
    let first = callee(black_box(1));
    let second = pointer(black_box(2));
    let third = callee(black_box(3));
    first + second + third + u64::from(std::process::id())
}

fn own() -> ProcessCode {
    ProcessCode::of(std::process::id(), false).expect("this process")
}

fn name(callee: &ProcessCallee) -> &str {
    match callee {
        ProcessCallee::Function(found) => found.function.readable.rsplit("::").next().unwrap_or_default(),
        ProcessCallee::Refused(_) => "refused",
        ProcessCallee::Unbound => "unbound",
        ProcessCallee::Computed(_) => "computed",
        ProcessCallee::OfKernel => "of the kernel",
    }
}

#[test]
fn the_calls_of_a_function_of_this_process_are_found_with_their_callees() {
    assert_eq!(caller(black_box(other)), 2 + 6 + 4 + u64::from(std::process::id()));
    let mut code = own();
    let found = code.function_at(caller as fn(fn(u64) -> u64) -> u64 as usize as u64).expect("caller");
    assert!(found.function.readable.ends_with("::caller"), "{}", found.function.readable);
    assert_eq!(code.address_of(&found.function), Some(found.address));
    let ProcessSites { sites, whole, .. } = code.sites(&found).expect("its calls");
    assert!(whole);
    let names: Vec<_> = sites.iter().map(|site| name(&site.callee)).collect();
    let expected = ["callee", "computed", "callee", "id"];
    let mut rest = names.iter();
    assert!(expected.iter().all(|name| rest.any(|found| found == name)), "{names:?}");
    let place = callee as fn(u64) -> u64 as usize as u64;
    let direct = sites.iter().find(|site| name(&site.callee) == "callee").expect("one");
    let ProcessCallee::Function(to) = &direct.callee else { panic!("{direct:?}") };
    assert_eq!(to.address, place);
    // `call` with a 32-bit distance has 5 bytes.
    assert_eq!(direct.returns_to, Some(direct.address + 5));
    let file = std::fs::read("/proc/self/exe").expect("this program");
    assert_eq!(file[direct.offset as usize], 0xe8, "the instruction stands there in the file");
    assert_eq!(direct.behind, Some(direct.offset + 5));
}

#[test]
fn a_function_is_found_in_the_process_through_a_link_to_its_file() {
    let mut code = own();
    let address = callee as fn(u64) -> u64 as usize as u64;
    let mut function = code.function_at(address).expect("callee").function;
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("linked");
    std::os::unix::fs::symlink(&function.shown, &link).expect("a link");
    let mapped = std::mem::replace(&mut function.shown, link.clone());
    function.probe.file = link;
    assert_eq!(code.address_of(&function), Some(address));
    // Another file, and none.
    for other in ["/bin/sh", "/nonexistent"] {
        (function.shown, function.probe.file) = (other.into(), other.into());
        assert_eq!(code.address_of(&function), None, "{other}");
        // The file of its process has that path no longer, or in its view alone.
        function.shown = mapped.clone();
        assert_eq!(code.address_of(&function), Some(address), "{other}");
    }
}

#[test]
fn an_address_without_code_is_said() {
    let mut code = own();
    for address in [0, 8, u64::MAX] {
        let refusal = code.function_at(address).unwrap_err().to_string();
        assert!(refusal.contains(&format!("{address:#x}")), "{refusal}");
    }
    let inside = code.function_at(caller as fn(fn(u64) -> u64) -> u64 as usize as u64 + 1);
    assert!(matches!(inside, Err(Refusal { why: RefusalReason::Inside { .. }, .. })), "{inside:?}");
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    assert!(ProcessCode::of(u32::MAX >> 1, true).is_err());
}

#[test]
fn a_function_is_found_again_by_its_file_its_build_and_its_address() {
    let mut code = own();
    let place = callee as fn(u64) -> u64 as usize as u64;
    let found = code.function_at(place).expect("callee");
    let named = code.place_of(&found).expect("a build id");
    // A second look at the process, like another run's.
    assert_eq!(own().at_place(&named), Some(found));
    let (build, rest) = named.split_once(' ').expect("words");
    let other = format!("{}{} {rest}", if build.starts_with('0') { '1' } else { '0' }, &build[1..]);
    let nowhere = format!("{build} 0xfffffffffffffff0 {}", rest.split_once(' ').expect("words").1);
    for wrong in ["", "0", "a b c", &other, &nowhere, &format!("{named}x")] {
        assert_eq!(own().at_place(wrong), None, "{wrong}");
    }
}
