//! Durations of months, days and nanoseconds. The three are separate, because neither months nor
//! days have a fixed length.

use std::fmt;

use crate::types::{TypeError, vint};

/// A `duration`. The parts that are not zero have the same sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Duration {
    /// The years and months, in months.
    pub months: i32,
    /// The weeks and days, in days.
    pub days: i32,
    /// Hours and smaller units, in nanoseconds.
    pub nanos: i64,
}

/// The units in the order that a text must keep. Each has a symbol, a name, the part of a duration
/// that it belongs to, and its size in units of that part.
const UNITS: [(&str, &str, Part, i128); 10] = [
    ("y", "years", Part::Months, 12),
    ("mo", "months", Part::Months, 1),
    ("w", "weeks", Part::Days, 7),
    ("d", "days", Part::Days, 1),
    ("h", "hours", Part::Nanos, 3_600_000_000_000),
    ("m", "minutes", Part::Nanos, 60_000_000_000),
    ("s", "seconds", Part::Nanos, 1_000_000_000),
    ("ms", "milliseconds", Part::Nanos, 1_000_000),
    ("us", "microseconds", Part::Nanos, 1000),
    ("ns", "nanoseconds", Part::Nanos, 1),
];

#[derive(Clone, Copy)]
enum Part {
    Months,
    Days,
    Nanos,
}

impl Duration {
    /// Reads `1y2mo3w`, `-12h30m` and the forms of ISO 8601: `P1Y2M3DT4H`, `P3W`,
    /// `P0001-02-03T04:05:06`.
    ///
    /// # Errors
    /// Cassandra's messages: for a text that is no duration, repeated or misordered units, and
    /// amounts above the limits.
    pub fn parse(text: &str) -> Result<Self, TypeError> {
        let (negative, source) = match text.strip_prefix('-') {
            Some(source) => (true, source),
            None => (false, text),
        };
        let unable = || TypeError::new(format!("Unable to convert '{source}' to a duration"));
        let amounts = match source.strip_prefix('P') {
            Some(iso) if iso.contains('-') => alternative(iso),
            Some(iso) => designators(iso),
            None => standard(source),
        };
        let amounts = amounts.ok_or_else(unable)?;
        let mut parts = [0i128; 3];
        let mut last: Option<usize> = None;
        for (number, unit) in amounts {
            let name = |unit: usize| UNITS[unit].1;
            if last == Some(unit) {
                return Err(TypeError::new(format!(
                    "Invalid duration. The {} are specified multiple times",
                    name(unit)
                )));
            }
            if let Some(last) = last.filter(|&last| last > unit) {
                return Err(TypeError::new(format!(
                    "Invalid duration. The {} should be after {}",
                    name(last),
                    name(unit)
                )));
            }
            last = Some(unit);
            let (.., part, factor) = UNITS[unit];
            parts[part as usize] += i128::from(number) * factor;
        }
        let most = [i32::MAX.into(), i32::MAX.into(), i64::MAX.into()];
        for (i, name) in ["months", "days", "nanoseconds"].into_iter().enumerate() {
            if parts[i] > most[i] {
                // Cassandra names the limit of months and days for all three.
                return Err(TypeError::new(format!(
                    "Invalid duration. The total number of {name} must be less or equal to {}",
                    i32::MAX
                )));
            }
        }
        let sign = if negative { -1 } else { 1 };
        Ok(Self {
            months: sign * parts[0] as i32,
            days: sign * parts[1] as i32,
            nanos: i64::from(sign) * parts[2] as i64,
        })
    }

    /// Encodes the duration for the native protocol: three vints.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        vint::write_signed(self.months.into(), &mut out);
        vint::write_signed(self.days.into(), &mut out);
        vint::write_signed(self.nanos, &mut out);
        out
    }

    /// Decodes a duration of the native protocol; `None` if the bytes are not one.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let duration = Self {
            months: vint::read_signed(&mut bytes)?.try_into().ok()?,
            days: vint::read_signed(&mut bytes)?.try_into().ok()?,
            nanos: vint::read_signed(&mut bytes)?,
        };
        bytes.is_empty().then_some(duration)
    }
}

/// Prints the duration as CQL writes it, without weeks: `-1y2mo3d4h`. Zero is `0s`; Cassandra
/// prints nothing for it.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            u64::from(self.months.unsigned_abs()),
            u64::from(self.days.unsigned_abs()),
            self.nanos.unsigned_abs(),
        ];
        if parts == [0; 3] {
            return f.write_str("0s");
        }
        if self.months < 0 || self.days < 0 || self.nanos < 0 {
            f.write_str("-")?;
        }
        let mut left = parts;
        for (symbol, name, part, factor) in UNITS {
            let left = &mut left[part as usize];
            let number = *left / factor as u64;
            if number > 0 && name != "weeks" {
                *left -= number * factor as u64;
                write!(f, "{number}{symbol}")?;
            }
        }
        Ok(())
    }
}

type Amounts = Vec<(i64, usize)>;

fn number(text: &mut &str) -> Option<i64> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(len);
    *text = rest;
    number.parse().ok()
}

fn unit(name: &str) -> usize {
    let found = UNITS.iter().position(|(_, n, ..)| *n == name);
    found.expect("a unit of the table")
}

/// Parses `12h30m`, with symbols of either case.
fn standard(mut text: &str) -> Option<Amounts> {
    let mut amounts = Vec::new();
    loop {
        let number = number(&mut text)?;
        let len = text
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(text.len());
        let (symbol, rest) = text.split_at(len);
        let symbol = symbol.to_lowercase().replace('\u{b5}', "u");
        amounts.push((number, UNITS.iter().position(|(s, ..)| *s == symbol)?));
        text = rest;
        if text.is_empty() {
            return Some(amounts);
        }
    }
}

/// Parses the text after `P` in the form `1Y2M3DT4H5M6S` or `3W`.
fn designators(text: &str) -> Option<Amounts> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    let mut amounts = Vec::new();
    let date_units = [('Y', "years"), ('M', "months"), ('D', "days")];
    let time_units = [('H', "hours"), ('M', "minutes"), ('S', "seconds")];
    if let Some(mut weeks) = text.strip_suffix('W') {
        let number = number(&mut weeks)?;
        return weeks.is_empty().then(|| vec![(number, unit("weeks"))]);
    }
    for (mut rest, units) in [(date, date_units), (time, time_units)] {
        let mut units = units.into_iter();
        while !rest.is_empty() {
            let number = number(&mut rest)?;
            let symbol = rest.chars().next()?;
            // Each unit must come after the one before it in `units`.
            let (_, name) = units.find(|(s, _)| *s == symbol)?;
            amounts.push((number, unit(name)));
            rest = &rest[symbol.len_utf8()..];
        }
    }
    Some(amounts)
}

/// Parses the text after `P` in the form `0001-02-03T04:05:06`.
fn alternative(text: &str) -> Option<Amounts> {
    let names = ["years", "months", "days", "hours", "minutes", "seconds"];
    let lens = [4, 2, 2, 2, 2, 2];
    let separators = ["-", "-", "T", ":", ":", ""];
    let mut rest = text;
    let mut amounts = Vec::new();
    for ((name, len), separator) in names.into_iter().zip(lens).zip(separators) {
        let before = rest.len();
        let number = number(&mut rest)?;
        rest = rest.strip_prefix(separator)?;
        if before - rest.len() != len + separator.len() {
            return None;
        }
        amounts.push((number, unit(name)));
    }
    rest.is_empty().then_some(amounts)
}
