//! A test of the start of a file: can it be text?

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::content::{Content, ForeignContent};
use super::encoding::problem_of;
use super::line_ends::count;

/// The number of bytes at the start of a file that decide whether the file is text. Later bytes
/// that are not text are detected when the file is read.
pub(crate) const SNIFF_BYTES: usize = 8 << 10;

/// The reason why a file is not text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// The file has a format or an encoding that is not readable.
    #[error("it {0}")]
    Foreign(ForeignContent),
    /// The file contains bytes that are not UTF-8, or NUL.
    #[error("line {line}: {problem}")]
    Bytes {
        /// The line of the first byte that is not text.
        line: u64,
        /// A message about the first byte that is not text.
        problem: String,
    },
}

/// Reads the first bytes of `file`, a regular file. Returns the encoding of its text, or the reason
/// why it is not text.
///
/// # Errors
/// If it cannot be read.
pub fn sniff(file: &File) -> io::Result<Result<Content, NotText>> {
    match Content::of(file)? {
        Ok(Content::Gzip) => return Ok(Ok(Content::Gzip)),
        Ok(Content::Plain) => {}
        Err(foreign) => return Ok(Err(NotText::Foreign(foreign))),
    }
    let mut buffer = vec![0; SNIFF_BYTES];
    let read = file.read_at(&mut buffer, 0)?;
    let mut start = &buffer[..read];
    // The sample may end within a character, but not the file.
    if (read as u64) < file.metadata()?.len()
        && let Err(error) = std::str::from_utf8(start)
        && error.error_len().is_none()
    {
        start = &start[..error.valid_up_to()];
    }
    Ok(match problem_of(start) {
        None => Ok(Content::Plain),
        Some((at, problem)) => Err(NotText::Bytes {
            line: 1 + count(&start[..at]),
            problem,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(content: &[u8]) -> Result<Content, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, content).unwrap();
        let sniffed = sniff(&File::open(path).unwrap()).unwrap();
        sniffed.map_err(|not_text| not_text.to_string())
    }

    #[test]
    fn a_file_is_text_unless_its_first_bytes_are_not() {
        let umlauts = "\u{e4}".repeat(SNIFF_BYTES);
        for text in [
            &b""[..],
            b"a\n",
            umlauts.as_bytes(),
            &umlauts.as_bytes()[..SNIFF_BYTES],
        ] {
            assert_eq!(sniffed(text), Ok(Content::Plain));
        }
        // The sample ends within a character.
        assert_eq!(
            sniffed(format!("x{umlauts}").as_bytes()),
            Ok(Content::Plain)
        );
        for (content, why) in [
            (&b"a\nb\xe9\n"[..], "line 2: byte 2 is not UTF-8"),
            (b"\x89PNG\r\n\x1a\n\0", "line 3: it has a NUL byte"),
            (b"\xff\xfea\0", "it is UTF-16: convert it"),
            (b"PK\x03\x04", "it is a file in the format zip"),
            // Cut off at the end of the file.
            (b"a\xc3", "line 1: byte 2 is not UTF-8"),
        ] {
            let problem = sniffed(content).unwrap_err();
            assert!(problem.starts_with(why), "{problem}");
        }
    }
}
