//! What whoever keeps clients informed wants to hear of that no statement did.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use ebb_model::schema::KeyspaceSchema;

/// A change of what clients know by `system_schema`, beside their statements.
#[derive(Debug, Clone, Copy)]
pub enum Announcement<'a> {
    /// A job has created a table.
    TableCreated {
        /// Where it is.
        keyspace: &'a str,
        /// Its name.
        table: &'a str,
    },
    /// A snapshot of a keyspace of CQL has expired, and such snapshots may be listed as keyspaces.
    SnapshotExpired {
        /// What it was of.
        keyspace: &'a str,
        /// Its name.
        snapshot: &'a str,
        /// The keyspace as it was at the snapshot, if clients have read a list with the snapshot.
        then: Option<&'a KeyspaceSchema>,
    },
}

type Hear = Box<dyn Fn(Announcement<'_>) + Send + Sync>;

/// Those who hear of it.
#[derive(Default)]
pub(super) struct Announcements {
    hear: Mutex<Vec<Hear>>,
}

impl Announcements {
    pub(super) fn subscribe(&self, hear: Hear) {
        let mut all = self.hear.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(hear);
    }

    pub(super) fn tell(&self, announcement: Announcement<'_>) {
        let all = self.hear.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|hear| hear(announcement));
    }
}

impl fmt::Debug for Announcements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcements").finish_non_exhaustive()
    }
}
