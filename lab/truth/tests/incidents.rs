//! Incidents planted beside a wakepath that is a script, so that its answers are known.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use wakepath_truth::incidents::{self, Checked, IncidentVerdict, TwinVerdict};

/// An incident, 600 ms long: a script that writes how long the cause held it, with and without the cause.
const INCIDENT: &str = "# cause: it sleeps
# size: 600 ms
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: indexer
# says: sleeping
# never: running
# json: rows code=timer
[ \"$TWIN\" ] && echo \"twin 0.01\" >>$PLANTED
grep -lz \"^$PWD/spinner\" /proc/[0-9]*/cmdline 2>/dev/null | wc -l >spinners
true
";

/// A wakepath: runs the command, prints `$first`, or `$second` with the option, or `$twin` for a twin, and as its
/// document a row of 600 ms.
fn wakepath(folder: &Path, first: &str, second: &str, twin: &str) -> PathBuf {
    let file = folder.join("wakepath");
    let text = format!(
        "#!/bin/sh
case \"$*\" in *--json) echo '{{\"rows\": [{{\"code\": \"timer\", \"total_ns\": 600000000}}]}}'; exit;; esac
said='{first}'
case \"$*\" in *--failed-calls*) said='{second}';; esac
[ \"$TWIN\" ] && said='{twin}'
while [ \"$1\" != -- ]; do shift; done; shift; \"$@\"
echo \"$said\" >&2
echo \"running 600 ms: the program says so itself\"
"
    );
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

const RIGHT: &str = "nap took 1 s: mostly sleeping\\n 60%   600 ms  sleeping (indexer)";
const SHORT: &str = "nap took 1 s: mostly unknown\\n 60%   600 ms  unknown";
const FALSE: &str = "nap took 1 s: mostly running\\n 60%   600 ms  running";
const CLEAN: &str = "nap took 1 s: mostly computing";

/// Plants the incident beside this wakepath; the folder of the planted run, and the answer.
fn ask(first: &str, second: &str, twin: &str) -> (tempfile::TempDir, Checked) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("scripts");
    fs::create_dir(&scripts).unwrap();
    fs::write(scripts.join("nap.sh"), INCIDENT).unwrap();
    let incident = incidents::scripts(&scripts, &[]).unwrap().remove(0);
    let wakepath = wakepath(folder.path(), first, second, twin);
    let checked = incidents::ask(&wakepath, &incident, &folder.path().join("nap"), true);
    (folder, checked)
}

#[test]
fn a_second_command_is_asked_only_where_the_first_is_not_right() {
    for (first, second, verdict, commands) in [
        (RIGHT, FALSE, IncidentVerdict::Right, 1),
        (SHORT, RIGHT, IncidentVerdict::Right, 2),
        (FALSE, RIGHT, IncidentVerdict::Wrong("the screen says `running`".to_owned()), 1),
        (SHORT, FALSE, IncidentVerdict::Wrong("the screen says `running`".to_owned()), 2),
    ] {
        let (_folder, checked) = ask(first, second, CLEAN);
        assert_eq!((checked.verdict, checked.commands), (verdict, commands), "{first} {second}");
    }
}

#[test]
fn a_twin_whose_headline_names_the_cause_is_wrong_idle_and_beside_load() {
    let (_folder, checked) = ask(RIGHT, RIGHT, CLEAN);
    assert!(checked.twins.iter().all(|twin| matches!(twin, TwinVerdict::Right(_))), "{:?}", checked.twins);
    assert_eq!(checked.twins.len(), 2);
    let (_folder, checked) = ask(RIGHT, RIGHT, RIGHT);
    assert!(checked.twins.iter().all(|twin| matches!(twin, TwinVerdict::Wrong(..))), "{:?}", checked.twins);
    assert_eq!(checked.twins.len(), 2);
}

#[test]
fn only_the_last_twin_has_a_spinning_process_for_each_cpu_beside_it() {
    let (folder, _) = ask(RIGHT, RIGHT, CLEAN);
    let spinners = |run: &str| -> usize {
        fs::read_to_string(folder.path().join(run).join("spinners")).unwrap().trim().parse().unwrap()
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(["nap", "nap.twin", "nap.loaded-twin"].map(spinners), [0, 0, cpus]);
}
