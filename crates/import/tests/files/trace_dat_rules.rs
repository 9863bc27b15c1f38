//! Rules for `trace.dat` pages and for events without a description.

use wakepath_event::{Damage, DamageKind, Event};
use wakepath_import::Fault;
use wakepath_import::trace_cmd::synthetic::{EventType, File};

use crate::lines::{changed, events, lines_with};
use crate::trace_dat::{opened, two_cpus};

fn read(file: &File) -> (Vec<Event>, Vec<Damage>) {
    events(&opened(&file.bytes()).expect("a file"))
}

#[test]
fn a_page_that_begins_before_the_last_event_is_a_damage_and_its_events_get_the_last_stamp() {
    // CPU 0's first page ends at 200.
    for (begin, stamps, is_back) in [(199, [200, 200], true), (200, [200, 201], false)] {
        let behind = two_cpus()
            .page(0, None)
            .waking((begin, 0, 0, 0), 8)
            .waking((begin + 1, 0, 0, 0), 9)
            .page(0, None);
        let (events, damages) = read(&behind.waking((300, 0, 0, 0), 7));
        let woken: Vec<_> = lines_with(&events, "0 wakes ");
        let woken: Vec<_> = woken.iter().filter(|line| !line.starts_with("105 ")).collect();
        let expected = [
            format!("{} cpu0 0 wakes 8", stamps[0]),
            format!("{} cpu0 0 wakes 9", stamps[1]),
            "300 cpu0 0 wakes 7".to_owned(),
        ];
        assert_eq!(woken, expected.iter().collect::<Vec<_>>(), "{begin}");
        let kinds: Vec<_> = damages.iter().map(|damage| &damage.kind).collect();
        let fault = DamageKind::Fault(Fault::PageBack.to_string());
        assert_eq!(kinds, [&fault].into_iter().filter(|_| is_back).collect::<Vec<_>>(), "{begin}");
        // Events may be missing between them.
        let lost = lines_with(&events, "lost");
        assert_eq!(lost.len(), usize::from(is_back), "{lost:?}");
        assert!(lost.iter().all(|line| line == "200 cpu0 0 lost 0 since 200"), "{lost:?}");
    }
}

#[test]
fn an_event_without_a_description_is_counted_unless_its_number_is_ftraces_own() {
    let skipped = |file: &File| match &read(file).1[..] {
        [] => 0,
        [Damage { kind: DamageKind::EventsSkipped { count, first: None }, .. }] => *count,
        other => panic!("{other:?}"),
    };
    // An event with a number alone: its length in words, and the number.
    let own = |id: u32| two_cpus().words((210, 0), &[1, id]);
    for (id, is_skipped) in [(0, true), (1, false), (31, false), (32, true), (299, true)] {
        assert_eq!(skipped(&own(id)), u64::from(is_skipped), "{id}");
    }
    // Without its description; with it; and described by a name that is not read.
    let born = |file: File| {
        let file = file.switch((100, 0, 0, 0), 0, 7, "here").waking((105, 0, 7, 7), 9);
        file.tracepoint(EventType::WakeupNew, (210, 0, 7, 7), &[(20, &[8, 0, 0, 0])])
    };
    let described = born(File::default());
    assert_eq!(skipped(&born(File::default().only(&[EventType::Switch, EventType::Waking]))), 1);
    assert_eq!(skipped(&described), 0);
    let bytes = described.bytes();
    let name = bytes.windows(16).position(|name| name == b"sched_wakeup_new").expect("a name");
    let (events, damages) = events(&opened(&changed(&bytes, name, b"sched_wakeup_old")).expect("a file"));
    assert_eq!((lines_with(&events, "210"), damages), (vec![], vec![]));
}
