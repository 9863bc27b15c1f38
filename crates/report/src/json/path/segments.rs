//! Segments and waits in a path's document.

use serde::Serialize;
use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{
    Basis, Cause, LockCause, Responsible, Rule, Segment, SignalCause, SignalSender, Wait, WaitId,
};
use wakepath_loaded::{CallKey, Stack};

use super::{Documents, WhoseJson};
use crate::json::head::since_origin;
use crate::wording;

#[derive(Serialize)]
pub struct SegmentJson<'a> {
    from_ns: i64,
    to_ns: i64,
    kind: &'static str,
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    start_ns: Option<i64>,
    cgroup: Option<String>,
    unit: Option<String>,
    id: u64,
    parent: Option<u32>,
    depth: u32,
    via: Option<&'static str>,
    call: Option<String>,
    object: Option<ObjectJson>,
    cause: Option<CauseJson<'a>>,
    basis: &'static str,
    rule: Option<&'static str>,
    error_ns: Option<u64>,
    stack: Option<Vec<String>>,
    stack_proved: Option<usize>,
}

#[derive(Serialize)]
pub struct WaitJson<'a> {
    id: u64,
    parent: Option<u32>,
    from_ns: i64,
    to_ns: i64,
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    depth: u32,
    via: Option<&'static str>,
    call: Option<String>,
    object: Option<ObjectJson>,
    ended_by: Option<WhoseJson<'a>>,
    lock: Option<LockJson<'a>>,
    timed_out: bool,
    goes_on: bool,
    basis: &'static str,
    rule: Option<&'static str>,
    stack: Option<Vec<String>>,
    stack_proved: Option<usize>,
    waker_stack: Option<Vec<String>>,
    waker_stack_proved: Option<usize>,
}

#[derive(Serialize)]
struct CauseJson<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    what: Option<String>,
    #[serde(flatten)]
    who: WhoseJson<'a>,
    at_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

#[derive(Serialize)]
struct LockJson<'a> {
    address: String,
    kernel: bool,
    owner: Option<WhoseJson<'a>>,
}

#[derive(Serialize)]
struct ObjectJson {
    #[serde(rename = "type")]
    kind: &'static str,
    name: Option<String>,
    pid: Option<u32>,
    /// The rule by which it is the object, unless it is the call's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
}

impl<'a> Documents<'a> {
    pub fn segment(&self, first: u64, number: usize, segment: &Segment) -> SegmentJson<'a> {
        let call = self.0.recorded.segment_call_key(segment);
        let who = segment.thread.map(|index| self.0.recorded.thread_at(index, segment.to));
        SegmentJson {
            from_ns: since_origin(self.head(), segment.from),
            to_ns: since_origin(self.head(), segment.to),
            kind: segment.kind.name(),
            whose: self.whose(segment.thread, segment.to),
            start_ns: who.and_then(|who| who.start).map(|start| since_origin(self.head(), start)),
            cgroup: who.as_ref().and_then(|who| self.cgroup(who)),
            unit: who.as_ref().and_then(|who| self.unit(who)),
            id: first + number as u64,
            parent: segment.parent.map(|wait| wait.0),
            depth: segment.depth,
            via: wording::via_word(segment.via),
            call: call.map(|call| call.name().into_owned()),
            object: call.and_then(|call| self.object(call)),
            cause: self.cause(segment),
            basis: wording::basis_word(segment.basis),
            rule: wording::rule_word(segment.basis),
            error_ns: self.0.recorded.clock_error(segment.thread, segment.from, segment.to),
            stack: stack(self.0.stacks.segment_stack(number)),
            stack_proved: proved(self.0.stacks.segment_stack(number)),
        }
    }

    pub fn wait(&self, id: u64, wait: &Wait) -> WaitJson<'a> {
        let call = self.0.recorded.wait_call_key(wait);
        WaitJson {
            id,
            parent: wait.parent.map(|wait| wait.0),
            from_ns: since_origin(self.head(), wait.from),
            to_ns: since_origin(self.head(), wait.to),
            whose: self.whose(Some(wait.thread), wait.to),
            depth: wait.depth,
            via: wording::via_word(wait.via),
            call: call.map(|call| call.name().into_owned()),
            object: call.and_then(|call| self.object(call)),
            ended_by: wait.ended_by.map(|by| self.whose(Some(by), wait.to)),
            lock: wait.lock.map(|lock| self.lock(lock, wait.from)),
            timed_out: wait.timed_out,
            goes_on: wait.goes_on,
            basis: wording::basis_word(wait.basis),
            rule: wording::rule_word(wait.basis),
            stack: stack(self.0.stacks.wait_stack(WaitId(id as u32))),
            stack_proved: proved(self.0.stacks.wait_stack(WaitId(id as u32))),
            waker_stack: stack(self.0.stacks.waker_stack(WaitId(id as u32))),
            waker_stack_proved: proved(self.0.stacks.waker_stack(WaitId(id as u32))),
        }
    }

    fn lock(&self, lock: LockCause, at: Stamp<Reference>) -> LockJson<'a> {
        LockJson {
            address: format!("{:#x}", lock.address),
            kernel: lock.kernel,
            owner: lock.owner.map(|owner| self.whose(Some(owner), at)),
        }
    }

    fn cause(&self, segment: &Segment) -> Option<CauseJson<'a>> {
        let responsible = Responsible::from(&segment.cause);
        let (code, what) = wording::responsible(&self.0.evidence(), responsible);
        // Released before the two had separate names.
        let kind = if responsible == Responsible::Unrecorded { "lost" } else { code? };
        let other = match responsible {
            Responsible::Competitor(other) => Some(other),
            Responsible::Lock { owner, .. } => owner,
            Responsible::Signal(SignalCause { sender: SignalSender::Thread(by), .. }) => Some(by),
            _ => None,
        };
        // A device, a timer, a packet or a signal ends the segment at its own time.
        let ends = matches!(
            segment.cause,
            Cause::Timer { .. }
                | Cause::Block { .. }
                | Cause::HeldBack { .. }
                | Cause::Network { .. }
                | Cause::SentByTimer { .. }
                | Cause::Interrupt { .. }
                | Cause::Signal(_)
        );
        let names = &self.0.recorded.survey.names;
        let flow = match segment.cause {
            Cause::Network { flow } => flow,
            Cause::SentByTimer { flow, .. } => Some(flow),
            _ => None,
        };
        Some(CauseJson {
            kind,
            what,
            who: self.whose(other, segment.to),
            at_ns: ends.then(|| since_origin(self.head(), segment.to)),
            from: flow.and_then(|flow| names.sender(flow)).map(|peer| peer.end.address.to_string()),
            to: flow.and_then(|flow| names.receiver(flow)).map(|peer| peer.end.address.to_string()),
        })
    }

    fn object(&self, call: CallKey) -> Option<ObjectJson> {
        let names = &self.0.recorded.survey.names;
        let object = names.spell(call).object?;
        let (kind, name) = wording::object_kind(&object);
        let process = names.peer(call).and_then(|peer| peer.process);
        let rule = call
            .is_of_ready_descriptor()
            .then(|| wording::rule_word(Basis::Inferred(Rule::ReadyDescriptor)))
            .flatten();
        Some(ObjectJson { kind, name, pid: process.map(|process| process.0), rule })
    }
}

/// Frames, innermost first; none if the stack is lost.
fn stack(taken: Option<&Stack>) -> Option<Vec<String>> {
    Some(taken?.frames.iter().map(wording::frame).collect())
}

/// The number of proved frames, from the first on.
fn proved(taken: Option<&Stack>) -> Option<usize> {
    Some(taken?.frames.iter().take_while(|frame| frame.proved).count())
}
