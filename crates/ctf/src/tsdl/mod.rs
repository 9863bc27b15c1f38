//! TSDL, the language of CTF metadata (CTF 1.8, section 7 and appendix C).

mod facts;
mod lexer;
mod write;

pub use facts::{Facts, read_facts};
pub use lexer::TsdlError;
pub use write::write;
