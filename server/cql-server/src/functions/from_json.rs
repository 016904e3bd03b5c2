//! Values from JSON, as in `fromJSONObject` of Cassandra 4.1's types.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use ebb_model::types::{CqlType, elements, sort_once};
use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::number_size;
use super::parsed_json::ParsedJson;
use crate::error::{Result, invalid, of_type};
use crate::interrupt;
use crate::memory::Memory;

/// The number of fields of a user-defined type that are looked up in a JSON object in about a
/// microsecond, the unit that [`interrupt::charge`] counts.
const FIELDS_PER_UNIT: usize = 16;

/// Decodes a JSON text as a value of a type; `None` is null. A JSON string may stand for any native
/// value, and one that contains JSON for a collection, tuple or user-defined type.
///
/// A `decimal` keeps all its digits. Cassandra 4.1 parses a `decimal` with a point as a `double`
/// first, and loses the digits after the seventeenth.
///
/// # Errors
/// If the text is no JSON or no value of the type, if objects omit so many fields that their nulls
/// take too much memory, or if the statement's time is over.
pub fn value(ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => read(ty, json, &mut Memory::default()),
        Err(error) => invalid(format!(
            "execution of 'system.fromjson[text]' failed: Could not decode JSON string '{text}': \
             {error}"
        )),
    }
}

/// Decodes a JSON value as a value of a type; `None` is null. `memory` counts the nulls of fields that
/// objects omit.
fn read(ty: &CqlType, json: &RawValue, memory: &mut Memory) -> Result<Option<Vec<u8>>> {
    let json = json.get();
    interrupt::charge_bytes(json.len())?;
    if json == "null" {
        return Ok(None);
    }
    let value = if json.starts_with('"') {
        match serde_json::from_str::<String>(json) {
            Ok(text) => of_string(ty, &text, memory),
            Err(error) => undecodable(&error),
        }
    } else {
        of_other(ty, json, memory)
    };
    value.map(Some)
}

/// Decodes a JSON string, or the key of a JSON object that stands for a map, as a value of a type.
fn of_string(ty: &CqlType, text: &str, memory: &mut Memory) -> Result<Vec<u8>> {
    interrupt::charge_bytes(text.len())?;
    match ty {
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. } => match serde_json::from_str::<&RawValue>(text) {
            Ok(json) => composite(ty, json.get(), memory),
            Err(error) => undecodable(&error),
        },
        CqlType::Blob => {
            let bytes = match text.strip_prefix("0x") {
                Some(digits) => ty.parse_value(digits).map_err(|error| error.to_string()),
                None => Err(format!(
                    "String representation of blob is missing 0x prefix: {text}"
                )),
            };
            bytes.or_else(|why| invalid(no_blob(&text, &why)))
        }
        // For the other types an empty text is the empty value.
        CqlType::Boolean if text.is_empty() => Ok(vec![0]),
        CqlType::Varint if text.is_empty() => invalid(no_representation(ty, &text)),
        CqlType::Varint | CqlType::Decimal => number(ty, text, &text),
        _ => ty.parse_value(text).map_err(of_type),
    }
}

/// Decodes a JSON number, boolean, array or object as a value of a type.
fn of_other(ty: &CqlType, json: &str, memory: &mut Memory) -> Result<Vec<u8>> {
    let parsed = ParsedJson(json);
    // If no guard accepts the value, the later arm of its type names the expected form for the error.
    let expected_type = match ty {
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. } => return composite(ty, json, memory),
        CqlType::Varint | CqlType::Decimal => return number(ty, json, &parsed),
        CqlType::Blob => {
            let why = format!("a {} is no string", parsed.class());
            return invalid(no_blob(&parsed, &why));
        }
        CqlType::Boolean if parsed.class() == "Boolean" => {
            return Ok(vec![u8::from(json == "true")]);
        }
        // As in Cassandra, where these two types parse the text that Java prints for any number: `1e0`,
        // printed as `1.0`, is rejected.
        CqlType::Tinyint | CqlType::Smallint if parsed.is_number() => {
            return ty.parse_value(&parsed.to_string()).map_err(of_type);
        }
        CqlType::Int if parsed.class() == "Integer" => {
            return ty.parse_value(json).map_err(of_type);
        }
        CqlType::Bigint | CqlType::Counter if matches!(parsed.class(), "Integer" | "Long") => {
            return ty.parse_value(json).map_err(of_type);
        }
        // Cassandra reads a number of 32 bits as an `Integer`, which it rejects here.
        CqlType::Timestamp if parsed.class() == "Long" => {
            return ty.parse_value(json).map_err(of_type);
        }
        // Converted from a double, as by Java's `Double.floatValue`.
        CqlType::Float if parsed.class() == "Double" => {
            let double: f64 = json.parse().unwrap_or(f64::NAN);
            return Ok((double as f32).to_be_bytes().to_vec());
        }
        CqlType::Float | CqlType::Double if parsed.is_number() => {
            return ty.parse_value(json).map_err(of_type);
        }
        CqlType::Ascii => "an ascii string",
        CqlType::Text => "a UTF-8 string",
        CqlType::Boolean => "a boolean value",
        CqlType::Tinyint => "a byte value",
        CqlType::Smallint => "a short value",
        CqlType::Int => "an int value",
        CqlType::Bigint | CqlType::Counter => "a bigint value",
        CqlType::Float => "a float value",
        CqlType::Double => "a double value",
        CqlType::Timestamp => "a long or a datestring representation of a timestamp value",
        CqlType::Date => "a string representation of a date value",
        CqlType::Time => "a string representation of a time value",
        CqlType::Inet => "a string representation of an inet value",
        CqlType::Duration => "a string representation of a duration",
        CqlType::Uuid => "a string representation of a uuid",
        CqlType::Timeuuid => "a string representation of a timeuuid",
    };
    expected(expected_type, json)
}

/// Decodes the text of a number as a `varint` or `decimal`. Error messages show `shown` in place of
/// the number.
fn number(ty: &CqlType, text: &str, shown: &dyn Display) -> Result<Vec<u8>> {
    interrupt::charge(number_size::digits_units(text.len()))?;
    let value = ty.parse_value(text);
    value.or_else(|_| invalid(no_representation(ty, shown)))
}

fn no_representation(ty: &CqlType, shown: &dyn Display) -> String {
    format!("Value '{shown}' is not a valid representation of a {ty} value")
}

fn no_blob(shown: &dyn Display, why: &str) -> String {
    format!("Value '{shown}' is not a valid blob representation: {why}")
}

fn undecodable<T>(error: &serde_json::Error) -> Result<T> {
    invalid(format!("Error decoding JSON string: {error}"))
}

fn expected<T>(what: &str, json: &str) -> Result<T> {
    let parsed = ParsedJson(json);
    let class = parsed.class();
    invalid(format!("Expected {what}, but got a {class}: {parsed}"))
}

/// Decodes a part of a collection, which may not be null. `what` names the part in errors.
fn part(ty: &CqlType, raw: &RawValue, what: &str, memory: &mut Memory) -> Result<Vec<u8>> {
    match read(ty, raw, memory)? {
        Some(part) => Ok(part),
        None => invalid(format!("Invalid null {what}")),
    }
}

/// Decodes a JSON array or object as a collection, tuple or user-defined type.
fn composite(ty: &CqlType, json: &str, memory: &mut Memory) -> Result<Vec<u8>> {
    match ty {
        CqlType::List { element, .. } => {
            let items = array(json, "a list")?.into_iter();
            let items = items.map(|raw| part(element, raw, "element in list", memory));
            let items = items.collect::<Result<Vec<_>>>()?;
            Ok(elements::build(items))
        }
        CqlType::Set { element, .. } => {
            let items = array(json, "a list (representing a set)")?.into_iter();
            let items = items.map(|raw| part(element, raw, "element in set", memory));
            let items = items.collect::<Result<Vec<_>>>()?;
            // JSON has no sets: the array may have any order, and equal elements.
            let items = sort_once(element, items, |item| item, &mut interrupt::charge_bytes)?;
            Ok(elements::build(items))
        }
        CqlType::Map { key, value: of, .. } => {
            let mut members: Vec<_> = object(json)?.into_iter().collect();
            // The values are parts of the text, so this is their order there.
            members.sort_unstable_by_key(|(_, raw)| raw.get().as_ptr());
            let mut entries = Vec::with_capacity(members.len());
            for (name, raw) in members {
                // The keys of JSON objects are strings, whatever type the keys of the map have.
                let key = of_string(key, &name, memory)?;
                entries.push((key, part(of, raw, "value in map", memory)?));
            }
            // Of names of one key, such as `1` and `01`, the last one counts, and `sort_once` keeps the
            // first. In Cassandra 4.1 any of them may count.
            entries.reverse();
            let entries = sort_once(key, entries, |(key, _)| key, &mut interrupt::charge_bytes)?;
            Ok(elements::build_map(entries))
        }
        CqlType::Tuple(types) => {
            // Unlike a literal in CQL, the array must have all components. They may be null.
            let items = array(json, "a list representation of a tuple")?;
            if items.len() != types.len() {
                let what = if items.len() > types.len() {
                    "contains extra items"
                } else {
                    "is missing items"
                };
                let (count, parsed) = (types.len(), ParsedJson(json));
                return invalid(format!("Tuple {what} (expected {count}): {parsed}"));
            }
            let items = items.into_iter().zip(types.iter());
            let items = items.map(|(raw, ty)| read(ty, raw, memory));
            let items = items.collect::<Result<Vec<_>>>()?;
            Ok(elements::build_tuple(items.iter().map(Option::as_deref)))
        }
        CqlType::Udt { definition, .. } => {
            // A missing field is null, and an unknown one an error: fields are removed as they are
            // read, so that only unknown ones are left.
            let given = by_names(json, definition.fields().len())?;
            let mut given = given.or_else(|_| expected("a map", json))?;
            interrupt::charge((definition.fields().len() / FIELDS_PER_UNIT) as u64)?;
            let mut fields = Vec::with_capacity(definition.fields().len());
            for (name, ty) in definition.fields() {
                fields.push(match given.remove(&**name) {
                    Some((_, raw)) => read(ty, raw, memory)?,
                    None => {
                        memory.take_nulls(1)?;
                        None
                    }
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
        _ => unreachable!("only called for types that have parts"),
    }
}

/// Decodes an object as a row: the values of these columns, in their order. A value is `None` if
/// the object does not contain the column, and `Some(None)` if it is null in the object.
///
/// # Errors
/// Cassandra's errors: the text is no object, names an unknown column or has an invalid value. Or
/// the statement's time is over.
pub fn row<'c>(
    columns: impl Iterator<Item = (&'c str, &'c CqlType)>,
    text: &str,
) -> Result<Vec<Option<Option<Vec<u8>>>>> {
    interrupt::charge_bytes(text.len())?;
    if text.trim_matches([' ', '\t', '\n', '\r']) == "null" {
        return invalid("Got null for INSERT JSON values");
    }
    let columns: Vec<_> = columns.collect();
    let given = by_names(text, columns.len())?;
    let mut given = given.or_else(|error| {
        invalid(format!(
            "Could not decode JSON string as a map: {error}. (String was: {text})"
        ))
    })?;
    let mut values = Vec::new();
    let mut memory = Memory::default();
    for (name, ty) in columns {
        let value = given.remove(name).map(|(_, raw)| {
            read(ty, raw, &mut memory).map_err(|error| match error.kind {
                ErrorKind::Invalid => ErrorResponse::invalid(format!(
                    "Error decoding JSON value for {name}: {}",
                    error.message
                )),
                // The statement's time is over.
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

/// A member of an object: its name in the object (`None` if this is exactly the name of the column
/// or field), and its value.
type NamedValue<'t> = (Option<String>, &'t RawValue);

/// Splits a JSON object into its values by the names of columns or fields. As in CQL, a name
/// without quotes is resolved without regard to case. If several names in the object mean the same
/// column, one with quotes or capitals wins over the plain one, as in Cassandra. `names_max` is the
/// number of existing columns or fields. Once the object has more different names, at least one of
/// them is unknown, so the remaining members are left out.
///
/// # Errors
/// The outer error is the end of the statement's time. The inner error is that `json` is no JSON
/// object.
fn by_names(
    json: &str,
    names_max: usize,
) -> Result<serde_json::Result<BTreeMap<String, NamedValue<'_>>>> {
    let mut values: BTreeMap<String, NamedValue<'_>> = BTreeMap::new();
    let read = members(json, |name, raw| {
        if values.len() > names_max {
            return;
        }
        let column = match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => name.to_lowercase(),
        };
        let written = (column != name).then_some(name);
        // Of the names of one column the greatest counts, whatever their order in the text, and
        // `None` is the least. Of equal names the last one counts.
        let is_least = |(other, _): &NamedValue<'_>| *other <= written;
        if values.get(&column).is_none_or(is_least) {
            values.insert(column, (written, raw));
        }
    })?;
    Ok(read.map(|()| values))
}

/// Splits a JSON object into its values by their names. If a name occurs several times, the last
/// value is used.
fn object(json: &str) -> Result<BTreeMap<String, &RawValue>> {
    let mut values = BTreeMap::new();
    let read = members(json, |name, raw| {
        values.insert(name, raw);
    })?;
    match read {
        Ok(()) => Ok(values),
        Err(_) => expected("a map", json),
    }
}

/// Splits an array into its values; `what` is the expected value in the error.
fn array<'t>(json: &'t str, what: &str) -> Result<Vec<&'t RawValue>> {
    let (mut items, mut charged) = (Vec::new(), Ok(()));
    let mut parser = serde_json::Deserializer::from_str(json);
    let parts = Parts {
        take: |_: String, raw: &'t RawValue| items.push(raw),
        charged: &mut charged,
    };
    let read = parser.deserialize_seq(parts).and_then(|()| parser.end());
    charged?;
    match read {
        Ok(()) => Ok(items),
        Err(_) => expected(what, json),
    }
}

/// Calls `take` with the name and the value of each member of a JSON object.
///
/// # Errors
/// The outer error is the end of the statement's time. The inner error is that `json` is no JSON
/// object.
fn members<'t>(
    json: &'t str,
    take: impl FnMut(String, &'t RawValue),
) -> Result<serde_json::Result<()>> {
    let mut charged = Ok(());
    let mut parser = serde_json::Deserializer::from_str(json);
    let parts = Parts {
        take,
        charged: &mut charged,
    };
    let read = parser.deserialize_map(parts).and_then(|()| parser.end());
    charged.map(|()| read)
}

/// A visitor of a JSON object or array, which may have millions of parts. It charges the statement
/// for each part, and passes the part to the function `take`. The parts of an array have empty
/// names.
struct Parts<'c, F> {
    take: F,
    /// The error of the charge, if the statement has to end. The parser then ends with an error of
    /// its own, so check this error before the result of the parser.
    charged: &'c mut Result<()>,
}

impl<F> Parts<'_, F> {
    /// Charges the statement for a part whose name and value have `bytes` bytes together.
    fn charge<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        *self.charged = interrupt::charge_bytes(bytes);
        match self.charged {
            Ok(()) => Ok(()),
            Err(_) => Err(E::custom("the time of the statement is over")),
        }
    }
}

impl<'t, F: FnMut(String, &'t RawValue)> Visitor<'t> for Parts<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, raw)) = map.next_entry::<String, &'t RawValue>()? {
            self.charge::<A::Error>(name.len() + raw.get().len())?;
            (self.take)(name, raw);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(raw) = items.next_element::<&'t RawValue>()? {
            self.charge::<A::Error>(raw.get().len())?;
            (self.take)(String::new(), raw);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
