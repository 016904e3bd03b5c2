//! Validation of a client's bytes against a type, with Cassandra 4.1's messages.

use super::elements::{components, elements, pairs, split_i32};
use super::{CqlType, Hex, TypeError, vint};

impl CqlType {
    /// Validates untrusted bytes as a value of the type. The empty value is valid for most types,
    /// but not for `smallint`, `tinyint`, `date`, `time`, `duration` and collections.
    ///
    /// # Errors
    /// Cassandra's messages, with the expected and the actual form.
    pub fn validate(&self, bytes: &[u8]) -> Result<(), TypeError> {
        match self {
            Self::List { element, .. } => {
                validate_collection("list", bytes, &[element], Nulls::RejectedLast)
            }
            other => other.validate_part(bytes),
        }
    }

    /// Validates untrusted bytes as a part of a value. A list with several faults has another error as a
    /// part than as a whole value, as in Cassandra.
    fn validate_part(&self, bytes: &[u8]) -> Result<(), TypeError> {
        let len = bytes.len();
        let refuse = |message: String| Err(TypeError::new(message));
        match self {
            Self::Int if len != 4 && len != 0 => {
                refuse(format!("Expected 4 or 0 byte int ({len})"))
            }
            Self::Bigint | Self::Counter if len != 8 && len != 0 => {
                refuse(format!("Expected 8 or 0 byte long ({len})"))
            }
            Self::Timestamp if len != 8 && len != 0 => {
                refuse(format!("Expected 8 or 0 byte long for date ({len})"))
            }
            Self::Smallint if len != 2 => {
                refuse(format!("Expected 2 bytes for a smallint ({len})"))
            }
            Self::Tinyint if len != 1 => refuse(format!("Expected 1 byte for a tinyint ({len})")),
            Self::Boolean if len > 1 => refuse(format!("Expected 1 or 0 byte value ({len})")),
            Self::Float if len != 4 && len != 0 => {
                refuse(format!("Expected 4 or 0 byte value for a float ({len})"))
            }
            Self::Double if len != 8 && len != 0 => {
                refuse(format!("Expected 8 or 0 byte value for a double ({len})"))
            }
            Self::Date if len != 4 => refuse(format!("Expected 4 byte long for date ({len})")),
            // Cassandra, too, accepts times that are negative or beyond a day.
            Self::Time if len != 8 => refuse(format!("Expected 8 byte long for time ({len})")),
            // Cassandra accepts a scale without digits here and later fails to read it.
            Self::Decimal if len == 4 => refuse("Expected 0 or at least 5 bytes (4)".to_owned()),
            Self::Decimal if (1..4).contains(&len) => {
                refuse(format!("Expected 0 or at least 4 bytes ({len})"))
            }
            Self::Inet if len != 0 && len != 4 && len != 16 => refuse(format!(
                "Expected 4 or 16 byte inetaddress; got {}",
                Hex(bytes)
            )),
            Self::Uuid | Self::Timeuuid if len != 16 && len != 0 => {
                refuse(format!("UUID should be 16 or 0 bytes ({len})"))
            }
            // Cassandra's message shows the first hex digit of the value, which is not the version.
            Self::Timeuuid if len == 16 && bytes[6] & 0xf0 != 0x10 => refuse(format!(
                "Invalid version for TimeUUID type: 0x{:x}",
                bytes[0] >> 4
            )),
            Self::Ascii => match bytes.iter().find(|b| !b.is_ascii()) {
                // Java prints bytes as signed numbers.
                Some(&b) => refuse(format!("Invalid byte for ascii: {}", b as i8)),
                None => Ok(()),
            },
            Self::Text => match std::str::from_utf8(bytes) {
                Ok(_) => Ok(()),
                Err(_) => refuse("String didn't validate.".to_owned()),
            },
            Self::Duration => validate_duration(bytes),
            Self::List { element, .. } => {
                validate_collection("list", bytes, &[element], Nulls::Rejected)
            }
            Self::Set { element, .. } => {
                validate_collection("set", bytes, &[element], Nulls::Rejected)
            }
            Self::Map { key, value, .. } => {
                validate_collection("map", bytes, &[key, value], Nulls::Rejected)
            }
            Self::Tuple(types) => validate_tuple(bytes, types),
            Self::Udt { definition, .. } => {
                let fields = definition.fields();
                let name = |i: usize| format!("{i}th field {}", fields[i].0);
                let failure = |i: usize, error: TypeError| {
                    TypeError::new(format!("Failure validating the {}; {error}", name(i)))
                };
                let types = fields.iter().map(|(_, t)| t);
                validate_components(bytes, types, name, failure, "UDT")
            }
            // Any bytes are valid blobs and varints. The other types come here if their length is right.
            _ => Ok(()),
        }
    }

    /// Validates untrusted bytes as the list of an IN relation; this type is that of the list.
    /// Unlike the elements of a value that is written, the elements of such a list may be null.
    ///
    /// # Errors
    /// Cassandra's messages, with the expected and the actual form.
    pub fn validate_in(&self, bytes: &[u8]) -> Result<(), TypeError> {
        match self {
            Self::List { element, .. } => {
                validate_collection("list", bytes, &[element], Nulls::Permitted)
            }
            other => other.validate(bytes),
        }
    }
}

/// The treatment of nulls among the elements of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Permitted,
    Rejected,
    /// A null is an error, but the error of another fault anywhere in the collection precedes it.
    RejectedLast,
}

/// Checks a collection, which error messages call `kind`. `types` has one type for the elements of
/// a list or set, or two for the keys and values of a map.
fn validate_collection(
    kind: &str,
    bytes: &[u8],
    types: &[&CqlType],
    nulls: Nulls,
) -> Result<(), TypeError> {
    let too_short = || TypeError::new(format!("Not enough bytes to read a {kind}"));
    let (size, _) = split_i32(bytes).ok_or_else(too_short)?;
    if size < 0 {
        return Err(TypeError::new(format!(
            "The data cannot be deserialized as a {kind}"
        )));
    }
    let mut parts = match types {
        [_] => elements(bytes)?,
        _ => pairs(bytes)?,
    };
    let null = || Err(TypeError::new("Null value read when not allowed"));
    let mut has_null = false;
    for (place, part) in parts.by_ref().enumerate() {
        match part.map_err(|_| too_short())? {
            Some(part) => types[place % types.len()].validate_part(part)?,
            None if nulls == Nulls::Rejected => return null(),
            None => has_null = true,
        }
    }
    if !parts.rest().is_empty() {
        return Err(TypeError::new(format!(
            "Unexpected extraneous bytes after {kind} value"
        )));
    }
    if has_null && nulls == Nulls::RejectedLast {
        return null();
    }
    Ok(())
}

fn validate_tuple(bytes: &[u8], types: &[CqlType]) -> Result<(), TypeError> {
    let name = |i: usize| format!("{i}th component");
    validate_components(bytes, types.iter(), name, |_, error| error, "tuple")
}

fn validate_components<'a>(
    bytes: &[u8],
    types: impl Iterator<Item = &'a CqlType>,
    name: impl Fn(usize) -> String,
    failure: impl Fn(usize, TypeError) -> TypeError,
    kind: &str,
) -> Result<(), TypeError> {
    let mut parts = components(bytes);
    for (i, ty) in types.enumerate() {
        let before = parts.rest();
        match parts.next() {
            None => return Ok(()),
            Some(Ok(None)) => {}
            Some(Ok(Some(part))) => ty.validate_part(part).map_err(|error| failure(i, error))?,
            Some(Err(_)) => {
                let what = match split_i32(before) {
                    None => "Not enough bytes to read size of",
                    Some(_) => "Not enough bytes to read",
                };
                return Err(TypeError::new(format!("{what} {}", name(i))));
            }
        }
    }
    if parts.rest().is_empty() {
        Ok(())
    } else {
        Err(TypeError::new(format!(
            "Invalid remaining data after end of {kind} value"
        )))
    }
}

fn validate_duration(mut bytes: &[u8]) -> Result<(), TypeError> {
    let refuse = |message: String| Err(TypeError::new(message));
    if bytes.len() < 3 {
        return refuse(format!(
            "Expected at least 3 bytes for a duration ({})",
            bytes.len()
        ));
    }
    let parts = [(); 3].map(|()| vint::read_signed(&mut bytes));
    let [Some(months), Some(days), Some(nanos)] = parts else {
        return refuse("Not enough bytes to read a duration".to_owned());
    };
    if !bytes.is_empty() {
        return refuse("Unexpected extraneous bytes after duration value".to_owned());
    }
    for (name, value) in [("months", months), ("days", days)] {
        if i32::try_from(value).is_err() {
            return refuse(format!(
                "The duration {name} must be a 32 bits integer but was: {value}"
            ));
        }
    }
    let parts = [months, days, nanos];
    if parts.iter().any(|&p| p < 0) && parts.iter().any(|&p| p > 0) {
        return refuse(format!(
            "The duration months, days and nanoseconds must be all of the same sign \
             ({months}, {days}, {nanos})"
        ));
    }
    Ok(())
}
