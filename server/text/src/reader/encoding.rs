//! Byte order marks and UTF-8.

use memchr::memchr;

/// The byte order mark of UTF-8, which spreadsheets write.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The maximal length of a byte order mark, in bytes.
pub(super) const MARK_BYTES_MAX: usize = 4;

/// The byte order marks of other encodings than UTF-8. UTF-32 comes first, because its little-endian mark
/// begins with that of UTF-16.
const FOREIGN_MARKS: [(&[u8], &str); 4] = [
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
];

/// Returns the length of the byte order mark at the start of a UTF-8 text; 0 without one.
pub(crate) fn mark_bytes(start: &[u8]) -> usize {
    if start.starts_with(MARK) {
        MARK.len()
    } else {
        0
    }
}

/// Returns the encoding of the byte order mark at the start of a text; `None` if the mark is that of
/// UTF-8, or there is no mark.
pub(super) fn foreign_encoding(start: &[u8]) -> Option<&'static str> {
    let found = FOREIGN_MARKS
        .iter()
        .find(|(mark, _)| start.starts_with(mark));
    found.map(|&(_, encoding)| encoding)
}

/// Checks that `text` is UTF-8 and has no NUL. If not, returns the index of a wrong byte (the first NUL,
/// otherwise the first byte that is not UTF-8) and a message. A character that is cut off at the end
/// counts as an error.
pub(crate) fn problem_of(text: &[u8]) -> Option<(usize, String)> {
    if let Some(at) = memchr(0, text) {
        let problem = "it has a NUL byte: this is a binary file, or text in UTF-16, to be \
                       converted first (iconv -f UTF-16 -t UTF-8)";
        return Some((at, problem.to_string()));
    }
    let at = std::str::from_utf8(text).err()?.valid_up_to();
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let line_start = text[..at]
        .iter()
        .rposition(is_line_end)
        .map_or(0, |at| at + 1);
    let problem = format!(
        "byte {} is not UTF-8: this is a binary file, or text in another encoding, to be \
         converted first (iconv -f LATIN1 -t UTF-8)",
        at - line_start + 1
    );
    Some((at, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_recognised_by_their_byte_order_marks() {
        for (start, encoding) in [
            (&b"\xff\xfea\0"[..], Some("UTF-16")),
            (b"\xfe\xff\0a", Some("UTF-16")),
            (b"\xff\xfe\0\0a\0\0\0", Some("UTF-32")),
            (b"\0\0\xfe\xff\0\0\0a", Some("UTF-32")),
            (b"\xef\xbb\xbfa", None),
            (b"\xff", None),
            (b"", None),
        ] {
            assert_eq!(foreign_encoding(start), encoding, "{start:?}");
        }
        assert_eq!(mark_bytes(b"\xef\xbb\xbfa"), 3);
        assert_eq!(mark_bytes(b"\xef\xbba"), 0);
    }

    #[test]
    fn the_first_byte_that_is_wrong_is_found_and_counted_from_its_line() {
        assert_eq!(problem_of("gr\u{f6}\u{df}e".as_bytes()), None);
        let (at, problem) = problem_of(b"a\nb\r\ncd\xff").unwrap();
        assert!(
            at == 7 && problem.starts_with("byte 3 is not UTF-8"),
            "{problem}"
        );
        let (at, problem) = problem_of(b"ab\0\xff").unwrap();
        assert!(at == 2 && problem.contains("NUL"), "{problem}");
        assert_eq!(problem_of(b"a\xe2\x82").unwrap().0, 1);
    }
}
