//! Reclaims of memory over a path.

use serde::Serialize;
use wakepath_engine::Reclaims;

use super::{Documents, findings};
use crate::wording;

/// The reclaims for the same limit.
#[derive(Serialize)]
pub struct ReclaimsJson {
    /// The unit or container with the limit.
    unit: Option<String>,
    /// The limit, bytes.
    limit_bytes: Option<u64>,
    /// The limit's file in v2.
    limit: Option<&'static str>,
    /// The path's time in these reclaims.
    total_ns: u64,
    share: f64,
    /// Their number.
    count: u64,
    pages: u64,
    /// Pages that were read again after they had been dropped, in the whole cgroup.
    pages_read_again: Option<u64>,
    /// The path's time in waits for reads of such pages.
    read_again_ns: Option<u64>,
    basis: &'static str,
}

impl Documents<'_> {
    /// All reclaims.
    pub fn reclaims(&self) -> Vec<ReclaimsJson> {
        self.0.reclaims.iter().map(|reclaims| self.reclaims_by_limit(reclaims)).collect()
    }

    fn reclaims_by_limit(&self, reclaims: &Reclaims) -> ReclaimsJson {
        ReclaimsJson {
            unit: reclaims.unit.as_ref().map(wording::unit),
            limit_bytes: reclaims.limit.map(|limit| limit.bytes),
            limit: reclaims.limit.map(|limit| if limit.is_high { "memory.high" } else { "memory.max" }),
            total_ns: reclaims.total_ns,
            share: findings::share(reclaims.total_ns, self.0.window_ns()),
            count: reclaims.count,
            pages: reclaims.pages,
            pages_read_again: reclaims.read_again,
            read_again_ns: reclaims.read_again_ns,
            basis: "inferred",
        }
    }
}
