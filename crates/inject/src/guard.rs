//! A process of our own for work that must not end half done: a thread of another process that stands still for us has our
//! registers until the work is over. If we are killed meanwhile, that process goes on to the end of the work.

use std::ffi::{c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::thread;

/// The stack of that process, bytes.
const STACK_BYTES: usize = 256 << 10;
/// Its name: a kill by ours (`pkill wakepath`) leaves it alone.
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
        // SAFETY: new memory, wherever the kernel puts it.
        match unsafe { libc::mmap(ptr::null_mut(), STACK_BYTES, rights, kind | libc::MAP_STACK, -1, 0) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(Self(at)),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the memory that was mapped, which nobody uses any more.
        unsafe { libc::munmap(self.0, STACK_BYTES) };
    }
}

/// The first function of the process. It shares our memory; the thread that began it waits, so that it may use what is that
/// thread's own.
extern "C" fn begin<F: FnOnce() -> T, T>(job: *mut c_void) -> c_int {
    // SAFETY: system calls with numbers and a constant.
    unsafe {
        // A signal to our process group, such as Ctrl-C, or a kill of it, is not for this one.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
    }
    // SAFETY: `outlive` passes a job, and looks at it when this process has ended.
    let job = unsafe { &mut *job.cast::<Job<F, T>>() };
    job.done = job.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
    0
}

/// Does some work in a process that shares this one's memory, and is not killed with it. This thread waits for it.
///
/// # Errors
/// When there can be no further process.
pub(crate) fn outlive<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    fn start<F: FnOnce() -> T, T>(_: &F) -> extern "C" fn(*mut c_void) -> c_int {
        begin::<F, T>
    }
    let (stack, first) = (Stack::new()?, start(&work));
    let mut job = Job { work: Some(work), done: None };
    // SAFETY: a structure of numbers, for which zero is a value.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // Like our thread during `vfork`: its memory, a stack of its own, and no word to us of its end.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: the stack and the job live until the process has ended, since this thread waits for that (CLONE_VFORK).
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
    // SAFETY: the status is a number of ours.
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
        // Nobody is left behind.
        let mut status = 0;
        // SAFETY: the status is a number of ours.
        assert_eq!(unsafe { libc::waitpid(-1, &raw mut status, libc::__WCLONE | libc::WNOHANG) }, -1);
    }
}
