//! The kind of a file by its first bytes, regardless of its name.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::encoding::foreign_encoding;

/// The encoding of the text in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// The file is the text.
    Plain,
    /// The text is compressed: no part of it can be read without everything before it.
    Gzip,
}

/// The reason why a file is not readable as text. Its message begins with a verb: "is UTF-16 ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForeignContent {
    /// The file has another format than text.
    #[error(
        "is a file in the format {0}, which is not read: make text, CSV or JSON lines of it, \
         plain or compressed by gzip"
    )]
    Format(&'static str),
    /// The file is a Parquet file, which `ebb load` reads, but not as text.
    #[error(
        "is a file in the format Parquet, which is no text: ebb load makes a table of it if it is \
         named, or if a folder of Parquet files alone is"
    )]
    Parquet,
    /// The text has another encoding than UTF-8.
    #[error("is {0}: convert it first (iconv -f {0} -t UTF-8)")]
    Encoding(&'static str),
}

/// The number of bytes at the start of a file that determine its kind.
pub(crate) const START_BYTES: usize = 16;

const GZIP: &[u8] = b"\x1f\x8b";

/// The first bytes of formats that are not readable. Each of them contains a byte that no text
/// contains.
const FORMATS: [(&[u8], &str); 7] = [
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
    (b"Obj\x01", "Avro"),
    (b"ARROW1\0\0", "Arrow"),
    (b"SQLite format 3\0", "SQLite"),
];

impl Content {
    /// Returns the encoding of the text in `file`, or the reason why it is not readable.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of(file: &File) -> io::Result<Result<Self, ForeignContent>> {
        let mut start = [0; START_BYTES];
        let read = file.read_at(&mut start, 0)?;
        let start = &start[..read];
        // This may be a word, so the end of the file is checked too.
        if start.starts_with(b"PAR1") && has_control(start) && ends_with(file, b"PAR1")? {
            return Ok(Err(ForeignContent::Parquet));
        }
        Ok(Self::of_start(start))
    }

    /// Returns the encoding of a text, or the reason why it is not readable, by its first
    /// [`START_BYTES`] bytes alone.
    pub(crate) fn of_start(start: &[u8]) -> Result<Self, ForeignContent> {
        if start.starts_with(GZIP) {
            return Ok(Self::Gzip);
        }
        // The first three bytes may be a part of a word.
        if start.starts_with(b"BZh") && start.get(4..10) == Some(b"1AY&SY") {
            return Err(ForeignContent::Format("bzip2"));
        }
        // This may be the first line of a text.
        if start.starts_with(b"ORC\n") && has_control(start) {
            return Err(ForeignContent::Format("ORC"));
        }
        let format = FORMATS.iter().find(|(magic, _)| start.starts_with(magic));
        if let Some(&(_, name)) = format {
            return Err(ForeignContent::Format(name));
        }
        match foreign_encoding(start) {
            Some(encoding) => Err(ForeignContent::Encoding(encoding)),
            None => Ok(Self::Plain),
        }
    }
}

/// Returns whether `start` contains a control character that texts do not contain.
fn has_control(start: &[u8]) -> bool {
    // Tab, the line ends, form feed, and the escapes of coloured logs.
    let is_of_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    let mut controls = start.iter().filter(|byte| byte.is_ascii_control());
    controls.any(|byte| !is_of_text(byte))
}

fn ends_with(file: &File, magic: &[u8; 4]) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    let mut end = [0; 4];
    file.read_exact_at(&mut end, bytes.saturating_sub(4))?;
    Ok(end == *magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: &[u8]) -> Result<Content, ForeignContent> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, content).unwrap();
        Content::of(&File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_recognised_by_its_first_bytes_and_words_are_text() {
        for (content, found) in [
            (&b"PAR1\x15\x04rows PAR1"[..], Err("format Parquet")),
            (b"BZh91AY&SY and so on", Err("format bzip2")),
            (b"\x28\xb5\x2f\xfd", Err("format zstd")),
            (b"PK\x03\x04", Err("format zip")),
            (b"\xff\xfea\0", Err("is UTF-16: convert it first (iconv")),
            (b"\x1f\x8b\x08", Ok(Content::Gzip)),
            (b"PAR1 of the text", Ok(Content::Plain)),
            (b"PAR1 and PAR1", Ok(Content::Plain)),
            (b"ORC\n\x0a\x06\x12\x04\x08\x50", Err("format ORC")),
            (b"ORC\nELF\nDWARF\n", Ok(Content::Plain)),
            (b"ORC\n", Ok(Content::Plain)),
            (b"BZhar", Ok(Content::Plain)),
            (b"PAR", Ok(Content::Plain)),
            (b"\xef\xbb\xbfid", Ok(Content::Plain)),
            (b"", Ok(Content::Plain)),
        ] {
            match (of(content), found) {
                (Err(foreign), Err(words)) => {
                    let foreign = foreign.to_string();
                    assert!(foreign.contains(words), "{foreign}");
                }
                (content, found) => assert_eq!(content.ok(), found.ok()),
            }
        }
    }
}
