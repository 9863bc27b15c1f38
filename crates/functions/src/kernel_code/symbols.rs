//! The kernel functions' names in `/proc/kallsyms`, and the functions that may not be probed.

use std::collections::HashMap;
use std::ops::Range;

/// Kernel code where a probe would be reached again while it is handled: the first and last symbols.
const ENTRY_CODE: [(&str, &str); 4] = [
    ("__noinstr_text_start", "__noinstr_text_end"),
    ("__entry_text_start", "__entry_text_end"),
    ("__kprobes_text_start", "__kprobes_text_end"),
    ("__cpuidle_text_start", "__cpuidle_text_end"),
];

/// The name prefix of the kernel's entries for functions that may not be probed (`NOKPROBE_SYMBOL`).
const BLACKLISTED: &str = "_kbl_addr_";

/// The maximum size of a module's last function, bytes: nothing states its end.
const MAX_LAST_BYTES: u64 = 4096;

/// A function by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub name: &'a str,
    pub module: Option<&'a str>,
    /// Behind its last byte: where the next function begins. The kernel does not state sizes.
    pub end: u64,
}

#[derive(Debug)]
struct Symbol {
    address: u64,
    name: Range<u32>,
    /// Empty: the kernel itself.
    module: Range<u32>,
    global: bool,
}

/// The functions in the kernel and its modules, by address and by name.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    text: String,
    /// By address; several symbols may share an address.
    all: Vec<Symbol>,
    /// The indices of the seldom run parts of functions.
    cold: Vec<usize>,
    data: HashMap<String, u64>,
    entry_code: Vec<Range<u64>>,
    blacklist: Vec<Range<u64>>,
}

impl Symbols {
    /// Reads the text of `/proc/kallsyms`, and the list of code that may not be probed, empty where it cannot be read.
    pub fn new(text: String, blacklist: &str) -> Self {
        let (mut all, mut data, mut listed) = (Vec::new(), HashMap::new(), Vec::new());
        let mut marks: HashMap<&str, u64> = HashMap::new();
        let place = |part: &str| {
            let from = part.as_ptr() as usize - text.as_ptr() as usize;
            from as u32..(from + part.len()) as u32
        };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address @ 1..), Some(kind), Some(name)) = (address, words.next(), words.next()) else {
                continue;
            };
            if ENTRY_CODE.iter().any(|(from, to)| name == *from || name == *to) {
                marks.insert(name, address);
            } else if matches!(kind, "t" | "T" | "w" | "W") {
                let module = words.next().map_or("", |module| module.trim_matches(['[', ']']));
                let (name, module) = (place(name), place_or_empty(module, place));
                all.push(Symbol { address, name, module, global: kind != "t" });
            } else if let Some(name) = name.strip_prefix(BLACKLISTED) {
                listed.push(name.to_owned());
            } else if name == "sys_call_table" {
                data.insert(name.to_owned(), address);
            }
        }
        let range = |(from, to): &(&str, &str)| Some(*marks.get(from)?..*marks.get(to)?);
        let entry_code = ENTRY_CODE.iter().filter_map(range).collect();
        all.sort_by_key(|symbol| symbol.address);
        let mut found = Self { all, data, entry_code, ..Self::default() };
        found.text = text;
        let is_cold =
            |(index, symbol): (usize, &Symbol)| found.str(&symbol.name).ends_with(".cold").then_some(index);
        found.cold = found.all.iter().enumerate().filter_map(is_cold).collect();
        found.blacklist = blacklist.lines().filter_map(range_of_list).collect();
        for name in listed {
            let ranges =
                found.named(&name).into_iter().filter_map(|at| Some(at..found.beginning_at(at)?.end));
            let ranges: Vec<_> = ranges.collect();
            found.blacklist.extend(ranges);
        }
        found
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn str(&self, range: &Range<u32>) -> &str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// The symbols at the highest address up to this address, and the index of the first symbol behind them.
    fn at_or_below(&self, address: u64) -> Option<(&[Symbol], usize)> {
        let behind = self.all.partition_point(|symbol| symbol.address <= address);
        let there = self.all.get(behind.checked_sub(1)?)?.address;
        let first = self.all.partition_point(|symbol| symbol.address < there);
        Some((&self.all[first..behind], behind))
    }

    /// The function, or a function's part, around an address.
    pub fn around(&self, address: u64) -> Option<Text<'_>> {
        let (there, behind) = self.at_or_below(address)?;
        let next = self.all.get(behind);
        let end = next.map_or(address, |next| next.address);
        // Anything may stand behind a module's last function.
        let last = next.is_none_or(|next| {
            next.module != there[0].module && self.str(&next.module) != self.str(&there[0].module)
        });
        if last && address - there[0].address > MAX_LAST_BYTES {
            return None;
        }
        let named = || there.iter().filter(|symbol| is_function(self.str(&symbol.name)));
        let best =
            named().find(|symbol| symbol.global).or_else(|| named().next()).or_else(|| there.first())?;
        let module = Some(self.str(&best.module)).filter(|module| !module.is_empty());
        Some(Text { name: self.str(&best.name), module, end })
    }

    /// The function that begins at an address.
    pub fn beginning_at(&self, address: u64) -> Option<Text<'_>> {
        let (there, _) = self.at_or_below(address)?;
        let is_one =
            there.iter().any(|symbol| symbol.address == address && is_function(self.str(&symbol.name)));
        self.around(address).filter(|_| is_one)
    }

    /// The addresses of the functions with a name.
    pub fn named(&self, name: &str) -> Vec<u64> {
        let is_it = |symbol: &&Symbol| self.str(&symbol.name) == name;
        let mut found: Vec<u64> = if is_function(name) {
            self.all.iter().filter(is_it).map(|symbol| symbol.address).collect()
        } else {
            Vec::new()
        };
        found.dedup();
        found
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.all.iter().map(|symbol| self.str(&symbol.name)).filter(|name| is_function(name))
    }

    /// The address of the kernel data with a name.
    pub fn data(&self, name: &str) -> Option<u64> {
        self.data.get(name).copied()
    }

    /// The parts of a function that the compiler changed or split: their names have a suffix after a dot.
    pub fn parts_of(&self, name: &str) -> Vec<String> {
        let is_part = |symbol: &&Symbol| {
            self.str(&symbol.name).strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        self.all.iter().filter(is_part).map(|symbol| self.str(&symbol.name).to_owned()).collect()
    }

    /// The address range of a function's seldom run part elsewhere; `None` without such a part, or with several
    /// candidates.
    pub fn cold_part(&self, name: &str, module: Option<&str>) -> Option<Range<u64>> {
        let wanted = format!("{name}.cold");
        let is_cold = |symbol: &&Symbol| {
            self.str(&symbol.name) == wanted && self.str(&symbol.module) == module.unwrap_or("")
        };
        let mut cold = self.cold.iter().filter_map(|&index| self.all.get(index)).filter(is_cold);
        let (only, None) = (cold.next()?, cold.next()) else { return None };
        Some(only.address..self.around(only.address)?.end)
    }

    /// Whether a probe at an address would be reached again while it is handled.
    pub fn is_amid_entry(&self, address: u64) -> bool {
        self.entry_code.iter().any(|range| range.contains(&address))
    }

    /// Whether the kernel lists the address as code that may not be probed.
    pub fn is_blacklisted(&self, address: u64) -> bool {
        self.blacklist.iter().any(|range| range.contains(&address))
    }
}

fn place_or_empty(part: &str, place: impl Fn(&str) -> Range<u32>) -> Range<u32> {
    if part.is_empty() { 0..0 } else { place(part) }
}

/// Whether a code symbol is a function's name: not the name of padding before a function, of a part, or of a mark.
fn is_function(name: &str) -> bool {
    let is_mark = name.starts_with('_') && (name.ends_with("text_start") || name.ends_with("text_end"))
        || matches!(name, "_text" | "_stext" | "_etext" | "_sinittext" | "_einittext");
    !name.starts_with("__pfx_") && !name.ends_with(".cold") && !is_mark
}

/// A line in the kernel's list: `0xFROM-0xTO<tab>NAME`.
fn range_of_list(line: &str) -> Option<Range<u64>> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some(address(from)?..address(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t local_alias
ffffffff81000100 T vfs_read
ffffffff81000180 t __pfx_vfs_write
ffffffff81000190 T vfs_write
ffffffff81000200 t twice
ffffffff81000240 t twice
ffffffff81000280 t changed.isra.0
ffffffff810002c0 t vfs_read.cold
ffffffff81000300 T __noinstr_text_start
ffffffff81000300 t enter_from_user_mode
ffffffff81000380 T __noinstr_text_end
ffffffff81000400 T listed
ffffffff81000440 T of_file
ffffffff81000480 T last
ffffffff82000000 d _kbl_addr_listed
ffffffff82000100 D sys_call_table
ffffffff82000200 d data
0000000000000000 t without_address
ffffffffc0000000 t ext4_x\t[ext4]
ffffffffc0000040 t vfs_read.cold\t[ext4]
?
";
    const LIST: &str = "0xffffffff81000440-0xffffffff81000480\tof_file\nnonsense\n";

    #[test]
    fn a_function_has_a_name_a_module_and_an_end() {
        let symbols = Symbols::new(NAMES.to_owned(), LIST);
        let at = |address| symbols.beginning_at(address).map(|text| (text.name, text.module, text.end));
        // A global name is better than a local one.
        assert_eq!(at(0xffff_ffff_8100_0100), Some(("vfs_read", None, 0xffff_ffff_8100_0180)));
        assert_eq!(at(0xffff_ffff_8100_0000), Some(("startup_64", None, 0xffff_ffff_8100_0100)));
        assert_eq!(at(0xffff_ffff_c000_0000), Some(("ext4_x", Some("ext4"), 0xffff_ffff_c000_0040)));
        for none in [0xffff_ffff_8100_0101, 0xffff_ffff_8100_0180, 0xffff_ffff_8100_02c0, 0, 1] {
            assert_eq!(at(none), None, "{none:x}");
        }
        assert_eq!(symbols.around(0xffff_ffff_8100_0155).map(|text| text.name), Some("vfs_read"));
        assert_eq!(symbols.named("twice").len(), 2);
        assert_eq!(symbols.named("without_address"), [0; 0]);
        assert_eq!(symbols.parts_of("changed"), ["changed.isra.0"]);
        assert_eq!(symbols.data("sys_call_table"), Some(0xffff_ffff_8200_0100));
    }

    #[test]
    fn the_cold_part_is_that_of_the_same_file() {
        let symbols = Symbols::new(NAMES.to_owned(), "");
        assert_eq!(symbols.cold_part("vfs_read", None), Some(0xffff_ffff_8100_02c0..0xffff_ffff_8100_0300));
        assert_eq!(symbols.cold_part("vfs_write", None), None);
        let two = format!("{NAMES}ffffffff81000500 t vfs_read.cold\n");
        assert_eq!(Symbols::new(two, "").cold_part("vfs_read", None), None, "it is not known which");
    }

    #[test]
    fn code_that_may_not_be_probed_is_known_by_both_lists() {
        let symbols = Symbols::new(NAMES.to_owned(), LIST);
        let address = |name| symbols.named(name).first().copied().expect(name);
        assert!(symbols.is_amid_entry(address("enter_from_user_mode")));
        assert!(!symbols.is_amid_entry(address("listed")) && symbols.is_blacklisted(address("listed")));
        assert!(symbols.is_blacklisted(address("of_file")));
        assert!(!symbols.is_blacklisted(address("vfs_read")) && !symbols.is_blacklisted(address("last")));
    }
}
