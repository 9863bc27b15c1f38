//! The processor's time-stamp counter, read through its perf event: `bpf/stamp.bpf.h`.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags, libbpf_sys};

use crate::libbpf::{into_io, run_iterator};
use crate::sampling::{event, online_cpus};
use crate::skeleton::latency::LatencySkel;

/// The directory in which perf describes the event.
const SOURCE: &str = "/sys/bus/event_source/devices/msr";

/// Each CPU's event; they count until this value is dropped.
#[derive(Debug)]
pub(super) struct Cycles(Vec<(u32, OwnedFd)>);

impl Cycles {
    /// Opens each CPU's event.
    ///
    /// # Errors
    /// When the processor or the kernel has no such event, or it may not be opened.
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

    /// Lets the programs read the counters.
    pub(super) fn connect(&self, skeleton: &LatencySkel<'_>) -> io::Result<()> {
        let maps = &skeleton.maps;
        for (cpu, event) in &self.0 {
            let (cpu, descriptor) = (cpu.to_ne_bytes(), event.as_raw_fd().to_ne_bytes());
            maps.cycle_events.update(&cpu, &descriptor, MapFlags::ANY).map_err(into_io)?;
            maps.cycle_descriptors.update(&descriptor, &cpu, MapFlags::ANY).map_err(into_io)?;
        }
        run_iterator(skeleton.object(), "read_origins")?;
        for (cpu, _) in &self.0 {
            let origin = maps.cycle_origins.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).map_err(into_io)?;
            if origin.is_none_or(|origin| origin.iter().all(|&byte| byte == 0)) {
                return Err(io::Error::other(format!(
                    "the kernel does not report the value from which CPU {cpu} counts"
                )));
            }
        }
        Ok(())
    }
}
