//! Requests for tests: a recording and the spans beside it, in which figures that may be confused differ.

use serde_json::{Value, json};
use wakepath_engine::Recorded;
use wakepath_engine::requests::{Traced, read_spans};
use wakepath_event::{Clocks, EventKind, NameSpace};

use super::trace_with;

/// Realtime at the recording's stamp 0, ns.
pub const REALTIME: u64 = 1_795_229_921_310_000_000;

/// The recording. `cart` serves ten short requests, of which three wait for `pay`, and four long requests: these
/// wait for `pay`, which works for a request of `bank`; the last two then wait for `stock`, which works for a
/// request without spans. The last request reads from a disk.
pub fn recorded() -> Recorded {
    let mut trace = String::from(
        "thread cart tid=10
         thread pay tid=12
         thread stock tid=13
         1000 c0 idle started
         1000 c0 idle switch cart
         1000 c1 idle switch pay
         1000 c2 idle switch stock
         1100 c2 stock context c/c unsampled
         1100 c2 stock attribute 2 /stock
         1100 c2 stock switch idle runnable
         1200 c2 idle switch stock\n",
    );
    let mut wait = |from: u64, to: u64, who: &str, cpu: u32| {
        trace += &format!(
            "{from} c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim={who}
             {to} c{cpu} {who} waking cart
             {} c0 idle switch cart\n",
            to + 7
        );
    };
    for one in 0..3 {
        let at = usual(one).0;
        wait(at + 20, at + 60 + one, "pay", 1);
    }
    for one in 0..4 {
        let at = asked(one).0;
        wait(at + 100, at + 3000 + 11 * one, "pay", 1);
        if one >= 2 {
            wait(at + 3300, at + 4000 + 13 * one, "stock", 2);
        }
    }
    let (at, _) = asked(3);
    trace += &format!(
        "{} c0 cart issue 1 bytes=4096
         {} c0 cart complete 1
         70000 c2 stock context c/c unsampled
         70000 c2 stock switch idle blocked call=35:0
         80000 c0 cart switch idle blocked call=35:0
         80000 c1 pay switch idle blocked call=35:0\n",
        at + 4100,
        at + 4400,
    );
    let name = |space, key: u64, name: &str| EventKind::Name(space, key, name.as_bytes().into());
    let marks = [
        EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns: REALTIME, steal_ns: 0 }),
        name(NameSpace::Service, 13, "depot"),
        name(NameSpace::ServiceInstance, 13, "d-7"),
        name(NameSpace::ThreadAttribute, 13 << 8 | 2, "http.route"),
    ];
    trace_with(&trace, &marks)
}

/// A short request's times, ns.
fn usual(one: u64) -> (u64, u64) {
    let at = 2000 + 1000 * one;
    (at, at + 100 + one)
}

/// A long request's times, ns.
fn asked(one: u64) -> (u64, u64) {
    let at = 20_000 + 10_000 * one;
    (at, at + 5000 + 17 * one)
}

fn span(trace: u64, id: u64, name: &str, (from, to): (u64, u64), tid: u32) -> Value {
    json!({
        "traceId": format!("{trace:032x}"),
        "spanId": format!("{id:016x}"),
        "name": name,
        "kind": 2,
        "startTimeUnixNano": (REALTIME + from).to_string(),
        "endTimeUnixNano": (REALTIME + to).to_string(),
        "attributes": [{"key": "wakepath.tid", "value": {"intValue": tid}}],
    })
}

/// The spans of `cart` and `pay`; beside them three requests without a path, a span left out, and three spans in a
/// circle.
pub fn traced() -> Traced {
    let (mut shop, mut bank) = (Vec::new(), Vec::new());
    for one in 0..10 {
        let (at, to) = usual(one);
        shop.push(span(0x1000 + one, 0xa000 + one, "GET /cart", (at, to), 10));
        if one < 3 {
            bank.push(span(0x2000 + one, 0xb000 + one, "GET /rate", (at - 10, at + 80), 12));
        }
    }
    for one in 0..4 {
        let (at, to) = asked(one);
        let mut long = span(0x3000 + one, 0xc000 + one, "GET /cart", (at, to), 10);
        if one == 3 {
            long["status"] = json!({"code": 2});
        }
        shop.push(long);
        let mut part = span(0x3000 + one, 0xd000 + one, "SELECT", (at + 3100, at + 4900), 10);
        part["parentSpanId"] = format!("{:016x}", 0xc000 + one).into();
        part["kind"] = json!(1);
        shop.push(part);
        bank.push(span(0x4000 + one, 0xe000 + one, "POST /pay", (at - 500, at + 3200), 12));
    }
    // After the recording, in no thread, and in an unrecorded thread.
    shop.push(span(0x5000, 0xf000, "GET /cart", (90_000, 95_001), 10));
    shop.push(span(0x5001, 0xf001, "GET /cart", (60_000, 65_002), 0));
    shop.push(span(0x5002, 0xf002, "GET /cart", (60_000, 60_103), 999));
    shop.push(span(0x5003, 0xf003, "GET /cart", (60_000, 10), 10));
    for (id, parent) in [(1, 2), (2, 3), (3, 1)] {
        let mut one = span(0x6000, id, "loop", (60_000 + id, 60_050), 10);
        one["parentSpanId"] = format!("{parent:016x}").into();
        one["kind"] = json!(1);
        shop.push(one);
    }
    let of_service = |name: &str, pid: u32, spans: Vec<Value>| {
        let attributes = json!([
            {"key": "service.name", "value": {"stringValue": name}},
            {"key": "process.pid", "value": {"intValue": pid}},
        ]);
        json!({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]})
    };
    let document = json!({"resourceSpans": [of_service("shop", 10, shop), of_service("bank", 12, bank)]});
    let (spans, dropped) = read_spans(&document.to_string().into()).expect("spans");
    let mut traced = Traced::new(spans, dropped);
    traced.torn = vec!["./torn.rec".into()];
    traced.damaged = vec![("./cut.json".into(), "cannot be read from byte 7 on: it is cut off".to_owned())];
    traced
}
