//! Saves a search to a file and resumes it in another run, in the same process or in another process with the same code (T08 section 3.10).

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use wakepath_distribution::Peak;
use wakepath_drilldown::{
    Drilldown, FunctionId, LatencyRange, NodeId, Parameters, ProbeCost, Save, SaveError,
};
use wakepath_engine::drill::DrilledNode;

use super::driver::Driver;
use super::range_of;

/// The documents' schema.
const SCHEMA: &str = "wakepath.drill-save/1";

/// A search to resume later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedSearch {
    schema: String,
    /// The function in question, as it was asked for.
    target: String,
    search: Save,
    /// Callees with too many calls to be measured: the caller's node, theirs, and the number of calls.
    frequent: Vec<(NodeId, NodeId, u64)>,
}

/// The error for a file from which no search can resume.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ResumeError {
    #[error("it holds no saved search: {0}")]
    Form(#[from] serde_json::Error),
    #[error("it has the form `{0}`; this program reads `{SCHEMA}`")]
    Schema(String),
    #[error("the process runs other code: {0}")]
    OtherCode(SaveError),
    #[error(transparent)]
    Save(SaveError),
    #[error("`{0}` is in a file that names no build: nothing would show whether it is the same code")]
    NoBuild(String),
    #[error("the calls of `{target}` have no peak any more between {} and {} ns, which the search is about", .peak.from_ns, .peak.to_ns)]
    PeakGone { target: String, peak: LatencyRange },
}

impl From<SaveError> for ResumeError {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Identity { .. } | SaveError::UnknownFunction(_) => Self::OtherCode(error),
            other => Self::Save(other),
        }
    }
}

impl SavedSearch {
    /// The same, with the callees called too often to be measured.
    pub(super) fn with_frequent(self, frequent: Vec<(NodeId, NodeId, u64)>) -> Self {
        Self { frequent, ..self }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// When it is no saved search. Its parts are checked when the search resumes.
    pub fn parse(text: &str) -> Result<Self, ResumeError> {
        let found: Self = serde_json::from_str(text)?;
        if found.schema == SCHEMA { Ok(found) } else { Err(ResumeError::Schema(found.schema)) }
    }

    /// A file's text.
    ///
    /// # Errors
    /// None is known: all of its data can be written.
    pub fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The function in question.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The explained calls' latency range.
    pub(super) fn range(&self) -> LatencyRange {
        self.search.peak()
    }

    /// The number of the present peak, from 1 on, that overlaps most with the search's latency range.
    pub(super) fn peak(&self, peaks: &[Peak]) -> Result<usize, ResumeError> {
        let of_save = self.range();
        let shared = |peak: &Peak| {
            let range = range_of(peak, peaks);
            let (from, to) = (range.from_ns.max(of_save.from_ns), range.to_ns.min(of_save.to_ns));
            to.checked_sub(from)
        };
        let best = (1..).zip(peaks).filter_map(|(number, peak)| Some((shared(peak)?, number))).max();
        best.map(|(_, number)| number)
            .ok_or_else(|| ResumeError::PeakGone { target: self.target.clone(), peak: of_save })
    }
}

impl Driver<'_> {
    /// The search as data; `None` before a peak is chosen, or if another run could not find a function again because its file names no
    /// build.
    pub(super) fn save(&mut self, machine: &Drilldown, target: &str) -> Option<SavedSearch> {
        let names = self.places();
        let identity = names.first()?.clone()?;
        let is_nameless = Cell::new(false);
        let name = |function: FunctionId| {
            let known = names.get(function.0 as usize).cloned().flatten();
            is_nameless.set(is_nameless.get() || known.is_none());
            known.unwrap_or_default()
        };
        let search = machine.save(&identity, name)?;
        (!is_nameless.get()).then(|| SavedSearch {
            schema: SCHEMA.to_owned(),
            target: target.to_owned(),
            search,
            frequent: self.frequent(),
        })
    }

    /// A saved search's machine, with its nodes and sites restored in the driver.
    ///
    /// # Errors
    /// When the search was made for other code.
    pub(super) fn resume(
        &mut self,
        saved: &SavedSearch,
        parameters: Parameters,
        cost: ProbeCost,
    ) -> Result<Drilldown, ResumeError> {
        let f0 = self.places().first().cloned().flatten();
        let identity = f0.ok_or_else(|| ResumeError::NoBuild(saved.target.clone()))?;
        let known: HashMap<&str, FunctionId> = saved
            .search
            .functions()
            .iter()
            .filter_map(|name| Some((name.as_str(), self.number_at(name)?)))
            .collect();
        let function = |name: &str| known.get(name).copied();
        let machine = Drilldown::resume(saved.search.clone(), &identity, parameters, cost, function)?;
        let mut callers = BTreeSet::new();
        for node in machine.tree() {
            let site = node.site.map(|(site, _)| site);
            self.add_node(node.node, DrilledNode { parent: node.parent, site, function: node.callee });
            callers.extend(node.parent.and_then(|parent| self.function_of(parent)));
        }
        // The kernel distinguishes calls by their return addresses.
        self.find_decided_sites(callers);
        self.restore_frequent(&saved.frequent);
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use wakepath_distribution::{BUCKETS, Histogram, Unit};
    use wakepath_drilldown::Event;

    use super::*;

    /// A search for the latencies within these bounds, ns.
    fn saved(from_ns: u64, to_ns: u64) -> SavedSearch {
        let parameters = Parameters::default();
        let mut machine =
            Drilldown::new(FunctionId(0), parameters, ProbeCost::default()).expect("parameters");
        let histogram = Histogram::from_counters(Unit::Nanoseconds, [0; BUCKETS], 0);
        machine.handle(Event::Histogram(Box::new(histogram))).expect("a histogram");
        machine.handle(Event::Peak(LatencyRange { from_ns, to_ns })).expect("a peak");
        let search = machine.save("f", |_| String::from("f")).expect("it has a peak");
        SavedSearch { schema: SCHEMA.to_owned(), target: String::from("x:f"), search, frequent: Vec::new() }
    }

    #[test]
    fn a_search_goes_on_with_the_peak_that_shares_most_with_its_own() {
        let peak = |from_bucket, to_bucket| Peak { from_bucket, to_bucket, count: 1 };
        let peaks = [peak(4, 5), peak(10, 11), peak(13, 20)];
        for (from_ns, to_ns, expected) in
            [(1 << 10, 1 << 12, 2), (1 << 11, 1 << 15, 3), (20, 30, 1), (1 << 22, 1 << 23, 0), (100, 200, 0)]
        {
            let found = saved(from_ns, to_ns).peak(&peaks);
            assert_eq!(
                found.as_ref().ok(),
                Some(&expected).filter(|&&number| number > 0),
                "{from_ns} to {to_ns}"
            );
            let Err(error) = found else { continue };
            let says = format!("the calls of `x:f` have no peak any more between {from_ns} and {to_ns} ns");
            assert!(error.to_string().starts_with(&says), "{error}");
        }
    }

    #[test]
    fn only_other_code_is_called_other_code() {
        let said = |error: SaveError| ResumeError::from(error).to_string();
        let identity = SaveError::Identity { saved: String::from("a"), now: String::from("b") };
        assert!(said(identity).starts_with("the process runs other code: "));
        assert!(
            said(SaveError::UnknownFunction(String::from("f"))).starts_with("the process runs other code: ")
        );
        assert!(said(SaveError::Version(9)).starts_with("the save has version 9"));
    }

    #[test]
    fn a_file_of_another_form_is_refused_and_one_of_this_form_is_read_back() {
        let search = saved(1, 2);
        let text = search.text().expect("text");
        assert_eq!(SavedSearch::parse(&text).expect("the same"), search);
        let other = text.replace("drill-save/1", "drill-save/2");
        let error = SavedSearch::parse(&other).expect_err("another form").to_string();
        assert_eq!(
            error,
            "it has the form `wakepath.drill-save/2`; this program reads `wakepath.drill-save/1`"
        );
        for broken in ["", "{}", "[]", &text[..text.len() / 2], "\u{0}"] {
            assert!(SavedSearch::parse(broken).is_err(), "{broken}");
        }
    }
}
