// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that move between threads and take turns in them, with a log of the request that each thread worked for.
//!
//!     joins-rust FOLDER
//!
//!     pool      one thread takes requests and hands each to one of two workers through a channel, which works for it with sleeps; a
//!               part of it is a span of its own. The span begins in the first thread, and has the time at which it was queued, and its turns in
//!               both threads (`wakepath.turns`)
//!     task      four requests at once are futures that two threads poll in turn, whichever is free; each sleeps in its turns, and notes them
//!               (`wakepath.turns`)
//!     turn      the same, with a span for each turn
//!     busy      one thread serves forty requests between two sleeps
//!
//! FOLDER/log and FOLDER/spans.json are as joins.c writes them. The program joins-rust-hidden is the same with the word of the contexts
//! where no reader finds it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use wakepath_context::{attach, Record, Turns};

const US: u64 = 1000;
const REQUESTS: usize = 100;
const WORKERS: usize = 2;
const TASKS: usize = 4;
const TURNS: usize = 3;
const SERVED: usize = 40;

const REALTIME: i32 = 0;
const MONOTONIC: i32 = 1;

#[repr(C)]
struct Timespec {
    seconds: i64,
    ns: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn gettid() -> i32;
}

/// The time of a clock, ns. `Instant` does not give its number.
fn clock_ns(clock: i32) -> u64 {
    let mut time = Timespec { seconds: 0, ns: 0 };
    // SAFETY: it writes to `time` alone.
    unsafe { clock_gettime(clock, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.ns as u64
}

fn tid() -> i32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { gettid() }
}

fn busy(ns: u64) {
    let end = clock_ns(MONOTONIC) + ns;
    while clock_ns(MONOTONIC) < end {}
}

fn rest(ns: u64) {
    thread::sleep(Duration::from_nanos(ns));
}

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
static SPANS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A span that is open.
struct Span {
    name: &'static str,
    id: u64,
    trace: u64,
    parent: u64,
    tid: i32,
    began: u64,
    queued: u64,
    /// The turns, where they are noted.
    turns: Option<Turns>,
}

impl Span {
    fn begin(name: &'static str, parent: Option<&Span>) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (trace, parent) = parent.map_or((id, 0), |parent| (parent.trace, parent.id));
        Self { name, id, trace, parent, tid: tid(), began: clock_ns(REALTIME), queued: 0, turns: None }
    }

    fn ids(&self) -> ([u8; 16], [u8; 8]) {
        (u128::from(self.trace).to_be_bytes(), self.id.to_be_bytes())
    }

    fn record(&self) -> Record {
        let (trace, id) = self.ids();
        Record::new(trace, id, 1)
    }

    /// Keeps the span, which ended then by the realtime clock.
    fn ended(self, at: u64) {
        let Self { name, id, trace, parent, tid, began, queued, turns } = self;
        let (above, kind) = match parent {
            0 => (String::new(), 2),
            parent => (format!("\"parentSpanId\":\"{parent:016x}\","), 1),
        };
        let attribute =
            |key: &str, value: u64| format!("{{\"key\":\"{key}\",\"value\":{{\"intValue\":\"{value}\"}}}}");
        let mut attributes = attribute("wakepath.tid", tid as u64);
        if queued > 0 {
            attributes += &format!(",{}", attribute("wakepath.queued_ns", queued));
        }
        if let Some(text) = turns.as_ref().and_then(|turns| turns.text(began)) {
            attributes += &format!(",{{\"key\":\"wakepath.turns\",\"value\":{{\"stringValue\":\"{text}\"}}}}");
        }
        let span = format!(
            "{{\"traceId\":\"{trace:032x}\",\"spanId\":\"{id:016x}\",{above}\"name\":\"{name}\",\"kind\":{kind},\
             \"startTimeUnixNano\":\"{began}\",\"endTimeUnixNano\":\"{at}\",\"attributes\":[{attributes}]}}"
        );
        SPANS.lock().unwrap().push(span);
    }
}

/// The calling thread worked for a trace: it took it up between the first two of these times, and left it between the others.
fn note(trace: u64, [from, shown, leaves, left]: [u64; 4]) {
    LOG.lock().unwrap().push(format!("{} {from} {shown} {leaves} {left} {trace:032x}\n", tid()));
}

/// Works for a span, which the thread began to take up then. Returns the realtime at which it leaves it.
fn work(span: &mut Span, from: u64, function: impl FnOnce(&Span)) -> u64 {
    let mut turns = span.turns.take();
    let worked = || {
        let shown = clock_ns(MONOTONIC);
        function(span);
        (shown, clock_ns(MONOTONIC), clock_ns(REALTIME))
    };
    let (shown, leaves, at) = match &mut turns {
        Some(turns) => span.record().with_turns(turns, worked),
        None => span.record().with(worked),
    };
    span.turns = turns;
    note(span.trace, [from, shown, leaves, clock_ns(MONOTONIC)]);
    at
}

fn worker(queue: &Mutex<Receiver<Span>>) {
    loop {
        // The worker that waits for work has the lock; the other one waits for the lock.
        let Ok(mut span) = queue.lock().unwrap().recv() else { return };
        let at = work(&mut span, clock_ns(MONOTONIC), |span| {
            busy(200 * US);
            rest(400 * US);
            let part = Span::begin("part", Some(span));
            {
                let (trace, id) = part.ids();
                attach!(trace, id, 1);
                busy(100 * US);
                rest(200 * US);
            }
            part.ended(clock_ns(REALTIME));
            busy(50 * US);
        });
        span.ended(at);
    }
}

fn pool() {
    let (hand_over, queue) = channel();
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| worker(&queue));
        }
        for _ in 0..REQUESTS {
            let from = clock_ns(MONOTONIC);
            let mut span = Span { turns: Some(Turns::new()), ..Span::begin("pool", None) };
            span.queued = work(&mut span, from, |_| busy(50 * US));
            hand_over.send(span).unwrap();
            rest(900 * US);
        }
        drop(hand_over);
    });
}

thread_local! {
    /// The trace for which the future worked that the thread polled last, when it had taken it up, and when it began to leave it.
    static TURN: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

/// Returns pending once.
struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

fn one_turn() {
    busy(100 * US);
    rest(200 * US);
    busy(20 * US);
}

/// A request in turns. Returns its span, and the realtime at which it ended.
async fn task(name: &'static str, has_spans: bool) -> (Span, u64) {
    let mut span = Span::begin(name, None);
    let turns = async {
        for number in 1.. {
            let shown = clock_ns(MONOTONIC);
            if has_spans {
                let turn = Span::begin("one turn", Some(&span));
                turn.record().with(one_turn);
                turn.ended(clock_ns(REALTIME));
            } else {
                one_turn();
            }
            TURN.set([span.trace, shown, clock_ns(MONOTONIC)]);
            if number == TURNS {
                break;
            }
            Pause(false).await;
        }
        clock_ns(REALTIME)
    };
    let (at, noted) = span.record().follow_turns(turns).await;
    span.turns = Some(noted);
    (span, at)
}

type Task = Pin<Box<dyn Future<Output = (Span, u64)> + Send>>;

/// Polls the tasks of a queue until it is empty.
fn executor(tasks: &Mutex<VecDeque<Task>>) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let Some(mut task) = tasks.lock().unwrap().pop_front() else { return };
        let from = clock_ns(MONOTONIC);
        let polled = task.as_mut().poll(&mut context);
        let left = clock_ns(MONOTONIC);
        let [trace, shown, leaves] = TURN.get();
        note(trace, [from, shown, leaves, left]);
        match polled {
            Poll::Ready((span, at)) => span.ended(at),
            Poll::Pending => tasks.lock().unwrap().push_back(task),
        }
    }
}

fn tasks(name: &'static str, has_spans: bool) {
    for _ in 0..REQUESTS / TASKS {
        let made = (0..TASKS).map(|_| Box::pin(task(name, has_spans)) as Task);
        let queue = Mutex::new(made.collect());
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| executor(&queue));
            }
        });
    }
}

fn serve() {
    for _ in 0..REQUESTS {
        for _ in 0..SERVED {
            let from = clock_ns(MONOTONIC);
            let mut span = Span::begin("busy", None);
            let at = work(&mut span, from, |_| busy(20 * US));
            span.ended(at);
        }
        rest(500 * US);
    }
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("the folder of the log and of the spans");
    // The recorder finds the word of a new process within 20 ms.
    rest(200_000 * US);
    for part in [pool, || tasks("task", false), || tasks("turn", true), serve] {
        thread::spawn(part).join().expect("no panic");
    }
    rest(50_000 * US);
    let spans = SPANS.lock().unwrap().join(",\n");
    let pid = std::process::id();
    let document = format!(
        "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":[\
         {{\"key\":\"service.name\",\"value\":{{\"stringValue\":\"joins\"}}}},\
         {{\"key\":\"process.pid\",\"value\":{{\"intValue\":\"{pid}\"}}}}]}},\
         \"scopeSpans\":[{{\"spans\":[{spans}]}}]}}]}}\n"
    );
    std::fs::write(format!("{folder}/spans.json"), document)?;
    std::fs::write(format!("{folder}/log"), LOG.lock().unwrap().concat())
}
