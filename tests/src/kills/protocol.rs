//! The protocol between a process that writes and whoever kills it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ebb_storage::{Durability, ManualClock, Options, Table, WriteBatch};

use super::Life;
use crate::setup::START_MS;

/// Threads that write batches at once.
pub const WRITERS: u32 = 3;
/// Threads beside them that do every kind of operation.
pub const SCRIPTS: u32 = 2;
/// A snapshot is created by writer 0 after every so many of its batches.
pub const SNAPSHOT_EVERY: u64 = 200;

/// Options that make a store flush and compact all the time. Each process in turn
/// has another durability: what is acknowledged survives the process under any.
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

/// The directory of the store; beside it files are written to be ingested.
pub fn store_dir(root: &Path) -> PathBuf {
    root.join("db")
}

/// Where a thread writes the files that it ingests.
pub fn ingest_dir(root: &Path, thread: u32) -> PathBuf {
    root.join(format!("ingest-{thread}"))
}

/// Batch `n` of a writer: one key in each of two tables, and a counter that
/// every batch overwrites.
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

/// The key of batch `n`.
pub fn key(writer: u32, n: u64) -> String {
    format!("w{writer}-{n:012}")
}

/// The key that says how far a writer is.
pub fn counter_key(writer: u32) -> String {
    format!("counter-{writer}")
}

/// The value of batch `n`: some hundred bytes that name it.
pub fn value(writer: u32, n: u64) -> String {
    format!("{writer}:{n};").repeat(12)
}

/// What a writing process says on its standard output once it is acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// A batch.
    Batch {
        /// By which writer.
        writer: u32,
        /// Its number.
        n: u64,
    },
    /// A snapshot that writer 0 created after its batch `n`.
    Snapshot {
        /// The batch before it.
        n: u64,
    },
    /// An operation of a script.
    Operation {
        /// The thread.
        thread: u32,
        /// So many are done with it.
        done: u64,
    },
}

impl Acknowledged {
    /// The line, without its end.
    pub fn line(&self) -> String {
        match self {
            Self::Batch { writer, n } => format!("b {writer} {n}"),
            Self::Snapshot { n } => format!("s {n}"),
            Self::Operation { thread, done } => format!("o {thread} {done}"),
        }
    }

    /// Reads a line; `None` for one that was cut off.
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
