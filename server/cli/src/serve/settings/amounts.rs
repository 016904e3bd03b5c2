//! Sizes and times in settings. The errors show the expected form, which the errors of the
//! libraries' parsers do not.

use std::fmt;

use bytesize::ByteSize;
use humantime::Duration;
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// The units of sizes in files of settings, the largest first.
const UNITS: [(&str, u64); 4] = [
    ("TiB", bytesize::TIB),
    ("GiB", bytesize::GIB),
    ("MiB", bytesize::MIB),
    ("KiB", bytesize::KIB),
];

/// Parses `512MiB`, `2 GB` or bytes.
pub(super) fn size(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>();
    size.map_err(|_| format!("{text:?} is no size: expected one as in 512MiB or 2GB"))
}

/// Parses `500ms` or `1h 5m`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    crate::time::parse(text).map(Duration::from)
}

/// Reads a size from a file of settings.
pub(super) fn read_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    deserializer.deserialize_str(Quoted {
        form: "a size in quotes, as in \"512MiB\"",
        parse: size,
    })
}

/// Reads an optional size that the file has. Serde does not call this for a size that the file
/// lacks.
pub(super) fn read_size_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ByteSize>, D::Error> {
    read_size(deserializer).map(Some)
}

/// Writes a size into a file of settings, in the largest unit of which it is a multiple: the same number of bytes
/// is read again. The text that [`ByteSize`] itself makes is rounded to one decimal place.
pub(super) fn write_size<S: Serializer>(
    value: &ByteSize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let bytes = value.as_u64();
    let unit = UNITS
        .into_iter()
        .find(|(_, of)| bytes > 0 && bytes.is_multiple_of(*of));
    let (unit, of) = unit.unwrap_or(("B", 1));
    serializer.collect_str(&format_args!("{} {unit}", bytes / of))
}

/// Writes an optional size into a file of settings.
pub(super) fn write_size_if_any<S: Serializer>(
    value: &Option<ByteSize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => write_size(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Reads a time from a file of settings.
pub(super) fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(Quoted {
        form: "a time with a unit and in quotes, as in \"30s\"",
        parse: time,
    })
}

/// The reader of a size or a time in a file of settings. Its error for a number without quotes names the form.
struct Quoted<T> {
    /// The expected form, with an example.
    form: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Quoted<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_size_is_read_again_exactly() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (100_001, "100001 B"),
            (64 << 10, "64 KiB"),
            (1500 << 20, "1500 MiB"),
            (3 << 30, "3 GiB"),
            (2 << 40, "2 TiB"),
            (u64::MAX, "18446744073709551615 B"),
        ] {
            let written = write_size(&ByteSize(bytes), serde_json::value::Serializer);
            assert_eq!(written.unwrap(), text);
            assert_eq!(size(text), Ok(ByteSize(bytes)));
        }
    }

    #[test]
    fn the_error_of_a_size_or_a_time_shows_the_form() {
        assert_eq!(size("512 MiB"), Ok(ByteSize::mib(512)));
        assert_eq!(time("1m 5s").unwrap().as_secs(), 65);
        for wrong in ["", "much", "-1", "1 parsec"] {
            let error = size(wrong).unwrap_err();
            assert!(error.contains("as in 512MiB"), "{wrong}: {error}");
            let error = time(wrong).unwrap_err();
            assert!(error.contains("as in 30s"), "{wrong}: {error}");
        }
        assert!(time("90").unwrap_err().contains("write 90s"));
    }
}
