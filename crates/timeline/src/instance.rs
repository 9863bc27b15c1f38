//! An instance of an interrupt on a CPU, and its evidence for the wake-ups that it makes.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, FlowId, Tid};

use crate::{Completion, Evidence, EvidenceIndex, Received, Sent, Sink};

/// The maximum age of evidence, ns; [`Evidence`] gives the reasons.
const MAX_AGE_NS: u64 = 10_000_000;

/// The number of packets that the kernel takes from a device at once (its NAPI weight).
const MAX_FLOWS: usize = 64;

/// A stretch of a CPU's time in the same context, as far as its records distinguish it from the next.
#[derive(Debug, Default)]
pub(crate) struct Instance {
    context: Context,
    current: Tid,
    /// The last packet of each flow, in the order of arrival.
    packets: Vec<Packet>,
    ready: Option<(FlowId, Stamp<Reference>)>,
    completion: Option<Completion>,
    /// Records were lost in it, or just before its first record.
    lossy: bool,
    /// No record has come since the last loss.
    lost_last: bool,
    /// The evidence for the last wake-up, shared by wake-ups for the same packet.
    last_evidence: Option<(Evidence, EvidenceIndex)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) flow: FlowId,
    pub(crate) at: Stamp<Reference>,
    pub(crate) sent: Option<Sent>,
}

impl Instance {
    /// Whether a record in this context is in this instance. If so, the last loss is no longer the last
    /// record.
    #[inline]
    pub(crate) fn continues(&mut self, context: Context, current: Tid) -> bool {
        let continues = self.context == context && self.current == current;
        self.lost_last &= !continues;
        continues
    }

    /// Starts another instance with its first record; `behind_loss`: right after a loss.
    pub(crate) fn begin(&mut self, context: Context, current: Tid, behind_loss: bool) {
        self.end();
        (self.context, self.current) = (context, current);
        (self.lossy, self.lost_last) = (behind_loss, false);
    }

    /// Whether this is an interrupt that can interrupt a softirq and returns to it.
    pub(crate) const fn is_hard(&self) -> bool {
        Self::is_hard_context(self.context)
    }

    pub(crate) const fn is_hard_context(context: Context) -> bool {
        !matches!(
            context,
            Context::Task | Context::Softirq(_) | Context::UnknownInterrupt | Context::Unrecorded
        )
    }

    pub(crate) const fn lost_last(&self) -> bool {
        self.lost_last
    }

    /// Forgets all evidence, at a switch.
    pub(crate) fn end(&mut self) {
        self.packets.clear();
        self.ready = None;
        self.completion = None;
        self.lossy = false;
        self.last_evidence = None;
    }

    /// Notes that this CPU's records were lost.
    pub(crate) fn lose(&mut self) {
        self.end();
        self.lossy = true;
        self.lost_last = true;
    }

    pub(crate) fn receive(&mut self, packet: Packet) {
        if let Some(same) = self.packets.iter().position(|other| other.flow == packet.flow) {
            self.packets.remove(same);
        } else if self.packets.len() == MAX_FLOWS {
            self.packets.remove(0);
        }
        self.packets.push(packet);
        // The previously ready socket belongs to an earlier packet.
        if self.ready.is_some_and(|(flow, _)| flow != packet.flow) {
            self.ready = None;
        }
    }

    pub(crate) fn ready(&mut self, flow: FlowId, at: Stamp<Reference>) {
        self.ready = Some((flow, at));
    }

    pub(crate) fn complete(&mut self, completion: Completion) {
        let alone = self.completion.is_none();
        self.completion = Some(Completion { alone, ..completion });
    }

    /// The last packet of `flow` in this instance.
    pub(crate) fn packet(&self, flow: FlowId, now: Stamp<Reference>) -> Option<&Packet> {
        self.packets.iter().rev().find(|packet| packet.flow == flow && fresh(packet.at, now))
    }

    /// The evidence for a wake-up in this instance at `now`.
    pub(crate) fn evidence(&mut self, now: Stamp<Reference>, sink: &mut impl Sink) -> EvidenceIndex {
        let Some(evidence) = self.find(now) else { return EvidenceIndex::NONE };
        match self.last_evidence {
            Some((given, index)) if given == evidence => index,
            _ => {
                let index = sink.evidence(evidence);
                self.last_evidence = Some((evidence, index));
                index
            }
        }
    }

    fn find(&self, now: Stamp<Reference>) -> Option<Evidence> {
        // An instance never has two kinds of evidence: disks and packets have vectors of their own. In a
        // device's interrupt, the completion is more certain.
        if let Some(completion) = self.completion.filter(|completion| fresh(completion.at, now)) {
            return Some(Evidence::Block(completion));
        }
        if let Some((flow, _)) = self.ready.filter(|&(_, at)| fresh(at, now)) {
            // The packet may have any age: a later packet for the same socket would have replaced it. This
            // holds in a softirq only; a thread's socket may have received its packet in another context.
            let packet = match self.context {
                Context::Softirq(_) => self.packets.iter().find(|packet| packet.flow == flow),
                _ => self.packet(flow, now),
            };
            // If the socket's packet is not among the arrived packets, a record of it or of another `waking` is missing.
            let missing = self.lossy || !self.packets.is_empty();
            let (sent, doubtful) = packet.map_or((None, missing), |packet| (packet.sent, false));
            return Some(Evidence::Packet(Received { flow, sent, alone: true, named: true, doubtful }));
        }
        if let Some(&Packet { flow, sent, .. }) = self.packets.last().filter(|packet| fresh(packet.at, now)) {
            let alone = self.packets.len() == 1;
            return Some(Evidence::Packet(Received { flow, sent, alone, named: false, doubtful: false }));
        }
        self.lossy.then_some(Evidence::Doubtful)
    }
}

fn fresh(at: Stamp<Reference>, now: Stamp<Reference>) -> bool {
    now.since(at) <= MAX_AGE_NS
}
