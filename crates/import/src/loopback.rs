//! Packets within the host, matched by their buffers.

use std::collections::HashSet;

use foldhash::fast::FixedState;

use crate::kind::Kind;
use crate::plan::Plan;
use crate::tracepoint::Tracepoint;

/// The packets that are on their way within the host.
///
/// The kernel's tracepoints hold no addresses of hosts. On the loopback the received buffer is the one that was
/// sent, and no other buffer of that address is on its way: there the buffer stands for the packet and for its
/// flow. Packets of other interfaces are not known.
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    /// Buffers of the packets that the loopback carried last.
    buffers: HashSet<u64, FixedState>,
}

/// The fields of a tracepoint make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidFields;

/// The kernel uses the same few buffers again and again.
const MAX_PACKETS: usize = 1 << 16;

impl Loopback {
    /// Reads a tracepoint, with packets known by their buffers; `None` where it means nothing by itself.
    pub fn read<'a>(&mut self, plan: &Plan, raw: &'a [u8]) -> Result<Option<Tracepoint<'a>>, InvalidFields> {
        match plan.kind {
            Kind::NewTask => return Ok(None),
            Kind::PacketOut | Kind::PacketIn => {
                let (buffer, interface) = plan.packet(raw).ok_or(InvalidFields)?;
                return Ok(self.packet(buffer, interface, plan.kind == Kind::PacketOut));
            }
            Kind::Received => {
                if let Some(socket) = plan.received(raw).filter(|buffer| self.buffers.contains(buffer)) {
                    return Ok(Some(Tracepoint::SocketReceived { socket }));
                }
            }
            _ => {}
        }
        let what = plan.read(raw).ok_or(InvalidFields)?;
        // A packet that is known is found by its buffer alone.
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
