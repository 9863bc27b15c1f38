//! Cassandra under the OpenTelemetry agent: each request is joined to its thread, the paths add up, and a cgroup's temporary CPU
//! limit is named (L19 §4.4.3).

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Deserializer, Value};
use wakepath_harness::live::{adds_up, command, length, list, not_possible, number, place, texts};

use crate::{plugin, succeeds};

const SHOWS: &str = "each request of Cassandra is joined to its thread, and a CPU limit is named";

/// A separate cgroup, which may have a CPU limit; removed at the end.
struct Group(PathBuf);

impl Group {
    fn make(name: &str) -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let root = if v1.join("cpu.shares").exists() { v1 } else { Path::new("/sys/fs/cgroup") };
        let group = Self(root.join(name));
        fs::create_dir(&group.0).ok()?;
        let has_limit = ["cpu.cfs_quota_us", "cpu.max"].iter().any(|file| group.0.join(file).exists());
        has_limit.then_some(group)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The cgroup no longer has processes.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Cassandra in a group; it ends when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is not needed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A time on the realtime clock, ns.
fn at(value: &Value) -> i64 {
    number(value) as i64
}

/// The request's beginning on the realtime clock, ns.
fn began(answer: &Value) -> i64 {
    at(&answer["origin_realtime_ns"]) + answer["request"]["from_ns"].as_i64().expect("a time")
}

#[test]
fn live_root_with_cassandra_each_request_is_joined_to_its_thread_and_a_cpu_limit_is_named() {
    let test = std::env::current_exe().expect("a path of the test");
    let packages = test.ancestors().nth(3).expect("the folder of builds").join("plugins");
    if !packages.join("cassandra/versions").exists() {
        return not_possible("no Cassandra here, which `packaging/plugins cassandra` fetches", SHOWS);
    }
    let Some(folder) = place(SHOWS) else { return };
    let name = format!("wakepath-cassandra-{}", std::process::id());
    let Some(group) = Group::make(&name) else {
        return not_possible("cgroups have no CPU controller here", SHOWS);
    };
    let (port, spans) = (free_port().to_string(), free_port().to_string());
    let (python, load) = (packages.join("cassandra/bin/python"), plugin("java/tests/cassandra_load.py"));

    let in_group = r#"echo $$ >"$1/cgroup.procs" && shift && exec "$@""#;
    let mut server = Command::new("sh");
    server.args(["-c", in_group, "-", group.path()]).arg(plugin("java/tests/cassandra"));
    server.arg(folder.join("data")).arg(&port).env("WAKEPATH_PLUGINS", &packages);
    server.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{spans}"));
    let log = fs::File::create(folder.join("log")).expect("a file");
    server.stdout(Stdio::null()).stderr(log);
    let server = Server(server.spawn().expect("Cassandra"));
    succeeds(Command::new(&python).arg(&load).args([&port, "prepare"]));

    let mut record = command(&folder, &["record", "--otlp", &spans, "--"]);
    record.arg(&python).arg(&load).args([&port, "run", "load.json", group.path(), "1000"]);
    let output = record.output().expect("wakepath");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    drop(server);

    let asked: Value =
        serde_json::from_slice(&fs::read(folder.join("load.json")).expect("a log")).expect("JSON");
    let requests = ["requests", "--operation", "ExecuteMessage.execute", "--slowest", "1000000", "--json"];
    let output = command(&folder, &requests).output().expect("wakepath");
    let answers = Deserializer::from_slice(&output.stdout).into_iter().map(|one| one.expect("JSON"));
    // Spans from before may arrive late, if no receiver existed then.
    let answers: Vec<Value> = answers.filter(|answer| began(answer) >= at(&asked["began_ns"])).collect();
    let joined = answers.iter().filter(|answer| answer["request"]["join"] == "thread").count();
    println!(
        "{} requests of the clients, {} here, {joined} joined",
        list(&asked["requests"]).len(),
        answers.len()
    );
    assert!(answers.len() > 1000);
    assert_eq!(answers.len(), list(&asked["requests"]).len(), "one for each that the clients made");
    assert!(joined * 1000 >= answers.len() * 999, "{joined} of {}", answers.len());

    let [limited, lifted] = ["limited_ns", "lifted_ns"].map(|key| at(&asked[key]));
    let mut shares = Vec::new();
    for answer in answers.iter().filter(|answer| answer["request"]["join"] == "thread") {
        let took = adds_up(answer);
        assert_eq!(took, length(&answer["request"]), "the whole request has a path");
        let (from, to) = (began(answer), began(answer) + took);
        // Only requests wholly within the time of the limit, which were kept off their CPU.
        if from < limited || to > lifted || took < 50_000_000 {
            continue;
        }
        let limits = list(&answer["contributors"]).iter().filter(|one| one["code"] == "cpu_limit");
        let mut total = 0;
        for limit in limits {
            assert_eq!(limit["what"], format!("{name} (1.00 ms per 100 ms)"));
            total += number(&limit["total_ns"]);
        }
        shares.push(total as f64 / took as f64);
    }
    shares.sort_by(f64::total_cmp);
    let median = shares.get(shares.len() / 2).copied().unwrap_or_default();
    println!(
        "the limit is {median:.3} of {} slow requests, at least {:.3}",
        shares.len(),
        shares.first().unwrap_or(&0.0)
    );
    assert!(shares.len() >= 8, "each client had one");
    assert!(median > 0.9, "{shares:?}");
}
