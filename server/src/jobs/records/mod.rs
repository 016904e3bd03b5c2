//! What the values of rows look like inside: nothing, CSV or JSON.
//!
//! Applications that look at columns get at them by [`Columns`]. Applications
//! whose rows have several columns put them into a value as one CSV record
//! ([`csv::record`]), whatever the output, so that the rows of one job can be
//! what the next one reads.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `csv` | fields of a CSV record, and back |
//! | `json` | some members of a JSON object |
//! | `columns` | the columns that an application looks at |
//! | `number` | numbers in text, and keys in the order of numbers |

mod columns;
pub mod csv;
mod json;
pub mod number;

pub use columns::{Columns, RecordFormat, UnknownColumn};
pub use csv::{CsvFields, CsvProblem, CsvRecordEnd};
