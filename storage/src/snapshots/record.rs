//! What is recorded of a named snapshot: the one place where its name is kept.

use serde::{Deserialize, Serialize};

use super::SnapshotTables;
use super::stored::StoredBookmarks;
use crate::key::{ReadPoint, SeqNo};
use crate::mutation::{self, Mutation};

/// A named snapshot as it stands in the WAL and in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRecord {
    /// Never used twice, so that a deletion is never of a namesake.
    pub(crate) id: u64,
    pub(crate) keyspace: String,
    pub(crate) name: String,
    /// The tables that it covers, by name and id: its catalog.
    pub(crate) tables: SnapshotTables,
    /// Whether it was asked for one table.
    pub(crate) single_table: bool,
    /// Milliseconds since the Unix epoch: when its readers judge what expires.
    pub(crate) created_ms: u64,
    /// From then on it is as good as deleted, and soon is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<u64>,
}

impl SnapshotRecord {
    /// Whether it is past its time.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        let now_ms = mutation::replace(now_ms, Mutation::SnapshotsNeverExpire, 0);
        let now_ms = mutation::replace(now_ms, Mutation::SnapshotsExpireAtOnce, u64::MAX);
        self.expires_ms.is_some_and(|expires| expires <= now_ms)
    }
}

/// A new snapshot looks for an equal list of tables in this many snapshots before it, to share it.
const SHARED_WITH: usize = 64;

/// A change of the time at which a snapshot expires, as it stands in the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotExpiry {
    pub(crate) id: u64,
    /// `None`: never.
    pub(crate) expires_ms: Option<u64>,
}

/// A snapshot with the number it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bookmark {
    pub(crate) seq: SeqNo,
    pub(crate) record: SnapshotRecord,
}

impl Bookmark {
    /// Where its readers stand.
    pub(crate) fn point(&self) -> ReadPoint {
        ReadPoint {
            seq: self.seq,
            read_time_ms: self.record.created_ms,
        }
    }
}

/// All bookmarks, exact as of the commit `as_of`: the form in which the
/// manifest keeps them. Replay skips snapshot operations numbered `<= as_of`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredBookmarks", try_from = "StoredBookmarks")]
pub(crate) struct Bookmarks {
    pub(crate) as_of: SeqNo,
    /// The largest id that a snapshot ever had, deleted ones included.
    pub(crate) last_id: u64,
    /// Ascending by number.
    pub(crate) list: Vec<Bookmark>,
}

impl Bookmarks {
    /// Adds the bookmark that the commit `seq` creates. This and what follows is
    /// called in commit order.
    pub(crate) fn add(&mut self, seq: SeqNo, mut record: SnapshotRecord) {
        self.as_of = seq;
        self.last_id = record.id.max(self.last_id);
        let mut latest = self.list.iter().rev().take(SHARED_WITH);
        if let Some(same) = latest.find(|other| other.record.tables == record.tables) {
            record.tables = same.record.tables.clone();
        }
        self.list.push(Bookmark { seq, record });
    }

    pub(crate) fn remove(&mut self, seq: SeqNo, id: u64) {
        self.as_of = seq;
        self.list.retain(|bookmark| bookmark.record.id != id);
    }

    /// Sets the time at which a snapshot expires by the commit `seq`.
    pub(crate) fn set_expiry(&mut self, seq: SeqNo, expiry: SnapshotExpiry) {
        self.as_of = seq;
        let mut list = self.list.iter_mut();
        if let Some(bookmark) = list.find(|bookmark| bookmark.record.id == expiry.id) {
            bookmark.record.expires_ms = expiry.expires_ms;
        }
    }
}
