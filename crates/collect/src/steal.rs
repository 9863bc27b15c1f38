//! Where a kernel keeps what a hypervisor takes of each CPU: `bpf/steal.bpf.h`.

use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::btf::{Btf, TypeId};

use crate::clocks;

/// How far KVM's count of a CPU's steal time lies from that CPU's run queue, bytes. `None` where nothing was
/// ever taken from this machine: it has no hypervisor, or one that does not say; and where the kernel does
/// not say where it is.
pub(crate) fn behind_run_queue(kernel: &Btf<'_>) -> Option<i64> {
    if clocks::together().1.steal_ns == 0 {
        return None;
    }
    let by_cpu = kernel.type_by_name::<DataSec<'_>>(".data..percpu")?;
    let place = |name: &str| -> Option<i64> {
        let variable: TypeId = kernel.type_by_name::<Var<'_>>(name)?.type_id();
        by_cpu.iter().find(|found| found.ty == variable).map(|found| i64::from(found.offset))
    };
    Some(place("steal_time")? - place("runqueues")?)
}
