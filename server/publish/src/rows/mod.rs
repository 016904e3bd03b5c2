//! The rows of a published table: where the row of a key is, which rows are deleted, and the values of those
//! that are left.
//!
//! ```text
//!   key ─► Positions ─► RowPosition ─► PositionalDeletes ─► delete files of the next publication
//!             │
//!             └─ a cursor per file: index ─► rows around the key ─► columns of the key, page by page
//! ```
//!
//! A key is a string of bytes that the caller makes of the columns of the primary key. The rows of a data
//! file come in ascending order of their keys. Only the pages of the key's columns that a key may be in are
//! read, in batches, so the memory of a search does not grow with the files.
//!
//! | file | content |
//! | --- | --- |
//! | `keys` | the key of a row, from its columns |
//! | `files` | the data files of a table, with their least and greatest keys |
//! | `positions` | the position of the row of a key among all files |
//! | `cursor` | the same in one file |
//! | `deletes` | positional delete files, written and read |
//! | `left` | the rows of a data file that are not deleted |
//! | `batches` | columns of a data file in batches, from any row on |

mod batches;
mod cursor;
mod deletes;
mod error;
mod files;
mod keys;
mod left;
mod positions;
#[cfg(test)]
mod rounds;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use self::deletes::{PositionalDeletes, RowPosition};
pub use self::error::RowsError;
pub use self::files::RowFiles;
pub use self::keys::RowKeys;
pub use self::left::LeftRows;
pub use self::positions::Positions;

type Result<T> = std::result::Result<T, RowsError>;
