//! Signals, taken and sent.

use wakepath_clock::Stamp;
use wakepath_event::{CgroupId, MemoryLimit, SentEffect, Signal, SignalAction, SignalSent, Tid};

use super::{DecodeError, Record};
use crate::layout::CALL_NONE;

pub(super) fn signal(r: &Record<'_>) -> Result<Signal, DecodeError> {
    Ok(Signal {
        number: r.u32(16),
        code: r.u32(20) as i32,
        action: match SignalAction::ALL.get(r.u32(24) as usize) {
            Some(&action) => action,
            None => return Err(r.bad("action", r.u32(24).into())),
        },
        cut_call: (r.u32(28) != CALL_NONE).then_some(r.u32(28)),
        sent: (r.u64(32) != 0).then(|| (Stamp::from_ns(r.u64(32)), Tid(r.u32(40)))),
    })
}

pub(super) fn sent(r: &Record<'_>) -> Result<SignalSent, DecodeError> {
    let cgroup = CgroupId(r.u64(32));
    Ok(SignalSent {
        number: r.u32(16),
        code: r.u32(20) as i32,
        target: Tid(r.u32(24)),
        effect: match SentEffect::ALL.get(r.u32(28) as usize) {
            Some(&effect) => effect,
            None => return Err(r.bad("effect", r.u32(28).into())),
        },
        limit: (cgroup.0 != 0).then(|| MemoryLimit { cgroup, bytes: r.u64(40), is_high: false }),
    })
}
