//! An address's rule: how the caller's registers follow from the function's. The same rules as `bpf/unwind.h`, in the
//! same bits.

/// An address's rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The frame begins at a known distance from a register; the return address is the word before it.
    Frame {
        /// The register.
        base: Base,
        /// The distance, in words of 8 bytes.
        words: u16,
        /// Where the caller's frame pointer is.
        bp: SavedBp,
    },
    /// No table has the address: only a frame pointer could lead on.
    NoTable,
    /// A thread's outermost function.
    Outermost,
    /// A table has the address, with a rule in another form.
    Unsupported,
    /// The process has no code there, so that no call returns there either.
    NoCode,
}

/// The register from which a frame is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer.
    Sp,
    /// The frame pointer.
    Bp,
}

/// Where the caller's frame pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedBp {
    /// Still in its register.
    Unchanged,
    /// This number of words below the frame's beginning.
    At(u16),
    /// Not known.
    Lost,
}

/// The maximum distance to a frame's beginning, in words.
const MAX_WORDS: u16 = (1 << 13) - 1;
/// The maximum distance to the saved frame pointer, in words.
const MAX_BP_WORDS: u16 = BP_LOST as u16 - 1;

const KIND: u32 = 7;
const FROM_SP: u32 = 1;
const FROM_BP: u32 = 2;
const NO_TABLE: u32 = 3;
const OUTERMOST: u32 = 4;
const UNSUPPORTED: u32 = 5;
const NO_CODE: u32 = 6;
/// The address is in the C library.
const LIBRARY: u32 = 8;
/// No call stands before the address, though it is a return address.
const NO_CALL: u32 = 16;
const WORDS_SHIFT: u32 = 5;
const BP_SHIFT: u32 = 18;
const BP_LOST: u32 = (1 << 14) - 1;

impl Rule {
    /// A frame's rule; `Unsupported` if a distance is 0 or too large.
    pub const fn frame(base: Base, words: u16, bp: SavedBp) -> Self {
        let fits = words > 0 && words <= MAX_WORDS;
        match bp {
            SavedBp::At(at) if at == 0 || at > MAX_BP_WORDS => Self::Unsupported,
            _ if !fits => Self::Unsupported,
            _ => Self::Frame { base, words, bp },
        }
    }

    /// The rule as the BPF programs read it.
    pub const fn bits(self, library: bool, called: bool) -> u32 {
        let kind = match self {
            Self::Frame { base: Base::Sp, .. } => FROM_SP,
            Self::Frame { base: Base::Bp, .. } => FROM_BP,
            Self::NoTable => NO_TABLE,
            Self::Outermost => OUTERMOST,
            Self::Unsupported => UNSUPPORTED,
            Self::NoCode => NO_CODE,
        };
        let distances = match self {
            Self::Frame { words, bp, .. } => {
                let bp = match bp {
                    SavedBp::Unchanged => 0,
                    SavedBp::At(at) => at as u32,
                    SavedBp::Lost => BP_LOST,
                };
                (words as u32) << WORDS_SHIFT | bp << BP_SHIFT
            }
            _ => 0,
        };
        let library = if library { LIBRARY } else { 0 };
        let called = if called { 0 } else { NO_CALL };
        kind | library | called | distances
    }

    /// The rule in these bits, and whether a call stands before the address; `None` if no rule is there.
    pub const fn from_bits(bits: u32) -> Option<(Self, bool)> {
        let words = (bits >> WORDS_SHIFT) as u16 & MAX_WORDS;
        let bp = match bits >> BP_SHIFT {
            0 => SavedBp::Unchanged,
            BP_LOST => SavedBp::Lost,
            at => SavedBp::At(at as u16),
        };
        let rule = match bits & KIND {
            FROM_SP => Self::Frame { base: Base::Sp, words, bp },
            FROM_BP => Self::Frame { base: Base::Bp, words, bp },
            NO_TABLE => Self::NoTable,
            OUTERMOST => Self::Outermost,
            UNSUPPORTED => Self::Unsupported,
            NO_CODE => Self::NoCode,
            _ => return None,
        };
        Some((rule, bits & NO_CALL == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_the_same_after_its_bits() {
        let frame = Rule::frame;
        for rule in [
            frame(Base::Sp, 1, SavedBp::Unchanged),
            frame(Base::Sp, MAX_WORDS, SavedBp::At(MAX_BP_WORDS)),
            frame(Base::Bp, 2, SavedBp::At(2)),
            frame(Base::Bp, 2, SavedBp::Lost),
            Rule::NoTable,
            Rule::Outermost,
            Rule::Unsupported,
            Rule::NoCode,
        ] {
            for (library, called) in [(false, true), (true, false)] {
                assert_eq!(Rule::from_bits(rule.bits(library, called)), Some((rule, called)), "{rule:?}");
            }
        }
        assert_eq!(Rule::from_bits(0), None);
        assert_eq!(frame(Base::Sp, MAX_WORDS + 1, SavedBp::Unchanged), Rule::Unsupported);
        assert_eq!(frame(Base::Sp, 0, SavedBp::Unchanged), Rule::Unsupported);
        assert_eq!(frame(Base::Sp, 2, SavedBp::At(MAX_BP_WORDS + 1)), Rule::Unsupported);
        assert_eq!(frame(Base::Sp, 2, SavedBp::At(0)), Rule::Unsupported);
    }
}
