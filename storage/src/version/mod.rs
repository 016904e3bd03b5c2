//! What a table consists of at one moment: its memtables, and the ordered list of
//! its runs. A [`Lookup`] of a key goes through them.

mod layer;
mod lookup;
mod source;
mod table_version;
mod tombstones;

use layer::Layer;
pub(crate) use lookup::Lookup;
pub(crate) use source::Source;
pub(crate) use table_version::TableVersion;
pub(crate) use tombstones::Tombstones;
