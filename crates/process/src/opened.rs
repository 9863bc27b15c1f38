//! Descriptors with other processes behind them: pipes, FIFOs and sockets.

use rustix::fs::{AtFlags, FileType, statat};

use crate::directory::Directory;
use crate::error::Error;
use crate::text::number;

/// An open pipe, FIFO or socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The descriptor's number.
    pub number: u32,
    /// The pipe, FIFO or socket; the same for all who have it open.
    pub object: OpenedObject,
}

/// A pipe, FIFO or socket, by its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenedObject {
    /// Whether it is a socket; else a pipe or a FIFO.
    pub is_socket: bool,
    /// The device.
    pub device: u64,
    /// The inode on the device.
    pub inode: u64,
}

/// A descriptor's access to a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// It may read.
    pub reads: bool,
    /// It may write.
    pub writes: bool,
}

/// A descriptor in a set for epoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpollMember {
    /// The descriptor's number when it was added.
    pub number: u32,
    /// The awaited events (`EPOLLIN` and others).
    pub events: u32,
    /// The added file's inode, on any device.
    pub inode: u64,
}

/// The device for file systems in user space, as the kernel numbers it.
const FUSE: (u32, u32) = (10, 229);

/// Whether it answers for a file system in user space: it has `/dev/fuse` open.
pub(crate) fn serves_files(directory: &Directory) -> Result<bool, Error> {
    let found = |number| statat(directory.descriptor(), format!("fd/{number}"), AtFlags::empty());
    let is_fuse = |number| {
        found(number).is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
                && (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)) == FUSE
        })
    };
    Ok(directory.numbers("fd")?.into_iter().any(is_fuse))
}

pub(crate) fn opened(directory: &Directory) -> Result<Vec<Opened>, Error> {
    let numbers = directory.numbers("fd")?.into_iter();
    Ok(numbers.filter_map(|number| Some(Opened { number, object: object(directory, number)? })).collect())
}

/// The object behind a descriptor; `None` if it is something else, or closed.
pub(crate) fn object(directory: &Directory, number: u32) -> Option<OpenedObject> {
    // Through the link in `/proc`, which opens nothing.
    let found = statat(directory.descriptor(), format!("fd/{number}"), AtFlags::empty()).ok()?;
    let is_socket = match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket => true,
        FileType::Fifo => false,
        _ => return None,
    };
    Some(OpenedObject { is_socket, device: found.st_dev, inode: found.st_ino })
}

/// Whether a descriptor has a `flock` lock on the file with this inode number, on any device. Another process may have it, too.
pub(crate) fn has_flock(directory: &Directory, inode: u64) -> Result<bool, Error> {
    let has_file = |number: &u32| {
        statat(directory.descriptor(), format!("fd/{number}"), AtFlags::empty())
            .is_ok_and(|found| found.st_ino == inode)
    };
    let mut numbers = directory.numbers("fd")?.into_iter().filter(has_file);
    Ok(numbers
        .any(|number| directory.read(&format!("fdinfo/{number}")).is_ok_and(|text| flocks(&text, inode))))
}

/// Whether a descriptor's description lists such a lock: `lock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF`.
fn flocks(text: &[u8], inode: u64) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| {
        let line = String::from_utf8_lossy(line);
        let mut words = line.strip_prefix("lock:").unwrap_or_default().split_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let file = words.nth(3).and_then(|file| file.rsplit(':').next()?.parse().ok());
        is_flock && file == Some(inode)
    })
}

/// Whether a descriptor has a file with this inode number, on any device: some file systems name another device than the
/// kernel's list of locks does.
pub(crate) fn has_inode(directory: &Directory, inode: u64) -> Result<bool, Error> {
    let found = |number| statat(directory.descriptor(), format!("fd/{number}"), AtFlags::empty());
    Ok(directory
        .numbers("fd")?
        .into_iter()
        .any(|number| found(number).is_ok_and(|found| found.st_ino == inode)))
}

/// The access in a descriptor's `fdinfo`: its flags are octal, as `open` takes them.
pub(crate) fn access(text: &[u8]) -> Option<Access> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let flags = number(lines.find_map(|line| line.strip_prefix(b"flags:"))?.trim_ascii(), 8)?;
    let mode = flags & 3;
    Some(Access { reads: mode != 1, writes: mode != 0 })
}

/// The members in a set's `fdinfo`: lines such as `tfd:        5 events:       19 data: … ino:61a sdev:7`, all but the first
/// number hexadecimal.
pub(crate) fn epoll_members(text: &[u8]) -> Vec<EpollMember> {
    let member = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let events = words.next().filter(|word| *word == "events:").and(words.next())?;
        let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
        let events = u32::from_str_radix(events, 16).ok()?;
        Some(EpollMember { number, events, inode: u64::from_str_radix(inode, 16).ok()? })
    };
    text.split(|&byte| byte == b'\n').filter_map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pipe_has_an_end_for_reading_and_an_end_for_writing() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let (out, other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let own = Process::own().expect("this process");
        let all = own.opened().expect("its descriptors");
        let find = |fd: i32| all.iter().find(|one| one.number == fd as u32).map(|one| one.object);
        let (read, write) = (find(reader.as_raw_fd()), find(writer.as_raw_fd()));
        assert!(read.is_some() && read == write, "one pipe: {read:?} {write:?}");
        assert_eq!(read.map(|pipe| pipe.is_socket), Some(false));
        let [one, two] = [&out, &other].map(|socket| find(socket.as_raw_fd()).expect("a socket"));
        assert!(one.is_socket && one != two);
        let access = |fd: i32| own.access(fd as u32).expect("its flags").expect("flags");
        assert_eq!(access(reader.as_raw_fd()), Access { reads: true, writes: false });
        assert_eq!(access(writer.as_raw_fd()), Access { reads: false, writes: true });
        assert_eq!(access(out.as_raw_fd()), Access { reads: true, writes: true });
        let file = std::fs::File::open("/proc/self/stat").expect("a file");
        assert_eq!(find(file.as_raw_fd()), None, "a file leads to nobody");
        let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().expect("a file"));
        assert!(own.has_inode(inode).expect("its descriptors"));
        drop(file);
        assert!(!own.has_inode(inode).expect("its descriptors"));
    }

    #[test]
    fn a_set_for_epoll_has_a_line_for_each_member() {
        let text = b"pos:\t0\nflags:\t02\ntfd:        5 events:       19 data:                5  pos:0 ino:1a sdev:7\n\
                     tfd:       12 events: 80000001 data: 0  pos:0 ino:1b sdev:7\ntfd: x events: 1 ino:1\n\
                     tfd: 4 event: 1 ino:1\ntfd: 4 events: 1\ntfd: 4 events: 1 ino:x\n\xff\n";
        let member = |number, events, inode| EpollMember { number, events, inode };
        assert_eq!(epoll_members(text), [member(5, 0x19, 0x1a), member(12, 0x8000_0001, 0x1b)]);
        assert_eq!(epoll_members(b""), []);
    }

    #[test]
    fn a_descriptor_with_a_lock_has_a_line_for_it() {
        let text = b"pos:\t0\nflags:\t0100001\nino:\t11691\nlock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n";
        assert_eq!(
            [flocks(text, 11691), flocks(text, 1169), flocks(b"ino: 11691\nlock:\n", 11691)],
            [true, false, false]
        );
        let posix = b"lock:\t1: POSIX  ADVISORY  WRITE 359 00:13:11691 0 EOF\n";
        assert!(!flocks(posix, 11691), "the list of locks names its process");
        let own = Process::own().expect("this process");
        let path = std::env::temp_dir().join(format!("flock-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        let inode = rustix::fs::fstat(&file).expect("its state").st_ino;
        assert!(!own.has_flock(inode).expect("its descriptors"));
        file.lock().expect("the lock");
        assert!(own.has_flock(inode).expect("its descriptors"));
        drop(file);
        std::fs::remove_file(path).expect("its own file");
    }

    #[test]
    fn flags_are_octal_and_other_text_has_none() {
        let both = Access { reads: true, writes: true };
        assert_eq!(access(b"pos:\t0\nflags:\t0100002\nmnt_id:\t15\n"), Some(both));
        assert_eq!(access(b"flags:\t0100001"), Some(Access { reads: false, writes: true }));
        for text in [&b""[..], b"flags:", b"flags:\t9", b"flag:\t0"] {
            assert_eq!(access(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
