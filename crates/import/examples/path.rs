//! The threads in a trace, or the parts of a thread's life:
//!
//! ```sh
//! cargo run --release -p wakepath-import --example path -- TRACE [TID]
//! ```

use std::error::Error;
use std::path::Path;

use wakepath_critical_path::{Window, active, contributors};
use wakepath_event::{EventSource, RecordingFormat, Tid};
use wakepath_import::Lttng;
use wakepath_wait_graph::Builder;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which trace?")?;
    let trace = Lttng::open(Path::new(&path))?;
    let mut builder = Builder::default();
    let damages = trace.for_each(|event| builder.push(event));
    let graph = builder.finish();
    println!("{:?}: {} events, {:?}", trace.description().host, graph.events(), graph.counts());
    for damage in damages {
        println!("{damage:?}");
    }
    let Some(tid) = arguments.next() else {
        for (_, thread) in graph.threads() {
            let life = thread.last.since(thread.first) as f64 / 1e6;
            println!("{:>7} {:<16} {life:>10.3} ms", thread.tid(), thread.name().lossy());
        }
        return Ok(());
    };
    let tid = Tid(tid.parse()?);
    let (index, thread) =
        graph.threads().filter(|(_, thread)| thread.had_tid(tid)).last().ok_or("no such thread")?;
    let window = Window { thread: index, from: thread.first, to: thread.last };
    let path = active(&graph, window);
    let whole = window.to.since(window.from) as f64;
    println!("{} {}: {:.3} ms", thread.tid(), thread.name().lossy(), whole / 1e6);
    for part in contributors(&graph, &path).iter().take(20) {
        let (share, ms) = (part.total_ns as f64 / whole * 100.0, part.total_ns as f64 / 1e6);
        println!("{share:>6.2}% {ms:>10.3} ms  {:<16} {:?} {:?}", part.comm.lossy(), part.kind, part.what);
    }
    Ok(())
}
