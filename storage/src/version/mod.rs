//! What a table consists of at one moment: its memtables, and the ordered list of
//! its runs.

mod source;
mod table_version;

pub(crate) use source::Source;
pub(crate) use table_version::TableVersion;
