//! Merging runs: what to merge is decided as data, then carried out.

mod covered;
mod execute;
mod picker;
mod retain;

pub(crate) use execute::{compact, wants_compaction};
pub use picker::Bounding;
pub(crate) use retain::Retain;
