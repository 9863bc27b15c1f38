//! Packets within the host, matched by their buffers.

use std::collections::HashSet;

use foldhash::fast::FixedState;

use crate::kind::Kind;
use crate::plan::Plan;
use crate::tracepoint::Tracepoint;

/// The packets on their way within the host.
///
/// The kernel's tracepoints hold no host addresses. On the loopback the received buffer is the sent buffer, and no
/// other buffer on its way has its address: there the buffer identifies the packet and its flow. Packets on other
/// interfaces are unknown.
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    /// The buffers of the loopback's last packets.
    buffers: HashSet<u64, FixedState>,
}

/// A tracepoint's fields make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidFields;

/// The kernel reuses the same few buffers.
const MAX_PACKETS: usize = 1 << 16;

impl Loopback {
    /// Reads a tracepoint, with packets identified by buffers; `None` if it has no meaning by itself.
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
        // A known packet is found by its buffer only.
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
