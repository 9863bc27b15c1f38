//! Tables for unwinding, by which an exception passes a stub.
//!
//! A stub's frame has no memory of its own: its caller's stack pointer is its callee's at the return, and its return
//! address stands among the open calls, found by a hash. The table has that search as an expression (DWARF 5, section
//! 2.5).
//!
//! The unwinder knows frames by their stack pointers, and would take the stub's frame for its caller's. So the table
//! marks the stub's frame as a signal's. Where a signal interrupted a function, the unwinder looks up the address
//! itself, not the call before it: the expression returns an address within the call.

use crate::data;
use crate::stub;

/// The DWARF numbers: stack pointer, return address.
const RSP: u8 = 7;
const RIP: u8 = 16;

const DW_CFA_DEF_CFA: u8 = 0x0c;
const DW_CFA_VAL_EXPRESSION: u8 = 0x16;
const DW_OP_DEREF: u8 = 0x06;
const DW_OP_CONST1U: u8 = 0x08;
const DW_OP_CONST8U: u8 = 0x0e;
const DW_OP_DUP: u8 = 0x12;
const DW_OP_OVER: u8 = 0x14;
const DW_OP_MINUS: u8 = 0x1c;
const DW_OP_MUL: u8 = 0x1e;
const DW_OP_PLUS: u8 = 0x22;
const DW_OP_PLUS_UCONST: u8 = 0x23;
const DW_OP_SHL: u8 = 0x24;
const DW_OP_SHR: u8 = 0x25;
const DW_OP_BRA: u8 = 0x28;
const DW_OP_EQ: u8 = 0x29;
const DW_OP_LIT0: u8 = 0x30;

/// The table for a region's stubs (`.eh_frame`, ends with a zero), for calls that are kept at `calls_at`.
pub(crate) fn table(region: u64, stubs: u64, calls_at: u64) -> Vec<u8> {
    let expression = return_address(calls_at);
    // Version 1; the length of the "z" data, the address format for "R" (absolute), and a signal frame for "S".
    let mut common = vec![0, 0, 0, 0, 1];
    common.extend(b"zRS\0");
    common.extend([1, 0x78, RIP, 1, 0]);
    common.extend([DW_CFA_DEF_CFA, RSP, 0, DW_CFA_VAL_EXPRESSION, RIP, expression.len() as u8]);
    common.extend(expression);
    let mut bytes = entry(common);
    let back = bytes.len() as u32 + 4;
    let mut frame = back.to_le_bytes().to_vec();
    frame.extend((region + stub::STUBS_AT).to_le_bytes());
    frame.extend((stubs * stub::STUB_BYTES).to_le_bytes());
    frame.push(0);
    bytes.extend(entry(frame));
    bytes.extend([0; 4]);
    bytes
}

/// An entry with its length, padded with `DW_CFA_nop` to whole words.
fn entry(mut body: Vec<u8>) -> Vec<u8> {
    body.resize((body.len() + 4).next_multiple_of(8) - 4, 0);
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// The kept return address, less 1, from the frame's address: 8 bytes above the return address's place.
fn return_address(calls_at: u64) -> Vec<u8> {
    let mut code = vec![DW_OP_LIT0 + 8, DW_OP_MINUS, DW_OP_DUP, DW_OP_CONST8U];
    code.extend(data::CALL_FACTOR.to_le_bytes());
    code.extend([DW_OP_MUL, DW_OP_CONST1U, 64 - data::CALL_BITS as u8, DW_OP_SHR]);
    code.extend([DW_OP_LIT0 + data::CALL_BYTES.ilog2() as u8, DW_OP_SHL, DW_OP_CONST8U]);
    code.extend(calls_at.to_le_bytes());
    code.push(DW_OP_PLUS);
    let tried = [DW_OP_OVER, DW_OP_OVER, DW_OP_DEREF, DW_OP_EQ, DW_OP_BRA, 0, 0];
    let next = [DW_OP_PLUS_UCONST, data::CALL_BYTES as u8];
    for way in (1..=data::CALL_WAYS as usize).rev() {
        let to_end = (way - 1) * (tried.len() + next.len()) + next.len();
        code.extend(&tried[..5]);
        code.extend((to_end as u16).to_le_bytes());
        code.extend(next);
    }
    code.extend([DW_OP_PLUS_UCONST, data::CALL_RETURN as u8, DW_OP_DEREF, DW_OP_LIT0 + 1, DW_OP_MINUS]);
    code
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gimli::{
        BaseAddresses, CfaRule, EhFrame, EndianSlice, EvaluationResult, LittleEndian, Location, Piece,
        RegisterRule, UnwindContext, UnwindSection, Value, X86_64,
    };

    use super::*;

    #[test]
    fn a_table_is_a_common_entry_a_frame_and_an_end() {
        let table = table(0x10000, 1024, 0x20000);
        let word = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().expect("a word")) as usize;
        let frame = 4 + word(0);
        assert_eq!(
            (word(4), frame % 8, word(frame + 4)),
            (0, 0, frame + 4),
            "the frame leads back to the common entry"
        );
        let end = frame + 4 + word(frame);
        assert_eq!((word(end), table.len()), (0, end + 4));
    }

    #[test]
    fn each_place_that_is_tried_leads_to_the_same_end() {
        let code = return_address(0x20000);
        let tail = code.len() - 5;
        let branches: Vec<usize> = (0..code.len() - 6)
            .filter(|&at| code[at..at + 5] == [DW_OP_OVER, DW_OP_OVER, DW_OP_DEREF, DW_OP_EQ, DW_OP_BRA])
            .map(|at| at + 7 + usize::from(u16::from_le_bytes([code[at + 5], code[at + 6]])))
            .collect();
        assert_eq!(branches, vec![tail; data::CALL_WAYS as usize]);
    }

    const REGION: u64 = 0x7f00_0001_0000;
    const CALLS_AT: u64 = 0x7f00_0020_0000;

    /// The table as another reader takes it.
    fn read(table: &[u8]) -> EhFrame<EndianSlice<'_, LittleEndian>> {
        let mut read = EhFrame::new(table, LittleEndian);
        read.set_address_size(8);
        read
    }

    #[test]
    fn the_table_covers_each_stub_and_no_byte_beside_them() {
        for stubs in [1, 2, 1024, data::MAX_SITES] {
            let table = table(REGION, stubs, CALLS_AT);
            let (read, bases) = (read(&table), BaseAddresses::default().set_eh_frame(0));
            let covers = |address| {
                read.fde_for_address(&bases, address, EhFrame::cie_from_offset)
                    .is_ok_and(|entry| entry.is_signal_trampoline() && entry.contains(address))
            };
            let first = REGION + stub::STUBS_AT;
            let last = first + (stubs - 1) * stub::STUB_BYTES;
            for (address, is_covered) in [
                (first - 1, false),
                (first, true),
                (first + stub::STUB_BYTES - 1, true),
                (last, true),
                (last + stub::STUB_BYTES - 1, true),
                (last + stub::STUB_BYTES, false),
                (REGION, false),
            ] {
                assert_eq!(covers(address), is_covered, "{address:#x} of {stubs} stubs");
            }
        }
    }

    /// The kept return address, less 1, as the table's expression finds it for a frame, with the open call in the
    /// slot `way` places behind its hash value, and other calls in the other slots.
    fn found(frame: u64, way: u64) -> u64 {
        let table = table(REGION, 4, CALLS_AT);
        let (read, bases) = (read(&table), BaseAddresses::default().set_eh_frame(0));
        let address = REGION + stub::STUBS_AT + stub::STUB_BYTES + 70;
        let entry = read.fde_for_address(&bases, address, EhFrame::cie_from_offset).expect("it is covered");
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&read, &bases, &mut context, address).expect("a row");
        let cfa = CfaRule::RegisterAndOffset { register: X86_64::RSP, offset: 0 };
        assert_eq!(*row.cfa(), cfa, "the stack pointer is the caller's");
        let Some(RegisterRule::ValExpression(expression)) = row.register(X86_64::RA) else {
            panic!("the return address is none that stands on the stack")
        };
        let slot = frame - 8;
        let hash = slot.wrapping_mul(data::CALL_FACTOR) >> (64 - data::CALL_BITS);
        let memory: HashMap<u64, u64> = (0..data::CALL_WAYS)
            .flat_map(|other| {
                let call = CALLS_AT + (hash + other) * data::CALL_BYTES;
                let (slot, returns) = if other == way { (slot, 0x5555) } else { (slot + 8 + other, 0xbad) };
                [(call + data::CALL_SLOT, slot), (call + data::CALL_RETURN, returns)]
            })
            .collect();
        let mut evaluation = expression.get(&read).expect("an expression").evaluation(entry.cie().encoding());
        evaluation.set_initial_value(frame);
        let mut state = evaluation.evaluate().expect("operations that are known");
        while let EvaluationResult::RequiresMemory { address, size, .. } = state {
            assert_eq!(size, 8);
            let word = *memory.get(&address).expect("a word of a call");
            state = evaluation.resume_with_memory(Value::Generic(word)).expect("a word");
        }
        assert_eq!(state, EvaluationResult::Complete);
        match evaluation.result()[..] {
            [Piece { location: Location::Address { address }, .. }] => address,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_return_address_is_that_of_the_open_call_at_the_frames_place_on_the_stack() {
        for frame in [0x7ffc_1234_5670_u64, 0x7ffc_1234_5678, 0x1000, u64::MAX - 7] {
            for way in 0..data::CALL_WAYS {
                assert_eq!(found(frame, way), 0x5554, "{frame:#x}, place {way}");
            }
        }
    }
}
