//! Values encoded as CQL types.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ebb_model::types::elements;
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
    elements::build(elements).into()
}

/// Encodes a `map` from its entries, each a key and a value, which are given in the order of the
/// keys.
pub fn map(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> Bytes {
    elements::build_map(entries).into()
}
