//! A file's exported functions: all names in the kernel's code in processes, and those beside packed symbols.

use object::{Object, ObjectSymbol, SymbolKind};

/// The maximum number for functions, and for letters in a name.
const MAX: (usize, usize) = (1 << 18, 1024);

/// Functions: address, length in bytes, name.
#[derive(Debug, Default)]
pub(crate) struct Exported(Vec<(u64, u64, String)>);

impl Exported {
    /// Reads the dynamic symbols in a file's bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let image = object::File::parse(bytes).ok()?;
        let functions = image.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let functions = functions.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| name.len() <= MAX.1)?;
            Some((symbol.address(), symbol.size(), name.to_owned()))
        });
        // Two names for the same function: programs call the name that begins with underscores, and it is shown.
        let mut functions: Vec<_> = functions.take(MAX.0).collect();
        functions.sort();
        Some(Self(functions))
    }

    /// The function at an address in the file.
    pub fn function(&self, address: u64) -> Option<&str> {
        let at = |(from, length, _): &&(u64, u64, String)| address.wrapping_sub(*from) < *length;
        self.0.iter().find(at).map(|(.., name)| name.as_str())
    }
}
