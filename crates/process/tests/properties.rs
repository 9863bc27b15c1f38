//! Any bytes give an answer, and mappings and numbers come back from the kernel's text of them.

use proptest::prelude::*;
use wakepath_process::{Mapping, Stat, Status, cgroup_paths};

/// Bytes that the parsers here look for are likely.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(&b" \n:-()0123456789abcdefrwxp/["[..])];
    prop::collection::vec(byte, 0..200)
}

fn mapping() -> impl Strategy<Value = Mapping> {
    let addresses = (0..u64::MAX).prop_flat_map(|from| (Just(from), from + 1..=u64::MAX));
    let letters = ["r-", "w-", "x-", "sp"].map(|either| prop::sample::select(either.as_bytes()));
    // A name never begins with a blank, and has no newline.
    let name = bytes().prop_map(|mut name| {
        name.retain(|byte| *byte != b'\n');
        let blanks = name.iter().take_while(|byte| **byte == b' ').count();
        name.split_off(blanks)
    });
    (addresses, letters, any::<u64>(), any::<(u32, u32, u64)>(), name).prop_map(
        |((from, to), permissions, offset, file, name)| Mapping {
            addresses: from..to,
            permissions,
            offset,
            file,
            name,
        },
    )
}

/// Like the kernel's `show_map_vma`, which pads names to a column.
fn line(mapping: &Mapping) -> Vec<u8> {
    let Mapping { addresses, permissions, offset, file: (major, minor, inode), name } = mapping;
    let permissions = String::from_utf8_lossy(permissions);
    let (from, to) = (addresses.start, addresses.end);
    let mut line = format!("{from:08x}-{to:08x} {permissions} {offset:08x} {major:02x}:{minor:02x} {inode} ");
    if !name.is_empty() {
        line = format!("{line:<73}");
    }
    [line.as_bytes(), name, b"\n"].concat()
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes in bytes()) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
        match Mapping::parse_all(&bytes) {
            Ok(all) => prop_assert_eq!(all.len(), lines),
            Err(at) => prop_assert!((1..=lines).contains(&at)),
        }
        let _ = Stat::parse(&bytes);
        let _ = cgroup_paths(&bytes).count();
        let status = Status::new(bytes);
        let _ = (status.number("SigPnd"), status.number("1"));
    }

    #[test]
    fn mappings_come_back_from_the_text_of_the_kernel(all in prop::collection::vec(mapping(), 0..5), at: u64) {
        let text: Vec<u8> = all.iter().flat_map(line).collect();
        prop_assert_eq!(Mapping::parse_all(&text), Ok(all.clone()));
        for mapping in &all {
            if let Some(offset) = mapping.offset_of(at) {
                prop_assert_eq!(mapping.address_of(offset), Some(at));
            }
            if let Some(address) = mapping.address_of(at) {
                prop_assert_eq!(mapping.offset_of(address), Some(at));
            }
            let _ = (mapping.path(), mapping.is_deleted(), mapping.is_code());
        }
    }

    #[test]
    fn numbers_come_back_from_the_text_of_the_kernel(
        name in bytes(), state in 1_u8..=255, parent: u32, [user, system, started, stack]: [u64; 4],
    ) {
        prop_assume!(state != b')' && !state.is_ascii_whitespace());
        let [before, middle, between] = ["-1 ".repeat(9), "-1 ".repeat(6), "0 ".repeat(5)];
        let numbers = format!(" {parent} {before}{user} {system} {middle}{started} {between}{stack} 0 0\n");
        let text = [&b"7 ("[..], &name, b") ", &[state], numbers.as_bytes()].concat();
        let expected = Stat { state, parent, cpu_ticks: [user, system], started, start_stack: stack };
        prop_assert_eq!(Stat::parse(&text), Some(expected));
    }
}
