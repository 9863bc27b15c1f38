//! Recorders linked with each other, with a program in place of ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use wakepath_harness::live::{WAKEPATH, command, place, run, texts};

use crate::recorder::{Recorder, wakepath_loaded, window};
use crate::{SLOW, Server, explains, now};

/// Takes the place of ssh: runs another host's command line here. Its words are `-o X -o Y -- HOST COMMAND`.
const SSH: &str = "#!/bin/sh
[ \"$1 $2 $3 $5\" = '-o BatchMode=yes -o --' ] || exit 9
[ \"$6\" = web2 ] || { echo \"ssh: unknown host $6\" >&2; exit 255; }
exec sh -c \"$7\"
";

#[test]
fn linked_recorders_keep_the_same_moment_and_ask_each_other_once() {
    let Some(folder) = place("linked recorders keep the same moment") else { return };
    let ssh = folder.join("ssh");
    fs::write(&ssh, SSH).expect("a file");
    fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).expect("its mode");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let (one, two) = (folder.join("one"), folder.join("two"));
    let link = |to: &Path| format!("web2:{}", to.display());
    let program = WAKEPATH.to_string();
    let start = |at: &Path, to: &Path, more: &[&str]| {
        fs::create_dir(at).expect("a folder");
        let link = link(&to.join("flight"));
        let options = ["--flight", "5s", "--flight-after", "1s", "--flight-link", &link];
        let options = [&options, &["--remote-program", &program][..], more].concat();
        Recorder::start_with(at, &at.join("flight"), &options, &path)
    };
    let mut first = start(&one, &two, &["--trigger-span", SLOW]);
    let mut second = start(&two, &one, &[]);
    let mut server = Server::start(first.address);

    // A slow span at the first recorder. Each keeps it, and the second does not ask the first again.
    let slow = server.slow();
    let (_, here) = first.nth(1);
    let (line, there) = second.nth(1);
    assert!(line.contains("a linked recorder") && there.to_string_lossy().ends_with("-link"), "{line}");
    let is_said = |recorder: &Recorder| !recorder.kept_by_others().is_empty();
    first.wait_until("it says what the other one kept", is_said);
    explains(&one, &here, &slow);
    let ends_together = |here: &Path, there: &Path| {
        let (to, to_there) = (window(here).1, window(there).1);
        assert!(to.abs_diff(to_there) <= TOGETHER, "{to} and {to_there}");
    };
    ends_together(&here, &there);
    assert!(window(&there).0 <= slow.from, "the other host's recording has the slow request's time");

    // A user at the second recorder, for a past moment.
    let at = now().1 - 1_500_000_000;
    let at = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
    let (out, _) = run(&two, &["trigger", "flight", "--at", &at], 0);
    let there = two.join(out.trim());
    second.wait_until("the first one kept it", is_said);
    let here = first.said().lines().filter(|line| line.contains(": a linked recorder")).count();
    assert_eq!(here, 1, "{}", first.said());
    let kept = wakepath_loaded(&one.join("flight"));
    let here = kept.iter().find(|name| name.ends_with("-link")).expect("its recording");
    ends_together(&one.join("flight").join(here), &there);
    let ended = window(&there).1;
    let (monotonic, realtime) = now();
    let at_monotonic = monotonic - (realtime - at.replace('.', "").parse::<u64>().expect("a number"));
    assert!(ended.abs_diff(at_monotonic + 1_000_000_000) <= TOGETHER, "it ends a second behind the moment");

    // Both at once, and a host that does not exist.
    let both = ["trigger", "one/flight", &link(&two.join("flight")), "web3:/flight", "--linked"];
    let both = [&both[..], &["--remote-program", &program]].concat();
    let output = command(&folder, &both).env("PATH", &path).output().expect("wakepath");
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("error: web3:/flight: ssh: unknown host web3"), "{said}");
    assert!(said.contains("hint: `ssh HOST wakepath trigger DIR` has to work without a password"), "{said}");
    let paths: Vec<&str> = out.lines().collect();
    let [here, there] = paths[..] else { panic!("{out}") };
    assert!(here.starts_with("one/flight/") && there.starts_with("web2:/"), "{out}");
    ends_together(&folder.join(here), Path::new(&there["web2:".len()..]));

    std::thread::sleep(Duration::from_secs(2));
    assert_eq!([&one, &two].map(|at| wakepath_loaded(&at.join("flight")).len()), [3, 3], "nobody asks again");
    first.stop();
    second.stop();
}

/// The largest difference between the ends of two windows for the same moment: a reading of the clocks lies between
/// them, ns.
const TOGETHER: u64 = 1_000_000;
