//! Whose latencies they are, as text: a row a group, its histogram as one line of cells.

use std::time::Duration;

use wakepath_distribution::Unit;
use wakepath_engine::groups::{Group, GroupBy, Groups, MAX_GROUPS, Who};

use super::{Columns, counted};
use wakepath_engine::{Distribution, Slice};

use crate::plain::escape;
use crate::quantity::{amount, share};
use crate::screen::{Line, Screen, Style};

/// Most groups that are shown; JSON has all.
const MAX_SHOWN: usize = 10;

/// Those with most time, and what the rest comes to.
pub(super) fn by_whom(groups: &Groups, target: &Distribution, screen: &mut Screen) {
    let columns = Columns::of(&target.histogram);
    let noun = noun(groups.by);
    let head = format!("by {noun}, most time first; {}", columns.legend());
    screen.unwrapped(&Line::new().add(Style::Faint, head));
    let (others, known): (Vec<_>, Vec<_>) = groups.groups.iter().partition(|group| group.who == Who::Others);
    let known: Vec<_> = known.into_iter().filter(|group| !group.histogram.is_empty()).collect();
    let (shown, rest) = known.split_at(known.len().min(MAX_SHOWN));
    for group in shown {
        let line = Line::new()
            .add(Style::Normal, format!("{}  {}  ", time(&[group], target), columns.cells(&group.histogram)))
            .add(Style::Strong, name(&group.who))
            .add(Style::Faint, format!("  {}", counted(group.histogram.calls(), target.of)));
        screen.unwrapped(&line);
    }
    for (rest, what) in [
        (rest, format!("in {} more: --json has them", plural(rest.len(), noun))),
        (&others[..], format!("after there was no room for more than {MAX_GROUPS}, whoever's")),
    ] {
        let calls: u64 = rest.iter().map(|group| group.histogram.calls()).sum();
        if calls > 0 {
            let line = Line::from(format!("{}  ", time(rest, target)))
                .add(Style::Faint, format!("{} {what}", counted(calls, target.of)));
            screen.unwrapped(&line);
        }
    }
    if target.open > 0 {
        let text = format!("not told by {noun}: {} that had not ended", counted(target.open, target.of));
        screen.unwrapped(&Line::new().add(Style::Faint, text));
    }
}

/// Whose most of the time in the slice from `from` on is: `, 83.1% of it postgres (912)`.
pub(super) fn mostly_whose(target: &Distribution, from: Duration) -> String {
    let of = |slices: &[Slice]| {
        let slice = slices.iter().find(|slice| slice.from == from)?;
        Some(slice.histogram.sum()).filter(|&sum| sum > 0)
    };
    let Some(whole) = of(&target.slices) else { return String::new() };
    let groups = target.groups.iter().flat_map(|groups| &groups.groups);
    let parts = groups.filter_map(|group| Some((of(&group.slices)?, group)));
    // Those with most time in all come first.
    let most = parts.reduce(|most, next| if next.0 > most.0 { next } else { most });
    most.map_or(String::new(), |(sum, group)| {
        format!(", {} of the time {}", share(narrow(sum), narrow(whole)), name(&group.who))
    })
}

/// Groups were told apart over time, but not kept.
pub(super) fn parts_are_unknown(target: &Distribution) -> bool {
    let Some(groups) = target.groups.as_ref().filter(|_| !target.slices.is_empty()) else { return false };
    !target.histogram.is_empty() && groups.groups.iter().all(|group| group.slices.is_empty())
}

fn narrow(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// In all, and how much that is of the target's.
fn time(groups: &[&Group], target: &Distribution) -> String {
    let sum = narrow(groups.iter().fold(0, |sum: u128, group| sum.saturating_add(group.histogram.sum())));
    let share = share(sum, narrow(target.histogram.sum()));
    let wide = if target.histogram.unit() == Unit::Cycles { 13 } else { 9 };
    format!("{:>wide$}  {share:>6}", amount(sum, target.histogram.unit()))
}

fn noun(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Process => "process",
        GroupBy::Thread => "thread",
        GroupBy::Cgroup => "cgroup",
    }
}

fn plural(n: usize, noun: &str) -> String {
    match (n, noun) {
        (1, noun) => format!("1 {noun}"),
        (n, "process") => format!("{n} processes"),
        (n, noun) => format!("{n} {noun}s"),
    }
}

fn name(who: &Who) -> String {
    let called = |comm: &Option<Box<[u8]>>| comm.as_deref().map_or_else(|| String::from("?"), escape);
    match who {
        Who::Process { pid, comm, .. } => format!("{} ({pid})", called(comm)),
        Who::Thread { tid, pid: Some(pid), comm, .. } if pid != tid => {
            format!("{} ({tid}, of process {pid})", called(comm))
        }
        Who::Thread { tid, comm, .. } => format!("{} ({tid})", called(comm)),
        Who::Cgroup { path: Some(path), .. } => escape(path),
        Who::Cgroup { id, path: None } => format!("cgroup {id}, which is gone"),
        Who::Others => String::from("others"),
    }
}
