use std::cell::Cell;

use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::csv::CsvFields;
use crate::reader::{RecordError, Records};

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

const CSV: RecordKind = RecordKind::Csv(CsvDialect {
    delimiter: b',',
    lenient_quotes: false,
});

/// A source that counts the bytes read.
struct CountingSource<'a> {
    text: &'a [u8],
    read_bytes: Cell<u64>,
}

impl<'a> CountingSource<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            read_bytes: Cell::new(0),
        }
    }
}

impl ReadAt for CountingSource<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.text.read_at(buffer, offset)?;
        self.read_bytes.set(self.read_bytes.get() + bytes as u64);
        Ok(bytes)
    }
}

fn search(text: &[u8], record_bytes_max: u64, block_bytes: usize) -> Search<'_, [u8]> {
    Search {
        file: text,
        file_bytes: text.len() as u64,
        record_bytes_max,
        // With this share both ways are used for parts of any size.
        search_share: 1,
        block_bytes,
    }
}

/// Returns the number of fields of the first record, which all other records must have, too; `None` if
/// there is no record, or it is malformed.
fn fields(text: &[u8]) -> Option<usize> {
    let mut records = Records::new(text, CSV);
    let first = records.read().ok()??;
    let mut fields = CsvFields::default();
    fields.parse(first.text).unwrap();
    Some(fields.len())
}

/// Returns the records in the range `part` of the bytes of `text`, each with its offset in `text`.
fn records(
    text: &[u8],
    part: std::ops::Range<u64>,
    kind: RecordKind,
) -> Result<Vec<(u64, Vec<u8>)>, RecordError> {
    let mut all = Vec::new();
    let source = &text[part.start as usize..part.end as usize];
    let records = Records::of_part(source, part, kind).reading(7);
    let mut records = match kind {
        RecordKind::Csv(_) => records.with_fields(fields(text)),
        RecordKind::Text | RecordKind::JsonLines => records,
    };
    while let Some(record) = records.read()? {
        all.push((record.offset, record.text.to_vec()));
    }
    Ok(all)
}

/// Returns the records of all parts of about `part_bytes`, or the error of the first part that has
/// one.
fn by_parts(
    text: &[u8],
    part_bytes: u64,
    kind: RecordKind,
) -> Result<Vec<(u64, Vec<u8>)>, RecordError> {
    let search = search(text, LINE_BYTES_MAX as u64, 5);
    let (mut all, mut from) = (Vec::new(), 0);
    while from < text.len() as u64 {
        let at = from + part_bytes;
        let to = search.border(from, at, kind).unwrap();
        assert!(to >= at.min(text.len() as u64) && to <= text.len() as u64);
        all.append(&mut records(text, from..to, kind)?);
        from = to;
    }
    Ok(all)
}

#[test]
fn random_bytes_have_the_same_records_at_every_size_of_the_parts() {
    let test = "random_bytes_have_the_same_records_at_every_size_of_the_parts";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut well_formed, mut malformed) = (0, 0);
        for _ in 0..4000 {
            // The first alphabet has no delimiter, so that records have one field.
            let bytes: &[u8] = [&b"\"\"\n\rab"[..], b"\"\"\"\",\n\n\ra"][rng.random_range(0..2)];
            let length = rng.random_range(0..40);
            let text: Vec<u8> = (0..length)
                .map(|_| bytes[rng.random_range(0..bytes.len())])
                .collect();
            let whole = records(&text, 0..text.len() as u64, CSV);
            for part_bytes in 1..=text.len() as u64 {
                let shown = text.escape_ascii();
                match (&whole, by_parts(&text, part_bytes, CSV)) {
                    (Ok(whole), Ok(parts)) => {
                        assert_eq!(parts, *whole, "{shown} by {part_bytes}");
                        well_formed += 1;
                    }
                    (Err(_), Err(_)) => malformed += 1,
                    (whole, parts) => panic!("{shown} by {part_bytes}: {whole:?}, {parts:?}"),
                }
            }
        }
        assert!(well_formed > 2000 && malformed > 2000, "{well_formed}");
    });
}

/// Returns a table of fields with many quotes, delimiters and line ends.
fn table(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let columns = rng.random_range(1..4);
    let mut text = Vec::new();
    if rng.random() {
        text.extend_from_slice(b"\xef\xbb\xbf");
    }
    for _ in 0..rng.random_range(0..12) {
        for column in 0..columns {
            if column > 0 {
                text.push(b',');
            }
            let field: String = (0..rng.random_range(0..6))
                .map(|_| ["\"\"", ",", "\n", "\r", "\r\n", "x"][rng.random_range(0..6)])
                .collect();
            if rng.random() {
                text.extend_from_slice(format!("\"{field}\"").as_bytes());
            } else {
                text.extend_from_slice(&b"abc"[..rng.random_range(0..4)]);
            }
        }
        text.extend_from_slice([&b"\n"[..], b"\r\n", b"\r"][rng.random_range(0..3)]);
    }
    text
}

#[test]
fn tables_have_the_same_records_at_every_size_of_the_parts() {
    let test = "tables_have_the_same_records_at_every_size_of_the_parts";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut in_parts = 0;
        for _ in 0..600 {
            let text = table(&mut rng);
            let whole = records(&text, 0..text.len() as u64, CSV).unwrap();
            for part_bytes in 1..=text.len() as u64 {
                let parts = by_parts(&text, part_bytes, CSV).unwrap();
                assert_eq!(parts, whole, "{} by {part_bytes}", text.escape_ascii());
                in_parts += u64::from(whole.len() > 1);
            }
        }
        assert!(in_parts > 5000, "{in_parts}");
    });
}

#[test]
fn lines_with_any_line_end_are_the_same_at_every_size_of_the_parts() {
    let text = b"\xef\xbb\xbfa\r\n\r\rb\n\r\nc\n\n\rd\r";
    let whole = records(text, 0..text.len() as u64, RecordKind::Text).unwrap();
    let lines: Vec<&[u8]> = whole.iter().map(|(_, line)| &line[..]).collect();
    assert_eq!(
        lines,
        [&b"a"[..], b"", b"", b"b", b"", b"c", b"", b"", b"d"]
    );
    for part_bytes in 1..=text.len() as u64 {
        let parts = by_parts(text, part_bytes, RecordKind::Text).unwrap();
        assert_eq!(parts, whole, "by {part_bytes}");
    }
}

/// Returns the first border at or after `at`, found from the bytes after it alone; `None` if these
/// bytes leave it open. No record is longer than `record_bytes_max`.
fn guessed(text: &str, at: usize, record_bytes_max: u64) -> Option<u64> {
    let search = search(text.as_bytes(), record_bytes_max, 8);
    let line = search.line(at as u64).unwrap();
    let guess = search.guess(line, CsvDialect::default(), record_bytes_max);
    guess.unwrap()
}

#[test]
fn a_border_is_found_without_reading_from_the_start() {
    // Inside quotes, and outside.
    let text = "1,\"two\nlines\",x\n2,y,z\n3,y,z\n";
    assert_eq!(guessed(text, 4, 100), Some(16));
    assert_eq!(guessed(text, 10, 100), Some(16));
    assert_eq!(guessed("1,\"a\"\n2,\"b\"\n3,\"c\"\n", 2, 100), Some(6));
    // No quote within the maximal length of a record.
    assert_eq!(guessed(&"1,2\n".repeat(50), 5, 30), Some(8));
    // No quote up to the end: an open one would not be closed.
    assert_eq!(guessed("1,2\n3,4\n5,6\n", 5, 100), Some(8));
    // The field in quotes is the last one.
    assert_eq!(guessed("1,\"a\nb\"", 3, 100), Some(7));
}

#[test]
fn a_border_that_later_bytes_leave_open_is_found_from_the_start() {
    // Either every line is a record whose field is ",<LF>", or every other line is.
    let text = "\",\n\",\n".repeat(20);
    assert_eq!(guessed(&text, 4, 60), None);
    let search = search(text.as_bytes(), 60, 8);
    assert_eq!(search.border(0, 4, CSV).unwrap(), 6);
    assert_eq!(search.border(6, 9, CSV).unwrap(), 12);
}

/// Regression: for a sample, the search read up to 64 MiB at each place, and then the file from the
/// start of the part.
#[test]
fn a_likely_border_costs_few_bytes_in_a_file_without_quotes() {
    let text = "1,2\n".repeat(500_000);
    let counted = CountingSource::new(text.as_bytes());
    let search = Search {
        file: &counted,
        file_bytes: text.len() as u64,
        record_bytes_max: 8 << 10,
        search_share: SEARCH_SHARE,
        block_bytes: 1 << 10,
    };
    for at in [2, 400_002, 1_000_003] {
        counted.read_bytes.set(0);
        let border = search.likely_border(at, CSV).unwrap();
        assert_eq!(border, at.next_multiple_of(4));
        let read = counted.read_bytes.get();
        assert!(read <= 12 << 10, "{read} bytes for the place {at}");
    }
    assert_eq!(search.likely_border(0, CSV).unwrap(), 0);
    let end = text.len() as u64;
    assert_eq!(search.likely_border(end - 1, CSV).unwrap(), end);
}

#[test]
fn a_likely_border_lies_behind_the_quotes_that_the_place_is_in() {
    let text = format!("1,\"two\nlines\",x\n{}", "2,y,z\n".repeat(50));
    let search = |text| search(text, 40, 8);
    let border = search(text.as_bytes()).likely_border(4, CSV).unwrap();
    assert_eq!(border, 16);
    // The closing quote begins a line, so it could also open a field; no other quote follows.
    let text = format!("1,\"two\n\",x\n{}", "2,y,z\n".repeat(50));
    let border = search(text.as_bytes()).likely_border(4, CSV).unwrap();
    assert_eq!(border, 11);
    let text = b"one\ntwo\nthree\n";
    let border = search(&text[..])
        .likely_border(5, RecordKind::Text)
        .unwrap();
    assert_eq!(border, 8);
}

#[test]
fn the_borders_of_a_file_without_quotes_cost_about_one_reading_of_it() {
    let text = "1,2\n".repeat(500_000);
    let counted = CountingSource::new(text.as_bytes());
    let bytes = text.len() as u64;
    let search = Search {
        file: &counted,
        file_bytes: bytes,
        record_bytes_max: LINE_BYTES_MAX as u64,
        search_share: SEARCH_SHARE,
        block_bytes: 4 << 10,
    };
    let mut known = 0;
    while known < bytes {
        known = search.border(known, known + bytes / 8, CSV).unwrap();
    }
    let read = counted.read_bytes.get();
    assert!(read < bytes + bytes / 4, "{read} bytes of {bytes}");
}
