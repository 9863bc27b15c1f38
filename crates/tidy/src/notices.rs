//! A binary's notices: the linked packages, and their licences.
//!
//! Most allowed licences require passing on their text and the names in it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::packages::{Metadata, Package};

/// Beginnings of licence file names, in capitals.
const TEXTS: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The notices for all packages linked into `program`.
///
/// A text that several packages share word for word is printed once, below all their names.
pub fn notices(metadata: &Metadata, program: &str) -> Result<String> {
    let mut out = String::from(
        "This program holds work of others, linked into it. Each is listed with its licence as its\n\
         author states it; the texts follow.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<&Package>> = BTreeMap::new();
    for package in metadata.linked_into(program)? {
        let source = package.repository.as_deref().unwrap_or("no address given");
        let licence = package.license.as_deref().unwrap_or("no licence named");
        let _ = writeln!(out, "{} {}\n    {licence}\n    {source}", package.name, package.version);
        for text in texts_of(package)? {
            texts.entry(text).or_default().push(package);
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a[0].name.cmp(&b[0].name));
    for (text, packages) in texts {
        let names: Vec<_> = packages.iter().map(|package| package.name.as_str()).collect();
        let _ = write!(out, "\n{}\n{}\n\n{text}\n", "-".repeat(80), names.join(", "));
    }
    Ok(out)
}

/// The licence texts in a package's folder, without folders inside it.
fn texts_of(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if TEXTS.iter().any(|text| name.starts_with(text)) && entry.file_type()?.is_file() {
            let bytes = fs::read(entry.path())?;
            texts.push(String::from_utf8_lossy(&bytes).trim().replace('\r', ""));
        }
    }
    texts.sort();
    Ok(texts)
}
