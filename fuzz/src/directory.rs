//! A recording's directory from a single input.
//!
//! An input is sections. Each begins with [`MARK`] and a byte: its low three bits choose the file, in
//! [`FILES`], to which the section's bytes are appended. With bit 7 set, and for `metadata`, the bytes are
//! appended unchanged. Else they are a packet's content, and its header is made around them, with true
//! values in every field, so that an input need not guess numbers to be read far into; bits 4 to 6 are the
//! number of lost records in the header.

use std::fs;
use std::path::{Path, PathBuf};

use wakepath_ctf::packet::PacketHeader;
use wakepath_kernel_records::{Header, record_length};

/// The mark at the beginning of a section.
pub const MARK: [u8; 4] = *b"\xffREC";

/// The uuid in every packet made here.
pub const UUID: [u8; 16] = *b"recording offuzz";

/// The files, by number.
const FILES: [&str; 8] =
    ["life", "sched_0", "sched_1", "net_0", "life_late", "metadata", "sched_4095", "notes"];

/// The metadata for an input without its own: the blocks that are read.
const METADATA: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; uuid = "7265636f-7264-696e-6720-6f6666757a7a"; byte_order = le; };
env { tracer_name = "wakepath"; format = 2; wakepath = "0.1.0"; domain = "kernel"; sysname = "Linux";
	hostname = "fuzz"; boot_id = "00000000-0000-4000-8000-000000000000"; kernel_release = "6.18.0";
	machine = "x86_64"; cpus = 2; options = "record -- fuzz"; };
clock { name = "monotonic"; description = "CLOCK_MONOTONIC"; freq = 1000000000; offset_s = 1750000000; offset = 5; };
"#;

/// The content of each file; `None` for a missing file.
type Contents = [Option<Vec<u8>>; FILES.len()];

/// A temporary directory that is filled anew for each input.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// An empty directory, in memory if the machine has a file system there.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let builder = tempfile::Builder::new();
        let folder = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
            builder.tempdir_in(memory)
        } else {
            builder.tempdir()
        };
        let folder = folder.expect("a temporary directory can be made");
        fs::create_dir(folder.path().join("kernel")).expect("a directory can be made in it");
        Self { folder }
    }

    /// Makes an input's recording, in place of the last. Returns its path, and the size of its streams,
    /// bytes.
    pub fn fill(&self, input: &[u8]) -> (PathBuf, usize) {
        let mut bytes = 0;
        for (name, contents) in FILES.iter().zip(contents(input)) {
            let file = self.folder.path().join("kernel").join(name);
            match contents {
                Some(contents) => {
                    bytes += contents.len();
                    fs::write(file, contents).expect("a file can be written");
                }
                None => match fs::remove_file(file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        panic!("cannot remove a file: {error}")
                    }
                    _ => {}
                },
            }
        }
        (self.folder.path().to_owned(), bytes)
    }
}

fn contents(input: &[u8]) -> Contents {
    const METADATA_FILE: usize = 5;
    let mut files = Contents::default();
    let mut packets = [0_u64; FILES.len()];
    // Bytes before the first mark belong to no section.
    let mut rest = find_mark(input).map_or(&[][..], |at| &input[at + MARK.len()..]);
    while let Some((&kind, body)) = rest.split_first() {
        let end = find_mark(body).unwrap_or(body.len());
        let (section, behind) = body.split_at(end);
        rest = behind.get(MARK.len()..).unwrap_or_default();
        let which = usize::from(kind & 7);
        let file = files[which].get_or_insert_default();
        if kind & 0x80 == 0 && which != METADATA_FILE {
            file.extend(packet(which, packets[which], u64::from(kind >> 4 & 7), section));
            packets[which] += 1;
        }
        file.extend(section);
    }
    files[METADATA_FILE].get_or_insert_with(|| METADATA.into());
    files
}

fn find_mark(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MARK.len()).position(|window| window == MARK)
}

/// The header of a file's packet number `number`, around `records`.
fn packet(file: usize, number: u64, discarded: u64, records: &[u8]) -> [u8; 80] {
    const STREAMS: [(u32, u32); FILES.len()] =
        [(2, 0), (0, 0), (0, 1), (1, 0), (2, 0), (0, 0), (0, 4095), (0, 0)];
    let (stream_id, cpu) = STREAMS[file];
    let (mut at, mut events, mut stamps) = (0, 0, None);
    while let (Some(header), Ok(length)) = (Header::read(&records[at..]), record_length(&records[at..])) {
        let (first, last) = stamps.unwrap_or((header.stamp, header.stamp));
        stamps = Some((first.min(header.stamp), last.max(header.stamp)));
        events += 1;
        at += length;
    }
    let (begin, end) = stamps.unwrap_or_default();
    let content = records.len() as u64;
    PacketHeader { uuid: UUID, stream_id, cpu, begin, end, content, discarded, number, events }.to_bytes()
}
