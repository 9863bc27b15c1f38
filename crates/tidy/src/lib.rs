//! Checks of the tree itself, run as tests: the layers in ARCHITECTURE.md against the crates, the
//! dependencies' licences, rules for files and for language, and documents against the things that they name.
//!
//! Every check is a function from text to findings, so that each can be shown to fail; only [`tree`],
//! [`packages`] and [`notices`] read the disk. Nothing here uses the network.

pub mod budget;
pub mod documents;
pub mod files;
pub mod language;
pub mod layers;
pub mod licences;
pub mod noisy;
pub mod notices;
pub mod packages;
pub mod tree;

/// The platform for all builds. Packages for other targets are neither built nor shipped.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// An error: its place, and its correction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// A path within the tree, with `:LINE` if known, or a package.
    pub place: String,
    /// The error, and its correction.
    pub text: String,
}

impl Finding {
    /// A finding at a place.
    pub fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// The line of a byte in a text, from 1.
fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte].iter().filter(|byte| **byte == b'\n').count() + 1
}
