//! Every input that was kept, put through its decoder again: those that lead somewhere in
//! `fuzz/corpus`, those that once broke a law in `fuzz/found`.

use std::fs::{self, File};
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use wakepath_fuzz::{DECODERS, check};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The inputs packed in `fuzz/corpus/DECODER.tar.zst`: the name and the bytes of each.
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

/// The inputs in the folder `fuzz/found/DECODER`, if there is one: the path and the bytes of each.
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
fn records_of_any_bytes_are_decoded_or_refused() {
    replay("kernel-records");
}

#[test]
fn metadata_and_packets_of_any_bytes_are_read_or_refused() {
    replay("ctf");
}

#[test]
fn a_trace_of_any_tracer_is_read_to_its_end_or_refused() {
    replay("trace");
}

#[test]
fn a_file_of_perf_is_read_to_its_end_or_refused() {
    replay("perf-data");
}

#[test]
fn a_file_of_trace_cmd_is_read_to_its_end_or_refused() {
    replay("trace-dat");
}

#[test]
fn a_directory_of_anything_is_read_to_its_end_or_refused() {
    replay("recording");
}

#[test]
fn every_path_over_any_events_ends_and_adds_up() {
    replay("graph");
}

#[test]
fn every_view_of_any_recording_is_text_and_documents_that_drive_no_terminal() {
    replay("answer");
}

#[test]
fn words_of_any_kind_are_understood_or_refused() {
    replay("words");
}

#[test]
fn every_decoder_is_replayed_and_every_kept_input_has_a_decoder() {
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
    // The tests above, one each.
    let source = include_str!("replay.rs");
    for decoder in decoders {
        assert!(source.contains(&format!("replay(\"{decoder}\");")), "{decoder} is not replayed");
    }
}
