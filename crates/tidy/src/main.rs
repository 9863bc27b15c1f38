//! Prints a binary's notices: `wakepath-tidy notices PACKAGE`.

use std::io::Write;

use anyhow::{Result, bail};
use wakepath_tidy::packages::Metadata;
use wakepath_tidy::tree::Tree;
use wakepath_tidy::{TARGET, notices};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["notices", package] => {
            let tree = Tree::from_checkout()?;
            let text = notices::notices(&Metadata::read(tree.root(), TARGET)?, package)?;
            Ok(std::io::stdout().write_all(text.as_bytes())?)
        }
        _ => bail!(
            "usage: wakepath-tidy notices PACKAGE\n(the checks themselves are tests: cargo test -p wakepath-tidy)"
        ),
    }
}
