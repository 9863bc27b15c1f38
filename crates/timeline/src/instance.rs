use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, FlowId, Tid};

use crate::{Completion, Evidence, EvidenceIndex, Received, Sent, Sink};

/// See [`Evidence`] for the argument.
const MAX_NS: u64 = 10_000_000;

/// As many packets as the kernel takes from a device in one go (its NAPI weight), by flow.
const FLOWS: usize = 64;

/// One stay of a CPU in one context, as far as the records tell it from the next.
#[derive(Debug)]
pub(crate) struct Instance {
    context: Context,
    current: Tid,
    /// The last packet of each flow, the latest last.
    packets: Vec<Packet>,
    ready: Option<(FlowId, Stamp<Reference>)>,
    completion: Option<Completion>,
    /// Records were lost in it, or just before its first.
    lossy: bool,
    /// No record has followed the loss yet.
    lost_last: bool,
    /// What the last waking was given, so that wakings by the same packet share it.
    last_evidence: Option<(Evidence, EvidenceIndex)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) flow: FlowId,
    pub(crate) at: Stamp<Reference>,
    pub(crate) sent: Option<Sent>,
}

impl Default for Instance {
    fn default() -> Self {
        Self {
            context: Context::Task,
            current: Tid::IDLE,
            packets: Vec::new(),
            ready: None,
            completion: None,
            lossy: false,
            lost_last: false,
            last_evidence: None,
        }
    }
}

impl Instance {
    /// Whether a record that shows this context is of this instance; it then follows any loss.
    #[inline]
    pub(crate) fn continues(&mut self, context: Context, current: Tid) -> bool {
        let continues = self.context == context && self.current == current;
        self.lost_last &= !continues;
        continues
    }

    /// The first record of another instance, right behind a loss or not.
    pub(crate) fn begin(&mut self, context: Context, current: Tid, behind_loss: bool) {
        self.end();
        (self.context, self.current) = (context, current);
        (self.lossy, self.lost_last) = (behind_loss, false);
    }

    /// An interrupt that can come amid a softirq and hands back to it.
    pub(crate) const fn is_hard(&self) -> bool {
        Self::is_hard_context(self.context)
    }

    pub(crate) const fn is_hard_context(context: Context) -> bool {
        !matches!(context, Context::Task | Context::Softirq(_) | Context::UnknownInterrupt)
    }

    pub(crate) const fn lost_last(&self) -> bool {
        self.lost_last
    }

    /// A switch.
    pub(crate) fn end(&mut self) {
        self.packets.clear();
        self.ready = None;
        self.completion = None;
        self.lossy = false;
        self.last_evidence = None;
    }

    /// Records of this CPU were lost.
    pub(crate) fn lose(&mut self) {
        self.end();
        self.lossy = true;
        self.lost_last = true;
    }

    pub(crate) fn receive(&mut self, packet: Packet) {
        if let Some(same) = self.packets.iter().position(|other| other.flow == packet.flow) {
            self.packets.remove(same);
        } else if self.packets.len() == FLOWS {
            self.packets.remove(0);
        }
        self.packets.push(packet);
        // The socket named before was for a packet before.
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

    /// The evidence for a waking in this instance now.
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
        // Evidence of two kinds in one instance does not happen: disks and packets have vectors of
        // their own. In a device's own interrupt the completion is the better known.
        if let Some(completion) = self.completion.filter(|completion| fresh(completion.at, now)) {
            return Some(Evidence::Block(completion));
        }
        if let Some((flow, _)) = self.ready.filter(|&(_, at)| fresh(at, now)) {
            // Whenever it came: had there been a later one of that socket, it would stand here. Only in a
            // softirq, since what is ready for a thread itself may have come in another context.
            let packet = match self.context {
                Context::Softirq(_) => self.packets.iter().find(|packet| packet.flow == flow),
                _ => self.packet(flow, now),
            };
            let (sent, doubtful) = packet.map_or((None, self.lossy), |packet| (packet.sent, false));
            return Some(Evidence::Packet(Received { flow, sent, alone: true, doubtful }));
        }
        if let Some(&Packet { flow, sent, .. }) = self.packets.last().filter(|packet| fresh(packet.at, now)) {
            let alone = self.packets.len() == 1;
            return Some(Evidence::Packet(Received { flow, sent, alone, doubtful: false }));
        }
        self.lossy.then_some(Evidence::Doubtful)
    }
}

fn fresh(at: Stamp<Reference>, now: Stamp<Reference>) -> bool {
    now.since(at) <= MAX_NS
}
