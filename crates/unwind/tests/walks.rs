//! Walks over made-up stacks: their proved frames, and their ends.

use std::collections::BTreeMap;

use wakepath_unwind::{Base, Place, Registers, Rule, SavedBp, Unwound, walk};

/// The bottom of the made-up stack.
const SP: u64 = 0x7000;

/// A program: its addresses' rules. The addresses in `jumps` are return addresses without a call before them.
struct Program {
    rules: BTreeMap<u64, Rule>,
    jumps: Vec<u64>,
}

fn program(rules: &[(u64, Rule)]) -> Program {
    Program { rules: rules.iter().copied().collect(), jumps: Vec::new() }
}

impl Program {
    /// Walks from an address at which the thread stands, with `words` on the stack.
    fn walk(&self, ip: u64, bp: u64, words: &[u64], most: usize) -> Unwound {
        let memory: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        walk(Registers { ip, sp: SP, bp }, true, true, &memory, most, |address, _| self.place(address))
    }

    fn place(&self, address: u64) -> Place {
        let rule = self.rules.get(&address).copied().unwrap_or(Rule::NoTable);
        Place { rule, called: !self.jumps.contains(&address) }
    }
}

fn from_sp(words: u16) -> Rule {
    Rule::frame(Base::Sp, words, SavedBp::Unchanged)
}

#[test]
fn a_value_in_the_frame_pointer_leads_nowhere_where_a_table_says_that_it_is_none() {
    // The frame pointer holds a data address, with another function's address there.
    let program = program(&[(0x1000, from_sp(2)), (0x2000, from_sp(3)), (0x3000, Rule::Outermost)]);
    let found = program.walk(0x1000, SP + 40, &[9, 0x2000, 9, 9, 0x3000, 0, 0xbad0], 20);
    assert_eq!(found, Unwound { frames: vec![0x2000, 0x3000], proved: 2, complete: true });
}

#[test]
fn a_leaf_without_a_frame_of_its_own_has_its_caller() {
    // The frame pointer is still the caller's, which called from its own frame.
    let with_frame = Rule::frame(Base::Bp, 2, SavedBp::At(2));
    let program = program(&[(0x1000, from_sp(1)), (0x2000, with_frame), (0x3000, Rule::Outermost)]);
    let found = program.walk(0x1000, SP + 16, &[0x2000, 9, 0x7fff, 0x3000], 20);
    assert_eq!(found, Unwound { frames: vec![0x2000, 0x3000], proved: 2, complete: true });
}

#[test]
fn a_return_address_without_a_call_before_it_and_all_behind_it_are_not_proved() {
    let mut program = program(&[
        (0x1000, from_sp(1)),
        (0x2000, from_sp(1)),
        (0x3000, from_sp(1)),
        (0x4000, Rule::Outermost),
    ]);
    let words = [0x2000, 0x3000, 0x4000];
    assert_eq!(program.walk(0x1000, 0, &words, 20).proved, 3);
    for (jump, proved) in [(0x2000, 0), (0x3000, 1), (0x4000, 2)] {
        program.jumps = vec![jump];
        let found = program.walk(0x1000, 0, &words, 20);
        assert_eq!(found, Unwound { frames: words.to_vec(), proved, complete: false }, "{jump:x}");
        // The same where the walk ends for its length.
        assert_eq!(program.walk(0x1000, 0, &words, proved + 1).proved, proved, "{jump:x}");
    }
    // Where the thread stands there need be no call.
    program.jumps = vec![0x1000];
    assert_eq!(program.walk(0x1000, 0, &words, 20).proved, 3);
}

#[test]
fn where_no_table_leads_on_a_frame_pointer_does_without_proof() {
    let program = program(&[(0x1000, from_sp(1)), (0x3000, from_sp(1)), (0x4000, Rule::Outermost)]);
    // Code without a file at 0x2000, with a frame; the leaf's frame pointer is this frame's.
    let words = [0x2000, 9, SP + 0x100, 0x3000, 0x4000];
    let found = program.walk(0x1000, SP + 16, &words, 20);
    assert_eq!(found, Unwound { frames: vec![0x2000, 0x3000, 0x4000], proved: 1, complete: false });
    for bp in [0, SP - 16, SP - 15, SP + 800, u64::MAX, u64::MAX - 8] {
        assert_eq!(program.walk(0x1000, bp, &words, 20).frames, [0x2000], "{bp:x}");
    }
}

#[test]
fn a_frame_pointer_that_was_lost_is_not_used() {
    let lost = Rule::frame(Base::Sp, 1, SavedBp::Lost);
    let with_frame = Rule::frame(Base::Bp, 2, SavedBp::At(2));
    let program = program(&[(0x1000, lost), (0x2000, with_frame), (0x3000, Rule::Outermost)]);
    let found = program.walk(0x1000, SP + 16, &[0x2000, 9, 0x7fff, 0x3000], 20);
    assert_eq!(found.frames, [0x2000]);
    // A saved frame pointer is known again, but not if it lies outside the copy.
    let saved = |at| Rule::frame(Base::Sp, 3, SavedBp::At(at));
    for (at, frames) in [(2, &[0x2000, 0x3000][..]), (3, &[0x2000]), (4, &[0x2000]), (9, &[0x2000])] {
        let program = Program {
            rules: BTreeMap::from([(0x1000, saved(at)), (0x2000, with_frame), (0x3000, Rule::Outermost)]),
            jumps: Vec::new(),
        };
        let found = program.walk(0x1000, 5, &[9, SP + 32, 0x2000, 9, 0x7fff, 0x3000], 20);
        assert_eq!(found.frames, frames, "{at}");
    }
}

#[test]
fn a_stack_longer_than_its_copy_is_proved_as_far_as_the_copy_reaches() {
    let program = program(&[(0x1000, from_sp(1)), (0x2000, from_sp(64))]);
    // Frames with half a kilobyte each, in a copy of 8 KiB.
    let mut words = vec![0x2000; 1024];
    let found = program.walk(0x1000, 0, &words, 79);
    assert_eq!((found.frames.len(), found.proved, found.complete), (16, 16, false));
    // A copy that ends within a word.
    words.truncate(65);
    let memory: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(65 * 8 - 1).collect();
    let registers = Registers { ip: 0x1000, sp: SP, bp: 0 };
    let found = walk(registers, true, true, &memory, 79, |address, _| program.place(address));
    assert_eq!(found.frames.len(), 1);
}

#[test]
fn a_walk_goes_on_from_a_return_address() {
    let mut program = program(&[(0x2000, from_sp(1)), (0x3000, Rule::Outermost)]);
    let memory = 0x3000_u64.to_le_bytes();
    let registers = Registers { ip: 0x2000, sp: SP, bp: 0 };
    let go = |program: &Program, proved, most| {
        walk(registers, false, proved, &memory, most, |address, _| program.place(address))
    };
    let found = |proved| Unwound { frames: vec![0x2000, 0x3000], proved, complete: proved == 2 };
    assert_eq!(go(&program, true, 9), found(2));
    assert_eq!(go(&program, false, 9), found(0), "the registers are not certain");
    assert_eq!(go(&program, true, 1).frames, [0x2000]);
    assert_eq!(go(&program, true, 0), Unwound::default());
    program.jumps = vec![0x2000];
    assert_eq!(go(&program, true, 9), found(0));
}

#[test]
fn no_walk_goes_down_the_stack_or_beyond_what_memory_can_be() {
    for rule in [Rule::frame(Base::Bp, 1, SavedBp::Unchanged), Rule::NoTable] {
        let program = program(&[(0x1000, rule)]);
        for bp in [0, 8, SP - 8, u64::MAX - 4, u64::MAX] {
            assert_eq!(program.walk(0x1000, bp, &[0x1000; 8], 20).frames.len(), 0, "{rule:?} {bp:x}");
        }
    }
    // A small number is no code address.
    let program = program(&[(0x1000, from_sp(1))]);
    assert!(program.walk(0x1000, 0, &[0xfff], 20).frames.is_empty());
    assert!(program.walk(0x1000, 0, &[], 20).frames.is_empty());
}
