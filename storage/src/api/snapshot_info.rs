//! Facts about snapshots that are known without opening them.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::compaction::PinEstimate;
use crate::db::{DbInner, TableCore};
use crate::key::SeqNo;
use crate::runs::Run;
use crate::snapshots::{Bookmark, SnapshotRecord};
use crate::version::TableVersion;

/// The tables that a snapshot was created to cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotScope {
    /// All tables that the keyspace had when the snapshot was created.
    Keyspace,
    /// This table alone.
    Table(String),
}

/// Facts about a snapshot that are known without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The snapshot's name, unique in its keyspace.
    pub name: String,
    /// The commit whose state the snapshot shows.
    pub seq: SeqNo,
    /// The tables that the snapshot covers.
    pub tables: Vec<String>,
    /// Whether the snapshot covers the keyspace or one table.
    pub scope: SnapshotScope,
    /// The time of creation, by the clock of the database.
    pub created: SystemTime,
    /// The time at which the snapshot expires and is deleted, unless a user deletes it before; `None`
    /// if it never expires.
    pub expires: Option<SystemTime>,
    /// The number of runs on disk that a read of the whole snapshot touches. Other snapshots, and
    /// reads of the current data, may need some of these runs, too.
    pub runs: usize,
    /// The number of files in these runs.
    pub files: usize,
    /// The bytes of these runs. A read of the whole snapshot reads at most as many.
    pub approximate_bytes: u64,
    /// About how many bytes of the files are kept for this snapshot alone, estimated without
    /// reading. [`Db::snapshot_pins`](crate::Db::snapshot_pins) counts them.
    pub pinned_bytes: u64,
    /// The likely error of the estimate `pinned_bytes`. If the error is about as large as
    /// `pinned_bytes`, the estimate means little.
    pub pinned_error_bytes: u64,
    /// The note of the holder of a [hold](crate::Keyspace::hold_snapshot); `None` for a snapshot.
    pub held_for: Option<String>,
}

/// A table that snapshots cover, with the facts that are the same for all of these snapshots.
struct Covered {
    table: Arc<TableCore>,
    version: Arc<TableVersion>,
    /// For each commit at which a snapshot or a view reads, the bytes that are kept only for the
    /// snapshots and views at this commit.
    alone: HashMap<SeqNo, PinEstimate>,
}

impl Covered {
    fn new(db: &DbInner, table: Arc<TableCore>) -> Self {
        let version = table.version();
        let mut alone: HashMap<SeqNo, PinEstimate> = HashMap::new();
        // Computed only if something is kept.
        let seqs = LazyCell::new(|| db.snapshots.boundary_seqs(table.span()));
        for kept in version.all_runs().flat_map(|run| &run.meta().kept_for) {
            let from = seqs.partition_point(|seq| *seq < kept.from);
            let to = seqs.partition_point(|seq| *seq <= kept.to);
            if to == from + 1 {
                *alone.entry(seqs[from]).or_default() += PinEstimate::exactly(kept.bytes);
            }
        }
        drop(seqs);
        for (seq, pinned) in db.pin_estimates(&table, &version).alone {
            *alone.entry(seq).or_default() += pinned;
        }
        Self {
            table,
            version,
            alone,
        }
    }
}

impl SnapshotInfo {
    /// Returns a [`SnapshotInfo`] for each of `bookmarks` (the records of snapshots, each with the
    /// commit at which the snapshot reads), in the same order.
    pub(super) fn list(db: &DbInner, bookmarks: Vec<Bookmark>) -> Vec<Self> {
        let mut tables = db.tables();
        tables.retain(|table| {
            let covers = |bookmark: &Bookmark| bookmark.covers(table.span());
            bookmarks.iter().any(covers)
        });
        // Each snapshot lists its tables by name.
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let tables = tables.into_iter().map(|table| Covered::new(db, table));
        let tables: Vec<_> = tables.collect();
        let infos = bookmarks.into_iter().map(|it| Self::new(it, &tables));
        infos.collect()
    }

    fn new(bookmark: Bookmark, tables: &[Covered]) -> Self {
        let time = |ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        let (mut runs, mut files, mut approximate_bytes) = (0, 0, 0);
        let mut pinned = PinEstimate::default();
        let mut names = Vec::new();
        let covered = tables.iter();
        for it in covered.filter(|it| bookmark.covers(it.table.span())) {
            let seen = |run: &&Arc<Run>| run.is_seen_at(bookmark.seq);
            for run in it.version.all_runs().filter(seen) {
                runs += 1;
                files += run.files().len();
                approximate_bytes += run.meta().bytes();
            }
            pinned += it.alone.get(&bookmark.seq).copied().unwrap_or_default();
            names.push(it.table.name.clone());
        }
        let Bookmark { seq, record } = bookmark;
        Self {
            scope: scope_of(&record),
            name: record.name,
            seq,
            tables: names,
            created: time(record.created_ms).unwrap_or(UNIX_EPOCH),
            expires: record.expires_ms.and_then(time),
            runs,
            files,
            approximate_bytes,
            pinned_bytes: pinned.bytes.min(approximate_bytes),
            pinned_error_bytes: pinned.error_bytes,
            held_for: record.held_for,
        }
    }
}

/// Returns the tables that a snapshot was taken of.
pub(super) fn scope_of(record: &SnapshotRecord) -> SnapshotScope {
    let only = record.table.as_ref();
    only.map_or(SnapshotScope::Keyspace, |only| {
        SnapshotScope::Table(only.name.clone())
    })
}
