//! What the proofs do to a database: one kind of operation for each thing that
//! the engine can be asked.
//!
//! A list of operations is plain data, and a line of text each way: what fails
//! is printed, and what was printed runs again. Operations name tables, keys,
//! snapshots and what is held open by small numbers out of fixed sets, so that
//! any sublist of a list means something too: an operation on something that is
//! not there has an outcome like every other. The shrinker needs that.
//!
//! A new kind of operation takes: a variant here, its line in `text`, a weight
//! in `generate`, what it means in [`model`](crate::model), and how it is done
//! in [`session`](crate::session).

mod generate;
mod text;

use std::ops::{Bound, RangeBounds};

pub use generate::{Generator, Mix};
pub use text::{parse_list, print_list};

/// The tables of every database under proof, by keyspace and name.
pub const TABLES: [(&str, &str); 4] = [
    ("app", "mails"),
    ("app", "users"),
    ("log", "events"),
    ("log", "quiet"),
];
/// Their keyspaces.
pub const KEYSPACES: [&str; 2] = ["app", "log"];
/// Keys in the pool.
pub const KEYS: u8 = 80;
/// Views, iterators, snapshots, pins and transactions, of each kind, that may be
/// held at once.
pub const SLOTS: u8 = 4;

/// A table: a position in [`TABLES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableNo(pub u8);

impl TableNo {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLES.len() as u8).map(Self)
    }

    /// Its position.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The merge operator that it is created with.
    pub fn merge_operator(self) -> Option<&'static str> {
        [None, Some("append"), Some("max"), None][self.index()]
    }

    /// The name of its keyspace.
    pub fn keyspace(self) -> &'static str {
        TABLES[self.index()].0
    }

    /// The position of its keyspace in [`KEYSPACES`].
    pub fn keyspace_index(self) -> usize {
        let mut keyspaces = KEYSPACES.iter();
        let index = keyspaces.position(|name| *name == self.keyspace());
        index.expect("every table is of a keyspace")
    }

    /// Its name in its keyspace.
    pub fn name(self) -> &'static str {
        TABLES[self.index()].1
    }
}

/// A key of the pool: few, so that keys meet again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u8);

impl Key {
    /// Its bytes: the empty key, keys of 0xff, keys that are prefixes of each
    /// other, and plain ones.
    pub fn bytes(self) -> Vec<u8> {
        match self.0 {
            0 => Vec::new(),
            1..=2 => vec![0xff; usize::from(self.0)],
            3..=15 => format!("key{:02}/", 3 * self.0).into_bytes(),
            _ => format!("key{:02}", self.0 - 16).into_bytes(),
        }
    }
}

/// A value: its number and its length say all of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Val {
    /// What makes it different from others; odd ones do not compress.
    pub number: u32,
    /// How long it is.
    pub bytes: u16,
}

impl Val {
    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut state = u64::from(self.number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let compresses = self.number.is_multiple_of(2);
        (0..self.bytes)
            .map(|i| {
                if !compresses || i < 4 {
                    // xorshift64: any mixing will do.
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                }
                state as u8
            })
            .collect()
    }
}

/// Bounds of a range; the lower may lie above the upper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds(pub Bound<Key>, pub Bound<Key>);

impl Bounds {
    /// Everything.
    pub const ALL: Self = Self(Bound::Unbounded, Bound::Unbounded);

    /// Whether a key lies within.
    pub fn contain(self, key: &[u8]) -> bool {
        let (lower, upper) = self.bytes();
        let bounds = (
            lower.as_ref().map(Vec::as_slice),
            upper.as_ref().map(Vec::as_slice),
        );
        RangeBounds::<[u8]>::contains(&bounds, key)
    }

    /// From which key on, and before which; keys have no gaps between them, so
    /// every range has this form.
    pub fn from_to(self) -> (Vec<u8>, Option<Vec<u8>>) {
        let behind = |key: Key| [&key.bytes()[..], b"\0"].concat();
        let from = match self.0 {
            Bound::Included(key) => key.bytes(),
            Bound::Excluded(key) => behind(key),
            Bound::Unbounded => Vec::new(),
        };
        let to = match self.1 {
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(key.bytes()),
            Bound::Unbounded => None,
        };
        (from, to)
    }

    /// As the store takes them.
    pub fn bytes(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (self.0.map(Key::bytes), self.1.map(Key::bytes))
    }
}

/// From which end a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Ascending.
    Front,
    /// Descending.
    Back,
    /// One from each in turn, until they meet.
    Both,
}

/// One change of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put(TableNo, Key, Val),
    /// Removes a key.
    Delete(TableNo, Key),
    /// Changes a key's value by the table's merge operator.
    Merge(TableNo, Key, Val),
    /// Sets a key for so many milliseconds.
    PutWithTtl(TableNo, Key, Val, u32),
    /// Removes a range of keys.
    DeleteRange(TableNo, Bounds),
}

impl Write {
    /// Its table.
    pub fn table(&self) -> TableNo {
        match self {
            Self::Put(table, ..)
            | Self::Delete(table, ..)
            | Self::Merge(table, ..)
            | Self::PutWithTtl(table, ..)
            | Self::DeleteRange(table, _) => *table,
        }
    }

    /// The keys that it touches, ascending by number.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Self::Put(_, key, ..)
            | Self::Delete(_, key)
            | Self::Merge(_, key, ..)
            | Self::PutWithTtl(_, key, ..) => vec![*key],
            Self::DeleteRange(_, bounds) => {
                let keys = (0..KEYS).map(Key);
                keys.filter(|key| bounds.contain(&key.bytes())).collect()
            }
        }
    }
}

/// One read of something that stands still: a view, an open snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A key.
    Get(TableNo, Key),
    /// A range.
    Range(TableNo, Bounds, Ends),
}

/// What is done to a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Makes a table, or finds it made.
    CreateTable(TableNo),
    /// Drops a table; snapshots keep what they have of it.
    DropTable(TableNo),
    /// A batch; of one write often.
    Write(Vec<Write>),
    /// The same in a transaction of its own, rolled back or committed.
    Transact {
        /// What it writes.
        writes: Vec<Write>,
        /// Whether it ends with a commit.
        commit: bool,
    },
    /// Removes everything from a table.
    Truncate(TableNo),
    /// Makes entries part of a table that were written into files of their own;
    /// those without a value are removed. In any order.
    Ingest(TableNo, Vec<(Key, Option<Val>)>),
    /// Moves the clock, in milliseconds.
    Advance(u32),
    /// Creates a snapshot of a keyspace.
    CreateSnapshot {
        /// Position in [`KEYSPACES`].
        keyspace: u8,
        /// Its name's number.
        name: u8,
    },
    /// Creates a snapshot of one table.
    CreateTableSnapshot {
        /// The table.
        table: TableNo,
        /// Its name's number.
        name: u8,
    },
    /// Creates a snapshot of a keyspace that expires.
    CreateExpiringSnapshot {
        /// Position in [`KEYSPACES`].
        keyspace: u8,
        /// Its name's number.
        name: u8,
        /// So many milliseconds from now.
        ms: u32,
    },
    /// Lets a snapshot expire at another time, or never.
    RenewSnapshot {
        /// Position in [`KEYSPACES`].
        keyspace: u8,
        /// Its name's number.
        name: u8,
        /// So many milliseconds from now.
        ms: Option<u32>,
    },
    /// Deletes a snapshot.
    DeleteSnapshot {
        /// Position in [`KEYSPACES`].
        keyspace: u8,
        /// Its name's number.
        name: u8,
    },
    /// Writes the memtables out.
    Flush,
    /// Merges until nothing is worth it.
    Compact,
    /// Makes all that was written durable.
    Sync,
    /// Closes the database, with all that is held, and opens it again.
    Reopen,
    /// Reads what is there now.
    Read(Read),
    /// Reads everything, snapshots included, and verifies the files.
    ReadAll,
    /// Backs the database up, and reads everything in the backup.
    Backup,
    /// Takes a view into a slot.
    OpenView(u8),
    /// Reads a view.
    ReadView(u8, Read),
    /// Lets go of a view.
    CloseView(u8),
    /// Opens a snapshot into a slot.
    OpenSnapshot {
        /// The slot.
        slot: u8,
        /// Position in [`KEYSPACES`].
        keyspace: u8,
        /// Its name's number.
        name: u8,
    },
    /// Reads an open snapshot.
    ReadSnapshot(u8, Read),
    /// Lets go of an open snapshot.
    CloseSnapshot(u8),
    /// Pins the files of all tables of a snapshot in a slot.
    Pin {
        /// The slot.
        slot: u8,
        /// Position in [`KEYSPACES`].
        keyspace: u8,
        /// Its name's number.
        name: u8,
    },
    /// Reads a pinned table past the database, from its files alone.
    ReadPinned(u8, Read),
    /// Lets go of pinned files.
    Unpin(u8),
    /// Begins to read a range, and holds the iterator in a slot.
    OpenRange(u8, TableNo, Bounds),
    /// Reads on in a held iterator: so many entries from this end.
    ReadOn(u8, u8, Ends),
    /// Lets go of a held iterator.
    CloseRange(u8),
    /// Begins a transaction in a slot.
    Begin(u8),
    /// Writes in a transaction.
    WriteIn(u8, Write),
    /// Reads in a transaction, own writes included.
    ReadIn(u8, Read),
    /// Asks a transaction to guard a key that it does not write.
    Guard(u8, TableNo, Key),
    /// Commits a transaction; the first committer of a key wins.
    Commit(u8),
    /// Ends a transaction without a trace.
    Rollback(u8),
}

/// The name of a snapshot.
pub fn snapshot_name(name: u8) -> String {
    format!("s{name}")
}

impl Operation {
    /// Whether it is a commit to tables, which a flush writes out.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::Truncate(_)
                | Self::Ingest(..)
                | Self::Transact { commit: true, .. }
        )
    }

    /// Whether it takes a place in the order of commits.
    pub fn is_commit(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::Truncate(_)
                | Self::Ingest(..)
                | Self::Transact { .. }
                | Self::Commit(_)
                | Self::CreateSnapshot { .. }
                | Self::CreateExpiringSnapshot { .. }
                | Self::RenewSnapshot { .. }
                | Self::CreateTableSnapshot { .. }
                | Self::DeleteSnapshot { .. }
        )
    }
}
