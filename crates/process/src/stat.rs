//! `stat`, `status` and `cgroup` of `/proc/PID`.

use crate::text::number;

/// A process's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The main thread's state: `R`, `S`, `Z` and the like.
    pub state: u8,
    /// The process that waits for its end; 0 for the first process.
    pub parent: u32,
    /// CPU time used by all its threads, including ended threads, ticks: in the program, and in the kernel.
    pub cpu_ticks: [u64; 2],
    /// Its start, ticks since boot.
    pub started: u64,
    /// The beginning of its first stack; 0 if the reader has no right to know it.
    pub start_stack: u64,
}

impl Stat {
    /// Reads a `stat` file's text; `None` if no kernel writes such a text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        // The name may hold anything, but ends at the last parenthesis.
        let behind = text.iter().rposition(|&byte| byte == b')')?;
        let fields = text[behind + 1..].strip_prefix(b" ")?.trim_ascii_end();
        let fields: Vec<_> = fields.split(|&byte| byte == b' ').collect();
        // Numbered from 1 in proc_pid_stat(5), where the state is the third field.
        let field = |at: usize| number(fields.get(at - 3)?, 10);
        let [state] = fields.first()? else { return None };
        Some(Self {
            state: *state,
            parent: u32::try_from(field(4)?).ok()?,
            cpu_ticks: [field(14)?, field(15)?],
            started: field(22)?,
            start_stack: field(28)?,
        })
    }
}

/// A thread's named values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(Vec<u8>);

impl Status {
    /// The values in a `status` file's text.
    pub fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// The value with this name (`NSpid`), if any.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let mut lines = self.0.split(|&byte| byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
        Some(value.trim_ascii())
    }

    /// The number with this name: hexadecimal for signal sets (`SigPnd`), else decimal.
    pub fn number(&self, name: &str) -> Option<u64> {
        let radix = if name.starts_with("Sig") || name.starts_with("Shd") { 16 } else { 10 };
        number(self.field(name)?, radix)
    }
}

/// The paths in a `cgroup` file's text: each line has a number, controllers and a path.
pub fn cgroup_paths(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter_map(|line| line.splitn(3, |&byte| byte == b':').nth(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields behind the name, from the third on; each number is its field's.
    const FIELDS: &str =
        "S 4 5 6 7 -8 9 10 11 12 13 14 15 16 17 18 -19 20 21 22 23 24 18446744073709551615 26 27 28 29 30";

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let expected = Stat { state: b'S', parent: 4, cpu_ticks: [14, 15], started: 22, start_stack: 28 };
        for name in ["sh", "", ") S 1 2 3 (", "a b)", "((", "two\\nlines", "\u{fffd}"] {
            let text = format!("7 ({name}) {FIELDS}\n");
            assert_eq!(Stat::parse(text.as_bytes()), Some(expected), "{name}");
        }
        assert_eq!(Stat::parse(&[b"7 (\xff\n) ", FIELDS.as_bytes()].concat()), Some(expected));
    }

    #[test]
    fn a_text_that_no_kernel_writes_is_none() {
        let text = format!("7 (sh) {FIELDS}");
        for (part, instead) in [
            (")", ""),
            ("S 4", "SS 4"),
            ("S 4", " 4"),
            (" 4 ", " 4294967296 "),
            (" 14 ", " -14 "),
            (" 15 ", "  "),
            (" 22 ", " x "),
            (" 28 29 30", ""),
            (" 28 ", " +28 "),
            (text.as_str(), ""),
        ] {
            let wrong = text.replacen(part, instead, 1);
            assert_eq!(Stat::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text =
            b"Name:\ta\\nTracerPid: 9\nSeccomp_filters:\t3\nSeccomp:\t2\nTracerPid:\t7\nNSpid:\t42\t1\n\
            SigPnd:\t0000000000000010\nShdPnd:\tff\nNo number:\t\xff\n";
        let status = Status::new(text.to_vec());
        let names = ["Seccomp", "TracerPid", "SigPnd", "ShdPnd", "NSpid", "No number", "Sig", "nothing"];
        let numbers = [Some(2), Some(7), Some(16), Some(255), None, None, None, None];
        assert_eq!(names.map(|name| status.number(name)), numbers);
        assert_eq!(status.field("NSpid"), Some(&b"42\t1"[..]));
        assert_eq!(status.field("No number"), Some(&b"\xff"[..]));
    }

    #[test]
    fn a_path_of_a_cgroup_is_all_behind_the_second_colon() {
        let text = b"12:cpu,cpuacct:/a:b c\n1:name=systemd:/\n0::/x.slice/\xff\nnonsense\n\n";
        let expected = [&b"/a:b c"[..], b"/", b"/x.slice/\xff"];
        assert_eq!(cgroup_paths(text).collect::<Vec<_>>(), expected);
    }
}
