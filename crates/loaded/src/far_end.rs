//! Processes able to end a thread's wait, as they were at the recording's start.

use wakepath_event::Tid;

use crate::Name;

/// The way in which processes could end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FarEndKind {
    /// They may write into the awaited pipe.
    Writers,
    /// They may read from the full pipe.
    Readers,
    /// They have the connection's other end.
    Peer,
    /// They have the listening socket; none has accepted the connection.
    Listener,
    /// It took the lock.
    Holder,
    /// There were too many descriptors to search.
    Unsearched,
    /// They answer for file systems in user space, perhaps for the asked file system.
    Daemon,
    /// Something else could end the wait, too: it is not known what.
    Other,
}

/// The far ends in a thread's wait at the recording's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarEnds {
    /// Its system call's number.
    pub call: u32,
    /// The call's first argument.
    pub argument: u64,
    /// A far end for each awaited thing.
    pub ends: Vec<FarEnd>,
    /// The kernel's functions in which it was blocked, innermost first; none where the call says enough.
    pub kernel: Vec<Box<str>>,
    /// The file to be opened, without its path.
    pub file: Option<Name>,
    /// Neither a time-out nor another process could end the wait: none can open a pipe without a name.
    pub are_all: bool,
}

/// An awaited thing's far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarEnd {
    /// The way.
    pub kind: FarEndKind,
    /// The processes; none if there is no such process on this host.
    pub processes: Vec<Tid>,
}

/// The most functions of a blocked thread; further ones are left out.
const MAX_FUNCTIONS: usize = 32;
/// The most processes in a far end; further processes are left out.
const MAX_PROCESSES: usize = 64;

impl FarEnds {
    /// The far ends in a recorded text, `call 7 0x7ffd` or `call 0 0x3 all`, a line for each, perhaps `kernel fifo_open …`, and
    /// behind a zero byte a file's name; senseless lines are left out.
    /// `thread` is the waiting thread, on whose host the processes are.
    pub(crate) fn parse(text: &[u8], thread: Tid) -> Option<Self> {
        // The file is the last line, since its name may have any bytes.
        let mut parts = text.splitn(2, |byte| *byte == 0);
        let text = String::from_utf8_lossy(parts.next()?);
        let mut lines = text.lines();
        let (call, argument) = lines.next()?.strip_prefix("call ")?.split_once(" 0x")?;
        let (argument, are_all) =
            argument.strip_suffix(" all").map_or((argument, false), |argument| (argument, true));
        let (call, argument) = (call.parse().ok()?, u64::from_str_radix(argument, 16).ok()?);
        // A line without a meaning here may be about another process.
        let (mut are_understood, mut kernel) = (true, Vec::new());
        let ends = lines.filter_map(|line| {
            if let Some(functions) = line.strip_prefix("kernel ") {
                kernel = functions.split(' ').take(MAX_FUNCTIONS).map(Box::from).collect();
                return None;
            }
            let end = FarEnd::parse(line, thread);
            are_understood &= end.is_some();
            end
        });
        let ends = ends.collect();
        let file = parts.next().map(Name::from);
        Some(Self { call, argument, ends, kernel, file, are_all: are_all && are_understood })
    }
}

impl FarEnd {
    fn parse(line: &str, thread: Tid) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = match words.next()? {
            "writers" => FarEndKind::Writers,
            "readers" => FarEndKind::Readers,
            "peer" => FarEndKind::Peer,
            "listener" => FarEndKind::Listener,
            "holder" => FarEndKind::Holder,
            "unsearched" => FarEndKind::Unsearched,
            "daemon" => FarEndKind::Daemon,
            "other" => FarEndKind::Other,
            _ => return None,
        };
        let numbers = words.take(MAX_PROCESSES).map(|word| word.parse::<u32>().ok());
        let processes: Option<Vec<Tid>> =
            numbers.map(|number| Some(Tid(number?).on(thread.host()))).collect();
        Some(Self { kind, processes: processes? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_far_end_and_senseless_lines_are_left_out() {
        let end =
            |kind, processes: &[u32]| FarEnd { kind, processes: processes.iter().map(|p| Tid(*p)).collect() };
        let all = "call 7 0x1f\nwriters 5 6\nreaders\npeer 7\nlistener 8\nholder 9\nunsearched\nother\nfriends 1\nwriters x\n\n";
        assert_eq!(
            FarEnds::parse(all.as_bytes(), Tid(3)).map(|all| (all.call, all.argument, all.ends)),
            Some((
                7,
                31,
                vec![
                    end(FarEndKind::Writers, &[5, 6]),
                    end(FarEndKind::Readers, &[]),
                    end(FarEndKind::Peer, &[7]),
                    end(FarEndKind::Listener, &[8]),
                    end(FarEndKind::Holder, &[9]),
                    end(FarEndKind::Unsearched, &[]),
                    end(FarEndKind::Other, &[]),
                ]
            ))
        );
        let are_all = |text: &str| FarEnds::parse(text.as_bytes(), Tid(3)).is_some_and(|ends| ends.are_all);
        let texts =
            ["call 0 0x3 all\nwriters 5", "call 0 0x3\nwriters 5", "call 0 0x3 all\nwriters 5\nfriends 1"];
        assert_eq!(texts.map(are_all), [true, false, false]);
        let more = FarEnds::parse(
            b"call 257 0x0\nreaders\nkernel wait_for_partner fifo_open\0a\nwriters 5\xff",
            Tid(3),
        );
        let more = more.expect("ends");
        assert_eq!((more.ends.len(), more.kernel.len()), (1, 2));
        assert_eq!(more.file, Some(Name::from(&b"a\nwriters 5\xff"[..])));
        let deep = format!("call 0 0x3 all\nkernel{}", " f".repeat(1_000));
        let deep = FarEnds::parse(deep.as_bytes(), Tid(3)).expect("ends");
        assert_eq!((deep.kernel.len(), deep.are_all, deep.file), (MAX_FUNCTIONS, true, None));
        let other = Tid(3).on(wakepath_event::HostIndex(1));
        let there = FarEnds::parse(b"call 0 0x3\npeer 7", other).expect("ends").ends;
        assert_eq!(there[0].processes, [Tid(7).on(wakepath_event::HostIndex(1))]);
        let many = format!("call 0 0x3\nwriters{}", " 4".repeat(1_000));
        assert_eq!(
            FarEnds::parse(many.as_bytes(), Tid(3)).expect("ends").ends[0].processes.len(),
            MAX_PROCESSES
        );
        for bad in ["", "peer 7", "call", "call 7", "call x 0x1", "call 7 0xz", "call 7 0x1 many"] {
            assert_eq!(FarEnds::parse(bad.as_bytes(), Tid(3)), None, "{bad}");
        }
    }
}
