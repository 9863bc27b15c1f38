//! Asks debuginfod servers for files by build id: `URL/buildid/HEX/debuginfo` and `/executable`, as `debuginfod(8)`
//! describes them. Nothing is asked before [`Servers`] exist, and only a user's option makes them.
//!
//! Servers are not trusted: each answer has a maximum size and a maximum time, and a file is kept only if it has the
//! build id. Fetched files go into the cache that other debuginfod clients use, with the calling user's rights.

mod cache;
mod limits;
mod request;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wakepath_caller::Caller;
use wakepath_symbols::{ByBuildId, DebugFiles, Wanted};

use cache::Cache;
pub use cache::directory;
pub use limits::Limits;
use request::{Agent, Refused};

/// The variable with the servers' addresses, as in other tools.
pub const URLS_VARIABLE: &str = "DEBUGINFOD_URLS";

/// The fetching at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The server's address.
    pub url: &'a str,
    /// The program's name.
    pub name: &'a [u8],
    /// Bytes that have come.
    pub bytes: u64,
    /// Bytes in all, if the server said so.
    pub of_bytes: Option<u64>,
}

/// Shows progress, and `None` when there is nothing more to show. Returns whether to go on.
pub type Watch = Box<dyn Fn(Option<Progress<'_>>) -> bool + Send + Sync>;

/// Why no server can be asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoServers {
    /// There is no address.
    #[error("no debuginfod server is given")]
    None,
    /// This is no address of a server.
    #[error("`{0}` is no server's address: it must begin with https:// or http://")]
    Address(String),
    /// There is nowhere to put files.
    #[error("there is no folder for fetched files: neither DEBUGINFOD_CACHE_PATH nor HOME is set")]
    Cache,
}

/// Something that kept names away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A server was asked nothing more.
    #[error("{url} {why}; it is asked nothing more")]
    Server {
        /// Its address.
        url: String,
        /// Its answer or silence, in words that follow its address.
        why: String,
    },
    /// A server's file was not taken.
    #[error("{url} {why} ({})", String::from_utf8_lossy(.name))]
    File {
        /// The server's address.
        url: String,
        /// The program's name.
        name: Vec<u8>,
        /// The file's fault, in words that follow the server's address.
        why: String,
    },
    /// No server had these programs' files.
    #[error("no server has debug information for {}", listed(.0))]
    Absent(Vec<Vec<u8>>),
    /// A fetched file could not be kept.
    #[error("cannot keep a fetched file: {0}")]
    Cache(String),
    /// The time for all files was over.
    #[error("after {} s no more files are fetched", .0.as_secs())]
    OutOfTime(Duration),
    /// The user stopped it.
    #[error("stopped: no more files are fetched")]
    Stopped,
}

/// At most this many names are in a message.
const LISTED: usize = 5;

fn listed(names: &[Vec<u8>]) -> String {
    let shown: Vec<_> = names.iter().take(LISTED).map(Vec::as_slice).map(String::from_utf8_lossy).collect();
    match names.len().checked_sub(LISTED) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Servers that the user allowed to ask.
pub struct Servers {
    urls: Vec<String>,
    cache: Cache,
    limits: Limits,
    agent: Agent,
    watch: Watch,
    state: Mutex<State>,
}

/// The answers so far.
#[derive(Debug, Default)]
struct State {
    /// The servers that are asked nothing more, by their place.
    silent: Vec<usize>,
    /// Whether a file can be had.
    known: HashMap<(Wanted, Vec<u8>), bool>,
    absent: Vec<Vec<u8>>,
    troubles: Vec<Trouble>,
    spent: Duration,
    /// Nothing more is asked.
    ended: bool,
}

impl Servers {
    /// The servers in `urls`, which spaces separate. Fetched files go into `folder`.
    ///
    /// # Errors
    /// Without an address, or with an address that is none.
    pub fn new(urls: &str, folder: PathBuf, limits: Limits, watch: Watch) -> Result<Self, NoServers> {
        // The standard client's marks of its own checks (`ima:…`) stand among the addresses.
        let urls = urls.split_whitespace().filter(|url| !url.starts_with("ima:"));
        let urls = urls.map(|url| match url.split_once("://") {
            Some(("http" | "https", rest)) if !rest.is_empty() => Ok(url.trim_end_matches('/').to_owned()),
            _ => Err(NoServers::Address(url.to_owned())),
        });
        let urls = urls.collect::<Result<Vec<_>, _>>()?;
        if urls.is_empty() {
            return Err(NoServers::None);
        }
        let agent = Agent::new(&limits);
        let cache = Cache { folder };
        Ok(Self { urls, cache, limits, agent, watch, state: Mutex::default() })
    }

    /// The servers as a source of debug files.
    pub fn debug_files(self: &Arc<Self>) -> DebugFiles {
        DebugFiles::from_servers(Arc::clone(self) as Arc<dyn ByBuildId>)
    }

    /// The reasons so far why names are missing.
    pub fn troubles(&self) -> Vec<Trouble> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = (!state.absent.is_empty()).then(|| Trouble::Absent(state.absent.clone()));
        state.troubles.iter().cloned().chain(absent).collect()
    }

    /// Asks the servers in turn for a file that is not in the cache; whether it is there then.
    fn fetch(&self, state: &mut State, wanted: Wanted, build_id: &[u8], name: &[u8]) -> bool {
        for (place, url) in self.urls.iter().enumerate() {
            if state.ended || state.silent.contains(&place) {
                continue;
            }
            let left = self.limits.all_files.saturating_sub(state.spent);
            let began = Instant::now();
            let got = self.agent.get(url, wanted, build_id, left, &self.cache, &|bytes, of_bytes| {
                (self.watch)(Some(Progress { url, name, bytes, of_bytes }))
            });
            (self.watch)(None);
            let took = began.elapsed();
            state.spent += took;
            if got.is_err() && took >= left {
                state.troubles.push(Trouble::OutOfTime(self.limits.all_files));
                state.ended = true;
                continue;
            }
            let (url, name) = (url.clone(), name.to_vec());
            match got {
                Ok(()) => return true,
                Err(Refused::Absent) => (),
                Err(Refused::File(why)) => state.troubles.push(Trouble::File { url, name, why }),
                Err(Refused::Server(why)) => {
                    state.silent.push(place);
                    state.troubles.push(Trouble::Server { url, why });
                }
                Err(Refused::Cache(error)) => {
                    state.troubles.push(Trouble::Cache(error.to_string()));
                    state.ended = true;
                }
                Err(Refused::Stopped) => {
                    state.troubles.push(Trouble::Stopped);
                    state.ended = true;
                }
            }
        }
        false
    }
}

impl ByBuildId for Servers {
    fn file(&self, wanted: Wanted, build_id: &[u8], name: &[u8]) -> Option<File> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (wanted, build_id.to_vec());
        // Nothing is opened or made with rights that the calling user has not.
        let _acting = Caller::act(Caller::from_sudo().as_ref()).ok()?;
        if state.known.get(&key) == Some(&false) {
            return None;
        }
        let cached = self.cache.open(wanted, build_id);
        if cached.is_some() {
            return cached;
        }
        let is_there = self.fetch(&mut state, wanted, build_id, name);
        state.known.insert(key, is_there);
        if !is_there && wanted == Wanted::DebugInfo && !state.absent.iter().any(|it| it == name) {
            state.absent.push(name.to_vec());
        }
        self.cache.open(wanted, build_id).filter(|_| is_there)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers")
            .field("urls", &self.urls)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
