//! Values as JSON, as `toJSONString` of Cassandra 4.1's types writes them.

use std::fmt::Write;

use ebb_model::types::{CqlType, elements};

use super::{failure, number_size, printed};
use crate::error::{Result, of_type, result_too_large};
use crate::interrupt;

/// The number of bytes of a blob that are written as digits in about a microsecond.
const BLOB_BYTES_PER_UNIT: usize = 64;

/// The most bytes of the JSON text of a value outside of a read's result, for example in an INSERT.
/// A whole result has the same limit by default.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// A row of a result as a JSON object, written cell by cell.
pub struct RowWriter {
    out: String,
    bytes_max: usize,
}

impl RowWriter {
    /// Begins a row of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            out: String::from("{"),
            bytes_max,
        }
    }

    /// Appends a cell: the name and type of its column, and its value.
    ///
    /// # Errors
    /// The errors of [`value`], and a row that becomes too long.
    pub fn cell(&mut self, name: &str, ty: &CqlType, bytes: Option<&[u8]>) -> Result<()> {
        if self.out.len() > 1 {
            self.out.push_str(", ");
        }
        key(name, &mut self.out, self.bytes_max)?;
        value(ty, bytes, &mut self.out, self.bytes_max)?;
        check(self.out.len(), self.bytes_max)
    }

    /// Appends the end of the row, and returns the text of the row.
    pub fn finish(mut self) -> String {
        self.out.push('}');
        self.out
    }
}

/// Appends the name of a column or field as a JSON key. A name with capitals has CQL's quotes
/// within the key, as in Cassandra; other names have none.
fn key(name: &str, out: &mut String, bytes_max: usize) -> Result<()> {
    if name == name.to_lowercase() {
        string(name, out, bytes_max)?;
    } else {
        string(&format!("\"{name}\""), out, bytes_max)?;
    }
    out.push_str(": ");
    Ok(())
}

/// Appends a value to a text of at most `bytes_max` bytes.
///
/// A map within the key of a map is a text within a text, and each such level doubles the
/// backslashes of the inner levels: forty levels around a value of a kilobyte would make a
/// terabyte. So each text is measured before it is written.
///
/// # Errors
/// A damaged value, a number with too many digits, a text that becomes too long, or a statement
/// whose time is over.
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
            // Keys and values in turn.
            let mut parts = elements::pairs(bytes).map_err(of_type)?;
            let mut at = 0;
            while let (Some(k), Some(v)) = (parts.next(), parts.next()) {
                separate(at, out);
                at += 1;
                // Written apart, because the quotes around it depend on its first character.
                let mut text = String::new();
                value(key, k.map_err(of_type)?, &mut text, bytes_max)?;
                check(out.len() + text.len(), bytes_max)?;
                // The key of a JSON object is a text, so other values are quoted.
                if text.starts_with('"') {
                    out.push_str(&text);
                } else {
                    string(&text, out, bytes_max)?;
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
            // A value that is older than a field of its type has no component for the field: null.
            let mut parts = elements::components(bytes);
            for (at, (name, ty)) in definition.fields().iter().enumerate() {
                separate(at, out);
                self::key(name, out, bytes_max)?;
                let part = parts.next().transpose().map_err(of_type)?.flatten();
                value(ty, part, out, bytes_max)?;
            }
            out.push('}');
        }
        native => self::native(native, bytes, out, bytes_max)?,
    }
    Ok(())
}

/// Appends a value of a native type. An empty value is written as an empty text, but an empty blob
/// as `0x`.
fn native(ty: &CqlType, bytes: &[u8], out: &mut String, bytes_max: usize) -> Result<()> {
    let printed = || printed::text(ty, bytes).unwrap_or_else(|| "null".to_owned());
    match ty {
        CqlType::Blob => {
            interrupt::charge((bytes.len() / BLOB_BYTES_PER_UNIT) as u64)?;
            string(&printed(), out, bytes_max)
        }
        CqlType::Text | CqlType::Ascii => string(&printed(), out, bytes_max),
        _ if bytes.is_empty() => string("", out, bytes_max),
        CqlType::Uuid
        | CqlType::Timeuuid
        | CqlType::Inet
        | CqlType::Date
        | CqlType::Time
        | CqlType::Duration => string(&printed(), out, bytes_max),
        CqlType::Timestamp => {
            let ms = bytes.try_into().map_or(0, i64::from_be_bytes);
            string(&printed::timestamp(ms, ' '), out, bytes_max)
        }
        // JSON has no NaN and no infinity.
        CqlType::Float | CqlType::Double => {
            let text = printed();
            let is_finite = text.ends_with(|last: char| last.is_ascii_digit());
            out.push_str(if is_finite { &text } else { "null" });
            Ok(())
        }
        number => {
            number_size::check_digits(number, bytes).map_err(|why| {
                let what = format!("the function 'tojson({number})' failed: {why}");
                failure("tojson", std::slice::from_ref(number), what)
            })?;
            interrupt::charge(number_size::digits_units(bytes.len()))?;
            out.push_str(&printed());
            Ok(())
        }
    }
}

/// Appends a comma, unless the part number `at` of an array or object is the first one (0).
fn separate(at: usize, out: &mut String) {
    if at > 0 {
        out.push_str(", ");
    }
}

/// Checks that a text of `bytes` bytes is not longer than `bytes_max`.
fn check(bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes > bytes_max {
        return Err(result_too_large(bytes_max));
    }
    Ok(())
}

/// Appends a text as a JSON string. Before, checks that `out` does not grow beyond `bytes_max`, and
/// counts the work towards the statement's timeout.
fn string(text: &str, out: &mut String, bytes_max: usize) -> Result<()> {
    interrupt::charge_bytes(text.len())?;
    let quoted_bytes: usize = text.bytes().map(quoted_bytes).sum();
    check(out.len() + quoted_bytes + 2, bytes_max)?;
    interrupt::charge_bytes(quoted_bytes)?;
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if self::quoted_bytes(byte) == 1 {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            0..0x20 => write!(out, "\\u{byte:04X}").expect("strings grow"),
            // A quote or a backslash.
            _ => out.extend(['\\', char::from(byte)]),
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
    Ok(())
}

/// Returns the number of bytes that a byte takes in a quoted text. Escapes are those of
/// `Json.quoteAsJsonString`, with hexadecimal digits in capitals.
fn quoted_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => "\\u0000".len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
