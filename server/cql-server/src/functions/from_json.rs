//! JSON as values, as Cassandra's `fromJson` reads it.

use std::collections::BTreeMap;

use ebb_catalog::types::{CqlType, elements, sort_once};
use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::number_size;
use crate::error::{Result, invalid, of_type};
use crate::interrupt;

/// The value of a type that a JSON text says; `None` is null. Numbers keep all their digits.
/// A text may stand for any native value and for a whole collection.
///
/// # Errors
/// A text that is no JSON, or no such value; the time-out of the statement.
pub fn value(ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>> {
    read(ty, parse(text)?)
}

fn parse<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T> {
    serde_json::from_str(text)
        .or_else(|error| invalid(format!("Could not decode JSON string '{text}': {error}")))
}

fn read(ty: &CqlType, raw: &RawValue) -> Result<Option<Vec<u8>>> {
    let text = raw.get();
    interrupt::charge_bytes(text.len())?;
    if text == "null" {
        return Ok(None);
    }
    if matches!(ty, CqlType::Varint | CqlType::Decimal) {
        interrupt::charge(number_size::digits_units(text.len()))?;
    }
    let string: Option<String> = match text.starts_with('"') {
        true => Some(parse(text)?),
        false => None,
    };
    let value = match ty {
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. } => match &string {
            Some(inner) => return value(ty, inner),
            None => composite(ty, text)?,
        },
        CqlType::Text | CqlType::Ascii | CqlType::Blob if string.is_none() => {
            return expected(
                if *ty == CqlType::Blob {
                    "a blob string"
                } else {
                    "a UTF-8 string"
                },
                text,
            );
        }
        CqlType::Blob => match string.as_deref().and_then(|text| text.strip_prefix("0x")) {
            Some(hex) => ty.parse_value(hex).map_err(of_type)?,
            None => {
                return invalid(format!(
                    "Value '{}' is not a valid blob representation: String representation of \
                     blob is missing 0x prefix",
                    string.unwrap_or_default()
                ));
            }
        },
        CqlType::Date
        | CqlType::Time
        | CqlType::Duration
        | CqlType::Inet
        | CqlType::Uuid
        | CqlType::Timeuuid
            if string.is_none() =>
        {
            return expected(&format!("a string representation of a {ty} value"), text);
        }
        CqlType::Timestamp if string.is_none() && text.parse::<i64>().is_err() => {
            return expected(
                "a long or a datestring representation of a timestamp value",
                text,
            );
        }
        CqlType::Varint if string.as_deref() == Some("") => {
            return invalid("Value '' is not a valid representation of a varint value");
        }
        _ if text.starts_with(['{', '[']) => {
            return expected(&format!("a value of type {ty}"), text);
        }
        _ => ty
            .parse_value(string.as_deref().unwrap_or(text))
            .map_err(of_type)?,
    };
    Ok(Some(value))
}

fn expected<T>(what: &str, text: &str) -> Result<T> {
    invalid(format!("Expected {what}, but got: {text}"))
}

/// An array or object.
fn composite(ty: &CqlType, text: &str) -> Result<Vec<u8>> {
    let part = |ty: &CqlType, raw: &RawValue, what: &str| match read(ty, raw)? {
        Some(part) => Ok(part),
        None => invalid(format!("Invalid null {what}")),
    };
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) else {
                return expected("a list", text);
            };
            let (is_set, what) = match ty {
                CqlType::Set { .. } => (true, "element in set"),
                _ => (false, "element in list"),
            };
            let items = items.into_iter().map(|raw| part(element, raw, what));
            let mut items = items.collect::<Result<Vec<_>>>()?;
            if is_set {
                items = sort_once(element, items, |item| item, &mut interrupt::charge_bytes)?;
            }
            Ok(elements::build(items.iter().map(Vec::as_slice)))
        }
        CqlType::Map { key, value: of, .. } => {
            let mut entries = Vec::new();
            for (name, raw) in object(text)? {
                interrupt::charge_bytes(name.len())?;
                if matches!(**key, CqlType::Varint | CqlType::Decimal) {
                    interrupt::charge(number_size::digits_units(name.len()))?;
                }
                // What is no text is written into one.
                let Some(name) = (match &**key {
                    CqlType::Text | CqlType::Ascii => Some(name.into_bytes()),
                    key if key.is_native() => Some(key.parse_value(&name).map_err(of_type)?),
                    key => value(key, &name)?,
                }) else {
                    return invalid("Invalid null key in map");
                };
                entries.push((name, part(of, raw, "value in map")?));
            }
            let entries = sort_once(key, entries, |(key, _)| key, &mut interrupt::charge_bytes)?;
            Ok(elements::build_map(
                entries.iter().map(|(k, v)| (&k[..], &v[..])),
            ))
        }
        CqlType::Tuple(types) => {
            let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) else {
                return expected("a list representation of a tuple", text);
            };
            if items.len() != types.len() {
                return invalid(format!(
                    "Tuple contains {} than expected (expected {}, got {})",
                    if items.len() > types.len() {
                        "more items"
                    } else {
                        "fewer items"
                    },
                    types.len(),
                    items.len()
                ));
            }
            let items = items
                .into_iter()
                .zip(types.iter())
                .map(|(raw, ty)| read(ty, raw));
            let items = items.collect::<Result<Vec<_>>>()?;
            Ok(elements::build_tuple(items.iter().map(Option::as_deref)))
        }
        CqlType::Udt { definition, .. } => {
            let mut given = by_names(object(text)?);
            let mut fields = Vec::with_capacity(definition.fields().len());
            for (name, ty) in definition.fields() {
                fields.push(match given.remove(&**name) {
                    Some(raw) => read(ty, raw)?,
                    None => None,
                });
            }
            if let Some(unknown) = given.keys().next() {
                return invalid(format!(
                    "Unknown field '{unknown}' in value of user defined type {}",
                    definition.name()
                ));
            }
            Ok(elements::build_tuple(fields.iter().map(Option::as_deref)))
        }
        _ => unreachable!("only of what has parts"),
    }
}

/// The values of columns, by name and type, in an object: `None` where it does not name the
/// column, `Some(None)` where it says null.
///
/// # Errors
/// In Cassandra's words: no object, an unknown column, no value of a column's type. The time-out of
/// the statement.
pub fn row<'c>(
    columns: impl Iterator<Item = (&'c str, &'c CqlType)>,
    text: &str,
) -> Result<Vec<Option<Option<Vec<u8>>>>> {
    let object: Option<BTreeMap<String, &RawValue>> = match serde_json::from_str(text) {
        Ok(object) => object,
        Err(error) => {
            return invalid(format!(
                "Could not decode JSON string as a map: {error}. (String was: {text})"
            ));
        }
    };
    let Some(object) = object else {
        return invalid("Got null for INSERT JSON values");
    };
    let mut given = by_names(object);
    let mut values = Vec::new();
    for (name, ty) in columns {
        let value = given.remove(name).map(|raw| {
            read(ty, raw).map_err(|error| match error.kind {
                ErrorKind::Invalid => ErrorResponse::invalid(format!(
                    "Error decoding JSON value for {name}: {}",
                    error.message
                )),
                // Its time is over.
                _ => error,
            })
        });
        values.push(value.transpose()?);
    }
    match given.keys().next() {
        Some(unknown) => invalid(format!(
            "JSON values map contains unrecognized column: {unknown}"
        )),
        None => Ok(values),
    }
}

/// Names as in CQL: without quotes the case does not count.
fn by_names(object: BTreeMap<String, &RawValue>) -> BTreeMap<String, &RawValue> {
    let name = |name: String| match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    };
    let entries = object.into_iter();
    entries.map(|(key, raw)| (name(key), raw)).collect()
}

fn object(text: &str) -> Result<BTreeMap<String, &RawValue>> {
    match serde_json::from_str(text) {
        Ok(object) => Ok(object),
        Err(_) => expected("a map", text),
    }
}
