//! Merging runs, as decisions: what to merge, and what of it to keep. They are carried
//! out by [`crate::db`], by as many threads as the options allow.
//!
//! ```text
//!   TableShape ── CompactionPicker ──► Pick ── check ──► neighbouring runs
//!   boundaries, versions of a key ── Retain ──► kept versions, and their readers
//! ```
//!
//! Invariant: the content of a table does not depend on the picks.

mod claims;
mod covered;
mod estimate;
mod fruitless;
mod lanes;
mod pick;
mod pin_counter;
mod pin_estimate;
mod purge;
mod refusal;
mod retain;
mod room;
mod shape;
mod tiered;
mod under_way;
mod unfinished;

pub(crate) use claims::{Claim, Claims};
pub(crate) use covered::covered_run;
pub(crate) use estimate::{debt_bytes, merged};
pub(crate) use fruitless::{Fruitless, Rewriting};
pub(crate) use pick::ask;
pub use pick::{CompactionPicker, Pick};
pub(crate) use pin_counter::PinCounter;
pub use pin_counter::PinnedBytes;
pub(crate) use pin_estimate::{PinEstimate, PinEstimates, pin_estimates};
pub(crate) use purge::{OtherParts, Purger};
pub(crate) use refusal::Refusal;
pub(crate) use retain::Retain;
pub(crate) use room::{gives_space_back, output_bytes, part_room_bytes, room_bytes};
pub use shape::{RunShape, TableShape};
pub use tiered::{Bounding, TieredPicker};
pub(crate) use under_way::{MergesUnderWay, Watched};
pub(crate) use unfinished::{Unfinished, unfinished};
