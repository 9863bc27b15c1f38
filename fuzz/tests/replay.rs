//! Every kept input, put through its decoder again: the inputs in `fuzz/corpus`, which reach new
//! code, and in `fuzz/found`, which once broke a law.

use std::fs::{self, File};
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use wakepath_fuzz::{DECODERS, check};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The inputs packed in `fuzz/corpus/DECODER.tar.zst`: each name with its bytes.
fn corpus(decoder: &str) -> Vec<(String, Vec<u8>)> {
    let path = folder("corpus").join(format!("{decoder}.tar.zst"));
    let packed = File::open(&path).expect("a packed corpus: `make fuzz` makes it");
    let unpacked = ruzstd::decoding::StreamingDecoder::new(packed).expect("a frame of zstd");
    let mut archive = tar::Archive::new(unpacked);
    let entries = archive.entries().expect("an archive");
    let input = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.expect("an entry of the archive");
        let name = format!("{}: {}", path.display(), entry.path().expect("a name").display());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the whole input");
        (name, bytes)
    };
    entries.map(input).collect()
}

/// The inputs in the folder `fuzz/found/DECODER`, if it exists: each path with its bytes.
fn found(decoder: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder("found").join(decoder)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry of the folder").path()).collect();
    paths.sort();
    paths.iter().map(|path| (path.display().to_string(), fs::read(path).expect("a readable input"))).collect()
}

#[track_caller]
fn replay(decoder: &str) {
    let (corpus, found) = (corpus(decoder), found(decoder));
    assert!(
        corpus.len() > 10,
        "fuzz/corpus/{decoder}.tar.zst has {} inputs: `make fuzz` adds some",
        corpus.len()
    );
    println!("{decoder}: {} inputs of fuzz/corpus, {} of fuzz/found", corpus.len(), found.len());
    for (name, bytes) in corpus.into_iter().chain(found) {
        let held = catch_unwind(AssertUnwindSafe(|| check(decoder, &bytes)));
        assert!(held.is_ok(), "{name} breaks a law of the decoder {decoder}: see above");
    }
}

#[test]
fn every_kept_input_is_read_to_its_end_or_refused_and_breaks_no_law() {
    std::thread::scope(|scope| {
        for (decoder, _) in DECODERS {
            scope.spawn(move || replay(decoder));
        }
    });
}

#[test]
fn every_decoder_has_inputs_and_every_kept_input_has_a_decoder() {
    let mut decoders: Vec<_> = DECODERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    decoders.sort();
    let mut kept: Vec<_> = ["corpus", "found"]
        .iter()
        .flat_map(|name| fs::read_dir(folder(name)).expect("a folder of inputs"))
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .map(|name| name.strip_suffix(".tar.zst").unwrap_or(&name).to_owned())
        .collect();
    kept.sort();
    kept.dedup();
    assert_eq!(kept, decoders);
}
