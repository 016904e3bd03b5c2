//! CSV as in RFC 4180: the ends of records, their fields, and writing of records.
//!
//! ```text
//!   bytes ─> Machine: the end of the record, or an error
//!   a record ─> CsvFields ─> fields ─> push_field, push_record ─> a record
//! ```
//!
//! The module never repairs a record: a quote inside a field without quotes, text after a closing
//! quote and an unclosed quote are errors, unless the [dialect](CsvDialect) is lenient. The crate
//! `csv` silently accepts all three, so ebb has a reader of its own. Tests compare it with that
//! crate on well-formed records.

mod fields;
mod machine;
mod names;
mod write;

pub use fields::CsvFields;
pub(crate) use machine::{Machine, Malformed};
pub use names::problem_of_names;
pub use write::{push_field, push_fields, push_record, record};

/// The format of the records of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvDialect {
    /// The byte between two fields: ASCII, and neither a quote nor a line end nor NUL.
    pub delimiter: u8,
    /// Accepts malformed quotes as text: a quote inside a field that does not begin with one, and
    /// all text after a closing quote, belong to the field. A field whose quote is not closed extends to
    /// the end of the file.
    pub lenient_quotes: bool,
}

impl Default for CsvDialect {
    /// Commas and strict quotes: the format that ebb writes.
    fn default() -> Self {
        Self {
            delimiter: b',',
            lenient_quotes: false,
        }
    }
}

impl CsvDialect {
    /// Returns whether `delimiter` can separate fields: see [`CsvDialect::delimiter`].
    pub fn is_delimiter(delimiter: u8) -> bool {
        delimiter.is_ascii() && !matches!(delimiter, b'"' | b'\n' | b'\r' | 0)
    }
}

/// The reason why bytes are not one CSV record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CsvProblem {
    /// A field in quotes does not end.
    #[error("a quote is still open at the end of the CSV record")]
    OpenQuote,
    /// The field with this number, from 1, contains a quote but does not begin with one.
    #[error("a quote stands inside field {0}, which does not begin with a quote")]
    QuoteInField(usize),
    /// The closing quote of the field with this number, from 1, is followed by a byte that is
    /// neither a delimiter nor a line end.
    #[error("text follows the closing quote of field {0}")]
    TextAfterQuote(usize),
    /// The bytes contain a line end outside of quotes, so they are several records.
    #[error("there is more than one CSV record")]
    Several,
}
