//! Probes in the kernel's code: `bpf/drill_kernel.bpf.h`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, libbpf_sys};
use wakepath_functions::Operand;

use super::Drill;
use super::watched::operand_bytes;
use crate::error::Error;
use crate::latency::calibrate::Calibration;
use crate::libbpf::{into_io, load_error, owned, program, program_mut};

/// The most places at once: `WP_DRILL_PLACES`.
pub const MAX_KERNEL_PLACES: usize = 1024;
/// The file with the kernel's number for this kind of probe.
const KIND: &str = "/sys/bus/event_source/devices/kprobe/type";
/// The bit that asks for a return probe (`/sys/bus/event_source/devices/kprobe/format/retprobe`).
const RETURN_PROBE: u64 = 1;

/// The number of threads for removing probes.
const MAX_REMOVING: usize = 8;
/// Rounds of system calls for measuring the cost, and the calls in each.
const ROUNDS: usize = 15;
const CALLS: u64 = 32;
/// `WP_DRILL_IDLE` and `WP_DRILL_COUNT`.
const IDLE: u32 = 0;
const COUNT: u32 = 1;

const CLOSES: u8 = 1;
const RETURNS: u8 = 2;
const ENTERS: u8 = 4;
const CALLED: u8 = 8;
const OPENS: u8 = 16;
const INDIRECT: u8 = 32;
/// `WP_DRILL_ALWAYS`.
const ALWAYS: u8 = 16;

/// A place in the kernel's code that gets a probe, with its roles. A place can have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelPlace {
    /// A call returns to this place.
    pub closes: bool,
    /// A function returns there.
    pub returns: bool,
    /// A function begins there; its number.
    pub enters: Option<u32>,
    /// The same for a function whose callers are known by their return addresses.
    pub called: Option<u32>,
    /// A call is made there.
    pub opens: Option<KernelCallee>,
    /// The condition of the jump there: the lower half of its opcode.
    pub condition: Option<u8>,
    /// The return address of the call there; `None`: it is a jump.
    pub returns_to: Option<u64>,
}

/// The called function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelCallee {
    /// By its number.
    Function(u32),
    /// By its address, which the operand holds when the call is made.
    At(Operand),
}

impl KernelPlace {
    /// A place with both places' roles.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            closes: self.closes || other.closes,
            returns: self.returns || other.returns,
            enters: self.enters.or(other.enters),
            called: self.called.or(other.called),
            opens: self.opens.or(other.opens),
            condition: self.condition.or(other.condition),
            returns_to: self.returns_to.or(other.returns_to),
        }
    }

    /// A `struct wp_drill_place`.
    fn bytes(&self) -> [u8; 32] {
        let role = |is: bool, role: u8| if is { role } else { 0 };
        let operand = match self.opens {
            Some(KernelCallee::At(operand)) => Some(operand),
            _ => None,
        };
        let function = match self.opens {
            Some(KernelCallee::Function(number)) => Some(number),
            _ => None,
        };
        let function = self.enters.or(self.called).or(function).unwrap_or(0);
        let roles = role(self.closes, CLOSES)
            | role(self.returns, RETURNS)
            | role(self.enters.is_some(), ENTERS)
            | role(self.called.is_some(), CALLED)
            | role(self.opens.is_some(), OPENS)
            | role(operand.is_some(), INDIRECT);
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.returns_to.unwrap_or(0).to_ne_bytes());
        bytes[8..12].copy_from_slice(&function.to_ne_bytes());
        bytes[12] = roles;
        bytes[13] = self.condition.unwrap_or(ALWAYS);
        if let Some(operand) = operand {
            bytes[16..].copy_from_slice(&operand_bytes(&operand));
        }
        bytes
    }
}

/// The probes in the kernel's code.
#[derive(Default)]
pub(super) struct KernelProbes {
    /// By address: the place's number, its roles, and its probe.
    places: BTreeMap<u64, (u32, KernelPlace, Probe)>,
    /// Free numbers.
    free: Vec<u32>,
    /// Numbers given out so far.
    used: u32,
    /// The return probe on f0.
    returns: Option<Probe>,
    /// The programs at system calls.
    system_calls: Vec<Link>,
    /// The probes on indirect calls.
    watched: Vec<Probe>,
    /// Probes are being added.
    adding: Arc<AtomicBool>,
    /// Probes in removal: each takes the kernel a grace period.
    removing: Vec<JoinHandle<Vec<u32>>>,
}

/// A program at a place, until it is dropped. The program goes first.
struct Probe(#[expect(dead_code, reason = "held")] OwnedFd, #[expect(dead_code, reason = "held")] OwnedFd);

impl Drill<'_> {
    /// Probes these places and no others. Returns the refused places, with the kernel's reason.
    ///
    /// # Errors
    /// When the kernel's memory does not hold a place.
    pub fn probe_kernel(
        &mut self,
        wanted: &BTreeMap<u64, KernelPlace>,
    ) -> Result<Vec<(u64, io::Error)>, Error> {
        let gone: BTreeSet<u64> =
            self.kernel.places.keys().filter(|address| !wanted.contains_key(address)).copied().collect();
        let mut removed = Vec::new();
        for address in gone {
            if let Some((number, _, probe)) = self.kernel.places.remove(&address) {
                self.write_place(number, &KernelPlace::default())?;
                removed.push((number, probe));
            }
        }
        let mut refused = Vec::new();
        // Each removal holds the kernel's lock for a grace period: new probes go first.
        self.kernel.adding.store(true, Relaxed);
        for (&address, place) in wanted {
            if let Some((number, known, _)) = self.kernel.places.get_mut(&address) {
                if known != place {
                    *known = *place;
                    let number = *number;
                    self.write_place(number, place)?;
                }
                continue;
            }
            let number = match self.kernel.free.pop() {
                Some(number) => number,
                None if self.kernel.used as usize >= MAX_KERNEL_PLACES => {
                    refused.push((address, io::Error::from_raw_os_error(libc::ENOSPC)));
                    continue;
                }
                None => {
                    self.kernel.used += 1;
                    self.kernel.used - 1
                }
            };
            self.write_place(number, place)?;
            match self.attach_kernel("drill_kernel", address, number.into(), false) {
                Ok(probe) => {
                    self.kernel.places.insert(address, (number, *place, probe));
                }
                Err(why) => {
                    self.write_place(number, &KernelPlace::default())?;
                    self.kernel.free.push(number);
                    refused.push((address, why));
                }
            }
        }
        self.kernel.adding.store(false, Relaxed);
        self.remove_later(removed);
        Ok(refused)
    }

    /// Sees the returns of the function at this address by a return probe. The kernel has few return probe instances
    /// for a function, and misses returns beyond that.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn probe_kernel_returns(&mut self, address: u64) -> Result<(), Error> {
        let failed = |source| Error::KernelProbe { name: format!("{address:#x}"), source };
        let probe = self.attach_kernel("drill_kernel_return", address, 0, true).map_err(failed)?;
        self.kernel.returns = Some(probe);
        Ok(())
    }

    /// Makes indirect calls to this address in the kernel count as calls of this function.
    ///
    /// # Errors
    /// When the kernel's memory does not hold it.
    pub fn know_target(&self, address: u64, function: u32) -> Result<(), Error> {
        let map = &self.skeleton.maps.called;
        map.update(&address.to_ne_bytes(), &function.to_ne_bytes(), MapFlags::ANY).map_err(load_error)
    }

    /// Watches where the kernel's indirect calls go: each site's number, its address, and the place of the target.
    /// Returns the refused sites' numbers.
    ///
    /// # Errors
    /// When the kernel's memory does not hold a site.
    pub fn watch_kernel(&mut self, sites: &[(u32, u64, Operand)]) -> Result<Vec<u32>, Error> {
        let mut refused = Vec::new();
        for (number, address, operand) in sites {
            let map = &self.skeleton.maps.operands;
            map.update(&number.to_ne_bytes(), &operand_bytes(operand), MapFlags::ANY).map_err(load_error)?;
            match self.attach_kernel("drill_kernel_target", *address, (*number).into(), false) {
                Ok(probe) => self.kernel.watched.push(probe),
                Err(_) => refused.push(*number),
            }
        }
        Ok(refused)
    }

    /// Follows system calls into the kernel from now on: all system calls become some 100 ns slower, in all
    /// processes. A system call whose number is a known target counts as a call of that function.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn follow_system_calls(&mut self) -> Result<(), Error> {
        if !self.kernel.system_calls.is_empty() {
            return Ok(());
        }
        for name in ["drill_call_exit", "drill_call_enter"] {
            let program = program_mut(self.skeleton.object(), name)?;
            let link = program
                .attach()
                .map_err(|source| Error::Attach { name: name.to_owned(), source: into_io(source) })?;
            self.kernel.system_calls.push(link);
        }
        Ok(())
    }

    /// Watches which system calls are made where: each site's number, and the address behind its instruction. Targets
    /// are then system call numbers.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn watch_system_calls(&mut self, sites: &[(u32, u64)]) -> Result<(), Error> {
        if !sites.is_empty() {
            self.follow_system_calls()?;
        }
        for (number, behind) in sites {
            let map = &self.skeleton.maps.watched_calls;
            map.update(&behind.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY).map_err(load_error)?;
        }
        Ok(())
    }

    fn write_place(&self, number: u32, place: &KernelPlace) -> Result<(), Error> {
        let map = &self.skeleton.maps.places;
        map.update(&number.to_ne_bytes(), &place.bytes(), MapFlags::ANY).map_err(load_error)
    }

    fn attach_kernel(
        &self,
        name: &'static str,
        address: u64,
        cookie: u64,
        returns: bool,
    ) -> io::Result<Probe> {
        let event = kprobe(address, returns)?;
        let program = program(self.skeleton.object(), name).map_err(io::Error::other)?;
        let link = link(program.as_fd(), event.as_fd(), cookie)?;
        Ok(Probe(link, event))
    }

    /// Removes probes while the search goes on. Their numbers become free when none of them can run any more.
    fn remove_later(&mut self, removed: Vec<(u32, Probe)>) {
        if removed.is_empty() {
            return;
        }
        let (done, going): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.kernel.removing).into_iter().partition(JoinHandle::is_finished);
        self.kernel.removing = going;
        self.kernel.free.extend(done.into_iter().filter_map(|thread| thread.join().ok()).flatten());
        let numbers: Vec<u32> = removed.iter().map(|(number, _)| *number).collect();
        let probes = removed.into_iter().map(|(_, probe)| probe).collect();
        let adding = Arc::clone(&self.kernel.adding);
        let remove = move || {
            remove(probes, &adding);
            numbers
        };
        self.kernel.removing.push(std::thread::spawn(remove));
    }

    /// Stops watching the kernel's indirect calls.
    pub(super) fn watch_kernel_no_more(&mut self) {
        let map = &self.skeleton.maps.watched_calls;
        for key in map.keys().collect::<Vec<_>>() {
            let _ = map.delete(&key);
        }
        let probes = std::mem::take(&mut self.kernel.watched);
        if !probes.is_empty() {
            let adding = Arc::clone(&self.kernel.adding);
            let remove = move || {
                remove(probes, &adding);
                Vec::new()
            };
            self.kernel.removing.push(std::thread::spawn(remove));
        }
    }

    /// The cost of such probes, measured on a system call that does next to nothing: the places in `SYS_getppid`'s
    /// function, as for f0. `None` where they cannot be put there, or this thread is interrupted too often.
    ///
    /// # Errors
    /// When the kernel's memory does not hold a place.
    pub fn calibrate_kernel(
        &mut self,
        places: &BTreeMap<u64, KernelPlace>,
    ) -> Result<Option<Calibration>, Error> {
        let without = round();
        let own = std::process::id();
        let refused = self.probe_kernel(places)?;
        self.set(|bss| (bss.process, bss.phase) = (own, COUNT))?;
        let with = round();
        let pid = self.pid;
        self.set(|bss| bss.phase = IDLE)?;
        let counts = self.counts()?;
        self.set(|bss| {
            bss.process = pid;
            (bss.counts, bss.sums, bss.left) = ([0; 64], [0; 64], 0);
        })?;
        self.probe_kernel(&BTreeMap::new())?;
        let calls: u64 = counts.buckets.iter().sum();
        let shift = counts.sums.iter().sum::<u64>().checked_div(calls);
        let per_call_ns = with.saturating_sub(without);
        Ok(shift.filter(|_| refused.is_empty()).map(|shift| Calibration {
            per_call_ns: per_call_ns.max(shift),
            other_process_ns: 0,
            shift,
        }))
    }

    /// Removes all probes in the kernel's code, and waits until they are gone.
    pub(super) fn end_kernel(&mut self) {
        // If adding failed midway, removals would wait for ever.
        self.kernel.adding.store(false, Relaxed);
        self.watch_kernel_no_more();
        let KernelProbes { places, returns, removing, .. } = std::mem::take(&mut self.kernel);
        let probes = places.into_values().map(|(_, _, probe)| probe).chain(returns).collect();
        remove(probes, &AtomicBool::new(false));
        for thread in removing {
            let _ = thread.join();
        }
    }
}

/// Whether this kernel allows a probe at an address in its code.
pub fn kernel_allows_probes(address: u64) -> bool {
    kprobe(address, false).is_ok()
}

/// Removes probes, some at the same time, and none while others are added.
fn remove(probes: Vec<Probe>, adding: &AtomicBool) {
    let left = Mutex::new(probes);
    let next = || {
        while adding.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        left.lock().unwrap_or_else(PoisonError::into_inner).pop()
    };
    std::thread::scope(|scope| {
        for _ in 0..MAX_REMOVING {
            scope.spawn(|| {
                while let Some(probe) = next() {
                    drop(probe);
                }
            });
        }
    });
}

/// The time for a system call that does next to nothing, ns: the median over rounds.
fn round() -> u64 {
    let mut rounds = [0; ROUNDS];
    for time in &mut rounds {
        let began = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: it has no arguments and changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        *time = began.elapsed().as_nanos() as u64 / CALLS;
    }
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

/// An event at an address in the kernel.
fn kprobe(address: u64, returns: bool) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string(KIND)?;
    let kind = kind.trim().parse().map_err(io::Error::other)?;
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: kind,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: if returns { RETURN_PROBE } else { 0 },
        ..Default::default()
    };
    // No function name: the address stands in the second word.
    attributes.__bindgen_anon_3.kprobe_func = 0;
    attributes.__bindgen_anon_4.kprobe_addr = address;
    // SAFETY: the attributes live across the call and carry their own size; the other arguments are plain numbers:
    // any process, the first CPU, no group, close-on-exec. A program at such an event runs on each CPU.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(&attributes), -1, 0, -1, 8u64) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just opened this descriptor for us, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn link(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
    // SAFETY: a program and an event, both live across the call, and options with their stated size.
    owned(unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            event.as_raw_fd(),
            libbpf_sys::BPF_PERF_EVENT,
            &raw const options,
        )
    })
}
