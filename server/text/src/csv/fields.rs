//! The split of one record into fields.

use memchr::{memchr, memchr2, memchr3};

use super::{CsvDialect, CsvProblem};

/// A splitter of records into fields, one record at a time. Its buffers are used again for each record, so
/// that it allocates nothing per record.
#[derive(Debug, Clone, Default)]
pub struct CsvFields {
    dialect: CsvDialect,
    /// The fields without their quotes, concatenated.
    text: Vec<u8>,
    /// The ends of the fields in `text`.
    ends: Vec<usize>,
}

impl CsvFields {
    /// Creates a splitter of records in `dialect`.
    pub fn new(dialect: CsvDialect) -> Self {
        Self {
            dialect,
            ..Self::default()
        }
    }

    /// Splits `record`, given without a line end. An empty record has one empty field.
    ///
    /// # Errors
    /// If `record` is not exactly one well-formed record. [`Self::len`] is then 0.
    pub fn parse(&mut self, record: &[u8]) -> Result<(), CsvProblem> {
        self.text.clear();
        self.ends.clear();
        self.split(record).inspect_err(|_| self.ends.clear())
    }

    fn split(&mut self, record: &[u8]) -> Result<(), CsvProblem> {
        let mut at = 0;
        loop {
            at = if record.get(at) == Some(&b'"') {
                self.take_quoted(record, at + 1)?
            } else {
                self.take_unquoted(record, at)?
            };
            self.ends.push(self.text.len());
            if at == record.len() {
                return Ok(());
            }
            // Skips the delimiter.
            at += 1;
        }
    }

    /// Adds the text from `from` on, up to a delimiter or the end of the record, to the current
    /// field: a field without quotes or, in a lenient dialect, the text after a closing quote.
    /// Returns the position at which the text ends.
    fn take_unquoted(&mut self, record: &[u8], from: usize) -> Result<usize, CsvProblem> {
        let rest = &record[from..];
        let bytes = memchr(self.dialect.delimiter, rest).unwrap_or(rest.len());
        let field = &rest[..bytes];
        if memchr3(b'"', b'\n', b'\r', field).is_some() {
            if memchr2(b'\n', b'\r', field).is_some() {
                return Err(CsvProblem::Several);
            }
            if !self.dialect.lenient_quotes {
                return Err(CsvProblem::QuoteInField(self.number()));
            }
        }
        self.text.extend_from_slice(field);
        Ok(from + bytes)
    }

    /// Adds a field in quotes; its text begins at `from`, after the opening quote. Returns the
    /// position of the delimiter that ends the field, or the end of the record.
    fn take_quoted(&mut self, record: &[u8], from: usize) -> Result<usize, CsvProblem> {
        let mut at = from;
        loop {
            let rest = &record[at..];
            let Some(found) = memchr(b'"', rest) else {
                if !self.dialect.lenient_quotes {
                    return Err(CsvProblem::OpenQuote);
                }
                self.text.extend_from_slice(rest);
                return Ok(record.len());
            };
            self.text.extend_from_slice(&rest[..found]);
            at += found + 1;
            match record.get(at) {
                Some(b'"') => {
                    self.text.push(b'"');
                    at += 1;
                }
                None => return Ok(at),
                Some(&byte) if byte == self.dialect.delimiter => return Ok(at),
                Some(b'\n' | b'\r') => return Err(CsvProblem::Several),
                Some(_) if self.dialect.lenient_quotes => return self.take_unquoted(record, at),
                Some(_) => return Err(CsvProblem::TextAfterQuote(self.number())),
            }
        }
    }

    /// Returns the number of the current field, from 1.
    fn number(&self) -> usize {
        self.ends.len() + 1
    }

    /// Returns the number of fields of the last record.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no fields: the last record was malformed, or there was none yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text of a field of the last record, without its quotes; `None` if the record has
    /// no field with this index. The first field has the index 0.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// Returns the fields of the last record.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use ebb_test_support::seed::for_seeds;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::{Machine, push_record, record};
    use super::*;

    fn fields_as(dialect: CsvDialect, record: &str) -> Result<Vec<String>, CsvProblem> {
        let mut fields = CsvFields::new(dialect);
        fields.parse(record.as_bytes())?;
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
        Ok(fields.iter().map(text).collect())
    }

    fn fields(record: &str) -> Result<Vec<String>, CsvProblem> {
        fields_as(CsvDialect::default(), record)
    }

    #[test]
    fn a_record_comes_apart_at_delimiters_outside_of_quotes() {
        assert_eq!(fields("a,,b c").unwrap(), ["a", "", "b c"]);
        let quoted = fields("\"a,b\",\"say \"\"x\"\"\"").unwrap();
        assert_eq!(quoted, ["a,b", "say \"x\""]);
        assert_eq!(fields("\"two\r\nlines\",x").unwrap(), ["two\r\nlines", "x"]);
        assert_eq!(fields("").unwrap(), [""]);
        assert_eq!(fields("a,").unwrap(), ["a", ""]);
        let semicolons = CsvDialect {
            delimiter: b';',
            ..CsvDialect::default()
        };
        let found = fields_as(semicolons, "a,b;\"c;d\"").unwrap();
        assert_eq!(found, ["a,b", "c;d"]);
    }

    #[test]
    fn malformed_quotes_are_errors_unless_the_dialect_is_lenient() {
        let lenient = CsvDialect {
            lenient_quotes: true,
            ..CsvDialect::default()
        };
        for (record, problem, repaired) in [
            (
                "5\" disk,x",
                CsvProblem::QuoteInField(1),
                &["5\" disk", "x"][..],
            ),
            ("x,\"a\"b\"", CsvProblem::TextAfterQuote(2), &["x", "ab\""]),
            ("a,\"b,c", CsvProblem::OpenQuote, &["a", "b,c"]),
        ] {
            assert_eq!(fields(record), Err(problem), "{record:?}");
            assert_eq!(fields_as(lenient, record).unwrap(), repaired, "{record:?}");
        }
        for several in ["a\nb", "a\rb", "\"a\"\nb"] {
            assert_eq!(fields(several), Err(CsvProblem::Several), "{several:?}");
        }
    }

    #[test]
    fn one_splitter_takes_records_of_all_sizes_and_goes_on_after_a_malformed_one() {
        let mut fields = CsvFields::default();
        let long = "x".repeat(1000);
        let many = vec!["y"; 500].join(",");
        for (record, expected) in [("a,b", 2), (&long, 1), (&many, 500), ("c", 1)] {
            assert!(fields.parse(b"a,\"open").is_err());
            assert!(fields.is_empty());
            fields.parse(record.as_bytes()).unwrap();
            assert_eq!(fields.len(), expected);
            let joined: Vec<_> = fields.iter().map(<[u8]>::to_vec).collect();
            assert_eq!(joined.join(&b","[..]), record.as_bytes());
        }
        assert_eq!(fields.get(1), None);
    }

    /// Returns random text, mostly of bytes that have a meaning in CSV.
    fn drawn(rng: &mut ChaCha8Rng, bytes: usize) -> Vec<u8> {
        let byte = |_| b"\"\",,\n\rax "[rng.random_range(0..9)];
        (0..bytes).map(byte).collect()
    }

    /// Returns the record that [`Machine`] finds at the start of `text`: the offset of its end, and its
    /// fields. `None` if it is malformed.
    fn first(text: &[u8]) -> Option<(usize, Vec<Vec<u8>>)> {
        let mut machine = Machine::new(CsvDialect::default());
        let end = machine.scan(text).ok()?;
        if end.is_none() {
            machine.finish().ok()?;
        }
        let mut fields = CsvFields::default();
        let record = &text[..machine.bytes()];
        fields.parse(record).expect("the machine accepts it");
        assert_eq!(fields.len(), machine.fields(), "{}", record.escape_ascii());
        let all = fields.iter().map(<[u8]>::to_vec).collect();
        Some((machine.bytes(), all))
    }

    #[test]
    fn well_formed_records_have_the_fields_that_the_crate_csv_finds() {
        let test = "well_formed_records_have_the_fields_that_the_crate_csv_finds";
        for_seeds(test, 1, |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut accepted = 0;
            for _ in 0..50_000 {
                let bytes = rng.random_range(1..12);
                let text = drawn(&mut rng, bytes);
                // The crate `csv` skips empty lines.
                if matches!(text[0], b'\n' | b'\r') {
                    continue;
                }
                let Some((_, found)) = first(&text) else {
                    continue;
                };
                accepted += 1;
                let mut reader = ::csv::ReaderBuilder::new()
                    .has_headers(false)
                    .flexible(true)
                    .from_reader(&text[..]);
                let expected = reader.byte_records().next().unwrap().unwrap();
                let expected: Vec<_> = expected.iter().map(<[u8]>::to_vec).collect();
                assert_eq!(found, expected, "{}", text.escape_ascii());
            }
            assert!(accepted > 5000, "{accepted}");
        });
    }

    #[test]
    fn joined_fields_are_split_again() {
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
            let mut split = CsvFields::default();
            split.parse(&joined).unwrap();
            let mut again = Vec::new();
            push_record(&mut again, &split);
            assert!(!again.is_empty());
            assert_eq!(fields(std::str::from_utf8(&again).unwrap()).unwrap(), all);
        }
    }
}
