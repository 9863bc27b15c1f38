//! The I/O limit over a cgroup whose disk requests were held back.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{CgroupId, NameSpace};

use crate::{Name, Names, Unit};

/// The I/O limit behind held requests to a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoLimit {
    /// The unit or container with the limit; if no limit was read, the requests' own; `None` if this is not known either.
    pub unit: Option<Unit>,
    /// The device: major << 20 | minor.
    pub device: u32,
    /// The limit is on reads (else: on writes).
    pub reads: bool,
    /// Bytes a second, if limited.
    pub bytes: Option<u64>,
    /// Requests a second, if limited.
    pub requests: Option<u64>,
    /// No outer cgroup has such a limit. Otherwise the outer one may have held the requests back.
    pub alone: bool,
}

impl Names {
    /// The I/O limit over a cgroup's requests to a device at `at`: the last reading until then, else the next, since
    /// a limit is read when it lets a request go.
    pub fn io_limit(&self, cgroup: CgroupId, device: u32, reads: bool, at: Stamp<Local>) -> IoLimit {
        let unit =
            |path: &[u8]| Unit::from_cgroup_path(path).unwrap_or_else(|| Unit::Cgroup(Name::from(path)));
        let text = self.at(NameSpace::IoLimit, cgroup.0, at).map_or(&[][..], Name::bytes);
        let device_name = self.block_device(device).map_or(&[][..], Name::bytes);
        let mut found = text.split(|&byte| byte == b'\n').filter_map(|line| limit(line, device_name, reads));
        match found.next() {
            Some((path, [bytes, requests])) => IoLimit {
                unit: Some(unit(path)),
                device,
                reads,
                bytes,
                requests,
                alone: found.next().is_none(),
            },
            None => {
                let path = self.io_cgroup(cgroup);
                let unit = path.map(|path| unit(path.bytes()));
                IoLimit { unit, device, reads, bytes: None, requests: None, alone: true }
            }
        }
    }
}

/// The cgroup's path, and its limits in bytes and requests a second, in a line such as `vda wbps=1000000 /shop`; `None` for
/// a line without such a limit of this device.
fn limit<'a>(line: &'a [u8], device: &[u8], reads: bool) -> Option<(&'a [u8], [Option<u64>; 2])> {
    let keys: [&[u8]; 2] = if reads { [b"rbps", b"riops"] } else { [b"wbps", b"wiops"] };
    let slash = line.windows(2).position(|pair| pair == b" /")?;
    let (words, path) = (&line[..slash], &line[slash + 1..]);
    let mut words = words.split(|&byte| byte == b' ');
    (words.next()? == device && !device.is_empty()).then_some(())?;
    let mut sizes = [None; 2];
    for word in words {
        let equals = word.iter().position(|&byte| byte == b'=')?;
        if let Some(place) = keys.iter().position(|key| *key == &word[..equals]) {
            sizes[place] = str::from_utf8(&word[equals + 1..]).ok()?.parse().ok();
        }
    }
    sizes.iter().any(Option::is_some).then_some((path, sizes))
}

#[cfg(test)]
mod tests {
    use wakepath_event::{Event, EventKind};

    use super::*;
    use crate::testing::event;

    const VDA: u32 = 254 << 20;

    /// Names with a disk, and with these texts, each read at a time.
    fn names(texts: &[(u64, NameSpace, u64, &str)]) -> Names {
        let mut names = Names::default();
        let name = |at, space, key, text: &str| -> Event {
            event(at, 0, 0, EventKind::Name(space, key, text.as_bytes().into()))
        };
        names.observe(&name(0, NameSpace::BlockDevice, VDA.into(), "vda"));
        texts.iter().for_each(|&(at, space, key, text)| names.observe(&name(at, space, key, text)));
        names
    }

    fn found(text: &str, reads: bool) -> IoLimit {
        let texts = [(5, NameSpace::IoCgroup, 7, "/shop/web"), (5, NameSpace::IoLimit, 7, text)];
        names(&texts).io_limit(CgroupId(7), VDA, reads, Stamp::from_ns(9))
    }

    #[test]
    fn a_limit_is_the_innermost_on_this_device_in_this_direction() {
        let web = Some(Unit::Cgroup("web".into()));
        let shop = Some(Unit::Cgroup("shop".into()));
        for (text, reads, unit, bytes, requests, alone) in [
            ("vda wbps=1000000 /shop/web", false, &web, Some(1_000_000), None, true),
            ("vda rbps=5 wbps=1000000 wiops=3 /shop", false, &shop, Some(1_000_000), Some(3), true),
            ("vda rbps=5 wbps=1000000 wiops=3 /shop", true, &shop, Some(5), None, true),
            ("vda riops=2 /shop/web\nvda wbps=9 /shop", false, &shop, Some(9), None, true),
            ("vda wbps=3 /shop/web\nvda wbps=9 /shop", false, &web, Some(3), None, false),
            // Not this device or direction, or no limit that can be read: the requests' own cgroup.
            ("vdb wbps=3 /shop", false, &web, None, None, true),
            ("vda rbps=3 /shop", false, &web, None, None, true),
            ("vda wbps=max /shop", false, &web, None, None, true),
            ("vda wbps=-3 /shop", false, &web, None, None, true),
            ("vda wbps /shop", false, &web, None, None, true),
            ("vda wbps=3", false, &web, None, None, true),
            ("", false, &web, None, None, true),
        ] {
            let expected = IoLimit { unit: unit.clone(), device: VDA, reads, bytes, requests, alone };
            assert_eq!(found(text, reads), expected, "{text}");
        }
        let spaces = found("vda wbps=3 /a b/c d", false);
        assert_eq!((spaces.unit, spaces.bytes), (Some(Unit::Cgroup("c d".into())), Some(3)));
    }

    #[test]
    fn a_limit_is_the_last_reading_until_then_else_the_next() {
        let at = |at| {
            let texts = [
                (10, NameSpace::IoLimit, 7, "vda wbps=1 /shop"),
                (20, NameSpace::IoLimit, 7, "vda wbps=2 /shop"),
                (10, NameSpace::IoLimit, 8, "vda wbps=8 /shop"),
            ];
            names(&texts).io_limit(CgroupId(7), VDA, false, Stamp::from_ns(at)).bytes
        };
        assert_eq!([9, 10, 19, 20].map(at), [Some(1), Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn a_cgroup_or_a_disk_without_a_name_has_no_unit_or_no_size() {
        let limit = names(&[]).io_limit(CgroupId(7), VDA, false, Stamp::from_ns(9));
        assert_eq!((limit.unit, limit.bytes, limit.alone), (None, None, true));
        let texts = [(5, NameSpace::IoLimit, 7, " wbps=3 /shop")];
        let nameless = names(&texts).io_limit(CgroupId(7), 9, false, Stamp::from_ns(9));
        assert_eq!((nameless.unit, nameless.bytes), (None, None));
    }
}
