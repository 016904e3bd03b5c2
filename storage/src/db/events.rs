//! Events: actions that the database takes by itself, and the listeners for them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::disk::DiskCall;
use crate::sync::Mutex;

/// An event that the database reports to its listeners: an action that it took by itself or for an
/// operator, or a problem with the disk that began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A memtable was written to files, and is gone.
    Flushed {
        /// The name of the table's keyspace.
        keyspace: &'a str,
        /// The name of the memtable's table within its keyspace.
        table: &'a str,
        /// Bytes of the new files; 0 if no reader needs any version of the memtable.
        bytes: u64,
    },
    /// Runs of a table were merged: all of their keys or, in one part of a long merge, a range of
    /// the keys.
    Merged {
        /// The name of the table's keyspace.
        keyspace: &'a str,
        /// The name of the table within its keyspace.
        table: &'a str,
        /// The number of runs that were merged.
        runs: usize,
        /// Bytes of the replaced files. In a merge in parts a file is replaced once no part needs
        /// it any more.
        replaced_bytes: u64,
        /// Bytes of the new files.
        written_bytes: u64,
        /// The duration of the merge, or of this part of it.
        took: Duration,
        /// Whether more parts of the merge must follow. False for a merge in one part, and for the
        /// last part of a merge in several parts.
        is_part: bool,
    },
    /// A file was found damaged. Reads that need it fail, all others go on. Files that were found
    /// damaged when the database was opened are only in the statistics.
    Quarantined {
        /// The name of the table's keyspace.
        keyspace: &'a str,
        /// The name of the table within its keyspace.
        table: &'a str,
        /// The path of the file.
        path: &'a Path,
        /// The position of the damage in the file, in bytes.
        offset: u64,
        /// A description of the damage.
        detail: &'a str,
    },
    /// The readable part of a damaged file was written to new files, because an operator accepted
    /// the loss of the rest: see [`Db::rewrite_damaged`](crate::Db::rewrite_damaged).
    LossAccepted {
        /// The name of the table's keyspace.
        keyspace: &'a str,
        /// The name of the table within its keyspace.
        table: &'a str,
        /// The path of the damaged or missing file. New files have its readable part. The damaged
        /// file is removed once no reader needs it.
        path: &'a Path,
        /// The number of versions and range tombstones that are lost.
        entries_lost: u64,
        /// The path under which the damaged file is kept, if it is kept.
        kept_as: Option<&'a Path>,
    },
    /// Writes, flushes or merges begin to find no space on the disk. Reads go on, and no
    /// acknowledged write is lost. A listener that is added while such a shortage lasts is called
    /// at once.
    DiskFull {
        /// The kind of work that finds no space.
        space_use: SpaceUse,
        /// The file that could not grow, or the directory of the database, where too little is free.
        path: &'a Path,
    },
    /// Writes, flushes or merges find space again.
    DiskFreed {
        /// The kind of work that finds space again.
        space_use: SpaceUse,
    },
    /// A call to the disk has not returned for five seconds. Work that waits for this call keeps
    /// waiting; other work goes on. Reported only with `Maintenance::Background`.
    DiskCallStuck {
        /// The path of the file or directory.
        path: &'a Path,
        /// The kind of the call.
        call: DiskCall,
        /// The approximate time for which the call has been under way.
        lasts: Duration,
    },
    /// A disk call that was reported as stuck has returned.
    DiskCallReturned {
        /// The path of the file or directory.
        path: &'a Path,
        /// The kind of the call.
        call: DiskCall,
        /// The approximate duration of the call.
        took: Duration,
    },
    /// Merges leave out one or more runs of a table for a while, because the runs cannot be read
    /// reliably; nothing else is held up. Sent in three cases: a merge or a check failed to read a
    /// file; a file could not be opened again; or three or more merges or checks of a run in a row
    /// found damage that a second reading did not find, or damage in none of their input files.
    ///
    /// A file that could not be opened with the database causes no event, and is only in the
    /// statistics.
    LeftOut {
        /// The name of the table's keyspace.
        keyspace: &'a str,
        /// The name of the table within its keyspace.
        table: &'a str,
        /// The error, which names the file.
        cause: &'a str,
        /// The time after which a merge may read the run again.
        retry_after: Duration,
    },
    /// All writes are refused until the database is opened anew; reads go on. Each listener is
    /// called once with this event, even if it was added afterwards.
    WritesStopped {
        /// The failure that stopped the writes.
        cause: &'a str,
    },
    /// A snapshot was deleted because it had expired.
    SnapshotExpired {
        /// The name of the snapshot's keyspace.
        keyspace: &'a str,
        /// The snapshot's name.
        name: &'a str,
    },
}

/// A kind of work that takes space on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceUse {
    /// Writes, which go to the log. They are refused without space, and below the low-water mark
    /// ([`Options::low_water_bytes`](crate::Options::low_water_bytes)).
    Writes,
    /// Flushes, which are tried again. The log still has the data that they would write.
    Flushes,
    /// Merges, which are tried again.
    Merges,
}

/// A reason why a kind of work finds no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortage {
    /// The log could not grow.
    Log,
    /// Writes are refused: they would leave less free space than the low-water mark.
    LowWater,
    /// A flush found no space.
    Flushes,
    /// A merge found no space, or the disk has no space for the output of any merge that is worth it.
    Merges,
}

impl Shortage {
    fn space_use(self) -> SpaceUse {
        match self {
            Self::Log | Self::LowWater => SpaceUse::Writes,
            Self::Flushes => SpaceUse::Flushes,
            Self::Merges => SpaceUse::Merges,
        }
    }
}

type Callback = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

#[derive(Default)]
pub(crate) struct EventListeners(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    all: Vec<Callback>,
    /// The failure that stopped the writes, once one did.
    stopped: Option<Arc<str>>,
    /// The shortages of space, each with the file or directory that has none.
    full: Vec<(Shortage, PathBuf)>,
}

impl Inside {
    /// Returns the kinds of work that find no space, each with a file or directory that has none.
    fn starved(&self) -> Vec<(SpaceUse, PathBuf)> {
        let mut starved: Vec<(SpaceUse, PathBuf)> = Vec::new();
        for (shortage, path) in &self.full {
            let space_use = shortage.space_use();
            if starved.iter().all(|(known, _)| *known != space_use) {
                starved.push((space_use, path.clone()));
            }
        }
        starved
    }
}

impl EventListeners {
    pub(crate) fn add(&self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) {
        let callback: Callback = Arc::new(callback);
        let (stopped, full) = {
            let mut inside = self.0.lock().unwrap();
            inside.all.push(callback.clone());
            (inside.stopped.clone(), inside.starved())
        };
        for (space_use, path) in full {
            callback(&Event::DiskFull {
                space_use,
                path: &path,
            });
        }
        if let Some(cause) = &stopped {
            callback(&Event::WritesStopped { cause });
        }
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        let all = self.0.lock().unwrap().all.clone();
        all.iter().for_each(|callback| callback(&event));
    }

    /// Notes that there is a shortage at the file or directory `full_at`; with `None`, that this
    /// shortage is over. Notifies the listeners if a kind of work has no space from now on, or has
    /// space again. Does not notify them if another shortage stops the same kind of work anyway.
    /// Returns whether this call began or ended the shortage.
    pub(super) fn tell_of_space(&self, shortage: Shortage, full_at: Option<&Path>) -> bool {
        let space_use = shortage.space_use();
        {
            let mut inside = self.0.lock().unwrap();
            let full = &mut inside.full;
            let place = full.iter().position(|(known, _)| *known == shortage);
            match (place, full_at) {
                (None, Some(path)) => full.push((shortage, path.to_path_buf())),
                (Some(place), None) => drop(full.remove(place)),
                _ => return false,
            }
            let mut others = full.iter().filter(|(known, _)| *known != shortage);
            if others.any(|(known, _)| known.space_use() == space_use) {
                return true;
            }
        }
        self.tell(match full_at {
            Some(path) => Event::DiskFull { space_use, path },
            None => Event::DiskFreed { space_use },
        });
        true
    }

    /// Returns the kinds of work that find no space.
    pub(super) fn starved(&self) -> Vec<SpaceUse> {
        let starved = self.0.lock().unwrap().starved();
        starved
            .into_iter()
            .map(|(space_use, _)| space_use)
            .collect()
    }

    pub(super) fn has(&self, shortage: Shortage) -> bool {
        let inside = self.0.lock().unwrap();
        inside.full.iter().any(|(known, _)| *known == shortage)
    }

    /// Reports to all listeners, present and later ones, that writes have stopped for good.
    pub(super) fn tell_of_stop(&self, cause: &Arc<str>) {
        let all = {
            let mut inside = self.0.lock().unwrap();
            inside.stopped = Some(cause.clone());
            inside.all.clone()
        };
        let event = Event::WritesStopped { cause };
        all.iter().for_each(|callback| callback(&event));
    }
}

impl fmt::Debug for EventListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventListeners").finish_non_exhaustive()
    }
}
