//! Writes protobuf for tests of this workspace, and for nothing else: requests are JSON.

/// A field that is a text or a message.
pub fn field(number: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = varint(u64::from(number) << 3 | 2);
    out.extend(varint(body.len() as u64));
    out.extend_from_slice(body);
    out
}

/// A field that is a number or a flag.
pub fn number(number: u8, value: u64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = vec![];
    while value > 127 {
        out.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// An object in its envelope.
pub fn envelope(api_version: &str, kind: &str, raw: impl AsRef<[u8]>) -> Vec<u8> {
    let type_meta = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, type_meta), field(2, raw)].concat()
}

/// An event of a watch, with its length before it.
pub fn event(type_: &str, object: impl AsRef<[u8]>) -> Vec<u8> {
    let event = [field(1, type_), field(2, field(1, object))].concat();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().to_vec(), event].concat()
}
