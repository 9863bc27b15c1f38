use std::fmt;

/// Something that could not be read, or that is doubtful, in a trace that was read nonetheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, from the trace's directory on; the directory itself for what is of all of it.
    pub file: String,
    /// Which packet of the file, and where in the file, bytes.
    pub place: Option<(u64, u64)>,
    /// What is wrong there.
    pub text: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((packet, offset)) => {
                write!(f, "{}, packet {packet} at byte {offset}: {}", self.file, self.text)
            }
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}
