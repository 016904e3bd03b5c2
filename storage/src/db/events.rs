//! Events: actions that the database takes by itself, and the listeners for them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;

/// An action that the database took by itself, in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A memtable was written to files, and is gone.
    Flushed {
        /// The table's keyspace.
        keyspace: &'a str,
        /// The table of the memtable.
        table: &'a str,
        /// Bytes of the files; 0 if no version of the memtable was needed.
        bytes: u64,
    },
    /// Runs of a table were merged, or a part of them.
    Merged {
        /// The table's keyspace.
        keyspace: &'a str,
        /// The table.
        table: &'a str,
        /// Number of the runs.
        runs: usize,
        /// Bytes of the replaced files. In a merge in parts a file is replaced once no part needs
        /// it any more.
        replaced_bytes: u64,
        /// Bytes of the new files.
        written_bytes: u64,
        /// The duration of the merge.
        took: Duration,
        /// Whether a part of the runs is left to be merged next.
        is_part: bool,
    },
    /// A file was found damaged. Reads that need it fail, all others go on. Files that were found
    /// damaged when the database was opened are only in the statistics.
    Quarantined {
        /// The table's keyspace.
        keyspace: &'a str,
        /// The table.
        table: &'a str,
        /// The file.
        path: &'a Path,
        /// The position of the damage in the file, in bytes.
        offset: u64,
        /// A description of the damage.
        detail: &'a str,
    },
    /// All writes are refused until the database is opened anew; reads go on. Each listener is
    /// called once with this event, even if it was added afterwards.
    WritesStopped {
        /// The failure that stopped the writes.
        cause: &'a str,
    },
    /// A snapshot was deleted because it had expired.
    SnapshotExpired {
        /// The snapshot's keyspace.
        keyspace: &'a str,
        /// The snapshot's name.
        name: &'a str,
    },
}

type Callback = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

#[derive(Default)]
pub(crate) struct EventListeners(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    all: Vec<Callback>,
    /// The failure that stopped the writes, once one did.
    stopped: Option<Arc<str>>,
}

impl EventListeners {
    pub(crate) fn add(&self, hear: impl Fn(&Event<'_>) + Send + Sync + 'static) {
        let hear: Callback = Arc::new(hear);
        let stopped = {
            let mut inside = self.0.lock().unwrap();
            inside.all.push(hear.clone());
            inside.stopped.clone()
        };
        if let Some(cause) = &stopped {
            hear(&Event::WritesStopped { cause });
        }
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        let all = self.0.lock().unwrap().all.clone();
        all.iter().for_each(|hear| hear(&event));
    }

    /// Reports to all listeners, present and later ones, that writes have stopped for good.
    pub(super) fn tell_of_stop(&self, cause: &Arc<str>) {
        let all = {
            let mut inside = self.0.lock().unwrap();
            inside.stopped = Some(cause.clone());
            inside.all.clone()
        };
        let event = Event::WritesStopped { cause };
        all.iter().for_each(|hear| hear(&event));
    }
}

impl fmt::Debug for EventListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventListeners").finish_non_exhaustive()
    }
}
