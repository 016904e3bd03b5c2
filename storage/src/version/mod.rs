//! What a table consists of at one moment: its memtables, and the ordered list of
//! its runs with the range tombstones that lie in them.

pub(crate) mod key_range;
pub(crate) mod range_tombstones;
pub(crate) mod run;
pub(crate) mod run_builder;
pub(crate) mod source;
pub(crate) mod table_version;
