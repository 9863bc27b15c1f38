//! Process files: mappings, numbers, named values and cgroups, in which names may contain any bytes.
//!
//! Input: a byte that chooses the file, then its text.

use wakepath_process::{Mapping, Stat, Status, cgroup_paths};

/// Puts a file's text through its parser.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    match kind % 4 {
        0 => mappings(text),
        1 => stat(text),
        2 => status(text),
        _ => cgroups(text),
    }
}

/// Each line is a mapping, which survives the kernel's form and back; else the first malformed line is named.
fn mappings(text: &[u8]) {
    let lines = text.split_inclusive(|byte| *byte == b'\n').count();
    let found = match Mapping::parse_all(text) {
        Ok(found) => found,
        Err(line) => return assert!((1..=lines).contains(&line), "line {line} of {lines}"),
    };
    assert_eq!(found.len(), lines);
    let written: Vec<u8> = found.iter().flat_map(line).collect();
    assert_eq!(Mapping::parse_all(&written).as_ref(), Ok(&found), "what the kernel writes for it");
    for mapping in &found {
        let (first, last) = (mapping.addresses.start, mapping.addresses.end - 1);
        assert!(first <= last && mapping.offset_of(first) == Some(mapping.offset));
        for address in [first, last] {
            if let Some(offset) = mapping.offset_of(address) {
                assert_eq!(mapping.address_of(offset), Some(address));
            }
        }
        assert!(mapping.offset_of(mapping.addresses.end).is_none());
        assert!(!mapping.is_deleted() || mapping.path().is_some());
        assert!(mapping.path().is_none_or(|path| path.is_absolute()));
    }
}

/// The mapping as the kernel prints it.
fn line(mapping: &Mapping) -> Vec<u8> {
    let (Mapping { addresses, offset, name, .. }, (major, minor, inode)) = (mapping, mapping.file);
    let permissions = String::from_utf8_lossy(&mapping.permissions);
    let (from, to) = (addresses.start, addresses.end);
    let line = format!("{from:08x}-{to:08x} {permissions} {offset:08x} {major:02x}:{minor:02x} {inode} ");
    [format!("{line:<73}").as_bytes(), name, b"\n"].concat()
}

/// No name in front changes a number behind it.
fn stat(text: &[u8]) {
    if let Some(found) = Stat::parse(text) {
        let renamed = [b"1 (a) R 1 ) ", text].concat();
        assert_eq!(Stat::parse(&renamed), Some(found));
    }
}

/// A value is part of the text, behind its name.
fn status(text: &[u8]) {
    let status = Status::new(text.to_vec());
    for name in ["TracerPid", "NSpid", "SigPnd", "ShdPnd", "Seccomp", ""] {
        let value = status.field(name).map(<[u8]>::len).unwrap_or_default();
        assert!(value <= text.len());
        assert!(status.number(name).is_none_or(|_| (1..=text.len()).contains(&value)));
    }
}

/// Paths are parts of lines.
fn cgroups(text: &[u8]) {
    let paths: Vec<_> = cgroup_paths(text).collect();
    assert!(paths.len() <= text.split(|byte| *byte == b'\n').count());
    assert!(paths.iter().all(|path| !path.contains(&b'\n')));
}

/// A machine's files, with names that programs chose to confuse their readers.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let lines: [&[u8]; 9] = [
        b"00400000-00401000 r-xp 00000000 fd:00 42                                 /usr/bin/a",
        b"7f0000001000-7f0000003000 rw-p 00002000 103:1f 18446744073709551615      /usr/lib/my lib.so (deleted)",
        b"7f0000003000-7f0000004000 rw-s 00000000 00:01 77                         /memfd:OTEL_CTX (deleted)",
        b"7f0000004000-7f0000005000 ---p 00000000 00:00 0 ",
        b"7f0000005000-7f0000006000 r-xp 00000000 00:00 0                          [vdso]",
        b"7f0000006000-7f0000007000 r--p 00000000 08:01 9                          /tmp/two\\012lines) r-xp \xff",
        b"7f0000007000-7f0000008000 rw-p 00000000 00:00 0                          [anon:a]",
        b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
        b"7f0000008000-7f0000009000 r--p fffffffffffff000 08:01 9                  /SYSV",
    ];
    let whole: Vec<u8> = lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    seeds.push([&[0], &whole[..]].concat());
    seeds.push([&[0], &whole[..whole.len() - 20]].concat());
    seeds.extend(lines.iter().map(|line| [&[0], *line, b"\n"].concat()));
    let numbers = "S 4 5 6 7 -8 9 10 11 12 13 14 15 16 17 18 -19 20 21 22 23 24 25 26 27 28 29 30\n";
    for name in ["sh", "a) R 1 (b", "", "two\\nlines"] {
        seeds.push([b"\x017 (", name.as_bytes(), b") ", numbers.as_bytes()].concat());
    }
    seeds.push(
        b"\x02Name:\ta\\nb\nTracerPid:\t0\nNSpid:\t42\t1\nSigPnd:\t00000000000000ff\nSeccomp:\t2\n".to_vec(),
    );
    seeds.push(b"\x0312:cpu,cpuacct:/a:b c\n1:name=systemd:/\n0::/x.slice\n".to_vec());
    seeds
}
