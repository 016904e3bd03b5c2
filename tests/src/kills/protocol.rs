//! The protocol between a process that writes and the process that kills it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ebb_storage::{Durability, ManualClock, Options, Table, WriteBatch};

use super::Life;
use crate::setup::START_MS;

/// Number of threads that write batches.
pub const WRITERS: u32 = 3;
/// Number of threads that run scripts, with every kind of operation, beside the writers of batches.
pub const SCRIPTS: u32 = 2;
/// Number of batches that writer 0 writes before it creates the next snapshot.
pub const SNAPSHOT_EVERY: u64 = 200;

/// Returns options under which a store flushes and compacts all the time. The three durabilities
/// take turns with the number of the process: acknowledged writes must survive a kill of the
/// process under each of them.
pub fn busy_options(life: &Life) -> Options {
    Options {
        durability: match life.number % 3 {
            0 => Durability::Interval(Duration::from_millis(100)),
            1 => Durability::Os,
            _ => Durability::Sync,
        },
        clock: Arc::new(ManualClock::at_ms(START_MS)),
        memtable_bytes: 64 << 10,
        wal_segment_bytes: 128 << 10,
        file_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        ..Options::default()
    }
}

/// Returns the directory of the store; `root` also has the directories of files to ingest.
pub fn store_dir(root: &Path) -> PathBuf {
    root.join("db")
}

/// Returns the directory in which a thread writes the files that it ingests.
pub fn ingest_dir(root: &Path, thread: u32) -> PathBuf {
    root.join(format!("ingest-{thread}"))
}

/// Returns batch `n` of a writer: one key in each of two tables, and a counter in each that every
/// batch overwrites.
pub fn batch(tables: [&Table; 2], writer: u32, n: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for table in tables {
        batch.put(
            table,
            key(writer, n).as_bytes(),
            value(writer, n).as_bytes(),
        );
        batch.put(
            table,
            counter_key(writer).as_bytes(),
            n.to_string().as_bytes(),
        );
    }
    batch
}

/// Returns the key of batch `n` of a writer.
pub fn key(writer: u32, n: u64) -> String {
    format!("w{writer}-{n:012}")
}

/// Returns the key of a writer's counter, which has the number of its last batch.
pub fn counter_key(writer: u32) -> String {
    format!("counter-{writer}")
}

/// Returns the value of batch `n`: its writer and number, repeated.
pub fn value(writer: u32, n: u64) -> String {
    format!("{writer}:{n};").repeat(12)
}

/// An acknowledgement that the process to be killed prints as one line.
#[derive(Debug, PartialEq, Eq)]
pub enum Acknowledged {
    Batch {
        writer: u32,
        /// The number of the batch.
        n: u64,
    },
    /// A snapshot that writer 0 created after its batch `n`.
    Snapshot {
        /// The number of the batch before the snapshot.
        n: u64,
    },
    Operation {
        /// The thread that runs the script.
        thread: u32,
        /// Number of operations of the script that are done, this one included.
        done: u64,
    },
}

impl Acknowledged {
    /// Returns the line, without the newline.
    pub fn line(&self) -> String {
        match self {
            Self::Batch { writer, n } => format!("b {writer} {n}"),
            Self::Snapshot { n } => format!("s {n}"),
            Self::Operation { thread, done } => format!("o {thread} {done}"),
        }
    }

    /// Parses a line; `None` if it is not a whole acknowledgement, as when the kill cut it off.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        match words.next()? {
            "b" => Some(Self::Batch {
                writer: words.next()?.parse().ok()?,
                n: words.next()?.parse().ok()?,
            }),
            "s" => Some(Self::Snapshot {
                n: words.next()?.parse().ok()?,
            }),
            "o" => Some(Self::Operation {
                thread: words.next()?.parse().ok()?,
                done: words.next()?.parse().ok()?,
            }),
            _ => None,
        }
    }
}
