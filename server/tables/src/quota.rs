//! The quota of snapshots per role: each snapshot keeps old versions on disk.

use std::convert::Infallible;
use std::sync::{MutexGuard, PoisonError};

use ebb_model::access::{OwnedSnapshot, Role};
use ebb_storage::Db;

use super::error::Result;
use super::roles::RoleStore;

/// The error for a role that has reached its quota of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("User {role} holds {max} snapshots already, as many as it may; drop one of them")]
pub struct QuotaReached {
    pub role: String,
    /// The quota of the role.
    pub max: u32,
}

/// The permission to create one more snapshot for a role. It holds a lock, so that concurrent
/// creations cannot exceed the quota: while it exists, no other role gets one.
#[derive(Debug)]
pub struct SnapshotRoom<'a> {
    roles: &'a RoleStore,
    role: String,
    _creating: MutexGuard<'a, ()>,
}

impl RoleStore {
    /// Checks that a role may create one more snapshot. Snapshots that the role created count while
    /// they exist.
    ///
    /// # Errors
    /// If the role has reached its quota.
    pub fn room_for_snapshot(&self, role: &str) -> Result<SnapshotRoom<'_>, QuotaReached> {
        let creating = (self.creating_snapshots.lock()).unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        if let Some(known) = state.roles().get(role)
            && let Some(max) = known.snapshots_max
            && existing_snapshots(&self.db, known).count() >= max as usize
        {
            let role = role.to_owned();
            return Err(QuotaReached { role, max });
        }
        Ok(SnapshotRoom {
            roles: self,
            role: role.to_owned(),
            _creating: creating,
        })
    }
}

impl SnapshotRoom<'_> {
    /// Records that the role has created a snapshot.
    ///
    /// # Errors
    /// If the store fails.
    pub fn note(self, keyspace: &str, name: &str) -> Result<()> {
        let db = &self.roles.db;
        let Some(seq) = seq(db, keyspace, name) else {
            // The snapshot has expired already.
            return Ok(());
        };
        let noted = self.roles.change(|roles| {
            let known = roles.get(&self.role);
            let held = known
                .into_iter()
                .flat_map(|role| existing_snapshots(db, role));
            let mut snapshots: Vec<_> = held.cloned().collect();
            snapshots.push(OwnedSnapshot {
                keyspace: keyspace.to_owned(),
                name: name.to_owned(),
                seq,
            });
            let next = roles.with_changed(&self.role, |role| role.snapshots = snapshots);
            // An error means that the role was dropped meanwhile.
            Ok::<_, Infallible>(next.ok())
        });
        let Ok(_) = noted?;
        Ok(())
    }
}

/// Returns the snapshots that a role created and that still exist.
fn existing_snapshots<'r>(db: &'r Db, role: &'r Role) -> impl Iterator<Item = &'r OwnedSnapshot> {
    let is_there = |own: &&OwnedSnapshot| seq(db, &own.keyspace, &own.name) == Some(own.seq);
    role.snapshots.iter().filter(is_there)
}

fn seq(db: &Db, keyspace: &str, snapshot: &str) -> Option<u64> {
    let of = db.existing_keyspace(keyspace).ok()?;
    Some(of.snapshot_seq(snapshot).ok()?.0)
}
