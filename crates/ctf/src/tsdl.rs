//! TSDL, the language for CTF metadata (CTF 1.8, section 7 and appendix C).

mod facts;
mod file;
mod lexer;
mod names;
mod read;
mod tokens;
mod types;
mod write;

pub(crate) use facts::read_uuid;
pub use facts::{Facts, read_facts};
pub use file::{MetadataError, text_of_file};
pub use lexer::TsdlError;
pub use read::read;
pub use write::{uuid_text, write};
