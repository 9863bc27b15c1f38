//! Traffic from a visiting function is the same as from a list.

use wakepath_clock::Stamp;
use wakepath_event::{Direction, FlowId, Packet};
use wakepath_packets::{Source, Traffic, Visited};

fn traffic(count: u32) -> Vec<Traffic> {
    let packet = |seq: u32| {
        let (flow, direction) = (FlowId(1), Direction::Out);
        let packet = Packet { flow, direction, seq, ack: 0, len: 1, tcp_flags: 16, netns: 1, interface: 1 };
        Traffic::Packet(Stamp::from_ns(seq.into()), packet)
    };
    (0..count).map(packet).collect()
}

#[test]
fn each_reading_gives_all_items_in_order() {
    for count in [0, 1, 1023, 1024, 1025, 50_000] {
        let all = traffic(count);
        let visited = Visited::new(move |sink| traffic(count).into_iter().for_each(sink));
        assert_eq!(visited.traffic().collect::<Vec<_>>(), all);
        assert_eq!(visited.traffic().collect::<Vec<_>>(), all);
    }
}

#[test]
fn a_reading_may_end_early() {
    let visited = Visited::new(|sink| traffic(50_000).into_iter().for_each(sink));
    assert_eq!(visited.traffic().take(3).count(), 3);
}

#[test]
#[should_panic(expected = "a disk that is gone")]
fn a_visit_that_panics_does_not_end_as_if_all_was_told() {
    let told = Visited::new(|tell| {
        traffic(10).into_iter().for_each(tell);
        panic!("a disk that is gone");
    });
    assert!(told.traffic().count() > 0);
}
