//! Creating and deleting named snapshots.

use super::Engine;
use super::catalog::check_name;
use super::tables::unknown_keyspace;
use crate::boundaries::ReadPoint;
use crate::commit::{encode_snapshot_create, encode_snapshot_delete};
use crate::error::{Error, Result};
use crate::key::SeqNo;
use crate::options::WriteOptions;
use crate::retention::{Bookmark, SnapshotRecord};

impl Engine {
    /// Creates a snapshot of a keyspace, or of one table of it. It is a commit
    /// like any other: nothing is flushed, and nobody waits for it.
    pub(crate) fn create_snapshot(
        &self,
        keyspace: &str,
        name: &str,
        table: Option<&str>,
    ) -> Result<()> {
        check_name("snapshot", name)?;
        let mut last_id = self.snapshot_ops.lock().unwrap();
        if self.retention.find(keyspace, name).is_some() {
            return Err(Error::AlreadyExists {
                what: "snapshot",
                name: name.to_string(),
            });
        }
        let tables = {
            let catalog = self.catalog.read().unwrap();
            if !catalog.has_keyspace(keyspace) {
                return Err(unknown_keyspace(keyspace));
            }
            let mut tables = catalog.tables_of(keyspace);
            if let Some(table) = table {
                tables.retain(|t| t.name == table);
                if tables.is_empty() {
                    return Err(Error::NotFound {
                        what: "table",
                        name: table.to_string(),
                    });
                }
            }
            tables
                .into_iter()
                .map(|table| (table.name.clone(), table.id))
                .collect()
        };
        *last_id += 1;
        let id = *last_id;
        // Its readers judge at this time, whatever number it gets: a view above
        // every commit holds the time until the bookmark does.
        let hold = || ReadPoint {
            seq: SeqNo::MAX,
            judge_ms: self.now_ms(),
        };
        let held = self.retention.register_view(hold);
        let record = SnapshotRecord {
            id,
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            tables,
            single_table: table.is_some(),
            created_ms: held.judge_ms,
        };
        let payload = encode_snapshot_create(&record);
        let outcome = self.commit_record(
            &payload,
            WriteOptions::default(),
            |seq| self.retention.add_bookmark(seq, record),
            |_| (),
        );
        self.retention.release_view(held);
        outcome.inspect_err(|_| self.retention.retract_bookmark(id))?;
        drop(last_id);
        self.after_commit(&[])
    }

    /// Deletes a snapshot. What is open on it stays readable until it is
    /// closed; the space comes back by compaction.
    pub(crate) fn delete_snapshot(&self, keyspace: &str, name: &str) -> Result<()> {
        let one = self.snapshot_ops.lock().unwrap();
        let bookmark = self
            .retention
            .find(keyspace, name)
            .ok_or_else(|| Error::NotFound {
                what: "snapshot",
                name: name.to_string(),
            })?;
        self.remove_bookmark(bookmark.record.id)?;
        match self.forget_uncovered_tables() {
            // The snapshot is deleted; the next deletion or opening tries again.
            Ok(()) | Err(Error::DiskFull { .. }) => {}
            Err(e) => return Err(e),
        }
        drop(one);
        self.signal.compact();
        self.after_commit(&[])
    }

    /// The commit that deletes a snapshot; under `snapshot_ops`.
    pub(super) fn remove_bookmark(&self, id: u64) -> Result<()> {
        let deleted = self.commit_record(
            &encode_snapshot_delete(id),
            WriteOptions::default(),
            |_| (),
            |seq| self.retention.remove_bookmark(seq, id),
        );
        deleted.map(drop)
    }

    /// The snapshots of a keyspace, oldest first.
    pub(crate) fn snapshots_of(&self, keyspace: &str) -> Vec<Bookmark> {
        let mut list = self.retention.bookmarks().list;
        list.retain(|bookmark| bookmark.record.keyspace == keyspace);
        list
    }
}
