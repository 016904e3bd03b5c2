//! Reads whole files: scenarios, traces, schedules.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Result;

use super::reader::{Content, line_ends_in, mark_bytes, problem_of};
use super::user_file::FileError;

/// The maximal length of a file in bytes: a trace of a year with one value per second fits.
const BYTES_MAX: u64 = 1 << 30;

/// Returns the content of a text file, without its byte order mark.
///
/// # Errors
/// If the file does not exist, cannot be read, is not UTF-8 text, or is longer than a GiB (a device
/// may have no end); the error names the file.
pub fn read_whole(path: &Path) -> Result<String> {
    Ok(read_up_to(path, BYTES_MAX)?)
}

fn read_up_to(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let invalid = |problem: String| FileError::Malformed {
        path: path.to_path_buf(),
        problem,
    };
    let mut text = Vec::new();
    let opened = File::open(path);
    let read = opened.and_then(|file| file.take(bytes_max + 1).read_to_end(&mut text));
    read.map_err(|source| FileError::of(path, source))?;
    if text.len() as u64 > bytes_max {
        return Err(invalid(format!("it is longer than {bytes_max} bytes")));
    }
    if let Err(foreign) = Content::of_start(&text) {
        return Err(invalid(format!("it {foreign}")));
    }
    if let Some((at, problem)) = problem_of(&text) {
        let line = 1 + line_ends_in(&text[..at]);
        return Err(invalid(format!("line {line}: {problem}")));
    }
    text.drain(..mark_bytes(&text));
    String::from_utf8(text).map_err(|error| invalid(error.to_string()))
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

    #[test]
    fn a_byte_order_mark_is_dropped_and_bytes_that_are_no_text_have_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        let read = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            read_whole(&path)
        };
        // A byte order mark once made the first line of a trace a header.
        assert_eq!(read(b"\xef\xbb\xbf0,1\n").unwrap(), "0,1\n");
        for (content, why) in [
            (&b"\xff\xfe0\0"[..], "trace.csv: it is UTF-16: convert it"),
            (b"0,1\n\xe9\n", "trace.csv: line 2: byte 1 is not UTF-8"),
        ] {
            let error = read(content).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let error = read_whole(&dir.path().join("nope"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("no such file: "), "{error}");
    }
}
