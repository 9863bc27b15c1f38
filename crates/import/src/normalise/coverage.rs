//! The CPUs with records in a trace, and CPUs without.

use std::collections::BTreeSet;

use wakepath_event::Cpu;

/// A trace's CPUs.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Whether each CPU has a stream; empty if unknown.
    has: Vec<bool>,
    missing: BTreeSet<u32>,
    /// How many wake-ups sent their thread to a missing CPU.
    pub wakings: u64,
}

/// The limit on missing CPUs: a damaged field may name any.
const MAX_MISSING: usize = 1024;

impl Coverage {
    /// A trace with streams for these CPUs.
    pub fn new(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        let mut coverage = Self::default();
        for cpu in cpus.into_iter().filter(|&cpu| cpu != Cpu::UNKNOWN) {
            let index = usize::from(cpu.0);
            if index >= coverage.has.len() {
                coverage.has.resize(index + 1, false);
            }
            coverage.has[index] = true;
        }
        coverage
    }

    /// Whether a CPU has a stream, as far as known.
    #[inline]
    pub fn has(&self, cpu: Cpu) -> bool {
        self.has.is_empty() || cpu == Cpu::UNKNOWN || self.has.get(usize::from(cpu.0)) == Some(&true)
    }

    /// Notes a wake-up to a CPU without a stream. Returns whether it is the first.
    pub fn target(&mut self, cpu: Cpu) -> bool {
        self.wakings += 1;
        self.missing.len() < MAX_MISSING && self.missing.insert(cpu.0.into())
    }

    /// The CPUs known to be missing.
    pub const fn missing(&self) -> &BTreeSet<u32> {
        &self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_to_a_cpu_without_a_stream_proves_that_it_is_missing() {
        let mut coverage = Coverage::new([Cpu(0), Cpu(2), Cpu::UNKNOWN]);
        for (cpu, has) in [(0, true), (1, false), (2, true), (3, false), (u16::MAX, true)] {
            assert_eq!(coverage.has(Cpu(cpu)), has, "{cpu}");
        }
        assert_eq!([1, 3, 1].map(|cpu| coverage.target(Cpu(cpu))), [true, true, false]);
        assert_eq!(
            (coverage.missing().iter().copied().collect::<Vec<_>>(), coverage.wakings),
            (vec![1, 3], 3)
        );
        assert!(Coverage::default().has(Cpu(7)), "not known");
    }

    #[test]
    fn a_file_full_of_wrong_cpus_does_not_fill_memory() {
        let mut coverage = Coverage::new([Cpu(0)]);
        let first = (1..5000).filter(|&cpu| coverage.target(Cpu(cpu))).count();
        assert_eq!((first, coverage.missing().len(), coverage.wakings), (MAX_MISSING, MAX_MISSING, 4999));
    }
}
