//! Passes a file descriptor to a process over a socket whose name the kernel chooses, open only meanwhile.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use wakepath_process::{Memory, Process};

use crate::error::Error;
use crate::remote::Stopped;

/// Offsets in the page for arguments.
const NAME: u64 = 0;
const NAME_LENGTH: u64 = 128;
const MESSAGE: u64 = 256;
const VECTOR: u64 = 384;
const BYTE: u64 = 448;
const CONTROL: u64 = 512;
const CONTROL_BYTES: u64 = 24;
/// The control message's part before the descriptor.
const HEADER_BYTES: u64 = 16;

/// Passes a descriptor and returns its number in the process. `scratch` is a page of the process's memory.
///
/// # Errors
/// When a system call fails in either process.
pub(crate) fn to(
    thread: &mut Stopped,
    memory: &Memory,
    scratch: u64,
    what: BorrowedFd<'_>,
) -> Result<u64, Error> {
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
    let socket = thread.make(libc::SYS_socket, [libc::AF_UNIX as u64, kind, 0, 0, 0, 0])?;
    let got = receive(thread, memory, scratch, socket, what);
    thread.make(libc::SYS_close, [socket, 0, 0, 0, 0, 0])?;
    got
}

fn receive(
    thread: &mut Stopped,
    memory: &Memory,
    scratch: u64,
    socket: u64,
    what: BorrowedFd<'_>,
) -> Result<u64, Error> {
    let (pid, family) = (thread.pid, (libc::AF_UNIX as u16).to_ne_bytes());
    // The address family alone: the kernel chooses a name.
    memory.write(scratch + NAME, &family)?;
    thread.make(libc::SYS_bind, [socket, scratch + NAME, 2, 0, 0, 0])?;
    memory.write(scratch + NAME_LENGTH, &110_u32.to_ne_bytes())?;
    thread.make(libc::SYS_getsockname, [socket, scratch + NAME, scratch + NAME_LENGTH, 0, 0, 0])?;
    let mut length = [0; 4];
    memory.read(scratch + NAME_LENGTH, &mut length)?;
    let mut name = vec![0; (u32::from_ne_bytes(length) as usize).min(110)];
    memory.read(scratch + NAME, &mut name)?;
    send(pid, &name, what).map_err(|why| Error::of("a message to a socket", pid, why))?;
    let vector = [scratch + BYTE, 1];
    let message = [0, 0, scratch + VECTOR, 1, scratch + CONTROL, CONTROL_BYTES, 0];
    for (at, words) in [(VECTOR, &vector[..]), (MESSAGE, &message[..])] {
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        memory.write(scratch + at, &bytes)?;
    }
    let flags = (libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) as u64;
    thread.make(libc::SYS_recvmsg, [socket, scratch + MESSAGE, flags, 0, 0, 0])?;
    let mut control = [0; 24];
    memory.read(scratch + CONTROL, &mut control)?;
    // Length, level, kind, and the descriptor.
    let number =
        |at: usize| u32::from_ne_bytes([control[at], control[at + 1], control[at + 2], control[at + 3]]);
    let is_right = u64::from(number(0)) == HEADER_BYTES + 4
        && number(8) == libc::SOL_SOCKET as u32
        && number(12) == libc::SCM_RIGHTS as u32;
    if !is_right {
        return Err(Error::of("a message with a descriptor", pid, io::ErrorKind::InvalidData.into()));
    }
    Ok(number(16).into())
}

/// Sends the descriptor to the named socket. Such names belong to a network namespace: this thread, which ends soon,
/// enters the process's namespace.
fn send(pid: u32, name: &[u8], what: BorrowedFd<'_>) -> io::Result<()> {
    let (own, other) = (Process::own()?.namespace("net")?, Process::open(pid)?.namespace("net")?);
    let is_same = own.metadata()?.ino() == other.metadata()?.ino();
    let enter = |namespace: &File| {
        // SAFETY: a system call with a descriptor and a number.
        match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    if !is_same {
        enter(&other)?;
    }
    let sent = send_here(name, what);
    if !is_same {
        enter(&own)?;
    }
    sent
}

fn send_here(name: &[u8], what: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a system call with numbers; no other code has the descriptor that it returns.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let mut byte = 0_u8;
    let mut vector = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = [0_u64; 3];
    let mut name = name.to_vec();
    // SAFETY: a structure of numbers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = name.len() as u32;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // Length, level and kind, descriptor.
    control[0] = HEADER_BYTES + 4;
    control[1] = libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32;
    control[2] = what.as_raw_fd() as u64;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: all that the message points to lives during the call.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) } {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
