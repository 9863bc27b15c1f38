//! The record with which the BPF programs hand a stack over: `struct wp_stack_copy` of `bpf/unwind.h`. It never gets
//! onto a disk.

use wakepath_kernel_records::{Kind, layout::MAX_FRAMES};
use wakepath_unwind::{Registers, Unwound};

/// `WP_STACK_COPY`.
const KIND: u8 = 63;
/// Bytes of `struct wp_header`.
const HEADER: usize = 16;
/// Offset of the `struct wp_sample`.
const SAMPLE: usize = 80;
/// Offset of its frames.
const FRAMES: usize = SAMPLE + 32;
/// Offset of the memory.
const MEMORY: usize = FRAMES + MAX_FRAMES * 8;

/// A handed-over stack.
pub(crate) struct StackCopy(Box<[u8]>);

impl StackCopy {
    /// The copy, if `record` has this kind, or `None` if it is cut; else the record itself. A record with this kind
    /// is never returned, since it would get onto a disk.
    pub(crate) fn new(record: Box<[u8]>) -> Result<Option<Self>, Box<[u8]>> {
        match record.get(8) {
            Some(&KIND) => Ok((record.len() >= MEMORY).then_some(Self(record))),
            _ => Err(record),
        }
    }

    fn u16(&self, at: usize) -> u16 {
        self.0[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    fn u32(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// When the copy was taken, ns.
    pub(crate) fn stamp(&self) -> u64 {
        self.u64(0)
    }

    /// Whether the copy is a sample, not a wait.
    pub(crate) fn is_sample(&self) -> bool {
        self.u64(16) == 0
    }

    /// The address space's number.
    pub(crate) fn space(&self) -> u64 {
        self.u64(24)
    }

    /// Where the process's first stack began.
    pub(crate) fn start_stack(&self) -> u64 {
        self.u64(32)
    }

    /// The registers from which the walk goes on.
    pub(crate) fn registers(&self) -> Registers {
        Registers { ip: self.u64(40), sp: self.u64(48), bp: self.u64(56) }
    }

    /// Whether the thread stands at the address in the registers.
    pub(crate) fn stands(&self) -> bool {
        self.u32(64) != 0
    }

    /// Whether the registers are proved.
    pub(crate) fn certain(&self) -> bool {
        self.u32(68) != 0
    }

    /// The process.
    pub(crate) fn tgid(&self) -> u32 {
        self.u32(SAMPLE + HEADER)
    }

    /// The stack's memory, from the stack pointer on.
    pub(crate) fn memory(&self) -> &[u8] {
        let to = MEMORY.saturating_add(self.u32(72) as usize);
        &self.0[MEMORY..to.min(self.0.len())]
    }

    /// The address at which the thread stands in its own code.
    pub(crate) fn address(&self) -> u64 {
        self.u64(FRAMES + usize::from(self.u16(SAMPLE + 20)).min(MAX_FRAMES - 1) * 8)
    }

    fn kernel_frames(&self) -> usize {
        usize::from(self.u16(SAMPLE + 20)).min(MAX_FRAMES - 1)
    }

    /// The number of user frames up to the end of the BPF walk, without guessed frames.
    fn user_frames(&self) -> usize {
        let found = (self.u32(76) as usize).min(usize::from(self.u16(SAMPLE + 22)));
        found.min(MAX_FRAMES - self.kernel_frames())
    }

    /// The room for further frames.
    pub(crate) fn room(&self) -> usize {
        MAX_FRAMES - self.kernel_frames() - self.user_frames()
    }

    /// The record with the BPF programs' own frames, for lack of better. `now`: when it is written.
    pub(crate) fn unfinished(&self, now: u64) -> Box<[u8]> {
        let (kernel, user) = (self.kernel_frames(), usize::from(self.u16(SAMPLE + 22)));
        let user = user.min(MAX_FRAMES - kernel);
        let scanned = self.u16(SAMPLE + 24);
        let proved = self.u16(SAMPLE + 26).min(user as u16);
        let frames: Vec<u64> = (0..kernel + user).map(|n| self.u64(FRAMES + n * 8)).collect();
        self.record(kernel, scanned, proved, &frames, now)
    }

    /// The record with the frames found here.
    pub(crate) fn finished(&self, unwound: &Unwound, now: u64) -> Box<[u8]> {
        let (kernel, user) = (self.kernel_frames(), self.user_frames());
        // Nothing was found: a guess is better, and marked as a guess.
        if unwound.frames.is_empty() && self.stands() && !unwound.complete {
            return self.unfinished(now);
        }
        let proved = match unwound.proved {
            0 => usize::from(self.u16(SAMPLE + 26)).min(user),
            more => user + more,
        };
        let before = (0..kernel + user).map(|n| self.u64(FRAMES + n * 8));
        let frames: Vec<u64> = before.chain(unwound.frames.iter().copied()).take(MAX_FRAMES).collect();
        self.record(kernel, 0, proved.min(frames.len() - kernel) as u16, &frames, now)
    }

    fn record(&self, kernel: usize, scanned: u16, proved: u16, frames: &[u64], now: u64) -> Box<[u8]> {
        let mut record = self.0[SAMPLE..SAMPLE + HEADER].to_vec();
        if self.is_sample() {
            record[8] = Kind::Sample.number();
        } else {
            record[..8].copy_from_slice(&now.to_le_bytes());
            record[8] = Kind::StackLater.number();
            record.extend(self.u64(16).to_le_bytes());
        }
        record.extend(self.tgid().to_le_bytes());
        record.extend((kernel as u16).to_le_bytes());
        record.extend(((frames.len() - kernel) as u16).to_le_bytes());
        record.extend(scanned.to_le_bytes());
        record.extend(proved.to_le_bytes());
        record.extend((frames.len() as u32).to_le_bytes());
        for frame in frames {
            record.extend(frame.to_le_bytes());
        }
        record.into()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::process::Command;

    use wakepath_event::{EventKind, Stack, StackId, Tid};
    use wakepath_kernel_records::Decoder;

    use super::*;

    /// A copy with kernel frames and user frames, taken at 5, with 16 bytes of memory.
    fn copy(id: u64, stands: bool, kernel: &[u64], user: &[u64], scanned: u16, proved: u16) -> StackCopy {
        let found = if stands { 1 } else { user.len() as u32 - u32::from(scanned) };
        let mut bytes = vec![0; MEMORY];
        let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        set(8, &[KIND]);
        for (at, word) in [(16, id), (24, 77), (32, 88), (40, 0x1000), (48, 0x2000), (56, 0x3000)] {
            set(at, &word.to_le_bytes());
        }
        for (at, word) in [(64, u32::from(stands)), (68, 1), (72, 16), (76, found), (SAMPLE + HEADER, 7)] {
            set(at, &word.to_le_bytes());
        }
        set(SAMPLE, &5_u64.to_le_bytes());
        set(0, &5_u64.to_le_bytes());
        for (at, count) in [(20, kernel.len() as u16), (22, user.len() as u16), (24, scanned), (26, proved)] {
            set(SAMPLE + at, &count.to_le_bytes());
        }
        for (n, frame) in kernel.iter().chain(user).enumerate() {
            set(FRAMES + n * 8, &frame.to_le_bytes());
        }
        bytes.extend([3; 16]);
        StackCopy::new(bytes.into()).ok().flatten().expect("a copy")
    }

    /// A copy of a thread in this process with these registers.
    pub(crate) fn own_stack_copy(registers: Registers, start_stack: u64, memory: &[u8]) -> StackCopy {
        let mut bytes = copy(9, true, &[1], &[registers.ip], 0, 1).0.into_vec();
        bytes.truncate(MEMORY);
        bytes.extend(memory);
        let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        for (at, word) in [(32, start_stack), (40, registers.ip), (48, registers.sp), (56, registers.bp)] {
            set(at, &word.to_le_bytes());
        }
        set(72, &(memory.len() as u32).to_le_bytes());
        set(SAMPLE + HEADER, &std::process::id().to_le_bytes());
        StackCopy::new(bytes.into()).ok().flatten().expect("a copy")
    }

    pub(crate) fn decoded(record: &[u8]) -> (u64, EventKind) {
        let (event, length) =
            Decoder::for_release("6.18").decode(record, wakepath_event::Cpu(0)).expect("a record");
        assert_eq!(length, record.len());
        (event.at.ns(), event.kind)
    }

    #[test]
    fn a_finished_walk_replaces_what_was_guessed() {
        let unwound = Unwound { frames: vec![0x11, 0x12], proved: 1, complete: false };
        // At the innermost function: the frames behind it were guesses.
        let stack = |user: &[u64], scanned, proved| Stack {
            tgid: Tid(7),
            kernel: [1, 2].into(),
            user: user.into(),
            scanned,
            proved,
        };
        let first = copy(9, true, &[1, 2], &[0x10, 0xbad], 1, 1);
        assert_eq!(
            decoded(&first.finished(&unwound, 66)),
            (66, EventKind::StackLater(StackId(9), stack(&[0x10, 0x11, 0x12], 0, 2)))
        );
        assert_eq!(
            decoded(&first.unfinished(66)),
            (66, EventKind::StackLater(StackId(9), stack(&[0x10, 0xbad], 1, 1)))
        );
        // Nothing was found; then the outermost function was.
        let nothing = Unwound::default();
        assert_eq!(first.finished(&nothing, 66), first.unfinished(66));
        let outermost = Unwound { complete: true, ..nothing.clone() };
        let alone = EventKind::StackLater(StackId(9), stack(&[0x10], 0, 1));
        assert_eq!(decoded(&first.finished(&outermost, 66)).1, alone);
        // Further up: the frames before it stay. A sample keeps its time.
        let further = copy(0, false, &[1, 2], &[0x10, 0x20], 0, 2);
        assert_eq!(
            decoded(&further.finished(&unwound, 66)),
            (5, EventKind::Sample(stack(&[0x10, 0x20, 0x11, 0x12], 0, 3)))
        );
        // The first return address has no rule: the guesses behind the first function are dropped all the same.
        let guessed = copy(0, false, &[1, 2], &[0x10, 0xbad], 1, 1);
        assert_eq!(
            decoded(&guessed.finished(&unwound, 66)).1,
            EventKind::Sample(stack(&[0x10, 0x11, 0x12], 0, 2))
        );
        let unproved = Unwound { proved: 0, ..unwound };
        let doubtful = copy(0, false, &[1, 2], &[0x10, 0x20], 0, 1);
        assert_eq!(
            decoded(&doubtful.finished(&unproved, 66)).1,
            EventKind::Sample(stack(&[0x10, 0x20, 0x11, 0x12], 0, 1))
        );
    }

    #[test]
    fn no_copy_makes_a_longer_record_than_there_can_be() {
        let full = copy(9, false, &[1; 47], &[2; 80], 0, 80);
        assert_eq!(full.room(), 0);
        let unwound = Unwound { frames: vec![5; 200], proved: 200, complete: true };
        assert!(matches!(decoded(&copy(9, true, &[1; 47], &[2], 0, 1).finished(&Unwound {
            frames: vec![5; 79], proved: 79, complete: true
        }, 1)).1, EventKind::StackLater(_, stack) if stack.user.len() == 80 && stack.proved == 80));
        let EventKind::StackLater(_, stack) = decoded(&full.finished(&unwound, 1)).1 else { panic!() };
        assert_eq!((stack.user.len(), stack.proved), (80, 80));
        assert_eq!((full.memory(), full.registers().bp, full.address()), (&[3; 16][..], 0x3000, 2));
        assert_eq!((full.space(), full.start_stack(), full.tgid()), (77, 88, 7));
        // Another kind; and a cut copy, which must not get onto a disk either.
        assert!(StackCopy::new(vec![0; MEMORY].into()).is_err());
        assert!(StackCopy::new(vec![KIND; 8].into()).is_err());
        for bytes in [9, MEMORY - 1] {
            assert!(matches!(StackCopy::new(vec![KIND; bytes].into()), Ok(None)));
        }
    }

    #[test]
    fn the_copy_is_laid_out_as_the_c_compiler_says() {
        let mut c = String::from("#include <stdio.h>\n#include <stddef.h>\n#include \"unwind.h\"\n");
        c.push_str("#define SAY(f) printf(\"%zu \", offsetof(struct wp_stack_copy, f))\nint main(void) {\n");
        for field in [
            "id",
            "space",
            "start_stack",
            "ip",
            "sp",
            "bp",
            "stands",
            "certain",
            "memory",
            "found",
            "sample",
            "frames",
        ] {
            c.push_str(&format!("SAY({field});\n"));
        }
        c.push_str("printf(\"%zu %d\", sizeof(struct wp_stack_copy), WP_STACK_COPY);\nreturn 0;\n}\n");
        let here = tempfile::tempdir().expect("a folder");
        let (source, binary) = (here.path().join("copy.c"), here.path().join("copy"));
        std::fs::write(&source, c).expect("a writable folder");
        let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
        let built =
            Command::new("cc").args(["-std=c11", "-I"]).arg(bpf).arg("-o").args([&binary, &source]).status();
        assert!(built.expect("a C compiler named cc").success());
        let said = Command::new(&binary).output().expect("the program just compiled").stdout;
        let expected = format!("16 24 32 40 48 56 64 68 72 76 {SAMPLE} {FRAMES} {MEMORY} {KIND}");
        assert_eq!(String::from_utf8(said).expect("text"), expected);
    }
}
