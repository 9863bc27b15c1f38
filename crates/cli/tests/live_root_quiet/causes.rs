//! A server that is slow for six reasons: each makes a peak in its latencies, with the affected calls.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{
    document, document_among, length, list, number, place_alone, program, record, run, skip, workload,
};

/// A cause, its calls per thousand, and the bucket of its time. The buckets up to the next cause's belong to it: one is
/// empty, so a call may take twice as long as its bucket before it counts for the next cause. The fast calls lie before
/// the first cause.
type PlantedCause = (&'static str, u64, u64);

const FAST: &str = "none";
const COMPUTE: PlantedCause = ("compute", 50, 18);
const MUTEX: PlantedCause = ("mutex", 50, 20);
const TIMER: PlantedCause = ("timer", 40, 22);
const PEER: PlantedCause = ("peer", 40, 24);
const LIMIT: PlantedCause = ("limit", 40, 26);
const FSYNC: PlantedCause = ("fsync", 40, 28);
const ALL: [PlantedCause; 6] = [COMPUTE, MUTEX, TIMER, PEER, LIMIT, FSYNC];

const CALLS: u64 = 1000;

/// The difference between the clock readings in `handle` and those by the probes at its entry and return, ns: half of a
/// trap each, and sometimes an interrupt.
const PROBES_DIFFER_BY: u64 = 100_000;

/// The calls that may differ by more: some 5 us of each call, 5 ms in all, lie between the readings, in which the
/// hypervisor, or the kernel for its share to neighbours, may take the CPU away. Even at every tick, 250 times a
/// second, this would affect one call.
const TAKEN_AWAY: u64 = 3;

/// The call's length, ns.
fn took(call: &Value) -> u64 {
    length(call) as u64
}

/// The server's own log of its calls.
fn truth(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("truth")).expect("the truth")).expect("JSON")
}

/// The server's command line.
const fn server<'a>(program: &'a str, calls: &'a str) -> [&'a str; 7] {
    ["--", program, "--ahead", "--truth", "truth", "--calls", calls]
}

/// Runs the server with these causes under `wakepath latency`. Returns the counts, and the server's own log.
fn counted(folder: &Path, causes: &[PlantedCause]) -> (Value, Value) {
    let (program, calls) = (workload(folder, "causes"), CALLS.to_string());
    let is_planted = |name| causes.iter().any(|cause| cause.0 == name);
    let rates = ALL.map(|(name, per_mille, _)| {
        [format!("--{name}"), if is_planted(name) { per_mille } else { 0 }.to_string()]
    });
    let mut arguments = [&["latency", "./causes:handle", "--json"][..], &server(&program, &calls)].concat();
    arguments.extend(rates.as_flattened().iter().map(String::as_str));
    let (mut document, _) = document_among(&run(folder, &arguments, 0).0);
    (document["targets"][0].take(), truth(folder))
}

/// Whether, by the server's own clock, few calls lie in the empty bucket below a cause, and few of a cause's calls took as
/// long as another's: otherwise the machine was too busy for separate peaks. Between two humps of 40 calls, five of them
/// leave a valley above the noise (12.7, with 9 required).
fn stand_apart(truth: &Value, causes: &[PlantedCause]) -> bool {
    let calls = list(&truth["calls"]);
    let bucket = |call: &Value| u64::from(took(call).max(1).ilog2());
    let ends = causes.iter().skip(1).map(|cause| cause.2).chain([u64::MAX]);
    causes.iter().zip(ends).all(|(&(name, planned, from), end)| {
        let between = calls.iter().filter(|call| bucket(call) + 1 == from).count() as u64;
        let own = calls.iter().filter(|call| call["cause"] == name);
        let astray = own.filter(|call| !(from..end).contains(&bucket(call))).count() as u64;
        between * 8 <= planned && astray * 10 <= planned
    })
}

/// The number of tries until the server's peaks are separate.
const TRIES: usize = 4;

/// Checks that the causes and their calls are the planted ones, that each cause has one peak, between its neighbours'
/// peaks, and that each range of buckets has the calls with such lengths by the server's own clock.
fn each_has_its_peak(folder: &Path, causes: &[PlantedCause]) {
    let (mut counted_now, mut truth) = counted(folder, causes);
    for _ in 1..TRIES {
        if stand_apart(&truth, causes) {
            break;
        }
        eprintln!("once more: by the server's own clock its causes do not stand apart: {}", truth["summary"]);
        (counted_now, truth) = counted(folder, causes);
    }
    let counted = counted_now;
    let calls = list(&truth["calls"]);
    assert_eq!([number(&counted["count"]), calls.len() as u64], [CALLS; 2]);

    let left_out = truth["left_out"].as_object().expect("an object");
    let causes: Vec<PlantedCause> =
        causes.iter().copied().filter(|cause| !left_out.contains_key(cause.0)).collect();
    for (name, why) in left_out {
        assert!(["limit", "fsync"].contains(&name.as_str()), "{name}: {why}");
        skip(&format!("`{name}` cannot be planted here: {why}"), "it is a peak");
    }

    // Each cause's first bucket; its last bucket lies before the next cause's first.
    let mut begins: Vec<(u64, &str)> = vec![(0, FAST)];
    begins.extend(causes.iter().map(|&(name, _, bucket)| (bucket, name)));
    let owner = |bucket: u64| begins[begins.partition_point(|&(from, _)| from <= bucket) - 1].1;

    let buckets = list(&counted["buckets"]);
    // A peak's top decides its owner: a call or two between two humps may belong to either.
    let top = |peak: &Value| {
        let within = number(&peak["from_bucket"])..=number(&peak["to_bucket"]);
        let own = buckets.iter().filter(|bucket| within.contains(&number(&bucket["index"])));
        own.max_by_key(|bucket| number(&bucket["count"])).map(|bucket| number(&bucket["index"]))
    };
    let owners: Vec<_> = list(&counted["peaks"]).iter().filter_map(top).map(owner).collect();
    let expected: Vec<_> = begins.iter().map(|&(_, name)| name).collect();
    assert_eq!(owners, expected, "{counted}\n{}", truth["summary"]);

    let slow: u64 = causes.iter().map(|cause| cause.1).sum();
    let planned = |name| causes.iter().find(|cause| cause.0 == name).map_or(CALLS - slow, |cause| cause.1);
    let owner_of = |ns: u64| owner(u64::from(ns.max(1).ilog2()));
    for &(_, name) in &begins {
        assert_eq!(number(&truth["summary"][name]["calls"]), planned(name), "{name}");

        let counts = buckets.iter().filter(|bucket| owner(number(&bucket["index"])) == name);
        let count: u64 = counts.map(|bucket| number(&bucket["count"])).sum();
        let own = calls.iter().filter(|call| owner_of(took(call)) == name).count() as u64;
        let on_a_border = calls.iter().filter(|call| {
            let around = [took(call).saturating_sub(PROBES_DIFFER_BY), took(call) + PROBES_DIFFER_BY];
            let [least, most] = around.map(owner_of);
            least != most && [least, most].contains(&name)
        });
        let tolerance = on_a_border.count() as u64 + TAKEN_AWAY;
        assert!(count.abs_diff(own) <= tolerance, "{name}: {count} counted, {own} by itself: {counted}");

        // Neighbours have a lower priority than this program, but the hypervisor and the disk may delay it.
        let calls_of = calls.iter().filter(|call| call["cause"] == name);
        let astray = calls_of.filter(|call| owner_of(took(call)) != name).count() as u64;
        let summary = &truth["summary"];
        assert!(astray * 10 <= planned(name), "{name}: {astray} calls took as long as others': {summary}");
    }
}

#[test]
fn each_of_six_causes_is_a_peak_with_the_calls_that_met_it() {
    let Some(folder) = place_alone("each of six planted causes is a peak") else { return };
    each_has_its_peak(&folder, &ALL);
}

#[test]
fn a_cause_that_no_call_met_is_no_peak() {
    let Some(folder) = place_alone("a cause that was not planted is no peak") else { return };
    each_has_its_peak(&folder, &[COMPUTE, TIMER, PEER]);
}

/// Whether a call's first cause is the planted one: as a whole, or in part.
fn is_first(cause: &str, first: &Value) -> bool {
    // Only the text names threads.
    let names = |thread: &str| first["what"].as_str().is_some_and(|what| what.contains(thread));
    match cause {
        "compute" => first["type"] == "caller",
        "mutex" => first["what"] == "waiting for a lock that causes-holder held",
        "timer" => first["type"] == "timer",
        "peer" => ["thread", "process"].iter().any(|kind| first["type"] == *kind) && names("causes-peer"),
        "limit" => first["type"] == "cpu_limit",
        "fsync" => first["type"] == "disk",
        _ => false,
    }
}

/// One call in twenty waits for an answer from `renderer`, which computes; the others want the mutex with which
/// `indexer` sleeps for 20 ms of every 80.
const TWO_CAUSES: &str = r#"
    #include <pthread.h>
    #include <sys/prctl.h>
    #include <time.h>
    #include <unistd.h>
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int asked[2], answered[2];
    static void nap(long ms)
    {
        struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&t, 0);
    }
    static void *indexer(void *unused)
    {
        for (prctl(PR_SET_NAME, "indexer");; nap(60)) {
            pthread_mutex_lock(&lock);
            nap(20);
            pthread_mutex_unlock(&lock);
        }
        return unused;
    }
    static void *renderer(void *unused)
    {
        char c;
        for (prctl(PR_SET_NAME, "renderer"); read(asked[0], &c, 1) == 1; write(answered[1], &c, 1)) {
            struct timespec t;
            do
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
            while (t.tv_nsec % 20000000 < 10000000);
            do
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
            while (t.tv_nsec % 20000000 >= 10000000);
        }
        return unused;
    }
    __attribute__((noinline)) int handle(int i)
    {
        char c = 0;
        if (i % 20 == 19) {
            write(asked[1], &c, 1);
            read(answered[0], &c, 1);
        } else {
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
        }
        return i;
    }
    int main(void)
    {
        pthread_t thread;
        pipe(asked);
        pipe(answered);
        pthread_create(&thread, 0, indexer, 0);
        pthread_create(&thread, 0, renderer, 0);
        for (int i = 0; i < 1000; i++, nap(1))
            handle(i);
    }
"#;

#[test]
fn two_causes_in_one_peak_name_who_held_and_who_answered_and_in_how_many_calls() {
    let Some(folder) =
        place_alone("a mutex's holder and an answering thread are two causes of the slow calls")
    else {
        return;
    };
    program(&folder, "two", TWO_CAUSES, &["-pthread"]);
    record(&folder, &["--call", "./two:handle", "--", "./two"], 0);
    let asked = ["path", "--call", "handle", "--above", "4ms"];
    let answer = document(&folder, &asked);
    let causes = list(&answer["causes"]);
    let of = |what: &str| {
        let cause = causes.iter().find(|cause| cause["what"] == what);
        let cause = cause.unwrap_or_else(|| panic!("no {what}: {causes:#?}"));
        // The runnable time meanwhile depends on the machine.
        let part = list(&cause["parts"]).iter().find(|part| part["kind"] != "runnable");
        (cause["first_in"].as_u64().expect("a number"), part.expect("a part of its own"))
    };
    let (held, asleep) = of("waiting for a lock that indexer held");
    let (answered, ran) = of("waiting for renderer");
    assert_eq!((&asleep["kind"], &ran["kind"]), (&"timer".into(), &"running".into()));
    // Some calls spend most of their time in a queue for a CPU.
    let calls = answer["asked"]["calls"].as_u64().expect("a number");
    assert!(held > 10 && answered > 20 && held + answered > calls * 3 / 4, "{held}, {answered} of {calls}");
    let (said, _) = run(&folder, &asked, 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let held = format!(
        "indexer held: sleeping until a timer, in clock_nanosleep (the largest cause in {held} calls)"
    );
    assert!(said.contains(&held), "{said}");
    assert!(said.contains(&format!("(the largest cause in {answered} calls)")), "{said}");
}

#[test]
fn slow_calls_are_told_what_they_met() {
    let Some(folder) = place_alone("the paths of slow calls lead to what was planted") else { return };
    let program = workload(&folder, "causes");
    record(&folder, &[&["--call", "./causes:handle"][..], &server(&program, "2000")].concat(), 0);
    let truth = truth(&folder);
    let planted: Vec<&Value> = list(&truth["calls"]).iter().filter(|call| call["cause"] != FAST).collect();
    let slowest = planted.len().to_string();
    let answer = document(&folder, &["path", "--call", "handle", "--slowest", &slowest]);
    let origin = number(&answer["origin_ns"]);
    let (mut judged, mut wrong) = (0, Vec::new());
    // For each cause, the planted time and the time of its calls, and the time of those with missing events.
    let mut books: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for call in list(&answer["calls"]) {
        let [from, to] = ["from_ns", "to_ns"].map(|end| origin + number(&call[end]));
        // The server's stamps are within the probes' stamps, whose traps take some microseconds.
        let is_it = |other: &&&Value| {
            other["tid"] == call["tid"] && from <= number(&other["from_ns"]) && number(&other["to_ns"]) <= to
        };
        let Some(met) = planted.iter().find(is_it) else { continue };
        let (cause, took) = (met["cause"].as_str().unwrap_or(""), took(met));
        // If this kernel left events in a call unrecorded, the missing time is not known.
        let [planted, whole, unseen] = books.entry(cause).or_default();
        if call["first"]["type"] == "unknown" {
            *unseen += took;
        } else {
            (*planted, *whole) = (*planted + number(&met["planted_ns"]), *whole + took);
        }
        // Judge only calls that consist mostly of the planted time by the server's log; in the others the machine had a
        // part.
        if 10 * number(&met["planted_ns"]) < 9 * took {
            continue;
        }
        judged += 1;
        if !is_first(cause, &call["first"]) {
            wrong.push(format!("{cause}: {call}"));
        }
    }
    assert!(judged * 2 >= planted.len(), "{judged} of {} slow calls can be judged", planted.len());
    assert!(wrong.len() * 100 <= judged, "{} of {judged} are told wrong:\n{}", wrong.len(), wrong.join("\n"));
    times_are_right(&answer, &books);
}

/// Checks the tree of all slow calls: each cause has its planted time, to within a hundredth of its calls' time, and at most the time
/// of calls with missing events beside.
/// Computing is left out, since all calls compute.
fn times_are_right(answer: &Value, books: &BTreeMap<&str, [u64; 3]>) {
    let calls = number(&answer["asked"]["explained"]) as f64;
    let parts: Vec<(Option<&str>, &str, f64)> = list(&answer["tree"])
        .iter()
        .flat_map(|node| {
            list(&node["own"]).iter().map(|part| {
                let ns = part["asked_ns"].as_f64().expect("a number") * calls;
                (node["who"].as_str(), part["kind"].as_str().expect("a kind"), ns)
            })
        })
        .collect();
    let sum = |is: &dyn Fn(Option<&str>, &str) -> bool| -> f64 {
        parts.iter().filter(|(who, kind, _)| is(*who, kind)).map(|(.., ns)| ns).sum()
    };
    // By its own clock, a thread also runs during interrupts, and while the hypervisor has its CPU.
    let own = ["running", "interrupted", "stolen"];
    let runs = |name| sum(&|who, kind| who == Some(name) && own.contains(&kind));
    let kind = |wanted| sum(&|_, kind| kind == wanted);
    for (cause, told) in [
        (MUTEX.0, runs("causes-holder")),
        (TIMER.0, kind("timer")),
        (PEER.0, runs("causes-peer")),
        (LIMIT.0, kind("throttled")),
    ] {
        let Some(&[planted, took, unseen]) = books.get(cause) else { continue };
        let (tolerance, off) = (took as f64 / 100.0, told - planted as f64);
        // The tree has the seen part of calls with missing events too.
        assert!(
            -tolerance <= off && off <= tolerance + unseen as f64,
            "{cause}: {planted} ns planted of {took}, beside {unseen} with missing events, {told:.0} told: {parts:?}"
        );
    }
}
