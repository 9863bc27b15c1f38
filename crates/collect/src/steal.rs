//! The time that a hypervisor took from each CPU, and where the kernel keeps it: `bpf/steal.bpf.h`.

use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::btf::{Btf, TypeId};

use crate::clocks;
use crate::libbpf::has_function;

/// The kernel's account of the CPU time that a hypervisor took from this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StealTime {
    /// All CPUs' total since boot, ns; the kernel also reports for each CPU when it was taken.
    WithMoments { total_ns: u64 },
    /// The total alone.
    Total { total_ns: u64 },
    /// Nothing was taken, or the hypervisor does not report it.
    None,
}

/// This kernel's report on stolen time.
pub(crate) fn steal_time(kernel: &Btf<'_>) -> StealTime {
    let total_ns = clocks::together().1.steal_ns;
    match offset_from_run_queue(kernel) {
        _ if total_ns == 0 => StealTime::None,
        // The program reads memory without a known type.
        Some(_) if has_function(kernel, "bpf_rdonly_cast") => StealTime::WithMoments { total_ns },
        _ => StealTime::Total { total_ns },
    }
}

/// The distance from a CPU's run queue to KVM's stolen-time counter for this CPU, bytes. `None` where no time was
/// ever taken (there is no hypervisor, or it does not report it), and where the kernel does not describe its place.
pub(crate) fn offset_from_run_queue(kernel: &Btf<'_>) -> Option<i64> {
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
