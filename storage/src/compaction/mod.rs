//! Merging runs: what to merge is decided as data, then carried out.

mod execute;
mod picker;
mod stripes;

pub(crate) use execute::{compact, wants_compaction};
pub use picker::Bounding;
pub(crate) use stripes::{retain_versions, stripe};
