//! The formats of rows, on their way into applications and out of them.
//!
//! ```text
//!   names ──> RecordFormat ──> RowDecoder ──> Fields ──> an application, an output
//!                                 ^
//!                            key, value
//! ```
//!
//! Applications get the fields of columns through [`Columns`]. Applications whose rows have
//! several columns put them into key or value as one CSV record ([`csv::record`]) and
//! declare them in a [`RecordFormat`], which the writers of files and the next job use.
//!
//! | file | content |
//! | --- | --- |
//! | `format` | the rows of text, CSV and JSON: from names to fields |
//! | `columns` | the columns that an application uses |
//! | `fields` | the fields of a row, in one buffer |
//! | `column` | the name of a column, and the kind of its fields |
//! | `row_format` | the formats of output files: text, CSV and JSON |
//! | `problem` | problems of rows, and of their declared formats |
//! | `csv` | fields of a CSV record, and back: from `ebb_text` |
//! | `json` | some members of a JSON object |
//! | `number` | exact numbers, and keys in their order |

mod column;
mod columns;
mod fields;
mod format;
mod json;
pub mod number;
mod problem;
mod row_format;

pub use column::{Column, ColumnKind, double_name, set_apart};
pub use columns::{Columns, check, number as number_of, shown};
pub use ebb_text::csv;
pub use ebb_text::csv::{CsvFields, CsvProblem};
pub use fields::Fields;
pub(crate) use format::RowDecoder;
pub use format::{KEY, RecordFormat, VALUE, ValueFormat};
pub use number::Number;
pub use problem::{InvalidInput, InvalidRow, UnknownColumn};
pub use row_format::RowFormat;
