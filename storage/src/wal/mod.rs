//! The write-ahead log: every commit, in commit order, before it is anywhere
//! else.
//!
//! One log serves all tables. It is cut into segments; a segment goes once all
//! that it holds is in SSTables and the manifest. All segments but the last are
//! durable as a whole, so only the last can end in a torn record.

mod bounded_holds;
#[cfg(any(all(test, not(loom)), feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[expect(
    clippy::disallowed_methods,
    reason = "measures how long a sync took; no content depends on it"
)]
mod log;
mod progress;
mod range_checksums;
mod record;
mod replay;
mod salvage;
mod segment_files;

pub(crate) use bounded_holds::BoundedHold;
pub(crate) use log::{Lsn, Position, SegmentHold, Wal, WalEvent};
pub(crate) use record::SEGMENT_HEADER_BYTES;
pub(crate) use replay::{
    Segment, SegmentReplay, remove_segments, renumbered_header, replay_segment, segments, settle,
};
pub(crate) use salvage::{base_lsn, refuse_other_versions, salvage_segment};
pub(crate) use segment_files::create_segment;
