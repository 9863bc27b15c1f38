//! Descriptors with other processes behind them: pipes, FIFOs and sockets.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use rustix::fs::{AtFlags, FileType, readlinkat, statat};

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
    /// The device; 0 for a pipe or a socket.
    pub device: u64,
    /// The inode on the device.
    pub inode: u64,
}

impl OpenedObject {
    /// Whether it is a pipe or a socket, which no process can open by a path.
    pub const fn is_unnamed(self) -> bool {
        self.device == 0
    }
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

/// Whether it answers for a file system in user space: it has `/dev/fuse` open.
pub(crate) fn serves_files(directory: &Directory, is_enough: &dyn Fn() -> bool) -> Result<bool, Error> {
    let is_fuse = |number| link(directory, number).is_some_and(|link| link == b"/dev/fuse");
    Ok(directory.numbers("fd")?.into_iter().take_while(|_| !is_enough()).any(is_fuse))
}

/// Its pipes and sockets, as far as `is_enough` allows; FIFOs only with `named`.
pub(crate) fn opened(
    directory: &Directory,
    named: bool,
    is_enough: &dyn Fn() -> bool,
) -> Result<Vec<Opened>, Error> {
    let mounts = LazyCell::new(|| local_mounts(&directory.read("mountinfo").unwrap_or_default()));
    let numbers = directory.numbers("fd")?.into_iter().take_while(|_| !is_enough());
    let object = |number| match (unnamed(&link(directory, number)?), named) {
        (Err(true), true) => fifo(directory, number, &mounts),
        (found, _) => found.ok(),
    };
    Ok(numbers.filter_map(|number| Some(Opened { number, object: object(number)? })).collect())
}

/// The object behind a descriptor; `None` if it is something else, or closed.
pub(crate) fn object(directory: &Directory, number: u32) -> Option<OpenedObject> {
    match unnamed(&link(directory, number)?) {
        Ok(object) => Some(object),
        Err(false) => None,
        Err(true) => {
            let mounts = local_mounts(&directory.read("mountinfo").ok()?);
            fifo(directory, number, &mounts)
        }
    }
}

/// A descriptor's link. No file system is asked, which may not answer.
fn link(directory: &Directory, number: u32) -> Option<Vec<u8>> {
    let link = readlinkat(directory.descriptor(), format!("fd/{number}"), Vec::new()).ok()?;
    Some(link.into_bytes())
}

/// The pipe or socket behind a link, `pipe:[31657]`; else whether the link is a path.
fn unnamed(link: &[u8]) -> Result<OpenedObject, bool> {
    let inode = |name: &[u8]| number(link.strip_prefix(name)?.strip_suffix(b"]")?, 10);
    match (inode(b"pipe:["), inode(b"socket:[")) {
        (Some(inode), _) => Ok(OpenedObject { is_socket: false, device: 0, inode }),
        (_, Some(inode)) => Ok(OpenedObject { is_socket: true, device: 0, inode }),
        _ => Err(link.starts_with(b"/")),
    }
}

/// The FIFO behind a file's descriptor; `None` for other files, and in file systems which may not answer.
fn fifo(directory: &Directory, descriptor: u32, local: &BTreeSet<u64>) -> Option<OpenedObject> {
    let text = directory.read(&format!("fdinfo/{descriptor}")).ok()?;
    let mut lines = text.split(|&byte| byte == b'\n');
    let mount = number(lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?.trim_ascii(), 10)?;
    if !local.contains(&mount) {
        return None;
    }
    // Through the link in `/proc`, which opens nothing.
    let found = statat(directory.descriptor(), format!("fd/{descriptor}"), AtFlags::empty()).ok()?;
    let is_fifo = FileType::from_raw_mode(found.st_mode) == FileType::Fifo;
    is_fifo.then_some(OpenedObject { is_socket: false, device: found.st_dev, inode: found.st_ino })
}

/// The mounts whose file systems wait for no other machine or process, by id:
/// `36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw`.
fn local_mounts(text: &[u8]) -> BTreeSet<u64> {
    const LOCAL: [&str; 9] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ramfs", "overlay"];
    let id = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let (mount, system) = line.split_once(" - ")?;
        let is_local = system.split(' ').next().is_some_and(|kind| LOCAL.contains(&kind));
        mount.split(' ').next()?.parse().ok().filter(|_| is_local)
    };
    text.split(|&byte| byte == b'\n').filter_map(id).collect()
}

/// Whether a descriptor has a lock on this file, which the kernel calls `00:13:11691`. A `flock` lock may also be another
/// process's.
pub(crate) fn has_lock(
    directory: &Directory,
    file: &str,
    is_enough: &dyn Fn() -> bool,
) -> Result<bool, Error> {
    let has_it = |number| directory.read(&format!("fdinfo/{number}")).is_ok_and(|text| locks(&text, file));
    Ok(directory.numbers("fdinfo")?.into_iter().take_while(|_| !is_enough()).any(has_it))
}

/// Whether a descriptor's description lists such a lock: `lock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF`.
fn locks(text: &[u8], file: &str) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| {
        let line = String::from_utf8_lossy(line);
        line.strip_prefix("lock:").is_some_and(|lock| lock.split_whitespace().nth(5) == Some(file))
    })
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
        let all = own.opened(false, &|| false).expect("its descriptors");
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
        let text = b"pos:\t0\nino:\t11691\nlock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n";
        assert_eq!(
            ["00:13:11691", "00:14:11691", "11691"].map(|file| locks(text, file)),
            [true, false, false]
        );
        assert!(!locks(b"lock: 00:13:11691\n", "00:13:11691"));
        let own = Process::own().expect("this process");
        let path = std::env::temp_dir().join(format!("flock-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        file.lock().expect("the lock");
        let list = std::fs::read_to_string("/proc/locks").expect("the kernel's list");
        let pid = std::process::id().to_string();
        let line = list.lines().find(|line| line.split_whitespace().nth(4) == Some(&pid)).expect("its line");
        let name = line.split_whitespace().nth(5).expect("the file");
        assert!(own.has_lock(name, &|| false).expect("its descriptors"));
        assert!(!own.has_lock(name, &|| true).expect("its descriptors"), "given up");
        drop(file);
        assert!(!own.has_lock(name, &|| false).expect("its descriptors"));
        std::fs::remove_file(path).expect("its own file");
    }

    #[test]
    fn a_fifo_is_looked_for_in_local_file_systems_alone() {
        let mounts = b"36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw\n\
            37 35 0:9 / /far rw - nfs4 host:/x rw\n38 35 0:9 / /a\\040-\\040b rw - fuse.sshfs x rw\nx y - ext4 z\n\xff\n";
        assert_eq!(local_mounts(mounts), BTreeSet::from([36]));
        let path = std::env::temp_dir().join(format!("fifo-{}", std::process::id()));
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .expect("a FIFO");
        let file = std::fs::File::options().read(true).write(true).open(&path).expect("a FIFO");
        let own = Process::own().expect("this process");
        let number = file.as_raw_fd() as u32;
        let object = own.object(number).expect("a FIFO");
        assert!(!object.is_socket && object.device != 0);
        let is_listed = |named| {
            own.opened(named, &|| false).expect("its descriptors").iter().any(|one| one.number == number)
        };
        assert_eq!([is_listed(false), is_listed(true)], [false, true]);
        let directory = Directory::open(&format!("/proc/{}", std::process::id()), 0).expect("this process");
        assert_eq!(fifo(&directory, number, &BTreeSet::new()), None, "its file system may not answer");
        std::fs::remove_file(path).expect("its own file");
        let plain = std::fs::File::open("/proc/self/exe").expect("this program");
        assert_eq!(own.object(plain.as_raw_fd() as u32), None);
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
