//! What a file is by its first bytes, whatever it is called.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// How a file that a job can read is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Content {
    Plain,
    /// Compressed: no part of it can be read without all that is before it.
    Gzip,
}

/// Formats that are not read, by what files of them begin with.
const UNREAD: [(&[u8], &str); 8] = [
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
    (b"Obj\x01", "Avro"),
    (b"ARROW1\0\0", "Arrow"),
    (b"ORC\n", "ORC"),
    (b"SQLite format 3\0", "SQLite"),
];

/// What `file` is.
///
/// # Errors
/// When it is of a format that is not read, which the error names.
pub(super) fn content_of(file: &mut File) -> io::Result<Result<Content, &'static str>> {
    let mut start = Vec::new();
    file.take(16).read_to_end(&mut start)?;
    if start.starts_with(b"\x1f\x8b") {
        return Ok(Ok(Content::Gzip));
    }
    // Both could be words of a text.
    if start.starts_with(b"PAR1") && ends_with(file, b"PAR1")? {
        return Ok(Err("Parquet"));
    }
    if start.starts_with(b"BZh") && start.get(4..10) == Some(b"1AY&SY") {
        return Ok(Err("bzip2"));
    }
    let found = UNREAD.iter().find(|(magic, _)| start.starts_with(magic));
    Ok(found.map_or(Ok(Content::Plain), |&(_, name)| Err(name)))
}

fn ends_with(file: &mut File, magic: &[u8; 4]) -> io::Result<bool> {
    let mut end = [0; 4];
    file.seek(SeekFrom::End(-(end.len() as i64)))?;
    file.read_exact(&mut end)?;
    Ok(end == *magic)
}
