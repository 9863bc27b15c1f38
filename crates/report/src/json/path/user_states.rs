//! Programs' own states over a path.

use serde::Serialize;
use wakepath_engine::UserState;

use super::{Documents, WhoseJson, findings};
use crate::json::text;
use crate::wording;

/// A thread's state, over the path.
#[derive(Serialize)]
pub struct UserStateJson<'a> {
    name: String,
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    /// Its number.
    count: u64,
    /// Further states, not measured for lost marks.
    unseen: u64,
    /// The path's time in this state.
    total_ns: u64,
    share: f64,
    /// The largest part; null without time.
    largest: Option<LargestJson>,
}

/// The row with a state's largest part.
#[derive(Serialize)]
struct LargestJson {
    code: &'static str,
    what: String,
    total_ns: u64,
    /// Its part in the state's time.
    share: f64,
}

impl<'a> Documents<'a> {
    /// All states.
    pub fn user_states(&self) -> Vec<UserStateJson<'a>> {
        self.0.user_states.iter().map(|state| self.user_state(state)).collect()
    }

    fn user_state(&self, state: &UserState) -> UserStateJson<'a> {
        let largest = self.0.largest_in(state).map(|largest| {
            let (code, what) = wording::row(&self.0.evidence_in(state), &largest.key, &largest.row);
            let total_ns = largest.row.total_ns;
            LargestJson { code, what, total_ns, share: findings::share(total_ns, state.total_ns) }
        });
        UserStateJson {
            name: text(state.name.as_bytes()),
            whose: self.whose(Some(state.thread), self.0.path.window.to),
            count: state.count,
            unseen: state.unseen,
            total_ns: state.total_ns,
            share: findings::share(state.total_ns, self.0.window_ns()),
            largest,
        }
    }
}
