//! A simulated machine's `trace.dat`, for tests: the same bytes as from `trace-cmd record`.

use std::io::Write;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

pub use crate::synthetic::{EventType, Origin};
use crate::synthetic::{FIRST, Field, format, formats, raw, switch};

/// A file.
#[derive(Debug, Clone)]
pub struct File {
    version: u8,
    /// Each CPU's pages, with each page's last stamp.
    cpus: [Vec<Page>; 2],
    clock: &'static str,
    comms: &'static str,
    /// Options beyond those in every file.
    options: Vec<(u16, Vec<u8>)>,
    compression: &'static str,
    /// An instance's buffer with the same pages follows.
    instance: bool,
    /// The described tracepoints, as bits.
    asks: u64,
    /// And the tracepoints for new threads.
    births: bool,
    /// Version 7: options in front of the pages, like `trace-cmd record`.
    in_order: bool,
    /// The page size, bytes.
    size: usize,
}

#[derive(Debug, Clone, Default)]
struct Page {
    first: u64,
    last: u64,
    events: Vec<u8>,
    lost: Option<u64>,
}

/// The size of a page's head, bytes.
const HEAD: usize = 16;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:1008;\tsigned:0;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// Tracepoints for new threads, beyond those in perf's files.
const BIRTHS: [(&str, &str, u64, &[Field]); 2] = [
    ("task", "task_newtask", FORK - 1, &[("pid_t pid", 8, 4, 1), ("unsigned long clone_flags", 16, 8, 0)]),
    (
        "sched",
        "sched_process_fork",
        FORK,
        &[("pid_t parent_pid", 12, 4, 1), ("pid_t child_pid", 8, 4, 1), ("char child_comm[16]", 16, 16, 0)],
    ),
];
const FORK: u64 = 401;

impl Default for File {
    fn default() -> Self {
        Self {
            version: 7,
            cpus: Default::default(),
            clock: "mono",
            comms: "7 here\n8 there\n",
            options: vec![(5, b"Linux web3 6.1.0 #1 SMP x86_64\0".to_vec()), (9, b"3.1.6\0".to_vec())],
            compression: "none",
            instance: false,
            asks: u64::MAX,
            births: false,
            in_order: false,
            size: 1024,
        }
    }
}

impl File {
    /// Makes the file as small as possible: it describes only these tracepoints, and its pages have 128 bytes.
    pub fn only(mut self, events: &[EventType]) -> Self {
        self.asks = events.iter().fold(0, |all, &event| all | 1 << event as u64);
        self.size = 128;
        self
    }

    /// Sets the version: 6 or 7.
    pub const fn version(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// By this clock.
    pub const fn clock(mut self, clock: &'static str) -> Self {
        self.clock = clock;
        self
    }

    /// Compressed, if the version allows it; by zlib or zstd, or allegedly by another method.
    pub const fn compressed(mut self, by: &'static str) -> Self {
        self.compression = by;
        self
    }

    /// With another option.
    pub fn option(mut self, id: u16, content: &[u8]) -> Self {
        self.options.push((id, content.to_vec()));
        self
    }

    /// Version 7 in `trace-cmd record`'s order: the facts, the pages, and their places.
    pub const fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// The same events are in an instance's buffer, too.
    pub fn instance(mut self) -> Self {
        self.instance = true;
        self
    }

    /// Begins a CPU's next page. `lost` events were lost before it; `None`: no loss, 0: an unknown number.
    pub fn page(mut self, cpu: u32, lost: Option<u64>) -> Self {
        self.cpus[cpu as usize].push(Page { lost, ..Page::default() });
        self
    }

    /// Puts unchanged words into a CPU's page, at this time.
    pub fn words(mut self, (at, cpu): (u64, u32), words: &[u32]) -> Self {
        let page = self.sheet(cpu, at, words.len() * 4);
        page.last = at;
        page.events.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self
    }

    /// The page with room for an event with this size and time.
    fn sheet(&mut self, cpu: u32, at: u64, bytes: usize) -> &mut Page {
        let (pages, size) = (&mut self.cpus[cpu as usize], self.size);
        let room = |page: &Page| size - HEAD - page.events.len() - 8;
        if pages.last().is_none_or(|page| room(page) < bytes) {
            pages.push(Page::default());
        }
        let origin = pages.len() - 1;
        let page = &mut pages[origin];
        if page.events.is_empty() {
            (page.first, page.last) = (at, at);
        }
        page
    }

    /// An event with these bytes at these offsets, for a tracepoint with this number.
    fn event(mut self, id: u64, (at, cpu, _, tid): Origin, fields: &[(usize, &[u8])]) -> Self {
        let raw = raw(id, tid, fields);
        let page = self.sheet(cpu, at, raw.len() + 16);
        let mut delta = at - page.last;
        page.last = at;
        let words = raw.len() / 4;
        if delta >> 27 != 0 {
            page.events
                .extend([30 | (delta as u32) << 5, (delta >> 27) as u32].map(u32::to_le_bytes).concat());
            delta = 0;
        }
        if words <= 28 {
            page.events.extend((words as u32 | (delta as u32) << 5).to_le_bytes());
        } else {
            page.events.extend([(delta as u32) << 5, raw.len() as u32 + 4].map(u32::to_le_bytes).concat());
        }
        page.events.extend(raw);
        self
    }

    /// A tracepoint with these bytes at these offsets.
    pub fn tracepoint(self, event: EventType, origin: Origin, fields: &[(usize, &[u8])]) -> Self {
        self.event(FIRST + event as u64, origin, fields)
    }

    /// The thread in `origin` leaves its CPU to another.
    pub fn switch(self, origin: Origin, state: i64, next: u32, comm: &str) -> Self {
        switch(origin, state, next, comm, |fields| self.tracepoint(EventType::Switch, origin, fields))
    }

    /// The thread in `origin` wakes another.
    pub fn waking(self, origin: Origin, target: u32) -> Self {
        self.tracepoint(EventType::Waking, origin, &[(12, &target.to_le_bytes())])
    }

    /// The thread in `origin` makes another, named `comm`: a thread in its process or a process.
    pub fn birth(mut self, origin: Origin, child: u32, thread: bool, comm: &str) -> Self {
        self.births = true;
        let (own, child) = (origin.3.to_le_bytes(), child.to_le_bytes());
        let flags = u64::from(thread) << 16 | 0x3d00;
        let comm: Vec<u8> = comm.bytes().chain([0; 16]).take(16).collect();
        self.event(FORK - 1, origin, &[(8, &child), (16, &flags.to_le_bytes())]).event(
            FORK,
            origin,
            &[(8, &child), (12, &own), (16, &comm)],
        )
    }

    /// Each CPU's pages as in the file.
    fn pages(&self) -> [Vec<u8>; 2] {
        let page = |page: &Page| {
            let lost = page.lost.map_or(0, |count| 1_u64 << 31 | u64::from(count > 0) << 30);
            let mut bytes = [page.first, page.events.len() as u64 | lost].map(u64::to_le_bytes).concat();
            bytes.extend(&page.events);
            bytes.extend(page.lost.unwrap_or(0).to_le_bytes());
            bytes.resize(self.size, 0);
            bytes
        };
        [0, 1].map(|cpu: usize| self.cpus[cpu].iter().flat_map(page).collect())
    }

    /// The bytes of the whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"\x17\x08\x44tracing".to_vec();
        file.extend([b'0' + self.version, 0, 0, 8]);
        file.extend((self.size as u32).to_le_bytes());
        if self.version == 6 { self.version_6(file) } else { self.version_7(file) }
    }

    fn version_6(&self, mut file: Vec<u8>) -> Vec<u8> {
        file.extend(info());
        file.extend(own());
        file.extend(self.descriptions());
        for text in ["ffff t _text\n", "0x1 : \"%d\"\n"] {
            file.extend((text.len() as u32).to_le_bytes());
            file.extend(text.as_bytes());
        }
        file.extend(long_text(self.comms));
        file.extend(2_u32.to_le_bytes());
        file.extend(b"options  \0");
        for (id, content) in &self.options {
            file.extend(option(*id, content));
        }
        // An instance's table, which stands behind all else; and the clock's word is behind the table.
        let instance = file.len() + 6;
        if self.instance {
            file.extend(option(3, &[&[0; 8][..], b"other\0"].concat()));
        }
        file.extend(option(4, &[]));
        file.extend([0; 2]);
        file.extend(b"flyrecord\0");
        self.table(&mut file);
        if self.instance {
            let at = file.len() as u64;
            file[instance..instance + 8].copy_from_slice(&at.to_le_bytes());
            file.extend(b"flyrecord\0");
            self.table(&mut file);
        }
        file
    }

    /// Version 6: the places of the CPUs' pages, the clock, and the pages.
    fn table(&self, file: &mut Vec<u8>) {
        let pages = self.pages();
        let clock = format!("local [{}] tai", self.clock);
        let mut at = (file.len() + 2 * 16 + 8 + clock.len()).next_multiple_of(self.size);
        let from = at;
        for pages in &pages {
            file.extend([at as u64, pages.len() as u64].map(u64::to_le_bytes).concat());
            at += pages.len();
        }
        file.extend(long_text(&clock));
        file.resize(from, 0);
        file.extend(pages.concat());
    }

    fn version_7(&self, mut file: Vec<u8>) -> Vec<u8> {
        file.extend([self.compression.as_bytes(), b"\x001.0\0"].concat());
        let first = file.len();
        file.extend([0; 8]);
        let mut options = self.options.clone();
        for (id, content) in
            [(16, info()), (17, own()), (18, self.descriptions()), (21, long_text(self.comms))]
        {
            options.push((id, (file.len() as u64).to_le_bytes().to_vec()));
            self.section(&mut file, id, &content);
        }
        let mut place = first;
        if self.in_order {
            options.extend([(4, self.clock.as_bytes().to_vec()), (0, vec![0; 8])]);
            let (at, content) = (file.len() as u64, contents(&options));
            file[first..first + 8].copy_from_slice(&at.to_le_bytes());
            self.section(&mut file, 0, &content);
            // The last option leads to the next options.
            place = file.len() - 8;
            options.clear();
        }
        options.push((3, self.buffer(&mut file, "")));
        if self.instance {
            options.insert(0, (3, self.buffer(&mut file, "other")));
        }
        let at = (file.len() as u64).to_le_bytes();
        file[place..place + 8].copy_from_slice(&at);
        options.push((0, vec![0; 8]));
        self.section(&mut file, 0, &contents(&options));
        file
    }

    fn descriptions(&self) -> Vec<u8> {
        let births = BIRTHS.iter().filter(|_| self.births);
        let births = births.map(|(system, name, id, fields)| (*system, format(name, *id, fields)));
        let all: Vec<_> = formats(self.asks).into_iter().chain(births).collect();
        let mut section = (all.len() as u32).to_le_bytes().to_vec();
        for (system, text) in all {
            section.extend([system.as_bytes(), b"\0", &1_u32.to_le_bytes(), &long_text(&text)].concat());
        }
        section
    }

    fn packs(&self) -> bool {
        self.compression != "none"
    }

    fn section(&self, file: &mut Vec<u8>, id: u16, content: &[u8]) {
        // trace-cmd leaves options as they are.
        let packs = self.packs() && !(id == 0 && self.in_order);
        file.extend([id, u16::from(packs)].map(u16::to_le_bytes).concat());
        file.extend(0_u32.to_le_bytes());
        let content = if packs { chunk(content, self.compression) } else { content.to_vec() };
        file.extend((content.len() as u64).to_le_bytes());
        file.extend(content);
    }

    /// Version 7: a buffer's section, and the option that leads to it.
    fn buffer(&self, file: &mut Vec<u8>, name: &str) -> Vec<u8> {
        let at = file.len();
        file.extend([3, u16::from(self.packs())].map(u16::to_le_bytes).concat());
        file.extend([0; 12]);
        file.resize(file.len().next_multiple_of(self.size), 0);
        let mut option = (at as u64).to_le_bytes().to_vec();
        option.extend([name.as_bytes(), b"\0", self.clock.as_bytes(), b"\0"].concat());
        option.extend([self.size as u32, 2].map(u32::to_le_bytes).concat());
        for (cpu, pages) in self.pages().into_iter().enumerate() {
            file.resize(file.len().next_multiple_of(self.size), 0);
            let from = file.len() as u64;
            let pages = if self.packs() && !pages.is_empty() {
                // Two pages at a time.
                let chunks: Vec<_> =
                    pages.chunks(2 * self.size).map(|pages| chunk(pages, self.compression)).collect();
                file.extend((chunks.len() as u32).to_le_bytes());
                chunks.concat()
            } else {
                pages
            };
            option.extend((cpu as u32).to_le_bytes());
            option.extend([from, pages.len() as u64].map(u64::to_le_bytes).concat());
            file.extend(pages);
        }
        let size = (file.len() - at - 16) as u64;
        file[at + 8..at + 16].copy_from_slice(&size.to_le_bytes());
        option
    }
}

fn contents(options: &[(u16, Vec<u8>)]) -> Vec<u8> {
    options.iter().flat_map(|(id, content)| option(*id, content)).collect()
}

fn option(id: u16, content: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &(content.len() as u32).to_le_bytes(), content].concat()
}

/// A text behind its size.
fn long_text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Compressed content, behind both sizes.
fn chunk(content: &[u8], by: &str) -> Vec<u8> {
    let packed = if by == "zstd" {
        compress_to_vec(content, CompressionLevel::Fastest)
    } else {
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(content).expect("memory has no errors");
        packed.finish().expect("memory has no errors")
    };
    [&[packed.len() as u32, content.len() as u32].map(u32::to_le_bytes).concat()[..], &packed].concat()
}

fn info() -> Vec<u8> {
    [b"header_page\0".to_vec(), long_text(HEADER_PAGE), b"header_event\0".to_vec(), long_text(HEADER_EVENT)]
        .concat()
}

/// A single format for ftrace's own events.
fn own() -> Vec<u8> {
    [1_u32.to_le_bytes().to_vec(), long_text("name: print\nID: 5\nformat:\n")].concat()
}
