//! A program's built-in probes: the notes by which SystemTap's headers describe them (`.note.stapsdt`).

/// The name and kind of such a note.
const NAME: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;

/// The addresses of a probe and its semaphore, by provider and name; the first probe with a semaphore. `base` is the
/// address of `.stapsdt.base`: notes hold its address at their writing, and addresses have moved by the difference.
pub(super) fn find(mut notes: &[u8], base: u64, provider: &str, name: &str) -> Option<(u64, u64)> {
    let half = |at: usize, notes: &[u8]| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    loop {
        let (of_name, of_content, kind) =
            (half(0, notes)? as usize, half(4, notes)? as usize, half(8, notes)?);
        let content_at = 12_usize.checked_add(of_name.checked_next_multiple_of(4)?)?;
        let content = notes.get(content_at..content_at.checked_add(of_content)?)?;
        let is_it = kind == KIND && notes.get(12..12 + of_name)? == NAME;
        if is_it && let Some(found) = probe(content, base, provider, name) {
            return Some(found);
        }
        notes = notes.get(content_at.checked_add(of_content.checked_next_multiple_of(4)?)?..)?;
    }
}

fn probe(content: &[u8], base: u64, provider: &str, name: &str) -> Option<(u64, u64)> {
    let word = |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
    let mut texts = content.get(24..)?.split(|byte| *byte == 0);
    if texts.next()? != provider.as_bytes() || texts.next()? != name.as_bytes() {
        return None;
    }
    let moved = if base == 0 { 0 } else { base.wrapping_sub(word(8)?) };
    let semaphore = word(16).filter(|at| *at != 0)?;
    Some((word(0)?.wrapping_add(moved), semaphore.wrapping_add(moved)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, words: [u64; 3], texts: &[u8]) -> Vec<u8> {
        let mut content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        content.extend(texts);
        let mut note = Vec::new();
        for half in [name.len() as u32, content.len() as u32, kind] {
            note.extend(half.to_le_bytes());
        }
        note.extend(name);
        note.resize(note.len().next_multiple_of(4), 0);
        note.extend(content);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn a_probe_is_found_by_provider_and_name_where_the_file_has_it_now() {
        let mut notes = note(b"GNU\0", 3, [1, 2, 3], b"python\0function__return\0\0");
        notes.extend(note(NAME, 4, [9, 100, 49], b"python\0function__return\0\0"));
        notes.extend(note(NAME, 3, [10, 100, 0], b"python\0function__return\0\0"));
        notes.extend(note(NAME, 3, [11, 100, 50], b"python\0function__entry\08@%rbp\0"));
        notes.extend(note(NAME, 3, [12, 100, 51], b"python\0function__return\08@%rbp 8@%r12\0"));
        assert_eq!(find(&notes, 100, "python", "function__return"), Some((12, 51)));
        assert_eq!(find(&notes, 105, "python", "function__return"), Some((17, 56)), "moved by 5");
        assert_eq!(find(&notes, 0, "python", "function__entry"), Some((11, 50)));
        assert_eq!(find(&notes, 100, "python", "line"), None);
        for length in 0..notes.len() - 4 {
            assert_eq!(find(&notes[..length], 100, "python", "function__return"), None, "{length}");
        }
    }
}
