//! Where a kernel keeps what a hypervisor takes of each CPU: `bpf/steal.bpf.h`.

use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::btf::{Btf, TypeId};

use crate::clocks;
use crate::programs::has_function;

/// What the kernel tells of time that a hypervisor took.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// So much since the machine booted, on all its CPUs, ns, and of each CPU when.
    When { steal_ns: u64 },
    /// So much, and not when.
    Sum { steal_ns: u64 },
    /// Nothing was taken, or nobody says so.
    Nothing,
}

pub(crate) fn told(kernel: &Btf<'_>) -> Told {
    let steal_ns = clocks::together().1.steal_ns;
    match behind_run_queue(kernel) {
        _ if steal_ns == 0 => Told::Nothing,
        // It reads where no type says that there is something to read.
        Some(_) if has_function(kernel, "bpf_rdonly_cast") => Told::When { steal_ns },
        _ => Told::Sum { steal_ns },
    }
}

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
