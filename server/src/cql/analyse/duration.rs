//! Durations as CQL writes them: `1y2mo3d4h`, `P1Y2M3DT4H`, `P3W`, `P0001-02-03T04:05:06`.

use ebb_catalog::types::vint;

const NS_PER_US: i64 = 1000;
const NS_PER_MS: i64 = 1_000_000;
const NS_PER_SECOND: i64 = 1_000_000_000;
const NS_PER_MINUTE: i64 = 60 * NS_PER_SECOND;
const NS_PER_HOUR: i64 = 60 * NS_PER_MINUTE;

/// The parts that a duration has, none of which says how many of another it is.
#[derive(Default)]
struct Parts {
    months: i64,
    days: i64,
    nanos: i64,
}

impl Parts {
    fn add(&mut self, count: i64, unit: &str) -> Option<()> {
        let (part, factor) = match unit {
            "y" => (&mut self.months, 12),
            "mo" => (&mut self.months, 1),
            "w" => (&mut self.days, 7),
            "d" => (&mut self.days, 1),
            "h" => (&mut self.nanos, NS_PER_HOUR),
            "m" => (&mut self.nanos, NS_PER_MINUTE),
            "s" => (&mut self.nanos, NS_PER_SECOND),
            "ms" => (&mut self.nanos, NS_PER_MS),
            "us" | "µs" => (&mut self.nanos, NS_PER_US),
            "ns" => (&mut self.nanos, 1),
            _ => return None,
        };
        *part = part.checked_add(count.checked_mul(factor)?)?;
        Some(())
    }
}

/// The value of a duration; `None` where the text is none, or a part has no room.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let lower = text.to_lowercase();
    let (sign, body) = match lower.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, lower.as_str()),
    };
    let mut parts = Parts::default();
    match body.strip_prefix('p') {
        Some(iso) if iso.contains('-') => alternative(iso, &mut parts)?,
        Some(iso) => {
            let (date, clock) = iso.split_once('t').unwrap_or((iso, ""));
            units(
                date,
                &mut parts,
                |unit| if unit == "m" { "mo" } else { unit },
            )?;
            units(clock, &mut parts, |unit| unit)?;
            (!iso.is_empty()).then_some(())?;
        }
        None => {
            (!body.is_empty()).then_some(())?;
            units(body, &mut parts, |unit| unit)?;
        }
    }
    let mut out = Vec::new();
    for part in [
        i64::from(i32::try_from(parts.months).ok()?),
        i64::from(i32::try_from(parts.days).ok()?),
        parts.nanos,
    ] {
        vint::write_signed(sign * part, &mut out);
    }
    Some(out)
}

fn units(mut text: &str, parts: &mut Parts, name: impl Fn(&str) -> &str) -> Option<()> {
    while !text.is_empty() {
        let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
        let count = text[..unit_at].parse().ok()?;
        let rest = &text[unit_at..];
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        parts.add(count, name(&rest[..end]))?;
        text = &rest[end..];
    }
    Some(())
}

/// `0001-02-03t04:05:06`.
fn alternative(text: &str, parts: &mut Parts) -> Option<()> {
    let (date, clock) = text.split_once('t')?;
    let mut numbers = date.split('-').chain(clock.split(':'));
    for unit in ["y", "mo", "d", "h", "m", "s"] {
        parts.add(numbers.next()?.parse().ok()?, unit)?;
    }
    numbers.next().is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(months: i64, days: i64, nanos: i64) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [months, days, nanos] {
            vint::write_signed(part, &mut out);
        }
        out
    }

    #[test]
    fn durations_have_four_forms() {
        let hours = NS_PER_HOUR;
        assert_eq!(parse("1y2mo3w4d5h").unwrap(), duration(14, 25, 5 * hours));
        assert_eq!(parse("-1m2us").unwrap(), duration(0, 0, -60_000_002_000));
        assert_eq!(
            parse("P1Y2M3DT4H5S").unwrap(),
            duration(14, 3, 4 * hours + 5 * NS_PER_SECOND)
        );
        assert_eq!(parse("P3W").unwrap(), duration(0, 21, 0));
        assert_eq!(
            parse("P0001-02-03T04:00:00").unwrap(),
            duration(14, 3, 4 * hours)
        );
        for none in ["", "P", "1x", "h", "1", "99999999999y", "P1-2T3"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
