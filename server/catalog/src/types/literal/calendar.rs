//! Dates, times of day and moments, over the whole range of their types: a `date` reaches
//! five million years to either side, a `timestamp` 292 million, more than calendar libraries
//! know. The calendar is the proleptic Gregorian one, the zone UTC unless the text says one.

use crate::types::TypeError;

const DAY_MS: i64 = 86_400_000;
/// Nanoseconds of a day.
pub(super) const DAY_NS: i64 = DAY_MS * 1_000_000;
/// What a `date` of 1970-01-01 is: days are unsigned, with the epoch in the middle.
const EPOCH: i64 = 1 << 31;

/// Days since 1970-01-01 of a date, by 400-year eras that begin in March.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    146_097 * era + day_of_era - 719_468
}

/// Year, month and day of days since 1970-01-01.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + i64::from(month <= 2), month, day)
}

/// A day so many months later, or earlier, both in days since 1970-01-01. Where that month is
/// too short it is its last day.
pub fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = date_of(days);
    let month = year * 12 + (month - 1) + months;
    let first_of = |month: i64| days_of(month.div_euclid(12), month.rem_euclid(12) + 1, 1);
    let len = first_of(month + 1) - first_of(month);
    first_of(month) + day.min(len) - 1
}

/// Digits off the front, between `least` and `most` of them.
fn digits(text: &mut &str, least: usize, most: usize) -> Option<i64> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    if len < least || len > most {
        return None;
    }
    let (number, rest) = text.split_at(len);
    *text = rest;
    number.parse().ok()
}

fn take(text: &mut &str, symbol: char) -> Option<()> {
    *text = text.strip_prefix(symbol)?;
    Some(())
}

/// Days since 1970 off the front: `yyyy-mm-dd`, longer years with a sign.
fn take_date(text: &mut &str) -> Option<i64> {
    let negative = take(text, '-').is_some();
    let signed = negative || take(text, '+').is_some();
    let year = digits(text, 4, if signed { 9 } else { 4 })?;
    let year = if negative { -year } else { year };
    take(text, '-')?;
    let month = digits(text, 1, 2)?;
    take(text, '-')?;
    let day = digits(text, 1, 2)?;
    let days = days_of(year, month, day);
    // A day that its month lacks comes back as another.
    ((1..=12).contains(&month) && date_of(days) == (year, month, day)).then_some(days)
}

/// Nanoseconds since midnight off the front: `hh:mm`, seconds where `seconds` or there.
fn take_time(text: &mut &str, seconds_needed: bool) -> Option<i64> {
    let hours = digits(text, 1, 2).filter(|&h| h < 24)?;
    take(text, ':')?;
    let minutes = digits(text, 1, 2).filter(|&m| m < 60)?;
    let mut nanos = (hours * 60 + minutes) * 60 * 1_000_000_000;
    if take(text, ':').is_none() {
        return (!seconds_needed).then_some(nanos);
    }
    nanos += digits(text, 1, 2).filter(|&s| s < 60)? * 1_000_000_000;
    if take(text, '.').is_some() {
        let before = text.len();
        let fraction = digits(text, 1, 9)?;
        nanos += fraction * 10i64.pow(9 - (before - text.len()) as u32);
    }
    Some(nanos)
}

/// The zone's distance from UTC in milliseconds, all of the text: `Z`, `UTC`, `+02:00`.
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

/// A `date`, written as one or as its number.
pub(super) fn parse_date(text: &str) -> Result<u32, TypeError> {
    let unable = || {
        TypeError::new(format!(
            "Unable to coerce '{text}' to a formatted date (long)"
        ))
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| unable());
    }
    let mut rest = text;
    let days = take_date(&mut rest).filter(|_| rest.is_empty());
    days.and_then(|days| u32::try_from(days + EPOCH).ok())
        .ok_or_else(unable)
}

/// A `time`, written as one or as nanoseconds since midnight.
pub(super) fn parse_time(text: &str) -> Result<i64, TypeError> {
    let unable = || {
        TypeError::new(format!(
            "Unable to coerce '{text}' to a formatted time (long)"
        ))
    };
    let nanos = if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        let mut rest = text;
        take_time(&mut rest, true).filter(|_| rest.is_empty())
    };
    nanos.filter(|n| (0..DAY_NS).contains(n)).ok_or_else(unable)
}

/// A `timestamp`, written as milliseconds since 1970, or as a date with or without time and
/// zone. A fraction of a second is cut to milliseconds.
pub(super) fn parse_timestamp(text: &str) -> Result<i64, TypeError> {
    let number = text.strip_prefix('-').unwrap_or(text);
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return text
            .parse()
            .map_err(|_| TypeError::new(format!("Unable to make long (for date) from: '{text}'")));
    }
    take_moment(text).ok_or_else(|| {
        TypeError::new(format!(
            "Unable to coerce '{text}' to a formatted date (long)"
        ))
    })
}

fn take_moment(text: &str) -> Option<i64> {
    let mut rest = text;
    let days = take_date(&mut rest)?;
    let mut nanos = 0;
    let time = rest.strip_prefix(['T', ' ']).unwrap_or("");
    if time.starts_with(|c: char| c.is_ascii_digit()) {
        rest = time;
        nanos = take_time(&mut rest, false)?;
    }
    let ms = days.checked_mul(DAY_MS)?.checked_add(nanos / 1_000_000)?;
    ms.checked_sub(zone(rest)?)
}

/// A `date` as a literal: quoted, or its number where the year has not four digits.
pub(super) fn print_date(date: u32) -> String {
    match date_of(i64::from(date) - EPOCH) {
        (year @ 0..=9999, month, day) => format!("'{year:04}-{month:02}-{day:02}'"),
        _ => date.to_string(),
    }
}

/// A `time` as a literal.
pub(super) fn print_time(nanos: i64) -> String {
    if !(0..DAY_NS).contains(&nanos) {
        return nanos.to_string();
    }
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("'{hours:02}:{minutes:02}:{:02}.{nanos:09}'", seconds % 60)
}

/// A `timestamp` as a literal: quoted, or milliseconds where the year has not four digits.
pub(super) fn print_timestamp(ms: i64) -> String {
    let of_day = ms.rem_euclid(DAY_MS);
    match date_of(ms.div_euclid(DAY_MS)) {
        (year @ 0..=9999, month, day) => format!(
            "'{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03}+0000'",
            of_day / 3_600_000,
            of_day / 60_000 % 60,
            of_day / 1000 % 60,
            of_day % 1000
        ),
        _ => ms.to_string(),
    }
}
