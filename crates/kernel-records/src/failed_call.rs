//! Failed calls and their objects, as records and as events.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wakepath_clock::Stamp;
use wakepath_event::{Attempt, AttemptObject, EventKind, FailedCall, MAX_OBJECT_BYTES, Spin, Tid};

use crate::length::number;

/// The failed call in a whole record; the object's kind if it means nothing.
pub(crate) fn read(record: &[u8]) -> Result<EventKind, u8> {
    let word = |at| number(record, at, 4) as u32;
    let [kind, length] = record.get(40..42).and_then(|two| two.first_chunk().copied()).unwrap_or_default();
    let length = usize::from(length).min(MAX_OBJECT_BYTES);
    let object = object(kind, record.get(48..48 + length).unwrap_or_default()).ok_or(kind)?;
    let holder = Some(word(28)).filter(|holder| *holder != 0).map(Tid);
    let attempt = Attempt { call: word(16), error: word(20), operation: word(24), holder, object };
    Ok(EventKind::FailedCall(Box::new(FailedCall { attempt, tries: word(32), later: word(36) })))
}

/// The spin in a whole record.
pub(crate) fn read_spin(record: &[u8]) -> Spin {
    let word = |at| number(record, at, 4) as u32;
    let from = Stamp::from_ns(number(record, 24, 8));
    Spin { call: word(16), error: word(20), from, count: number(record, 32, 8) }
}

/// The bytes behind a record's header.
pub(crate) fn write(call: &FailedCall) -> [u8; 96] {
    let Attempt { call: number, error, operation, holder, object } = &call.attempt;
    let mut bytes = [0; 96];
    let holder = holder.map_or(0, |holder| holder.0);
    let words = [*number, *error, *operation, holder, call.tries, call.later];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    let (kind, object) = object_bytes(object);
    let object = object.get(..MAX_OBJECT_BYTES).unwrap_or(&object);
    (bytes[24], bytes[25]) = (kind, object.len() as u8);
    bytes[32..32 + object.len()].copy_from_slice(object);
    bytes
}

/// `enum wp_object_kind`.
fn object(kind: u8, bytes: &[u8]) -> Option<AttemptObject> {
    let address = |ip: Option<IpAddr>| {
        let port = bytes.first_chunk().map(|port| u16::from_be_bytes(*port));
        // A short address is as good as none.
        ip.zip(port)
            .map_or(AttemptObject::Unreadable, |(ip, port)| AttemptObject::Address(SocketAddr::new(ip, port)))
    };
    Some(match kind {
        0 => AttemptObject::None,
        1 => AttemptObject::Path(bytes.into()),
        2 => AttemptObject::PathEnd(bytes.into()),
        3 => {
            address(bytes.get(2..6).and_then(|ip| ip.first_chunk::<4>()).map(|ip| Ipv4Addr::from(*ip).into()))
        }
        4 => address(
            bytes.get(2..18).and_then(|ip| ip.first_chunk::<16>()).map(|ip| Ipv6Addr::from(*ip).into()),
        ),
        5 => AttemptObject::Unix(bytes.into()),
        6 => bytes
            .first_chunk()
            .map_or(AttemptObject::Unreadable, |pid| AttemptObject::Process(i32::from_le_bytes(*pid))),
        7 => AttemptObject::File(bytes.into()),
        8 => AttemptObject::Unreadable,
        _ => return None,
    })
}

fn object_bytes(object: &AttemptObject) -> (u8, Vec<u8>) {
    let port = |address: &SocketAddr| address.port().to_be_bytes();
    match object {
        AttemptObject::None => (0, Vec::new()),
        AttemptObject::Path(bytes) => (1, bytes.to_vec()),
        AttemptObject::PathEnd(bytes) => (2, bytes.to_vec()),
        AttemptObject::Address(address) => match address.ip() {
            IpAddr::V4(ip) => (3, [&port(address)[..], &ip.octets()].concat()),
            IpAddr::V6(ip) => (4, [&port(address)[..], &ip.octets()].concat()),
        },
        AttemptObject::Unix(bytes) => (5, bytes.to_vec()),
        AttemptObject::Process(pid) => (6, pid.to_le_bytes().to_vec()),
        AttemptObject::File(bytes) => (7, bytes.to_vec()),
        AttemptObject::Unreadable => (8, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(object: AttemptObject) -> FailedCall {
        let attempt = Attempt { call: 72, error: 11, operation: 6, holder: Some(Tid(812)), object };
        FailedCall { attempt, tries: 4, later: 2 }
    }

    fn record(call: &FailedCall) -> Vec<u8> {
        [&[0; 16][..], &write(call)].concat()
    }

    fn found(record: &[u8]) -> Result<FailedCall, u8> {
        match read(record)? {
            EventKind::FailedCall(call) => Ok(*call),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_object_comes_back_from_its_bytes() {
        let long = [b'x'; MAX_OBJECT_BYTES];
        for object in [
            AttemptObject::None,
            AttemptObject::Path(b"/run/ready"[..].into()),
            AttemptObject::PathEnd(long[..].into()),
            AttemptObject::Address("127.0.0.1:18009".parse().expect("an address")),
            AttemptObject::Address("[fe80::1]:53".parse().expect("an address")),
            AttemptObject::Unix(b"\0name"[..].into()),
            AttemptObject::Process(-4711),
            AttemptObject::File(b"lock-frontend"[..].into()),
            AttemptObject::Unreadable,
        ] {
            let call = attempt(object);
            assert_eq!(found(&record(&call)), Ok(call));
        }
    }

    #[test]
    fn a_length_beyond_the_object_s_room_and_an_address_cut_short_are_no_more_than_the_record_has() {
        let mut bytes = record(&attempt(AttemptObject::Path([b'x'; MAX_OBJECT_BYTES].into())));
        bytes[41] = 255;
        let read_back = found(&bytes).expect("a path");
        assert_eq!(read_back.attempt.object, AttemptObject::Path([b'x'; MAX_OBJECT_BYTES].into()));
        for (kind, length) in [(3, 5), (4, 17), (6, 3)] {
            (bytes[40], bytes[41]) = (kind, length);
            assert_eq!(
                found(&bytes).map(|call| call.attempt.object),
                Ok(AttemptObject::Unreadable),
                "{kind}"
            );
        }
        bytes[40] = 9;
        assert_eq!(found(&bytes), Err(9));
    }
}
