//! A path as tracks: its segments on a track, and the waits that they explain on another, nested.

use std::io;

use wakepath_critical_path::Wait;
use wakepath_engine::PathAnswer;

use super::proto::Message;
use super::{INCREMENTAL_STATE_CLEARED, Trace, packet_at};
use crate::escape::escape;
use crate::units::duration;
use crate::wording;

/// The maximum depth of drawn waits: deeper waits could not be seen.
const MAX_DEPTH: u32 = 64;

/// The maximum number of tracks for programs' own states.
const MAX_USER_STATES: u64 = 64;

/// `TrackEvent.Type`.
pub const BEGIN: u64 = 1;
/// `TrackEvent.Type`.
pub const END: u64 = 2;

/// Writes the `n`th path's tracks.
pub fn write(answer: &PathAnswer, n: u64, trace: &mut Trace) -> io::Result<()> {
    // Any numbers that no other track has; thread tracks have hashes.
    let group = 0x7761_6b65_0000_0000 + n * 4;
    let (path, waits) = (group + 1, group + 2);
    let window = answer.path.window;
    let subject = wording::who(answer.recorded, &answer.subject());
    let tracks = [
        describe(group, &format!("wakepath: {subject}, {}", duration(answer.window_ns()))),
        describe(path, "what the time went to").number(5, group),
        describe(waits, "who waited for whom").number(5, group),
    ];
    for (i, track) in tracks.iter().enumerate() {
        let packet = packet_at(window.from.ns()).message(60, track);
        trace.packet(if i == 0 && n == 0 { packet.number(13, INCREMENTAL_STATE_CLEARED) } else { packet })?;
    }
    segments(answer, path, trace)?;
    user_states(answer, group, n, trace)?;
    nested_waits(answer, waits, trace)
}

/// A `TrackDescriptor`.
pub fn describe(uuid: u64, name: &str) -> Message {
    Message::new().number(1, uuid).text(2, name)
}

fn segments(answer: &PathAnswer, track: u64, trace: &mut Trace) -> io::Result<()> {
    for segment in &answer.path.segments {
        let who = wording::segment_thread(answer.recorded, segment);
        let doing = wording::doing(&answer.evidence(), segment);
        let mut begin = event(BEGIN, track).text(23, &format!("{who}: {doing}"));
        begin = note(begin, "kind", segment.kind.name());
        begin = note(begin, "basis", wording::basis_word(segment.basis));
        if let Some(via) = wording::via_word(segment.via) {
            begin = note(begin, "via", via);
        }
        if let Some(call) = answer.recorded.segment_call(segment) {
            begin = note(begin, "call", &wording::call(&call));
        }
        trace.packet(packet_at(segment.from.ns()).message(11, &begin))?;
        trace.packet(packet_at(segment.to.ns()).message(11, &event(END, track)))?;
    }
    Ok(())
}

/// A track for each own state.
fn user_states(answer: &PathAnswer, group: u64, n: u64, trace: &mut Trace) -> io::Result<()> {
    for (state, number) in answer.user_states.iter().zip(0..MAX_USER_STATES) {
        let name = escape(state.name.as_bytes());
        let thread = answer.thread(state.thread);
        let shown = format!("{name} in {}", wording::who(answer.recorded, &thread));
        // Numbers apart from all other tracks', as above.
        let track = 0x7573_7400_0000_0000 + n * MAX_USER_STATES + number;
        let described = describe(track, &shown).number(5, group);
        trace.packet(packet_at(answer.path.window.from.ns()).message(60, &described))?;
        for (from, to) in &state.times {
            trace.packet(packet_at(from.ns()).message(11, &event(BEGIN, track).text(23, &name)))?;
            trace.packet(packet_at(to.ns()).message(11, &event(END, track)))?;
        }
    }
    Ok(())
}

/// Waits begin in list order and end innermost first.
pub fn nested_waits(answer: &PathAnswer, track: u64, trace: &mut Trace) -> io::Result<()> {
    let mut open: Vec<&Wait> = Vec::new();
    let close = |open: &mut Vec<&Wait>, trace: &mut Trace, until: Option<&Wait>| -> io::Result<()> {
        while let Some(last) =
            open.pop_if(|last| until.is_none_or(|next| last.to <= next.from || last.depth >= next.depth))
        {
            trace.packet(packet_at(last.to.ns()).message(11, &event(END, track)))?;
        }
        Ok(())
    };
    let mut waits: Vec<&Wait> =
        answer.path.waits.iter().filter(|wait| wait.depth < MAX_DEPTH && wait.from < wait.to).collect();
    waits.sort_by_key(|wait| (wait.from, wait.depth));
    for wait in waits {
        close(&mut open, trace, Some(wait))?;
        let who = wording::thread(answer.recorded, wait.thread, wait.to);
        let mut text = format!("{who} waits");
        if let Some(call) = answer.recorded.wait_call(wait) {
            text += &format!(" in {}", wording::call(&call));
        }
        if let Some(by) = wait.ended_by {
            text += &format!(" for {}", wording::thread(answer.recorded, by, wait.to));
        }
        let mut begin = event(BEGIN, track).text(23, &text);
        if let Some(via) = wording::via_word(wait.via) {
            begin = note(begin, "ended by", via);
        }
        trace.packet(packet_at(wait.from.ns()).message(11, &begin))?;
        open.push(wait);
    }
    close(&mut open, trace, None)
}

/// A `TrackEvent` on a track.
pub fn event(kind: u64, track: u64) -> Message {
    Message::new().number(9, kind).number(11, track)
}

/// A `DebugAnnotation`.
pub fn note(event: Message, name: &str, value: &str) -> Message {
    event.message(4, &Message::new().text(10, name).text(6, value))
}
