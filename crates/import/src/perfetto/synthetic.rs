//! Perfetto's packets, for tests of their reader.

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field with a number.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field with a text, bytes or a message.
pub fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A repeated field with numbers.
pub fn packed(field: u64, values: &[u64]) -> Vec<u8> {
    bytes(field, &values.iter().flat_map(|&value| varint(value)).collect::<Vec<_>>())
}

/// A packet with a CPU's bundle.
pub fn bundle(cpu: u64, rest: &[u8]) -> Vec<u8> {
    bytes(1, &bytes(1, &[number(1, cpu), rest.to_vec()].concat()))
}

/// An event in a bundle, in the long form: its stamp, thread, and tracepoint.
pub fn event(at: u64, tid: u64, field: u64, what: &[u8]) -> Vec<u8> {
    bytes(2, &[number(1, at), number(2, tid), bytes(field, what)].concat())
}
