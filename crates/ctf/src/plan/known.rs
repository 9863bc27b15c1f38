//! The known lowest bits of a position behind fields with varying sizes.

/// A position's remainder modulo a power of two, in bits, as known from the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    modulus: u64,
    rest: u64,
}

/// Larger than any alignment.
const MAX_VALUE: u64 = 1 << 16;

impl Known {
    /// Without knowledge.
    pub const NOTHING: Self = Self { modulus: 1, rest: 0 };
    /// A packet's beginning.
    pub const START: Self = Self { modulus: MAX_VALUE, rest: 0 };

    /// The position `bits` bits later.
    pub const fn plus(self, bits: u64) -> Self {
        Self { modulus: self.modulus, rest: self.rest.wrapping_add(bits) % self.modulus }
    }

    /// The position behind any number of items with `bits` bits each.
    pub fn plus_any(self, bits: u64) -> Self {
        // Only the remainder modulo the largest power of two that divides the size stays known.
        let modulus =
            if bits == 0 { self.modulus } else { self.modulus.min(1 << bits.trailing_zeros().min(16)) };
        Self { modulus, rest: self.rest % modulus }
    }

    /// The knowledge common to both.
    pub const fn or(self, other: Self) -> Self {
        let mut modulus = if self.modulus < other.modulus { self.modulus } else { other.modulus };
        while self.rest % modulus != other.rest % modulus {
            modulus /= 2;
        }
        Self { modulus, rest: self.rest % modulus }
    }

    /// The padding in front of an item with this alignment, bits; `None` if it varies.
    pub const fn padding(self, align: u64) -> Option<u64> {
        if align > self.modulus { None } else { Some((align - self.rest % align) % align) }
    }

    /// The position behind padding for this alignment.
    pub const fn aligned(align: u64) -> Self {
        Self { modulus: align, rest: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_known_as_long_as_sizes_are() {
        let at = Known::START.plus(5);
        assert_eq!(at.padding(8), Some(3));
        assert_eq!(at.plus(27).padding(8), Some(0));
        assert_eq!(at.plus_any(8).padding(8), Some(3), "bytes keep the bit");
        assert_eq!(at.plus_any(8).padding(16), None);
        assert_eq!(at.plus_any(3).padding(8), None);
        assert_eq!(at.plus_any(0), at);
        let either = Known::START.plus(32).or(Known::START.plus(104));
        assert_eq!((either.padding(8), either.padding(16)), (Some(0), None));
        assert_eq!(Known::START.or(Known::START.plus(1)), Known::NOTHING);
    }
}
