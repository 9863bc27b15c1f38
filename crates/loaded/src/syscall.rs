//! Sets of system calls.

use std::sync::LazyLock;

use wakepath_event::Call;

/// A set of system calls, by number: some sets are looked up for every segment on a path.
pub struct CallSet(Vec<bool>);

impl CallSet {
    /// The calls with these names, which single blanks separate.
    pub fn named(names: &str) -> Self {
        let is_named = |name: &str| names.split(' ').any(|other| other == name);
        Self((0..Call::COUNT).map(|number| Call::name(number).is_some_and(is_named)).collect())
    }

    /// Whether the set has the call with this number.
    pub fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize).copied().unwrap_or(false)
    }
}

/// System calls with a file descriptor as first argument.
pub static OF_DESCRIPTORS: LazyLock<CallSet> = LazyLock::new(|| {
    CallSet::named(
        "accept accept4 close connect copy_file_range epoll_pwait epoll_pwait2 epoll_wait fallocate fcntl \
         fdatasync flock fsync ftruncate getdents getdents64 io_uring_enter ioctl pread64 preadv preadv2 pwrite64 \
         pwritev pwritev2 read readv recvfrom recvmmsg recvmsg sendfile sendmmsg sendmsg sendto shutdown \
         splice sync_file_range syncfs tee vmsplice write writev",
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    /// `truncate` takes a path: the BPF side asks for its first argument's file in vain.
    const HARMLESS: u32 = 76;

    #[test]
    fn a_call_whose_descriptor_is_recorded_is_named_with_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/file.bpf.h");
        let source = std::fs::read_to_string(path).expect("the header");
        let body = source.split_once("bool takes_descriptor(").expect("the function").1;
        let body = body.split_once("return true").expect("its end").0;
        let number = |text: &str| text.trim().parse::<u32>().expect("a number");
        let mut recorded = Vec::new();
        for case in body.split("case ").skip(1) {
            let case = case.split_once(':').expect("a case").0;
            let (first, last) = case.split_once("...").unwrap_or((case, case));
            recorded.extend(number(first)..=number(last));
        }
        assert!(recorded.len() > 30, "{recorded:?}");
        let unnamed = recorded.into_iter().filter(|call| !OF_DESCRIPTORS.contains(*call));
        assert_eq!(unnamed.collect::<Vec<_>>(), [HARMLESS]);
    }
}
