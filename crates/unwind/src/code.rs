//! Recognizes calls in x86-64 code.

/// Whether these eight bytes, the last in the highest byte, end with a call instruction: the same as `ends_in_call` in
/// `bpf/stack.h`.
pub const fn ends_in_call(code: u64) -> bool {
    let last = code >> 56;
    if code >> 24 & 0xff == 0xe8 || code >> 16 & 0xffff == 0x15ff {
        return true;
    }
    if code >> 48 & 0xff == 0xff {
        return last & 0xf8 == 0xd0 || last & 0xf8 == 0x10 && last != 0x14 && last != 0x15;
    }
    if code >> 40 & 0xf8ff == 0x50ff || code >> 16 & 0xf8ff == 0x90ff {
        return true;
    }
    // With an index register there is another byte.
    code >> 40 & 0xffff == 0x14ff || code >> 32 & 0xffff == 0x54ff || code >> 8 & 0xffff == 0x94ff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_each_form_are_recognised() {
        let code = |bytes: &[u8]| {
            let mut all = [0x90; 8];
            all[8 - bytes.len()..].copy_from_slice(bytes);
            u64::from_le_bytes(all)
        };
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd7],
            &[0xff, 0x10],
            &[0xff, 0x50, 8],
            &[0xff, 0x90, 1, 2, 3, 4],
            &[0xff, 0x14, 0xc8],
            &[0xff, 0x54, 0xc8, 8],
            &[0xff, 0x94, 0xc8, 1, 2, 3, 4],
        ] {
            assert!(ends_in_call(code(call)), "{call:x?}");
        }
        // syscall; jmp *%rax; push; ret
        for other in [&[0x0f, 0x05][..], &[0xff, 0xe0], &[0xff, 0x35, 1, 2, 3, 4], &[0xc3]] {
            assert!(!ends_in_call(code(other)), "{other:x?}");
        }
    }
}
