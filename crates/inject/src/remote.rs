//! System calls that a thread of the process makes for us.

use std::io;
use std::time::{Duration, Instant};

use wakepath_process::{Mapping, Memory, Process};

use crate::error::{Error, Refusal};
use crate::guard::outlive;

/// The time for which threads are tried, and the time in which a thread has to stop.
const TRY_FOR: Duration = Duration::from_secs(2);
const STOP_WITHIN: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// The most time for a function in the process.
const RETURN_WITHIN: Duration = Duration::from_secs(10);
/// Bytes below the stack pointer that a function may use, by the calling convention.
const RED_ZONE: u64 = 128;
/// The flag by which string instructions go down; clear at a call.
const DIRECTION: u64 = 1 << 10;
const NT_X86_XSTATE: usize = 0x202;
/// More than any CPU's vector registers take, bytes.
const MAX_VECTORS: usize = 16 << 10;

/// The code segment of 64-bit programs.
const CODE_64: u64 = 0x33;
/// Requests missing in the `libc` crate.
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
const PTRACE_O_SUSPEND_SECCOMP: u64 = 1 << 21;

/// Results of an interrupted system call that the kernel restarts by itself: `-ERESTARTSYS` to
/// `-ERESTART_RESTARTBLOCK`.
const RESTARTED: std::ops::RangeInclusive<i64> = -516..=-512;

/// `epoll_wait` and `epoll_pwait`, which a stop ends; we restart them. A time-out would then begin anew too.
const EPOLL_WAITS: [i64; 2] = [232, 281];
const NO_TIME_OUT: &str = "0xffffffff";

/// System calls that a stop does not disturb: read, write, poll, select, accept, recvfrom, recvmsg, sendto,
/// nanosleep, pause, wait4, flock, futex, clock_nanosleep, waitid, pselect6, ppoll, accept4, and restart_syscall,
/// which continues a call from this list after an earlier stop.
const GO_ON: [i64; 19] = [0, 1, 7, 23, 43, 45, 47, 44, 35, 34, 61, 73, 202, 219, 230, 247, 270, 271, 288];

/// The thread waits for a lock, perhaps a lock that our function would take.
const FUTEX: i64 = 202;

/// A stopped thread of the process. It goes on, unchanged, when this value is dropped.
pub(crate) struct Stopped {
    pub pid: u32,
    tid: libc::pid_t,
    registers: libc::user_regs_struct,
    mask: u64,
    syscall_at: u64,
}

/// A ptrace request by this thread, the tracer.
fn ptrace(request: libc::c_uint, tid: libc::pid_t, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the callers pass numbers, or addresses of values with the size that the request reads or writes.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// The work that a thread of the process does for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    SystemCalls,
    /// Functions of the process, which take locks: only a thread in a system call that holds none of these locks runs
    /// them.
    Functions,
}

/// Lets a thread of the process work for us. `work` runs in a process of its own, which finishes it if wakepath is
/// killed in between.
///
/// # Errors
/// When no thread can be used, or `work` fails.
pub(crate) fn with_thread<T: Send>(
    process: &Process,
    memory: &Memory,
    mappings: &[Mapping],
    kind: Work,
    work: impl Fn(&mut Stopped) -> Result<T, Error> + Send + Sync,
) -> Result<T, Error> {
    let pid = process.pid();
    let syscall_at = syscall_instruction(pid, memory, mappings)?;
    let began = Instant::now();
    loop {
        for tid in candidates(process, kind)? {
            // A thread that does not stop in time is free only when its tracer ends.
            let tried = outlive(|| {
                Stopped::at(process, tid, memory, syscall_at)?.map(|mut it| work(&mut it)).transpose()
            });
            if let Some(result) =
                tried.map_err(|why| Error::of("a process that works for us", pid, why))??
            {
                return Ok(result);
            }
        }
        if began.elapsed() > TRY_FOR {
            return Err(Refusal::NoThread { pid }.into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The threads that may be stopped, best first: in a system call that goes on by itself; running; waiting for events
/// without a time-out.
fn candidates(process: &Process, kind: Work) -> Result<Vec<i32>, Error> {
    let tasks = process.tasks()?.into_iter();
    let mut found: Vec<(u8, i32)> = tasks
        .filter_map(|task| {
            let (tid, call) = (i32::try_from(task).ok()?, process.task(task).ok()?.system_call().ok()?);
            let mut words = call.split_whitespace();
            match words.next()?.parse::<i64>() {
                Ok(FUTEX) | Err(_) if kind == Work::Functions => None,
                Ok(number) if GO_ON.contains(&number) => Some((0, tid)),
                Ok(number) if EPOLL_WAITS.contains(&number) => words
                    .nth(3)
                    .is_some_and(|time_out| time_out.ends_with(NO_TIME_OUT.trim_start_matches("0x")))
                    .then_some((2, tid)),
                Ok(_) => None,
                Err(_) => Some((1, tid)),
            }
        })
        .collect();
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, tid)| tid).collect())
}

/// The address of a `syscall` instruction in the process: the kernel maps some, in the vDSO.
fn syscall_instruction(pid: u32, memory: &Memory, mappings: &[Mapping]) -> Result<u64, Error> {
    let none = Refusal::NoVdso { pid };
    let vdso = mappings.iter().find(|mapping| mapping.name == b"[vdso]").ok_or(none.clone())?;
    let code = memory.bytes(vdso.addresses.start, vdso.addresses.end - vdso.addresses.start)?;
    let at = code.windows(2).position(|two| two == [0x0f, 0x05]).ok_or(none)?;
    Ok(vdso.addresses.start + at as u64)
}

impl Stopped {
    /// Stops a thread; `None` where it cannot be used, and goes on.
    fn at(process: &Process, tid: i32, memory: &Memory, syscall_at: u64) -> Result<Option<Self>, Error> {
        let pid = process.pid();
        let filtered = status(process, tid, "Seccomp").is_some_and(|mode| mode != 0);
        let options = if filtered { PTRACE_O_SUSPEND_SECCOMP } else { 0 };
        if let Err(why) = ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize) {
            return match why.raw_os_error() {
                Some(libc::ESRCH) => Ok(None),
                Some(libc::EPERM | libc::EINVAL) if filtered => Err(Refusal::Filtered { pid }.into()),
                _ => Err(Error::of("stopping a thread", pid, why)),
            };
        }
        let _ = ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0);
        if !wait_for(tid, |status| match status >> 16 {
            libc::PTRACE_EVENT_STOP => Next::Done,
            // A signal that came first.
            _ => Next::GoOn(libc::WSTOPSIG(status)),
        }) {
            return Ok(None);
        }
        // SAFETY: a plain structure of numbers, for which zero is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let mut mask = 0_u64;
        let read = ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)
            .and_then(|_| ptrace(PTRACE_GETSIGMASK, tid, 8, &raw mut mask as usize));
        if read.is_err() || registers.cs != CODE_64 || is_amid_rseq(tid, memory) {
            let _ = ptrace(libc::PTRACE_DETACH, tid, 0, 0);
            return Ok(None);
        }
        let mut stopped = Self { pid, tid, registers, mask, syscall_at };
        stopped.make_anew(process);
        // No signal may come between.
        let all = u64::MAX;
        let _ = ptrace(PTRACE_SETSIGMASK, tid, 8, &raw const all as usize);
        Ok(Some(stopped))
    }

    /// Restarts a system call that our stop ended early (`epoll_wait`), with its whole time-out. A call ended by a
    /// signal is not restarted.
    fn make_anew(&mut self, process: &Process) {
        let Self { registers, tid, .. } = self;
        let result = registers.rax as i64;
        if (registers.orig_rax as i64) < 0 || RESTARTED.contains(&result) || result != -i64::from(libc::EINTR)
        {
            return;
        }
        let signals = |name| status(process, *tid, name).unwrap_or_default();
        let pending = (signals("SigPnd") | signals("ShdPnd")) & !signals("SigBlk");
        if pending == 0 {
            registers.rip -= 2;
            registers.rax = registers.orig_rax;
            registers.orig_rax = u64::MAX;
        }
    }

    /// Makes a system call.
    ///
    /// # Errors
    /// When the call fails, or the thread is lost.
    pub fn make(&mut self, number: i64, arguments: [u64; 6]) -> Result<u64, Error> {
        let pid = self.pid;
        match self.call(number, arguments) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(errno)) => Err(Refusal::SystemCall { pid, number, errno }.into()),
            Err(why) => Err(Error::of("a system call", pid, why)),
        }
    }

    fn call(&mut self, number: i64, arguments: [u64; 6]) -> Result<Result<u64, i32>, io::Error> {
        let mut registers = self.registers;
        registers.rip = self.syscall_at;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        ptrace(libc::PTRACE_SETREGS, self.tid, 0, &raw const registers as usize)?;
        ptrace(libc::PTRACE_SINGLESTEP, self.tid, 0, 0)?;
        let is_done = wait_for(self.tid, |status| match (status >> 16, libc::WSTOPSIG(status)) {
            (0, libc::SIGTRAP) => Next::Done,
            _ => Next::Step,
        });
        if !is_done {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        ptrace(libc::PTRACE_GETREGS, self.tid, 0, &raw mut registers as usize)?;
        let result = registers.rax as i64;
        Ok(if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as u64) })
    }
}

impl Stopped {
    /// Calls a function in the process with two arguments; it returns to `trap`, where a break point stands. The
    /// floating-point and vector registers are saved and restored.
    ///
    /// # Errors
    /// When the thread is lost, or the function does not return.
    pub fn run(
        &mut self,
        memory: &Memory,
        function: u64,
        arguments: [u64; 2],
        trap: u64,
    ) -> Result<u64, Error> {
        let (pid, tid) = (self.pid, self.tid);
        let failed = |why| Error::of("a function", pid, why);
        let mut vectors = vec![0_u8; MAX_VECTORS];
        let mut area = libc::iovec { iov_base: vectors.as_mut_ptr().cast(), iov_len: vectors.len() };
        ptrace(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &raw mut area as usize).map_err(failed)?;
        let mut registers = self.registers;
        // Below the area that a leaf function may use without moving the stack pointer.
        registers.rsp = ((registers.rsp - RED_ZONE - 64) & !0xf) - 8;
        memory.set_word(registers.rsp, trap)?;
        [registers.rdi, registers.rsi] = arguments;
        (registers.rip, registers.rax, registers.orig_rax) = (function, 0, u64::MAX);
        registers.eflags &= !DIRECTION;
        ptrace(libc::PTRACE_SETREGS, tid, 0, &raw const registers as usize).map_err(failed)?;
        ptrace(libc::PTRACE_CONT, tid, 0, 0).map_err(failed)?;
        let is_done =
            wait_within(RETURN_WITHIN, tid, |status| match (status >> 16, libc::WSTOPSIG(status)) {
                (0, libc::SIGTRAP) => Next::Done,
                (0, signal) => Next::GoOn(signal),
                _ => Next::GoOn(0),
            });
        ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize).map_err(failed)?;
        ptrace(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, &raw const area as usize).map_err(failed)?;
        if !is_done || registers.rip != trap + 1 {
            return Err(failed(io::ErrorKind::TimedOut.into()));
        }
        Ok(registers.rax)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = ptrace(libc::PTRACE_SETREGS, self.tid, 0, &raw const self.registers as usize);
        let _ = ptrace(PTRACE_SETSIGMASK, self.tid, 8, &raw const self.mask as usize);
        let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, 0);
    }
}

/// The action at a stop of the thread: the awaited stop, or a way to go on.
enum Next {
    Done,
    GoOn(i32),
    Step,
}

/// Waits until the thread stops in the wanted way; false where it ended, or did not stop in time.
fn wait_for(tid: i32, next: impl Fn(i32) -> Next) -> bool {
    wait_within(STOP_WITHIN, tid, next)
}

fn wait_within(time: Duration, tid: i32, next: impl Fn(i32) -> Next) -> bool {
    let began = Instant::now();
    while began.elapsed() < time {
        let mut status = 0;
        // SAFETY: `status` is a number on our stack.
        match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            0 => std::thread::sleep(LOOK_EVERY),
            it if it == tid && libc::WIFSTOPPED(status) => match next(status) {
                Next::Done => return true,
                Next::GoOn(signal) => {
                    let _ = ptrace(libc::PTRACE_CONT, tid, 0, signal as usize);
                }
                Next::Step => {
                    let _ = ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0);
                }
            },
            _ => return false,
        }
    }
    false
}

/// Whether the thread is in a restartable sequence (rseq), which the kernel restarts if the thread is preempted. A
/// system call of ours would hide the preemption from the kernel.
fn is_amid_rseq(tid: i32, memory: &Memory) -> bool {
    // pointer, size, signature, flags, padding
    let mut configuration = [0_u64; 3];
    let size = size_of_val(&configuration);
    let read = ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, size, configuration.as_mut_ptr() as usize);
    let [area, ..] = configuration;
    // The pointer to the running sequence stands behind two 32-bit numbers.
    read.is_ok() && area != 0 && memory.word(area + 8).is_ok_and(|running| running != 0)
}

/// A number from a thread's status file.
fn status(process: &Process, tid: i32, name: &str) -> Option<u64> {
    process.task(u32::try_from(tid).ok()?).ok()?.status().ok()?.number(name)
}
