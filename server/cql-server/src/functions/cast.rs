//! `CAST(value AS type)` of native types, as in Cassandra 4.1's `CastFcts`. `printed` makes the
//! texts.

mod number;
#[cfg(test)]
mod tests;

use std::slice::from_ref;

use ebb_model::types::CqlType;

pub use self::number::Number;
use super::{Function, failure, number_size, printed, times};
use crate::error::{Result, invalid};
use crate::interrupt;

/// The number types, in the order of Cassandra's messages.
const NUMBERS: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Counter,
    CqlType::Varint,
];

/// The types that can be cast to text, besides numbers, in the order of Cassandra's messages.
const PRINTED: [CqlType; 7] = [
    CqlType::Inet,
    CqlType::Boolean,
    CqlType::Timeuuid,
    CqlType::Timestamp,
    CqlType::Date,
    CqlType::Time,
    CqlType::Uuid,
];

/// Returns the cast function; `None` if there is no cast to the type `to`.
///
/// # Errors
/// Cassandra's error, if there are casts to `to` but not from `from`.
pub fn cast(from: &CqlType, to: &CqlType) -> Result<Option<Function>> {
    let name = cast_name(to);
    let (arg, returns) = ([from.clone()], to.clone());
    // The bytes are the same in both types: ASCII is a part of UTF-8.
    if from == to || (*from == CqlType::Ascii && *to == CqlType::Text) {
        let body = |args: &[Option<&[u8]>], _| Ok(args[0].map(<[u8]>::to_vec));
        return Ok(Some(Function::new(name, arg, returns, body)));
    }
    let sources = sources(to);
    if sources.is_empty() {
        return Ok(None);
    }
    if !sources.contains(from) {
        let signature = |from: &CqlType| format!("{name} : ({from}) -> {to}");
        let known: Vec<String> = sources.iter().map(signature).collect();
        return invalid(format!(
            "Invalid call to function {name}, none of its type signatures match (known type \
             signatures: {})",
            known.join(", ")
        ));
    }
    let (source, target) = (from.clone(), to.clone());
    // Error messages have the name without its keyspace.
    let short = name.trim_start_matches("system.").to_owned();
    Ok(match to {
        CqlType::Date | CqlType::Timestamp => times::of_times(name, from, to),
        CqlType::Text | CqlType::Ascii => {
            Some(Function::new(name, arg, returns, move |args, _| {
                let Some(bytes) = args[0] else {
                    return Ok(None);
                };
                check_digits(&short, &source, bytes)?;
                Ok(printed::text(&source, bytes).map(String::into_bytes))
            }))
        }
        _ => Some(Function::new(name, arg, returns, move |args, _| {
            let Some(bytes) = args[0] else {
                return Ok(None);
            };
            // Null for an empty value, on which Cassandra's function fails with a null pointer.
            let Some(number) = Number::read(&source, bytes) else {
                return Ok(None);
            };
            // `write` takes time quadratic in the digits of a decimal, but not of other numbers.
            if source == CqlType::Decimal {
                check_digits(&short, &source, bytes)?;
            }
            match number.write(&target) {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(failure(&short, from_ref(&source), number.refusal())),
            }
        })),
    })
}

/// Checks that a number does not have too many digits to be written out, and charges the statement
/// for them. Values of other types pass.
fn check_digits(function: &str, ty: &CqlType, bytes: &[u8]) -> Result<()> {
    number_size::check_digits(ty, bytes).map_err(|why| failure(function, from_ref(ty), why))?;
    interrupt::charge(number_size::digits_units(bytes.len()))
}

/// Returns the types with a cast to this type, in the order of Cassandra's messages; empty if there
/// is no cast to this type.
fn sources(to: &CqlType) -> Vec<CqlType> {
    match to {
        CqlType::Counter => Vec::new(),
        number if Number::is_of(number) => {
            NUMBERS.into_iter().filter(|from| from != number).collect()
        }
        CqlType::Ascii => NUMBERS.into_iter().chain(PRINTED).collect(),
        CqlType::Text => {
            let texts = NUMBERS.into_iter().chain([CqlType::Ascii]);
            texts.chain(PRINTED).collect()
        }
        CqlType::Date => vec![CqlType::Timeuuid, CqlType::Timestamp],
        CqlType::Timestamp => vec![CqlType::Timeuuid, CqlType::Date],
        _ => Vec::new(),
    }
}

/// Returns the name of the function that casts to a type, for example `system.castAsInt`.
pub fn cast_name(to: &CqlType) -> String {
    let ty = to.to_string();
    let (first, rest) = ty.split_at(1);
    format!("system.castAs{}{rest}", first.to_uppercase())
}
