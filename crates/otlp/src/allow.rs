//! The kept attributes. Applications put URLs, statements and user names into others.

use std::collections::HashSet;

/// The span and resource attributes that are kept by default; a key with `*` at its end stands for all keys that begin
/// like it.
pub const KEPT_ATTRIBUTES: [&str; 40] = [
    "service.name",
    "service.namespace",
    "service.instance.id",
    "service.version",
    "host.name",
    "host.id",
    "container.id",
    "k8s.pod.name",
    "process.pid",
    "process.executable.name",
    "process.runtime.*",
    "telemetry.sdk.*",
    "thread.id",
    "thread.name",
    "wakepath.*",
    "http.request.method",
    "http.method",
    "http.route",
    "http.response.status_code",
    "http.status_code",
    "rpc.system",
    "rpc.service",
    "rpc.method",
    "db.system",
    "db.system.name",
    "db.operation",
    "db.operation.name",
    "messaging.system",
    "messaging.operation*",
    "server.address",
    "server.port",
    "client.address",
    "client.port",
    "network.peer.address",
    "network.peer.port",
    "network.local.*",
    "net.peer.*",
    "net.sock.*",
    "net.host.*",
    "error.type",
];

/// Whether attributes are kept, by their keys: [`KEPT_ATTRIBUTES`] and `more`.
pub fn is_kept(more: &[String]) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let list = AllowList::with(more);
    move |key| list.has(key)
}

/// A list of attributes.
#[derive(Debug, Clone)]
pub(crate) struct AllowList {
    whole: HashSet<String>,
    beginnings: Vec<String>,
}

impl AllowList {
    /// [`KEPT_ATTRIBUTES`] and `more`.
    pub(crate) fn with(more: &[String]) -> Self {
        let keys = KEPT_ATTRIBUTES.into_iter().chain(more.iter().map(String::as_str));
        let (beginnings, whole): (Vec<_>, Vec<_>) = keys.partition(|key| key.ends_with('*'));
        Self {
            whole: whole.into_iter().map(str::to_owned).collect(),
            beginnings: beginnings.into_iter().map(|key| key.trim_end_matches('*').to_owned()).collect(),
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.whole.contains(key) || self.beginnings.iter().any(|beginning| key.starts_with(beginning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_whole_and_a_star_stands_for_the_rest() {
        let list = AllowList::with(&["app.tenant".to_owned(), "shop.*".to_owned()]);
        for kept in ["service.name", "process.runtime.name", "wakepath.thread", "app.tenant", "shop.cart"] {
            assert!(list.has(kept), "{kept}");
        }
        for dropped in [
            "",
            "service",
            "service.name.x",
            "Service.name",
            "url.full",
            "url.query",
            "http.url",
            "http.target",
            "http.route.x",
            "db.statement",
            "db.query.text",
            "db.name",
            "enduser.id",
            "user.email",
            "process.command_line",
            "process.command_args",
            "process.owner",
            "process.runtime",
            "app.tenants",
            "shop",
            "exception.message",
            "messaging.destination.name",
            "net.peers",
            "x.wakepath.y",
        ] {
            assert!(!list.has(dropped), "{dropped}");
        }
        assert!(!AllowList::with(&[]).has("app.tenant"));
        assert!(AllowList::with(&["*".to_owned()]).has("db.statement"), "the user may ask for all");
    }
}
