//! Conversions between `timestamp`, `date` and `timeuuid`, all by way of milliseconds since 1970.

use ebb_model::types::CqlType;

use super::printed::{DATE_EPOCH, MS_PER_DAY};
use super::{Function, uuids};
use crate::error::{Result, invalid};

const SECONDS_PER_DAY: i64 = 86_400;

/// Creates a function whose argument is a time: a `timestamp`, a `date` or a `timeuuid`. `then`
/// computes the result from the time in milliseconds since 1970. The result for a null or empty
/// argument is null.
pub fn of_ms(
    name: String,
    from: CqlType,
    returns: CqlType,
    then: impl Fn(i64) -> Result<Vec<u8>> + Send + Sync + 'static,
) -> Function {
    let ty = from.clone();
    Function::new(name, [from], returns, move |args, _| {
        let Some(bytes) = args[0].filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        then(ms_of(&ty, bytes)?).map(Some)
    })
}

/// Returns the time of a `timestamp`, a `date` or a `timeuuid`, in milliseconds since 1970.
///
/// # Errors
/// If `ty` is another type, or `bytes` has another length than values of `ty`.
pub fn ms_of(ty: &CqlType, bytes: &[u8]) -> Result<i64> {
    Ok(match (ty, bytes.len()) {
        (CqlType::Timeuuid, 16) => uuids::unix_ms(bytes.try_into().expect("16 bytes")),
        (CqlType::Timestamp, 8) => i64::from_be_bytes(bytes.try_into().expect("8 bytes")),
        (CqlType::Date, 4) => {
            let days = u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
            (i64::from(days) - DATE_EPOCH) * MS_PER_DAY
        }
        _ => return invalid(format!("{} bytes are no {ty}", bytes.len())),
    })
}

/// Returns the function, named `name`, that converts one type of time to another; `None` if there
/// is no such conversion.
pub fn of_times(name: String, from: &CqlType, to: &CqlType) -> Option<Function> {
    let is_from = matches!(from, CqlType::Timestamp | CqlType::Date | CqlType::Timeuuid);
    match to {
        CqlType::Timestamp if is_from => Some(of_ms(name, from.clone(), to.clone(), long)),
        CqlType::Date if is_from => Some(of_ms(name, from.clone(), to.clone(), date)),
        _ => None,
    }
}

/// Encodes milliseconds since 1970 as a `timestamp` or a `bigint`.
pub fn long(ms: i64) -> Result<Vec<u8>> {
    Ok(ms.to_be_bytes().to_vec())
}

/// Encodes milliseconds since 1970 as a `date`.
pub fn date(ms: i64) -> Result<Vec<u8>> {
    Ok(date_of_ms(ms))
}

/// Returns a time as a `date`, as Cassandra 4.1 computes it: the day is rounded towards 1970,
/// because Java's `Duration.toDays` rounds towards zero, and cut to 32 bits.
pub fn date_of_ms(ms: i64) -> Vec<u8> {
    let days = ms.div_euclid(1000) / SECONDS_PER_DAY + DATE_EPOCH;
    (days as u32).to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SimpleDateSerializer.timeInMillisToDay` rounds towards 1970 and keeps 32 bits.
    #[test]
    fn times_become_days_as_in_cassandra() {
        for (ms, day) in [
            (0, 1 << 31),
            (86_399_999, 1 << 31),
            (86_400_000, (1 << 31) + 1),
            (-1, 1 << 31),
            (-86_400_000, (1 << 31) - 1),
            (-86_400_001, (1 << 31) - 1),
            // 2^32 days are one turn.
            (86_400_000 << 32, 1_u32 << 31),
        ] {
            assert_eq!(date_of_ms(ms), day.to_be_bytes(), "{ms}");
        }
        // Both ends of the range must not overflow.
        date_of_ms(i64::MIN);
        date_of_ms(i64::MAX);
    }
}
