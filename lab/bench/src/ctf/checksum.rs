//! Checksums over decoded events: all bits in all numbers, texts and fractions.

use wakepath_ctf::plan::Visitor;

/// The sums over events, which do not depend on the streams' order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksum {
    pub events: u64,
    pub stamps: u64,
    pub values: Sum,
}

impl Checksum {
    pub const fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            stamps: self.stamps.wrapping_add(other.stamps),
            values: self.values.plus(other.values),
        }
    }

    pub const fn count(&mut self, stamp: u64) {
        self.events += 1;
        self.stamps = self.stamps.wrapping_add(stamp);
    }
}

/// The sums over values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    pub numbers: u64,
    /// The sum over texts, and over number arrays that are passed on unchanged.
    pub texts: u64,
    pub fractions: u64,
}

impl Sum {
    pub const fn plus(self, other: Self) -> Self {
        Self {
            numbers: self.numbers.wrapping_add(other.numbers),
            texts: self.texts.wrapping_add(other.texts),
            fractions: self.fractions.wrapping_add(other.fractions),
        }
    }
}

impl Visitor for Sum {
    #[inline]
    fn unsigned(&mut self, _: u16, value: u64) {
        self.numbers = self.numbers.wrapping_add(value);
    }

    #[inline]
    fn signed(&mut self, _: u16, value: i64) {
        self.numbers = self.numbers.wrapping_add(value as u64);
    }

    #[inline]
    fn float(&mut self, _: u16, value: f64) {
        self.fractions = self.fractions.wrapping_add(value.to_bits());
    }

    #[inline]
    fn bytes(&mut self, _: u16, value: &[u8]) {
        self.texts = self.texts.wrapping_add(digest(value));
    }
}

/// A number from all bytes in a text.
#[inline]
fn digest(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut digest = bytes.len() as u64;
    for word in words {
        digest = (digest ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
    }
    rest.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(ODD))
}

#[cfg(test)]
mod tests {
    use super::{Sum, digest};
    use wakepath_ctf::plan::Visitor;

    #[test]
    fn each_bit_of_each_value_counts() {
        let sum = |visit: &dyn Fn(&mut Sum)| {
            let mut sum = Sum::default();
            visit(&mut sum);
            sum
        };
        for bit in 0..64 {
            assert_ne!(sum(&|sum| sum.unsigned(0, 1 << bit)), Sum::default());
            assert_ne!(sum(&|sum| sum.signed(0, 1 << bit)), Sum::default());
            assert_ne!(sum(&|sum| sum.float(0, f64::from_bits(1 << bit))), Sum::default());
        }
        let text = b"swapper/0 and more";
        for at in 0..text.len() {
            let mut other = *text;
            other[at] ^= 0x40;
            assert_ne!(digest(text), digest(&other), "byte {at}");
        }
        assert_ne!(digest(b""), digest(b"\0"));
    }
}
