//! The total order of the values of each type: the order of Cassandra 4.1's comparators.

use std::cmp::Ordering;
use std::convert::Infallible;

use super::elements::{components, elements, pairs};
use super::number::{compare_decimals, compare_varints, comparison_bytes, is_comparable};
use super::{Charge, CqlType, TypeError};

impl CqlType {
    /// Compares two values in the order of this type.
    ///
    /// Empty values come before all others. Numbers go by value (so decimal 1.0 equals 1.00, and
    /// every NaN equals every other and comes last; -0.0 lies before 0.0), text and blobs by bytes,
    /// `uuid` by version and then time or bytes, `timeuuid` by time and then signed bytes, `inet`
    /// by bytes, collections and tuples element by element.
    ///
    /// A `duration` has no order in CQL. It is compared by its bytes here, so that at least the
    /// equality of durations is right.
    ///
    /// The order is total over all byte strings, valid or not. If a type is compared by its bytes,
    /// its invalid values lie among the valid ones. Of the other types, these values come last:
    /// bytes of a wrong length, collections without a readable count, and each `decimal` that has
    /// no digits or is longer than [`DECIMAL_BYTES_MAX`](super::number::DECIMAL_BYTES_MAX).
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Ok(order) = self.try_compare(a, b, &mut |_| Ok::<_, Infallible>(()));
        order
    }

    /// Returns the order as [`compare`](Self::compare) does, for values whose comparison may take long.
    /// Reports the work to `charge` before each part of a collection or tuple and before each `decimal`,
    /// but does not charge for the length of `a` and `b` themselves. Ends with the first error that
    /// `charge` returns.
    ///
    /// # Errors
    /// The error of `charge`.
    pub fn try_compare<E>(&self, a: &[u8], b: &[u8], charge: Charge<'_, E>) -> Result<Ordering, E> {
        Ok(match self {
            // Cassandra compares these by their bytes, too. CQL has no order of durations, but sets sort
            // elements that contain some. A time may be negative, and sorts behind those that are not.
            Self::Ascii
            | Self::Text
            | Self::Blob
            | Self::Inet
            | Self::Date
            | Self::Time
            | Self::Duration => a.cmp(b),
            Self::Boolean => fixed(a, b, |[a]: [u8; 1], [b]| (a != 0).cmp(&(b != 0))),
            Self::Tinyint => fixed(a, b, |[a]: [u8; 1], [b]| (a as i8).cmp(&(b as i8))),
            Self::Smallint => fixed(a, b, |a, b| {
                i16::from_be_bytes(a).cmp(&i16::from_be_bytes(b))
            }),
            Self::Int => fixed(a, b, |a, b| {
                i32::from_be_bytes(a).cmp(&i32::from_be_bytes(b))
            }),
            Self::Bigint | Self::Counter | Self::Timestamp => fixed(a, b, |a, b| {
                i64::from_be_bytes(a).cmp(&i64::from_be_bytes(b))
            }),
            // `total_cmp` puts -0.0 before 0.0, and NaNs first or last by their sign. `one_nan_f32` and
            // `one_nan_f64` replace each NaN by the positive one, which comes last.
            Self::Float => fixed(a, b, |a, b| {
                one_nan_f32(f32::from_be_bytes(a)).total_cmp(&one_nan_f32(f32::from_be_bytes(b)))
            }),
            Self::Double => fixed(a, b, |a, b| {
                one_nan_f64(f64::from_be_bytes(a)).total_cmp(&one_nan_f64(f64::from_be_bytes(b)))
            }),
            Self::Varint => compare_varints(a, b),
            Self::Decimal => {
                // Two decimals of different scales take far longer than the bytes of both.
                charge(comparison_bytes(a, b))?;
                compare_decimals(a, b).unwrap_or_else(|| {
                    rank(a, is_comparable(a))
                        .cmp(&rank(b, is_comparable(b)))
                        .then(a.cmp(b))
                })
            }
            Self::Uuid => fixed(a, b, |a, b| uuid_order(a).cmp(&uuid_order(b))),
            Self::Timeuuid => fixed(a, b, |a, b| timeuuid_order(a).cmp(&timeuuid_order(b))),
            Self::List { element, .. } | Self::Set { element, .. } => {
                compare_collections(a, b, || {
                    let (a, b) = (elements(a)?, elements(b)?);
                    Ok(compare_parts(a, b, &[element], charge))
                })?
            }
            Self::Map { key, value, .. } => compare_collections(a, b, || {
                let (a, b) = (pairs(a)?, pairs(b)?);
                Ok(compare_parts(a, b, &[key, value], charge))
            })?,
            Self::Tuple(_) | Self::Udt { .. } => compare_tuples(a, b, self.components(), charge)?,
        })
    }
}

/// Ranks a value: empty ones first, then valid ones, then invalid ones.
fn rank(bytes: &[u8], valid: bool) -> u8 {
    match (bytes.is_empty(), valid) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

fn fixed<const N: usize>(
    a: &[u8],
    b: &[u8],
    compare: impl Fn([u8; N], [u8; N]) -> Ordering,
) -> Ordering {
    match (a.try_into(), b.try_into()) {
        (Ok(a), Ok(b)) => compare(a, b),
        _ => rank(a, a.len() == N)
            .cmp(&rank(b, b.len() == N))
            .then(a.cmp(b)),
    }
}

fn one_nan_f32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

fn one_nan_f64(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// Returns the upper half of a v1 uuid with the parts of its time in the order of their weight, so
/// that the results sort by time: `time_hi` with the version, `time_mid`, `time_low`.
pub(crate) fn time_first(high: u64) -> u64 {
    high << 48 | (high << 16) & 0xffff_0000_0000 | high >> 32
}

/// Restores the high half of a v1 uuid from the result of [`time_first`].
pub(crate) fn time_last(ordered: u64) -> u64 {
    ordered >> 48 | (ordered >> 16) & 0xffff_0000 | ordered << 32
}

/// Returns the high and the low half of a uuid as integers.
pub(crate) fn halves(uuid: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(uuid);
    ((whole >> 64) as u64, whole as u64)
}

/// Returns a `uuid` as a sort key: version, then time (v1) or bytes, then the low half.
pub(crate) fn uuid_order(uuid: [u8; 16]) -> (u8, u64, u64) {
    let (high, low) = halves(uuid);
    let version = uuid[6] >> 4;
    let high = if version == 1 { time_first(high) } else { high };
    (version, high, low)
}

/// Returns a `timeuuid` as a sort key: time, then the low half by signed bytes.
pub(crate) fn timeuuid_order(uuid: [u8; 16]) -> (u64, u64) {
    let (high, low) = halves(uuid);
    (time_first(high), low ^ SIGN_OF_EACH_BYTE)
}

/// An XOR mask that flips the sign bit of each byte: the unsigned order of the result is the order of
/// the bytes as signed numbers.
pub(crate) const SIGN_OF_EACH_BYTE: u64 = 0x8080_8080_8080_8080;

fn compare_collections<E>(
    a: &[u8],
    b: &[u8],
    compare: impl FnOnce() -> Result<Result<Ordering, E>, TypeError>,
) -> Result<Ordering, E> {
    let valid = |bytes: &[u8]| elements(bytes).is_ok();
    let by_rank = rank(a, valid(a)).cmp(&rank(b, valid(b)));
    if by_rank.is_ne() {
        return Ok(by_rank);
    }
    // Equal ranks: this fails only if both are empty or both have no readable count.
    compare().unwrap_or_else(|_| Ok(a.cmp(b)))
}

fn compare_parts<'a, E>(
    mut a: impl Iterator<Item = Result<Option<&'a [u8]>, TypeError>>,
    mut b: impl Iterator<Item = Result<Option<&'a [u8]>, TypeError>>,
    types: &[&CqlType],
    charge: Charge<'_, E>,
) -> Result<Ordering, E> {
    // The parts of a map are keys and values in turn.
    for ty in types.iter().cycle() {
        // An element that cannot be read ends the collection, as if it came after the last one.
        let (a, b) = (a.next().and_then(Result::ok), b.next().and_then(Result::ok));
        let (a, b) = match (a, b) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return Ok(a.is_some().cmp(&b.is_some())),
        };
        let order = compare_options(ty, a, b, charge)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

fn compare_tuples<'t, E>(
    a: &[u8],
    b: &[u8],
    types: impl Iterator<Item = &'t CqlType>,
    charge: Charge<'_, E>,
) -> Result<Ordering, E> {
    if a.is_empty() || b.is_empty() {
        return Ok(b.is_empty().cmp(&a.is_empty()));
    }
    let (mut a, mut b) = (components(a), components(b));
    for ty in types {
        // Missing components are null.
        let a = a.next().and_then(Result::ok).flatten();
        let b = b.next().and_then(Result::ok).flatten();
        let order = compare_options(ty, a, b, charge)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// Compares two optional values. Null comes first.
fn compare_options<E>(
    ty: &CqlType,
    a: Option<&[u8]>,
    b: Option<&[u8]>,
    charge: Charge<'_, E>,
) -> Result<Ordering, E> {
    match (a, b) {
        (Some(a), Some(b)) => {
            charge(a.len().min(b.len()))?;
            ty.try_compare(a, b, charge)
        }
        (a, b) => Ok(a.is_some().cmp(&b.is_some())),
    }
}
