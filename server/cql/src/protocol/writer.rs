//! A writer of the specification's notations (its section 3).
//!
//! Texts that are longer than their length field can express are cut: clients choose names, and a
//! stored name may be longer than those that statements accept today. Lists and values come from this
//! process and fit: the functions panic if one of them is too long.

use bytes::{BufMut, BytesMut};

use super::reader::Value;

fn short_len(n: usize) -> u16 {
    u16::try_from(n).expect("at most 65,535 bytes or items")
}

fn int_len(n: usize) -> i32 {
    i32::try_from(n).expect("less than 2 GiB")
}

/// Writes a `[string]`, cut at the last character that fits into 65,535 bytes.
pub fn string(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(u16::MAX.into())];
    short_bytes(out, text.as_bytes());
}

/// Writes a `[long string]`.
///
/// # Panics
/// If it has 2 GiB or more.
pub fn long_string(out: &mut BytesMut, text: &str) {
    bytes(out, Some(text.as_bytes()));
}

/// Writes `[short bytes]`.
///
/// # Panics
/// If there are more than 65,535 bytes.
pub fn short_bytes(out: &mut BytesMut, value: &[u8]) {
    out.put_u16(short_len(value.len()));
    out.put_slice(value);
}

/// Writes `[bytes]`.
///
/// # Panics
/// If there are 2 GiB or more.
pub fn bytes(out: &mut BytesMut, value: Option<&[u8]>) {
    match value {
        None => out.put_i32(-1),
        Some(value) => {
            out.put_i32(int_len(value.len()));
            out.put_slice(value);
        }
    }
}

/// Writes a `[value]`.
///
/// # Panics
/// If it has 2 GiB or more.
pub fn value(out: &mut BytesMut, value: Value<'_>) {
    match value {
        Value::Null => out.put_i32(-1),
        Value::Unset => out.put_i32(-2),
        Value::Bytes(value) => bytes(out, Some(value)),
    }
}

/// Writes the number of items as a `[short]`, then each item by `item`.
///
/// # Panics
/// If there are more than 65,535 items.
pub fn list<T>(out: &mut BytesMut, items: &[T], mut item: impl FnMut(&mut BytesMut, &T)) {
    out.put_u16(short_len(items.len()));
    for each in items {
        item(out, each);
    }
}

/// Writes a `[string list]`.
///
/// # Panics
/// If there are more than 65,535 items.
pub fn string_list<S: AsRef<str>>(out: &mut BytesMut, texts: &[S]) {
    list(out, texts, |out, text| string(out, text.as_ref()));
}
