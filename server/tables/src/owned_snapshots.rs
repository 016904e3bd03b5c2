//! The snapshots that roles created, for their quotas.
//!
//! ```text
//! ebb_system.role_snapshots   id of the role, sequence number of the snapshot -> record
//! ```
//!
//! A record is written after its snapshot, and removed after it: no commit has both. A crash in between
//! leaves a snapshot that does not count for its role, or a record of a snapshot that is gone. The former
//! is dropped as any other snapshot, because the permission SNAPSHOT decides who may drop it. The latter
//! never counts, because a later snapshot of the same name has another sequence number. Records also
//! stay when a snapshot expires, or goes with its keyspace or without the catalog. The next opening
//! removes them, and each new snapshot of the role some of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebb_model::access::OwnedSnapshot;
use ebb_storage::{Db, SeqNo, Table, WriteBatch, WriteOptions};

use super::damage::readable;
use super::error::Result;

/// The table of the records, in [`SYSTEM_KEYSPACE`](crate::names::SYSTEM_KEYSPACE).
pub(super) const ROLE_SNAPSHOTS_TABLE: &str = "role_snapshots";

/// The maximal number of stale records of a role that are removed when the role creates a snapshot.
/// A record is stale if its snapshot no longer exists, for example because it has expired. The
/// limit bounds the bytes that a creation writes. It is above 1, because each creation also adds a
/// record: so the number of stale records falls.
const GONE_MAX: usize = 8;

/// The snapshots that roles created. Some of them may no longer exist.
#[derive(Debug)]
pub(super) struct OwnedSnapshots {
    records: Table,
    /// Locked after all other locks of the roles and of the catalog.
    by_role: Mutex<ByRole>,
}

/// The snapshots by the id of their role, then by sequence number.
type ByRole = HashMap<u64, BTreeMap<u64, OwnedSnapshot>>;

impl OwnedSnapshots {
    /// Reads the records, up to the first that a damaged file makes unreadable. Leaves out records that
    /// cannot be decoded. Snapshots whose records are not read do not count for the quotas of their roles.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn open(records: Table) -> Result<Self> {
        let by_role = Mutex::new(read(&records)?);
        Ok(Self { records, by_role })
    }

    /// Reads again which snapshots each role created, after damaged files were replaced. Snapshots that
    /// were read before stay.
    ///
    /// # Errors
    /// If the store failed for another reason than damage: nothing is changed.
    pub(super) fn reread(&self) -> Result<()> {
        let mut by_role = self.lock();
        for (role, all) in read(&self.records)? {
            by_role.entry(role).or_default().extend(all);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, ByRole> {
        self.by_role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a role's snapshots that exist.
    pub(super) fn count_existing(&self, db: &Db, role: u64) -> usize {
        let by_role = self.lock();
        let all = by_role.get(&role).into_iter().flat_map(BTreeMap::values);
        all.filter(|owned| exists(db, owned)).count()
    }

    /// Adds to `batch` a record for each snapshot in `all` that still exists. These snapshots count
    /// for the role's quota at once.
    pub(super) fn put_existing(
        &self,
        db: &Db,
        batch: &mut WriteBatch,
        role: u64,
        all: Vec<OwnedSnapshot>,
    ) {
        let mut by_role = self.lock();
        for owned in all.into_iter().filter(|owned| exists(db, owned)) {
            batch.put(
                &self.records,
                &OwnedSnapshot::key(role, owned.seq),
                &owned.encode(),
            );
            by_role.entry(role).or_default().insert(owned.seq, owned);
        }
    }

    /// Adds to `batch` the removal of each record whose snapshot no longer exists.
    pub(super) fn remove_gone(&self, db: &Db, batch: &mut WriteBatch) {
        let mut by_role = self.lock();
        by_role.retain(|role, all| {
            all.retain(|seq, owned| {
                let exists = exists(db, owned);
                if !exists {
                    batch.delete(&self.records, &OwnedSnapshot::key(*role, *seq));
                }
                exists
            });
            !all.is_empty()
        });
    }

    /// Records durably that a role has created a snapshot, and removes at most [`GONE_MAX`] stale records
    /// of the role. So the number of bytes that this writes does not depend on the number of snapshots.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn add(&self, db: &Db, role: u64, created: OwnedSnapshot) -> Result<()> {
        let mut by_role = self.lock();
        let all = by_role.entry(role).or_default();
        let gone = all.values().filter(|owned| !exists(db, owned));
        let gone: Vec<u64> = gone.map(|owned| owned.seq).take(GONE_MAX).collect();
        let mut batch = WriteBatch::new();
        for seq in &gone {
            batch.delete(&self.records, &OwnedSnapshot::key(role, *seq));
        }
        batch.put(
            &self.records,
            &OwnedSnapshot::key(role, created.seq),
            &created.encode(),
        );
        db.write_with(batch, WriteOptions { sync: true })?;
        all.retain(|seq, _| !gone.contains(seq));
        all.insert(created.seq, created);
        Ok(())
    }

    /// Removes the record of the deleted snapshot with the sequence number `seq`, also on a full disk. Does
    /// nothing if there is no record, or if the snapshot still exists. The caller syncs the log.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn remove(&self, db: &Db, seq: SeqNo) -> Result<()> {
        let mut by_role = self.lock();
        // A hold is deleted as a snapshot is, and stands at the commit of a snapshot, which may be there
        // still.
        let is_gone = |owned: &OwnedSnapshot| !exists(db, owned);
        let mut roles = by_role.iter();
        let of = roles.find_map(|(role, all)| {
            let has_gone = all.get(&seq.0).is_some_and(is_gone);
            has_gone.then_some(*role)
        });
        let Some(role) = of else {
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        batch.delete(&self.records, &OwnedSnapshot::key(role, seq.0));
        db.write_freeing(batch, WriteOptions::default())?;
        if let Some(all) = by_role.get_mut(&role) {
            all.remove(&seq.0);
        }
        Ok(())
    }

    /// Adds to `batch` the removal of all records of a role. Call [`OwnedSnapshots::forget_role`]
    /// once the batch is written.
    pub(super) fn remove_role(&self, batch: &mut WriteBatch, role: u64) {
        if self.lock().contains_key(&role) {
            batch.delete_range(&self.records, OwnedSnapshot::keys_of(role));
        }
    }

    pub(super) fn forget_role(&self, role: u64) {
        self.lock().remove(&role);
    }
}

fn read(records: &Table) -> Result<ByRole> {
    let mut by_role = ByRole::new();
    for entry in records.range::<&[u8], _>(..) {
        let Ok((key, value)) = readable(entry)? else {
            break;
        };
        if let Ok((role, owned)) = OwnedSnapshot::decode(&key, &value) {
            by_role.entry(role).or_default().insert(owned.seq, owned);
        }
    }
    Ok(by_role)
}

/// Returns the sequence number of a snapshot; `None` if it does not exist.
pub(super) fn seq_of(db: &Db, keyspace: &str, snapshot: &str) -> Option<u64> {
    let of = db.existing_keyspace(keyspace).ok()?;
    Some(of.snapshot_seq(snapshot).ok()?.0)
}

fn exists(db: &Db, owned: &OwnedSnapshot) -> bool {
    seq_of(db, &owned.keyspace, &owned.name) == Some(owned.seq)
}
