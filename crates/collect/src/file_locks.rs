//! The file lock for which a process waits, in the kernel's list.

/// A held file lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileLock<'a> {
    /// The process by which it was taken.
    pub(crate) process: u32,
    /// The file by device and inode, as the kernel spells it: `fe:00:3932`.
    pub(crate) file: &'a str,
    /// Taken by `flock`: it belongs to the open file, perhaps of several processes; else to the process.
    pub(crate) is_flock: bool,
}

/// The lock for which `waiter` waits: a waiter's line has an arrow, and the holder's line the same number before it. `None`
/// if the process waits for none, or for several.
pub(crate) fn awaited_lock(locks: &str, waiter: u32) -> Option<FileLock<'_>> {
    // `2: -> FLOCK ADVISORY WRITE 31396 fe:00:3932 0 EOF`; the holder's line has no arrow.
    let rows = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next()?;
        let rest: Vec<&str> = words.collect();
        let waits = rest.first() == Some(&"->");
        let rest = rest.get(usize::from(waits)..)?;
        let pid: i64 = rest.get(3)?.parse().ok()?;
        Some((number, waits, rest.first() == Some(&"FLOCK"), pid, *rest.get(4)?))
    });
    let rows: Vec<_> = rows.collect();
    let mut own = rows.iter().filter(|(_, waits, _, pid, _)| *waits && *pid == i64::from(waiter));
    let (Some((number, ..)), None) = (own.next(), own.next()) else { return None };
    let (.., is_flock, pid, file) = rows.iter().find(|(other, waits, ..)| other == number && !waits)?;
    Some(FileLock { process: u32::try_from(*pid).ok()?, file, is_flock: *is_flock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_the_holder_whose_line_has_the_waiters_number() {
        let locks = "1: FLOCK  ADVISORY  WRITE 600 fe:00:1 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 700 fe:00:2 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 701 fe:00:2 0 9\n\
                     2: -> POSIX  ADVISORY  READ 702 fe:00:2 0 9\n\
                     3: OFDLCK ADVISORY  WRITE -1 fe:00:3 0 EOF\n\
                     3: -> OFDLCK ADVISORY  WRITE 703 fe:00:3 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 800 fe:00:4 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 701 fe:00:4 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 704 fe:00:4 0 EOF\n";
        let lock = |waiter| awaited_lock(locks, waiter).map(|lock| (lock.process, lock.file, lock.is_flock));
        assert_eq!([lock(702), lock(704)], [Some((700, "fe:00:2", false)), Some((800, "fe:00:4", true))]);
        assert_eq!([lock(700), lock(600), lock(9)], [None; 3]);
        assert_eq!(lock(703), None, "an open-file lock names no process");
        assert_eq!(lock(701), None, "two of its threads wait");
        assert_eq!(awaited_lock("x\n1:\n2: ->\n", 1), None);
        let ended = awaited_lock("5: -> FLOCK ADVISORY WRITE 901 fe:00:5 0 EOF\n", 901);
        assert_eq!(ended, None, "it ended meanwhile");
    }
}
