//! The dynamic loader's cache, `/etc/ld.so.cache`, as glibc 2.2 and later write it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The beginning of the form read by every glibc of this century; an older form may stand before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// The magic, two counts, flags, an offset, and three words left free.
const HEADER: usize = 48;
/// Flags, two string places, a version, and the required processor features.
const ENTRY: usize = 24;
/// An ELF library for glibc, for x86-64.
pub(crate) const X86_64: u32 = 0x0303;

/// The libraries for x86-64: name and path. Other entries are left out.
pub(crate) fn entries(cache: &[u8]) -> Vec<(String, PathBuf)> {
    let Some(start) = cache.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return Vec::new();
    };
    let cache = &cache[start..];
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|word| word.first_chunk()).map(|word| u32::from_le_bytes(*word))
    };
    let text = |at: u32| {
        let rest = cache.get(at as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        (end < 4096).then(|| &rest[..end])
    };
    let count = word(cache, MAGIC.len()).unwrap_or(0) as usize;
    let table = cache.get(HEADER..).unwrap_or_default();
    table
        .chunks_exact(ENTRY)
        .take(count)
        .filter(|entry| word(entry, 0) == Some(X86_64))
        .filter_map(|entry| {
            let name = String::from_utf8(text(word(entry, 4)?)?.to_vec()).ok()?;
            Some((name, PathBuf::from(OsStr::from_bytes(text(word(entry, 8)?)?))))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use super::{HEADER, MAGIC, X86_64, entries};

    pub(crate) fn cache(libraries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut cache = MAGIC.to_vec();
        cache.extend((libraries.len() as u32).to_le_bytes());
        cache.resize(HEADER, 0);
        let mut strings = Vec::new();
        let base = HEADER + libraries.len() * 24;
        for (flags, name, path) in libraries {
            let mut place = |text: &str| {
                let at = (base + strings.len()) as u32;
                strings.extend(text.as_bytes());
                strings.push(0);
                at
            };
            let (name, path) = (place(name), place(path));
            for word in [*flags, name, path, 0, 0, 0] {
                cache.extend(word.to_le_bytes());
            }
        }
        cache.extend(strings);
        cache
    }

    #[test]
    fn libraries_for_this_machine_are_listed() {
        let libraries = [
            (X86_64, "libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
            (0x0803, "libc.so.6", "/lib/i386-linux-gnu/libc.so.6"),
            (X86_64, "libm.so.6", "/lib/x86_64-linux-gnu/libm.so.6"),
        ];
        let mut cache = cache(&libraries);
        let found = [("libc.so.6", libraries[0].2), ("libm.so.6", libraries[2].2)];
        let found = found.map(|(name, path)| (name.to_owned(), PathBuf::from(path)));
        assert_eq!(entries(&cache), found);
        // The older form before it is passed over.
        cache.splice(0..0, *b"ld.so-1.7.0\0\0\0\0\0");
        assert_eq!(entries(&cache), found);
    }

    #[test]
    fn a_cache_that_is_cut_off_or_lies_gives_less_and_no_panic() {
        let whole =
            cache(&[(X86_64, "liba.so.1", "/lib/liba.so.1"), (X86_64, "libb.so.1", "/lib/libb.so.1")]);
        for length in 0..whole.len() {
            assert!(entries(&whole[..length]).len() < 2);
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] = 0xff;
            entries(&broken);
        }
    }

    #[test]
    fn a_text_that_is_longer_than_a_path_may_be_is_no_path() {
        let path = |length: usize| format!("/{}", "p".repeat(length - 1));
        for (length, found) in [(1, 1), (4095, 1), (4096, 0), (5000, 0)] {
            let cache = cache(&[(X86_64, "liba.so.1", &path(length))]);
            assert_eq!(entries(&cache).len(), found, "{length}");
        }
    }
}
