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
        key(name, &mut self.out);
        value(ty, bytes, &mut self.out)?;
        if self.out.len() > self.bytes_max {
            return Err(result_too_large(self.bytes_max));
        }
        Ok(())
    }

    /// Ends the row.
    pub fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }
}

/// The key of a column or field: names that need quotes in CQL keep them inside of it.
fn key(name: &str, out: &mut String) {
    match name.chars().any(char::is_uppercase) {
        false => string(name, out),
        true => string(&format!("\"{name}\""), out),
    }
    out.push_str(": ");
}

/// Appends a value.
///
/// # Errors
/// A damaged value; a number with too many digits; the time-out of the statement.
pub fn value(ty: &CqlType, bytes: Option<&[u8]>, out: &mut String) -> Result<()> {
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
                value(element, part.map_err(of_type)?, out)?;
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
                value(key, k.map_err(of_type)?, &mut text)?;
                // A key is a text; others are written into one.
                match text.starts_with('"') {
                    true => out.push_str(&text),
                    false => string(&text, out),
                }
                out.push_str(": ");
                value(values, v.map_err(of_type)?, out)?;
            }
            out.push('}');
        }
        CqlType::Tuple(types) => {
            out.push('[');
            let mut parts = elements::components(bytes);
            for (at, ty) in types.iter().enumerate() {
                separate(at, out);
                let part = parts.next().transpose().map_err(of_type)?.flatten();
                value(ty, part, out)?;
            }
            out.push(']');
        }
        CqlType::Udt { definition, .. } => {
            out.push('{');
            let mut parts = elements::components(bytes);
            for (at, (name, ty)) in definition.fields().iter().enumerate() {
                separate(at, out);
                self::key(name, out);
                let part = parts.next().transpose().map_err(of_type)?.flatten();
                value(ty, part, out)?;
            }
            out.push('}');
        }
        _ if bytes.is_empty() && !matches!(ty, CqlType::Text | CqlType::Ascii | CqlType::Blob) => {
            out.push_str("\"\"");
        }
        CqlType::Text | CqlType::Ascii => string(&String::from_utf8_lossy(bytes), out),
        CqlType::Blob => {
            interrupt::charge((bytes.len() / BLOB_BYTES_PER_UNIT) as u64)?;
            let mut hex = String::from("0x");
            bytes
                .iter()
                .for_each(|b| write!(hex, "{b:02x}").expect("strings grow"));
            string(&hex, out);
        }
        CqlType::Boolean => out.push_str(if bytes[0] == 0 { "false" } else { "true" }),
        CqlType::Uuid | CqlType::Timeuuid => match Uuid::from_slice(bytes) {
            Ok(uuid) => string(&uuid.to_string(), out),
            Err(_) => out.push_str("null"),
        },
        CqlType::Inet => {
            let address = match bytes.len() {
                4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
                _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            };
            let text = address.map(|address| address.to_string());
            string(&text.unwrap_or_default(), out);
        }
        CqlType::Date | CqlType::Time | CqlType::Timestamp | CqlType::Duration => {
            string(&text::of(ty, bytes).unwrap_or_default(), out);
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

fn string(text: &str, out: &mut String) {
    let quoted = serde_json::to_string(text).expect("a text is JSON");
    out.push_str(&quoted);
}
