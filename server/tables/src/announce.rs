//! Schema changes that no CQL statement caused (a job created a table, a snapshot expired), to be
//! pushed to clients.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use ebb_model::schema::KeyspaceSchema;

/// A change of the content of `system_schema` that no statement caused.
#[derive(Debug, Clone, Copy)]
pub enum Announcement<'a> {
    /// A job has created a table, or an unreadable table has become readable.
    TableCreated {
        keyspace: &'a str,
        /// The name of the table.
        table: &'a str,
    },
    /// A snapshot of a CQL keyspace has expired. It is announced only while snapshots are listed as
    /// keyspaces.
    SnapshotExpired {
        keyspace: &'a str,
        /// The name of the expired snapshot.
        snapshot: &'a str,
        /// The keyspace as of the expired snapshot. `None` if the catalog does not have this schema
        /// in memory, because the snapshot was not listed in `system_schema` when a client last read
        /// the schema.
        then: Option<&'a KeyspaceSchema>,
    },
}

type Subscriber = Box<dyn Fn(Announcement<'_>) + Send + Sync>;

/// The subscribers to announcements.
#[derive(Default)]
pub(super) struct Announcements {
    subscribers: Mutex<Vec<Subscriber>>,
}

impl Announcements {
    pub(super) fn subscribe(&self, subscriber: Subscriber) {
        let mut all = self
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(subscriber);
    }

    pub(super) fn publish(&self, announcement: Announcement<'_>) {
        let all = self
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|subscriber| subscriber(announcement));
    }
}

impl fmt::Debug for Announcements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcements").finish_non_exhaustive()
    }
}
