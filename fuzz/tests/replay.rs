//! Every input that was kept, put through its decoder again: those that lead somewhere in
//! `fuzz/corpus`, those that once broke a law in `fuzz/found`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use wakepath_fuzz::{DECODERS, check};

fn inputs(folder: &str, decoder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(decoder);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut inputs: Vec<_> = entries.map(|entry| entry.expect("an entry of the corpus").path()).collect();
    inputs.sort();
    inputs
}

#[track_caller]
fn replay(decoder: &str) {
    let corpus = inputs("corpus", decoder);
    assert!(corpus.len() > 10, "fuzz/corpus/{decoder} has {} inputs: `make fuzz` fills it", corpus.len());
    for input in corpus.into_iter().chain(inputs("found", decoder)) {
        let bytes = fs::read(&input).expect("a readable input");
        let held = catch_unwind(AssertUnwindSafe(|| check(decoder, &bytes)));
        assert!(held.is_ok(), "{} breaks a law of the decoder {decoder}: see above", input.display());
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
        .filter_map(|folder| fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).ok())
        .flatten()
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
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
