//! A table as a picker sees it: plain numbers, no I/O.

use std::sync::Arc;

use crate::key::{RunId, SeqNo};
use crate::sstable::KeySketch;

/// The properties of a table by which a picker decides what to merge.
#[derive(Debug, Clone, Copy)]
pub struct TableShape<'a> {
    /// The keyspace that the table is in.
    pub keyspace: &'a str,
    /// The name of the table within its keyspace.
    pub name: &'a str,
    /// The runs of the table, newest first.
    pub runs: &'a [RunShape],
    /// The commits whose states snapshots of the table show, ascending, each once.
    pub bookmarks: &'a [SeqNo],
    /// Whether the database has had no writes and few reads for a while, so that a merge
    /// delays no request and its result lasts.
    pub is_idle: bool,
}

/// The properties of a run by which a picker decides what to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunShape {
    /// The number of the run, which no other run of the database ever had.
    pub id: RunId,
    /// The number of bytes of the run's files.
    pub bytes: u64,
    /// The bytes of the run's largest file. Files that have range tombstones only do not count.
    pub largest_file_bytes: u64,
    /// The number of versions and range tombstones in the run's files.
    pub entries: u64,
    /// The number of different keys in the run's files.
    pub keys: u64,
    /// The number of tombstones among the versions.
    pub tombstones: u64,
    /// A sketch of the keys whose versions in this run hide older versions in older runs. `None` if
    /// the run may hide other versions, too (by range tombstones, or in files that do not open), or
    /// if values in it expire.
    pub overwrites: Option<Arc<KeySketch>>,
    /// About how many of the bytes were kept for snapshots and views that are gone:
    /// rewriting the run gives them back.
    pub garbage_bytes: u64,
    /// A lower bound of the sequence numbers in the run.
    pub smallest_seq: SeqNo,
    /// An upper bound of the sequence numbers in the run.
    pub largest_seq: SeqNo,
    /// Whether the picker must not choose the run: it is being merged, one of its files is damaged,
    /// or a merge failed to read one a short time ago.
    pub is_busy: bool,
}
