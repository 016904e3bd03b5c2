//! `floor(time, duration)` and `floor(time, duration, start)` as in Cassandra 4.1's `TimeFcts`: a
//! time is rounded down to a start plus a multiple of a duration. Without a start the multiples
//! count from 1970-01-01, those of a `time` from midnight.

#[cfg(test)]
mod tests;

use ebb_model::types::CqlType;
use ebb_model::types::literal::{Duration, add_months, date_of};

use super::printed::{DATE_EPOCH, MS_PER_DAY};
use super::{Function, times, uuids};
use crate::error::{Result, invalid};
use crate::interrupt;

const NANOS_PER_MS: i64 = 1_000_000;
const NANOS_PER_DAY: i64 = MS_PER_DAY * NANOS_PER_MS;

/// Returns the functions with the name `floor`, in the order of Cassandra's messages. `name` is the
/// name with its keyspace.
pub fn functions(name: &str) -> Vec<Function> {
    let kinds = [
        (CqlType::Timestamp, CqlType::Timestamp),
        (CqlType::Timeuuid, CqlType::Timestamp),
        (CqlType::Date, CqlType::Date),
    ];
    let mut all = Vec::new();
    for (from, to) in kinds {
        all.push(of_instant(name, vec![from.clone(), CqlType::Duration], &to));
        let args = vec![from, CqlType::Duration, to.clone()];
        all.push(of_instant(name, args, &to));
    }
    all.push(of_time(name));
    all
}

/// Creates the function `floor` for a `timestamp`, a `timeuuid` or a `date`. The optional third
/// argument, the start, has the type of the result, `to`.
fn of_instant(name: &str, args: Vec<CqlType>, to: &CqlType) -> Function {
    let (from, returns) = (args[0].clone(), to.clone());
    let floor = Function::new(name, args, to.clone(), move |args, _| {
        let Some(values) = given(args) else {
            return Ok(None);
        };
        let time_ms = ms_of(&from, values[0])?;
        let duration = duration_of(values[1])?;
        let start_ms = match values.get(2) {
            Some(start) => ms_of(&returns, start)?,
            None => 0,
        };
        check_precision(&returns, duration)?;
        let floor = floor_ms(time_ms, duration, start_ms)?;
        write_ms(floor, &returns).map(Some)
    });
    floor.monotonic()
}

/// Creates the function `floor` for a `time`.
fn of_time(name: &str) -> Function {
    let args = [CqlType::Time, CqlType::Duration];
    let floor = Function::new(name, args, CqlType::Time, |args, _| {
        let Some(values) = given(args) else {
            return Ok(None);
        };
        let Ok(time) = <[u8; 8]>::try_from(values[0]) else {
            return invalid(format!("{} bytes are no time", values[0].len()));
        };
        let duration = duration_of(values[1])?;
        let floor = floor_of_day_ns(i64::from_be_bytes(time), duration)?;
        Ok(Some(floor.to_be_bytes().to_vec()))
    });
    floor.monotonic()
}

/// Returns the arguments of a call; `None` if one of them is null or empty, because the result is
/// null then.
fn given<'a>(args: &[Option<&'a [u8]>]) -> Option<Vec<&'a [u8]>> {
    let args = args.iter();
    args.map(|arg| arg.filter(|bytes| !bytes.is_empty()))
        .collect()
}

/// Returns the milliseconds since 1970 of a time. A fraction of a millisecond is rounded down, also
/// before 1970, where [`uuids::unix_ms`] rounds up.
fn ms_of(ty: &CqlType, bytes: &[u8]) -> Result<i64> {
    match (ty, <&[u8; 16]>::try_from(bytes)) {
        (CqlType::Timeuuid, Ok(uuid)) => Ok(uuids::unix_ms_floor(uuid)),
        _ => times::ms_of(ty, bytes),
    }
}

fn duration_of(bytes: &[u8]) -> Result<Duration> {
    match Duration::from_bytes(bytes) {
        Some(duration) => Ok(duration),
        None => invalid(format!("{} bytes are no duration", bytes.len())),
    }
}

/// Checks that a duration has no part that is smaller than the unit of the result.
fn check_precision(returns: &CqlType, duration: Duration) -> Result<()> {
    let is_date = *returns == CqlType::Date;
    if is_date && duration.nanos != 0 {
        return invalid(format!(
            "The floor on date values cannot be computed for the {duration} duration as precision \
             is below 1 day"
        ));
    }
    if !is_date && duration.nanos % NANOS_PER_MS != 0 {
        return invalid(format!(
            "The floor cannot be computed for the {duration} duration as precision is below 1 \
             millisecond"
        ));
    }
    Ok(())
}

fn check_not_negative(duration: Duration) -> Result<()> {
    if duration.months < 0 || duration.days < 0 || duration.nanos < 0 {
        return invalid("Negative durations are not supported by the floor function");
    }
    Ok(())
}

/// Rounds a time of day, in nanoseconds, down to a multiple of a duration.
fn floor_of_day_ns(time_ns: i64, duration: Duration) -> Result<i64> {
    check_not_negative(duration)?;
    if duration.months != 0 || duration.days != 0 || duration.nanos > NANOS_PER_DAY {
        return invalid(
            "For time values, the floor can only be computed for durations smaller that a day",
        );
    }
    if duration.nanos == 0 {
        return Ok(time_ns);
    }
    Ok(time_ns - time_ns % duration.nanos)
}

/// Rounds a time down to `start_ms` plus a multiple of a duration; all times are in milliseconds
/// since 1970.
///
/// The result is Cassandra's, also where a month is too short for the day of the start. Cassandra
/// counts the months from the start to the time without regard to the days of the two. If the
/// duration consists of months alone, and the time is earlier in its month than the start is in its
/// own, the result may be later than the time.
///
/// If the duration also has days or smaller units, Cassandra reduces the multiple step by step,
/// until the result is not later than the time. Each step goes back by the months of the duration,
/// from the day that the previous step reached. If the month that a step reaches lacks this day,
/// the step reaches the last day of the month. The further steps then begin from this earlier day.
fn floor_ms(time_ms: i64, duration: Duration, start_ms: i64) -> Result<i64> {
    if start_ms > time_ms {
        return invalid("The floor function starting time is greater than the provided time");
    }
    check_not_negative(duration)?;
    // The duration without its months.
    let rest_ms = i64::from(duration.days) * MS_PER_DAY + duration.nanos / NANOS_PER_MS;
    let months = i64::from(duration.months);
    if months == 0 {
        if rest_ms == 0 {
            return Ok(time_ms);
        }
        // In 128 bits, because the two times may be the ends of their range. The remainder is less
        // than `rest_ms`.
        let since_start = i128::from(time_ms) - i128::from(start_ms);
        return Ok(time_ms - (since_start % i128::from(rest_ms)) as i64);
    }
    let mut count = (month_of(time_ms) - month_of(start_ms)) / months;
    let mut day = add_months(start_ms.div_euclid(MS_PER_DAY), count * months);
    let of_day_ms = i128::from(start_ms.rem_euclid(MS_PER_DAY));
    let at = |day: i64, count: i64| {
        i128::from(day) * i128::from(MS_PER_DAY)
            + of_day_ms
            + i128::from(count) * i128::from(rest_ms)
    };
    if rest_ms > 0 {
        // Ends at a count of 0 at the latest, which gives a time that is not after the start.
        while at(day, count) > i128::from(time_ms) {
            interrupt::charge(1)?;
            count -= 1;
            day = add_months(day, -months);
        }
    }
    match i64::try_from(at(day, count)) {
        Ok(floor) => Ok(floor.max(start_ms)),
        Err(_) => after_all_times(),
    }
}

/// Returns the month of a time, counted from the beginning of the year 0.
fn month_of(ms: i64) -> i64 {
    let (year, month, _) = date_of(ms.div_euclid(MS_PER_DAY));
    year * 12 + month - 1
}

/// Encodes a time in milliseconds since 1970 as a `timestamp` or a `date`.
fn write_ms(ms: i64, ty: &CqlType) -> Result<Vec<u8>> {
    if *ty != CqlType::Date {
        return Ok(ms.to_be_bytes().to_vec());
    }
    match u32::try_from(ms.div_euclid(MS_PER_DAY) + DATE_EPOCH) {
        Ok(day) => Ok(day.to_be_bytes().to_vec()),
        Err(_) => after_all_times(),
    }
}

/// Returns the error for a floor that is later than the time ([`floor_ms`]) and out of range.
fn after_all_times<T>() -> Result<T> {
    invalid("The floor is out of range; choose a start that is earlier in its month")
}
