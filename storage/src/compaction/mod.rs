//! Merging runs: what to merge is decided as data, then carried out, by as many
//! threads as the options allow.

mod claims;
mod covered;
mod execute;
mod pacer;
mod picker;
mod retain;
mod tiered;
mod token_bucket;

pub(crate) use claims::Claims;
pub(crate) use execute::{compact, table_debt_bytes, wants_compaction};
pub(crate) use pacer::Pacer;
pub use picker::{CompactionPicker, Pick, Reason, RunShape, TableShape};
pub(crate) use retain::Retain;
pub use tiered::{Bounding, TieredPicker};
