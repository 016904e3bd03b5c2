use std::io::Write;

use super::*;

const CSV: RecordKind = RecordKind::Csv(CsvDialect {
    delimiter: b',',
    lenient_quotes: false,
});

/// Returns the line and the text of each record, or the line and the message of the error. The text
/// is read as a whole, and in pieces of each size below 40 bytes: the size must not affect the result.
fn read_as(kind: RecordKind, text: &[u8]) -> Result<Vec<(u64, String)>, (u64, String)> {
    let read = |bytes| {
        let mut records = Records::new(text, kind).reading(bytes);
        let (mut all, mut sum_bytes) = (Vec::new(), 0);
        loop {
            match records.read() {
                Ok(Some(record)) => {
                    let text = std::str::from_utf8(record.text).unwrap().to_string();
                    sum_bytes += record.bytes;
                    assert!(record.offset + record.text.len() as u64 <= sum_bytes);
                    all.push((record.line, text));
                }
                Ok(None) => break Ok(all),
                Err(RecordError::Malformed { line, problem }) => break Err((line, problem)),
                Err(RecordError::Io { source, .. }) => panic!("{source}"),
            }
        }
    };
    let whole = read(text.len());
    for bytes in 1..text.len().min(40) {
        assert_eq!(read(bytes), whole, "{bytes} bytes at a time");
    }
    whole
}

fn pairs(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    let owned = |&(line, text): &(u64, &str)| (line, text.to_string());
    expected.iter().map(owned).collect()
}

#[track_caller]
fn refused(kind: RecordKind, text: impl AsRef<[u8]>, line: u64, why: &str) {
    let (at, problem) = read_as(kind, text.as_ref()).unwrap_err();
    assert!(at == line && problem.contains(why), "line {at}: {problem}");
}

#[test]
fn lines_end_with_lf_crlf_or_cr_and_come_without_their_ends() {
    let text = b"one\r\n\ntwo\rthree\n\rlast";
    let expected = [
        (1, "one"),
        (2, ""),
        (3, "two"),
        (4, "three"),
        (5, ""),
        (6, "last"),
    ];
    assert_eq!(read_as(RecordKind::Text, text).unwrap(), pairs(&expected));
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("id,n{end}1,\"x{end}y\"{end}{end}2,z{end}");
        let field = format!("1,\"x{end}y\"");
        let expected = [(1, "id,n"), (2, &field[..]), (5, "2,z")];
        assert_eq!(read_as(CSV, text.as_bytes()).unwrap(), pairs(&expected));
        let text = format!("{{\"a\":1}}{end} {end}{{}}");
        let expected = [(1, "{\"a\":1}"), (3, "{}")];
        let found = read_as(RecordKind::JsonLines, text.as_bytes());
        assert_eq!(found.unwrap(), pairs(&expected));
    }
    for kind in [RecordKind::Text, CSV, RecordKind::JsonLines] {
        assert_eq!(read_as(kind, b"").unwrap(), []);
    }
}

#[test]
fn a_byte_order_mark_is_dropped_at_the_start_and_only_there() {
    for (kind, record) in [
        (RecordKind::Text, "word"),
        (CSV, "\"id\",n"),
        (RecordKind::JsonLines, "{\"a\":1}"),
    ] {
        let text = format!("\u{feff}{record}\n");
        let found = read_as(kind, text.as_bytes()).unwrap();
        assert_eq!(found, pairs(&[(1, record)]));
        assert_eq!(read_as(kind, b"\xef\xbb\xbf").unwrap(), []);
    }
    let found = read_as(RecordKind::Text, "a\n\u{feff}b".as_bytes()).unwrap();
    assert_eq!(found, pairs(&[(1, "a"), (2, "\u{feff}b")]));
    let text = b"\xef\xbb\xbfa\nb\n";
    let mut records = Records::new(&text[..], RecordKind::Text);
    let first = records.read().unwrap().unwrap();
    assert_eq!((first.offset, first.bytes, first.text), (3, 5, &b"a"[..]));
}

#[test]
fn other_encodings_are_named_and_bytes_that_are_no_text_have_their_line() {
    for kind in [RecordKind::Text, CSV, RecordKind::JsonLines] {
        refused(kind, b"\xff\xfei\0d\0\n\0", 1, "it is UTF-16: convert it");
        refused(kind, b"\xfe\xff\0i\0d\0\n", 1, "it is UTF-16: convert it");
        refused(kind, b"\xff\xfe\0\0i\0\0\0", 1, "it is UTF-32: convert it");
    }
    refused(
        RecordKind::Text,
        b"a\nb\nab\xff\n",
        3,
        "byte 3 is not UTF-8",
    );
    refused(RecordKind::Text, b"a\r\0\r", 2, "NUL");
    refused(CSV, b"a,b\n1,\"x\ny\xe9\"\n", 3, "byte 2 is not UTF-8");
    refused(CSV, b"a\n\xc3", 2, "byte 1 is not UTF-8");
    refused(
        RecordKind::JsonLines,
        b"{}\n{\"\xff\":1}\n",
        2,
        "byte 3 is not UTF-8",
    );
}

#[test]
fn malformed_quotes_are_errors_at_the_line_of_the_quote() {
    for (text, line, why) in [
        (
            "a,b\n1,\"x\n2,y\n",
            2,
            "a quote is still open at the end of the file",
        ),
        // The record begins in line 2, the unclosed quote is in line 3.
        ("a,b\n\"1\n\",\"x\n2,y\n", 3, "a quote is still open"),
        ("a,b\n1,x\n2,5\" disk\n", 3, "a quote stands inside field 2"),
        (
            "a,b\n1,\"x\"y\n",
            2,
            "text follows the closing quote of field 2",
        ),
        ("a,b\n1,\"x\ny\" \n", 3, "text follows the closing quote"),
        ("\"a\" ,b\n", 1, "text follows the closing quote of field 1"),
    ] {
        refused(CSV, text, line, why);
        refused(CSV, text, line, "--lenient-quotes");
    }
    let lenient = RecordKind::Csv(CsvDialect {
        lenient_quotes: true,
        ..CsvDialect::default()
    });
    let found = read_as(lenient, b"a,b\n1,5\" disk\n2,\"x\"y\n3,\"open\n").unwrap();
    let expected = [
        (1, "a,b"),
        (2, "1,5\" disk"),
        (3, "2,\"x\"y"),
        (4, "3,\"open\n"),
    ];
    assert_eq!(found, pairs(&expected));
}

#[test]
fn a_record_has_as_many_fields_as_the_first_one() {
    for (text, line, fields) in [
        ("id,a\n1,2\n\n3\n", 4, "it has 1 field, and there are 2"),
        ("id,a\n1,\"x\ny\"\n3,4,5\n", 4, "it has 3 fields"),
        ("id,a\n  \n", 2, "it has 1 field"),
    ] {
        refused(CSV, text, line, fields);
    }
    let mut records = Records::new(&b"1,2\n"[..], CSV).with_fields(Some(3));
    let error = records.read().unwrap_err().to_string();
    assert!(error.starts_with("line 1: it has 2 fields"), "{error}");
}

#[test]
fn a_json_line_is_an_object() {
    let kind = RecordKind::JsonLines;
    refused(kind, "{}\r{\"a\":\n", 2, "it is no JSON object: EOF");
    refused(kind, "[1]\n", 1, "it is no JSON object");
    refused(kind, "{\"a\":1} {}\n", 1, "trailing characters");
    refused(kind, "{\"a\":\"\\ud800\"}\n", 1, "half of a character");
    refused(kind, "{\n\"a\":1}\n", 1, "it is no JSON object");
}

#[test]
fn a_record_that_is_too_long_is_an_error_and_takes_no_memory_beyond_its_bound() {
    for (kind, text, line, why) in [
        (RecordKind::Text, "a\n123456789\n", 2, "it is longer than"),
        (RecordKind::Text, "12345678\u{20ac}", 1, "it is longer than"),
        (
            CSV,
            "a\n\"1\n2\n3\n4\n5\n6\n7\n8\n9\n\"\n",
            2,
            "is a quote left open?",
        ),
        (CSV, "a\n1,2,3,4,5\n", 2, "it is longer than"),
    ] {
        let mut records = Records::new(text.as_bytes(), kind).reading(2);
        records.record_bytes_max = 8;
        let error = loop {
            match records.read() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{text:?} is accepted"),
                Err(error) => break error,
            }
        };
        let error = error.to_string();
        let place = format!("line {line}: ");
        assert!(error.starts_with(&place) && error.contains(why), "{error}");
        assert!(
            records.buffer.len() <= 8 + 2 + 2,
            "{}",
            records.buffer.len()
        );
    }
    let mut records = Records::new(&b"12345678\r\n1"[..], RecordKind::Text).reading(1);
    records.record_bytes_max = 8;
    assert_eq!(records.read().unwrap().unwrap().text, b"12345678");
    assert_eq!(records.read().unwrap().unwrap().text, b"1");
}

#[test]
fn a_part_is_read_to_its_end_and_a_source_that_ends_before_is_an_error() {
    let text = b"a\nb\nc\n";
    let mut records = Records::of_part(&text[2..], 2..4, RecordKind::Text);
    let record = records.read().unwrap().unwrap();
    assert_eq!((record.offset, record.line, record.text), (2, 1, &b"b"[..]));
    assert_eq!(records.read().unwrap(), None);
    let mut records = Records::of_part(&text[4..], 4..9, RecordKind::Text);
    assert_eq!(records.read().unwrap().unwrap().text, b"c");
    let error = records.read().unwrap_err();
    assert!(matches!(error, RecordError::Io { line: 2, .. }), "{error}");
    assert!(error.to_string().contains("shorter"), "{error}");
}

#[test]
fn gzip_that_is_cut_off_is_malformed_and_not_a_failure_of_the_disk() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"\xef\xbb\xbfa\nb\nc").unwrap();
    let packed = packed.finish().unwrap();
    let mut records = Records::new(super::super::gunzip(&packed[..]), RecordKind::Text);
    let mut texts = Vec::new();
    while let Some(record) = records.read().unwrap() {
        texts.push(record.text.to_vec());
    }
    assert_eq!(texts, [b"a", b"b", b"c"]);
    let cut = &packed[..packed.len() - 4];
    let mut records = Records::new(super::super::gunzip(cut), RecordKind::Text);
    let error = loop {
        match records.read() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("what is cut off is accepted"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RecordError::Malformed { .. }), "{error}");
    assert!(error.to_string().contains("cut off"), "{error}");
}
