//! The protocol between a process that writes and whoever kills it.

use ebb_storage::{Options, Table, WriteBatch};

/// Threads that write at once.
pub const WRITERS: u32 = 3;
/// A snapshot is created by writer 0 after every so many of its batches.
pub const SNAPSHOT_EVERY: u64 = 200;

/// Options that make a store flush and compact all the time.
pub fn busy_options() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        wal_segment_bytes: 128 << 10,
        file_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        ..Options::default()
    }
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
}

impl Acknowledged {
    /// The line, without its end.
    pub fn line(&self) -> String {
        match self {
            Self::Batch { writer, n } => format!("b {writer} {n}"),
            Self::Snapshot { n } => format!("s {n}"),
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
            _ => None,
        }
    }
}
