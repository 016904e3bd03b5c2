//! Sizes and times in settings. The errors show the expected form, which the errors of the
//! libraries' parsers do not.

use bytesize::ByteSize;
use humantime::Duration;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Parses `512MiB`, `2 GB` or bytes.
pub(super) fn size(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>();
    size.map_err(|_| format!("{text:?} is no size: expected one as in 512MiB or 2GB"))
}

/// Parses `500ms` or `1h 5m`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let time = text.parse::<Duration>();
    time.map_err(|_| format!("{text:?} is no time: expected one as in 500ms, 10s or 30days"))
}

/// Reads a size from a file of settings.
pub(super) fn read_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    size(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Reads an optional size that the file has. Serde does not call this for a size that the file
/// lacks.
pub(super) fn read_size_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ByteSize>, D::Error> {
    read_size(deserializer).map(Some)
}

/// Reads a time from a file of settings.
pub(super) fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    time(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_size_or_a_time_shows_the_form() {
        assert_eq!(size("512 MiB"), Ok(ByteSize::mib(512)));
        assert_eq!(time("1m 5s").unwrap().as_secs(), 65);
        for wrong in ["", "much", "-1", "1 parsec"] {
            let error = size(wrong).unwrap_err();
            assert!(error.contains("as in 512MiB"), "{wrong}: {error}");
            let error = time(wrong).unwrap_err();
            assert!(error.contains("as in 500ms"), "{wrong}: {error}");
        }
    }
}
