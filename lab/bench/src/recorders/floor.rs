//! Empty BPF programs: the cost of the kernel's calls alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Link, ObjectBuilder};

use super::{Recorded, Recorder, Recording};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/empty.bpf.o"));

/// The floor.
pub struct Floor;

struct Attached {
    // Programs run until the links are dropped; the links keep them loaded.
    _links: Vec<Link>,
}

impl Recorder for Floor {
    fn name(&self) -> String {
        "empty BPF programs (the floor)".to_owned()
    }

    fn command(&self) -> String {
        "lab/bench/empty.bpf.c, attached".to_owned()
    }

    fn start(&mut self) -> Result<Box<dyn Recording>> {
        let kernel = Btf::from_vmlinux().context("this kernel has no BTF")?;
        let mut open = ObjectBuilder::default().open_memory(OBJECT).context("cannot open the object")?;
        for mut program in open.progs_mut() {
            let typedef = format!("btf_trace_{}", program.name().to_string_lossy());
            program.set_autoload(kernel.type_by_name::<Typedef<'_>>(&typedef).is_some());
        }
        let object = open.load().context("cannot load the empty programs")?;
        let links = object.progs_mut().filter(|program| program.autoload()).map(|program| program.attach());
        let links = links.collect::<Result<Vec<_>, _>>().context("cannot attach an empty program")?;
        ensure!(!links.is_empty(), "this kernel has none of the tracepoints");
        Ok(Box::new(Attached { _links: links }))
    }
}

impl Recording for Attached {
    fn consumer_cpu(&mut self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn stop(self: Box<Self>) -> Result<Recorded> {
        Ok(Recorded::default())
    }
}
