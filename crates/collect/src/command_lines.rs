//! The command lines of the command and its descendants, if the user asked for them (`record --arguments`).
//!
//! Only the asking user's own processes have command lines: a program that got another user's rights at its exec may have been given
//! this user's password. A process counts as a descendant by the records of forks; where such a record is lost, it has no
//! command line.

use std::collections::HashSet;

use wakepath_clock::{Local, Stamp};
use wakepath_event::NameSpace;
use wakepath_kernel_records::{Header, Kind};

use crate::Options;
use crate::names::Name;
use crate::scripts::{
    CHILD, CHILD_TGID, EUID, EXIT_TGID, LENGTH, PARENT_TGID, TGID, UID, WORDS, holds_arguments, word,
};

/// The most processes that are followed at a time, so that memory is bounded where records of ends are lost.
const MAX_FOLLOWED: usize = 65_536;

/// The processes whose command lines are kept.
#[derive(Debug)]
pub(crate) struct CommandLines {
    user: u32,
    followed: HashSet<u32>,
}

impl CommandLines {
    /// Those of the command, if the user asked for them.
    pub(crate) fn asked(options: &Options, command: u32) -> Option<Self> {
        options.arguments.then(|| Self::new(command, options.user()))
    }

    /// Those of this process and its descendants, where they are this user's.
    fn new(command: u32, user: u32) -> Self {
        Self { user, followed: HashSet::from([command]) }
    }

    /// A command line by this record, and its time.
    pub(crate) fn see(&mut self, record: &[u8]) -> Option<(Stamp<Local>, Name)> {
        let header = Header::read(record)?;
        if holds_arguments(record) {
            let tgid = word(record, TGID)?;
            let is_users = [UID, EUID].into_iter().all(|at| word(record, at) == Some(self.user));
            let words = record.get(WORDS..)?;
            let words = &words[..(word(record, LENGTH)? as usize).min(words.len())];
            let is_kept = is_users && self.followed.contains(&tgid) && !words.is_empty();
            let name = || (NameSpace::Arguments, tgid.into(), words.into());
            return is_kept.then(|| (Stamp::from_ns(header.stamp), name()));
        }
        match Kind::from_number(header.kind)? {
            Kind::Fork => {
                let (child, tgid) = (word(record, CHILD)?, word(record, CHILD_TGID)?);
                let is_descendant = self.followed.contains(&word(record, PARENT_TGID)?);
                if child == tgid {
                    // The number may have belonged to an earlier process.
                    self.followed.remove(&tgid);
                    if is_descendant && self.followed.len() < MAX_FOLLOWED {
                        self.followed.insert(tgid);
                    }
                }
            }
            Kind::Exit => {
                let tgid = word(record, EXIT_TGID)?;
                if header.tid == tgid {
                    self.followed.remove(&tgid);
                }
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::tests::{arguments, ended, forked};

    const USER: u32 = 1000;

    /// A record of a process's words, by a user with a user's rights.
    fn words(tgid: u32, (uid, euid): (u32, u32)) -> Vec<u8> {
        let mut record = arguments(u64::from(tgid), tgid, "app", "app --token x ");
        record[UID..][..4].copy_from_slice(&uid.to_le_bytes());
        record[EUID..][..4].copy_from_slice(&euid.to_le_bytes());
        record
    }

    fn own(tgid: u32) -> Vec<u8> {
        words(tgid, (USER, USER))
    }

    /// The processes with command lines in these records; the command is process 7.
    fn kept(records: &[Vec<u8>]) -> Vec<u64> {
        let mut lines = CommandLines::new(7, USER);
        let names = records.iter().filter_map(|record| lines.see(record));
        let process = |(at, (space, tgid, words)): (Stamp<Local>, Name)| {
            assert_eq!((space, &*words), (NameSpace::Arguments, &b"app\0--token\0x\0"[..]));
            assert_eq!(at.ns(), tgid);
            tgid
        };
        names.map(process).collect()
    }

    #[test]
    fn the_command_and_its_descendants_have_command_lines_and_no_other_process_has() {
        let records =
            [own(7), own(6), forked(1, 7, 7, (8, 8)), own(8), forked(2, 8, 8, (9, 9)), own(9), own(10)];
        assert_eq!(kept(&records), [7, 8, 9]);
        // A new thread is no process; another process's child is no descendant.
        assert_eq!(kept(&[forked(1, 7, 1, (8, 7)), own(8), forked(2, 6, 6, (9, 9)), own(9)]), [0; 0]);
    }

    #[test]
    fn a_process_of_another_user_or_with_another_users_rights_has_none() {
        for (users, is_kept) in
            [((USER, USER), true), ((0, 0), false), ((USER, 0), false), ((0, USER), false)]
        {
            assert_eq!(kept(&[words(7, users)]), vec![7; usize::from(is_kept)], "{users:?}");
        }
    }

    #[test]
    fn a_number_that_another_process_gets_is_not_followed() {
        assert_eq!(kept(&[ended(1, 7, 7), own(7)]), [0; 0]);
        assert_eq!(kept(&[ended(1, 8, 7), own(7)]), [7], "the end of another thread");
        assert_eq!(kept(&[forked(1, 1, 1, (7, 7)), own(7)]), [0; 0], "the record of the end was lost");
    }

    #[test]
    fn only_so_many_processes_are_followed() {
        let mut lines = CommandLines::new(7, USER);
        for tgid in 8..8 + MAX_FOLLOWED as u32 {
            lines.see(&forked(1, 7, 7, (tgid, tgid)));
        }
        assert_eq!(lines.followed.len(), MAX_FOLLOWED);
    }

    #[test]
    fn cut_records_hold_no_command_line() {
        let whole = own(7);
        let last = WORDS + "app --token x ".len();
        for length in 0..last {
            let name = CommandLines::new(7, USER).see(&whole[..length]);
            assert_eq!(name.is_some(), length > WORDS, "{length}");
        }
        let mut none = whole;
        none[LENGTH..][..4].copy_from_slice(&[0; 4]);
        assert_eq!(CommandLines::new(7, USER).see(&none), None);
    }
}
