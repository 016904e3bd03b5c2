//! Values encoded as CQL types.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use uuid::Uuid;

pub fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

pub fn boolean(value: bool) -> Bytes {
    Bytes::copy_from_slice(&[u8::from(value)])
}

pub fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// Encodes a `bigint` or a `counter`.
pub fn bigint(value: i64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub fn double(value: f64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub fn uuid(value: Uuid) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

pub fn inet(value: IpAddr) -> Bytes {
    match value {
        IpAddr::V4(v4) => Bytes::copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => Bytes::copy_from_slice(&v6.octets()),
    }
}

/// Encodes a `timestamp`: milliseconds since 1970.
pub fn timestamp(value: SystemTime) -> Bytes {
    let since = value.duration_since(UNIX_EPOCH).unwrap_or_default();
    bigint(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Encodes a `list`, or a `set` whose elements are given in the order of the set.
pub fn list(elements: impl IntoIterator<Item = Bytes>) -> Bytes {
    collection(1, elements)
}

/// Encodes a `map` from its entries, each a key and a value, which are given in the order of the
/// keys.
pub fn map(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> Bytes {
    let both = |(key, value)| [key, value];
    collection(2, entries.into_iter().flat_map(both))
}

fn collection(parts: usize, values: impl IntoIterator<Item = Bytes>) -> Bytes {
    let length = |n: usize| i32::try_from(n).expect("less than 2 GiB").to_be_bytes();
    let mut out = vec![0; 4];
    let mut count = 0;
    for value in values {
        out.extend(length(value.len()));
        out.extend(&value[..]);
        count += 1;
    }
    out[..4].copy_from_slice(&length(count / parts));
    out.into()
}
