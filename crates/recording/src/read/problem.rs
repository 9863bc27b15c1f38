use std::fmt;

/// Something in a recording that is not as it was written. What could be read is there nonetheless,
/// and what could not is a loss among the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadProblem {
    /// The file, from the recording's directory on.
    pub file: String,
    /// Where in it, bytes.
    pub offset: u64,
    /// What is wrong there.
    pub text: String,
}

impl fmt::Display for ReadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.text)
    }
}

/// The problems of one stream. A file of nothing but damage does not fill memory with complaints.
#[derive(Debug)]
pub(super) struct Problems {
    file: String,
    listed: Vec<ReadProblem>,
    more: u64,
}

/// Most problems that are told of one stream.
const MAX_PROBLEMS: usize = 100;

impl Problems {
    pub const fn new(file: String) -> Self {
        Self { file, listed: Vec::new(), more: 0 }
    }

    pub fn add(&mut self, offset: u64, text: impl fmt::Display) {
        if self.listed.len() < MAX_PROBLEMS {
            self.listed.push(ReadProblem { file: self.file.clone(), offset, text: text.to_string() });
        } else {
            self.more += 1;
        }
    }

    pub fn finish(mut self) -> Vec<ReadProblem> {
        if let (1.., Some(last)) = (self.more, self.listed.last()) {
            let (offset, text) = (last.offset, format!("and {} more problems behind this one", self.more));
            self.listed.push(ReadProblem { file: self.file, offset, text });
        }
        self.listed
    }
}
