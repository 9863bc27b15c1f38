//! Latency groups, as text: a row for each group, its histogram as a line of cells.

use std::time::Duration;

use wakepath_distribution::Unit;
use wakepath_engine::latency::{Distribution, Group, GroupKey, Groups, MAX_GROUPS, TimeSlice};

use super::{Columns, counted};

use crate::escape::escape;
use crate::screen::{Line, Screen, Style};
use crate::units::{amount, count, plural, share};
use crate::wording::latency as words;

/// The most groups shown; JSON has all.
const MAX_SHOWN: usize = 10;

/// The groups with most time, and the other groups' sums.
pub(super) fn rows(groups: &Groups, target: &Distribution, screen: &mut Screen) {
    let columns = Columns::of(&target.histogram);
    let noun = words::by(groups.by);
    let head = format!("by {noun}, most time first; {}", columns.legend());
    screen.unwrapped(Line::faint(head));
    let (others, known): (Vec<_>, Vec<_>) =
        groups.groups.iter().partition(|group| group.key == GroupKey::Others);
    let known: Vec<_> = known.into_iter().filter(|group| !group.histogram.is_empty()).collect();
    let (shown, rest) = known.split_at(known.len().min(MAX_SHOWN));
    for group in shown {
        let line = Line::from(format!("{}  {}  ", time(&[group], target), columns.cells(&group.histogram)))
            .add(Style::Strong, name(&group.key))
            .add(Style::Faint, format!("  {}", counted(group.histogram.calls(), target.source)));
        screen.unwrapped(line);
    }
    for (rest, what) in [
        (rest, format!("in {}: --json has them", count(rest.len() as u64, &format!("more {noun}")))),
        (&others[..], format!("in {} that came after the first {MAX_GROUPS}", plural(noun))),
    ] {
        let calls: u64 = rest.iter().map(|group| group.histogram.calls()).sum();
        if calls > 0 {
            let line = Line::from(format!("{}  ", time(rest, target)))
                .add(Style::Faint, format!("{} {what}", counted(calls, target.source)));
            screen.unwrapped(line);
        }
    }
    if target.open > 0 {
        let text =
            format!("not grouped by {noun}: {} that had not ended", counted(target.open, target.source));
        screen.unwrapped(Line::faint(text));
    }
}

/// The group with most time in the slice from `from` on: `, 83.1% of the time in postgres (912)`.
pub(super) fn largest_group(target: &Distribution, from: Duration) -> String {
    let of = |slices: &[TimeSlice]| {
        let slice = slices.iter().find(|slice| slice.from == from)?;
        Some(slice.histogram.sum()).filter(|&sum| sum > 0)
    };
    let Some(whole) = of(&target.slices) else { return String::new() };
    let groups = target.groups.iter().flat_map(|groups| &groups.groups);
    let parts = groups.filter_map(|group| Some((of(&group.slices)?, group)));
    // Groups with more total time come first.
    let most = parts.reduce(|most, next| if next.0 > most.0 { next } else { most });
    most.map_or(String::new(), |(sum, group)| {
        format!(", {} of the time in {}", share(narrow(sum), narrow(whole)), name(&group.key))
    })
}

/// Whether each slice's groups were counted, but not kept.
pub(super) fn slices_are_unknown(target: &Distribution) -> bool {
    let Some(groups) = target.groups.as_ref().filter(|_| !target.slices.is_empty()) else { return false };
    !target.histogram.is_empty() && groups.groups.iter().all(|group| group.slices.is_empty())
}

fn narrow(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// These groups' time, and its share of the target's time.
fn time(groups: &[&Group], target: &Distribution) -> String {
    let sum = narrow(groups.iter().fold(0, |sum: u128, group| sum.saturating_add(group.histogram.sum())));
    let share = share(sum, narrow(target.histogram.sum()));
    let wide = if target.histogram.unit() == Unit::Cycles { 13 } else { 9 };
    format!("{:>wide$}  {share:>6}", amount(sum, target.histogram.unit()))
}

fn name(key: &GroupKey) -> String {
    let called = |comm: &Option<Box<[u8]>>| comm.as_deref().map_or_else(|| String::from("?"), escape);
    match key {
        GroupKey::Process { pid, comm, .. } => format!("{} ({pid})", called(comm)),
        GroupKey::Thread { tid, pid: Some(pid), comm, .. } if pid != tid => {
            format!("{} ({tid}, of process {pid})", called(comm))
        }
        GroupKey::Thread { tid, comm, .. } => format!("{} ({tid})", called(comm)),
        GroupKey::Cgroup { path: Some(path), .. } => escape(path),
        GroupKey::Cgroup { id, path: None } => format!("cgroup {id}, which is gone"),
        GroupKey::Others => String::from("others"),
    }
}
