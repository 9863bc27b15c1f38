//! The functions in the `[vdso]`: code that the kernel maps into each process, without a file. All processes in a boot
//! have the same.

use object::{Object, ObjectSymbol, SymbolKind};
use wakepath_process::Process;

/// The maximum size to read, bytes: it is two pages in Linux 6.
const MAX_BYTES: u64 = 1 << 20;

/// The functions of this boot's `[vdso]`: offset, length in bytes, name.
#[derive(Debug, Default)]
pub(crate) struct Vdso(Vec<(u64, u64, String)>);

impl Vdso {
    /// Reads this process's `[vdso]`; without functions where there is none.
    pub(crate) fn from_this_process() -> Self {
        Self::read().unwrap_or_default()
    }

    fn read() -> Option<Self> {
        let own = Process::own().ok()?;
        let mapping = own.mappings().ok()?.into_iter().find(|mapping| mapping.name == b"[vdso]")?;
        let length = Some(mapping.addresses.end - mapping.addresses.start).filter(|it| *it <= MAX_BYTES)?;
        let bytes = own.memory().ok()?.bytes(mapping.addresses.start, length).ok()?;
        let image = object::File::parse(&*bytes).ok()?;
        let functions = image.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let functions = functions
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())));
        // Two names for the same function: programs call the name that begins with underscores, and it is shown.
        let mut functions: Vec<_> = functions.collect();
        functions.sort();
        Some(Self(functions))
    }

    /// The function at an offset in the image.
    pub(crate) fn function(&self, offset: u64) -> Option<&str> {
        let at = |(from, length, _): &&(u64, u64, String)| offset.wrapping_sub(*from) < *length;
        self.0.iter().find(at).map(|(.., name)| name.as_str())
    }
}
