//! The cost of recording services that have their own tracing, in the scenarios of L19 §4.4.1: without any tracing, with the service's own tracing
//! alone, recorded by wakepath beside it, and by L19's comparison technique: a system call at each span's beginning and end, recorded by a kernel
//! tracer.
//!
//! A round has a run for each scenario, and two for the service's own tracing alone. Each run starts the service anew; its spans go to the same
//! receiver, which does the same work for all. Wakepath receives them too, on their way.

mod client;
mod receiver;
mod sizes;
mod table;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::cost::order;
use crate::load::LOAD_CPU;
use crate::places::{OTHER_CPU, Places};
use crate::recorders::ftrace::{Destination, Ftrace};
use crate::recorders::perf::Perf;
use crate::recorders::{self, Recorder, Recording};
use crate::{machine, processes, progress, tracepoints};
use receiver::Receiver;

#[derive(Debug, Args)]
pub struct Options {
    /// Largest number of rounds; each runs each scenario.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// No round of a service begins later than this, seconds after its first round.
    #[arg(long, default_value_t = 100)]
    seconds: u64,
    /// A run's requests, as a share of the usual number.
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Only the services whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// The sizes at which recordings for the analysis end, MB; 0 for none. A recording is a quarter smaller.
    #[arg(long, value_delimiter = ',', default_values_t = [80, 160, 320, 680])]
    sizes: Vec<u64>,
    /// The folder with the services built by `packaging/services`.
    #[arg(long, default_value = "target/services")]
    services: PathBuf,
    #[command(flatten)]
    places: Places,
}

/// The span receiver's address; nothing else is expected there.
const BACKEND: &str = "127.0.0.1:14319";
/// Wakepath's port for spans, which forwards them to the backend.
const WAKEPATH: &str = "127.0.0.1:14318";
const TO_DISK: &[&str] = &["--otlp", "14318", "--otlp-forward", "http://127.0.0.1:14319"];
const FLIGHT: &[&str] = &[
    "--otlp",
    "14318",
    "--otlp-forward",
    "http://127.0.0.1:14319",
    "--flight",
    "30s",
    "--flight-after",
    "10ms",
];
const WITH_GOROUTINES: &[&str] =
    &["--otlp", "14318", "--otlp-forward", "http://127.0.0.1:14319", "--goroutines"];

/// A program that serves requests, and its load.
struct Service {
    name: &'static str,
    /// Its file name, and whether it is a workload.
    program: &'static str,
    is_workload: bool,
    arguments: &'static [&'static str],
    address: &'static str,
    path: &'static str,
    clients: usize,
    /// The number of measured requests in a run, and of earlier requests that are not measured.
    requests: usize,
    before: usize,
    /// The L19 application beside it, and the costs there over the service's own tracing (tables 4.1 to 4.3).
    beside: &'static str,
    costs_there: [&'static str; 8],
}

/// The index of the service with the most events per second.
const HIGH_RATE: usize = 2;

static SERVICES: [Service; 3] = [
    Service {
        name: "HotROD, each request traced",
        program: "hotrod",
        is_workload: false,
        arguments: &[
            "all",
            "--frontend-service-hostname=127.0.0.1",
            "--frontend-service-port=14380",
            "--customer-service-hostname=127.0.0.1",
            "--customer-service-port=14381",
            "--driver-service-hostname=127.0.0.1",
            "--driver-service-port=14382",
            "--route-service-hostname=127.0.0.1",
            "--route-service-port=14383",
        ],
        address: "127.0.0.1:14380",
        path: "/dispatch?customer=123",
        clients: 10,
        requests: 200,
        before: 40,
        beside: "HotROD in L19",
        costs_there: ["–", "–", "3.2%", "4.7%", "–", "5.2%", "5.2%", "–"],
    },
    Service {
        name: "a server of small requests in Go, one in ten traced",
        program: "server",
        is_workload: false,
        arguments: &["127.0.0.1:14384"],
        address: "127.0.0.1:14384",
        path: "/item/{}",
        clients: 20,
        requests: 20_000,
        before: 4_000,
        beside: "Cassandra in L19, reads and writes",
        costs_there: CASSANDRA,
    },
    Service {
        name: "a server of small requests in C with a thread for each client, one in ten traced",
        program: "items",
        is_workload: true,
        arguments: &["127.0.0.1:14385"],
        address: "127.0.0.1:14385",
        path: "/item/{}",
        clients: 20,
        requests: 40_000,
        before: 8_000,
        beside: "Cassandra in L19, reads and writes",
        costs_there: CASSANDRA,
    },
];

/// L19, tables 4.2 and 4.3.
const CASSANDRA: [&str; 8] =
    ["–", "–", "17.8%, 26.5%", "26.3%, 29.1%", "–", "37.7%, 38.8%", "48.3%, 42.8%", "–"];

/// A run's tracing.
struct Scenario {
    /// Its name in L19.
    letter: &'static str,
    name: &'static str,
    /// The service's `WAKEPATH_TRACING` (`lab/bench/server/tracer.go`, `lab/workloads/items.c`): `context` is `spans` with the service's own work
    /// by which wakepath knows its threads' requests.
    tracing: &'static str,
    recorder: Recorded,
    /// The indices of the scenarios that do the same by the other technique.
    rivals: &'static [usize],
}

#[derive(Clone, Copy)]
enum Recorded {
    Not,
    Wakepath(&'static [&'static str]),
    Ftrace(Destination),
    Perf,
}

/// The index of the service's own tracing alone.
const BASELINE: usize = 1;

static SCENARIOS: [Scenario; 8] = [
    Scenario { letter: "A", name: "no tracing", tracing: "none", recorder: Recorded::Not, rivals: &[] },
    Scenario {
        letter: "B",
        name: "its own tracing alone",
        tracing: "spans",
        recorder: Recorded::Not,
        rivals: &[],
    },
    Scenario {
        letter: "C-1",
        name: "wakepath, flight recorder",
        tracing: "context",
        recorder: Recorded::Wakepath(FLIGHT),
        rivals: &[5],
    },
    Scenario {
        letter: "C-2",
        name: "wakepath, to the disk",
        tracing: "context",
        recorder: Recorded::Wakepath(TO_DISK),
        rivals: &[6, 7],
    },
    Scenario {
        letter: "C-2",
        name: "wakepath with goroutines, to the disk",
        tracing: "context",
        recorder: Recorded::Wakepath(WITH_GOROUTINES),
        rivals: &[6, 7],
    },
    Scenario {
        letter: "D-1",
        name: "system calls, ftrace in memory",
        tracing: "getpid",
        recorder: Recorded::Ftrace(Destination::Memory),
        rivals: &[],
    },
    Scenario {
        letter: "D-2",
        name: "system calls, ftrace to the disk",
        tracing: "getpid",
        recorder: Recorded::Ftrace(Destination::Disk),
        rivals: &[],
    },
    Scenario {
        letter: "D-2",
        name: "system calls, perf to the disk",
        tracing: "getpid",
        recorder: Recorded::Perf,
        rivals: &[],
    },
];

/// A scenario's run.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// The mean time from a request to its answer, seconds.
    request: f64,
    /// The service's CPU time per request, seconds.
    cpu: f64,
    /// Span bytes per request, as the backend gets them.
    spans: f64,
    /// The recorder's CPU time, as a share of a CPU.
    recorder: f64,
    /// Events per request, if the recorder counts them.
    events: Option<f64>,
    lost: Option<u64>,
}

/// A round's runs, by scenario index; behind them the baseline's second run.
type Round = Vec<Option<Run>>;

/// Prints a table for each service.
pub fn run(options: &Options) -> Result<()> {
    options.places.prepare("recorders", "recording needs root")?;
    tracepoints::mount()?;
    println!("{}\n", machine::describe());
    let backend = Receiver::begin(BACKEND)?;
    let is_asked = |service: &&Service| options.only.as_ref().is_none_or(|only| service.name.contains(only));
    for service in SERVICES.iter().filter(is_asked) {
        println!("### {}\n", service.name);
        let program = service.program(options);
        if !program.exists() {
            let by = if service.is_workload {
                "`make workloads`"
            } else {
                "`packaging/services`, where there are Go and a network,"
            };
            println!("skipped: {} is not there: {by} builds it\n", program.display());
            continue;
        }
        let (rounds, failures) = measure(service, &program, options, &backend)?;
        println!("{}", table::of(service, &rounds, options.share));
        for failure in failures {
            println!("skipped: {failure}\n");
        }
    }
    println!("Recorders; EVENTS are those of the cost of recording:\n");
    for scenario in &SCENARIOS {
        if let Some(recorder) = scenario.recorder(&options.places) {
            println!("- {}, {}: `{}`", scenario.letter, scenario.name, recorder.command());
        }
    }
    let service = &SERVICES[HIGH_RATE];
    let (program, sizes) = (service.program(options), &options.sizes);
    if !sizes.contains(&0) && is_asked(&service) && program.exists() {
        println!("\n### Recordings of growing size: {}\n", service.name);
        sizes::run(service, &program, sizes, &options.places)?;
    }
    Ok(())
}

/// All rounds of a service, and why scenarios are missing. Without its baseline a service has no figures, which is an error.
fn measure(
    service: &Service,
    program: &Path,
    options: &Options,
    backend: &Receiver,
) -> Result<(Vec<Round>, Vec<String>)> {
    let slots = SCENARIOS.len() + 1;
    let (mut rounds, mut failures) = (Vec::new(), Vec::new());
    // Programs without goroutines are recorded the same with and without them.
    let mut is_left_out = SCENARIOS.each_ref().map(|it| it.records_goroutines() && !service.has_goroutines());
    let begun = Instant::now();
    for number in 0..options.rounds {
        if begun.elapsed() > Duration::from_secs(options.seconds) {
            break;
        }
        let mut round: Round = vec![None; slots];
        for slot in order(number, slots) {
            let place = if slot == SCENARIOS.len() { BASELINE } else { slot };
            let scenario = &SCENARIOS[place];
            if is_left_out[place] {
                continue;
            }
            progress(&format!(
                "{}, round {} of {}, {}",
                service.name,
                number + 1,
                options.rounds,
                scenario.name
            ));
            match one(service, program, scenario, options, backend) {
                Ok(run) => round[slot] = Some(run),
                Err(error) if place == BASELINE => return Err(error.context(service.name)),
                Err(error) => {
                    failures.push(format!("{} ({}): {error:#}", scenario.letter, scenario.name));
                    is_left_out[place] = true;
                }
            }
        }
        rounds.push(round);
    }
    progress("");
    Ok((rounds, failures))
}

impl Service {
    fn program(&self, options: &Options) -> PathBuf {
        let folder = if self.is_workload { &options.places.workloads } else { &options.services };
        folder.join(self.program)
    }

    /// Sends requests from the service's own CPU, which is therefore never idle. To wake an idle CPU from another costs tens of µs more or less
    /// on a virtual machine, depending on how often it sleeps, and this is not a recorder's cost. Returns the mean time to an answer, seconds.
    fn send(&self, clients: usize, count: usize) -> Result<f64> {
        processes::pin_this_process(LOAD_CPU)?;
        let mean = client::requests(self.address, self.path, clients, count);
        processes::pin_this_process(OTHER_CPU)?;
        mean
    }

    /// Whether wakepath sees goroutines in it.
    fn has_goroutines(&self) -> bool {
        !self.is_workload
    }
}

impl Scenario {
    fn records_goroutines(&self) -> bool {
        matches!(self.recorder, Recorded::Wakepath(WITH_GOROUTINES))
    }

    fn recorder(&self, places: &Places) -> Option<Box<dyn Recorder>> {
        match self.recorder {
            Recorded::Not => None,
            Recorded::Wakepath(options) => Some(recorders::with(options, &places.wakepath, &places.output)),
            Recorded::Perf => Some(Box::new(Perf::with_calls(&places.output))),
            Recorded::Ftrace(to) => Some(Box::new(Ftrace::with_calls(to, &places.output))),
        }
    }
}

fn one(
    service: &Service,
    program: &Path,
    scenario: &Scenario,
    options: &Options,
    backend: &Receiver,
) -> Result<Run> {
    let count = |usual: usize| ((usual as f64 * options.share) as usize).max(1);
    let requests = count(service.requests);
    let mut recorder = scenario.recorder(&options.places);
    let spans_to = if matches!(scenario.recorder, Recorded::Wakepath(_)) { WAKEPATH } else { BACKEND };
    // It exists when recording begins: only then are its goroutines recorded.
    let running = Running::start(service, program, scenario.tracing, spans_to)?;
    let mut recording = match &mut recorder {
        Some(recorder) => Some(recorder.start()?),
        None => None,
    };
    let run =
        measured(service, (count(service.before), requests), &running, recording.as_deref_mut(), backend);
    // Also after a failure: no recorder stays behind.
    let recorded = recording.map(|recording| recording.stop()).transpose();
    let (mut run, recorded) = (run?, recorded?);
    if let Some(recorded) = recorded {
        // The recording has the first requests too.
        let all = (requests + count(service.before)) as f64;
        run.events = recorded.events.map(|events| events as f64 / all);
        run.lost = recorded.lost;
    }
    drop(running);
    processes::settle(Duration::from_millis(50));
    Ok(run)
}

/// Sends the first requests, then the measured requests.
fn measured(
    service: &Service,
    (first, requests): (usize, usize),
    running: &Running,
    mut recording: Option<&mut (dyn Recording + 'static)>,
    backend: &Receiver,
) -> Result<Run> {
    let mut used = || recording.as_mut().map_or(Ok(Duration::ZERO), |recording| recording.consumer_cpu());
    let send = |count| service.send(service.clients, count);
    send(first)?;
    let (cpu, bytes, used_before, begun) = (running.cpu()?, backend.bytes(), used()?, Instant::now());
    let request = send(requests)?;
    let took = begun.elapsed().as_secs_f64();
    let each = |all: f64| all / requests as f64;
    Ok(Run {
        request,
        cpu: each(running.cpu()?.saturating_sub(cpu).as_secs_f64()),
        spans: each((backend.bytes() - bytes) as f64),
        recorder: used()?.saturating_sub(used_before).as_secs_f64() / took,
        ..Run::default()
    })
}

/// A running service; it ends on drop.
struct Running(Child);

/// A service that takes longer to begin has failed.
const MAX_START: Duration = Duration::from_secs(10);

impl Running {
    /// Starts it on the loads' CPU.
    fn start(service: &Service, program: &Path, tracing: &str, spans_to: &str) -> Result<Self> {
        ensure!(
            TcpStream::connect(service.address).is_err(),
            "another program answers at {}",
            service.address
        );
        let mut command = Command::new("taskset");
        command.args(["-c", &LOAD_CPU.to_string()]).arg(program).args(service.arguments);
        command.env("WAKEPATH_TRACING", tracing);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{spans_to}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Self(command.spawn().context("cannot run taskset")?);
        let begun = Instant::now();
        while TcpStream::connect(service.address).is_err() {
            if let Some(status) = running.0.try_wait()? {
                bail!("{} ended at once ({status})", program.display());
            }
            ensure!(begun.elapsed() < MAX_START, "{} does not answer", program.display());
            sleep(Duration::from_millis(10));
        }
        Ok(running)
    }

    fn cpu(&self) -> Result<Duration> {
        processes::exact_cpu_time(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{BASELINE, Recorded, SCENARIOS, SERVICES};

    #[test]
    fn each_scenario_has_rivals_of_the_same_kind() {
        assert_eq!((SCENARIOS[BASELINE].letter, SCENARIOS[BASELINE].tracing), ("B", "spans"));
        for scenario in &SCENARIOS {
            for rival in scenario.rivals {
                let kind = |letter: &str| letter.split_once('-').map(|(_, kind)| kind.to_owned());
                assert_eq!(kind(SCENARIOS[*rival].letter), kind(scenario.letter));
                assert!(matches!(scenario.recorder, Recorded::Wakepath(_)));
                assert_eq!(SCENARIOS[*rival].tracing, "getpid");
            }
        }
        assert!(SERVICES.iter().all(|service| service.costs_there[BASELINE] == "–"));
    }
}
