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

    /// The function at an address in the file; of several at the nearest address, the shortest.
    pub fn function(&self, address: u64) -> Option<&str> {
        let before = &self.0[..self.0.partition_point(|(from, ..)| *from <= address)];
        let from = before.last()?.0;
        let nearest = &before[before.partition_point(|(other, ..)| *other < from)..];
        nearest.iter().find(|(_, length, _)| address - from < *length).map(|(.., name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_nearest_function_before_it_that_is_long_enough() {
        let functions = [(0x10, 4, "a"), (0x20, 4, "_b"), (0x20, 4, "b"), (0x20, 8, "long")];
        let functions = functions.map(|(from, length, name)| (from, length, name.to_owned()));
        let exported = Exported(functions.to_vec());
        for (address, name) in [
            (0xf, None),
            (0x10, Some("a")),
            (0x13, Some("a")),
            (0x14, None),
            (0x20, Some("_b")),
            (0x24, Some("long")),
            (0x28, None),
            (u64::MAX, None),
        ] {
            assert_eq!(exported.function(address), name, "{address:#x}");
        }
        assert_eq!(Exported::default().function(0), None);
    }
}
