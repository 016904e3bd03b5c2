//! The fields of one CSV record (RFC 4180), and records of fields.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

/// Why bytes are not one CSV record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CsvProblem {
    /// A field in quotes does not end.
    #[error("a quote is still open at the end of the CSV record")]
    OpenQuote,
    /// A newline outside of quotes.
    #[error("there is more than one CSV record")]
    Several,
}

/// Splits records into fields, one record at a time. Making one costs as much as
/// splitting hundreds of records: keep it.
#[derive(Debug)]
pub struct CsvFields {
    reader: Reader,
    text: Vec<u8>,
    /// Where fields end in `text`; more than there are.
    ends: Vec<usize>,
    fields: usize,
}

impl Default for CsvFields {
    fn default() -> Self {
        Self {
            reader: reader(),
            text: vec![0; 256],
            ends: vec![0; 16],
            fields: 0,
        }
    }
}

fn reader() -> Reader {
    let terminator = Terminator::Any(b'\n');
    ReaderBuilder::new().terminator(terminator).build()
}

impl CsvFields {
    /// Splits `record`, which has no newline at its end.
    ///
    /// # Errors
    /// When it is not exactly one record; it has no fields then.
    pub fn parse(&mut self, record: &[u8]) -> Result<(), CsvProblem> {
        self.fields = 0;
        if record.is_empty() {
            // To the reader this is no record; to a table it is one empty field.
            self.ends[0] = 0;
            self.fields = 1;
            return Ok(());
        }
        self.reader.reset();
        let (mut text_bytes, mut fields) = (0, 0);
        let (mut input, mut is_ending) = (record, false);
        loop {
            let text = &mut self.text[text_bytes..];
            let ends = &mut self.ends[fields..];
            let (result, read, written, ended) = self.reader.read_record(input, text, ends);
            input = &input[read..];
            text_bytes += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty if !is_ending => {
                    is_ending = true;
                    input = b"\n";
                }
                ReadRecordResult::InputEmpty => {
                    // It counts on in the middle of a record.
                    self.reader = reader();
                    return Err(CsvProblem::OpenQuote);
                }
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record if !is_ending => return Err(CsvProblem::Several),
                ReadRecordResult::Record | ReadRecordResult::End => break,
            }
        }
        self.fields = fields;
        Ok(())
    }

    /// Fields of the last record.
    pub fn len(&self) -> usize {
        self.fields
    }

    /// Whether the last record had no fields: it was none.
    pub fn is_empty(&self) -> bool {
        self.fields == 0
    }

    /// A field of the last record, from 0, without its quotes.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.fields].get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// The fields of the last record.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields).filter_map(|at| self.get(at))
    }
}

/// Says line by line where a CSV record ends that goes over several: of however many, each
/// is looked at once.
#[derive(Debug)]
pub struct CsvRecordEnd {
    reader: Reader,
}

impl Default for CsvRecordEnd {
    fn default() -> Self {
        Self { reader: reader() }
    }
}

impl CsvRecordEnd {
    /// Whether the record ends with `line`, which has no newline. It begins the record, or
    /// `goes_on` with the one that did not end so far; lines without quotes may be left out
    /// then.
    pub fn is_after(&mut self, line: &[u8], goes_on: bool) -> bool {
        if !goes_on {
            self.reader.reset();
        }
        // What the fields are is of no account.
        let (mut text, mut ends) = ([0; 256], [0; 16]);
        for mut input in [line, b"\n"] {
            while !input.is_empty() {
                let (result, read, ..) = self.reader.read_record(input, &mut text, &mut ends);
                if matches!(result, ReadRecordResult::Record | ReadRecordResult::End) {
                    return true;
                }
                input = &input[read..];
            }
        }
        false
    }
}

/// Adds a field to a record, in quotes where it needs them, and a comma before it
/// unless the record is empty. A record of one empty field is written as `""`, so
/// that its line is not empty.
pub fn push_field(record: &mut Vec<u8>, field: &[u8]) {
    if !record.is_empty() {
        record.push(b',');
    }
    let needs_quotes = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !field.is_empty() && !field.iter().any(needs_quotes) {
        record.extend_from_slice(field);
        return;
    }
    if field.is_empty() && !record.is_empty() {
        return;
    }
    record.push(b'"');
    for &byte in field {
        if byte == b'"' {
            record.push(b'"');
        }
        record.push(byte);
    }
    record.push(b'"');
}

/// Adds fields as key or value of a row has them: one as it is, several as a CSV
/// record. Missing ones are empty.
pub fn push_fields<'f>(to: &mut Vec<u8>, fields: impl ExactSizeIterator<Item = Option<&'f [u8]>>) {
    let is_record = fields.len() > 1;
    for field in fields {
        let field = field.unwrap_or_default();
        match is_record {
            true => push_field(to, field),
            false => to.extend_from_slice(field),
        }
    }
}

/// A record of these fields.
pub fn record<F: AsRef<[u8]>>(fields: impl IntoIterator<Item = F>) -> Vec<u8> {
    let mut record = Vec::new();
    for field in fields {
        push_field(&mut record, field.as_ref());
    }
    record
}

#[cfg(test)]
mod tests {
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn fields(record: &str) -> Result<Vec<String>, CsvProblem> {
        let mut fields = CsvFields::default();
        fields.parse(record.as_bytes())?;
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
        Ok(fields.iter().map(text).collect())
    }

    #[test]
    fn a_record_comes_apart_at_commas_outside_of_quotes() {
        assert_eq!(fields("a,,b c").unwrap(), ["a", "", "b c"]);
        assert_eq!(
            fields("\"a,b\",\"say \"\"x\"\"\"").unwrap(),
            ["a,b", "say \"x\""]
        );
        assert_eq!(fields("\"two\nlines\",x").unwrap(), ["two\nlines", "x"]);
        assert_eq!(fields("").unwrap(), [""]);
        assert_eq!(fields("5\" disk,x").unwrap(), ["5\" disk", "x"]);
        assert_eq!(fields("a,\"b"), Err(CsvProblem::OpenQuote));
        assert_eq!(fields("a\nb"), Err(CsvProblem::Several));
    }

    #[test]
    fn one_parser_takes_records_of_all_sizes_and_goes_on_after_a_bad_one() {
        let mut parser = CsvFields::default();
        let long = "x".repeat(1000);
        let many = vec!["y"; 500].join(",");
        for (record, expected) in [("a,b", 2), (&long, 1), (&many, 500), ("c", 1)] {
            assert!(parser.parse(b"\"open").is_err());
            assert_eq!(parser.len(), 0);
            parser.parse(record.as_bytes()).unwrap();
            assert_eq!(parser.len(), expected);
            let joined: Vec<_> = parser.iter().map(<[u8]>::to_vec).collect();
            assert_eq!(joined.join(&b","[..]), record.as_bytes());
        }
        assert_eq!(parser.get(1), None);
    }

    #[test]
    fn where_a_record_ends_is_known_from_its_lines_alone() {
        let test = "where_a_record_ends_is_known_from_its_lines_alone";
        for_seeds(test, 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut end = CsvRecordEnd::default();
            let mut fields = CsvFields::default();
            for _ in 0..10_000 {
                let mut record = Vec::new();
                // Until it ends by the look at all of it, or is long enough.
                for goes_on in (0..6).map(|line| line > 0) {
                    // A record does not begin with an empty line.
                    let length = rng.random_range(u32::from(!goes_on)..7);
                    let line: Vec<u8> = (0..length)
                        .map(|_| b"\"\",ax"[rng.random_range(0..5)])
                        .collect();
                    if goes_on {
                        record.push(b'\n');
                    }
                    record.extend_from_slice(&line);
                    let is_whole = fields.parse(&record).is_ok();
                    let told = end.is_after(&line, goes_on);
                    let shown = record.escape_ascii().to_string();
                    assert_eq!(told, is_whole, "{shown}");
                    if is_whole {
                        break;
                    }
                }
            }
            let long = [&b"\""[..], &[b'x'; 1000], &[b','; 100]].concat();
            assert!(!end.is_after(&long, false));
            assert!(end.is_after(b"\"", true));
        });
    }

    #[test]
    fn what_is_joined_comes_apart_again() {
        for all in [
            &["a", "b"][..],
            &["", ""],
            &[""],
            &["", "x", ""],
            &["a,b", "\"", "\n", "\r", " "],
        ] {
            let joined = record(all);
            assert!(!joined.is_empty());
            assert_eq!(fields(std::str::from_utf8(&joined).unwrap()).unwrap(), all);
        }
    }
}
