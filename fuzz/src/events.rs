//! Events from few bytes: small numbers, so that equal numbers occur, and sometimes a wild number.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    Attempt, AttemptObject, BlockRequest, BlockedState, Call, CallEnd, CgroupId, Clocks, Comm, Context,
    CostKind, Cpu, Direction, Event, EventKind, FailedCall, FileName, Flow, FlowId, FunctionCall, GoStep,
    GoroutineStep, HeldRequest, KernelCost, KernelLock, LockWord, LostRecords, Mapping, Mark, MemoryLimit,
    NameSpace, Packet, Reclaim, SentEffect, SetMember, Signal, SignalAction, SignalSent, Softirq, Spin,
    Stack, StackCounts, StackId, SwitchOut, ThreadAttribute, ThreadContext, ThreadIdentity, Tid,
    UnwindCounts,
};

/// Bytes, taken one by one; 0 behind their end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// A number below `n`.
    fn below(&mut self, n: u8) -> u8 {
        self.next() % n
    }

    fn tid(&mut self) -> Tid {
        match self.next() {
            255 => Tid(u32::MAX),
            254 => Tid(1 << 22),
            253 => Tid(100_000),
            small => Tid(u32::from(small % 8)),
        }
    }

    fn cpu(&mut self) -> Cpu {
        match self.next() {
            255 => Cpu::UNKNOWN,
            254 => Cpu(4095),
            small => Cpu(u16::from(small % 3)),
        }
    }

    fn context(&mut self) -> Context {
        let [_task, interrupts @ ..] = Context::OTHERS;
        match self.next() {
            0..=127 => Context::Task,
            byte @ 128..=191 => Context::Softirq(Softirq::ALL[usize::from(byte) % Softirq::ALL.len()]),
            byte => interrupts[usize::from(byte) % interrupts.len()],
        }
    }

    /// A stamp near `at`, mostly not before it.
    fn near(&mut self, at: u64) -> u64 {
        match self.next() {
            255 => u64::MAX,
            254 => 0,
            253 => at.saturating_add(1 << 40),
            byte @ 240..=252 => at.saturating_sub(u64::from(byte) - 239),
            byte @ 200..=239 => at.saturating_add(1 << (byte - 199)),
            byte => at.saturating_add(u64::from(byte)),
        }
    }

    fn stamp(&mut self, at: u64) -> Stamp<Local> {
        Stamp::from_ns(self.near(at))
    }

    fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.next() & 1 == 1).then(|| some(self))
    }

    fn blocked(&mut self) -> BlockedState {
        let known = usize::from(self.below(9));
        BlockedState::KNOWN.get(known).copied().unwrap_or(BlockedState::Other(77))
    }

    fn out(&mut self) -> SwitchOut {
        match self.below(8) {
            0 => SwitchOut::Runnable,
            1 => SwitchOut::Throttled,
            2 => SwitchOut::Dead,
            _ => SwitchOut::Blocked(self.blocked()),
        }
    }

    fn call(&mut self) -> Call {
        // read, ppoll, futex, clock_nanosleep, epoll_wait and futex_waitv have their own argument
        // readers.
        const NUMBERS: [u32; 8] = [202, 0, 7, 230, 232, 271, 449, 999];
        Call {
            number: NUMBERS[usize::from(self.below(8))],
            arg0: u64::from(self.below(4)) << 2,
            lock: self.maybe(|bytes| LockWord {
                operation: u32::from(bytes.next()),
                value: bytes.maybe(|bytes| u32::from(bytes.below(8))),
                claimed_owner: bytes.maybe(Self::tid),
            }),
        }
    }

    fn identity(&mut self, at: u64) -> ThreadIdentity {
        ThreadIdentity {
            tid: self.tid(),
            tgid: self.tid(),
            parent: self.tid(),
            ns_tid: self.tid(),
            ns_tgid: self.tid(),
            start: self.stamp(at),
            cgroup: CgroupId(u64::from(self.below(3))),
            cpu_cgroup: CgroupId(u64::from(self.below(3))),
            kernel: self.below(4) == 1,
            comm: self.comm(),
        }
    }

    fn comm(&mut self) -> Comm {
        const NAMES: [&[u8]; 4] = [b"a", b"ksoftirqd/0", b"", b"kworker/1:2"];
        match self.below(8) {
            known @ 0..4 => Comm::new(NAMES[usize::from(known)]),
            _ => Comm::new(&self.text()),
        }
    }

    /// Bytes unchanged from the input.
    fn text(&mut self) -> Box<[u8]> {
        let length = self.below(32);
        (0..length).map(|_| self.next()).collect()
    }

    fn name(&mut self) -> EventKind {
        let (space, key) =
            (NameSpace::ALL[usize::from(self.below(NameSpace::ALL.len() as u8))], u64::from(self.below(8)));
        const LIMITS: [&[u8]; 3] = [b"50000 100000", b"/docker/", b"/a.service/b"];
        let text = match self.below(8) {
            known @ 0..3 => LIMITS[usize::from(known)].into(),
            _ => self.text(),
        };
        EventKind::Name(space, key, text)
    }

    fn file(&mut self) -> FileName {
        const MODES: [u32; 4] = [0, 0o010_000, 0o140_000, 0o100_000];
        FileName {
            tgid: self.tid(),
            fd: u32::from(self.below(4)) << 2,
            mode: MODES[usize::from(self.below(4))],
            inode: 0,
            flow: self.maybe(Self::flow),
            name: self.text(),
        }
    }

    /// A number of any size, mostly small.
    fn wild(&mut self) -> u64 {
        u64::from(self.next()).wrapping_mul(1 << (self.next() & 63))
    }

    fn mapping(&mut self) -> Mapping {
        let from = u64::from(self.below(4));
        Mapping {
            tgid: self.tid(),
            from,
            to: from.saturating_add(self.wild()),
            offset: self.wild(),
            build_id: self.text(),
            path: self.text(),
        }
    }

    fn mark(&mut self) -> Mark {
        match self.below(6) {
            0 => Mark::Started,
            1 => Mark::Stopped,
            2 => Mark::Command { tgid: self.tid(), words: self.text() },
            3 => Mark::Target(self.tid()),
            4 => Mark::Observer(self.tid()),
            _ => Mark::Ended(u32::from(self.next()) << 8 | u32::from(self.next())),
        }
    }

    fn flow(&mut self) -> FlowId {
        FlowId(u64::from(self.below(4)))
    }

    fn addresses(&mut self) -> Flow {
        let mut end = || ([127, 0, 0, 1], u16::from(self.below(4))).into();
        let (source, target) = (end(), end());
        Flow { source, target, protocol: if self.below(2) == 0 { 6 } else { 17 } }
    }

    fn packet(&mut self) -> Packet {
        Packet {
            flow: self.flow(),
            direction: if self.below(2) == 0 { Direction::Out } else { Direction::In },
            seq: u32::from(self.below(4)),
            ack: u32::from(self.below(4)),
            len: u32::from(self.below(4)),
            tcp_flags: u16::from(self.next()),
            netns: u32::from(self.below(2)),
            interface: u32::from(self.below(2)),
        }
    }

    fn request(&mut self, at: u64) -> BlockRequest {
        BlockRequest {
            id: u64::from(self.below(4)),
            device: u32::from(self.below(2)),
            sector: u64::from(self.below(2)),
            bytes: 4096,
            operation: self.below(4),
            start: self.maybe(|bytes| bytes.stamp(at)),
            issued: self.maybe(|bytes| bytes.stamp(at)),
        }
    }

    fn held(&mut self) -> HeldRequest {
        HeldRequest {
            cgroup: CgroupId(u64::from(self.below(3))),
            device: u32::from(self.below(2)),
            sector: u64::from(self.below(2)),
            bytes: 4096,
            operation: self.below(4),
        }
    }

    fn reclaim(&mut self, at: u64) -> Reclaim {
        Reclaim {
            from: self.stamp(at),
            limit: self.maybe(|bytes| MemoryLimit {
                cgroup: CgroupId(u64::from(bytes.below(3))),
                bytes: u64::from(bytes.below(3)) << 20,
                is_high: bytes.below(2) == 1,
            }),
            pages: u32::from(self.next()),
        }
    }

    fn lock(&mut self) -> KernelLock {
        KernelLock {
            address: u64::from(self.below(4)),
            flags: u32::from(self.next()),
            owner: self.maybe(Self::tid),
        }
    }

    fn stack(&mut self) -> Stack {
        let (kernel, user) = (self.below(4), self.below(4));
        let frames = |n: u8| (0..u64::from(n)).collect();
        Stack {
            tgid: self.tid(),
            kernel: frames(kernel),
            user: frames(user),
            scanned: u16::from(self.below(user.max(1))),
            proved: u16::from(user / 2),
        }
    }

    fn signal(&mut self, at: u64) -> EventKind {
        if self.below(3) == 0 {
            return EventKind::SignalSent(SignalSent {
                number: u32::from(self.below(32)),
                code: i32::from(self.next()),
                target: self.tid(),
                effect: SentEffect::ALL[usize::from(self.below(5))],
                limit: self.maybe(|bytes| MemoryLimit {
                    cgroup: CgroupId(1 + u64::from(bytes.below(2))),
                    bytes: u64::from(bytes.below(3)) << 20,
                    is_high: false,
                }),
            });
        }
        EventKind::Signal(Signal {
            number: u32::from(self.below(32)),
            code: i32::from(self.next()),
            action: SignalAction::ALL[usize::from(self.below(4))],
            cut_call: self.maybe(|bytes| u32::from(bytes.next())),
            sent: self.maybe(|bytes| (bytes.stamp(at), bytes.tid())),
        })
    }

    fn goroutine(&mut self) -> GoroutineStep {
        let number = |bytes: &mut Self| u64::from(bytes.below(4));
        let step = match self.below(6) {
            0 => GoStep::Parks(self.below(4)),
            1 => GoStep::Ready(number(self)),
            2 => GoStep::Runs(number(self)),
            3 => GoStep::Yields,
            4 => GoStep::Ends,
            _ => GoStep::BeginsSpan([self.below(4); 16], [self.below(4); 8]),
        };
        let began_in =
            if matches!(step, GoStep::Parks(_) | GoStep::Yields | GoStep::Ends) { self.wild() } else { 0 };
        GoroutineStep {
            tgid: self.tid(),
            program: self.below(2).into(),
            goroutine: number(self),
            began_in,
            step,
        }
    }

    fn failure(&mut self, at: u64) -> EventKind {
        let (call, error) = (self.call().number, u32::from(self.below(40)));
        if self.below(4) == 0 {
            return EventKind::Spin(Spin { call, error, from: self.stamp(at), count: self.wild() });
        }
        let object = match self.below(9) {
            0 => AttemptObject::None,
            1 => AttemptObject::Path(self.text()),
            2 => AttemptObject::PathEnd(self.text()),
            3 => AttemptObject::Address(([127, 0, 0, self.below(3)], 80).into()),
            4 => AttemptObject::Address(([0, 0, 0, 0, 0, 0, 0, u16::from(self.below(3))], 80).into()),
            5 => AttemptObject::Unix(self.text()),
            6 => AttemptObject::Process(i32::from(self.below(4)) - 1),
            7 => AttemptObject::File(self.text()),
            _ => AttemptObject::Unreadable,
        };
        let holder = self.maybe(Self::tid).filter(|holder| *holder != Tid::IDLE);
        let attempt = Attempt { call, error, operation: u32::from(self.below(8)), holder, object };
        let (tries, later) = (u32::from(self.below(3)), u32::from(self.below(40)));
        EventKind::FailedCall(Box::new(FailedCall { attempt, tries, later }))
    }

    fn member(&mut self) -> SetMember {
        let set = u64::from(self.below(2)) << 63 | u64::from(self.below(3));
        SetMember {
            set,
            tgid: self.tid(),
            fd: u32::from(self.below(4)) << 2,
            total: u32::from(self.below(18)),
        }
    }

    fn what(&mut self, at: u64) -> EventKind {
        match self.below(48) {
            0..=9 => EventKind::Switch {
                next: self.tid(),
                out: self.out(),
                interrupts_ns: u32::from(self.next()),
                call: self.maybe(Self::call),
            },
            10..=17 => EventKind::Waking {
                target: self.tid(),
                irq: u16::from(self.below(4)),
                newborn: self.below(8) == 1,
                socket: self.maybe(Self::flow),
            },
            18 if self.below(2) == 0 => EventKind::Current,
            18 if self.below(4) == 0 => EventKind::ThreadContext(match self.below(4) {
                0 => ThreadContext::None,
                1 => ThreadContext::Unknown,
                id => ThreadContext::Span { trace: [id; 16], span: [self.below(4); 8], flags: self.below(2) },
            }),
            18 if self.below(3) == 0 => {
                let (key, value) = (self.below(4), self.text());
                EventKind::ThreadAttribute(ThreadAttribute { key, length: value.len() as u8, value })
            }
            18 if self.below(2) == 0 => EventKind::Ready {
                target: self.tid(),
                fd: self.maybe(|bytes| u32::from(bytes.below(4)) << 2),
            },
            18 => EventKind::Migrate { target: self.tid(), from: self.cpu(), to: self.cpu() },
            19 | 20 => EventKind::Thread {
                identity: self.identity(at),
                blocked: self.maybe(Self::blocked),
                call: self.maybe(Self::call),
            },
            21 | 22 => EventKind::Fork { child: self.identity(at) },
            23 => EventKind::Exec { old: self.tid(), comm: self.comm(), path: self.text() },
            24 => EventKind::Exit,
            25 => EventKind::Rename { tid: self.tid(), comm: self.comm() },
            26 => EventKind::Move {
                tid: self.tid(),
                tgid: self.tid(),
                whole: self.below(2) == 1,
                cgroup: CgroupId(u64::from(self.below(3))),
                cpu_cgroup: CgroupId(u64::from(self.below(3))),
            },
            27 => EventKind::Blocked(self.call()),
            28 if self.below(4) == 1 => EventKind::Reclaim(self.reclaim(at)),
            28 if self.below(2) == 1 => EventKind::BlockRelease(self.held()),
            28 => EventKind::Refill(CgroupId(u64::from(self.below(3)))),
            29 | 30 => EventKind::Packet(self.packet()),
            31 => EventKind::SocketReady(self.flow()),
            32 => EventKind::Flow(self.flow(), self.addresses()),
            33 => EventKind::BlockIssue(self.request(at)),
            34 => EventKind::BlockComplete(self.request(at)),
            35 => EventKind::LockBegin(self.lock()),
            36 => EventKind::LockEnd(self.lock()),
            37 => {
                let stack = self.stack();
                match self.below(5) {
                    0 => EventKind::Sample(stack),
                    1 => EventKind::Stack(stack),
                    2 => EventKind::StackOf(stack.id()),
                    3 => EventKind::StackLater(StackId(u64::from(self.next())), stack),
                    _ => EventKind::StackOf(StackId(u64::from(self.next()))),
                }
            }
            38 if self.below(4) == 0 => EventKind::Unrecorded,
            38 => EventKind::Loss {
                from: self.stamp(at),
                count: u64::from(self.below(4)),
                records: LostRecords::ALL[usize::from(self.below(LostRecords::ALL.len() as u8))],
            },
            39 | 40 => EventKind::Mark(self.mark()),
            41 | 42 => self.name(),
            43 if self.below(2) == 0 => EventKind::File(self.file()),
            43 if self.below(2) == 0 => EventKind::SetMember(self.member()),
            43 => EventKind::Function(FunctionCall {
                target: self.below(3).into(),
                thread: self.tid(),
                from: self.stamp(at),
                end: [CallEnd::Returned, CallEnd::Unwound, CallEnd::Open, CallEnd::Stayed, CallEnd::Moved]
                    [usize::from(self.below(5))],
            }),
            44 if self.below(2) == 0 => self.signal(at),
            44 => EventKind::Mapping(self.mapping()),
            45 if self.below(2) == 0 => EventKind::Goroutine(self.goroutine()),
            45 if self.below(2) == 0 => EventKind::UnwindCounts(UnwindCounts {
                taken_ns: self.wild(),
                copied: self.wild(),
                refused: self.wild(),
                unwound_ns: self.wild(),
            }),
            45 => EventKind::StackCounts(StackCounts {
                taken: self.wild(),
                repeated: self.wild(),
                checked: self.wild(),
                disagreed: self.wild(),
                doubtful: self.wild(),
            }),
            46 if self.below(2) == 0 => EventKind::KernelCost(KernelCost {
                kind: CostKind::ALL[usize::from(self.below(CostKind::ALL.len() as u8))],
                count: Some(self.wild()).filter(|&count| count != u64::MAX),
                from_ns: self.wild() / 2,
                to_ns: Some(u64::MAX / 2),
            }),
            46 if self.below(3) == 0 => self.failure(at),
            46 => EventKind::Stolen(if self.below(2) == 0 { u64::from(self.next()) } else { self.wild() }),
            _ => EventKind::Clocks(Clocks {
                boottime_ns: self.near(at),
                realtime_ns: self.wild(),
                steal_ns: self.wild(),
            }),
        }
    }
}

/// The events in `bytes`, one behind the other.
pub fn events(bytes: &[u8]) -> Vec<Event> {
    let mut bytes = Bytes(bytes.iter());
    let (mut events, mut at) = (Vec::new(), 1000);
    while !bytes.0.as_slice().is_empty() {
        at = bytes.near(at);
        events.push(Event {
            at: Stamp::from_ns(at),
            cpu: bytes.cpu(),
            context: bytes.context(),
            current: bytes.tid(),
            kind: bytes.what(at),
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wakepath_kernel_records::Encoder;
    use wakepath_kernel_records::layout::{every_form, forms_of};

    use super::*;

    #[test]
    fn bytes_make_events_of_every_kind_of_record_and_with_every_named_value() {
        let encoder = Encoder::for_release("6.18.0");
        let (mut random, mut forms) = (0x9e37_79b9_7f4a_7c15_u64, BTreeSet::new());
        for _ in 0..20_000 {
            let mut bytes = [0; 64];
            for byte in &mut bytes {
                // xorshift64 (Marsaglia 2003).
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                *byte = (random >> 32) as u8;
            }
            for event in events(&bytes) {
                let mut record = Vec::new();
                // A text that is too long for its field has no record.
                if encoder.encode(&event, 0, &mut record).is_ok() {
                    forms.extend(forms_of(&record).expect("a record"));
                }
            }
        }
        let missing: Vec<_> = every_form().difference(&forms).copied().collect();
        assert!(missing.is_empty(), "no fuzzing makes such records: {missing:?}");
    }
}
