//! The state of a table at one moment: its memtables, and the ordered list of its runs. A
//! [`Lookup`] of a key goes through them, and a [`ChangeWindow`] finds the sources of the
//! changes between two readers.

mod change_window;
mod layer;
mod lookup;
mod source;
mod table_version;
mod tombstones;

pub(crate) use change_window::ChangeWindow;
use layer::Layer;
pub(crate) use lookup::Lookup;
pub(crate) use source::Source;
pub(crate) use table_version::TableVersion;
pub(crate) use tombstones::Tombstones;
