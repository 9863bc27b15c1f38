use std::collections::HashSet;

use foldhash::fast::FixedState;

use crate::plan::{Kind, Plan};
use crate::tracepoint::Tracepoint;

/// Which packets are on their way within the host.
///
/// The kernel's tracepoints tell no addresses. On the loopback, what is received is the buffer that was sent,
/// and no other of that address is on its way: there it stands for the packet and for its flow. Of other
/// interfaces' packets nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    /// Buffers of packets that came by the loopback last.
    buffers: HashSet<u64, FixedState>,
}

/// A tracepoint's fields make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// Most buffers: the kernel uses the same few again.
const MAX_PACKETS: usize = 1 << 16;

impl Loopback {
    /// What a tracepoint tells, with packets known by their buffers; `None` where it tells nothing by itself.
    pub fn read<'a>(&mut self, plan: &Plan, raw: &'a [u8]) -> Result<Option<Tracepoint<'a>>, Nonsense> {
        match plan.kind {
            Kind::NewTask => return Ok(None),
            Kind::PacketOut | Kind::PacketIn => {
                let (buffer, interface) = plan.packet(raw).ok_or(Nonsense)?;
                return Ok(self.packet(buffer, interface, plan.kind == Kind::PacketOut));
            }
            Kind::Received => {
                if let Some(socket) = plan.received(raw).filter(|buffer| self.buffers.contains(buffer)) {
                    return Ok(Some(Tracepoint::SocketReceived { socket }));
                }
            }
            _ => {}
        }
        let what = plan.read(raw).ok_or(Nonsense)?;
        // Of a packet that is known, only its buffer leads to it.
        let known =
            matches!(what, Tracepoint::Received(flow) if flow.is_within_host()) && !self.buffers.is_empty();
        Ok((!known).then_some(what))
    }

    fn packet(&mut self, buffer: u64, interface: &[u8], out: bool) -> Option<Tracepoint<'static>> {
        if interface != b"lo" {
            self.buffers.remove(&buffer);
            return None;
        }
        if !out && self.buffers.len() < MAX_PACKETS {
            self.buffers.insert(buffer);
        }
        let (seq, ack) = (buffer as u32, (buffer >> 32) as u32);
        Some(Tracepoint::SocketPacket { socket: buffer, out, seq, ack, flags: 0 })
    }
}
