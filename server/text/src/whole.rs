//! Files that are read whole: scenarios, traces, schedules.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};

/// None is longer, in bytes: a trace of a year of seconds fits.
const BYTES_MAX: u64 = 1 << 30;

/// All of a text file.
///
/// # Errors
/// When it cannot be read, is no text, or is longer than a GiB (a device may have
/// no end); it names the file.
pub fn read_whole(path: &Path) -> Result<String> {
    read_up_to(path, BYTES_MAX).with_context(|| format!("cannot read {}", path.display()))
}

fn read_up_to(path: &Path, bytes_max: u64) -> io::Result<String> {
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
        assert_eq!(read_up_to(&path, 8).unwrap(), "12345678");
        let error = read_up_to(&path, 7).unwrap_err().to_string();
        assert!(error.contains("longer than 7 bytes"), "{error}");
    }
}
