//! Which waits are idleness: waits for work, which slow nothing.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{BlockedState, Call};
use wakepath_names::{Object, Recorded, ThreadInfo, call_name};

/// Whether a wait without a known lock owner is most likely for work rather than for an answer: that of a server
/// between requests, of a pool's idle worker, of a sleeper. Such a wait slows nothing.
pub fn is_for_work(
    recorded: &Recorded,
    thread: &ThreadInfo,
    call: Option<&Call>,
    state: Option<BlockedState>,
    at: Stamp<Reference>,
) -> bool {
    let Some(call) = call else {
        // A kernel thread without work sleeps lightly; one that waits for a disk does not. A user
        // thread outside a system call is in a page fault or stopped; but other tracers note no calls
        // where a thread waits, nor how those wait that did so when tracing began.
        let lightly = matches!(
            state,
            None | Some(
                BlockedState::Interruptible
                    | BlockedState::Idle
                    | BlockedState::Parked
                    | BlockedState::Other(0)
            )
        );
        return lightly && (thread.kernel || recorded.tracer.is_some());
    };
    let name = call_name(call.number);
    // A condition variable or a semaphore has no owner. Worker pools wait so.
    if name.starts_with("futex") || is_for_work_always(&name) {
        return true;
    }
    if !reads(&name) {
        return false;
    }
    // The next line, message or event, whenever it comes. The end that opened a connection awaits an answer.
    let names = &recorded.survey.names;
    let key = names.call_key(call, thread.tgid, Stamp::<Local>::from_ns(at.ns()));
    match names.spell(key).object {
        Some(Object::Pipe | Object::Anonymous(_) | Object::Socket(None)) => true,
        Some(Object::Socket(Some(_))) => names.peer(key).is_some_and(|peer| !peer.called_by_us()),
        Some(Object::File(_)) | None => state == Some(BlockedState::Interruptible),
    }
}

fn reads(call: &str) -> bool {
    matches!(call, "read" | "readv" | "pread64" | "recvfrom" | "recvmsg" | "recvmmsg" | "splice")
}

/// Whether a thread in this call most likely waits for work, whatever the call is about.
fn is_for_work_always(call: &str) -> bool {
    matches!(
        call,
        "accept"
            | "accept4"
            | "clock_nanosleep"
            | "epoll_pwait"
            | "epoll_pwait2"
            | "epoll_wait"
            | "epoll_wait_old"
            | "io_getevents"
            | "io_pgetevents"
            | "io_uring_enter"
            | "msgrcv"
            | "mq_timedreceive"
            | "nanosleep"
            | "pause"
            | "poll"
            | "ppoll"
            | "pselect6"
            | "rt_sigsuspend"
            | "rt_sigtimedwait"
            | "select"
            | "wait4"
            | "waitid"
    )
}
