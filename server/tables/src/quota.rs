//! The quota of snapshots per role: each snapshot keeps old versions on disk.

use std::sync::{MutexGuard, PoisonError};

use ebb_model::access::OwnedSnapshot;
use ebb_storage::SeqNo;

use super::error::Result;
use super::owned_snapshots::seq_of;
use super::roles::RoleStore;

/// The error for a role that has reached its quota of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "User {role} holds {} already, as many as it may; drop one of them",
    snapshots(.max)
)]
pub struct QuotaReached {
    pub role: String,
    /// The quota of the role.
    pub max: u32,
}

fn snapshots(count: &u32) -> String {
    let plural = if *count == 1 { "" } else { "s" };
    format!("{count} snapshot{plural}")
}

/// The right to create one more snapshot for a role. It holds a lock until it is dropped, so that
/// concurrent creations cannot exceed a quota: other calls of [`RoleStore::room_for_snapshot`]
/// wait.
#[derive(Debug)]
pub struct SnapshotRoom<'a> {
    roles: &'a RoleStore,
    role: String,
    /// The id of the role; `None` if there was no such role.
    id: Option<u64>,
    _creating: MutexGuard<'a, ()>,
}

impl RoleStore {
    /// Checks that a role may create one more snapshot. The quota limits the number of existing snapshots
    /// that the role created. A role without a quota, or one that does not exist, may always create one.
    ///
    /// # Errors
    /// If the role has reached its quota.
    pub fn room_for_snapshot(&self, role: &str) -> Result<SnapshotRoom<'_>, QuotaReached> {
        let creating = (self.creating_snapshots.lock()).unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let known = state.roles().get(role);
        if let Some(known) = known
            && let Some(max) = known.snapshots_max
            && self.owned.count_existing(&self.db, known.id) >= max as usize
        {
            let role = role.to_owned();
            return Err(QuotaReached { role, max });
        }
        Ok(SnapshotRoom {
            roles: self,
            role: role.to_owned(),
            id: known.map(|known| known.id),
            _creating: creating,
        })
    }

    /// Removes the record that a role created the snapshot at the commit `seq`. Call it after the
    /// snapshot is deleted, and sync the log afterwards. Does nothing if no role created the
    /// snapshot, or if the snapshot still exists.
    ///
    /// # Errors
    /// If the store fails. Even then the deleted snapshot does not count for the role's quota,
    /// because only existing snapshots do.
    pub fn forget_snapshot(&self, seq: SeqNo) -> Result<()> {
        self.owned.remove(&self.db, seq)
    }
}

impl SnapshotRoom<'_> {
    /// Records that the role has created the snapshot `name` of `keyspace`, so that the snapshot counts
    /// for the role's quota. Does nothing if the snapshot has expired or the role was dropped meanwhile.
    ///
    /// # Errors
    /// If the store fails.
    pub fn note(self, keyspace: &str, name: &str) -> Result<()> {
        let db = &self.roles.db;
        let Some(seq) = seq_of(db, keyspace, name) else {
            // The snapshot has expired already.
            return Ok(());
        };
        let created = OwnedSnapshot {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            seq,
        };
        self.roles.unchanged(|state| {
            let role = state.roles().get(&self.role);
            let Some(role) = role.filter(|role| Some(role.id) == self.id) else {
                // The role was dropped meanwhile. A later role of its name did not create the snapshot.
                return Ok(());
            };
            self.roles.owned.add(db, role.id, created)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_one_snapshot_without_a_plural() {
        let error = QuotaReached {
            role: "ada".to_owned(),
            max: 1,
        };
        let text = "User ada holds 1 snapshot already, as many as it may; drop one of them";
        assert_eq!(error.to_string(), text);
    }
}
