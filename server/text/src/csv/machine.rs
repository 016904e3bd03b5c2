//! The search for the end of a record. It gets the bytes piece by piece and stores none of them.

use memchr::{memchr, memchr_iter, memchr3};

use super::{CsvDialect, CsvProblem};

/// A malformed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The offset in the record of the byte that is wrong; if a quote is not closed, of that quote.
    pub(crate) at: usize,
    pub(crate) problem: CsvProblem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a field without quotes, or before a field.
    Unquoted,
    /// After the quote that opens a field.
    Quoted,
    /// After a quote that closes the field, unless another quote follows.
    Closed,
}

/// The state of a search for the end of one record. The state in which each byte is read:
///
/// ```text
///   a,"b ""c"" d",eL        L: the line end
///   UUUQQQCQQCQQQCUU        U: unquoted, Q: quoted, C: closed
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    dialect: CsvDialect,
    state: State,
    /// In the state `Unquoted`: true if the previous byte was a delimiter, or there is no previous
    /// byte. A quote then opens a field.
    is_field_start: bool,
    /// The number of bytes of the record so far.
    bytes: usize,
    /// The number of delimiters so far, without those in quotes.
    delimiters: usize,
    /// The offset in the record of the last quote that opened a field. `None` if no field was in
    /// quotes so far, or the offset is unknown, see [`Self::inside_quotes`].
    opened_at: Option<usize>,
}

impl Machine {
    /// Returns a search for the end of a record whose first byte comes next.
    pub(crate) fn new(dialect: CsvDialect) -> Self {
        Self {
            dialect,
            state: State::Unquoted,
            is_field_start: true,
            bytes: 0,
            delimiters: 0,
            opened_at: None,
        }
    }

    /// Returns a search for the end of a record that continues inside a field in quotes. The offset of
    /// that point in the record is unknown.
    pub(crate) fn inside_quotes(dialect: CsvDialect) -> Self {
        Self {
            state: State::Quoted,
            is_field_start: false,
            ..Self::new(dialect)
        }
    }

    /// Searches the next bytes of the record. Returns the index in `bytes` of the line end that ends
    /// the record; `None` if all of `bytes` belong to the record.
    ///
    /// # Errors
    /// If the record is malformed. The search then ends.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let CsvDialect {
            delimiter,
            lenient_quotes,
        } = self.dialect;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Unquoted => {
                    // Delimiters are counted apart, because a search finds at most three bytes.
                    let found = memchr3(b'"', b'\n', b'\r', rest);
                    let searched = &rest[..found.unwrap_or(rest.len())];
                    self.delimiters += memchr_iter(delimiter, searched).count();
                    // Without a byte before the match, the state of the byte before stands.
                    if let Some(&last) = searched.last() {
                        self.is_field_start = last == delimiter;
                    }
                    at += searched.len();
                    match bytes.get(at) {
                        None => {}
                        Some(b'"') if self.is_field_start => {
                            self.state = State::Quoted;
                            self.is_field_start = false;
                            self.opened_at = Some(self.bytes + at);
                            at += 1;
                        }
                        Some(b'"') if lenient_quotes => at += 1,
                        Some(b'"') => {
                            let problem = CsvProblem::QuoteInField(self.fields());
                            return Err(self.malformed(at, problem));
                        }
                        // A line end. It is no part of the record. After a CR the caller skips an
                        // LF, which may be in the next piece.
                        Some(_) => {
                            self.bytes += at;
                            return Ok(Some(at));
                        }
                    }
                }
                State::Quoted => match memchr(b'"', rest) {
                    Some(found) => {
                        self.state = State::Closed;
                        at += found + 1;
                    }
                    None => at = bytes.len(),
                },
                State::Closed => match rest[0] {
                    b'"' => {
                        self.state = State::Quoted;
                        at += 1;
                    }
                    // The byte stays: the next turn counts the delimiter or returns the line end.
                    byte if byte == delimiter || matches!(byte, b'\n' | b'\r') => {
                        self.state = State::Unquoted;
                    }
                    // The byte stays here, too: what follows the closing quote is text of the field.
                    _ if lenient_quotes => self.state = State::Unquoted,
                    _ => {
                        let problem = CsvProblem::TextAfterQuote(self.fields());
                        return Err(self.malformed(at, problem));
                    }
                },
            }
        }
        self.bytes += bytes.len();
        Ok(None)
    }

    /// Ends the record at the end of the file.
    ///
    /// # Errors
    /// If a quote is open, unless the dialect has lenient quotes.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        if self.dialect.lenient_quotes {
            return Ok(());
        }
        match self.open_quote() {
            None => Ok(()),
            Some(at) => Err(Malformed {
                at,
                problem: CsvProblem::OpenQuote,
            }),
        }
    }

    /// Returns the offset in the record of the open quote, or 0 if the offset is unknown; `None` if no
    /// quote is open.
    pub(crate) fn open_quote(&self) -> Option<usize> {
        let is_open = self.state == State::Quoted;
        is_open.then(|| self.opened_at.unwrap_or_default())
    }

    /// Returns the number of searched bytes. Once the record's end was found, this is the length of the
    /// record without its line end.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of the record's fields that have begun so far, at least 1.
    pub(crate) fn fields(&self) -> usize {
        self.delimiters + 1
    }

    /// Returns whether a quote has opened a field in the bytes that were searched so far.
    pub(crate) fn has_quotes(&self) -> bool {
        self.opened_at.is_some()
    }

    fn malformed(&self, at: usize, problem: CsvProblem) -> Malformed {
        Malformed {
            at: self.bytes + at,
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENIENT: CsvDialect = CsvDialect {
        delimiter: b',',
        lenient_quotes: true,
    };

    /// Finds the end of the first record in `text`, which is passed in pieces of `piece` bytes.
    /// Returns the numbers of bytes and fields of the record; `None` if no line end ends it.
    fn ended(
        dialect: CsvDialect,
        text: &str,
        piece: usize,
    ) -> Result<Option<(usize, usize)>, Malformed> {
        let mut machine = Machine::new(dialect);
        for piece in text.as_bytes().chunks(piece) {
            if machine.scan(piece)?.is_some() {
                return Ok(Some((machine.bytes(), machine.fields())));
            }
        }
        machine.finish()?;
        Ok(None)
    }

    #[test]
    fn a_record_ends_at_the_first_line_end_outside_of_quotes_for_any_pieces() {
        for (text, expected) in [
            ("a,b\nc", Some((3, 2))),
            ("a,b\r\nc", Some((3, 2))),
            ("\rb", Some((0, 1))),
            ("\"a\nb\",\"\"\"\n\"\r", Some((11, 2))),
            ("\"\"\n", Some((2, 1))),
            (",\n", Some((1, 2))),
            ("a,b", None),
            ("a,\"b\"", None),
            ("", None),
        ] {
            for piece in 1..=text.len().max(1) {
                let found = ended(CsvDialect::default(), text, piece);
                assert_eq!(found, Ok(expected), "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn malformed_quotes_are_errors_at_their_byte_and_text_in_a_lenient_dialect() {
        let quote = CsvProblem::QuoteInField;
        let text = CsvProblem::TextAfterQuote;
        for (record, at, problem, lenient) in [
            ("a,5\" disk\n", 3, quote(2), Some((9, 2))),
            ("a\"\"b\n", 1, quote(1), Some((4, 1))),
            (" \"a\"\n", 1, quote(1), Some((4, 1))),
            ("\"a\"b,c\n", 3, text(1), Some((6, 2))),
            ("x,\"a\" ,c\n", 5, text(2), Some((8, 3))),
            ("a,\"b\nc,d\n", 2, CsvProblem::OpenQuote, None),
            ("\"", 0, CsvProblem::OpenQuote, None),
        ] {
            for piece in 1..=record.len() {
                let found = ended(CsvDialect::default(), record, piece);
                assert_eq!(found, Err(Malformed { at, problem }), "{record:?}");
                assert_eq!(ended(LENIENT, record, piece), Ok(lenient), "{record:?}");
            }
        }
    }
}
