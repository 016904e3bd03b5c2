//! The way from writes to commits: batches, numbers, visibility, conflicts.

mod conflicts;
mod group_commit_delay;
#[expect(
    clippy::disallowed_methods,
    reason = "waits for neighbours in real time; no content depends on it"
)]
mod groups;
mod ops;
mod payload;
mod queue;
mod write_set;

#[cfg(all(test, loom))]
pub(crate) use conflicts::Pruned;
pub(crate) use conflicts::{Clash, Conflicts};
pub(crate) use groups::Groups;
pub(crate) use ops::{Op, OpReader, encode_ingest, encode_snapshot};
pub(crate) use payload::Payload;
pub(crate) use queue::{CommitQueue, Place, Ticket};
pub(crate) use write_set::{TableKey, TableRange, WriteSet, split_table_key, table_key};
