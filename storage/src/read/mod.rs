//! Reading: sorted sources as one, and what the versions of a key say together.
//!
//! ```text
//!   cursor ──► merge ──► range        many keys, from both ends
//!                          │
//!              fold ◄──────┘          one key: versions newest first, to a value
//!                │
//!   expiry, merger (merge_operator)   judged at one time; operands folded
//! ```

pub(crate) mod cursor;
pub(crate) mod expiry;
pub(crate) mod fold;
pub(crate) mod merge;
pub(crate) mod merge_operator;
pub(crate) mod merger;
pub(crate) mod range;
