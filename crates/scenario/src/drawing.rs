//! Schedule drawings as events.

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockedState, Context, Cpu, Event, EventKind, Mark, Softirq, SwitchOut, ThreadIdentity, Tid,
};

/// The time in a drawing's column, ns.
pub const STEP: u64 = 1000;

/// A drawing's events.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// In time order.
    pub events: Vec<Event>,
    /// The threads' tids, row by row.
    pub tids: Vec<Tid>,
    /// The end, ns.
    pub end: u64,
}

/// The events of threads drawn in ASCII, a row each, a column per [`STEP`]:
///
/// ```text
/// 0   =.....1=     runs, sleeps, is woken by 1 at the end of the sleep's last column, runs
/// 1   ==...2==
/// 2   ========
/// ```
///
/// | | |
/// |---|---|
/// | `=` | runs |
/// | `.` | sleeps; the last sleeping column names the waker, or the wake-up has no record |
/// | `0`…`9` | woken by this row's thread, which runs in this column |
/// | `t` `h` `m` | woken by the local timer, the HRTIMER or the TIMER softirq |
/// | `b` `n` `c` | woken by the BLOCK, the NET_RX or the RCU softirq |
/// | `d` `i` `w` `s` `u` | woken by a device's interrupt, a function call, irq work, a reschedule, an unknown interrupt |
/// | `r` `x` | runnable; throttled |
/// | `_` | not alive; the last column before a fork names the forker |
///
/// Row n's thread has tid 100 + n and runs on CPU n, or on the CPU in its label: `1@0`. Interrupts come on the sleeper's
/// CPU.
///
/// # Panics
///
/// If the drawing contradicts itself, which is an error in a test.
pub fn draw(drawing: &str) -> Drawing {
    let rows: Vec<Row> = drawing.lines().filter(|line| !line.trim().is_empty()).map(Row::parse).collect();
    let end = rows[0].states.len();
    assert!(rows.iter().all(|row| row.states.len() == end), "all rows are equally long");
    let cpus = rows.iter().map(|row| row.cpu.0).max().unwrap_or(0) + 1;
    let mut writer = EventWriter { rows, events: Vec::new() };
    writer.write(0, 0, Context::Task, Tid::IDLE, EventKind::Mark(Mark::Started));
    for row in 0..writer.rows.len() {
        writer.introduce(row);
    }
    for step in 0..=end {
        writer.wakings(step);
        for cpu in 0..cpus {
            writer.switch(step, Cpu(cpu));
        }
    }
    let tids = (0..writer.rows.len()).map(tid).collect();
    writer.write(
        end,
        0,
        Context::Task,
        writer.on(end.saturating_sub(1), Cpu(0)),
        EventKind::Mark(Mark::Stopped),
    );
    Drawing { events: writer.events, tids, end: end as u64 * STEP }
}

struct Row {
    cpu: Cpu,
    states: Vec<u8>,
}

struct EventWriter {
    rows: Vec<Row>,
    events: Vec<Event>,
}

fn tid(row: usize) -> Tid {
    Tid(100 + row as u32)
}

impl Row {
    fn parse(line: &str) -> Self {
        let (label, states) = line.trim().split_once(' ').expect("a label, a space, the columns");
        let (name, cpu) = label.split_once('@').unwrap_or((label, label));
        let _: usize = name.parse().expect("a row's label is its number");
        Self { cpu: Cpu(cpu.parse().expect("a CPU's number")), states: states.trim().bytes().collect() }
    }

    fn at(&self, step: usize) -> Option<u8> {
        self.states.get(step).copied()
    }
}

/// The waker in a sleep's last column.
fn waker(state: u8) -> Option<Result<usize, Context>> {
    Some(match state {
        b'0'..=b'9' => Ok(usize::from(state - b'0')),
        b't' => Err(Context::LocalTimer),
        b'h' => Err(Context::Softirq(Softirq::Hrtimer)),
        b'm' => Err(Context::Softirq(Softirq::Timer)),
        b'b' => Err(Context::Softirq(Softirq::Block)),
        b'n' => Err(Context::Softirq(Softirq::NetRx)),
        b'c' => Err(Context::Softirq(Softirq::Rcu)),
        b'd' => Err(Context::Device),
        b'i' => Err(Context::CallFunction),
        b'w' => Err(Context::IrqWork),
        b's' => Err(Context::Reschedule),
        b'u' => Err(Context::UnknownInterrupt),
        _ => return None,
    })
}

impl EventWriter {
    fn write(&mut self, step: usize, cpu: u16, context: Context, current: Tid, what: EventKind) {
        let at = Stamp::from_ns(step as u64 * STEP);
        self.events.push(Event { at, cpu: Cpu(cpu), context, current, kind: what });
    }

    fn identity(row: usize, start: u64) -> ThreadIdentity {
        ThreadIdentity { start: Stamp::from_ns(start), ..crate::identity(tid(row).0, &row.to_string()) }
    }

    /// Writes the snapshot of a thread alive at the start.
    fn introduce(&mut self, row: usize) {
        let states = &self.rows[row].states;
        let born_later = states[0] == b'_' || self.birth(row).is_some();
        if born_later {
            return;
        }
        let asleep = states[0] == b'.' || waker(states[0]).is_some();
        let blocked = asleep.then_some(BlockedState::Interruptible);
        let what = EventKind::Thread { identity: Self::identity(row, 0), blocked, call: None };
        self.write(0, 0, Context::Task, Tid::IDLE, what);
    }

    /// The step at whose beginning a row's thread is forked.
    fn birth(&self, row: usize) -> Option<usize> {
        let states = &self.rows[row].states;
        let label = states.iter().position(|&state| state != b'_')?;
        (label > 0 && matches!(waker(states[label]), Some(Ok(_)))).then_some(label + 1)
    }

    /// A CPU's thread in a step.
    fn on(&self, step: usize, cpu: Cpu) -> Tid {
        let mut on = (0..self.rows.len())
            .filter(|&row| self.rows[row].cpu == cpu && self.rows[row].at(step) == Some(b'='));
        let thread = on.next().map_or(Tid::IDLE, tid);
        assert!(on.next().is_none(), "two threads on {cpu:?} in column {step}");
        thread
    }

    /// Writes the wake-ups and forks at the previous step's end.
    fn wakings(&mut self, step: usize) {
        let Some(before) = step.checked_sub(1) else { return };
        for row in 0..self.rows.len() {
            let Some(by) = self.rows[row].at(before).and_then(waker) else { continue };
            let newborn = self.birth(row) == Some(step);
            let (cpu, context, current) = match by {
                Ok(by) => {
                    assert_eq!(
                        self.rows[by].at(before),
                        Some(b'='),
                        "a waker runs: row {row} column {before}"
                    );
                    (self.rows[by].cpu, Context::Task, tid(by))
                }
                Err(context) => (self.rows[row].cpu, context, self.on(before, self.rows[row].cpu)),
            };
            if newborn {
                let child = Self::identity(row, step as u64 * STEP);
                self.write(step, cpu.0, context, current, EventKind::Fork { child });
            }
            let irq = if context == Context::Device { 33 } else { 0 };
            self.write(
                step,
                cpu.0,
                context,
                current,
                EventKind::Waking { target: tid(row), irq, newborn, socket: None },
            );
        }
    }

    /// Writes the switch between the previous step and this step, if any.
    fn switch(&mut self, step: usize, cpu: Cpu) {
        let prev = step.checked_sub(1).map_or(Tid::IDLE, |before| self.on(before, cpu));
        let next = self.on(step, cpu);
        if prev == next || self.rows[0].at(step).is_none() {
            return;
        }
        let row = (0..self.rows.len()).find(|&row| tid(row) == prev);
        let out = match row.and_then(|row| self.rows[row].at(step)) {
            None | Some(b'r') => SwitchOut::Runnable,
            Some(b'x') => SwitchOut::Throttled,
            Some(b'_') => {
                self.write(step, cpu.0, Context::Task, prev, EventKind::Exit);
                SwitchOut::Dead
            }
            Some(_) => SwitchOut::Blocked(BlockedState::Interruptible),
        };
        let what = EventKind::Switch { next, out, interrupts_ns: 0, call: None };
        self.write(step, cpu.0, Context::Task, prev, what);
    }
}
