//! A process of our own, for work that must not end half done: a stopped thread of another process holds our
//! registers until the work is over. If wakepath is killed meanwhile, this process finishes the work.

use std::ffi::{c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::thread;

/// The helper process's stack, bytes.
const STACK_BYTES: usize = 256 << 10;
/// The helper process's name: a kill by wakepath's name (`pkill wakepath`) misses it.
const NAME: &std::ffi::CStr = c"wp-stubs";

struct Job<F, T> {
    work: Option<F>,
    done: Option<thread::Result<T>>,
}

/// Memory for a stack.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> io::Result<Self> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, at an address chosen by the kernel.
        match unsafe { libc::mmap(ptr::null_mut(), STACK_BYTES, rights, kind | libc::MAP_STACK, -1, 0) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(Self(at)),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our mapping, which no code uses any more.
        unsafe { libc::munmap(self.0, STACK_BYTES) };
    }
}

/// The helper process's first function. It shares our memory; the thread that began it waits, so it may use
/// thread-local data.
extern "C" fn begin<F: FnOnce() -> T, T>(job: *mut c_void) -> c_int {
    // SAFETY: system calls with numbers and a constant.
    unsafe {
        // A signal to wakepath's process group, such as Ctrl-C, or a kill, must not reach this process.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
    }
    // SAFETY: `outlive` passes a job, and reads it only after this process has ended.
    let job = unsafe { &mut *job.cast::<Job<F, T>>() };
    job.done = job.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
    0
}

/// Does work in a process that shares our memory but is not killed with us. This thread waits for it.
///
/// # Errors
/// When the process cannot be created, or was killed.
pub(crate) fn outlive<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    fn start<F: FnOnce() -> T, T>(_: &F) -> extern "C" fn(*mut c_void) -> c_int {
        begin::<F, T>
    }
    let (stack, first) = (Stack::new()?, start(&work));
    let mut job = Job { work: Some(work), done: None };
    // SAFETY: a structure of numbers, for which zero is valid.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // Like a `vfork`: our memory, a stack of its own, and no signal to us at its end.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: the stack and the job live until the process has ended, since this thread waits for its end
    // (CLONE_VFORK).
    let child = unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let child = libc::clone(first, stack.0.byte_add(STACK_BYTES), flags, (&raw mut job).cast());
        let failed = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        if child < 0 {
            return Err(failed);
        }
        child
    };
    let mut status = 0;
    // SAFETY: `status` is a number on our stack.
    while unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    match job.done {
        Some(Ok(result)) => Ok(result),
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(io::Error::other("it was killed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_another_process_with_our_memory() {
        let mut seen = vec![1];
        let other = outlive(|| {
            seen.push(2);
            std::process::id()
        });
        assert_ne!(other.expect("a process"), std::process::id());
        assert_eq!(seen, [1, 2]);
        let failed = catch_unwind(|| outlive(|| panic!("no")).expect("a process"));
        assert!(failed.is_err(), "a panic is ours");
        // No process is left behind.
        let mut status = 0;
        // SAFETY: `status` is a number on our stack.
        assert_eq!(unsafe { libc::waitpid(-1, &raw mut status, libc::__WCLONE | libc::WNOHANG) }, -1);
    }
}
