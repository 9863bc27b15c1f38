//! Records about cgroups' limits.

use wakepath_clock::Stamp;
use wakepath_event::{CgroupId, HeldRequest, MemoryLimit, Reclaim};

use super::{DecodeError, Record};
use crate::layout::{MEMORY_HIGH, MEMORY_MAX, MEMORY_UNKNOWN};

pub(super) fn held(r: &Record<'_>) -> Result<HeldRequest, DecodeError> {
    Ok(HeldRequest {
        cgroup: CgroupId(r.u64(24)),
        device: r.u32(32),
        sector: r.u64(16),
        bytes: r.u32(36),
        operation: u8::try_from(r.u32(40)).map_err(|_| r.bad("operation", r.u32(40).into()))?,
    })
}

pub(super) fn reclaim(r: &Record<'_>) -> Result<Reclaim, DecodeError> {
    let limit = |is_high| MemoryLimit { cgroup: CgroupId(r.u64(24)), bytes: r.u64(32), is_high };
    let limit = match r.u32(44) {
        MEMORY_UNKNOWN => None,
        MEMORY_MAX => Some(limit(false)),
        MEMORY_HIGH => Some(limit(true)),
        other => return Err(r.bad("by", other.into())),
    };
    Ok(Reclaim { from: Stamp::from_ns(r.u64(16)), limit, pages: r.u32(40) })
}
