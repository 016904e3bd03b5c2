//! A text file as rows.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::walk::TextFile;

/// The longest line that still counts as text, in bytes: 16 MiB.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// Digits of a line number: always as many, so that keys are in the order of the
/// lines and a line keeps its key however long the file grows.
const NUMBER_DIGITS: usize = 12;

/// Lines of a file at most: those that have a number. A file with more of them is
/// larger than a terabyte.
const LINES_MAX: u64 = 10u64.pow(NUMBER_DIGITS as u32) - 1;

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Name of the file and number of the line, from 1: `docs/wal.md:000000000012`.
    pub key: Vec<u8>,
    /// The line without its end (`\n` or `\r\n`).
    pub value: Vec<u8>,
    /// Bytes of the line in the file, its end included.
    pub text_bytes: u64,
}

/// The rows of a file in the order of its lines. An error is yielded once; then
/// the iterator ends.
#[derive(Debug)]
pub struct Rows {
    reader: BufReader<File>,
    name: Vec<u8>,
    number: u64,
    failed: bool,
}

/// The rows of `file`; `None` when it is not text.
///
/// The file is read once to see whether it is text, which takes constant memory
/// however large it is, and again by the iterator.
///
/// # Errors
/// When it cannot be read.
pub fn rows(file: &TextFile) -> io::Result<Option<Rows>> {
    if !is_text(BufReader::new(File::open(&file.path)?))? {
        return Ok(None);
    }
    Ok(Some(Rows {
        reader: BufReader::new(File::open(&file.path)?),
        name: file.name().to_vec(),
        number: 0,
        failed: false,
    }))
}

/// Whether all of it is text. No byte of a UTF-8 character looks like a newline, so
/// lines can be judged one by one.
fn is_text(mut reader: impl BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line)? > 0 {
        if line.len() as u64 > LINE_BYTES_MAX
            || line.contains(&0)
            || std::str::from_utf8(&line).is_err()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    reader.take(LINE_BYTES_MAX + 1).read_until(b'\n', line)
}

impl Iterator for Rows {
    type Item = io::Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let mut value = Vec::new();
        match read_line(&mut self.reader, &mut value) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => {
                self.failed = true;
                return Some(Err(error));
            }
        }
        let text_bytes = value.len() as u64;
        if value.last() == Some(&b'\n') {
            value.pop();
            if value.last() == Some(&b'\r') {
                value.pop();
            }
        }
        if self.number == LINES_MAX {
            self.failed = true;
            let text = format!("a file has at most {LINES_MAX} lines");
            return Some(Err(io::Error::new(io::ErrorKind::FileTooLarge, text)));
        }
        self.number += 1;
        let number = format!(":{:0NUMBER_DIGITS$}", self.number);
        Some(Ok(Row {
            key: [&self.name, number.as_bytes()].concat(),
            value,
            text_bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8]) -> Option<Vec<(String, String)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.txt");
        std::fs::write(&path, content).unwrap();
        let file = TextFile {
            path,
            bytes: content.len() as u64,
        };
        let rows: Vec<Row> = rows(&file).unwrap()?.map(Result::unwrap).collect();
        let text_bytes: u64 = rows.iter().map(|row| row.text_bytes).sum();
        assert_eq!(text_bytes, file.bytes);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let prefix = text(file.name().to_vec());
        let short = |key: Vec<u8>| text(key).strip_prefix(&prefix).unwrap().to_string();
        Some(
            rows.into_iter()
                .map(|row| (short(row.key), text(row.value)))
                .collect(),
        )
    }

    #[test]
    fn every_line_is_a_row_without_its_end() {
        let rows = read(b"one\r\n\ntwo\xc3\xa4\nlast").unwrap();
        let expected = [
            (":000000000001", "one"),
            (":000000000002", ""),
            (":000000000003", "two\u{e4}"),
            (":000000000004", "last"),
        ];
        assert_eq!(rows, expected.map(|(k, v)| (k.to_string(), v.to_string())));
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn a_file_with_one_bad_byte_far_in_is_no_text_at_all() {
        let good = b"line\n".repeat(10_000);
        assert!(read(&good).is_some());
        assert!(read(&[&good[..], b"\xff"].concat()).is_none());
        assert!(read(&[&good[..], b"\0"].concat()).is_none());
    }

    #[test]
    fn a_line_keeps_its_key_when_its_file_grows_past_a_million_lines() {
        // Line numbers once had as many digits as the last one: a log loaded again
        // when it had grown past 999,999 lines was there twice.
        let before = read(&b"\n".repeat(999_999)).unwrap();
        let after = read(&b"\n".repeat(1_000_001)).unwrap();
        assert!(after.is_sorted());
        assert_eq!(before, after[..999_999]);
        assert_eq!(after[0].0, ":000000000001");
        assert_eq!(after[1_000_000].0, ":000001000001");
    }

    #[test]
    fn names_do_not_start_with_the_current_directory() {
        let name = |path: &str| {
            let path = path.into();
            let file = TextFile { path, bytes: 0 };
            String::from_utf8(file.name().to_vec()).unwrap()
        };
        assert_eq!(name("./docs/a.md"), "docs/a.md");
        assert_eq!(name("/docs/a.md"), "/docs/a.md");
        assert_eq!(name("../a.md"), "../a.md");
    }
}
