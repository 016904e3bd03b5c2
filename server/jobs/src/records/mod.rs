//! What rows look like inside, on their way into applications and out of them.
//!
//! ```text
//!   names ──> RecordFormat ──> RowDecoder ──> Fields ──> an application, an output
//!                                 ^
//!                            key, value
//! ```
//!
//! Applications that look at columns get at them by [`Columns`]. Applications whose rows
//! have several columns put them into key or value as one CSV record ([`csv::record`])
//! and say so by a [`RecordFormat`], by which files are written and the next job reads.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `format` | the rows of text, CSV and JSON: from names to fields |
//! | `columns` | the columns that an application looks at |
//! | `fields` | the fields of a row, in one buffer |
//! | `column` | the name of a column, and what it holds |
//! | `problem` | what is wrong with a row, or with what is said of it |
//! | `csv` | fields of a CSV record, and back: that of `ebb_text` |
//! | `json` | some members of a JSON object |
//! | `number` | exact numbers, and keys in their order |

mod column;
mod columns;
mod fields;
mod format;
mod json;
pub mod number;
mod problem;

pub use column::{Column, ColumnKind, double_name, set_apart};
pub use columns::{Columns, check, number as number_of, shown};
pub use ebb_text::csv;
pub use ebb_text::csv::{CsvFields, CsvProblem};
pub use fields::Fields;
pub(crate) use format::RowDecoder;
pub use format::{KEY, RecordFormat, VALUE, ValueFormat};
pub use number::Number;
pub use problem::{InvalidInput, InvalidRow, UnknownColumn};
