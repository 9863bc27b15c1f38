//! The parts by `perf record --switch-output` are one recording of one host.

use std::fs;

use wakepath_harness::live::{document, list, run};
use wakepath_import::perf::synthetic::File;

/// Threads 7 and 8 take turns on CPU 0, in two parts; the second begins where the first ends.
fn parts() -> [File; 2] {
    let first = File::default().cpus(&[0]).switch((100, 0, 0, 0), 0, 7, "seven");
    let second = File::default().cpus(&[0]).switch((300, 0, 7, 7), 1, 8, "eight");
    [first.switch((200, 0, 7, 7), 1, 7, "seven"), second.switch((400, 0, 8, 8), 1, 7, "seven")]
}

#[test]
fn parts_given_together_or_as_a_folder_are_one_host_and_other_runs_of_it_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let within = |name: &str| folder.path().join(name);
    fs::create_dir(within("parts")).expect("room");
    let names = ["parts/perf.data.2026112813081284", "parts/perf.data.2026112813081399"];
    for (name, part) in names.iter().zip(parts()) {
        fs::write(within(name), part.bytes()).expect("room");
    }
    for given in [&names[..], &[names[1], names[0]], &["parts"]] {
        let info = document(folder.path(), &[&["info"], given].concat());
        assert_eq!(
            (list(&info["hosts"]).len(), &info["events"]["switch"]),
            (1, &4.into()),
            "{given:?}: {info}"
        );
        let codes: Vec<_> = list(&info["problems"]).iter().map(|one| &one["code"]).collect();
        assert_eq!(codes, ["no_wakings"], "{given:?}: {info}");
        run(folder.path(), &[&["path"], given].concat(), 0);
    }
    let other = parts()[1].clone().section(29, &[1; 24]).bytes();
    fs::write(within("other"), other).expect("room");
    let (_, said) = run(folder.path(), &["info", names[0], "other"], 3);
    assert!(
        said.contains("are of hosts with one name, web3, and of different runs of perf record"),
        "{said}"
    );
    let (_, said) = run(folder.path(), &["info", names[0], names[0]], 3);
    assert!(said.contains("holds records of the same time"), "{said}");
}
