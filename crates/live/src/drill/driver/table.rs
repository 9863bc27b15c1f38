//! The functions of a drill-down by their numbers, and the call sites in their code.

use std::collections::HashMap;

use wakepath_drilldown::{FunctionId, SiteId};
use wakepath_engine::drill::DrillFunction;
use wakepath_functions::{ProcessFunction, ProcessSite};

/// A numbered function.
pub(super) enum Known {
    Probed(Box<ProcessFunction>),
    Refused { name: String, file: String, why: String },
}

impl Known {
    pub(super) fn shown(&self) -> DrillFunction {
        match self {
            Self::Probed(found) => DrillFunction {
                name: found.function.readable.clone(),
                file: found.function.shown.clone(),
                address: found.function.address,
                refused: None,
            },
            Self::Refused { name, file, why } => DrillFunction {
                name: name.clone(),
                file: file.into(),
                address: 0,
                refused: Some(why.clone()),
            },
        }
    }
}

/// A function's identity: its address in the process, or its name where it has no probes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    At(u64),
    Named(String, String),
}

/// The functions that have a number, f0 first, and their call sites.
pub(super) struct FunctionTable {
    all: Vec<Known>,
    numbers: HashMap<Key, FunctionId>,
    sites: HashMap<(FunctionId, SiteId), ProcessSite>,
}

impl FunctionTable {
    /// A table with f0 alone.
    pub(super) fn new(f0: ProcessFunction) -> Self {
        Self { all: vec![Known::Probed(Box::new(f0))], numbers: HashMap::new(), sites: HashMap::new() }
    }

    /// The number of a function, which gets one if it is new.
    pub(super) fn number(&mut self, key: Key, function: impl FnOnce() -> Known) -> FunctionId {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = FunctionId(self.all.len() as u32);
        self.all.push(function());
        self.numbers.insert(key, number);
        number
    }

    /// A function by its number.
    pub(super) fn get(&self, number: FunctionId) -> Option<&Known> {
        self.all.get(number.0 as usize)
    }

    /// The drill-down's first function.
    pub(super) fn first(&self) -> Option<&Known> {
        self.all.first()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Known> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A call site in a function.
    pub(super) fn site(&self, caller: FunctionId, site: SiteId) -> Option<&ProcessSite> {
        self.sites.get(&(caller, site))
    }

    pub(super) fn add_site(&mut self, caller: FunctionId, id: SiteId, site: ProcessSite) {
        self.sites.insert((caller, id), site);
    }
}
