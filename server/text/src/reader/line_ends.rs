//! Line ends: LF, CRLF and CR, in any mixture.

use std::io::{self, Read};

use memchr::{memchr2, memchr2_iter};

/// The number of bytes per read when lines are counted.
const READ_BYTES: usize = 64 << 10;

/// Returns the offset of the first line end in `bytes`; `None` without one.
pub(super) fn find(bytes: &[u8]) -> Option<usize> {
    memchr2(b'\n', b'\r', bytes)
}

/// Returns the length of the line end at `at`. Returns `None` if it is a CR at the end of `bytes` and more
/// bytes may follow (`is_last` is false): the next byte may be an LF that belongs to it.
pub(super) fn length(bytes: &[u8], at: usize, is_last: bool) -> Option<usize> {
    match (bytes[at], bytes.get(at + 1)) {
        (b'\r', Some(b'\n')) => Some(2),
        (b'\r', None) if !is_last => None,
        _ => Some(1),
    }
}

/// A counter of line ends in bytes that come in pieces.
#[derive(Debug, Default)]
struct Count {
    line_ends: u64,
    /// True if the last byte was a CR.
    after_cr: bool,
}

impl Count {
    fn add(&mut self, bytes: &[u8]) {
        for at in memchr2_iter(b'\n', b'\r', bytes) {
            let after_cr = match at.checked_sub(1) {
                Some(before) => bytes[before] == b'\r',
                None => self.after_cr,
            };
            let is_second_byte = bytes[at] == b'\n' && after_cr;
            self.line_ends += u64::from(!is_second_byte);
        }
        if let Some(&last) = bytes.last() {
            self.after_cr = last == b'\r';
        }
    }
}

/// Returns the number of line ends in `bytes`.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    let mut count = Count::default();
    count.add(bytes);
    count.line_ends
}

/// Reads `text` to its end and returns the number of its line ends.
///
/// # Errors
/// If it cannot be read.
pub fn count_line_ends(mut text: impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; READ_BYTES];
    let mut count = Count::default();
    loop {
        match text.read(&mut buffer) {
            Ok(0) => return Ok(count.line_ends),
            Ok(read) => count.add(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_lf_crlf_or_cr_wherever_the_bytes_are_cut() {
        for (text, expected) in [
            ("", 0),
            ("a", 0),
            ("a\nb\n", 2),
            ("a\r\nb\r\n", 2),
            ("a\rb\r", 2),
            ("\r\r\n\n\n\r", 5),
        ] {
            assert_eq!(count(text.as_bytes()), expected, "{text:?}");
            assert_eq!(count_line_ends(text.as_bytes()).unwrap(), expected);
            for cut in 0..text.len() {
                let mut count = Count::default();
                count.add(&text.as_bytes()[..cut]);
                count.add(&text.as_bytes()[cut..]);
                assert_eq!(count.line_ends, expected, "{text:?} cut at {cut}");
            }
        }
        assert_eq!(length(b"a\r", 1, false), None);
        assert_eq!(length(b"a\r", 1, true), Some(1));
        assert_eq!(length(b"a\r\n", 1, false), Some(2));
        assert_eq!(length(b"a\n\r", 1, false), Some(1));
    }
}
