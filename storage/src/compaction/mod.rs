//! Merging runs: what to merge is decided as data here, and carried out by
//! [`crate::db`], by as many threads as the options allow.

mod claims;
mod covered;
mod pacer;
mod picker;
mod retain;
mod tiered;
mod token_bucket;

pub(crate) use claims::Claims;
pub(crate) use covered::covered_run;
pub(crate) use pacer::Pacer;
pub(crate) use picker::debt_bytes;
pub use picker::{CompactionPicker, Pick, Reason, RunShape, TableShape};
pub(crate) use retain::Retain;
pub use tiered::{Bounding, TieredPicker};
