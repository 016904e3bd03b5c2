//! Values as JSON, as Cassandra's `toJson` writes them.

use std::fmt::Write;
use std::net::IpAddr;

use ebb_catalog::types::{CqlType, elements};
use uuid::Uuid;

use super::{failure, number_size, text};
use crate::error::{Result, of_type, result_too_large};
use crate::interrupt;

/// The bytes of a blob whose digits are written in about a microsecond.
const BLOB_BYTES_PER_UNIT: usize = 64;

/// The longest text of one value: as long as a result may be.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// A row of a result as one object, written cell by cell.
pub struct RowWriter {
    out: String,
    bytes_max: usize,
}

impl RowWriter {
    /// Begins a row that may have up to `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            out: String::from("{"),
            bytes_max,
        }
    }

    /// Appends a cell: its column's name and type, and its value.
    ///
    /// # Errors
    /// As [`value`], and if the row becomes too long.
    pub fn cell(&mut self, name: &str, ty: &CqlType, bytes: Option<&[u8]>) -> Result<()> {
        if self.out.len() > 1 {
            self.out.push_str(", ");
        }
        key(name, &mut self.out, self.bytes_max)?;
        value(ty, bytes, &mut self.out, self.bytes_max)?;
        check(self.out.len(), self.bytes_max)
    }

    /// Ends the row.
    pub fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }
}

/// The key of a column or field: names that need quotes in CQL keep them inside of it.
fn key(name: &str, out: &mut String, bytes_max: usize) -> Result<()> {
    match name.chars().any(char::is_uppercase) {
        false => string(name, out, bytes_max)?,
        true => string(&format!("\"{name}\""), out, bytes_max)?,
    }
    out.push_str(": ");
    Ok(())
}

/// Appends a value to a text of up to `bytes_max` bytes.
///
/// A map in the key of a map is a text in a text, and each such level doubles the backslashes of the
/// levels in it: forty levels of a value of a kilobyte would be a terabyte. So each text is measured
/// before it is written.
///
/// # Errors
/// A damaged value; a number with too many digits; a text that becomes too long; the time-out of the
/// statement.
pub fn value(ty: &CqlType, bytes: Option<&[u8]>, out: &mut String, bytes_max: usize) -> Result<()> {
    check(out.len(), bytes_max)?;
    let Some(bytes) = bytes else {
        out.push_str("null");
        return Ok(());
    };
    interrupt::charge_bytes(bytes.len())?;
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            out.push('[');
            for (at, part) in elements::elements(bytes).map_err(of_type)?.enumerate() {
                separate(at, out);
                value(element, part.map_err(of_type)?, out, bytes_max)?;
            }
            out.push(']');
        }
        CqlType::Map {
            key, value: values, ..
        } => {
            out.push('{');
            let mut parts = elements::pairs(bytes).map_err(of_type)?;
            let mut at = 0;
            while let (Some(k), Some(v)) = (parts.next(), parts.next()) {
                separate(at, out);
                at += 1;
                let mut text = String::new();
                value(key, k.map_err(of_type)?, &mut text, bytes_max)?;
                check(out.len() + text.len(), bytes_max)?;
                // A key is a text; others are written into one.
                match text.starts_with('"') {
                    true => out.push_str(&text),
                    false => string(&text, out, bytes_max)?,
                }
                out.push_str(": ");
                value(values, v.map_err(of_type)?, out, bytes_max)?;
            }
            out.push('}');
        }
        CqlType::Tuple(types) => {
            out.push('[');
            let mut parts = elements::components(bytes);
            for (at, ty) in types.iter().enumerate() {
                separate(at, out);
                let part = parts.next().transpose().map_err(of_type)?.flatten();
                value(ty, part, out, bytes_max)?;
            }
            out.push(']');
        }
        CqlType::Udt { definition, .. } => {
            out.push('{');
            let mut parts = elements::components(bytes);
            for (at, (name, ty)) in definition.fields().iter().enumerate() {
                separate(at, out);
                self::key(name, out, bytes_max)?;
                let part = parts.next().transpose().map_err(of_type)?.flatten();
                value(ty, part, out, bytes_max)?;
            }
            out.push('}');
        }
        _ if bytes.is_empty() && !matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob) => {
            out.push_str("\"\"");
        }
        CqlType::Text | CqlType::Ascii => {
            string(&String::from_utf8_lossy(bytes), out, bytes_max)?;
        }
        CqlType::Blob => {
            interrupt::charge((bytes.len() / BLOB_BYTES_PER_UNIT) as u64)?;
            let mut hex = String::from("0x");
            bytes
                .iter()
                .for_each(|b| write!(hex, "{b:02x}").expect("strings grow"));
            string(&hex, out, bytes_max)?;
        }
        CqlType::Boolean => out.push_str(if bytes[0] == 0 { "false" } else { "true" }),
        CqlType::Uuid | CqlType::Timeuuid => match Uuid::from_slice(bytes) {
            Ok(uuid) => string(&uuid.to_string(), out, bytes_max)?,
            Err(_) => out.push_str("null"),
        },
        CqlType::Inet => {
            let address = match bytes.len() {
                4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
                _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            };
            let text = address.map(|address| address.to_string());
            string(&text.unwrap_or_default(), out, bytes_max)?;
        }
        CqlType::Date | CqlType::Time | CqlType::Timestamp | CqlType::Duration => {
            string(&text::of(ty, bytes).unwrap_or_default(), out, bytes_max)?;
        }
        number => {
            number_size::check_digits(number, bytes).map_err(|why| {
                let what = format!("the function 'tojson({number})' failed: {why}");
                failure("tojson", std::slice::from_ref(number), what)
            })?;
            interrupt::charge(number_size::digits_units(bytes.len()))?;
            match text::of(number, bytes) {
                // JSON has no NaN and no infinity.
                Some(text) if text.ends_with(|last: char| last.is_ascii_digit()) => {
                    out.push_str(&text);
                }
                _ => out.push_str("null"),
            }
        }
    }
    Ok(())
}

fn separate(at: usize, out: &mut String) {
    if at > 0 {
        out.push_str(", ");
    }
}

fn check(bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes > bytes_max {
        return Err(result_too_large(bytes_max));
    }
    Ok(())
}

/// Appends a text between quotes, after its length was checked and charged.
fn string(text: &str, out: &mut String, bytes_max: usize) -> Result<()> {
    interrupt::charge_bytes(text.len())?;
    let quoted_bytes: usize = text.bytes().map(quoted_bytes).sum();
    check(out.len() + quoted_bytes + 2, bytes_max)?;
    interrupt::charge_bytes(quoted_bytes)?;
    let quoted = serde_json::to_string(text).expect("a text is JSON");
    out.push_str(&quoted);
    Ok(())
}

/// The bytes that stand for one byte of a text between quotes.
fn quoted_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => "\\u0000".len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A map whose key is a map whose key is a map, and so on, and its value.
    fn nested(levels: usize) -> (CqlType, Vec<u8>) {
        let mut ty = CqlType::Text;
        let mut value = b"a".to_vec();
        for _ in 0..levels {
            value = elements::build_map([(&value[..], &[0, 0, 0, 1][..])]);
            ty = CqlType::Map {
                key: Arc::new(ty),
                value: Arc::new(CqlType::Int),
                frozen: true,
            };
        }
        (ty, value)
    }

    /// The story: a value of less than a kilobyte was written as a terabyte of backslashes, and the
    /// server was aborted when it ran out of memory.
    #[test]
    fn a_map_in_keys_of_maps_is_refused_when_its_text_is_too_long() {
        let (ty, bytes) = nested(3);
        let mut out = String::new();
        value(&ty, Some(&bytes), &mut out, TEXT_BYTES_MAX).unwrap();
        assert_eq!(out, r#"{"{\"{\\\"a\\\": 1}\": 1}": 1}"#);
        for levels in [20, 40] {
            let (ty, bytes) = nested(levels);
            let refused = value(&ty, Some(&bytes), &mut String::new(), 10_000);
            assert_eq!(refused, Err(result_too_large(10_000)), "{levels}");
        }
    }

    #[test]
    fn the_length_of_a_text_between_quotes_is_known_before_it_is_written() {
        let all: String = (0..=0xff_u8).map(char::from).collect();
        let mut out = String::new();
        string(&all, &mut out, TEXT_BYTES_MAX).unwrap();
        let mut same = String::new();
        assert_eq!(string(&all, &mut same, out.len()), Ok(()));
        let mut shorter = String::new();
        assert!(string(&all, &mut shorter, out.len() - 1).is_err());
        assert_eq!((same, shorter), (out, String::new()));
    }
}
