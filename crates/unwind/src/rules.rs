//! The rule table shared with the BPF programs: a word for each address, by a hash, in sets with several words, so that
//! two addresses with the same place in it do not drive each other out.

use crate::rule::Rule;

/// The number of sets in the table: `WP_RULE_SETS` in `bpf/unwind.h`.
pub const RULE_SETS: usize = 1 << 14;
/// The number of words in a set: `WP_RULE_WAYS` in `bpf/unwind.h`.
pub const RULE_WAYS: usize = 4;

/// An address's hash in an address space: its low bits are the set in the table. The instruction at which a thread
/// stands has another rule than the same address as a return address.
pub const fn hash(space: u64, address: u64, stands: bool) -> u64 {
    mix(mix(space, address), if stands { 1 } else { 2 })
}

/// A rule's word: the hash's upper half, and the bits from [`Rule::bits`].
pub const fn entry(hash: u64, bits: u32) -> u64 {
    hash & 0xffff_ffff_0000_0000 | bits as u64
}

/// The rule in a word, if it has this hash.
pub const fn rule_in(word: u64, hash: u64) -> Option<(Rule, bool)> {
    if word >> 32 == hash >> 32 { Rule::from_bits(word as u32) } else { None }
}

const fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Base, SavedBp};

    #[test]
    fn a_rule_is_found_by_its_own_hash_alone() {
        let rule = Rule::frame(Base::Sp, 3, SavedBp::At(2));
        let own = hash(7, 0x1000, false);
        let word = entry(own, rule.bits(false, true));
        assert_eq!(rule_in(word, own), Some((rule, true)));
        for other in [hash(7, 0x1000, true), hash(8, 0x1000, false), hash(7, 0x1001, false)] {
            assert_eq!(rule_in(word, other), None);
        }
        assert_eq!(rule_in(0, own), None);
    }
}
