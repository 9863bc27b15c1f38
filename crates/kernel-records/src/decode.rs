//! Decodes records into events.

mod limits;
mod names;
mod signals;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    BlockRequest, BlockedState, Call, CallEnd, CgroupId, Clocks, Comm, Context, CostKind, Cpu, Direction,
    Event, EventKind, FileName, Flow, FlowId, FunctionCall, GoStep, GoroutineStep, KernelCost, KernelLock,
    LockWord, LostRecords, MAX_ATTRIBUTE_BYTES, Mapping, Mark, Packet, SetMember, Softirq, Stack,
    StackCounts, StackId, SwitchOut, ThreadAttribute, ThreadContext, ThreadIdentity, Tid, Timeout,
    UnwindCounts,
};

use crate::layout::{CALL_NONE, Layout, NONE, NOTHING_READY};
use crate::length::number;
use crate::{Header, Kind, TaskStates, failed_call, record_length};

/// The reason for which bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DecodeError {
    #[error("{record} record needs {needs} bytes, found {found}")]
    Short { record: &'static str, needs: usize, found: usize },
    #[error("no record has kind {0}")]
    UnknownKind(u8),
    #[error("{record} record has {field} {value}, which means nothing")]
    BadField { record: &'static str, field: &'static str, value: u64 },
    #[error("{record} record claims {claims} bytes, at most {most}")]
    TooLong { record: &'static str, claims: usize, most: usize },
}

/// Makes events from a kernel's records.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    states: &'static TaskStates,
}

/// `enum wp_switch_flags`.
pub(crate) const PREEMPT: u32 = 1;
pub(crate) const THROTTLED: u32 = 2;
/// `enum wp_thread_flags`.
pub(crate) const THREAD_KERNEL: u32 = 1;
pub(crate) const THREAD_RUNNING: u32 = 2;
/// Bits in `wp_switch_lock.valid`.
pub(crate) const LOCK_VALUE: u32 = 1;
pub(crate) const LOCK_CLAIM: u32 = 2;

impl Decoder {
    /// A decoder for records from this kernel release, as `uname -r` prints it.
    pub fn for_release(release: &str) -> Self {
        Self { states: TaskStates::for_release(release) }
    }

    /// The event of the first record in `bytes`, and the record's length, bytes. `cpu` is the CPU of the
    /// record's buffer; for [`crate::Buffer::Life`], the header's `seq`.
    ///
    /// # Errors
    /// If [`record_length`] knows a length nonetheless, the record can be skipped.
    pub fn decode(&self, bytes: &[u8], cpu: Cpu) -> Result<(Event, usize), DecodeError> {
        self.decode_with(bytes, cpu, |event, length| (event, length))
    }

    /// Like [`Decoder::decode`], but passes the event to `take` instead of returning it: an event is large, and need not be moved if it is only read.
    ///
    /// # Errors
    /// The same as [`Decoder::decode`].
    #[inline]
    pub fn decode_with<T>(
        &self,
        bytes: &[u8],
        cpu: Cpu,
        take: impl FnOnce(Event, usize) -> T,
    ) -> Result<T, DecodeError> {
        // Almost all records in a recording are switches and wake-ups; the rest is out of their way.
        let Some(header) = Header::read(bytes) else {
            return Err(DecodeError::Short { record: "any", needs: 16, found: bytes.len() });
        };
        const WAKING: u8 = Kind::Waking as u8;
        const WAKING_NEW: u8 = Kind::WakingNew as u8;
        const WAKING_SOCKET: u8 = Kind::WakingSocket as u8;
        const SWITCH: u8 = Kind::Switch as u8;
        const SWITCH_CALL: u8 = Kind::SwitchCall as u8;
        const SWITCH_LOCK: u8 = Kind::SwitchLock as u8;
        match header.kind {
            WAKING | WAKING_NEW => {
                if let Some(r) = bytes.first_chunk::<24>() {
                    return Ok(take(event(header, cpu, waking(r, header.kind == WAKING_NEW, None)), 24));
                }
            }
            WAKING_SOCKET => {
                if let Some(r) = bytes.first_chunk::<32>() {
                    let flow = FlowId(u64_at(r, 24));
                    return Ok(take(event(header, cpu, waking(r, false, Some(flow))), 32));
                }
            }
            SWITCH => {
                if let Some(r) = bytes.first_chunk::<32>() {
                    return Ok(take(event(header, cpu, self.switch(r, None)), 32));
                }
            }
            SWITCH_CALL => {
                if let Some(r) = bytes.first_chunk::<48>() {
                    let is_private = u32_at(r, 32) == Call::FUTEX && u32_at(r, 36) != 0;
                    let lock = is_private.then(LockWord::private_futex);
                    let call = call(r, lock).map(|call| call.with_timeout(Timeout::recorded(u32_at(r, 36))));
                    return Ok(take(event(header, cpu, self.switch(r, call)), 48));
                }
            }
            SWITCH_LOCK => {
                if let Some(r) = bytes.first_chunk::<64>() {
                    let lock = lock_word(u32_at(r, 48), u32_at(r, 52), u32_at(r, 56), u32_at(r, 60));
                    return Ok(take(event(header, cpu, self.switch(r, call(r, Some(lock)))), 64));
                }
            }
            _ => {}
        }
        self.rare(bytes, header, cpu).map(|(event, length)| take(event, length))
    }

    #[inline(always)]
    fn switch<const N: usize>(&self, r: &[u8; N], call: Option<Call>) -> EventKind {
        let flags = u32_at(r, 28);
        // A throttled thread also reads as preempted, and a preempted thread may have any state.
        let out = if flags & THROTTLED != 0 {
            SwitchOut::Throttled
        } else if flags & PREEMPT != 0 {
            SwitchOut::Runnable
        } else {
            self.states.switch_out(u32_at(r, 20))
        };
        EventKind::Switch { next: Tid(u32_at(r, 16)), out, interrupts_ns: u32_at(r, 24), call }
    }

    #[inline(never)]
    fn rare(&self, bytes: &[u8], header: Header, cpu: Cpu) -> Result<(Event, usize), DecodeError> {
        let length = record_length(bytes)?;
        let kind = Kind::from_number(header.kind).ok_or(DecodeError::UnknownKind(header.kind))?;
        let r = Record { bytes: &bytes[..length], layout: Layout::of(kind) };
        let mut cpu = cpu;
        let what = match kind {
            // Only too short records come here; `record_length` has refused them.
            Kind::Switch
            | Kind::SwitchCall
            | Kind::SwitchLock
            | Kind::Waking
            | Kind::WakingNew
            | Kind::WakingSocket => {
                return Err(DecodeError::Short {
                    record: r.layout.name,
                    needs: r.layout.bytes,
                    found: length,
                });
            }
            Kind::Packet => EventKind::Packet(packet(&r)?),
            Kind::SocketReady => EventKind::SocketReady(FlowId(r.u64(16))),
            Kind::Flow => flow(&r)?,
            Kind::Thread => self.thread(&r),
            Kind::Fork => EventKind::Fork { child: identity(&r) },
            Kind::Exec => EventKind::Exec {
                old: Tid(r.u32(16)),
                comm: Comm::new(r.octets(24, 16)),
                path: r.text(40, 128),
            },
            Kind::Exit => EventKind::Exit,
            Kind::Rename => EventKind::Rename { tid: Tid(r.u32(16)), comm: Comm::new(r.octets(24, 16)) },
            Kind::Move => EventKind::Move {
                tid: Tid(r.u32(16)),
                tgid: Tid(r.u32(20)),
                whole: r.u32(40) != 0,
                cgroup: CgroupId(r.u64(24)),
                cpu_cgroup: CgroupId(r.u64(32)),
            },
            Kind::BlockIssue => EventKind::BlockIssue(block(&r)?),
            Kind::BlockComplete => EventKind::BlockComplete(block(&r)?),
            Kind::BlockRelease => EventKind::BlockRelease(limits::held(&r)?),
            Kind::Reclaim => EventKind::Reclaim(limits::reclaim(&r)?),
            Kind::LockBegin => EventKind::LockBegin(lock(&r)),
            Kind::Refill => EventKind::Refill(CgroupId(r.u64(16))),
            Kind::Stolen => EventKind::Stolen(r.u64(16)),
            Kind::Blocked => {
                let lock = lock_word(r.u32(20), r.u32(32), r.u32(36), r.u32(40));
                let lock = lock.value.is_some().then_some(lock);
                EventKind::Blocked(Call { number: r.u32(16), arg0: r.u64(24), lock })
            }
            Kind::Current => EventKind::Current,
            Kind::LockEnd => EventKind::LockEnd(lock(&r)),
            Kind::Sample => EventKind::Sample(stack(&r, 16)?),
            Kind::Stack => EventKind::Stack(stack(&r, 16)?),
            Kind::StackLater => EventKind::StackLater(StackId(r.u64(16)), stack(&r, 24)?),
            Kind::StackOf => EventKind::StackOf(StackId(r.u64(16))),
            Kind::File => EventKind::File(FileName {
                tgid: Tid(r.u32(16)),
                fd: r.u32(20),
                mode: r.u32(24),
                inode: r.u64(32),
                flow: (r.u64(40) != 0).then(|| FlowId(r.u64(40))),
                name: r.text(48, 64),
            }),
            Kind::Ready => {
                let fd = r.u32(20);
                EventKind::Ready { target: Tid(r.u32(16)), fd: (fd != NOTHING_READY).then_some(fd) }
            }
            Kind::Migrate => {
                EventKind::Migrate { target: Tid(r.u32(16)), from: Cpu(r.u16(20)), to: Cpu(r.u16(22)) }
            }
            Kind::ThreadContext => EventKind::ThreadContext(thread_context(&r)?),
            Kind::ThreadAttribute => {
                let [key, length] = r.octets(16, 2).first_chunk().copied().unwrap_or_default();
                let value = r.octets(24, MAX_ATTRIBUTE_BYTES.min(length.into())).into();
                EventKind::ThreadAttribute(ThreadAttribute { key, length, value })
            }
            Kind::SetMember => EventKind::SetMember(SetMember {
                set: r.u64(16),
                tgid: Tid(r.u32(24)),
                fd: r.u32(28),
                total: r.u32(32),
            }),
            Kind::Function => EventKind::Function(FunctionCall {
                target: r.u32(16),
                thread: Tid(r.u32(32)),
                from: Stamp::from_ns(r.u64(24)),
                end: match r.u32(20) {
                    0 => CallEnd::Returned,
                    1 => CallEnd::Unwound,
                    2 => CallEnd::Open,
                    3 => CallEnd::Moved,
                    4 => CallEnd::Stayed,
                    other => return Err(r.bad("end", other.into())),
                },
            }),
            Kind::Goroutine => EventKind::Goroutine(goroutine(&r)?),
            Kind::Signal => EventKind::Signal(signals::signal(&r)?),
            Kind::SignalSent => EventKind::SignalSent(signals::sent(&r)?),
            Kind::FailedCall => {
                failed_call::read(r.bytes).map_err(|kind| r.bad("object_kind", kind.into()))?
            }
            Kind::Spin => EventKind::Spin(failed_call::read_spin(r.bytes)),
            Kind::Loss => {
                cpu = Cpu::numbered(r.u32(32));
                let records = match LostRecords::ALL.get(r.u32(36) as usize) {
                    Some(&records) => records,
                    None => return Err(r.bad("records", r.u32(36).into())),
                };
                EventKind::Loss { from: Stamp::from_ns(r.u64(16)), count: r.u64(24), records }
            }
            Kind::Clocks => EventKind::Clocks(Clocks {
                boottime_ns: r.u64(16),
                realtime_ns: r.u64(24),
                steal_ns: r.u64(32),
            }),
            Kind::Name => {
                EventKind::Name(names::name_space(&r)?, r.u64(16), r.counted(40, "name_len", "name_padded")?)
            }
            Kind::Mapping => {
                let build_id_padded = r.u32(48) as usize;
                EventKind::Mapping(Mapping {
                    tgid: Tid(r.u32(40)),
                    from: r.u64(16),
                    to: r.u64(24),
                    offset: r.u64(32),
                    build_id: r.counted(64, "build_id_len", "build_id_padded")?,
                    path: r.counted(64 + build_id_padded, "path_len", "path_padded")?,
                })
            }
            Kind::Mark => EventKind::Mark(mark(&r)?),
            Kind::StackCounts => EventKind::StackCounts(StackCounts {
                taken: r.u64(16),
                repeated: r.u64(24),
                checked: r.u64(32),
                disagreed: r.u64(40),
                doubtful: r.u64(48),
            }),
            Kind::KernelCost => EventKind::KernelCost(kernel_cost(&r)?),
            Kind::UnwindCounts => EventKind::UnwindCounts(UnwindCounts {
                taken_ns: r.u64(16),
                copied: r.u64(24),
                refused: r.u64(32),
                unwound_ns: r.u64(40),
            }),
        };
        Ok((event(header, cpu, what), length))
    }

    fn thread(&self, r: &Record<'_>) -> EventKind {
        let running = r.u32(36) & THREAD_RUNNING != 0;
        let blocked = match self.states.switch_out(r.u32(64)) {
            _ if running => None,
            SwitchOut::Blocked(how) => Some(how),
            SwitchOut::Dead => Some(BlockedState::Other(r.u32(64))),
            SwitchOut::Runnable | SwitchOut::Throttled => None,
        };
        let call = match r.u32(68) {
            CALL_NONE => None,
            // The next record has the argument, if the kernel allows reading it.
            number => Some(Call { number, arg0: Call::NO_ARGUMENT, lock: None }),
        };
        EventKind::Thread { identity: identity(r), blocked, call }
    }
}

#[inline(always)]
fn lock_word(operation: u32, value: u32, claim: u32, valid: u32) -> LockWord {
    LockWord {
        operation,
        value: (valid & LOCK_VALUE != 0).then_some(value),
        claimed_owner: (valid & LOCK_CLAIM != 0).then_some(Tid(claim)),
    }
}

#[inline(always)]
fn event(header: Header, cpu: Cpu, what: EventKind) -> Event {
    Event {
        at: Stamp::from_ns(header.stamp),
        cpu,
        context: CONTEXT_BY_NUMBER[usize::from(header.context)],
        current: Tid(header.tid),
        kind: what,
    }
}

#[inline(always)]
fn call<const N: usize>(r: &[u8; N], lock: Option<LockWord>) -> Option<Call> {
    match u32_at(r, 32) {
        CALL_NONE => None,
        number => Some(Call { number, arg0: u64_at(r, 40), lock }),
    }
}

#[inline(always)]
fn waking<const N: usize>(r: &[u8; N], newborn: bool, socket: Option<FlowId>) -> EventKind {
    EventKind::Waking { target: Tid(u32_at(r, 16)), irq: u16_at(r, 20), newborn, socket }
}

#[inline(always)]
fn u16_at<const N: usize>(r: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([r[at], r[at + 1]])
}

#[inline(always)]
fn u32_at<const N: usize>(r: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([r[at], r[at + 1], r[at + 2], r[at + 3]])
}

#[inline(always)]
fn u64_at<const N: usize>(r: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(r, at)) | u64::from(u32_at(r, at + 4)) << 32
}

/// A whole record with a checked length.
struct Record<'a> {
    bytes: &'a [u8],
    layout: &'static Layout,
}

impl Record<'_> {
    fn u8(&self, at: usize) -> u8 {
        number(self.bytes, at, 1) as u8
    }

    fn u16(&self, at: usize) -> u16 {
        number(self.bytes, at, 2) as u16
    }

    fn u32(&self, at: usize) -> u32 {
        number(self.bytes, at, 4) as u32
    }

    fn u64(&self, at: usize) -> u64 {
        number(self.bytes, at, 8)
    }

    fn octets(&self, at: usize, len: usize) -> &[u8] {
        self.bytes.get(at..at + len).unwrap_or_default()
    }

    /// A NUL-padded text.
    fn text(&self, at: usize, len: usize) -> Box<[u8]> {
        let all = self.octets(at, len);
        let end = all.iter().position(|&b| b == 0).unwrap_or(all.len());
        all[..end].into()
    }

    /// The meaningful bytes at `at`: as many as the field `len` says, which is at most the field
    /// `padded`.
    fn counted(&self, at: usize, len: &'static str, padded: &'static str) -> Result<Box<[u8]>, DecodeError> {
        let count = |name| self.layout.field(name).map_or(0, |field| self.u32(field.offset));
        let (meaning, standing) = (count(len), count(padded));
        match self.bytes.get(at..at.saturating_add(meaning as usize)) {
            Some(bytes) if meaning <= standing => Ok(bytes.into()),
            _ => Err(self.bad(len, meaning.into())),
        }
    }

    fn bad(&self, field: &'static str, value: u64) -> DecodeError {
        DecodeError::BadField { record: self.layout.name, field, value }
    }
}

fn packet(r: &Record<'_>) -> Result<Packet, DecodeError> {
    Ok(Packet {
        flow: FlowId(r.u64(16)),
        direction: match r.bytes[42] {
            0 => Direction::Out,
            1 => Direction::In,
            other => return Err(r.bad("direction", other.into())),
        },
        seq: r.u32(24),
        ack: r.u32(28),
        len: r.u32(32),
        tcp_flags: r.u16(40),
        netns: r.u32(36),
        interface: r.u32(44),
    })
}

fn flow(r: &Record<'_>) -> Result<EventKind, DecodeError> {
    let address = |at| -> Result<IpAddr, DecodeError> {
        let mut octets = [0; 16];
        octets.copy_from_slice(r.octets(at, 16));
        match r.bytes[60] {
            4 => Ok(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()),
            6 => Ok(Ipv6Addr::from(octets).into()),
            other => Err(r.bad("family", other.into())),
        }
    };
    let flow = Flow {
        source: SocketAddr::new(address(24)?, r.u16(56)),
        target: SocketAddr::new(address(40)?, r.u16(58)),
        protocol: r.bytes[61],
    };
    Ok(EventKind::Flow(FlowId(r.u64(16)), flow))
}

fn identity(r: &Record<'_>) -> ThreadIdentity {
    ThreadIdentity {
        tid: Tid(r.u32(16)),
        tgid: Tid(r.u32(20)),
        parent: Tid(r.u32(24)),
        ns_tid: Tid(r.u32(28)),
        ns_tgid: Tid(r.u32(32)),
        start: Stamp::from_ns(r.u64(40)),
        cgroup: CgroupId(r.u64(48)),
        cpu_cgroup: CgroupId(r.u64(56)),
        kernel: r.u32(36) & THREAD_KERNEL != 0,
        comm: Comm::new(r.octets(72, 16)),
    }
}

fn block(r: &Record<'_>) -> Result<BlockRequest, DecodeError> {
    let stamp = |at| -> Option<Stamp<Local>> { (r.u64(at) != 0).then(|| Stamp::from_ns(r.u64(at))) };
    Ok(BlockRequest {
        id: r.u64(16),
        device: r.u32(48),
        sector: r.u64(24),
        bytes: r.u32(52),
        operation: u8::try_from(r.u32(56)).map_err(|_| r.bad("operation", r.u32(56).into()))?,
        start: stamp(32),
        issued: stamp(40),
    })
}

fn lock(r: &Record<'_>) -> KernelLock {
    let owner = r.u32(28);
    KernelLock { address: r.u64(16), flags: r.u32(24), owner: (owner != 0).then_some(Tid(owner)) }
}

/// The stack whose fields begin at `at`.
fn stack(r: &Record<'_>, at: usize) -> Result<Stack, DecodeError> {
    let (kernel, user, all) = (r.u16(at + 4), r.u16(at + 6), r.u32(at + 12));
    let (scanned, proved) = (r.u16(at + 8), r.u16(at + 10));
    if u32::from(kernel) + u32::from(user) != all {
        return Err(r.bad("frames_len", all.into()));
    }
    // The innermost frame is never found by scanning.
    if scanned > 0 && scanned >= user {
        return Err(r.bad("scanned", scanned.into()));
    }
    if proved > user {
        return Err(r.bad("proved", proved.into()));
    }
    let frames: Vec<u64> = r.bytes[at + 16..].chunks_exact(8).map(|frame| number(frame, 0, 8)).collect();
    let (kernel, user) =
        frames.split_at_checked(kernel.into()).ok_or(r.bad("kernel_frames", kernel.into()))?;
    Ok(Stack { tgid: Tid(r.u32(at)), kernel: kernel.into(), user: user.into(), scanned, proved })
}

fn thread_context(r: &Record<'_>) -> Result<ThreadContext, DecodeError> {
    Ok(match r.u8(40) {
        0 => ThreadContext::None,
        1 => ThreadContext::Span {
            trace: r.octets(16, 16).first_chunk().copied().unwrap_or_default(),
            span: r.octets(32, 8).first_chunk().copied().unwrap_or_default(),
            flags: r.u8(41),
        },
        2 => ThreadContext::Unknown,
        other => return Err(r.bad("state", other.into())),
    })
}

fn goroutine(r: &Record<'_>) -> Result<GoroutineStep, DecodeError> {
    let [step, reason] = r.octets(20, 2).first_chunk().copied().unwrap_or_default();
    let leaves = matches!(step, 0 | 3 | 4);
    let step = match step {
        0 => GoStep::Parks(reason),
        1 => GoStep::Ready(r.u64(32)),
        2 => GoStep::Runs(r.u64(32)),
        3 => GoStep::Yields,
        4 => GoStep::Ends,
        5 => {
            let trace = r.octets(40, 16).first_chunk().copied().unwrap_or_default();
            GoStep::BeginsSpan(trace, r.octets(56, 8).first_chunk().copied().unwrap_or_default())
        }
        other => return Err(r.bad("step", other.into())),
    };
    let began_in = if leaves { r.u64(32) } else { 0 };
    Ok(GoroutineStep { tgid: Tid(r.u32(16)), program: r.u16(22), goroutine: r.u64(24), began_in, step })
}

fn kernel_cost(r: &Record<'_>) -> Result<KernelCost, DecodeError> {
    let number = r.u32(16);
    let place = (number as usize).wrapping_sub(1);
    let kind = *CostKind::ALL.get(place).ok_or_else(|| r.bad("cost_kind", number.into()))?;
    let given = |number| Some(number).filter(|&number| number != NONE);
    let (count, from_ns, to_ns) = (given(r.u64(24)), r.u64(32), given(r.u64(40)));
    if to_ns.is_some_and(|to_ns| to_ns < from_ns) {
        return Err(r.bad("to_ns", r.u64(40)));
    }
    Ok(KernelCost { kind, count, from_ns, to_ns })
}

fn mark(r: &Record<'_>) -> Result<Mark, DecodeError> {
    let value = r.u32(20);
    Ok(match r.u32(16) {
        1 => Mark::Started,
        2 => Mark::Stopped,
        3 => Mark::Command { tgid: Tid(value), words: r.counted(32, "words_len", "words_padded")? },
        4 => Mark::Target(Tid(value)),
        5 => Mark::Observer(Tid(value)),
        6 => Mark::Ended(value),
        7 => Mark::Unprobed(value),
        other => return Err(r.bad("mark", other.into())),
    })
}

/// By `enum wp_context`. An unassigned number is an interrupt that was not recognised.
const CONTEXT_BY_NUMBER: [Context; 256] = {
    let mut table = [Context::UnknownInterrupt; 256];
    table[0] = Context::Task;
    let mut vector = 0;
    while vector < Softirq::ALL.len() {
        table[1 + vector] = Context::Softirq(Softirq::ALL[vector]);
        vector += 1;
    }
    table[32] = Context::LocalTimer;
    table[33] = Context::Reschedule;
    table[34] = Context::CallFunction;
    table[35] = Context::IrqWork;
    table[64] = Context::Device;
    table[96] = Context::Unrecorded;
    table[97] = Context::UnrecordedTimer;
    table[98] = Context::TaskOrUnrecorded;
    table
};

/// A context's number in a record's header.
pub(crate) const fn context_number(context: Context) -> u8 {
    match context {
        Context::Task => 0,
        Context::Softirq(vector) => 1 + vector as u8,
        Context::LocalTimer => 32,
        Context::Reschedule => 33,
        Context::CallFunction => 34,
        Context::IrqWork => 35,
        Context::Device => 64,
        Context::Unrecorded => 96,
        Context::UnrecordedTimer => 97,
        Context::TaskOrUnrecorded => 98,
        Context::UnknownInterrupt => 255,
    }
}
