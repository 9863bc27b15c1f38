//! The first fuzzing inputs, made from the bundled recording, the situations in `cases/`, a simulated program, and
//! the decoders' own seeds. Writes a folder for each decoder into the folder in its argument.

use std::fs;
use std::path::{Path, PathBuf};

use wakepath_event::Event;
use wakepath_kernel_records::{Buffer, Encoder, Header, Kind, record_length};
use wakepath_scenario::simulate::{Action, Program, simulate};
use wakepath_scenario::text::parse;

/// The mark at the beginning of a directory section; the same as in `fuzz/src/directory.rs`.
const MARK: [u8; 4] = *b"\xffREC";

fn main() {
    let out = PathBuf::from(std::env::args_os().nth(1).expect("the folder to write into"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Seeds { out, written: 0 };
    let recording = root.join("recordings/backup/kernel");
    let streams =
        ["life", "sched_0", "sched_1"].map(|name| fs::read(recording.join(name)).expect("a stream"));
    let metadata = fs::read(recording.join("metadata")).expect("metadata");
    seeds.texts(&metadata);
    seeds.packets();
    wakepath_fuzz::perf_data::seeds().iter().for_each(|seed| seeds.keep("perf-data", &[seed]));
    wakepath_fuzz::trace::seeds().iter().for_each(|seed| seeds.keep("trace", &[seed]));
    wakepath_fuzz::trace_dat::seeds().iter().for_each(|seed| seeds.keep("trace-dat", &[seed]));
    wakepath_fuzz::text_trace::seeds().iter().for_each(|seed| seeds.keep("text-trace", &[seed]));
    wakepath_fuzz::perfetto::seeds().iter().for_each(|seed| seeds.keep("perfetto", &[seed]));
    wakepath_fuzz::otlp::seeds().iter().for_each(|seed| seeds.keep("otlp", &[seed]));
    wakepath_fuzz::spans::seeds().iter().for_each(|seed| seeds.keep("spans", &[seed]));
    wakepath_fuzz::go_trace::seeds().iter().for_each(|seed| seeds.keep("go-trace", &[seed]));
    wakepath_fuzz::process::seeds().iter().for_each(|seed| seeds.keep("process", &[seed]));
    seeds.words();
    let chunks: Vec<Vec<Vec<u8>>> = streams.iter().map(|stream| records_of(stream)).collect();
    for (file, records) in chunks.iter().enumerate() {
        seeds.streams(file, records);
    }
    let cases = fs::read_dir(root.join("cases")).expect("the folder cases/");
    let mut traces: Vec<_> = cases.map(|case| case.expect("a case").path().join("trace.txt")).collect();
    traces.sort();
    for trace in traces.iter().filter_map(|trace| fs::read_to_string(trace).ok()) {
        seeds.events(&parse(&trace).expect("a trace").events);
    }
    seeds.events(&simulate(&program()).events);
}

/// Two threads that hand work to each other, a disk and a timer, a packet there and back, a child.
fn program() -> Program {
    use Action::{Disk, Fork, Post, Receive, Run, Send, Sleep, Wait};
    Program {
        threads: vec![
            vec![Run(50), Fork(2), Post(0), Wait(1), Run(10), Send(0), Receive(1), Sleep(40), Run(5)],
            vec![Wait(0), Run(30), Disk(80), Run(7), Post(1), Receive(0), Run(9), Send(1)],
            vec![Run(200), Sleep(10), Run(3)],
        ],
        cpus: Some(2),
        slice: 20,
        latency: 3,
        flight: 6,
    }
}

/// A stream's whole records, one after the other, without its packets' headers.
fn records_of(stream: &[u8]) -> Vec<Vec<u8>> {
    const PACKET_HEADER: usize = 80;
    let (mut records, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let size = u64::from_le_bytes(*stream[at + 48..].first_chunk().expect("a size")) as usize / 8;
        let mut rest = &stream[at + PACKET_HEADER..at + size];
        while !rest.is_empty() {
            let length = record_length(rest).expect("a record");
            records.push(rest[..length].to_vec());
            rest = &rest[length..];
        }
        at += size;
    }
    records
}

fn buffer_of(record: &[u8]) -> Buffer {
    let kind = Header::read(record).and_then(|header| Kind::from_number(header.kind)).expect("a kind");
    *Buffer::ALL.iter().find(|buffer| buffer.holds(kind)).expect("a buffer")
}

struct Seeds {
    out: PathBuf,
    written: usize,
}

impl Seeds {
    fn keep(&mut self, decoder: &str, parts: &[&[u8]]) {
        let folder = self.out.join(decoder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        fs::write(folder.join(format!("seed-{:04}", self.written)), parts.concat()).expect("room");
        self.written += 1;
    }

    fn texts(&mut self, metadata: &[u8]) {
        let text = String::from_utf8(metadata.to_vec()).expect("text");
        let blocks = text.find("stream {").expect("a stream block");
        self.keep("ctf", &[&[0], &metadata[..blocks]]);
        self.keep("ctf", &[&[0], &metadata[..blocks + 800]]);
        for block in ["trace {", "env {", "clock {"] {
            let at = text.find(block).expect("a block");
            let end = at + text[at..].find("\n};").expect("an end") + 3;
            self.keep("ctf", &[&[0], &metadata[at..end]]);
        }
    }

    /// A trace's packets, whole, cut and with rubbish between them.
    fn packets(&mut self) {
        let packet = |number: u64, content: usize| {
            let header = wakepath_ctf::packet::PacketHeader {
                uuid: wakepath_fuzz::ctf::UUID,
                stream_id: 0,
                cpu: 0,
                begin: number,
                end: number + 1,
                content: content as u64,
                discarded: 0,
                number,
                events: 1,
            };
            let mut bytes = header.to_bytes().to_vec();
            bytes.resize(bytes.len() + content, 7);
            bytes
        };
        let three = [packet(0, 8), packet(1, 0), packet(2, 24)].concat();
        for cut in [three.len(), three.len() - 8, 100, 40, 20] {
            self.keep("ctf", &[&[1], &three[..cut]]);
        }
        self.keep("ctf", &[&[1], &packet(0, 8), b"rubbish", &packet(1, 8), &packet(0, 8)[..21]]);
    }

    fn words(&mut self) {
        for time in
            ["1.5", "250ms", "-5s", "02:58:41.310", "2026-11-21T02:58:41.310Z", "2024-02-29 00:00", "3h"]
        {
            self.keep("words", &[&[0], time.as_bytes()]);
        }
        let id = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
        for path in [
            "/system.slice/shop.service/workers".to_owned(),
            "/user.slice/session-3.scope".to_owned(),
            "/a.socket/lxc.payload.x".to_owned(),
            format!("/docker/{id}"),
            format!("/system.slice/cri-containerd-{id}.scope"),
        ] {
            self.keep("words", &[&[1], path.as_bytes()]);
        }
        self.keep("words", &[&[2], "grüße \u{202e}\u{200b}\u{9b} \x1b[31m\n\r\t".as_bytes(), b"\xe2\x82"]);
    }

    /// Records from a real stream: a few from each kind, and a run of consecutive records.
    fn streams(&mut self, file: usize, records: &[Vec<u8>]) {
        const FEW: usize = 3;
        let mut some: Vec<&[u8]> = Vec::new();
        for kind in Kind::ALL {
            let of_kind = records.iter().filter(|record| record[8] == kind.number() && record.len() < 600);
            some.extend(of_kind.take(FEW).map(Vec::as_slice));
        }
        for record in &some {
            self.keep("kernel-records", &[&[5, 0], record]);
        }
        some.sort_by_key(|record| Header::read(record).map(|header| header.stamp));
        let run: Vec<&[u8]> = records.iter().take(60).map(Vec::as_slice).collect();
        for records in [some.concat(), run.concat()] {
            self.keep("recording", &[&MARK, &[file as u8], &records]);
            self.keep("answer", &[&[0, 0, 1], &MARK, &[file as u8], &records]);
            self.keep("graph", &[&[1, 50, 200], &records]);
        }
    }

    /// Made-up events, in every form that a decoder takes.
    fn events(&mut self, events: &[Event]) {
        let encoder = Encoder::for_release("6.18.0");
        let (mut all, mut numbers) = (Vec::new(), [0_u16; 2]);
        // The files in a directory: `life`, `sched_0`, `sched_1`, `net_0`.
        let mut files: [Vec<u8>; 4] = Default::default();
        for event in events {
            let mut record = Vec::new();
            if encoder.encode(event, event.cpu.0, &mut record).is_err() {
                continue;
            }
            all.extend_from_slice(&record);
            let cpu = usize::from(event.cpu.0 % 2);
            let file = match buffer_of(&record) {
                Buffer::Life => 0,
                Buffer::Sched => {
                    record[10..12].copy_from_slice(&numbers[cpu].to_le_bytes());
                    numbers[cpu] = numbers[cpu].wrapping_add(1);
                    1 + cpu
                }
                Buffer::Net => 3,
            };
            files[file].extend(record);
        }
        self.keep("kernel-records", &[&[5, 9], &all]);
        self.keep("graph", &[&[1, 50, 200], &all]);
        let mut directory = Vec::new();
        for (file, records) in files.iter().enumerate().filter(|(_, records)| !records.is_empty()) {
            directory.extend_from_slice(&MARK);
            directory.push(file as u8);
            directory.extend_from_slice(records);
        }
        self.keep("recording", &[&directory]);
        self.keep("answer", &[&[0, 0, 1], &directory]);
    }
}
