//! Probes on a Go program, by descriptors alone, so that any thread can attach them.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, Object, libbpf_sys};
use wakepath_functions::{GoOffsets, GoSite};

use super::{GoFile, PROGRAMS, by_descriptor};
use crate::error::Error;
use crate::libbpf::{has_function, load_error, owned, program};
use crate::sampling;

/// The file with the kernel's perf event type for user function probes.
const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";

/// This kernel's way to attach user function probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All places of a BPF program at once, by any process that may use the program: from Linux 6.6 on.
    Links,
    /// Each by a perf event of its own, which needs the rights for perf events.
    PerfEvents,
}

impl Way {
    pub(crate) fn of(kernel: &Btf<'_>) -> Self {
        if has_function(kernel, "bpf_uprobe_multi_link_attach") { Self::Links } else { Self::PerfEvents }
    }
}

/// The loaded BPF programs, and the table with the offsets for them.
pub(crate) struct GoProbes {
    programs: Vec<(GoSite, OwnedFd)>,
    offsets: MapHandle,
    way: Way,
}

impl GoProbes {
    /// The programs in an object loaded for this way.
    pub(crate) fn new(object: &Object, offsets: &Map<'_>, way: Way) -> Result<Self, Error> {
        let failed = |source| Error::Load { source };
        let of =
            |(site, name)| Ok((site, program(object, name)?.as_fd().try_clone_to_owned().map_err(failed)?));
        let programs = PROGRAMS.into_iter().map(of).collect::<Result<_, Error>>()?;
        Ok(Self { programs, offsets: MapHandle::try_from(offsets).map_err(load_error)?, way })
    }

    /// Whether probes can still be attached after the rights to load programs were dropped.
    pub(crate) fn need_no_rights(&self) -> bool {
        self.way == Way::Links
    }

    /// Attaches the BPF programs to all places in a program, in whichever process has the file mapped, now or later.
    /// Its steps are recorded only once all probes are there: a goroutine seen to park, and not seen to run on, would
    /// be taken to wait.
    ///
    /// # Errors
    /// When the kernel refuses a probe.
    pub(crate) fn attach(&self, number: u32, go: &GoFile) -> Result<Vec<OwnedFd>, Error> {
        let GoOffsets { goid, m, curg, birth } = go.program.offsets;
        let birth = birth.map_or([0; 3], |birth| [birth.parent, birth.start_pc, birth.pc]);
        let set = |goid: u64| {
            let words = [goid, m, curg].into_iter().chain(birth);
            let value: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            self.offsets.update(&number.to_ne_bytes(), &value, MapFlags::ANY).map_err(load_error)
        };
        // No goroutine id is at the beginning of a `g`: with 0 there the BPF programs do nothing.
        set(0)?;
        let file = by_descriptor(&go.file);
        let failed = |offset, source| Error::Probe { file: go.path.clone(), offset, source };
        let mut links = Vec::new();
        for (site, bpf) in &self.programs {
            let places = go.program.sites.iter().filter(|(of, _)| of == site).map(|(_, offset)| *offset);
            let places: Vec<u64> = places.collect();
            let Some(&first) = places.first() else { continue };
            match self.way {
                Way::Links => {
                    links.push(link(bpf, number.into(), &file, &places).map_err(|e| failed(first, e))?)
                }
                Way::PerfEvents => {
                    for place in places {
                        links
                            .push(perf_link(bpf, number.into(), &file, place).map_err(|e| failed(place, e))?);
                    }
                }
            }
        }
        set(goid)?;
        Ok(links)
    }
}

fn path_of(file: &Path) -> io::Result<CString> {
    Ok(CString::new(file.as_os_str().as_bytes())?)
}

fn link_options() -> libbpf_sys::bpf_link_create_opts {
    libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    }
}

/// Attaches a BPF program to these places in a file, in all processes.
pub(crate) fn link(program: &impl AsFd, cookie: u64, file: &Path, places: &[u64]) -> io::Result<OwnedFd> {
    let file = path_of(file)?;
    let cookies = vec![cookie; places.len()];
    let mut options = link_options();
    let multi = libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
        cnt: places.len() as u32,
        path: file.as_ptr(),
        offsets: places.as_ptr().cast(),
        cookies: cookies.as_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.uprobe_multi = multi;
    // SAFETY: an open program, and options with their stated size, which outlive the call, as do the name and the
    // equally long lists in them.
    owned(unsafe {
        libbpf_sys::bpf_link_create(
            program.as_fd().as_raw_fd(),
            0,
            libbpf_sys::BPF_TRACE_UPROBE_MULTI,
            &raw const options,
        )
    })
}

/// The same for a single place, on kernels without such links.
pub(crate) fn perf_link(program: &impl AsFd, cookie: u64, file: &Path, place: u64) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string(KIND)?;
    let file = path_of(file)?;
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: kind.trim().parse().map_err(|_| io::Error::other(format!("{KIND} has no number")))?,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        ..Default::default()
    };
    attributes.__bindgen_anon_3.uprobe_path = file.as_ptr() as u64;
    attributes.__bindgen_anon_4.probe_offset = place;
    // An event on a single CPU, like libbpf's: the BPF program runs on each CPU, whichever the event names.
    let event = sampling::event(0, &attributes)?;
    let mut options = link_options();
    options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
    // SAFETY: an open program and an open event, and options with their stated size, which outlive the call. The link
    // keeps its own reference to the event.
    owned(unsafe {
        libbpf_sys::bpf_link_create(
            program.as_fd().as_raw_fd(),
            event.as_raw_fd(),
            libbpf_sys::BPF_PERF_EVENT,
            &raw const options,
        )
    })
}
