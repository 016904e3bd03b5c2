//! The single reader of text, CSV and JSON lines, for loads and for jobs.
//!
//! ```text
//!   a file ─> Content: plain, gzip, or an unreadable format
//!     plain, or gunzip ─> Records ─> a record, its place, its line
//!     plain ─> record_border: a place where a part may begin; likely_border: one for a sample
//! ```
//!
//! Invariants:
//!
//! - A line ends with LF, CRLF or CR, in any mixture. A byte order mark at the start is not part of
//!   the first record.
//! - A record is UTF-8 without NUL, of at most [`LINE_BYTES_MAX`]. A CSV record is well formed and
//!   has as many fields as the first one; a JSON line is an object. Anything else is an error with
//!   the line, and nothing is repaired unless a [CSV dialect](crate::csv::CsvDialect) is lenient.
//! - The parts of a file, read one by one, contain exactly the records of the whole file.
//!
//! | file | content |
//! | --- | --- |
//! | `records` | the records of a file or of a part of it |
//! | `border` | the search for a place where a part of a file may begin |
//! | `content` | the kind of a file by its first bytes |
//! | `encoding` | byte order marks, UTF-8 |
//! | `gzip` | decompression, and damaged files |
//! | `json` | the validation of a JSON line |
//! | `line_ends` | the ends of lines, and their number |
//! | `sniff` | whether a file can be text, by its start |

mod border;
mod content;
mod encoding;
mod gzip;
mod json;
mod line_ends;
mod records;
mod sniff;

pub use border::{likely_border, record_border};
pub(crate) use content::START_BYTES;
pub use content::{Content, ForeignContent};
pub(crate) use encoding::{mark_bytes, problem_of};
pub use gzip::gunzip;
pub(crate) use line_ends::count as line_ends_in;
pub use line_ends::count_line_ends;
pub use records::{LINE_BYTES_MAX, Record, RecordError, RecordKind, Records};
#[cfg(test)]
pub(crate) use sniff::SNIFF_BYTES;
pub use sniff::{NotText, sniff};
