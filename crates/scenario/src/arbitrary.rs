//! `proptest` strategies for any event that a record can hold, and the number of cases.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use wakepath_clock::Stamp;
use wakepath_event::{
    Attempt, AttemptObject, BlockRequest, BlockedState, Call, CallEnd, CgroupId, Clocks, Comm, Context,
    CostKind, Cpu, Direction, Event, EventKind, FailedCall, FileName, Flow, FlowId, FunctionCall, GoStep,
    GoroutineStep, HeldRequest, KernelCost, KernelLock, LockWord, LostRecords, MAX_ATTRIBUTE_BYTES,
    MAX_OBJECT_BYTES, Mapping, Mark, MemoryLimit, NameSpace, Packet, Reclaim, SentEffect, SetMember, Signal,
    SignalAction, SignalSent, Softirq, Spin, Stack, StackCounts, StackId, SwitchOut, ThreadAttribute,
    ThreadContext, ThreadIdentity, Tid, UnwindCounts,
};

/// The largest number of frames in a stack.
pub const MAX_FRAMES: usize = 127;

/// The system-call number for "no system call".
pub const CALL_NONE: u32 = u32::MAX;

/// The event kinds in a recorder's buffer, or in several buffers.
pub type Kinds = BoxedStrategy<EventKind>;

/// An event with any of these kinds, at any stamp.
pub fn event(kinds: Kinds) -> impl Strategy<Value = Event> {
    (any::<u64>(), prop_oneof![0..Cpu::LIMIT, Just(Cpu::UNKNOWN.0)], context(), tid(), kinds).prop_map(
        |(at, cpu, context, current, what)| Event {
            at: Stamp::from_ns(at),
            cpu: Cpu(cpu),
            context,
            current,
            kind: what,
        },
    )
}

/// The kinds in a recorder's three buffers: scheduler, network, and thread lives.
pub fn kinds_by_buffer() -> [Kinds; 3] {
    [sched().boxed(), net().boxed(), life().boxed()]
}

/// An event at any stamp and its buffer; `buffers` has the order of [`kinds_by_buffer`].
pub fn any_event<B: Clone + Debug + 'static>(buffers: [B; 3]) -> impl Strategy<Value = (B, Event)> {
    let events = buffers.into_iter().zip(kinds_by_buffer());
    Union::new(events.map(|(buffer, kinds)| (Just(buffer), event(kinds)).boxed()))
}

fn tid() -> impl Strategy<Value = Tid> {
    any::<u32>().prop_map(Tid)
}

fn context() -> impl Strategy<Value = Context> {
    prop_oneof![
        1 => select(&Softirq::ALL[..]).prop_map(Context::Softirq),
        7 => select(&Context::OTHERS[..]),
    ]
}

fn blocked() -> impl Strategy<Value = BlockedState> {
    prop_oneof![
        8 => select(&BlockedState::KNOWN[..]),
        1 => (0x1_0000..u32::MAX / 2).prop_map(|bits| BlockedState::Other(bits & !0xff)),
    ]
}

fn switch_out() -> impl Strategy<Value = SwitchOut> {
    prop_oneof![
        Just(SwitchOut::Runnable),
        Just(SwitchOut::Throttled),
        blocked().prop_map(SwitchOut::Blocked),
        Just(SwitchOut::Dead),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let lock = (any::<u32>(), option::of(any::<u32>()), option::of(tid()))
        .prop_map(|(operation, value, claimed_owner)| LockWord { operation, value, claimed_owner });
    (0..CALL_NONE, any::<u64>(), option::of(lock)).prop_map(|(number, arg0, lock)| Call {
        number,
        arg0,
        lock,
    })
}

fn thread_context() -> impl Strategy<Value = ThreadContext> {
    let span = |(trace, span, flags)| ThreadContext::Span { trace, span, flags };
    prop_oneof![
        Just(ThreadContext::None),
        Just(ThreadContext::Unknown),
        any::<([u8; 16], [u8; 8], u8)>().prop_map(span),
    ]
}

fn thread_attribute() -> impl Strategy<Value = ThreadAttribute> {
    let cut = |bytes: Vec<u8>| bytes.into_iter().take(MAX_ATTRIBUTE_BYTES).collect();
    (any::<u8>(), vec(any::<u8>(), 0..256)).prop_map(move |(key, bytes)| ThreadAttribute {
        key,
        length: bytes.len() as u8,
        value: cut(bytes),
    })
}

fn failed_call() -> impl Strategy<Value = FailedCall> {
    let object = prop_oneof![
        Just(AttemptObject::None),
        Just(AttemptObject::Unreadable),
        text(MAX_OBJECT_BYTES).prop_map(AttemptObject::Path),
        text(MAX_OBJECT_BYTES).prop_map(AttemptObject::PathEnd),
        text(MAX_OBJECT_BYTES).prop_map(AttemptObject::Unix),
        text(MAX_OBJECT_BYTES).prop_map(AttemptObject::File),
        any::<i32>().prop_map(AttemptObject::Process),
        any::<([u8; 4], u16)>().prop_map(|address| AttemptObject::Address(address.into())),
        any::<([u8; 16], u16)>().prop_map(|address| AttemptObject::Address(address.into())),
    ];
    (object, any::<(u32, u32, u32, u32, u32)>(), 0..u32::MAX).prop_map(
        |(object, (call, error, operation, tries, later), holder)| {
            let holder = (holder != 0).then_some(Tid(holder));
            FailedCall { attempt: Attempt { call, error, operation, holder, object }, tries, later }
        },
    )
}

fn spin() -> impl Strategy<Value = Spin> {
    any::<(u32, u32, u64, u64)>().prop_map(|(call, error, from, count)| Spin {
        call,
        error,
        from: Stamp::from_ns(from),
        count,
    })
}

fn sched() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        (tid(), switch_out(), any::<u32>(), option::of(call())).prop_map(
            |(next, out, interrupts_ns, call)| EventKind::Switch { next, out, interrupts_ns, call }
        ),
        Just(EventKind::Current),
        any::<u64>().prop_map(|id| EventKind::StackOf(StackId(id))),
        thread_context().prop_map(EventKind::ThreadContext),
        thread_attribute().prop_map(EventKind::ThreadAttribute),
        failed_call().prop_map(|call| EventKind::FailedCall(Box::new(call))),
        (tid(), option::of(0..u32::MAX)).prop_map(|(target, fd)| EventKind::Ready { target, fd }),
        (tid(), any::<u16>(), any::<u16>()).prop_map(|(target, from, to)| EventKind::Migrate {
            target,
            from: Cpu(from),
            to: Cpu(to),
        }),
        (tid(), any::<u16>(), option::of(any::<bool>())).prop_map(|(target, irq, how)| EventKind::Waking {
            target,
            irq,
            newborn: how == Some(true),
            socket: (how == Some(false)).then_some(FlowId(irq.into())),
        }),
    ]
}

fn net() -> impl Strategy<Value = EventKind> {
    let packet = (any::<(u64, u32, u32, u32, u16, u32, u32)>(), select(&[Direction::Out, Direction::In][..]))
        .prop_map(|((flow, seq, ack, len, tcp_flags, netns, interface), direction)| Packet {
            flow: FlowId(flow),
            direction,
            seq,
            ack,
            len,
            tcp_flags,
            netns,
            interface,
        });
    prop_oneof![
        packet.prop_map(EventKind::Packet),
        any::<u64>().prop_map(|flow| EventKind::SocketReady(FlowId(flow))),
        flow(),
    ]
}

fn flow() -> impl Strategy<Value = EventKind> {
    let ends = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    (any::<u64>(), ends, any::<(u16, u16, u8)>()).prop_map(|(id, (source, target), (from, to, protocol))| {
        let (source, target) = (SocketAddr::new(source, from), SocketAddr::new(target, to));
        EventKind::Flow(FlowId(id), Flow { source, target, protocol })
    })
}

/// At most `most` bytes, without NUL.
fn text(most: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(1..=255u8, 0..=most).prop_map(Vec::into)
}

/// At most `most` bytes.
fn bytes(most: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..=most).prop_map(Vec::into)
}

fn comm() -> impl Strategy<Value = Comm> {
    text(15).prop_map(|name| Comm::new(&name))
}

fn identity() -> impl Strategy<Value = ThreadIdentity> {
    (any::<[u32; 5]>(), any::<[u64; 3]>(), any::<bool>(), comm()).prop_map(
        |([tid, tgid, parent, ns_tid, ns_tgid], [start, cgroup, cpu_cgroup], kernel, comm)| ThreadIdentity {
            tid: Tid(tid),
            tgid: Tid(tgid),
            parent: Tid(parent),
            ns_tid: Tid(ns_tid),
            ns_tgid: Tid(ns_tgid),
            start: Stamp::from_ns(start),
            cgroup: CgroupId(cgroup),
            cpu_cgroup: CgroupId(cpu_cgroup),
            kernel,
            comm,
        },
    )
}

fn block() -> impl Strategy<Value = BlockRequest> {
    (any::<(u64, u32, u64, u32, u8)>(), option::of(1..=u64::MAX), option::of(1..=u64::MAX)).prop_map(
        |((id, device, sector, bytes, operation), start, issued)| BlockRequest {
            id,
            device,
            sector,
            bytes,
            operation,
            start: start.map(Stamp::from_ns),
            issued: issued.map(Stamp::from_ns),
        },
    )
}

fn held() -> impl Strategy<Value = HeldRequest> {
    any::<(u64, u32, u64, u32, u8)>().prop_map(|(cgroup, device, sector, bytes, operation)| HeldRequest {
        cgroup: CgroupId(cgroup),
        device,
        sector,
        bytes,
        operation,
    })
}

fn reclaim() -> impl Strategy<Value = Reclaim> {
    let limit = any::<(u64, u64, bool)>().prop_map(|(cgroup, bytes, is_high)| MemoryLimit {
        cgroup: CgroupId(cgroup),
        bytes,
        is_high,
    });
    (any::<u64>(), option::of(limit), any::<u32>()).prop_map(|(from, limit, pages)| Reclaim {
        from: Stamp::from_ns(from),
        limit,
        pages,
    })
}

fn kernel_lock() -> impl Strategy<Value = KernelLock> {
    (any::<u64>(), any::<u32>(), option::of((1..=u32::MAX).prop_map(Tid)))
        .prop_map(|(address, flags, owner)| KernelLock { address, flags, owner })
}

fn stack() -> impl Strategy<Value = Stack> {
    (tid(), vec(any::<u64>(), 0..=MAX_FRAMES), any::<prop::sample::Index>()).prop_map(
        |(tgid, frames, split)| {
            let (kernel, user) = frames.split_at(split.index(frames.len() + 1));
            let scanned = split.index(user.len().max(1)) as u16;
            let proved = split.index(user.len() + 1) as u16;
            Stack { tgid, kernel: kernel.into(), user: user.into(), scanned, proved }
        },
    )
}

fn file() -> impl Strategy<Value = FileName> {
    (any::<(u32, u32, u32, u64)>(), option::of((1..=u64::MAX).prop_map(FlowId)), text(63)).prop_map(
        |((tgid, fd, mode, inode), flow, name)| FileName { tgid: Tid(tgid), fd, mode, inode, flow, name },
    )
}

fn name() -> impl Strategy<Value = EventKind> {
    (select(&NameSpace::ALL[..]), any::<u64>(), bytes(300))
        .prop_map(|(space, key, name)| EventKind::Name(space, key, name))
}

fn mapping() -> impl Strategy<Value = Mapping> {
    (any::<(u32, u64, u64, u64)>(), bytes(32), bytes(300)).prop_map(
        |((tgid, from, to, offset), build_id, path)| Mapping {
            tgid: Tid(tgid),
            from,
            to,
            offset,
            build_id,
            path,
        },
    )
}

fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![
        Just(Mark::Started),
        Just(Mark::Stopped),
        (tid(), bytes(200)).prop_map(|(tgid, words)| Mark::Command { tgid, words }),
        tid().prop_map(Mark::Target),
        tid().prop_map(Mark::Observer),
        any::<u32>().prop_map(Mark::Ended),
        any::<u32>().prop_map(Mark::Unprobed),
    ]
}

fn function() -> impl Strategy<Value = FunctionCall> {
    let end =
        select(&[CallEnd::Returned, CallEnd::Unwound, CallEnd::Open, CallEnd::Moved, CallEnd::Stayed][..]);
    (any::<u32>(), tid(), any::<u64>(), end).prop_map(|(target, thread, from, end)| FunctionCall {
        target,
        thread,
        from: Stamp::from_ns(from),
        end,
    })
}

fn goroutine() -> impl Strategy<Value = GoroutineStep> {
    let leaves = prop_oneof![any::<u8>().prop_map(GoStep::Parks), Just(GoStep::Yields), Just(GoStep::Ends)];
    let other = prop_oneof![
        any::<u64>().prop_map(GoStep::Ready),
        any::<u64>().prop_map(GoStep::Runs),
        any::<([u8; 16], [u8; 8])>().prop_map(|(trace, span)| GoStep::BeginsSpan(trace, span)),
    ];
    let step = prop_oneof![(leaves, any::<u64>()), (other, Just(0))];
    (tid(), any::<u16>(), any::<u64>(), step).prop_map(|(tgid, program, goroutine, (step, began_in))| {
        GoroutineStep { tgid, program, goroutine, began_in, step }
    })
}

fn signal() -> impl Strategy<Value = Signal> {
    let sent = option::of((1..=u64::MAX, tid()).prop_map(|(at, sender)| (Stamp::from_ns(at), sender)));
    let action = select(&SignalAction::ALL[..]);
    (any::<u32>(), any::<i32>(), action, option::of(0..CALL_NONE), sent)
        .prop_map(|(number, code, action, cut_call, sent)| Signal { number, code, action, cut_call, sent })
}

fn signal_sent() -> impl Strategy<Value = SignalSent> {
    let limit = (1..=u64::MAX, any::<u64>()).prop_map(|(cgroup, bytes)| MemoryLimit {
        cgroup: CgroupId(cgroup),
        bytes,
        is_high: false,
    });
    (any::<u32>(), any::<i32>(), tid(), select(&SentEffect::ALL[..]), option::of(limit))
        .prop_map(|(number, code, target, effect, limit)| SignalSent { number, code, target, effect, limit })
}

fn life() -> impl Strategy<Value = EventKind> {
    let thread = (identity(), option::of(blocked()), option::of(0..CALL_NONE)).prop_map(
        |(identity, blocked, number)| EventKind::Thread {
            identity,
            blocked,
            call: number.map(|number| Call { number, arg0: Call::NO_ARGUMENT, lock: None }),
        },
    );
    let moved =
        (tid(), tid(), any::<(bool, u64, u64)>()).prop_map(|(tid, tgid, (whole, cgroup, cpu_cgroup))| {
            EventKind::Move { tid, tgid, whole, cgroup: CgroupId(cgroup), cpu_cgroup: CgroupId(cpu_cgroup) }
        });
    let clocks = any::<(u64, u64, u64)>().prop_map(|(boottime_ns, realtime_ns, steal_ns)| Clocks {
        boottime_ns,
        realtime_ns,
        steal_ns,
    });
    prop_oneof![
        thread,
        identity().prop_map(|child| EventKind::Fork { child }),
        (tid(), comm(), text(127)).prop_map(|(old, comm, path)| EventKind::Exec { old, comm, path }),
        any::<u64>().prop_map(EventKind::Stolen),
        any::<u64>().prop_map(|cpu_cgroup| EventKind::Refill(CgroupId(cpu_cgroup))),
        call().prop_map(|call| {
            // Without the lock word, a snapshot describes no lock.
            EventKind::Blocked(Call { lock: call.lock.filter(|lock| lock.value.is_some()), ..call })
        }),
        Just(EventKind::Exit),
        (tid(), comm()).prop_map(|(tid, comm)| EventKind::Rename { tid, comm }),
        moved,
        flow(),
        any::<u64>().prop_map(|flow| EventKind::SocketReady(FlowId(flow))),
        (tid(), any::<u16>()).prop_map(|(target, irq)| EventKind::Waking {
            target,
            irq,
            newborn: false,
            socket: None
        }),
        block().prop_map(EventKind::BlockIssue),
        block().prop_map(EventKind::BlockComplete),
        held().prop_map(EventKind::BlockRelease),
        reclaim().prop_map(EventKind::Reclaim),
        kernel_lock().prop_map(EventKind::LockBegin),
        kernel_lock().prop_map(EventKind::LockEnd),
        stack().prop_map(EventKind::Sample),
        stack().prop_map(EventKind::Stack),
        (any::<u64>(), stack()).prop_map(|(id, stack)| EventKind::StackLater(StackId(id), stack)),
        file().prop_map(EventKind::File),
        function().prop_map(EventKind::Function),
        spin().prop_map(EventKind::Spin),
        signal().prop_map(EventKind::Signal),
        signal_sent().prop_map(EventKind::SignalSent),
        goroutine().prop_map(EventKind::Goroutine),
        (any::<u64>(), tid(), any::<u32>(), any::<u32>())
            .prop_map(|(set, tgid, fd, total)| EventKind::SetMember(SetMember { set, tgid, fd, total })),
        (any::<(u64, u64)>(), 0..LostRecords::ALL.len()).prop_map(|((from, count), records)| {
            EventKind::Loss { from: Stamp::from_ns(from), count, records: LostRecords::ALL[records] }
        }),
        clocks.prop_map(EventKind::Clocks),
        name(),
        mapping().prop_map(EventKind::Mapping),
        mark().prop_map(EventKind::Mark),
        any::<[u64; 5]>().prop_map(|[taken, repeated, checked, disagreed, doubtful]| {
            EventKind::StackCounts(StackCounts { taken, repeated, checked, disagreed, doubtful })
        }),
        kernel_cost().prop_map(EventKind::KernelCost),
        any::<[u64; 4]>().prop_map(|[taken_ns, copied, refused, unwound_ns]| {
            EventKind::UnwindCounts(UnwindCounts { taken_ns, copied, refused, unwound_ns })
        }),
    ]
}

fn kernel_cost() -> impl Strategy<Value = KernelCost> {
    // The largest number stands for an unknown number.
    let number = || 0..u64::MAX;
    let (count, cost) = (proptest::option::of(number()), (number(), proptest::option::of(number())));
    (0..CostKind::ALL.len(), count, cost).prop_map(|(kind, count, (from_ns, to_ns))| KernelCost {
        kind: CostKind::ALL[kind],
        count,
        from_ns,
        to_ns: to_ns.map(|to_ns| to_ns.max(from_ns)),
    })
}

/// Flips a bit in `bytes`.
pub fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// This number of cases, or the number in `PROPTEST_CASES`, for fuzzing at any length.
pub fn cases(default: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(default))
}
