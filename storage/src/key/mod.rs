//! The vocabulary of the store, without I/O: numbers, ids, versions, ranges of keys,
//! what is deleted and what expires.
//!
//! Everything sorted in this crate is sorted the same way: user key ascending
//! (bytewise), then sequence number *descending*, so that a seek to `(key, S)`
//! lands on the newest version of `key` that a reader at `S` may see.
//!
//! ```text
//!   (a, 9) < (a, 4) < (b, 12) < (b, 7) < (b, 1)
//!             ^ seek(a, 8)
//! ```
//!
//! Every other module may use this one. It uses none but the clock's and errors.

mod boundaries;
mod cursor;
pub(crate) mod expiry;
mod ids;
mod key_bounds;
mod key_range;
mod limits;
mod range_tombstones;
mod seq_no;
mod version;

pub(crate) use boundaries::{Boundaries, ReadPoint, stripe};
pub(crate) use cursor::Cursor;
pub(crate) use expiry::ReadTime;
pub use ids::RunId;
pub(crate) use ids::{FileNumber, TableId};
pub(crate) use key_bounds::KeyBounds;
pub(crate) use key_range::{KeyRange, is_before};
pub(crate) use limits::{FOLDED_BYTES_MAX, UNFOLDED_BYTES_MAX, check_lengths};
pub use limits::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub(crate) use range_tombstones::{Fragment, PIECES_MAX, RangeTombstone, RangeTombstones};
pub(crate) use seq_no::NUMBER_MAX;
pub use seq_no::SeqNo;
pub(crate) use version::{Kind, Version, compare_versions};
