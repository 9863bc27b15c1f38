//! From a cgroup's path to its usual name: a systemd unit, a container.

use crate::Name;

/// A cgroup's meaning to the machine's administrator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// A container, by its runtime's name and its id's first twelve digits.
    Container {
        /// `docker`, `podman`, `containerd`, `cri-o`, `lxc`, or `container` where the path does not say.
        runtime: &'static str,
        /// Its id, shortened as the runtimes' own tools do.
        id: String,
    },
    /// A systemd unit, as `systemctl` names it.
    Systemd(Name),
    /// A cgroup outside all known conventions: its path's last component.
    Cgroup(Name),
}

/// The number of digits shown from a container's id.
const SHORT_ID: usize = 12;

impl Unit {
    /// The unit to which the cgroup at this path belongs; `None` for the root.
    ///
    /// The innermost container wins, then the innermost service or scope, then the innermost slice, then the last
    /// component.
    pub fn from_cgroup_path(path: &[u8]) -> Option<Self> {
        let parts: Vec<&[u8]> = path.split(|&b| b == b'/').filter(|part| !part.is_empty()).collect();
        let innermost = || parts.iter().rev().copied();
        for (up, part) in innermost().enumerate() {
            let parent = parts.len().checked_sub(up + 2).map(|i| parts[i]);
            if let Some(container) = container(part, parent) {
                return Some(container);
            }
        }
        innermost()
            .find(|part| {
                part.ends_with(b".service") || part.ends_with(b".scope") || part.ends_with(b".socket")
            })
            .or_else(|| innermost().find(|part| part.ends_with(b".slice")))
            .map(|part| Self::Systemd(part.into()))
            .or_else(|| innermost().next().map(|part| Self::Cgroup(part.into())))
    }
}

fn container(part: &[u8], parent: Option<&[u8]>) -> Option<Unit> {
    let part = part.strip_suffix(b".scope").unwrap_or(part);
    let part = std::str::from_utf8(part).ok()?;
    const PREFIXES: [(&str, &str); 6] = [
        ("docker-", "docker"),
        ("libpod-", "podman"),
        ("cri-containerd-", "containerd"),
        ("crio-", "cri-o"),
        ("containerd-", "containerd"),
        ("", "container"),
    ];
    let lxc = part.strip_prefix("lxc.payload.").or_else(|| part.strip_prefix("lxc.payload:"));
    if let Some(name) = lxc.filter(|name| !name.is_empty()) {
        return Some(Unit::Container { runtime: "lxc", id: name.to_owned() });
    }
    PREFIXES.iter().find_map(|(prefix, runtime)| {
        let id = part.strip_prefix(prefix)?;
        let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
        let runtime = match parent {
            Some(b"docker") => "docker",
            Some(b"libpod_parent") => "podman",
            _ => runtime,
        };
        is_id.then(|| Unit::Container { runtime, id: id[..SHORT_ID].to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";

    #[track_caller]
    fn check(path: &str, expected: Option<Unit>) {
        assert_eq!(Unit::from_cgroup_path(path.as_bytes()), expected, "{path}");
    }

    #[test]
    fn a_service_is_named_as_systemctl_names_it() {
        let unit = |name: &str| Some(Unit::Systemd(name.as_bytes().into()));
        check("/system.slice/shop.service", unit("shop.service"));
        check("/system.slice/shop.service/workers", unit("shop.service"));
        check("/user.slice/user-1000.slice/session-3.scope", unit("session-3.scope"));
        check("/user.slice/user-0.slice/user@0.service/app.slice/demo.service", unit("demo.service"));
        check("/system.slice", unit("system.slice"));
    }

    #[test]
    fn a_container_is_its_runtime_and_twelve_digits() {
        let container = |runtime| Some(Unit::Container { runtime, id: String::from("3f2a9c1b04de") });
        check(&format!("/docker/{ID}"), container("docker"));
        check(&format!("/system.slice/docker-{ID}.scope"), container("docker"));
        check(&format!("/machine.slice/libpod-{ID}.scope/container"), container("podman"));
        check(
            &format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-{ID}.scope"
            ),
            container("containerd"),
        );
        check(&format!("/kubepods/burstable/pod42/{ID}"), container("container"));
        check(&format!("/libpod_parent/{ID}"), container("podman"));
    }

    #[test]
    fn a_name_that_only_looks_like_a_container_is_none() {
        check(
            &format!("/docker-{}.scope", &ID[1..]),
            Some(Unit::Systemd(format!("docker-{}.scope", &ID[1..]).as_bytes().into())),
        );
        check("/lxc.payload.", Some(Unit::Cgroup(b"lxc.payload.".as_slice().into())));
    }

    #[test]
    fn a_cgroup_by_hand_keeps_its_last_component_and_the_root_has_no_unit() {
        check("/limits/batch", Some(Unit::Cgroup(b"batch".as_slice().into())));
        check("/", None);
        check("", None);
    }

    #[test]
    fn a_path_that_is_not_utf8_is_still_a_cgroup() {
        assert_eq!(Unit::from_cgroup_path(b"/a/\xff"), Some(Unit::Cgroup(b"\xff".as_slice().into())));
    }

    #[test]
    fn a_container_of_lxc_has_a_name_and_every_other_one_an_id_of_hex_digits() {
        let container = |runtime, id: &str| Some(Unit::Container { runtime, id: id.into() });
        check("/lxc.payload.web", container("lxc", "web"));
        check("/lxc.payload:web/system.slice/shop.service", container("lxc", "web"));
        check(&format!("/crio-{ID}.scope"), container("cri-o", &ID[..12]));
        check(&format!("/containerd-{ID}.scope"), container("containerd", &ID[..12]));
        // The parent says the runtime, however deep the thread's own cgroup is.
        check(&format!("/docker/{ID}/a/b"), container("docker", &ID[..12]));
        check(&format!("/x/docker/{ID}"), container("docker", &ID[..12]));
        let no_hex = format!("{}zz", &ID[2..]);
        check(&format!("/docker/{no_hex}"), Some(Unit::Cgroup(no_hex.as_bytes().into())));
    }

    #[test]
    fn the_innermost_unit_is_named_before_a_slice_and_a_slice_before_another_cgroup() {
        let unit = |name: &str| Some(Unit::Systemd(name.as_bytes().into()));
        check("/a.service/b.scope/c.socket/d", unit("c.socket"));
        check("/a.slice/b.scope/c.slice", unit("b.scope"));
        check("/a.service/b.slice/c", unit("a.service"));
        check("/a.slice/b.slice/c", unit("b.slice"));
    }
}
