//! Dates, times of day and timestamps, over the whole range of their types: a `date` reaches five
//! million years to either side, a `timestamp` 292 million, more than calendar libraries support.
//! The calendar is the proleptic Gregorian one, the zone UTC unless the text names another.

use crate::types::TypeError;

const DAY_MS: i64 = 86_400_000;
/// Nanoseconds of a day.
pub(super) const DAY_NS: i64 = DAY_MS * 1_000_000;
/// The `date` of 1970-01-01: days are unsigned, with the epoch in the middle.
const EPOCH: i64 = 1 << 31;

/// Returns the days since 1970-01-01 of a date. Computes with eras of 400 years that begin in
/// March, so that leap days are the last days of their years.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    146_097 * era + day_of_era - 719_468
}

/// Returns year, month and day from days since 1970-01-01.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + i64::from(month <= 2), month, day)
}

/// Adds `months`, which may be negative, to a date in days since 1970-01-01. A day that the
/// resulting month lacks becomes its last day.
pub fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = date_of(days);
    let month = year * 12 + (month - 1) + months;
    let first_of = |month: i64| days_of(month.div_euclid(12), month.rem_euclid(12) + 1, 1);
    let len = first_of(month + 1) - first_of(month);
    first_of(month) + day.min(len) - 1
}

/// Takes the digits at the front of `text` off, and returns the number that they form; `None` if
/// there are fewer than `least` or more than `most` of them. If `least` is 0, no digits are needed,
/// and the number without digits is 0.
fn digits(text: &mut &str, least: usize, most: usize) -> Option<i64> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    if len < least || len > most {
        return None;
    }
    let (number, rest) = text.split_at(len);
    *text = rest;
    match number {
        "" => Some(0),
        number => number.parse().ok(),
    }
}

fn take(text: &mut &str, symbol: char) -> Option<()> {
    *text = text.strip_prefix(symbol)?;
    Some(())
}

/// Takes a date in the form of ISO 8601 off the front: `yyyy-mm-dd`. Years of five to ten digits
/// have a sign, and those before the year 0 a minus sign.
fn take_iso_date(text: &mut &str) -> Option<(i64, i64, i64)> {
    let is_negative = take(text, '-').is_some();
    let has_plus = !is_negative && take(text, '+').is_some();
    let before = text.len();
    let year = digits(text, 4, 10)?;
    let is_long = before - text.len() > 4;
    if (!is_negative && has_plus != is_long) || (is_negative && year == 0) {
        return None;
    }
    take(text, '-')?;
    let month = digits(text, 2, 2)?;
    take(text, '-')?;
    let day = digits(text, 2, 2)?;
    Some((if is_negative { -year } else { year }, month, day))
}

/// Takes the date of a date and time off the front: `y-m-d`, where each part has one to nine digits
/// and the year is at least 1.
fn take_short_date(text: &mut &str) -> Option<(i64, i64, i64)> {
    let year = digits(text, 1, 9).filter(|&year| year > 0)?;
    take(text, '-')?;
    let month = digits(text, 1, 9)?;
    take(text, '-')?;
    Some((year, month, digits(text, 1, 9)?))
}

/// Returns the days since 1970-01-01 of a date; `None` if the date does not exist.
fn strict_days_of((year, month, day): (i64, i64, i64)) -> Option<i64> {
    let days = days_of(year, month, day);
    // A day that the month lacks maps to a day of the next month.
    ((1..=12).contains(&month) && date_of(days) == (year, month, day)).then_some(days)
}

/// Returns the days since 1970-01-01 of a date. Days up to 31 that a month lacks become its last
/// day. `None` if the month is not from 1 to 12 or the day not from 1 to 31.
fn smart_days_of((year, month, day): (i64, i64, i64)) -> Option<i64> {
    let day = Some(day).filter(|day| (1..=31).contains(day))?;
    (28..=day.max(28))
        .rev()
        .find_map(|last| strict_days_of((year, month, day.min(last))))
}

/// Takes a time of day off the front, as nanoseconds since midnight: `hh:mm`, perhaps with seconds
/// and a fraction of them; 24:00 is the end of the day.
fn take_time(text: &mut &str) -> Option<i64> {
    let hours = digits(text, 1, 9).filter(|&h| h <= 24)?;
    take(text, ':')?;
    let minutes = digits(text, 1, 9).filter(|&m| m < 60)?;
    let (mut seconds, mut fraction) = (0, 0);
    if take(text, ':').is_some() {
        seconds = digits(text, 1, 9).filter(|&s| s < 60)?;
        if take(text, '.').is_some() {
            let before = text.len();
            fraction = digits(text, 0, 9)?;
            fraction *= 10i64.pow(9 - (before - text.len()) as u32);
        }
    }
    let nanos = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction;
    (hours < 24 || nanos == DAY_NS).then_some(nanos)
}

/// Parses all of `text` as a zone, and returns the offset from UTC in milliseconds. A zone is `Z`,
/// `UTC`, `GMT`, an offset such as `+02:00`, `+0200` or `+02`, or both. An empty text is UTC.
fn zone(text: &str) -> Option<i64> {
    let mut rest = text.trim_start_matches(' ');
    for name in ["UTC", "GMT", "Z", "z"] {
        if let Some(after) = rest.strip_prefix(name) {
            rest = after;
            break;
        }
    }
    if rest.is_empty() {
        return Some(0);
    }
    let sign = match take(&mut rest, '+') {
        Some(()) => 1,
        None => take(&mut rest, '-').map(|()| -1)?,
    };
    let numbers = rest.replacen(':', "", 1);
    if !numbers.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = match numbers.len() {
        2 => (numbers.parse::<i64>().ok()?, 0),
        4 => (
            numbers.get(..2)?.parse().ok()?,
            numbers.get(2..)?.parse().ok()?,
        ),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Returns whether a date or time is written as a number: digits, perhaps with a minus sign.
fn is_number(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or(text);
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Parses a `date`: `yyyy-mm-dd`, or the number of the day, where 2^31 is 1970-01-01.
pub(super) fn parse_date(text: &str) -> Result<u32, TypeError> {
    let refuse = |message: String| Err(TypeError::new(message));
    if is_number(text) {
        return text.parse().or_else(|_| {
            refuse(format!(
                "Unable to make unsigned int (for date) from: '{text}'"
            ))
        });
    }
    let mut rest = text;
    let date = take_iso_date(&mut rest).filter(|_| rest.is_empty());
    // As in Java, the milliseconds of the date must fit in 64 bits.
    let days = date
        .and_then(strict_days_of)
        .filter(|days| days.checked_mul(DAY_MS).is_some());
    let Some(days) = days else {
        return refuse(format!(
            "Unable to coerce '{text}' to a formatted date (long)"
        ));
    };
    match u32::try_from(days + EPOCH) {
        Ok(date) => Ok(date),
        Err(_) if days < 0 => refuse(format!(
            "Input date {text} is less than min supported date -5877641-06-23T00:00Z"
        )),
        Err(_) => refuse(format!(
            "Input date {text} is greater than max supported date +5881580-07-11T00:00Z"
        )),
    }
}

/// Parses a `time`: `hh:mm:ss`, perhaps with a fraction of a second, or nanoseconds since midnight.
pub(super) fn parse_time(text: &str) -> Result<i64, TypeError> {
    let (nanos, refusal) = if is_number(text) {
        let refusal = format!("Unable to make long (for time) from: '{text}'");
        (text.parse().ok(), refusal)
    } else {
        let refusal = format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)");
        (strict_time(text.trim_matches(|c: char| c <= ' ')), refusal)
    };
    nanos
        .filter(|n| (0..DAY_NS).contains(n))
        .ok_or_else(|| TypeError::new(refusal))
}

/// Returns the nanoseconds since midnight of `hh:mm:ss`, perhaps with a fraction of a second. Each
/// number is in the form that Java's `parseInt` accepts.
fn strict_time(text: &str) -> Option<i64> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, fraction) = match rest.split_once('.') {
        Some((seconds, fraction)) => (seconds, fraction),
        None => (rest, "0"),
    };
    let number = |text: &str, end: i32| {
        let number = text.parse::<i32>().ok();
        number.filter(|n| (0..end).contains(n)).map(i64::from)
    };
    let (hours, minutes) = (number(hours, 24)?, number(minutes, 60)?);
    let seconds = number(seconds, 60)?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) || !(1..=9).contains(&fraction.len()) {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction)
}

/// Parses a `timestamp`: milliseconds since 1970, or a date with or without time and zone. Digits
/// of a second beyond milliseconds are cut off. (Cassandra's `now` and zones with other names than
/// UTC and GMT are not supported.)
pub(super) fn parse_timestamp(text: &str) -> Result<i64, TypeError> {
    if is_number(text) {
        return text
            .parse()
            .map_err(|_| TypeError::new(format!("Unable to make long (for date) from: '{text}'")));
    }
    let moment = take_moment(text);
    moment.ok_or_else(|| TypeError::new(format!("Unable to parse a date/time from '{text}'")))
}

fn take_moment(text: &str) -> Option<i64> {
    let mut rest = text;
    if let Some(days) = take_short_date(&mut rest).and_then(smart_days_of)
        && let Some(time) = rest.strip_prefix(['T', ' '])
        && time.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = time;
        let nanos = take_time(&mut rest)?;
        return at(days, nanos, rest);
    }
    rest = text;
    let days = take_iso_date(&mut rest).and_then(smart_days_of)?;
    at(days, 0, rest)
}

/// Returns a time in milliseconds since 1970-01-01 UTC. `days` are the days since then, `nanos` is
/// the time of day in nanoseconds, and `zone_text` is the text of the zone. `None` if the text is
/// no zone, or if the result does not fit into 64 bits.
fn at(days: i64, nanos: i64, zone_text: &str) -> Option<i64> {
    let ms = days.checked_mul(DAY_MS)?.checked_add(nanos / 1_000_000)?;
    ms.checked_sub(zone(zone_text)?)
}

/// Prints a `date` as a literal: quoted, or as a number if the year is not from 0 to 9999.
pub(super) fn print_date(date: u32) -> String {
    match date_of(i64::from(date) - EPOCH) {
        (year @ 0..=9999, month, day) => format!("'{year:04}-{month:02}-{day:02}'"),
        _ => date.to_string(),
    }
}

/// Prints a `time` as a literal: quoted, or in nanoseconds if it is not within a day.
pub(super) fn print_time(nanos: i64) -> String {
    if !(0..DAY_NS).contains(&nanos) {
        return nanos.to_string();
    }
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("'{hours:02}:{minutes:02}:{:02}.{nanos:09}'", seconds % 60)
}

/// Prints a `timestamp` as a literal: quoted, or in milliseconds if the year is not from 1 to 9999.
pub(super) fn print_timestamp(ms: i64) -> String {
    let of_day = ms.rem_euclid(DAY_MS);
    match date_of(ms.div_euclid(DAY_MS)) {
        (year @ 1..=9999, month, day) => format!(
            "'{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03}+0000'",
            of_day / 3_600_000,
            of_day / 60_000 % 60,
            of_day / 1000 % 60,
            of_day % 1000
        ),
        _ => ms.to_string(),
    }
}
