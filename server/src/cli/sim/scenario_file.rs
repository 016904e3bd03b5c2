//! A scenario on the disk, and what lies beside it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};
use ebb_scheduler::sim::scenario::Scenario;

/// A scenario is not larger, in bytes, nor is a trace: a year of seconds fits.
const BYTES_MAX: u64 = 1 << 30;

/// Reads a scenario; files that it names lie beside it.
///
/// # Errors
/// When one cannot be read or is too large, or it is no scenario.
pub(super) fn read(path: &Path) -> Result<Scenario> {
    let text =
        read_text(path, BYTES_MAX).with_context(|| format!("cannot read {}", path.display()))?;
    let beside = |name: &str| {
        let path = path.parent().unwrap_or(Path::new("")).join(name);
        read_text(&path, BYTES_MAX)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let scenario = Scenario::parse_with(&path.display().to_string(), &text, &beside)?;
    Ok(scenario)
}

/// All of a file, unless it is longer than that: a device may have no end.
fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(bytes_max + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let message = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.toml");
        std::fs::write(&path, "12345678").unwrap();
        assert_eq!(read_text(&path, 8).unwrap(), "12345678");
        let error = read_text(&path, 7).unwrap_err().to_string();
        assert!(error.contains("longer than 7 bytes"), "{error}");
    }
}
