//! A recording session from the first attach to the last drain.

mod begin;
mod own_records;

use std::cell::RefCell;
use std::fs::File;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use libbpf_rs::RingBuffer;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{CallEnd, Cpu, EventKind, FunctionCall, LostRecords, Mark, Tid, UnwindCounts};
use wakepath_kernel_records::Buffer;
use wakepath_recording::{Place, WriteError};

use crate::child::{Held, Running};
use crate::command_lines::CommandLines;
use crate::contexts::{Changes, Contexts, UnreadContexts};
use crate::cost::{self, Forecast};
use crate::error::Error;
use crate::far_ends::far_ends;
use crate::goroutines::{self, GoFound, GoRefused, GoStarted, GoWatch, Started};
use crate::latency::calibrate::stepped_costs;
use crate::limits::AllLimits;
use crate::mapped_code::MappedCode;
use crate::mappings::{MappedFile, Mappings};
use crate::options::{Options, Stacks};
use crate::priority::RaisedPriority;
use crate::probe_budget::RemovedProbes;
use crate::probes::{self, OpenCall};
use crate::programs::{Missing, Programs};
use crate::rings::Rings;
use crate::scheduling::Schedulings;
use crate::scripts::{Scripts, holds_arguments};
use crate::signals::Signals;
use crate::skips::Skips;
use crate::sockets::Sockets;
use crate::stack_copy::StackCopy;
use crate::start_step::StartStep;
use crate::unwinder::{Spaces, Unwinder, learn_own_stacks};
use crate::watch::{EndReason, Watch, pidfd};
use crate::write_behind::{Destination, WriteBehind, WriteCommand};
use crate::{clocks, names, rights, sampling};

/// The longest sleep between drains, when little happens. At the highest rate measured (354,000 semaphore round trips
/// a second, 176 bytes each) a ring of 8 MiB is full after 135 ms; at the highest packet rate (330,000 a second sent
/// and received, 80 bytes each) a ring of 4 MiB after 160 ms. A burst comes unannounced.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// The shortest sleep between drains, when a ring was more than a quarter full.
const MIN_SLEEP: Duration = Duration::from_millis(5);
/// The shortest sleep between drains while stacks are copied.
const COPY_SLEEP: Duration = Duration::from_millis(2);
/// Bytes that may always wait to be written: several seconds on a busy machine, since on a busy disk even a write to
/// memory takes this long.
const MIN_WAITING_BYTES: usize = 64 << 20;
/// The interval at which clocks and losses are recorded, and the room on the disk is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which programs skipped by the kernel are counted: such a loss may be anywhere since the last
/// count. A count takes 70 µs on 2 CPUs.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time for recording after the command's end, for other threads being ended by a signal. They only need
/// a CPU, unless they wait for a disk or write a core dump.
const MAX_DYING: Duration = Duration::from_millis(100);
/// The interval between checks whether they have ended.
const DYING_INTERVAL: Duration = Duration::from_millis(1);
/// The time for which a rare record is held back, so that earlier records can still come before it, ns: far longer
/// than a tracepoint's program runs, though a virtual CPU may be stopped for as long.
const HOLD_NS: u64 = 200_000_000;

/// A session's outcome.
#[derive(Debug)]
pub struct Outcome {
    /// Where the recording is; `None` for a flight recorder.
    pub place: Option<Place>,
    /// Whether the command got [`Options::variable`].
    pub variable_given: bool,
    /// Why the session ended.
    pub reason: EndReason,
    /// The command's wait status, if it ran and ended.
    pub status: Option<i32>,
    /// The time recorded.
    pub elapsed: Duration,
    /// The command, if it goes on without being recorded.
    pub running: Option<Running>,
    /// The reached limit, if the session ended for lack of room.
    pub out_of_room: Option<WriteError>,
    /// This kernel's missing facilities.
    pub missing: Vec<Missing>,
    /// Go programs in which the kernel refused a probe: their goroutines are not seen.
    pub go_refused: Vec<GoRefused>,
    /// Go programs that started meanwhile.
    pub go_started: GoStarted,
    /// The number of calls not recorded since too many were open or recursion was too deep.
    pub calls_overflowed: u64,
    /// The number of kernel function calls not recorded since their beginning or return was missed.
    pub calls_unseen: u64,
    /// The functions whose probes took more than their budget, by their number.
    pub removed: Vec<(u32, RemovedProbes)>,
    /// CPU time of this process while recording.
    pub consumer: Duration,
    /// `/proc/kallsyms`, opened while this process had the right to see the kernel's addresses.
    pub kernel_names: Option<File>,
    /// Program files readable, but not by their paths.
    pub mapped_files: Vec<MappedFile>,
    /// Processes with thread contexts that cannot be read.
    pub unread_contexts: Vec<UnreadContexts>,
}

/// Runs a session: records until the command ends, the time is over or `stop` asks for it. `go` has the Go programs
/// whose goroutines are recorded. `open` creates the recording, and is called when all is ready: an impossible
/// question, missing privileges or a missing command leave the disk unchanged. `beside` is called when the command
/// runs and this process has no more rights than it needs, to start threads for other work. `step` hears of the start's steps.
///
/// # Errors
/// When recording could not start, the command could not run, or the recording could not be written.
pub fn record(
    options: &Options,
    go: GoFound,
    open: impl FnOnce() -> Result<Destination, WriteError>,
    beside: impl FnOnce(),
    step: &mut dyn FnMut(StartStep),
    stop: &Signals,
) -> Result<Outcome, Error> {
    if let Some(&pid) = options.targets.iter().find(|&&pid| pidfd(pid).is_none()) {
        return Err(Error::NoProcess { pid });
    }
    step(StartStep::Load);
    let function_costs = match options.budget {
        Some(_) => stepped_costs(options.functions.iter().map(|(_, probe)| probe)),
        None => Vec::new(),
    };
    let cpus = sampling::possible_cpus().map_err(|source| Error::MapRings { source })?;
    let raised = RaisedPriority::starting();
    let mut storage = MaybeUninit::uninit();
    let mut programs = Programs::load(&mut storage, options, go.may_be_recorded(), cpus)?;
    let (sched, net) = programs.rings(options, cpus)?;
    let mut spaces = programs.unwind_rules()?.map(Spaces::new);
    let arrived = Rc::new(RefCell::new(Vec::new()));
    let incoming = Rc::clone(&arrived);
    let buffer = programs.life(move |record| incoming.borrow_mut().push(Box::from(record)))?;
    // The command has its usual priority.
    drop(raised);
    let held = match options.command.as_slice() {
        [] => None,
        words => {
            let identity = options.caller.as_ref().filter(|_| !options.as_root);
            Some(Held::spawn(words, identity, options.variable.as_ref())?)
        }
    };
    let raised = RaisedPriority::starting();
    let variable_given = held.as_ref().is_some_and(|held| held.has_default);
    // At least as much as the rings hold.
    let ring_bytes = (sched.size() + net.size()) * cpus;
    let mut destination = open()?;
    let (place, open_spans) = match &mut destination {
        Destination::Recording(recording) => (Some(recording.place()), None),
        Destination::Flight(flight) => (None, flight.open_spans.take()),
    };
    let open_spans = open_spans.map(|asked| programs.open_spans(asked)).transpose()?;
    let out = WriteBehind::new(destination, ring_bytes.max(MIN_WAITING_BYTES));
    for pid in options.targets.iter().copied().chain(held.as_ref().map(|held| held.pid as u32)) {
        programs.follow(pid)?;
    }
    let stacks = options.stacks != Stacks::None;
    step(StartStep::Measure);
    let forecast = Forecast::begin(options);
    step(StartStep::Attach);
    programs.attach(options, &go)?;
    step(StartStep::Measure);
    let costs = forecast.and_then(|forecast| {
        forecast.finish(&programs, &sched, &net, || {
            learn_own_stacks(spaces.as_mut(), &buffer, &arrived);
        })
    });
    let attached = Instant::now();
    let removed = programs.attach_functions(options, function_costs)?;
    let costs = costs.map(|costs| cost::Recorded::new(costs, &programs, &sched, options.records_functions()));

    let (began, spent) = (Instant::now(), cpu_time());
    let (services, said) = mpsc::channel();
    let mut session = Session {
        programs,
        sched,
        net,
        arrived,
        buffer,
        out,
        commands: Vec::new(),
        mappings: Mappings::new(),
        mapped_files: Vec::new(),
        costs,
        unwinder: Unwinder::new(spaces),
        go: GoWatch::default(),
        services: said,
        go_started: GoStarted::default(),
        status: None,
        life_lost: vec![0; cpus],
        scripts: Scripts::default(),
        command_lines: held.as_ref().and_then(|held| CommandLines::asked(options, held.pid as u32)),
        schedulings: Schedulings::default(),
        skips: Skips::default(),
        sockets: Sockets::default(),
        limits: AllLimits::default(),
        stacks,
        last_check: clocks::now(),
        last_look: clocks::now(),
        released: clocks::now(),
        attached,
        removed: Vec::new(),
    };
    step(StartStep::List);
    session.begin(options, held.as_ref())?;
    session.add_removed(removed);
    session.keep_to_budget();
    // A flight recorder keeps windows that begin long after this.
    if place.is_some() {
        let ends = far_ends(&options.targets, |time| session.programs.sockets(time));
        session.add_names(ends);
    }
    let named = goroutines::all_reasons(&go.probed).collect();
    session.add_names(named);
    // Without it, short-lived processes have no function names.
    let code = if options.takes_stacks() { MappedCode::watch().ok() } else { None };
    // Without it, processes with thread contexts are not found.
    let changes = Changes::watch().ok();
    let words = session.programs.words()?;
    let command = held.as_ref().map(|held| held.pid);
    session.released = clocks::now();
    if let Some(Err(source)) = held.map(Held::release) {
        return Err(Error::Exec { command: options.command[0].clone(), source });
    }
    drop(raised);
    step(StartStep::Begun);
    let priority = RaisedPriority::recording();
    let command_is_roots = options.as_root && !options.command.is_empty();
    // The kernel decides when the file is opened whether it shows addresses. Names are read later, without rights.
    let kernel_names = File::open("/proc/kallsyms").ok();
    rights::keep_for_session(options.caller.as_ref(), command_is_roots)
        .map_err(|source| Error::Rights { source })?;
    // Threads inherit privileges: they start after these were dropped.
    let probes = session.programs.go_probes.take();
    session.go = GoWatch::start(go.later, probes, command.map(|pid| pid as u32), go.probed.len());
    let see = session.unwinder.mapped();
    session.mappings = std::mem::replace(&mut session.mappings, Mappings::new()).start(code, see);
    session.unwinder = std::mem::replace(&mut session.unwinder, Unwinder::new(None)).start();
    session.out.start();
    let contexts = changes
        .map(|changes| Contexts::start(words, changes, open_spans, (services, options.attributes.clone())));
    beside();
    let mut out_of_room = None;
    let mut reason = match session.run(options, command, stop, began) {
        Err(Error::Write(error)) if error.is_out_of_room() => {
            out_of_room = Some(error);
            EndReason::OutOfRoom
        }
        other => other?,
    };
    let status = session.status;
    let elapsed = began.elapsed();
    let unread_contexts = contexts.map(Contexts::finish).unwrap_or_default();
    // For the recording's readers: these processes' contexts were never read.
    for unread in &unread_contexts {
        session.add_unread_context(Tid(unread.tgid));
    }
    let ended = session.end(status);
    drop(priority);
    match ended {
        Err(Error::Write(error)) if error.is_out_of_room() => {
            reason = EndReason::OutOfRoom;
            out_of_room.get_or_insert(error);
        }
        other => other?,
    }
    Ok(Outcome {
        variable_given,
        place,
        reason,
        status,
        elapsed,
        running: command.filter(|_| status.is_none()).map(|pid| Running { pid }),
        out_of_room,
        calls_overflowed: session.programs.calls_overflowed(),
        calls_unseen: session.programs.calls_unseen(),
        removed: session.removed,
        missing: session.programs.missing,
        go_refused: session.programs.go_refused,
        go_started: session.go_started,
        consumer: cpu_time().saturating_sub(spent),
        kernel_names,
        mapped_files: session.mapped_files,
        unread_contexts,
    })
}

struct Session<'a, 'obj> {
    programs: Programs<'obj>,
    sched: Rings,
    net: Rings,
    /// Rare records from the ring buffer.
    arrived: Rc<RefCell<Vec<Box<[u8]>>>>,
    buffer: RingBuffer<'a>,
    out: WriteBehind,
    /// Commands not yet passed to `out`.
    commands: Vec<WriteCommand>,
    mappings: Mappings,
    /// Files reached through their mappings alone; complete at the end.
    mapped_files: Vec<MappedFile>,
    /// The programs' cost, where it could be measured.
    costs: Option<cost::Recorded>,
    unwinder: Unwinder,
    /// Looks at starting programs.
    go: GoWatch,
    /// Service names published by processes.
    services: mpsc::Receiver<names::Name>,
    /// The Go programs that started meanwhile; complete at the end.
    go_started: GoStarted,
    /// Each CPU's number of lost rare records at the last check.
    life_lost: Vec<u64>,
    /// The scripts that processes run.
    scripts: Scripts,
    /// The command lines to keep, if the user asked for them.
    command_lines: Option<CommandLines>,
    schedulings: Schedulings,
    /// The programs' skip counts at the last looks.
    skips: Skips,
    /// The far ends of connections within this host.
    sockets: Sockets,
    limits: AllLimits,
    /// Whether stacks are taken.
    stacks: bool,
    /// When clocks and losses were last recorded.
    last_check: Stamp<Local>,
    /// When skipped programs were last counted.
    last_look: Stamp<Local>,
    /// When the command was let go.
    released: Stamp<Local>,
    /// The command's wait status, once it has ended.
    status: Option<i32>,
    /// When the selected functions' probes were attached.
    attached: Instant,
    /// The functions whose probes were removed.
    removed: Vec<(u32, RemovedProbes)>,
}

impl Session<'_, '_> {
    fn run(
        &mut self,
        options: &Options,
        command: Option<i32>,
        stop: &Signals,
        began: Instant,
    ) -> Result<EndReason, Error> {
        let mut watch = Watch::new(command, &options.targets, options.duration);
        let mut sleep = MIN_SLEEP;
        let mut next_check = began + CHECK_INTERVAL;
        let mut next_look = began + LOOK_INTERVAL;
        loop {
            // Where rules are missing, each stack is copied until they are there.
            if watch.sleep(COPY_SLEEP, None) {
                watch.sleep(sleep - COPY_SLEEP, Some(self.programs.copies()));
            }
            let fullest = self.drain()?;
            self.programs.learn_callers(options)?;
            self.keep_to_budget();
            sleep = match fullest {
                full if full > 0.25 => MIN_SLEEP,
                full if full < 0.05 => (sleep * 2).min(MAX_SLEEP),
                _ => sleep,
            };
            if Instant::now() >= next_look {
                next_look = Instant::now() + LOOK_INTERVAL;
                self.look_for_skips();
                let ends = self.sockets.look(&self.programs);
                self.add_names(ends);
            }
            if Instant::now() >= next_check {
                next_check += CHECK_INTERVAL;
                self.check();
                self.add_costs();
                self.commands.push(WriteCommand::CheckSpace);
            }
            if let Some((reason, status)) = watch.ended(stop) {
                // The kernel gives it once: it is kept, whatever fails from here on.
                self.status = status;
                if status.is_some() {
                    self.record_the_dying()?;
                }
                return Ok(reason);
            }
        }
    }

    /// Removes the selected functions' probes beyond their budget, and records when.
    fn keep_to_budget(&mut self) {
        let removed = self.programs.keep_to_budget(self.attached);
        self.add_removed(removed);
    }

    fn add_removed(&mut self, removed: Vec<(u32, RemovedProbes)>) {
        for (target, _) in &removed {
            self.add_event(EventKind::Mark(Mark::Unprobed(*target)));
        }
        self.removed.extend(removed);
    }

    /// Goes on until no thread that began beside the command is being ended by a signal: `timeout -s KILL` kills its
    /// child and then itself, and its end is seen before the child runs and takes the signal.
    fn record_the_dying(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        let is_dying = |programs: &Programs<'_>, since| programs.dying().iter().any(|&start| start > since);
        while is_dying(&self.programs, self.released.ns()) && began.elapsed() < MAX_DYING {
            std::thread::sleep(DYING_INTERVAL);
            self.drain()?;
        }
        Ok(())
    }

    /// Stops recording and writes the rest.
    fn end(&mut self, status: Option<i32>) -> Result<(), Error> {
        // Detaching causes interrupts of its own, which no program sees any more.
        self.add_costs();
        let ends = self.sockets.finish(&self.programs);
        self.add_names(ends);
        while !self.go.is_over() {
            std::thread::sleep(DYING_INTERVAL);
            self.drain_rings();
        }
        let Started { programs, links: mut go_links } = self.go.finish();
        self.go_started = programs;
        probes::detach(&mut go_links);
        self.look_at_scheduling();
        self.programs.detach();
        let detached = clocks::now();
        let last = self.limits.last();
        self.add_names(last);
        // The rest of the rings must not take the room reserved for the end.
        self.drain_rings();
        let drained = self.hand_over();
        let drained = drained.and(self.out.stop().map_err(Error::Write));
        let full = match drained {
            Err(Error::Write(error)) if error.is_out_of_room() => Some(error),
            other => other.map(|()| None)?,
        };
        self.commands.push(WriteCommand::UseAllRoom);
        if let Some(status) = status {
            self.add_event(EventKind::Mark(Mark::Ended(status as u32)));
        }
        for OpenCall { target, thread, from } in self.programs.open_calls() {
            let thread = Tid(thread.unwrap_or(0));
            let call = FunctionCall { target, thread, from: Stamp::from_ns(from), end: CallEnd::Open };
            self.add_event(EventKind::Function(call));
        }
        self.add_event(EventKind::Mark(Mark::Stopped));
        // Without a flush, which could take or lack the end's room.
        self.take_rare();
        let (mappings, files) = std::mem::replace(&mut self.mappings, Mappings::new()).finish();
        self.mapped_files = files;
        self.commands.extend(self.unwinder.finish().into_iter().map(WriteCommand::Record));
        for mapping in mappings {
            self.add_event(EventKind::Mapping(mapping));
        }
        // The names of new cgroups, disks and interfaces.
        self.add_names(names::all());
        self.check();
        let lost = self.life_lost.iter().sum();
        let complete = full.is_none().then_some(detached);
        self.commands.push(WriteCommand::End { lost, complete });
        self.hand_over()?;
        full.map_or(Ok(()), |error| Err(Error::Write(error)))
    }

    /// Empties all buffers. Returns the level of the fullest ring, 0 to 1.
    fn drain(&mut self) -> Result<f64, Error> {
        let fullest = self.drain_rings();
        // Before the buffer is read: a record with a later stamp may still be on its way.
        let now = clocks::now();
        self.take_rare();
        let lost = self.life_lost.iter().sum();
        // A sample keeps its stamp, so later records wait for it.
        let until = now.minus(HOLD_NS).ns().min(self.unwinder.oldest_sample().unwrap_or(u64::MAX));
        self.commands.push(WriteCommand::Flush { until: Stamp::from_ns(until), lost });
        self.hand_over()?;
        Ok(fullest)
    }

    fn hand_over(&mut self) -> Result<(), Error> {
        Ok(self.out.put(self.commands.drain(..))?)
    }

    fn drain_rings(&mut self) -> f64 {
        let mut fullest = 0.0f64;
        for cpu in 0..self.sched.cpus() {
            for (buffer, rings) in [(Buffer::Sched, &self.sched), (Buffer::Net, &self.net)] {
                // The counter is read before the position: a counted loss then lies before this packet's end or right
                // behind it.
                let lost = rings.lost(cpu);
                let mut bytes = self.out.buffer();
                rings.drain(cpu, &mut bytes);
                fullest = fullest.max(bytes.len() as f64 / rings.size() as f64);
                if bytes.is_empty() {
                    self.out.give_back(bytes);
                } else {
                    self.commands.push(WriteCommand::Packet { buffer, cpu: Cpu(cpu as u16), bytes, lost });
                }
            }
        }
        fullest
    }

    /// Takes the newly arrived rare records, and the newly found mappings.
    fn take_rare(&mut self) {
        // The only errors would be the callback's, which has none.
        self.buffer.consume_raw();
        let arrived = self.arrived.take();
        arrived.iter().for_each(|record| self.mappings.see(record));
        for record in arrived {
            let script = self.scripts.see(&record);
            let command_line = self.command_lines.as_mut().and_then(|lines| lines.see(&record));
            for (at, (space, key, name)) in script.into_iter().chain(command_line) {
                self.add_event_at(at, Cpu::UNKNOWN, EventKind::Name(space, key, name));
            }
            // They never get onto a disk.
            if holds_arguments(&record) || self.add_scheduling(&record) {
                continue;
            }
            self.unwinder.see(&record);
            self.go.see(&record);
            self.sockets.see(&record);
            let names = self.limits.see(&record);
            self.add_names(names);
            let record = match StackCopy::new(record) {
                Ok(Some(copy)) => {
                    self.mappings.sampled(copy.tgid(), copy.address());
                    self.unwinder.take(copy)
                }
                Ok(None) => None,
                Err(record) => Some(record),
            };
            self.commands.extend(record.map(WriteCommand::Record));
        }
        self.commands.extend(self.unwinder.finished().into_iter().map(WriteCommand::Record));
        let named = self.go.named().into_iter().chain(self.services.try_iter()).collect();
        self.add_names(named);
        for mapping in self.mappings.found() {
            self.add_event(EventKind::Mapping(mapping));
        }
    }

    /// Records the clocks, and the losses since the last check.
    fn check(&mut self) {
        self.add_clocks();
        for (cpu, lost) in self.programs.life_lost().into_iter().enumerate() {
            let before = self.life_lost.get(cpu).copied().unwrap_or(lost);
            if lost > before {
                self.add_loss(Cpu(cpu as u16), self.last_check, lost - before, LostRecords::Any);
                self.life_lost[cpu] = lost;
            }
        }
        if self.stacks {
            self.add_event(EventKind::StackCounts(self.programs.stack_counts()));
        }
        let [copied, refused, unwound_ns] = self.unwinder.counts();
        let (of_switches, of_wakings) = self.programs.stacks_ns();
        let taken_ns = of_switches + of_wakings;
        let counts = UnwindCounts { taken_ns, copied, refused, unwound_ns };
        if counts != UnwindCounts::default() {
            self.add_event(EventKind::UnwindCounts(counts));
        }
        self.look_for_skips();
        let missing = self.skips.check_limits(self.sched.limits());
        if missing > 0 {
            self.add_loss(Cpu::UNKNOWN, self.last_check, missing, LostRecords::Limits);
        }
        self.last_check = clocks::now();
    }

    /// Records the losses since the last look, due to programs skipped by the kernel.
    fn look_for_skips(&mut self) {
        // Before the counts are read: a later skip is in the next look.
        let before = std::mem::replace(&mut self.last_look, clocks::now());
        for (records, missing) in self.skips.look(self.programs.skipped()) {
            self.add_loss(Cpu::UNKNOWN, before, missing, records);
        }
    }
}

/// This process's CPU time so far, user and kernel.
fn cpu_time() -> Duration {
    Duration::from_nanos(clocks::read(libc::CLOCK_PROCESS_CPUTIME_ID))
}
