//! The lines of a part of a file, without copying those that lie whole in the
//! buffer.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use memchr::memchr;

/// The longest line that a job reads, in bytes: 64 MiB. Longer ones are an error,
/// since a record has to fit into memory.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// What is read of a compressed file at a time.
const COMPRESSED_BYTES: usize = 64 << 10;

/// What is read at a time of a part that is read as a whole.
pub(super) const READ_BYTES: usize = 256 << 10;

/// Why there is no next line.
#[derive(Debug)]
pub(super) enum LineError {
    Io(io::Error),
    /// The line that begins at this byte is longer than may be.
    TooLong {
        offset: u64,
        bytes_max: usize,
    },
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A line and where it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// In bytes from the start of the file.
    pub(super) offset: u64,
    /// Without its end, `\n` or `\r\n`.
    pub(super) text: &'a [u8],
}

/// Reads lines from one place of a file to another, both at borders of lines.
pub(super) struct Lines {
    source: Box<dyn Read + Send>,
    /// Bytes of the part that are not in the buffer yet; `None` for all that come.
    left: Option<u64>,
    buffer: Vec<u8>,
    /// What of the buffer has been read and not handed out.
    unread: std::ops::Range<usize>,
    /// Where `unread` begins in the file.
    offset: u64,
    line_bytes_max: usize,
}

impl Lines {
    /// The lines of a part of a file, of which `read_bytes` are read at a time, at
    /// least one.
    pub(super) fn open(
        path: &Path,
        part: std::ops::Range<u64>,
        read_bytes: usize,
    ) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(part.start))?;
        let left = part.end.saturating_sub(part.start);
        Ok(Self::of(Box::new(file), part.start, Some(left), read_bytes))
    }

    /// The lines of a whole file that is compressed by gzip. Places are those in the text.
    pub(super) fn open_gzip(path: &Path, read_bytes: usize) -> io::Result<Self> {
        let text = gunzip(path)?;
        Ok(Self::of(Box::new(text), 0, None, read_bytes))
    }

    fn of(source: Box<dyn Read + Send>, offset: u64, left: Option<u64>, read_bytes: usize) -> Self {
        Self {
            source,
            left,
            buffer: vec![0; read_bytes],
            unread: 0..0,
            offset,
            line_bytes_max: LINE_BYTES_MAX,
        }
    }

    /// The next line; `None` after the last one.
    ///
    /// # Errors
    /// When the file cannot be read, is shorter than the part, or has a line that
    /// is too long.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, LineError> {
        let mut searched = 0;
        let newline = loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(at) = memchr(b'\n', &unread[searched..]) {
                break Some(searched + at);
            }
            searched = unread.len();
            if searched > self.line_bytes_max {
                return Err(LineError::TooLong {
                    offset: self.offset,
                    bytes_max: self.line_bytes_max,
                });
            }
            if !self.fill()? {
                break None;
            }
        };
        let (length, step) = match newline {
            Some(length) => (length, length + 1),
            None if searched == 0 => return Ok(None),
            None => (searched, searched),
        };
        let offset = self.offset;
        let start = self.unread.start;
        self.unread.start += step;
        self.offset += step as u64;
        let text = &self.buffer[start..start + length];
        let ended = newline.and_then(|_| text.strip_suffix(b"\r"));
        Ok(Some(Line {
            offset,
            text: ended.unwrap_or(text),
        }))
    }

    /// Reads on; false at the end of the part.
    fn fill(&mut self) -> io::Result<bool> {
        if self.left == Some(0) {
            return Ok(false);
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let room = &mut self.buffer[self.unread.end..];
        let left = self.left.and_then(|left| usize::try_from(left).ok());
        let wanted = left.map_or(room.len(), |left| left.min(room.len()));
        let read = loop {
            match self.source.read(&mut room[..wanted]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if read == 0 && self.left.is_none() {
            return Ok(false);
        }
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        self.left = self.left.map(|left| left - read as u64);
        self.unread.end += read;
        Ok(true)
    }
}

/// The text of a file that is compressed by gzip; of several such in one, of all.
pub(super) fn gunzip(path: &Path) -> io::Result<impl Read + Send + use<>> {
    let file = BufReader::with_capacity(COMPRESSED_BYTES, File::open(path)?);
    Ok(MultiGzDecoder::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &[u8], part: std::ops::Range<u64>) -> Vec<(u64, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, content).unwrap();
        let mut lines = Lines::open(&path, part, READ_BYTES).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.offset, String::from_utf8(line.text.to_vec()).unwrap()));
        }
        all
    }

    #[test]
    fn lines_come_without_their_ends_and_with_their_places() {
        let all = lines(b"a\n\r\nbc\r\n\nlast\r", 0..14);
        let expected = [(0, "a"), (2, ""), (4, "bc"), (8, ""), (9, "last\r")];
        assert_eq!(all, expected.map(|(at, text)| (at, text.to_string())));
        assert_eq!(lines(b"a\nb\nc\n", 2..4), [(2, "b".to_string())]);
        assert_eq!(lines(b"", 0..0), []);
    }

    #[test]
    fn lines_longer_than_the_buffer_come_whole() {
        let long = "x".repeat(3 * READ_BYTES + 17);
        let content = format!("{long}\nshort\n{long}");
        let all = lines(content.as_bytes(), 0..content.len() as u64);
        let texts: Vec<_> = all.iter().map(|(_, text)| &text[..]).collect();
        assert_eq!(texts, [&long[..], "short", &long]);
    }

    #[test]
    fn a_line_that_is_too_long_and_a_file_that_was_cut_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "x".repeat(100)).unwrap();
        let mut short = Lines::open(&path, 0..200, READ_BYTES).unwrap();
        let LineError::Io(error) = short.next().unwrap_err() else {
            panic!("the line is short");
        };
        assert!(error.to_string().contains("shorter"), "{error}");
        let mut long = Lines::open(&path, 0..100, READ_BYTES).unwrap();
        long.line_bytes_max = 50;
        let too_long = long.next().unwrap_err();
        assert!(matches!(
            too_long,
            LineError::TooLong {
                offset: 0,
                bytes_max: 50
            }
        ));
    }
}
