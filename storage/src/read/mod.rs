//! Reading: sorted sources merged into one, and the versions of each key folded into its
//! value.
//!
//! ```text
//!   Merge       many cursors, forwards or backwards
//!     │
//!   Fold        one key: versions newest first, to a value
//!     │
//!   Merger      operands folded by the table's MergeOperator
//! ```

mod enough;
mod fold;
mod garbage;
mod key_prefixes;
mod merge;
mod merge_operator;
mod merger;
mod value_bounds;

pub use enough::FoundSoFar;
pub(crate) use enough::IsEnough;
pub(crate) use fold::{Base, Fold};
pub(crate) use garbage::timestamps_of;
pub use garbage::{Group, PurgeContext, Purged, TimestampBounds};
pub use key_prefixes::FilterPrefix;
pub(crate) use key_prefixes::{KeyPrefixes, PrefixesOf};
pub(crate) use merge::Merge;
pub use merge_operator::{MergeOperator, MergeOperators};
pub(crate) use merger::Merger;
pub(crate) use value_bounds::bounds_of;
pub use value_bounds::{ExpiryBounds, ValueBounds};
