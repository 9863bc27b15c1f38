//! The functions in the `[vdso]`: code that the kernel maps into each process, without a file. All processes in a boot
//! have the same.

use wakepath_process::Process;

use crate::exported::Exported;

/// The maximum size to read, bytes: it is two pages in Linux 6.
const MAX_BYTES: u64 = 1 << 20;

/// Reads this process's `[vdso]`, whose addresses are offsets; without functions where there is none.
pub(crate) fn this_process() -> Exported {
    read().unwrap_or_default()
}

fn read() -> Option<Exported> {
    let own = Process::own().ok()?;
    let mapping = own.mappings().ok()?.into_iter().find(|mapping| mapping.name == b"[vdso]")?;
    let length = Some(mapping.addresses.end - mapping.addresses.start).filter(|it| *it <= MAX_BYTES)?;
    let bytes = own.memory().ok()?.bytes(mapping.addresses.start, length).ok()?;
    Exported::read(&bytes)
}
