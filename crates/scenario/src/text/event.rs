//! The verbs in a trace's lines.

use wakepath_clock::Stamp;
use wakepath_event::{
    Attempt, AttemptObject, BlockRequest, BlockedState, Call, CallEnd, CgroupId, Clocks, Comm, Context,
    Direction, EventKind, FailedCall, FileName, FunctionCall, GoStep, GoroutineStep, HeldRequest, KernelLock,
    LockWord, LostRecords, MAX_ATTRIBUTE_BYTES, Mark, MemoryLimit, Packet, SentEffect, SetMember, Signal,
    SignalAction, SignalSent, Softirq, Spin, Stack, SwitchOut, ThreadAttribute, ThreadContext, Tid,
};

use super::words::{Words, number};
use super::{Reader, cpu_named, identity};

impl Reader {
    /// | line | meaning |
    /// |---|---|
    /// | `switch NEXT [runnable, throttled, dead, blocked[=STATE]] [irq=NS] [call=N:ARG [op= value= claim=]]` | |
    /// | `waking TARGET [irq=N] [newborn] [socket=FLOW]` | |
    /// | `descriptor THREAD FD`, FD `none` | directly before a waking from epoll_wait: the ready descriptor |
    /// | `migrate TARGET FROM TO` | the thread moved from a CPU's queue to another's |
    /// | `file FD NAME [flow=FLOW]`, `member SET FD [total=N]` | a descriptor's file in the thread's process; the set that contains it |
    /// | `blocked call=N:ARG [op= value= claim=]` | the thread was blocked when the recording began |
    /// | `fork NAME tid=N [tgid=N] [parent=N] [ns=N/N] [start=NS]` | declares NAME |
    /// | `exec COMM [from=OLD]`, `exit`, `rename THREAD COMM` | |
    /// | `out FLOW [seq=N] [len=N] [ack=N] [flags=N]`, `in FLOW …`, `ready FLOW` | packets |
    /// | `issue ID [start=NS] [issued=NS] [sector=N] [bytes=N]`, `complete ID …`, `let-go ID [sector=N] [bytes=N]` | disk requests; a release by the I/O limit of cgroup 1 |
    /// | `lock ADDRESS [owner=THREAD]`, `unlock ADDRESS` | kernel locks |
    /// | `called N from=NS [moved, stayed]` | a call to function number N returns |
    /// | `signal N [handled, ends] [cut=CALL] [sent=NS by=THREAD]` | the thread takes a signal, with its action |
    /// | `sends N TARGET [ignored, handled, dropped, oom [limit=BYTES]]` | the thread asks a process to end, or needs memory, so the kernel kills it for cgroup 1's limit |
    /// | `context T/S [unsampled]`, T and S digits, `none` or `unknown` | directly before another event of the thread: its trace and span |
    /// | `attribute KEY VALUE` | behind a context: its attribute, with the key's number |
    /// | `failed CALL ERRNO [op=N] [path= or end= or file= or address= or unix= or process=] [holder=THREAD] [tries=N] [later=N]` | directly before a switch: the thread's failed call |
    /// | `spin CALL ERRNO from=NS count=N` | the thread's calls fail in quick succession |
    /// | `go N STEP [process=THREAD] [began=ADDRESS]`, STEP `parks R`, `ready BY`, `runs`, `yields`, `ends` or `begins T/S` | a goroutine's step; without `process`, in the thread's own process |
    /// | `refill` | the CPU limit of all threads' cgroup hands out time |
    /// | `clocks NS` | the realtime clock is read |
    /// | `stolen NS` | the hypervisor did not let this CPU run before |
    /// | `sample [user=ADDRESS]` | the thread is its process, if in a program's code |
    /// | `loss from=NS [count=N] [records=KIND]`, `started`, `stopped` | |
    pub(super) fn what(&mut self, ns: u64, current: Tid, words: &mut Words<'_>) -> Result<EventKind, String> {
        let verb = words.need("what happened")?;
        Ok(match verb {
            "switch" => {
                let next = self.named(words)?;
                let call = self.lock_call(words)?;
                let interrupts_ns = words.option("irq")?.unwrap_or(0);
                EventKind::Switch { next, out: switch_out(words)?, interrupts_ns, call }
            }
            "waking" => EventKind::Waking {
                target: self.named(words)?,
                irq: words.option("irq")?.unwrap_or(0),
                newborn: words.flag("newborn"),
                socket: words.text("socket").map(|flow| self.flow_named(flow)).transpose()?,
            },
            "descriptor" => {
                let target = self.named(words)?;
                let fd = match words.need("a descriptor, or none")? {
                    "none" => None,
                    fd => Some(number(fd).ok_or("a descriptor is a number")?),
                };
                EventKind::Ready { target, fd }
            }
            "migrate" => EventKind::Migrate {
                target: self.named(words)?,
                from: cpu_named(words.need("the CPU that it leaves")?)?,
                to: cpu_named(words.need("the CPU that it goes to")?)?,
            },
            "file" => EventKind::File(self.file(current, words)?),
            "member" => EventKind::SetMember(SetMember {
                set: number(words.need("a set")?).ok_or("a set is a number")?,
                tgid: current,
                fd: number(words.need("a descriptor")?).ok_or("a descriptor is a number")?,
                total: words.option("total")?.unwrap_or(1),
            }),
            "blocked" => EventKind::Blocked(self.lock_call(words)?.ok_or("blocked needs a call")?),
            "fork" => {
                let name = words.need("a name")?.to_owned();
                let child = identity(&name, words, ns)?;
                self.threads.insert(name, child.tid);
                EventKind::Fork { child }
            }
            "exec" => {
                let comm = words.need("a name")?;
                let old = match words.text("from") {
                    Some(old) => self.tid(old)?,
                    None => current,
                };
                let path = format!("/bin/{comm}").into_bytes().into();
                EventKind::Exec { old, comm: Comm::new(comm.as_bytes()), path }
            }
            "exit" => EventKind::Exit,
            "rename" => {
                let tid = self.named(words)?;
                let mut name = words.need("a name")?.to_owned();
                while let Some(word) = words.next() {
                    name += " ";
                    name += word;
                }
                EventKind::Rename { tid, comm: Comm::new(name.as_bytes()) }
            }
            "out" => EventKind::Packet(self.packet(words, Direction::Out)?),
            "in" => EventKind::Packet(self.packet(words, Direction::In)?),
            "ready" => EventKind::SocketReady(self.flow_id(words)?),
            "issue" => EventKind::BlockIssue(request(words)?),
            "complete" => EventKind::BlockComplete(request(words)?),
            "let-go" => {
                let BlockRequest { device, sector, bytes, operation, .. } = request(words)?;
                EventKind::BlockRelease(HeldRequest { cgroup: CgroupId(1), device, sector, bytes, operation })
            }
            "lock" => EventKind::LockBegin(self.lock(words)?),
            "unlock" => EventKind::LockEnd(self.lock(words)?),
            "sample" => {
                let user: Option<u64> = words.option("user")?;
                EventKind::Sample(Stack {
                    tgid: user.map_or(Tid(0), |_| current),
                    kernel: [].into(),
                    user: user.into_iter().collect(),
                    scanned: 0,
                    proved: u16::from(user.is_some()),
                })
            }
            "unrecorded" => EventKind::Unrecorded,
            "loss" => EventKind::Loss {
                from: Stamp::from_ns(words.option("from")?.ok_or("a loss needs from=")?),
                count: words.option("count")?.unwrap_or(0),
                records: match words.text("records") {
                    Some(name) => LostRecords::ALL
                        .into_iter()
                        .find(|records| records.name() == name)
                        .ok_or_else(|| format!("no such records: {name}"))?,
                    None => LostRecords::Any,
                },
            },
            "called" => EventKind::Function(FunctionCall {
                target: number(words.need("a number")?).ok_or("a function has a number")?,
                thread: current,
                from: Stamp::from_ns(words.option("from")?.ok_or("a call needs from=")?),
                end: match (words.flag("moved"), words.flag("stayed")) {
                    (true, _) => CallEnd::Moved,
                    (false, true) => CallEnd::Stayed,
                    (false, false) => CallEnd::Returned,
                },
            }),
            "signal" => EventKind::Signal(Signal {
                number: number(words.need("a number")?).ok_or("a signal has a number")?,
                code: 0,
                action: match (words.flag("handled"), words.flag("ends")) {
                    (true, _) => SignalAction::Handled,
                    (false, true) => SignalAction::ProcessEnds,
                    (false, false) => SignalAction::Default,
                },
                cut_call: words.option("cut")?,
                sent: match (words.option("sent")?, words.text("by")) {
                    (Some(at), Some(by)) => Some((Stamp::from_ns(at), self.tid(by)?)),
                    _ => None,
                },
            }),
            "sends" => EventKind::SignalSent(self.signal_sent(words)?),
            "context" => EventKind::ThreadContext(thread_context(words)?),
            "attribute" => EventKind::ThreadAttribute(attribute(words)?),
            "failed" => EventKind::FailedCall(Box::new(self.failed_call(words)?)),
            "spin" => EventKind::Spin(Spin {
                call: number(words.need("a call")?).ok_or("a call is a number")?,
                error: number(words.need("an error")?).ok_or("an error is a number")?,
                from: Stamp::from_ns(words.option("from")?.ok_or("a spin needs from=")?),
                count: words.option("count")?.ok_or("a spin needs count=")?,
            }),
            "go" => EventKind::Goroutine(self.goroutine(current, words)?),
            "clocks" => EventKind::Clocks(Clocks {
                boottime_ns: ns,
                realtime_ns: number(words.need("ns since 1970")?).ok_or("realtime is a number")?,
                steal_ns: 0,
            }),
            "refill" => EventKind::Refill(CgroupId(1)),
            "stolen" => EventKind::Stolen(number(words.need("ns")?).ok_or("how many ns were stolen")?),
            "started" => EventKind::Mark(Mark::Started),
            "stopped" => EventKind::Mark(Mark::Stopped),
            other => return Err(format!("no such verb: {other}")),
        })
    }

    fn named(&self, words: &mut Words<'_>) -> Result<Tid, String> {
        self.tid(words.need("a thread")?)
    }

    fn flow_id(&self, words: &mut Words<'_>) -> Result<wakepath_event::FlowId, String> {
        self.flow_named(words.need("a flow")?)
    }

    fn flow_named(&self, name: &str) -> Result<wakepath_event::FlowId, String> {
        self.flows.get(name).copied().ok_or_else(|| format!("no flow is called {name}"))
    }

    fn packet(&self, words: &mut Words<'_>, direction: Direction) -> Result<Packet, String> {
        let (flow, seq) = (self.flow_id(words)?, words.option("seq")?.unwrap_or(0));
        let (ack, len) = (words.option("ack")?.unwrap_or(0), words.option("len")?.unwrap_or(0));
        let header = crate::packet(flow, direction, seq);
        let tcp_flags = words.option("flags")?.unwrap_or(header.tcp_flags);
        Ok(Packet { ack, len, tcp_flags, ..header })
    }

    /// `FD NAME`: `[timerfd]` and other names in brackets belong to no file system; `pipe` is a pipe, `socket` a socket.
    fn file(&self, tgid: Tid, words: &mut Words<'_>) -> Result<FileName, String> {
        let fd = number(words.need("a descriptor")?).ok_or("a descriptor is a number")?;
        let name = words.need("a name")?;
        let mode = match name {
            "pipe" => 0o010_600,
            "socket" => 0o140_777,
            name if name.starts_with('[') => 0o600,
            _ => 0o100_644,
        };
        let name = name.as_bytes().into();
        let flow = words.text("flow").map(|flow| self.flow_named(flow)).transpose()?;
        Ok(FileName { tgid, fd, mode, inode: fd.into(), flow, name })
    }

    fn failed_call(&self, words: &mut Words<'_>) -> Result<FailedCall, String> {
        let call = number(words.need("a call")?).ok_or("a call is a number")?;
        let error = number(words.need("an error")?).ok_or("an error is a number")?;
        let operation = words.option("op")?.unwrap_or(0);
        let holder = words.text("holder").map(|holder| self.tid(holder)).transpose()?;
        let (tries, later) = (words.option("tries")?.unwrap_or(1), words.option("later")?.unwrap_or(0));
        let mut object = AttemptObject::None;
        for kind in ["path", "end", "file", "unix"] {
            if let Some(text) = words.text(kind) {
                let text: Box<[u8]> = text.as_bytes().into();
                object = match kind {
                    "path" => AttemptObject::Path(text),
                    "end" => AttemptObject::PathEnd(text),
                    "file" => AttemptObject::File(text),
                    _ => AttemptObject::Unix(text),
                };
            }
        }
        if let Some(text) = words.text("address") {
            object = AttemptObject::Address(text.parse().map_err(|_| format!("not an address: {text}"))?);
        }
        if let Some(process) = words.option("process")? {
            object = AttemptObject::Process(process);
        }
        Ok(FailedCall { attempt: Attempt { call, error, operation, holder, object }, tries, later })
    }

    fn goroutine(&self, current: Tid, words: &mut Words<'_>) -> Result<GoroutineStep, String> {
        let goroutine = number(words.need("a goroutine")?).ok_or("a goroutine is a number")?;
        let step = match words.need("a step")? {
            "parks" => GoStep::Parks(number(words.need("a reason")?).ok_or("a reason is a number")?),
            "ready" => GoStep::Ready(number(words.need("a goroutine")?).ok_or("a goroutine is a number")?),
            "runs" => GoStep::Runs(0),
            "yields" => GoStep::Yields,
            "ends" => GoStep::Ends,
            "begins" => match thread_context(words)? {
                ThreadContext::Span { trace, span, .. } => GoStep::BeginsSpan(trace, span),
                _ => return Err(String::from("a span begins")),
            },
            other => return Err(format!("no such step of a goroutine: {other}")),
        };
        let process = words.text("process").map(|process| self.tid(process)).transpose()?;
        let began_in = words.option("began")?.unwrap_or(0);
        Ok(GoroutineStep { tgid: process.unwrap_or(current), program: 0, goroutine, began_in, step })
    }

    fn signal_sent(&self, words: &mut Words<'_>) -> Result<SignalSent, String> {
        let number = number(words.need("a number")?).ok_or("a signal has a number")?;
        let target = self.tid(words.need("a target")?)?;
        let effects = [
            ("ignored", SentEffect::Ignored),
            ("handled", SentEffect::Handled),
            ("dropped", SentEffect::Dropped),
            ("oom", SentEffect::NoMemory),
        ];
        let mut effect = SentEffect::Default;
        for (word, meaning) in effects {
            if words.flag(word) {
                effect = meaning;
            }
        }
        let limit = words.option("limit")?;
        let limit = limit.map(|bytes| MemoryLimit { cgroup: CgroupId(1), bytes, is_high: false });
        Ok(SignalSent { number, code: 0, target, effect, limit })
    }

    fn lock(&self, words: &mut Words<'_>) -> Result<KernelLock, String> {
        let address = number(words.need("an address")?).ok_or("an address is a number")?;
        let owner = words.text("owner").map(|owner| self.tid(owner)).transpose()?;
        Ok(KernelLock { address, flags: 32, owner })
    }

    /// `call=202:0x1000 op=0 value=2 claim=THREAD`
    fn lock_call(&self, words: &mut Words<'_>) -> Result<Option<Call>, String> {
        let mut found = call(words)?;
        if let Some(call) = found.as_mut().filter(|_| words.flag("private")) {
            call.lock = Some(LockWord::private_futex());
        }
        if let (Some(call), Some(operation)) = (&mut found, words.option("op")?) {
            let claimed_owner = words.text("claim").map(|claim| self.tid(claim)).transpose()?;
            call.lock = Some(LockWord { operation, value: words.option("value")?, claimed_owner });
        }
        Ok(found)
    }
}

/// `none`, `unknown`, or the digits that make up the trace id and the span id, as in `a/b`; `unsampled`.
fn thread_context(words: &mut Words<'_>) -> Result<ThreadContext, String> {
    let text = words.need("a context")?;
    let id =
        |digit: &str| u8::from_str_radix(&digit.repeat(2), 16).map_err(|_| format!("not a digit: {digit}"));
    match (text, text.split_once('/')) {
        ("none", _) => Ok(ThreadContext::None),
        ("unknown", _) => Ok(ThreadContext::Unknown),
        (_, Some((trace, span))) => Ok(ThreadContext::Span {
            trace: [id(trace)?; 16],
            span: [id(span)?; 8],
            flags: u8::from(!words.flag("unsampled")),
        }),
        (other, None) => Err(format!("not a context: {other}")),
    }
}

fn attribute(words: &mut Words<'_>) -> Result<ThreadAttribute, String> {
    let key = number(words.need("a key")?).ok_or("a key is a number below 256")?;
    let value = words.need("a value")?.as_bytes();
    let length = u8::try_from(value.len()).map_err(|_| "a value has less than 256 bytes")?;
    Ok(ThreadAttribute { key, length, value: value[..value.len().min(MAX_ATTRIBUTE_BYTES)].into() })
}

/// `call=NUMBER:ARGUMENT`
pub(super) fn call(words: &mut Words<'_>) -> Result<Option<Call>, String> {
    let Some(text) = words.text("call") else { return Ok(None) };
    let (name, arg0) = text.split_once(':').unwrap_or((text, "0"));
    let bad = || format!("not a call: {text}");
    Ok(Some(Call { number: number(name).ok_or_else(bad)?, arg0: number(arg0).ok_or_else(bad)?, lock: None }))
}

fn switch_out(words: &mut Words<'_>) -> Result<SwitchOut, String> {
    if let Some(state) = words.text("blocked") {
        return Ok(SwitchOut::Blocked(blocked_state(state)?));
    }
    Ok(match words.next() {
        None | Some("runnable") => SwitchOut::Runnable,
        Some("throttled") => SwitchOut::Throttled,
        Some("dead") => SwitchOut::Dead,
        Some("blocked") => SwitchOut::Blocked(BlockedState::Interruptible),
        Some(other) => return Err(format!("no such way to leave a CPU: {other}")),
    })
}

pub(super) fn blocked_state(text: &str) -> Result<BlockedState, String> {
    let named = |state: &BlockedState| format!("{state:?}").eq_ignore_ascii_case(text);
    BlockedState::KNOWN.into_iter().find(named).ok_or_else(|| format!("no such state: {text}"))
}

pub(super) fn context(text: &str) -> Result<Context, String> {
    Ok(match text {
        "task" => Context::Task,
        "timer" => Context::LocalTimer,
        "reschedule" => Context::Reschedule,
        "function" => Context::CallFunction,
        "irq_work" => Context::IrqWork,
        "device" => Context::Device,
        "unknown" => Context::UnknownInterrupt,
        "unrecorded" => Context::Unrecorded,
        "unrecorded_timer" => Context::UnrecordedTimer,
        "task_or_unrecorded" => Context::TaskOrUnrecorded,
        vector => Context::Softirq(
            *Softirq::ALL
                .iter()
                .find(|softirq| {
                    let name = softirq.name().to_lowercase();
                    name == vector || vector.strip_prefix("soft_") == Some(name.as_str())
                })
                .ok_or_else(|| format!("no such context: {vector}"))?,
        ),
    })
}

fn request(words: &mut Words<'_>) -> Result<BlockRequest, String> {
    let id = number(words.need("a request")?).ok_or("a request is a number")?;
    let start = words.option("start")?.map(Stamp::from_ns);
    let issued = words.option("issued")?.map(Stamp::from_ns);
    let of_page = crate::request(id);
    let bytes = words.option("bytes")?.unwrap_or(of_page.bytes);
    let sector = words.option("sector")?.unwrap_or(of_page.sector);
    Ok(BlockRequest { start, issued, bytes, sector, ..of_page })
}
