//! A bundle with a CPU's events.

use wakepath_event::{Comm, Cpu};

use super::fields::{self, field};
use super::wire::{Fields, MAX_NUMBERS, Value, numbers};

/// `TracePacket.ftrace_events`.
pub(super) const FTRACE_EVENTS: u32 = 1;

/// The limit on a bundle's events and names.
const MAX_ITEMS: usize = MAX_NUMBERS;

/// The state of a thread whose leaving was not recorded: a bit that no kernel uses, as in our own exports.
pub(super) const NO_STATE: i64 = 0x4000;

/// A bundle's events and head.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    pub cpu: Cpu,
    /// The CPU lost events before this bundle.
    pub lost: bool,
    /// The CPU's last event before this bundle, ns.
    pub previous_end: Option<u64>,
    /// The last event's stamp, read or not, ns.
    pub end: Option<u64>,
    /// `FtraceClock`, and its stamp with the boot clock's stamp at this time.
    pub clock: u64,
    pub clocks: Option<(u64, u64)>,
    /// By time.
    pub items: Vec<Item>,
    names: Vec<Comm>,
    /// The stamp from which events may be missing within.
    pub incomplete: Option<u64>,
    /// The bytes make no sense from some place on.
    pub damaged: bool,
}

/// An event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// ns.
    pub at: u64,
    pub what: What,
}

/// An event in its short forms, or its long form's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Event {
        from: u32,
        to: u32,
    },
    Waking {
        target: u32,
        cpu: u32,
        flags: Option<u16>,
        name: u32,
    },
    Switch {
        prev_state: i64,
        next: u32,
        name: u32,
    },
    /// A left-out bundle's end.
    Nothing,
}

impl What {
    /// The order at equal stamps: a thread wakes others before it leaves its CPU.
    const fn rank(self) -> u8 {
        match self {
            Self::Event { .. } => 0,
            Self::Waking { .. } => 1,
            Self::Switch { .. } => 2,
            Self::Nothing => 3,
        }
    }
}

impl Bundle {
    /// The bundle in a packet.
    pub fn from_packet(packet: &[u8]) -> Option<Self> {
        let (_, bytes) = Fields::new(packet).find(|(field, _)| *field == FTRACE_EVENTS)?;
        // Places within the packet, since the second pass keeps the packet.
        let Value::Bytes(bytes) = bytes else { return None };
        let base = bytes.as_ptr() as usize - packet.as_ptr() as usize;
        Some(Self::read(bytes, base))
    }

    fn read(bytes: &[u8], base: usize) -> Self {
        let mut bundle = Self::default();
        let (mut ftrace, mut boot, mut errors) = (None, None, None::<u64>);
        let mut fields = Fields::new(bytes);
        for (field, value) in fields.by_ref() {
            match field {
                1 => bundle.cpu = u32::try_from(value.number()).map_or(Cpu::UNKNOWN, Cpu::numbered),
                2 if bundle.items.len() < MAX_ITEMS => {
                    let event = value.bytes();
                    let from = base + (event.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
                    let stamp = fields::stamp(event);
                    bundle.end = bundle.end.max(stamp);
                    let at = stamp.filter(|_| fields::kind(event).is_some());
                    let what = What::Event { from: from as u32, to: (from + event.len()) as u32 };
                    bundle.items.extend(at.map(|at| Item { at, what }));
                }
                3 => bundle.lost = value.number() != 0,
                4 => bundle.damaged |= !bundle.compact(value.bytes()),
                5 => bundle.clock = value.number(),
                6 => ftrace = Some(value.number()),
                7 => boot = Some(value.number()),
                8 => {
                    let at = field_number(value.bytes(), 1).unwrap_or(0);
                    errors = Some(errors.map_or(at, |first| first.min(at)));
                }
                9 | 10 => bundle.previous_end = bundle.previous_end.max(Some(value.number())),
                _ => {}
            }
        }
        bundle.damaged |= fields.damaged || bundle.items.len() >= MAX_ITEMS;
        bundle.clocks = ftrace.zip(boot);
        bundle.items.sort_by_key(|item| (item.at, item.what.rank()));
        bundle.end = bundle.end.max(bundle.items.last().map(|item| item.at));
        let first = bundle.items.first().map_or(0, |item| item.at);
        bundle.incomplete = errors.map(|at| at.max(first)).or(bundle.damaged.then_some(first));
        bundle
    }

    /// Reads `CompactSched`, and returns whether it makes sense.
    fn compact(&mut self, bytes: &[u8]) -> bool {
        let mut columns: [Vec<u64>; 13] = Default::default();
        let mut fields = Fields::new(bytes);
        let (base, mut sound) = (self.names.len() as u64, true);
        for (field, value) in fields.by_ref() {
            match field {
                5 if self.names.len() < MAX_ITEMS => self.names.push(Comm::new(value.bytes())),
                1..=12 => sound &= numbers(value, &mut columns[field as usize]),
                _ => {}
            }
        }
        let [_, switches, states, nexts, _, _, switch_names, wakings, targets, cpus, _, waking_names, flags] =
            &columns;
        let name = |names: &[u64], n: usize| {
            names.get(n).and_then(|name| u32::try_from(base.checked_add(*name)?).ok()).unwrap_or(u32::MAX)
        };
        let mut at = 0_u64;
        for (n, ((difference, &state), &next)) in switches.iter().zip(states).zip(nexts).enumerate() {
            at = at.wrapping_add(*difference);
            let Ok(next) = u32::try_from(next) else {
                sound = false;
                continue;
            };
            let what = What::Switch { prev_state: state as i64, next, name: name(switch_names, n) };
            self.items.push(Item { at, what });
        }
        at = 0;
        for (n, (difference, &target)) in wakings.iter().zip(targets).enumerate() {
            at = at.wrapping_add(*difference);
            let Ok(target) = u32::try_from(target) else {
                sound = false;
                continue;
            };
            let cpu = cpus.get(n).and_then(|&cpu| u32::try_from(cpu).ok()).unwrap_or(u32::MAX);
            let flags = flags.get(n).and_then(|&flags| u16::try_from(flags).ok());
            let what = What::Waking { target, cpu, flags, name: name(waking_names, n) };
            self.items.push(Item { at, what });
        }
        sound &=
            states.len() >= switches.len() && nexts.len() >= switches.len() && targets.len() >= wakings.len();
        sound && !fields.damaged
    }

    /// The bundle without its events, up to its last stamp.
    pub fn left_out(self) -> Self {
        let end = self.items.last().map(|item| Item { what: What::Nothing, ..*item });
        let first = self.items.first().map(|item| item.at);
        let lost = self.lost || self.previous_end.is_some();
        Self {
            cpu: self.cpu,
            lost,
            end: self.end,
            items: end.into_iter().collect(),
            incomplete: first,
            ..Self::default()
        }
    }

    /// The name with this number, if the bundle has it.
    pub fn name(&self, number: u32) -> Option<Comm> {
        self.names.get(number as usize).copied()
    }
}

fn field_number(message: &[u8], number: u32) -> Option<u64> {
    field(message, number).map(Value::number)
}
