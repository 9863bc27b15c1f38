//! The name of an interpreter's script.

use wakepath_event::Comm;

/// A script's name: a path's last component, at most 32 bytes without NUL. It is untrusted input, and has to
/// be escaped before it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Script {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

impl Script {
    /// The most bytes in a name; a recording's longer name is cut.
    pub const MAX_BYTES: usize = 32;

    /// The name in these bytes up to the first NUL; `None` without a byte.
    pub fn new(name: &[u8]) -> Option<Self> {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = &name[..name.len().min(Self::MAX_BYTES)];
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..name.len()].copy_from_slice(name);
        (!name.is_empty()).then_some(Self { bytes, length: name.len() as u8 })
    }

    /// The name's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether a thread's name says it already: the kernel names a process after its script when `#!` starts it, cut
    /// after 15 bytes.
    pub fn is_name(&self, comm: Comm) -> bool {
        Comm::new(self.bytes()) == comm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_first_32_bytes_before_a_nul() {
        let bytes = |name: &[u8]| Script::new(name).map(|script| script.bytes().to_vec());
        assert_eq!(bytes(b"h.py"), Some(b"h.py".to_vec()));
        assert_eq!(bytes(b"h\0py"), Some(b"h".to_vec()));
        assert_eq!(bytes(&[b'a'; 40]), Some(vec![b'a'; 32]));
        assert_eq!([bytes(b""), bytes(b"\0x")], [None, None]);
    }

    #[test]
    fn a_threads_name_says_the_script_if_it_is_its_first_15_bytes() {
        let says = |script: &[u8], comm: &[u8]| Script::new(script).expect("a name").is_name(Comm::new(comm));
        assert!(says(b"mon.sh", b"mon.sh") && says(b"a-very-long-name.sh", b"a-very-long-nam"));
        assert!(!says(b"mon.sh", b"sh") && !says(b"mon.sh", b"mon.s") && !says(b"mon", b"mon.sh"));
    }
}
