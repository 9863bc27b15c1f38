//! Programs drawn as text, and their answers as text.
//!
//! A line is a call: its depth by its indentation, the function, the time in its own code, and words:
//!
//! - `x10`: the caller makes the call ten times, one behind the other;
//! - `1/3` or `1/3+2`: only in the calls to f₀ with a number divisible by 3, or with the remainder 2; `2/3`: in the two
//!   out of three with a remainder below 2;
//! - `from 7`: only in calls to f₀ from number 7 on (they count from 0); `until 7`: only before it;
//! - `blocked 3us`, `preempted 3us`, `stolen 3us`, `irq236 3us`: other uses of its time;
//! - `indirect`, `tail`: how its site calls. Indirect calls at one site are lines behind each other with `site 1`;
//! - `refused`: its site cannot be probed; `unattachable`: the probe is refused only at its placement;
//! - `undecodable`: its function's code cannot be decoded.
//!
//! The same name is the same function: its sites are the sites on all lines with the name, by place.

use std::collections::BTreeMap;

use expect_test::Expect;
use wakepath_drilldown::{
    Doubt, Drilldown, End, Event, FunctionId, LatencyRange, NoSites, NodeCause, NodeId, Parameters,
    ProbeCost, Refusal, RootCause, Site, SiteId, SiteKind,
};

use crate::driver::{ALL, Driver};
use crate::program::Call;

/// A line of a drawing, with the lines below it.
#[derive(Debug, Clone)]
struct Line {
    function: u32,
    site: u64,
    own_ns: u64,
    blocked_ns: u64,
    preempted_ns: u64,
    stolen_ns: u64,
    interrupts: Vec<(u32, u64)>,
    repeats: u64,
    /// The calls to f₀ that make this call: `number % .1 - .2 < .0`.
    every: (u64, u64, u64),
    between: (u64, u64),
    lines: Vec<Line>,
}

/// A program, from a drawing.
#[derive(Debug, Clone)]
pub struct Drawing {
    f0: Line,
    names: Vec<String>,
    pub sites: BTreeMap<FunctionId, Result<Vec<Site>, NoSites>>,
    unattachable: Vec<SiteId>,
}

/// A time in ns, from `3us`.
fn time(word: &str) -> u64 {
    let unit = word.find(|c: char| c.is_alphabetic()).unwrap_or_else(|| panic!("`{word}` has no unit"));
    let factor = match &word[unit..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        other => panic!("`{other}` is no unit of time"),
    };
    word[..unit].parse::<u64>().unwrap() * factor
}

fn every(word: &str) -> Option<(u64, u64, u64)> {
    let (of, n) = word.split_once('/')?;
    let (n, rest) = n.split_once('+').unwrap_or((n, "0"));
    Some((of.parse().ok()?, n.parse().ok()?, rest.parse().ok()?))
}

impl Drawing {
    pub fn new(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut drawing =
            Self { f0: Line::of(0), names: Vec::new(), sites: BTreeMap::new(), unattachable: Vec::new() };
        let depth = |line: &str| line.len() - line.trim_start().len();
        let mut open: Vec<(usize, Line)> = Vec::new();
        for line in &lines {
            close(&mut open, depth(line));
            let place = open.last().map_or(0, |(_, above)| above.lines.len() as u64);
            let above = open.last().map(|(_, above)| above.function);
            open.push((depth(line), drawing.line(line.trim(), above, place)));
        }
        close(&mut open, depth(lines[0]) + 1);
        drawing.f0 = open.pop().unwrap().1;
        assert!(open.is_empty(), "a drawing has one f₀");
        drawing
    }

    pub fn function(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|known| known == name);
        u32::try_from(known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }))
        .unwrap()
    }

    pub fn name(&self, function: FunctionId) -> String {
        self.names[function.0 as usize].clone()
    }

    fn line(&mut self, text: &str, above: Option<u32>, place: u64) -> Line {
        let mut words = text.split_whitespace();
        let function = self.function(words.next().unwrap());
        let mut line = Line::of(function);
        line.own_ns = time(words.next().unwrap_or_else(|| panic!("`{text}` has no time")));
        let (mut indirect, mut tail, mut refused, mut site) = (false, false, None, place);
        let mut unattachable = false;
        while let Some(word) = words.next() {
            let mut next = || words.next().unwrap_or_else(|| panic!("`{word}` needs a value"));
            match word {
                "blocked" => line.blocked_ns = time(next()),
                "preempted" => line.preempted_ns = time(next()),
                "stolen" => line.stolen_ns = time(next()),
                "from" => line.between.0 = next().parse().unwrap(),
                "until" => line.between.1 = next().parse().unwrap(),
                "site" => site = next().parse().unwrap(),
                "indirect" => indirect = true,
                "tail" => tail = true,
                "refused" => refused = Some(Refusal::SingleStep),
                "unattachable" => unattachable = true,
                "undecodable" => {
                    self.sites.insert(FunctionId(function), Err(NoSites::NotDecodable));
                }
                word if word.starts_with("irq") => {
                    line.interrupts.push((word[3..].parse().unwrap(), time(next())));
                }
                word if word.starts_with('x') => line.repeats = word[1..].parse().unwrap(),
                word => line.every = every(word).unwrap_or_else(|| panic!("`{word}` is not known")),
            }
        }
        let Some(above) = above else { return line };
        line.site = u64::from(above) << 32 | site;
        let kind = match (indirect, tail) {
            (false, false) => SiteKind::Direct(FunctionId(function)),
            (false, true) => SiteKind::Tail(FunctionId(function)),
            (true, false) => SiteKind::Indirect,
            (true, true) => SiteKind::IndirectTail,
        };
        let new = Site { id: SiteId { address: line.site }, kind, refused };
        self.unattachable.extend(unattachable.then_some(new.id));
        let sites = self.sites.entry(FunctionId(above)).or_insert_with(|| Ok(Vec::new()));
        if let Ok(sites) = sites {
            match sites.iter().find(|known| known.id == new.id) {
                Some(known) => assert_eq!(known, &new, "two lines of a function differ: `{text}`"),
                None => sites.push(new),
            }
        }
        line
    }

    /// The call to f₀ with a number.
    pub fn call(&self, number: u64) -> Call {
        self.f0.calls(number).remove(0)
    }

    pub fn driver(&self, parameters: Parameters, cost: ProbeCost) -> Driver {
        let mut driver = Driver::new(FunctionId(self.f0.function), self.sites.clone(), parameters, cost);
        driver.unattachable.extend(&self.unattachable);
        driver
    }

    /// Runs calls to f₀ until the search has finished; fails after `most` calls.
    pub fn run(&self, driver: &mut Driver, peak: LatencyRange, most: u64) -> u64 {
        driver.handle(Event::Peak(peak));
        self.run_on(driver, 0, most)
    }

    pub fn run_on(&self, driver: &mut Driver, from: u64, most: u64) -> u64 {
        let mut number = from;
        while driver.finished.is_none() {
            assert!(number < most, "no end after {most} calls: {:?}", driver.machine.root_causes());
            driver.call(&self.call(number));
            number += 1;
        }
        number
    }

    /// The status and the paths found, as text.
    pub fn answers(&self, machine: &Drilldown) -> String {
        let mut text = format!("{:?}\n", machine.status());
        for cause in machine.root_causes() {
            text += &self.answer(machine, &cause);
        }
        text
    }

    pub fn answer(&self, machine: &Drilldown, cause: &RootCause) -> String {
        let tree = machine.tree();
        let name = |node: &NodeId| {
            tree[node.0 as usize].callee.map_or_else(|| String::from("?"), |callee| self.name(callee))
        };
        let path: Vec<String> = cause.path.iter().map(name).collect();
        let spread = |spread| if spread { ", spread" } else { "" };
        let what = match cause.cause {
            None => String::from("-"),
            Some(NodeCause::Itself) if cause.blocked_ns * 2 > cause.ns => String::from("itself, blocked"),
            Some(NodeCause::Itself) => String::from("itself"),
            Some(NodeCause::Loop { callee, calls }) => format!("calls {} {calls} times", name(&callee)),
            Some(NodeCause::Preempted { spread: it }) => format!("preempted{}", spread(it)),
            Some(NodeCause::Stolen { spread: it }) => format!("stolen{}", spread(it)),
            Some(NodeCause::Interrupt { number, spread: it }) => format!("interrupt {number}{}", spread(it)),
            Some(NodeCause::UnknownTarget) => String::from("unknown target"),
        };
        let end = match cause.end {
            Some(End::Itself) => String::new(),
            None => String::from(" (open)"),
            Some(end) => format!(" ({end:?})"),
        };
        let votes: Vec<String> =
            cause.levels.iter().map(|it| format!("{}-{}/{}", it.chosen, it.runner_up, it.calls)).collect();
        let mut text = format!("{}: {what}{end}  [{}]", path.join(" > "), votes.join(" "));
        for doubt in &cause.doubts {
            text += &match doubt {
                Doubt::CloseVotes { node } => format!(" close:{}", name(node)),
                Doubt::NoMajority { node } => format!(" minority:{}", name(node)),
                Doubt::FewCalls { node, calls } => format!(" few:{}:{calls}", name(node)),
                Doubt::ProbeCost { node, calls } => format!(" probes:{}:{calls}", name(node)),
                Doubt::PeakShift { calls } => format!(" shift:{calls}"),
                Doubt::SitesNotMeasured { node, sites } => format!(" unmeasured:{}:{sites}", name(node)),
                Doubt::UnknownTargets { node } => format!(" targets:{}", name(node)),
                Doubt::LeftOut { node } => format!(" left-out:{}", name(node)),
                Doubt::CallsMissing { calls } => format!(" missing:{calls}"),
                Doubt::Drift(drift) => format!(" drift:{:.0}", drift.earth_mover),
            };
        }
        text + "\n"
    }
}

fn close(open: &mut Vec<(usize, Line)>, depth: usize) {
    while open.len() > 1 && open.last().is_some_and(|(above, _)| *above >= depth) {
        let (_, line) = open.pop().unwrap();
        open.last_mut().unwrap().1.lines.push(line);
    }
}

impl Line {
    fn of(function: u32) -> Self {
        Self {
            function,
            site: 0,
            own_ns: 0,
            blocked_ns: 0,
            preempted_ns: 0,
            stolen_ns: 0,
            interrupts: Vec::new(),
            repeats: 1,
            every: (1, 1, 0),
            between: (0, u64::MAX),
            lines: Vec::new(),
        }
    }

    fn calls(&self, number: u64) -> Vec<Call> {
        let (of, n, rest) = self.every;
        let is_called = (number + n - rest) % n < of && (self.between.0..self.between.1).contains(&number);
        let call = Call {
            function: self.function,
            site: self.site,
            own_ns: self.own_ns,
            blocked_ns: self.blocked_ns,
            preempted_ns: self.preempted_ns,
            stolen_ns: self.stolen_ns,
            interrupts: self.interrupts.clone(),
            calls: self.lines.iter().flat_map(|line| line.calls(number)).collect(),
        };
        vec![call; if is_called { self.repeats as usize } else { 0 }]
    }
}

/// Draws a program, runs it without probe costs, and compares the answers.
pub fn check(drawing: &str, expected: Expect) {
    check_with(drawing, |_| (), expected);
}

/// The same with other parameters.
pub fn check_with(drawing: &str, change: impl Fn(&mut Parameters), expected: Expect) {
    let drawing = Drawing::new(drawing);
    let mut parameters = Parameters::default();
    change(&mut parameters);
    let mut driver = drawing.driver(parameters, ProbeCost::default());
    drawing.run(&mut driver, ALL, 5000);
    expected.assert_eq(&drawing.answers(&driver.machine));
}
