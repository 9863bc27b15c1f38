//! `--debuginfod`: stripped code's names from servers, by build id. Without the option nothing is asked.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use wakepath_debuginfod::{Limits, NoServers, Progress, Servers, URLS_VARIABLE, directory};
use wakepath_engine::Recorded;
use wakepath_report::text;

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::output::Output;

/// The option for verbs with functions in their answers.
#[derive(Debug, Default, Args)]
pub struct DebuginfodArguments {
    /// Ask debuginfod servers, by build id, for the functions of stripped programs
    ///
    /// URL is a server's address (https://debuginfod.elfutils.org), or several with spaces between; without URL, $DEBUGINFOD_URLS has
    /// them. They learn the build ids of the files without symbols here, and nothing else. Fetched files are kept in
    /// $DEBUGINFOD_CACHE_PATH or ~/.cache/debuginfod_client.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    debuginfod: Option<Option<String>>,
}

/// The servers for the names in an answer's code, if any.
pub struct CodeSources {
    servers: Option<Arc<Servers>>,
    /// The files in which shown code has no name.
    nameless: RefCell<BTreeSet<Vec<u8>>>,
}

impl DebuginfodArguments {
    /// The option's servers. `is_stopped`: the user wants no more files.
    ///
    /// # Errors
    /// Without a server's address, and with a wrong one.
    pub fn sources(
        &self,
        output: &Output,
        is_stopped: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<CodeSources, Failure> {
        let Some(given) = &self.debuginfod else { return Ok(CodeSources::new(None)) };
        let urls = given.clone().or_else(|| std::env::var(URLS_VARIABLE).ok()).unwrap_or_default();
        let shown = Mutex::new(None::<Instant>);
        let output = output.clone();
        let watch = move |progress: Option<Progress<'_>>| {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            match progress {
                None => {
                    *shown = None;
                    output.passing("");
                }
                Some(_) if shown.is_some_and(|at| at.elapsed() < PAUSE) => (),
                Some(progress) => {
                    *shown = Some(Instant::now());
                    output.passing(&said(&progress));
                }
            }
            !is_stopped()
        };
        let folder = directory().ok_or(NoServers::Cache).map_err(failure)?;
        let servers =
            Servers::new(&urls, folder, Limits::from_environment(), Box::new(watch)).map_err(failure)?;
        Ok(CodeSources::new(Some(Arc::new(servers))))
    }
}

/// The progress line's interval.
const PAUSE: Duration = Duration::from_millis(100);

/// The progress in words.
fn said(Progress { url, name, bytes, of_bytes }: &Progress<'_>) -> String {
    let name = String::from_utf8_lossy(name);
    let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    match (bytes, of_bytes) {
        (0, _) => format!("asking {url} for {name}"),
        (_, Some(all)) => format!("fetching {name} from {url}: {} of {} MB", mb(*bytes), mb(*all)),
        (_, None) => format!("fetching {name} from {url}: {} MB", mb(*bytes)),
    }
}

fn failure(error: NoServers) -> Failure {
    let hint = match &error {
        NoServers::None => {
            "--debuginfod=https://debuginfod.elfutils.org asks that server; DEBUGINFOD_URLS names those of a distribution"
        }
        NoServers::Address(_) => "--debuginfod=https://debuginfod.elfutils.org is such an address",
        NoServers::Cache => "DEBUGINFOD_CACHE_PATH names a folder",
    };
    Failure::new(Code::Usage, error.to_string()).hint(hint)
}

impl CodeSources {
    fn new(servers: Option<Arc<Servers>>) -> Self {
        Self { servers, nameless: RefCell::default() }
    }

    /// Lets a recording's code be named by the servers.
    pub fn serve(&self, recorded: &mut Recorded) {
        if let Some(servers) = &self.servers {
            recorded.debug_files = servers.debug_files();
        }
    }

    /// Whether servers are asked.
    #[cfg(feature = "collect")]
    pub fn ask_servers(&self) -> bool {
        self.servers.is_some()
    }

    /// Notes which files have code without a name in an answer's text, and returns the text.
    pub fn shown(&self, recorded: &Recorded, text: String) -> String {
        self.note(recorded.debug_files.nameless(), &text);
        text
    }

    fn note(&self, files: Vec<Vec<u8>>, text: &str) {
        let shown = files.into_iter().filter(|file| text::is_shown_nameless(text, file));
        self.nameless.borrow_mut().extend(shown);
    }

    /// Prints after an answer what kept names away: the servers' troubles. Without the option, the files in the answer's text for which
    /// servers may have names.
    pub fn report(&self, output: &Output) {
        let Some(servers) = &self.servers else {
            let files: Vec<_> = self.nameless.borrow().iter().cloned().collect();
            let text = hint(&files);
            return text.iter().for_each(|text| output.complain("note", text));
        };
        servers.troubles().iter().for_each(|trouble| output.complain("warning", &trouble.to_string()));
    }
}

/// The way to names for these files; `None` without a file.
fn hint(files: &[Vec<u8>]) -> Option<String> {
    const LISTED: usize = 3;
    let shown: Vec<_> = files.iter().take(LISTED).map(|name| String::from_utf8_lossy(name)).collect();
    let names = match (shown.split_last()?, files.len().saturating_sub(LISTED)) {
        ((last, []), _) => last.to_string(),
        ((last, others), 0) => format!("{} and {last}", others.join(", ")),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    };
    let have = if files.len() == 1 { "has" } else { "have" };
    Some(format!(
        "{names} {have} no symbols here; wakepath path --debuginfod asks servers for them by build id"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_three_files_and_the_command() {
        let text =
            |names: &[&str]| hint(&names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
        let rest = "no symbols here; wakepath path --debuginfod asks servers for them by build id";
        assert_eq!(text(&[]), None);
        assert_eq!(text(&["a"]), Some(format!("a has {rest}")));
        assert_eq!(text(&["a", "b", "c"]), Some(format!("a, b and c have {rest}")));
        assert_eq!(text(&["a", "b", "c", "d"]), Some(format!("a, b, c and 1 more have {rest}")));
    }

    #[test]
    fn the_note_names_a_file_only_where_a_shown_line_has_no_name() {
        let noted = |text: &str| {
            let sources = CodeSources::new(None);
            sources.note(vec![b"shop".to_vec(), b"till".to_vec()], text);
            let files: Vec<_> = sources.nameless.borrow().iter().cloned().collect();
            hint(&files)
        };
        let rest = "has no symbols here; wakepath path --debuginfod asks servers for them by build id";
        assert_eq!(noted("98% waiting for shop (12)\n    8 of 8 samples in pack_items (shop)"), None);
        let unnamed = "8 of 8 samples in shop (no symbols; its debug package has them)";
        assert_eq!(noted(unnamed), Some(format!("shop {rest}")));
        // An answer in several texts has them all.
        let sources = CodeSources::new(None);
        ["in till (cannot be read here)", "running", unnamed]
            .iter()
            .for_each(|text| sources.note(vec![b"shop".to_vec(), b"till".to_vec()], text));
        assert_eq!(sources.nameless.borrow().len(), 2);
    }

    #[test]
    fn progress_has_sizes_where_they_are_known() {
        let text = |bytes, of_bytes| said(&Progress { url: "http://s", name: b"a", bytes, of_bytes });
        assert_eq!(text(0, Some(5)), "asking http://s for a");
        assert_eq!(text(1_250_000, Some(5_000_000)), "fetching a from http://s: 1.2 of 5.0 MB");
        assert_eq!(text(1_000_000, None), "fetching a from http://s: 1.0 MB");
    }
}
