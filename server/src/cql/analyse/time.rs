//! Dates and times as CQL writes them.

use crate::cql::error::{Result, invalid};

const MS_PER_DAY: i64 = 86_400_000;
const NS_PER_SECOND: i64 = 1_000_000_000;
/// What a `date` counts from: its days are unsigned, with 1970 in the middle.
const DATE_EPOCH: i64 = 1 << 31;

/// Days from 1970 to a day of the Gregorian calendar, which is taken to have been there
/// always. Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of days since 1970: the way back.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// A `date` from `yyyy-mm-dd`, or from its number as it is stored.
///
/// # Errors
/// In Cassandra's words.
pub fn date(text: &str) -> Result<u32> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<i64>().ok().and_then(|n| u32::try_from(n).ok()) {
            Some(days) => Ok(days),
            None => invalid(format!("Input out of bounds for unsigned int: {text}")),
        };
    }
    let days = parse_day(text).map(|days| days + DATE_EPOCH);
    match days.and_then(|days| u32::try_from(days).ok()) {
        Some(days) => Ok(days),
        None => invalid(format!(
            "Unable to coerce '{text}' to a formatted date (long)"
        )),
    }
}

/// Milliseconds since 1970 of `yyyy-mm-dd[( |T)hh:mm[:ss[.fff]]][zone]`; UTC where no zone
/// is named.
pub fn timestamp_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    // A day has at least ten letters; a sign before the year is part of it.
    let day_end = text
        .get(1..)?
        .find([' ', 'T', 'Z', '+'])
        .map_or(text.len(), |at| at + 1);
    // Only a zone may follow a third dash.
    let dashes = text[..day_end].match_indices('-').filter(|(at, _)| *at > 0);
    let day_end = dashes.map(|(at, _)| at).nth(2).unwrap_or(day_end);
    let days = parse_day(&text[..day_end])?;
    let rest = &text[day_end..];
    let (clock, zone) = match rest.strip_prefix([' ', 'T']) {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            let end = rest
                .find(['Z', '+', '-', ' ', 'U', 'G'])
                .unwrap_or(rest.len());
            (Some(&rest[..end]), rest[end..].trim())
        }
        _ => (None, rest.trim()),
    };
    let of_day_ns = match clock {
        Some(clock) => parse_clock(clock)?,
        None => 0,
    };
    let offset_ms = parse_zone_minutes(zone)? * 60_000;
    let ms = days.checked_mul(MS_PER_DAY)?;
    ms.checked_add(of_day_ns / 1_000_000)?
        .checked_sub(offset_ms)
}

/// Nanoseconds of the day, from `hh:mm:ss[.fffffffff]` or from their number.
pub fn time_ns(text: &str) -> Option<i64> {
    let day_ns = 86_400 * NS_PER_SECOND;
    match text.parse::<i64>() {
        Ok(ns) => (0..day_ns).contains(&ns).then_some(ns),
        Err(_) if text.matches(':').count() == 2 => parse_clock(text),
        Err(_) => None,
    }
}

fn digits(text: &str, len: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let is_number = len.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn parse_day(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let year = sign * digits(year, 1..=7)?;
    let (month, day) = (digits(month, 1..=2)?, digits(day, 1..=2)?);
    let days = days_from_civil(year, month, day);
    // A day that a month does not have comes back as one of the next.
    ((1..=12).contains(&month) && civil_from_days(days) == (year, month, day)).then_some(days)
}

fn parse_clock(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').map_or((text, ""), |(c, f)| (c, f));
    let mut parts = clock.split(':');
    let hours = digits(parts.next()?, 1..=2).filter(|h| *h < 24)?;
    let minutes = digits(parts.next()?, 1..=2).filter(|m| *m < 60)?;
    let seconds = match parts.next() {
        Some(seconds) => digits(seconds, 1..=2).filter(|s| *s < 60)?,
        None if text.contains('.') => return None,
        None => 0,
    };
    if parts.next().is_some() || text.ends_with('.') {
        return None;
    }
    let ns = match fraction.len() {
        0 => 0,
        len => digits(fraction, 1..=9)? * 10_i64.pow(9 - len as u32),
    };
    Some((hours * 3600 + minutes * 60 + seconds) * NS_PER_SECOND + ns)
}

fn parse_zone_minutes(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "UTC" | "GMT") {
        return Some(0);
    }
    let sign = match zone.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = match zone[1..].split_once(':') {
        Some(parts) => parts,
        None if zone.len() == 5 => zone[1..].split_at_checked(2)?,
        None => (&zone[1..], "00"),
    };
    let hours = digits(hours, 2..=2).filter(|h| *h < 24)?;
    let minutes = digits(minutes, 2..=2).filter(|m| *m < 60)?;
    Some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_go_both_ways() {
        assert_eq!(days_from_civil(2000, 3, 1), 11_017);
        for days in [-719_468, -1, 0, 59, 11_016, 20_000, 2_932_896, -2_000_000] {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn timestamps_have_many_forms() {
        let forms = [
            "2011-02-03 04:05+0000",
            "2011-02-03T04:05:00Z",
            "2011-02-03 04:05:00.000",
            "2011-02-03 05:05:00+01:00",
            "2011-02-03T03:05:00.000-0100",
            "2011-02-03 04:05 UTC",
        ];
        for form in forms {
            assert_eq!(timestamp_ms(form), Some(1_296_705_900_000), "{form}");
        }
        assert_eq!(timestamp_ms("2011-02-03"), Some(1_296_691_200_000));
        assert_eq!(timestamp_ms("2011-02-03+0000"), Some(1_296_691_200_000));
        for none in [
            "",
            "x",
            "2011-02-30",
            "2011-13-01",
            "2011-02-03 25:00",
            "2011-02",
            "é",
        ] {
            assert_eq!(timestamp_ms(none), None, "{none}");
        }
    }

    #[test]
    fn times_are_nanoseconds_of_the_day() {
        assert_eq!(time_ns("08:12:54.123"), Some(29_574_123_000_000));
        assert_eq!(time_ns("24:00:00"), None);
        assert_eq!(time_ns("-1"), None);
    }
}
