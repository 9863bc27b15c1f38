//! `packaging/fuzz`: a search that ends by itself, finds no decoder or cannot keep its inputs is a failure. Scripts stand in
//! for cargo, for the fuzzer and for the packing programs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// `cargo build` makes the fuzzer, which behaves as `DOES` says; each merge keeps an additional input.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = build ] || { mkdir -p "${7:-seeds}"; exit 0; }
folder=$CARGO_TARGET_DIR/$(rustc -vV | sed -n 's/^host: //p')/release
mkdir -p "$folder"
cat >"$folder/wakepath-libfuzzer" <<'END'
#!/bin/sh
case "$1" in -set_cover_merge=1) for corpus in "$@"; do case $corpus in */corpus/*) echo >"$corpus/input" ;; esac; done; exit 0 ;; esac
case "$DOES" in
dies) kill -9 $$ ;;
ends) exit 0 ;;
finds) echo "Test unit written to fuzz/found/it/crash"; exit 77 ;;
esac
trap 'exit 0' USR1
while :; do :; done
END
chmod +x "$folder/wakepath-libfuzzer"
"#;

/// Searches for a second of CPU time with this fuzzer behaviour. Returns whether it succeeds, its output, and the archive of
/// inputs.
fn fuzz(does: &str, decoders: &str, tar: &str) -> (bool, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["packaging", "bin", "fuzz/src", "fuzz/libfuzzer", "fuzz/corpus", "lab/results"] {
        std::fs::create_dir_all(at(name)).expect("a folder");
    }
    let script = |name: &str, text: &str| {
        std::fs::write(at(name), text).expect("written");
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(0o755)).expect("executable");
    };
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fuzz");
    script("packaging/fuzz", &std::fs::read_to_string(packaging).expect("packaging/fuzz"));
    script("bin/cargo", CARGO);
    script("bin/tar", tar);
    script("bin/zstd", "#!/bin/sh\ncat\n");
    std::fs::write(at("fuzz/src/lib.rs"), decoders).expect("written");
    std::fs::write(at("lab/results/fuzz.md"), "").expect("written");
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").expect("a path"));
    let mut command = Command::new(at("packaging/fuzz"));
    let output = command.arg("1s").env("PATH", path).env("DOES", does).output().expect("packaging/fuzz");
    let said = [output.stdout, output.stderr].concat();
    let archive = std::fs::read_to_string(at("fuzz/corpus/it.tar.zst")).unwrap_or_default();
    (output.status.success(), String::from_utf8(said).expect("text"), archive)
}

const DECODERS: &str = "    (\"it\", it::check),\n";
const TAR: &str = "#!/bin/sh\necho packed\n";

#[test]
fn a_search_that_is_stopped_when_its_time_is_over_succeeds_and_keeps_inputs() {
    let (succeeded, said, archive) = fuzz("runs", DECODERS, TAR);
    assert!(succeeded && said.contains("1 of them kept, nothing"), "{said}");
    assert_eq!(archive, "packed\n");
}

#[test]
fn a_search_that_ends_by_itself_or_finds_something_is_a_failure() {
    for (does, expected) in [
        ("ends", "the search ended by itself, with code 0"),
        ("dies", "the search ended by itself, with code 137"),
        ("finds", "a law is broken by fuzz/found/it/crash"),
    ] {
        let (succeeded, said, _) = fuzz(does, DECODERS, TAR);
        assert!(!succeeded && said.contains(expected), "{does}: {said}");
    }
}

#[test]
fn a_list_without_decoders_is_a_failure() {
    let (succeeded, said, _) = fuzz("runs", "", TAR);
    assert!(!succeeded && said.contains("no decoder is found"), "{said}");
}

#[test]
fn inputs_that_cannot_be_packed_are_a_failure_and_leave_the_archive_as_it_is() {
    let (succeeded, said, archive) = fuzz("runs", DECODERS, "#!/bin/sh\necho half\nexit 1\n");
    assert!(!succeeded && said.contains("the corpus of it cannot be packed"), "{said}");
    assert_eq!(archive, "");
}
