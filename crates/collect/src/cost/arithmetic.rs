//! From a calibration's times to each kind of work's cost.

use std::collections::BTreeMap;

use wakepath_event::{CostKind, KernelCost};

use crate::programs::Runs;

/// The share of a cost by which the range extends below and above it: differences between loads, and above also the
/// programs' effect on the caches and branch predictors for the code around them, which no calibration sees.
const BELOW: f64 = 0.1;
const ABOVE: f64 = 0.3;
/// The factors for a range around the mean when a program ran only now and then while calibrating: whether its caches
/// were cold or warm is chance.
const RARE: (f64, f64) = (0.5, 2.0);
/// The range for a kind of work that the calibration did not meet, in switch record costs: the lowest and highest
/// cost observed for other kinds.
const UNSEEN: (f64, f64) = (0.5, 10.0);
/// The same for a sample, which walks two stacks.
const UNSEEN_SAMPLE: (f64, f64) = (10.0, 150.0);
/// A program's least number of runs in a slice group for a mean that counts for the median.
const MANY_RUNS: u64 = 20;

/// Slice times, ns per round trip, sorted.
#[derive(Debug)]
pub(super) struct Slices(Vec<f64>);

impl Slices {
    pub(super) fn new(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Self(times)
    }

    /// The time below which this share of the slices stays.
    fn quantile(&self, share: f64) -> f64 {
        let place = (self.0.len() as f64 * share) as usize;
        self.0.get(place).or(self.0.last()).copied().unwrap_or(0.0)
    }
}

/// The programs' runs in several slice groups.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    trips: u64,
    /// The runs in each group and their time without stacks read anew, ns.
    programs: BTreeMap<String, Vec<(u64, u64)>>,
    /// The time for stacks read anew in all groups, ns.
    stacks_ns: u64,
}

impl Deltas {
    pub(super) fn add(&mut self, before: &[Runs], after: &[Runs], trips: u64) {
        self.trips += trips;
        for (before, after) in before.iter().zip(after) {
            let runs = after.runs.saturating_sub(before.runs);
            let stacks_ns = after.stacks_ns.saturating_sub(before.stacks_ns);
            let ns = after.ns.saturating_sub(before.ns).saturating_sub(stacks_ns);
            self.stacks_ns += stacks_ns;
            if runs > 0 {
                self.programs.entry(after.program.clone()).or_default().push((runs, ns));
            }
        }
    }

    /// Runs per round trip.
    fn per_trip(&self, program: &str) -> f64 {
        let runs = self.programs.get(program).map_or(0, |groups| groups.iter().map(|(runs, _)| runs).sum());
        runs as f64 / self.trips.max(1) as f64
    }

    /// The time per run, ns, for a program that runs in each group: the median over the groups' means.
    fn steady(&self, program: &str) -> Option<f64> {
        let groups = self.programs.get(program)?.iter().filter(|(runs, _)| *runs >= MANY_RUNS);
        let means = Slices::new(groups.map(|(runs, ns)| *ns as f64 / *runs as f64).collect());
        (!means.0.is_empty()).then(|| means.quantile(0.5))
    }
}

/// A calibration load: without the programs, with them, and with their times.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) bare: Slices,
    pub(super) attached: Slices,
    pub(super) deltas: Deltas,
}

impl Load {
    /// The cost of a program's call itself, ns per run, by the quick slices and by the usual slices: the programs'
    /// extra time per round trip, less their own times. `None` if noise hides the extra time.
    fn dispatch(&self) -> Option<(f64, f64)> {
        let (mut runs, mut explained) = (0.0, self.deltas.stacks_ns as f64 / self.deltas.trips.max(1) as f64);
        for program in self.deltas.programs.keys() {
            if let Some(ns) = self.deltas.steady(program) {
                runs += self.deltas.per_trip(program);
                explained += self.deltas.per_trip(program) * ns;
            }
        }
        let added = [0.1, 0.25, 0.5].map(|share| self.attached.quantile(share) - self.bare.quantile(share));
        let least = added.into_iter().fold(f64::INFINITY, f64::min);
        let most = added.into_iter().fold(0.0, f64::max);
        let of = |added: f64| ((added - explained) / runs).max(0.0);
        (runs > 0.0 && most > 0.0).then(|| (of(least), of(most)))
    }
}

/// Numbers of interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupts {
    pub(crate) hard: u64,
    pub(crate) soft: u64,
}

impl Interrupts {
    pub(super) fn since(self, before: Self) -> Self {
        Self { hard: self.hard.saturating_sub(before.hard), soft: self.soft.saturating_sub(before.soft) }
    }
}

/// The programs' own measurements while recording.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Measured {
    /// The number of interrupts.
    pub(super) interrupts: Option<Interrupts>,
    /// The timed switches' mean, ns.
    pub(super) switch: Option<f64>,
    /// The mean time for reading stacks anew per switch record, whether its stack was read or not, ns.
    pub(super) stacks_of_switch: f64,
    /// The same per wake-up record.
    pub(super) stacks_of_waking: f64,
    /// The rare records' programs: the number of runs.
    pub(super) rare: u64,
    /// The timed runs among these.
    pub(super) rare_timed: u64,
    /// The timed runs' mean, ns.
    pub(super) rare_ns: Option<f64>,
}

/// The cost of each kind of work done once, ns, without stacks read anew.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Costs {
    ranges: BTreeMap<CostKind, (f64, f64)>,
    /// The cost of a program's call itself, ns.
    dispatch: (f64, f64),
    /// The mean time of the switch program while calibrating, ns, timed by itself.
    timed: f64,
    /// The dispatch was measured, not bounded because noise hid it.
    is_measured: bool,
}

/// For each kind of work, the programs that begin it, and its further programs.
const PROGRAMS: [(CostKind, &[&str], &[&str]); 6] = [
    (CostKind::Switch, &["sched_switch"], &[]),
    (CostKind::Waking, &["sched_waking"], &[]),
    (CostKind::Packet, &["net_dev_queue", "netif_receive_skb"], &["sk_data_ready", "sock_def_readable"]),
    (CostKind::Softirq, &["softirq_entry"], &["softirq_exit"]),
    (
        CostKind::Interrupt,
        &[
            "irq_handler_entry",
            "local_timer_entry",
            "reschedule_entry",
            "call_function_entry",
            "call_function_single_entry",
            "irq_work_entry",
        ],
        &[
            "irq_handler_exit",
            "local_timer_exit",
            "reschedule_exit",
            "call_function_exit",
            "call_function_single_exit",
            "irq_work_exit",
            "hrtimer_expire_entry",
        ],
    ),
    (CostKind::Sample, &["sample"], &[]),
];

impl Costs {
    /// `timed`: the switches' mean time, ns, by the program itself. `None` if no load has a switch's time.
    pub(super) fn new(loads: &[Load], timed: f64) -> Option<Self> {
        let dispatches = loads.iter().filter_map(Load::dispatch);
        let dispatch = dispatches.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        // Where noise hides the dispatch, it lies between 0 and the longest program's own time, which no measured
        // dispatch exceeded.
        let longest = loads.iter().filter_map(|load| load.deltas.steady("sched_switch")).fold(0.0, f64::max);
        let is_measured = dispatch.is_some();
        let dispatch = dispatch.unwrap_or((0.0, longest));
        let mut ranges = BTreeMap::new();
        for (kind, first, others) in PROGRAMS {
            if let Some(range) = range_of(loads, first, others, dispatch) {
                ranges.insert(kind, range);
            }
        }
        let switch = *ranges.get(&CostKind::Switch)?;
        let in_switches = |(least, most): (f64, f64)| (switch.0 * least, switch.1 * most);
        for kind in CostKind::ALL {
            let unseen = if kind == CostKind::Sample { UNSEEN_SAMPLE } else { UNSEEN };
            ranges.entry(kind).or_insert_with(|| in_switches(unseen));
        }
        Some(Self { ranges, dispatch, timed, is_measured })
    }

    /// Whether noise hid no part of the costs.
    pub(super) fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// The costs as lines, for [`Self::from_text`].
    pub(super) fn to_text(&self) -> String {
        let Self { ranges, dispatch, timed, .. } = self;
        let ranges = ranges.iter().map(|(kind, (least, most))| format!("{kind:?} {least} {most}\n"));
        ranges
            .chain([format!("dispatch {} {}\ntimed {timed} {timed}\nend\n", dispatch.0, dispatch.1)])
            .collect()
    }

    /// Reads measured costs again; `None` unless the text has them all.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut range = |name: &str| {
            let numbers = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
            let (least, most) = numbers.split_once(' ')?;
            let (least, most) = (least.parse::<f64>().ok()?, most.parse::<f64>().ok()?);
            (0.0 <= least && least <= most && most.is_finite()).then_some((least, most))
        };
        let ranges = CostKind::ALL.into_iter().map(|kind| Some((kind, range(&format!("{kind:?}"))?)));
        let ranges = ranges.collect::<Option<_>>()?;
        let (dispatch, (timed, _)) = (range("dispatch")?, range("timed")?);
        (lines.next() == Some("end") && lines.next().is_none() && text.ends_with('\n')).then_some(Self {
            ranges,
            dispatch,
            timed,
            is_measured: true,
        })
    }

    /// Some costs.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let ranges = CostKind::ALL.into_iter().zip([(130.5, 140.25); CostKind::ALL.len()]).collect();
        Self { ranges, dispatch: (20.0, 30.125), timed: 61.3, is_measured: true }
    }

    /// The costs as they are recorded. `calls`: functions are probed.
    pub(super) fn now(&self, measured: &Measured, calls: bool) -> Vec<KernelCost> {
        let slower = measured.switch.map_or(0.0, |timed| timed - self.timed);
        let (_, most) = self.ranges.get(&CostKind::Switch).copied().unwrap_or_default();
        // The other programs meet the same caches.
        let factor = if most > 0.0 { (1.0 + slower / most).max(1.0) } else { 1.0 };
        let mut costs = Vec::new();
        for (&kind, &(least, most)) in &self.ranges {
            let (from, to) = match kind {
                CostKind::Switch => {
                    let measured = slower + measured.stacks_of_switch;
                    (least + measured, most + measured)
                }
                CostKind::Waking => {
                    (least + measured.stacks_of_waking, most * factor + measured.stacks_of_waking)
                }
                CostKind::Other => self.rare(measured).unwrap_or((least, most * factor)),
                _ => (least, most * factor),
            };
            let count = match kind {
                CostKind::Softirq => Some(measured.interrupts.map_or(0, |counts| counts.soft)),
                CostKind::Interrupt => Some(measured.interrupts.map_or(0, |counts| counts.hard)),
                CostKind::Other => Some(measured.rare),
                _ => None,
            };
            let from_ns = (from.max(0.0) * (1.0 - BELOW)) as u64;
            let to_ns = (to.max(0.0) * (1.0 + ABOVE)).ceil() as u64;
            // The kernel's statistics do not count the time of a probe's exception.
            let is_known = kind != CostKind::Call || !calls;
            costs.push(KernelCost { kind, count, from_ns, to_ns: is_known.then_some(to_ns.max(from_ns)) });
        }
        costs
    }

    /// A run of a rare record's program: the timed runs' mean plus a dispatch; in a wide range where they are few,
    /// since the programs differ.
    fn rare(&self, measured: &Measured) -> Option<(f64, f64)> {
        let ns = measured.rare_ns?;
        let (below, above) = if measured.rare_timed < MANY_RUNS { RARE } else { (1.0, 1.0) };
        Some(((ns + self.dispatch.0) * below, (ns + self.dispatch.1) * above))
    }
}

/// The cost for a piece of work: the programs that begin it, with their share in the others, and a dispatch for each.
/// Taken from the loads in which the work is usual; else from all runs together, in a wide range.
fn range_of(loads: &[Load], first: &[&str], others: &[&str], dispatch: (f64, f64)) -> Option<(f64, f64)> {
    let all = || first.iter().chain(others);
    let mut range: Option<(f64, f64)> = None;
    for load in loads {
        let steady = all().filter_map(|program| Some((load.deltas.steady(program)?, program)));
        let steady: Vec<_> = steady.map(|(ns, program)| (ns, load.deltas.per_trip(program))).collect();
        let works: f64 = first
            .iter()
            .filter(|program| load.deltas.steady(program).is_some())
            .map(|program| load.deltas.per_trip(program))
            .sum();
        if works > 0.0 {
            let of = |dispatch: f64| {
                steady.iter().map(|(ns, per_trip)| (ns + dispatch) * per_trip).sum::<f64>() / works
            };
            let (least, most) = range.unwrap_or((f64::INFINITY, 0.0));
            range = Some((least.min(of(dispatch.0)), most.max(of(dispatch.1))));
        }
    }
    range.or_else(|| {
        let sum = |programs: &mut dyn Iterator<Item = &&str>| {
            let groups = programs.flat_map(|program| {
                loads.iter().filter_map(|load| load.deltas.programs.get(*program)).flatten().copied()
            });
            groups.fold((0, 0), |sum: (u64, u64), group| (sum.0 + group.0, sum.1 + group.1))
        };
        let (works, (runs, ns)) = (sum(&mut first.iter()).0, sum(&mut all()));
        let of = |dispatch: f64, factor: f64| (ns as f64 + dispatch * runs as f64) / works as f64 * factor;
        (works > 0).then(|| (of(dispatch.0, RARE.0), of(dispatch.1, RARE.1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(figures: &[(&str, u64, u64)]) -> Vec<Runs> {
        let of = |&(program, runs, ns): &(&str, u64, u64)| Runs {
            program: program.to_owned(),
            runs,
            ns,
            stacks_ns: 0,
        };
        figures.iter().map(of).collect()
    }

    /// Slices with round trips that take `usual` ns, a quarter of them `quick` less.
    fn slices(usual: f64, quick: f64) -> Slices {
        Slices::new((0..40).map(|n| if n % 4 == 0 { usual - quick } else { usual }).collect())
    }

    /// 100 round trips in each of three groups, with each program's runs and ns per group.
    fn deltas(of_group: &[(&str, u64, u64)]) -> Deltas {
        let nothing: Vec<_> = of_group.iter().map(|&(program, ..)| (program, 5, 70)).collect();
        let then: Vec<_> = of_group.iter().map(|&(program, runs, ns)| (program, 5 + runs, 70 + ns)).collect();
        let mut deltas = Deltas::default();
        for _ in 0..3 {
            deltas.add(&runs(&nothing), &runs(&then), 100);
        }
        deltas
    }

    /// Two switches at 100 ns and two wake-ups at 80 ns per round trip, which takes 480 ns longer: 30 ns dispatch
    /// each.
    fn pipes() -> Load {
        let of_group =
            [("sched_switch", 200, 20_000), ("sched_waking", 200, 16_000), ("local_timer_entry", 2, 1_400)];
        Load { bare: slices(4000.0, 0.0), attached: slices(4480.0, 0.0), deltas: deltas(&of_group) }
    }

    fn range(costs: &Costs, kind: CostKind) -> (u64, u64) {
        let (least, most) = costs.ranges[&kind];
        (least.round() as u64, most.round() as u64)
    }

    #[test]
    fn a_record_costs_its_program_and_the_dispatch() {
        let costs = Costs::new(&[pipes()], 60.0).expect("costs");
        assert_eq!(range(&costs, CostKind::Switch), (130, 130));
        assert_eq!(range(&costs, CostKind::Waking), (110, 110));
    }

    #[test]
    fn the_dispatch_is_a_range_where_quick_slices_and_usual_ones_disagree() {
        // The quick quarter of the slices adds 440 ns, the usual slices 480 ns.
        let load = Load { attached: slices(4480.0, 40.0), ..pipes() };
        assert_eq!(load.dispatch(), Some((20.0, 30.0)));
        let costs = Costs::new(&[load], 60.0).expect("costs");
        assert_eq!(range(&costs, CostKind::Switch), (120, 130));
    }

    #[test]
    fn noise_that_hides_the_dispatch_makes_a_wide_range() {
        let load = Load { attached: slices(3990.0, 500.0), ..pipes() };
        assert_eq!(load.dispatch(), None, "all slices are quicker than without the programs");
        let costs = Costs::new(&[load], 60.0).expect("costs");
        assert_eq!(range(&costs, CostKind::Switch), (100, 200), "the program's time is known");
        let load = Load { attached: slices(4480.0, 500.0), ..pipes() };
        assert_eq!(load.dispatch(), Some((0.0, 30.0)), "the quick slices are, the usual ones are not");
        assert_eq!(Costs::new(&[], 60.0), None);
        let silent = Load { deltas: Deltas::default(), ..pipes() };
        assert_eq!(Costs::new(&[silent], 60.0), None, "no program ran");
    }

    #[test]
    fn less_than_the_programs_own_time_is_no_dispatch_rather_than_a_negative_one() {
        let load = Load { attached: slices(4300.0, 0.0), ..pipes() };
        assert_eq!(load.dispatch(), Some((0.0, 0.0)));
    }

    #[test]
    fn two_loads_make_the_range_of_both() {
        let of_group = [
            ("sched_switch", 200, 24_000),
            ("sched_waking", 200, 16_000),
            ("net_dev_queue", 200, 30_000),
            ("netif_receive_skb", 200, 26_000),
            ("sk_data_ready", 200, 12_000),
            ("softirq_entry", 200, 16_000),
            ("softirq_exit", 200, 16_000),
        ];
        // 1400 ns explained, 14 runs: 40 ns dispatch each.
        let packets =
            Load { bare: slices(9000.0, 0.0), attached: slices(10_960.0, 0.0), deltas: deltas(&of_group) };
        let costs = Costs::new(&[pipes(), packets], 60.0).expect("costs");
        assert_eq!(range(&costs, CostKind::Switch), (100 + 30, 120 + 40));
        // A packet has half a socket search, and one and a half dispatches.
        assert_eq!(range(&costs, CostKind::Packet), (140 + 30 + 45, 140 + 30 + 60));
        assert_eq!(range(&costs, CostKind::Softirq), (160 + 60, 160 + 80));
    }

    #[test]
    fn a_program_that_ran_now_and_then_has_a_wide_range_and_one_that_never_ran_a_wider_one() {
        let costs = Costs::new(&[pipes()], 60.0).expect("costs");
        // 700 ns each, and a dispatch at 30 ns.
        assert_eq!(range(&costs, CostKind::Interrupt), (365, 1460));
        assert_eq!(range(&costs, CostKind::Other), (65, 1300));
        assert_eq!(range(&costs, CostKind::Sample), (1300, 19_500));
    }

    #[test]
    fn a_group_with_a_pause_in_it_does_not_move_the_median() {
        let mut load = pipes();
        load.deltas.add(&runs(&[("sched_switch", 0, 0)]), &runs(&[("sched_switch", 200, 5_000_000)]), 100);
        assert_eq!(load.deltas.steady("sched_switch"), Some(100.0));
    }

    fn recorded(costs: &Costs, kind: CostKind, measured: &Measured) -> (u64, Option<u64>) {
        let costs = costs.now(measured, false);
        let cost = costs.iter().find(|cost| cost.kind == kind).expect("each kind has a cost");
        (cost.from_ns, cost.to_ns)
    }

    fn bounds((least, most): (f64, f64)) -> (u64, Option<u64>) {
        ((least * (1.0 - BELOW)) as u64, Some((most * (1.0 + ABOVE)).ceil() as u64))
    }

    #[test]
    fn a_switch_costs_what_it_took_in_the_recorded_load_and_the_others_perhaps_as_much_more() {
        let costs = Costs::new(&[pipes()], 60.0).expect("costs");
        for (switch, of_switch, of_waking) in [
            (None, (130.0, 130.0), (110.0, 110.0)),
            (Some(60.0), (130.0, 130.0), (110.0, 110.0)),
            // 65 ns more: half a switch.
            (Some(125.0), (195.0, 195.0), (110.0, 165.0)),
            // Quicker than while calibrating.
            (Some(50.0), (120.0, 120.0), (110.0, 110.0)),
        ] {
            let measured = Measured { switch, ..Measured::default() };
            assert_eq!(recorded(&costs, CostKind::Switch, &measured), bounds(of_switch), "{switch:?}");
            assert_eq!(recorded(&costs, CostKind::Waking, &measured), bounds(of_waking), "{switch:?}");
        }
    }

    #[test]
    fn stacks_that_are_read_anew_are_no_part_of_the_calibrated_cost_and_added_as_they_were_timed() {
        // 10,000 ns in each of three groups with 100 round trips: 100 ns per round trip.
        let group = |runs, ns, stacks_ns| Runs { program: "sched_switch".to_owned(), runs, ns, stacks_ns };
        let mut deltas = Deltas::default();
        for _ in 0..3 {
            deltas.add(&[group(5, 70, 3)], &[group(205, 30_070, 10_003)], 100);
        }
        assert_eq!(deltas.steady("sched_switch"), Some(100.0));
        // A round trip: 200 ns in programs, 100 ns for stacks, and two dispatches.
        let load = Load { bare: slices(4000.0, 0.0), attached: slices(4360.0, 0.0), deltas };
        assert_eq!(load.dispatch(), Some((30.0, 30.0)));
        let costs = Costs::new(&[load], 60.0).expect("costs");
        assert_eq!(range(&costs, CostKind::Switch), (130, 130));
        let measured = Measured { stacks_of_switch: 900.0, stacks_of_waking: 400.0, ..Measured::default() };
        assert_eq!(recorded(&costs, CostKind::Switch, &measured), bounds((1030.0, 1030.0)));
        let costs = Costs::new(&[pipes()], 60.0).expect("costs");
        let slower = Measured { switch: Some(125.0), ..measured };
        assert_eq!(
            recorded(&costs, CostKind::Waking, &slower),
            bounds((510.0, 565.0)),
            "no factor of theirs"
        );
    }

    #[test]
    fn rare_records_cost_what_their_programs_took_and_are_counted_by_their_runs() {
        let costs = Costs::new(&[pipes()], 60.0).expect("costs");
        let measured = Measured { rare: 700, rare_timed: 100, rare_ns: Some(370.0), ..Measured::default() };
        assert_eq!(recorded(&costs, CostKind::Other, &measured), bounds((400.0, 400.0)));
        let few = Measured { rare_timed: MANY_RUNS - 1, ..measured };
        assert_eq!(recorded(&costs, CostKind::Other, &few), bounds((200.0, 800.0)));
        let many = Measured { rare_timed: MANY_RUNS, ..measured };
        assert_eq!(recorded(&costs, CostKind::Other, &many), bounds((400.0, 400.0)));
        let none = Measured { rare_timed: 0, rare_ns: None, ..measured };
        assert_eq!(recorded(&costs, CostKind::Other, &none), bounds((65.0, 1300.0)));
    }

    #[test]
    fn interrupts_and_rare_records_are_counted_and_other_records_are_not() {
        let interrupts = Some(Interrupts { hard: 7, soft: 5 });
        let measured = Measured { interrupts, rare: 3, ..Measured::default() };
        let costs = Costs::new(&[pipes()], 60.0).expect("costs").now(&measured, false);
        let count = |kind| costs.iter().find(|cost| cost.kind == kind).and_then(|cost| cost.count);
        assert_eq!(count(CostKind::Interrupt), Some(7));
        assert_eq!(count(CostKind::Softirq), Some(5));
        assert_eq!(count(CostKind::Other), Some(3));
        assert_eq!(count(CostKind::Switch), None);
        assert_eq!(costs.len(), CostKind::ALL.len());
    }

    #[test]
    fn a_probes_cost_has_no_upper_limit() {
        let costs = Costs::new(&[pipes()], 60.0).expect("costs");
        let call = |calls| {
            costs.now(&Measured::default(), calls).into_iter().find(|cost| cost.kind == CostKind::Call)
        };
        assert_eq!(call(true).expect("a cost").to_ns, None);
        assert!(call(false).expect("a cost").to_ns.is_some());
    }

    #[test]
    fn costs_are_read_again_as_they_were_and_no_other_text_is_one() {
        let costs = Costs::new(&[pipes()], 60.5).expect("costs");
        assert!(costs.is_measured());
        let text = costs.to_text();
        assert_eq!(Costs::from_text(&text), Some(costs));
        for (from, to) in [
            ("Switch 130 130", "Switch 130 129"),
            ("Switch 130 130", "Switch -1 130"),
            ("Switch 130 130", "Switch 130 inf"),
            ("Switch 130 130", "Switch NaN 130"),
            ("Switch 130 130", "Switch 130"),
            ("Switch 130 130", "Switched 130 130"),
            ("Switch 130 130\n", ""),
            ("end\n", "end\nend\n"),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert_ne!(damaged, text, "{from}");
            assert_eq!(Costs::from_text(&damaged), None, "{to}");
        }
        let noisy = Load { attached: slices(3990.0, 500.0), ..pipes() };
        assert!(!Costs::new(&[noisy], 60.0).expect("costs").is_measured());
    }

    #[test]
    fn counters_that_went_back_count_nothing() {
        let now = Interrupts { hard: 3, soft: 9 };
        assert_eq!(now.since(Interrupts { hard: 5, soft: 2 }), Interrupts { hard: 0, soft: 7 });
    }
}
