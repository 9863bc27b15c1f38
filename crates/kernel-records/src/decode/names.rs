//! A name's key: its meaning.

use wakepath_event::NameSpace;

use super::{DecodeError, Record};

pub(super) fn name_space(r: &Record<'_>) -> Result<NameSpace, DecodeError> {
    Ok(match r.u32(24) {
        1 => NameSpace::Cgroup,
        2 => NameSpace::Interrupt,
        3 => NameSpace::BlockDevice,
        4 => NameSpace::Interface,
        5 => NameSpace::CpuLimit,
        6 => NameSpace::Program,
        7 => NameSpace::CpuCgroup,
        8 => NameSpace::Target,
        9 => NameSpace::GoWait,
        10 => NameSpace::Service,
        11 => NameSpace::ServiceInstance,
        12 => NameSpace::ThreadAttribute,
        13 => NameSpace::Script,
        14 => NameSpace::FarEnd,
        15 => NameSpace::IoCgroup,
        16 => NameSpace::IoLimit,
        17 => NameSpace::MemoryCgroup,
        18 => NameSpace::Refaults,
        19 => NameSpace::Scheduling,
        20 => NameSpace::Receiver,
        21 => NameSpace::Arguments,
        other => return Err(r.bad("space", other.into())),
    })
}
