//! Encodes events as records.

use std::net::IpAddr;

use wakepath_event::{
    BlockRequest, BlockedState, Call, CallEnd, CostKind, Direction, Event, EventKind, Flow, GoStep,
    HeldRequest, KernelLock, LockWord, MAX_ATTRIBUTE_BYTES, Mapping, Mark, Packet, Reclaim, Stack, SwitchOut,
    ThreadContext, ThreadIdentity, Timeout,
};

use crate::decode::{
    LOCK_CLAIM, LOCK_VALUE, PREEMPT, THREAD_KERNEL, THREAD_RUNNING, THROTTLED, context_number,
};
use crate::layout::{
    CALL_NONE, MAX_FRAMES, MAX_RECORD_BYTES, MEMORY_HIGH, MEMORY_MAX, MEMORY_UNKNOWN, NONE, NOTHING_READY,
};
use crate::{Kind, TaskStates, failed_call};

/// The reason for which an event cannot be written as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum EncodeError {
    #[error("a record cannot hold {found} {what}, at most {most}")]
    TooMany { what: &'static str, found: usize, most: usize },
    #[error("this kernel has no state {0:?}")]
    NoSuchState(SwitchOut),
    #[error("no record holds that a CPU is not recorded")]
    Unrecorded,
    #[error("no record holds a mark that a program made itself")]
    UserMark,
}

/// Makes records from events: the records that user space contributes to a recording, and those from
/// generators and tests. A field missing in the event (a wake-up's target CPU, a request's error) is 0.
#[derive(Debug, Clone, Copy)]
pub struct Encoder {
    states: &'static TaskStates,
}

impl Encoder {
    /// An encoder that writes task states as this kernel release does.
    pub fn for_release(release: &str) -> Self {
        Self { states: TaskStates::for_release(release) }
    }

    /// Appends `event`'s record to `out`; nothing is appended on error. `seq` counts the records in a per-CPU
    /// buffer; in [`crate::Buffer::Life`] it is `event.cpu.0`.
    ///
    /// # Errors
    /// If no record can hold the event.
    pub fn encode(&self, event: &Event, seq: u16, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let begin = out.len();
        let mut w = Record { out };
        w.u64(event.at.ns());
        w.u8(0);
        w.u8(context_number(event.context));
        w.u16(seq);
        w.u32(event.current.0);
        match self.body(event, &mut w) {
            Ok(kind) => {
                out[begin + 8] = kind.number();
                Ok(())
            }
            Err(error) => {
                out.truncate(begin);
                Err(error)
            }
        }
    }

    fn body(&self, event: &Event, w: &mut Record<'_>) -> Result<Kind, EncodeError> {
        Ok(match &event.kind {
            EventKind::Switch { next, out, interrupts_ns, call } => {
                w.u32(next.0);
                w.u32(self.states.bits(*out).ok_or(EncodeError::NoSuchState(*out))?);
                w.u32(*interrupts_ns);
                w.u32(match out {
                    SwitchOut::Runnable => PREEMPT,
                    SwitchOut::Throttled => PREEMPT | THROTTLED,
                    SwitchOut::Blocked(_) | SwitchOut::Dead => 0,
                });
                switch_call(call.as_ref(), w)
            }
            EventKind::Waking { target, irq, newborn, socket } => {
                w.u32(target.0);
                w.u16(*irq);
                w.u16(0);
                match socket {
                    // A newborn thread cannot have waited for a socket.
                    _ if *newborn => Kind::WakingNew,
                    None => Kind::Waking,
                    Some(flow) => w.number(flow.0, Kind::WakingSocket),
                }
            }
            EventKind::Ready { target, fd } => {
                w.u32(target.0);
                w.u32(fd.unwrap_or(NOTHING_READY));
                Kind::Ready
            }
            EventKind::Migrate { target, from, to } => {
                w.u32(target.0);
                w.u16(from.0);
                w.u16(to.0);
                Kind::Migrate
            }
            EventKind::Thread { identity, blocked, call } => {
                let state = match blocked {
                    None => 0,
                    Some(BlockedState::Other(bits)) => *bits,
                    Some(how) => {
                        let out = SwitchOut::Blocked(*how);
                        self.states.bits(out).ok_or(EncodeError::NoSuchState(out))?
                    }
                };
                let running = if blocked.is_none() { THREAD_RUNNING } else { 0 };
                thread(identity, running, state, call.as_ref(), w);
                Kind::Thread
            }
            EventKind::Fork { child } => {
                thread(child, 0, 0, None, w);
                Kind::Fork
            }
            EventKind::Exec { old, comm, path } => {
                w.u32(old.0);
                w.u32(event.current.0);
                w.octets(comm.padded());
                w.text(path, 128);
                Kind::Exec
            }
            EventKind::Exit => w.number(0, Kind::Exit),
            EventKind::Rename { tid, comm } => {
                w.u32(tid.0);
                w.u32(0);
                w.octets(comm.padded());
                Kind::Rename
            }
            EventKind::Move { tid, tgid, whole, cgroup, cpu_cgroup } => {
                w.u32(tid.0);
                w.u32(tgid.0);
                w.u64(cgroup.0);
                w.u64(cpu_cgroup.0);
                w.u32(u32::from(*whole));
                w.u32(0);
                Kind::Move
            }
            EventKind::Packet(packet) => write_packet(packet, w),
            EventKind::SocketReady(flow) => w.number(flow.0, Kind::SocketReady),
            EventKind::Flow(id, flow) => {
                w.u64(id.0);
                write_flow(flow, w)
            }
            EventKind::BlockIssue(request) => block(request, Kind::BlockIssue, w),
            EventKind::BlockComplete(request) => block(request, Kind::BlockComplete, w),
            EventKind::BlockRelease(request) => held(request, w),
            EventKind::Reclaim(done) => reclaim(done, w),
            EventKind::LockBegin(l) => lock(l, Kind::LockBegin, w),
            EventKind::Refill(cpu_cgroup) => w.number(cpu_cgroup.0, Kind::Refill),
            EventKind::Stolen(ns) => w.number(*ns, Kind::Stolen),
            EventKind::Blocked(call) => {
                let lock = call.lock.filter(|lock| lock.value.is_some());
                w.u32(call.number);
                w.u32(lock.map_or(0, |lock| lock.operation));
                w.u64(call.arg0);
                match lock {
                    Some(lock) => lock_word(&lock, w),
                    None => w.octets(&[0; 12]),
                }
                w.u32(0);
                Kind::Blocked
            }
            EventKind::Current => Kind::Current,
            EventKind::LockEnd(l) => lock(l, Kind::LockEnd, w),
            EventKind::Sample(s) => stack(s, Kind::Sample, w)?,
            EventKind::Stack(s) => stack(s, Kind::Stack, w)?,
            EventKind::StackLater(id, s) => {
                w.u64(id.0);
                stack(s, Kind::StackLater, w)?
            }
            EventKind::ThreadContext(context) => thread_context(context, w),
            EventKind::ThreadAttribute(attribute) => {
                let value = &attribute.value[..attribute.value.len().min(MAX_ATTRIBUTE_BYTES)];
                w.u8(attribute.key);
                w.u8(attribute.length);
                w.u16(0);
                w.u32(0);
                w.octets(value);
                w.octets(&[0; MAX_ATTRIBUTE_BYTES][value.len()..]);
                Kind::ThreadAttribute
            }
            EventKind::StackOf(stack) => w.number(stack.0, Kind::StackOf),
            EventKind::StackCounts(counts) => {
                for count in
                    [counts.taken, counts.repeated, counts.checked, counts.disagreed, counts.doubtful]
                {
                    w.u64(count);
                }
                Kind::StackCounts
            }
            EventKind::KernelCost(cost) => {
                let place = CostKind::ALL.iter().position(|kind| *kind == cost.kind).unwrap_or(0);
                w.u32(place as u32 + 1);
                w.u32(0);
                for number in [cost.count.unwrap_or(NONE), cost.from_ns, cost.to_ns.unwrap_or(NONE)] {
                    w.u64(number);
                }
                Kind::KernelCost
            }
            EventKind::UnwindCounts(counts) => {
                for count in [counts.taken_ns, counts.copied, counts.refused, counts.unwound_ns] {
                    w.u64(count);
                }
                Kind::UnwindCounts
            }
            EventKind::File(file) => {
                w.u32(file.tgid.0);
                w.u32(file.fd);
                w.u32(file.mode);
                w.u32(0);
                w.u64(file.inode);
                w.u64(file.flow.map_or(0, |flow| flow.0));
                w.text(&file.name, 64);
                Kind::File
            }
            EventKind::SetMember(member) => {
                w.u64(member.set);
                w.u32(member.tgid.0);
                w.u32(member.fd);
                w.u32(member.total);
                w.u32(0);
                Kind::SetMember
            }
            EventKind::Function(call) => {
                w.u32(call.target);
                w.u32(match call.end {
                    CallEnd::Returned => 0,
                    CallEnd::Unwound => 1,
                    CallEnd::Open => 2,
                    CallEnd::Moved => 3,
                    CallEnd::Stayed => 4,
                });
                w.u64(call.from.ns());
                w.u32(call.thread.0);
                w.u32(0);
                Kind::Function
            }
            EventKind::Goroutine(goroutine) => {
                let (step, reason) = match goroutine.step {
                    GoStep::Parks(reason) => (0, reason),
                    GoStep::Ready(_) => (1, 0),
                    GoStep::Runs(_) => (2, 0),
                    GoStep::Yields => (3, 0),
                    GoStep::Ends => (4, 0),
                    GoStep::BeginsSpan(..) => (5, 0),
                };
                w.u32(goroutine.tgid.0);
                w.u8(step);
                w.u8(reason);
                w.u16(goroutine.program);
                w.u64(goroutine.goroutine);
                w.u64(match goroutine.step {
                    GoStep::Ready(by) | GoStep::Runs(by) => by,
                    GoStep::Parks(_) | GoStep::Yields | GoStep::Ends => goroutine.began_in,
                    GoStep::BeginsSpan(..) => 0,
                });
                let ids = if let GoStep::BeginsSpan(trace, span) = goroutine.step {
                    (trace, span)
                } else {
                    Default::default()
                };
                w.octets(&ids.0);
                w.octets(&ids.1);
                Kind::Goroutine
            }
            EventKind::Signal(signal) => {
                w.u32(signal.number);
                w.u32(signal.code as u32);
                w.u32(signal.action as u32);
                w.u32(signal.cut_call.unwrap_or(CALL_NONE));
                w.u64(signal.sent.map_or(0, |(at, _)| at.ns()));
                w.u32(signal.sent.map_or(0, |(_, sender)| sender.0));
                w.u32(0);
                Kind::Signal
            }
            EventKind::SignalSent(sent) => {
                w.u32(sent.number);
                w.u32(sent.code as u32);
                w.u32(sent.target.0);
                w.u32(sent.effect as u32);
                w.u64(sent.limit.map_or(0, |limit| limit.cgroup.0));
                w.u64(sent.limit.map_or(0, |limit| limit.bytes));
                Kind::SignalSent
            }
            EventKind::Loss { from, count, records } => {
                w.u64(from.ns());
                w.u64(*count);
                w.u32(event.cpu.0.into());
                w.u32(*records as u32);
                Kind::Loss
            }
            EventKind::Unrecorded => return Err(EncodeError::Unrecorded),
            EventKind::UserMark(_) | EventKind::UserMarksLost { .. } => return Err(EncodeError::UserMark),
            EventKind::Clocks(clocks) => {
                w.u64(clocks.boottime_ns);
                w.u64(clocks.realtime_ns);
                w.u64(clocks.steal_ns);
                Kind::Clocks
            }
            EventKind::Name(space, key, name) => {
                w.u64(*key);
                w.u32(*space as u32);
                w.counts(name, "bytes of a name")?;
                w.u32(0);
                w.padded(name);
                Kind::Name
            }
            EventKind::Mapping(m) => mapping(m, w)?,
            EventKind::Mark(m) => mark(m, w)?,
            EventKind::FailedCall(call) => {
                w.octets(&failed_call::write(call));
                Kind::FailedCall
            }
            EventKind::Spin(spin) => {
                w.u32(spin.call);
                w.u32(spin.error);
                w.u64(spin.from.ns());
                w.u64(spin.count);
                Kind::Spin
            }
        })
    }
}

/// The value, the claim, and a flag each for their presence.
fn lock_word(lock: &LockWord, w: &mut Record<'_>) {
    w.u32(lock.value.unwrap_or(0));
    w.u32(lock.claimed_owner.map_or(0, |tid| tid.0));
    let value = if lock.value.is_some() { LOCK_VALUE } else { 0 };
    let claim = if lock.claimed_owner.is_some() { LOCK_CLAIM } else { 0 };
    w.u32(value | claim);
}

fn switch_call(call: Option<&Call>, w: &mut Record<'_>) -> Kind {
    let Some(call) = call else { return Kind::Switch };
    w.u32(call.number);
    let is_private = call.number == Call::FUTEX && call.lock == Some(LockWord::private_futex());
    let timeout = call.timeout();
    w.u32(timeout.map_or(is_private.into(), Timeout::record));
    w.u64(if timeout.is_some() { call.argument() } else { call.arg0 });
    let Some(lock) = call.lock.filter(|_| !is_private) else { return Kind::SwitchCall };
    w.u32(lock.operation);
    lock_word(&lock, w);
    Kind::SwitchLock
}

fn thread(who: &ThreadIdentity, flags: u32, state: u32, call: Option<&Call>, w: &mut Record<'_>) {
    for tid in [who.tid, who.tgid, who.parent, who.ns_tid, who.ns_tgid] {
        w.u32(tid.0);
    }
    w.u32(flags | if who.kernel { THREAD_KERNEL } else { 0 });
    w.u64(who.start.ns());
    w.u64(who.cgroup.0);
    w.u64(who.cpu_cgroup.0);
    w.u32(state);
    w.u32(call.map_or(CALL_NONE, |call| call.number));
    w.octets(who.comm.padded());
}

fn write_packet(packet: &Packet, w: &mut Record<'_>) -> Kind {
    w.u64(packet.flow.0);
    w.u32(packet.seq);
    w.u32(packet.ack);
    w.u32(packet.len);
    w.u32(packet.netns);
    w.u16(packet.tcp_flags);
    w.u8(match packet.direction {
        Direction::Out => 0,
        Direction::In => 1,
    });
    w.u8(0);
    w.u32(packet.interface);
    Kind::Packet
}

fn write_flow(flow: &Flow, w: &mut Record<'_>) -> Kind {
    let mut family = 4;
    for address in [flow.source, flow.target] {
        let mut octets = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => {
                octets = ip.octets();
                family = 6;
            }
        }
        w.octets(&octets);
    }
    w.u16(flow.source.port());
    w.u16(flow.target.port());
    w.u8(family);
    w.u8(flow.protocol);
    w.u16(0);
    Kind::Flow
}

fn block(request: &BlockRequest, kind: Kind, w: &mut Record<'_>) -> Kind {
    w.u64(request.id);
    w.u64(request.sector);
    w.u64(request.start.map_or(0, |stamp| stamp.ns()));
    w.u64(request.issued.map_or(0, |stamp| stamp.ns()));
    w.u32(request.device);
    w.u32(request.bytes);
    w.u32(request.operation.into());
    w.u32(0);
    kind
}

fn held(request: &HeldRequest, w: &mut Record<'_>) -> Kind {
    w.u64(request.sector);
    w.u64(request.cgroup.0);
    w.u32(request.device);
    w.u32(request.bytes);
    w.u32(request.operation.into());
    w.u32(0);
    Kind::BlockRelease
}

fn reclaim(done: &Reclaim, w: &mut Record<'_>) -> Kind {
    w.u64(done.from.ns());
    w.u64(done.limit.map_or(0, |limit| limit.cgroup.0));
    w.u64(done.limit.map_or(0, |limit| limit.bytes));
    w.u32(done.pages);
    w.u32(match done.limit {
        None => MEMORY_UNKNOWN,
        Some(limit) if limit.is_high => MEMORY_HIGH,
        Some(_) => MEMORY_MAX,
    });
    Kind::Reclaim
}

fn lock(lock: &KernelLock, kind: Kind, w: &mut Record<'_>) -> Kind {
    w.u64(lock.address);
    w.u32(lock.flags);
    w.u32(lock.owner.map_or(0, |tid| tid.0));
    kind
}

fn stack(stack: &Stack, kind: Kind, w: &mut Record<'_>) -> Result<Kind, EncodeError> {
    let found = stack.kernel.len().saturating_add(stack.user.len());
    if found > MAX_FRAMES {
        return Err(EncodeError::TooMany { what: "frames", found, most: MAX_FRAMES });
    }
    w.u32(stack.tgid.0);
    // All are at most MAX_FRAMES.
    w.u16(stack.kernel.len() as u16);
    w.u16(stack.user.len() as u16);
    w.u16(stack.scanned);
    w.u16(stack.proved);
    w.u32(found as u32);
    for &frame in stack.kernel.iter().chain(&stack.user) {
        w.u64(frame);
    }
    Ok(kind)
}

fn mapping(mapping: &Mapping, w: &mut Record<'_>) -> Result<Kind, EncodeError> {
    w.u64(mapping.from);
    w.u64(mapping.to);
    w.u64(mapping.offset);
    w.u32(mapping.tgid.0);
    w.counts(&mapping.build_id, "bytes of a build id")?;
    w.counts(&mapping.path, "bytes of a path")?;
    w.u32(0);
    w.padded(&mapping.build_id);
    w.padded(&mapping.path);
    Ok(Kind::Mapping)
}

fn thread_context(context: &ThreadContext, w: &mut Record<'_>) -> Kind {
    let (state, trace, span, flags) = match context {
        ThreadContext::None => (0, &[0; 16], &[0; 8], 0),
        ThreadContext::Span { trace, span, flags } => (1, trace, span, *flags),
        ThreadContext::Unknown => (2, &[0; 16], &[0; 8], 0),
    };
    w.octets(trace);
    w.octets(span);
    w.u8(state);
    w.u8(flags);
    w.u16(0);
    w.u32(0);
    Kind::ThreadContext
}

fn mark(mark: &Mark, w: &mut Record<'_>) -> Result<Kind, EncodeError> {
    let (number, value, words): (u32, u32, &[u8]) = match mark {
        Mark::Started => (1, 0, &[]),
        Mark::Stopped => (2, 0, &[]),
        Mark::Command { tgid, words } => (3, tgid.0, words),
        Mark::Target(tgid) => (4, tgid.0, &[]),
        Mark::Observer(tid) => (5, tid.0, &[]),
        Mark::Ended(status) => (6, *status, &[]),
        Mark::Unprobed(target) => (7, *target, &[]),
    };
    w.u32(number);
    w.u32(value);
    w.counts(words, "bytes of a command")?;
    w.padded(words);
    Ok(Kind::Mark)
}

/// A record under construction.
struct Record<'a> {
    out: &'a mut Vec<u8>,
}

impl Record<'_> {
    /// Half the longest record, so that two sequences and the fixed part always fit.
    const MAX_COUNTED: usize = MAX_RECORD_BYTES / 2 - 64;

    fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// The last or only number in a record; returns `kind`.
    fn number(&mut self, value: u64, kind: Kind) -> Kind {
        self.u64(value);
        kind
    }

    fn octets(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A text, cut so that a NUL follows it, as the kernel does.
    fn text(&mut self, text: &[u8], width: usize) {
        let text = &text[..text.len().min(width - 1)];
        self.octets(text);
        self.out.resize(self.out.len() + width - text.len(), 0);
    }

    /// A sequence's two counts.
    fn counts(&mut self, bytes: &[u8], what: &'static str) -> Result<(), EncodeError> {
        if bytes.len() > Self::MAX_COUNTED {
            return Err(EncodeError::TooMany { what, found: bytes.len(), most: Self::MAX_COUNTED });
        }
        self.u32(bytes.len() as u32);
        self.u32(bytes.len().next_multiple_of(8) as u32);
        Ok(())
    }

    /// The sequence itself.
    fn padded(&mut self, bytes: &[u8]) {
        self.octets(bytes);
        self.out.resize(self.out.len() + bytes.len().next_multiple_of(8) - bytes.len(), 0);
    }
}
