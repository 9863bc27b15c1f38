//! The processor's time-stamp counter, by perf's event of it: `bpf/stamp.bpf.h`.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{Iter, IterOpts, MapCore, MapFlags, libbpf_sys};

use super::Counters;
use crate::programs::into_io;
use crate::sampling::{event, online_cpus};

/// Where perf says whether it knows the event.
const SOURCE: &str = "/sys/bus/event_source/devices/msr";

/// The event of each CPU; they count until this is dropped.
#[derive(Debug)]
pub(super) struct Cycles(Vec<(u32, OwnedFd)>);

impl Cycles {
    /// # Errors
    /// When there is no such event, as on processors and in kernels without one, or it may not be opened.
    pub fn open() -> io::Result<Self> {
        let read = |file: &str| {
            let path = format!("{SOURCE}/{file}");
            fs::read_to_string(&path)
                .map_err(|error| io::Error::new(error.kind(), format!("`{path}`: {error}")))
        };
        let bad = |_| io::Error::other(format!("`{SOURCE}` names no event"));
        let kind = read("type")?.trim().parse().map_err(bad)?;
        let code = read("events/tsc")?;
        let code = code.trim().strip_prefix("event=0x").unwrap_or_default();
        let config = u64::from_str_radix(code, 16).map_err(bad)?;
        let of_cpu = |cpu: usize| {
            let attributes = libbpf_sys::perf_event_attr {
                type_: kind,
                size: size_of::<libbpf_sys::perf_event_attr>() as u32,
                config,
                ..Default::default()
            };
            Ok((cpu as u32, event(cpu, &attributes)?))
        };
        Ok(Self(online_cpus()?.into_iter().map(of_cpu).collect::<io::Result<_>>()?))
    }
}

impl Counters<'_> {
    /// Lets programs read the counter.
    pub(super) fn read_cycles(&self, cycles: &Cycles) -> io::Result<()> {
        let maps = &self.skeleton.maps;
        for (cpu, event) in &cycles.0 {
            let (cpu, descriptor) = (cpu.to_ne_bytes(), event.as_raw_fd().to_ne_bytes());
            maps.cycle_events.update(&cpu, &descriptor, MapFlags::ANY).map_err(into_io)?;
            maps.cycle_descriptors.update(&descriptor, &cpu, MapFlags::ANY).map_err(into_io)?;
        }
        let object = self.skeleton.object();
        let program = object.progs_mut().find(|program| program.name() == "read_origins");
        let program = program.ok_or_else(|| io::Error::other("the program that reads it is missing"))?;
        let link = program.attach_iter_with_opts(IterOpts::None).map_err(into_io)?;
        Iter::new(&link).map_err(into_io)?.read_to_end(&mut Vec::new())?;
        for (cpu, _) in &cycles.0 {
            let origin = maps.cycle_origins.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).map_err(into_io)?;
            if origin.is_none_or(|origin| origin.iter().all(|&byte| byte == 0)) {
                return Err(io::Error::other(format!(
                    "the kernel does not say where CPU {cpu} began to count"
                )));
            }
        }
        Ok(())
    }
}
