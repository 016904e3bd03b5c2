//! The operations that proofs run on a database: one kind for each request to the engine.
//!
//! A list of operations is plain data, and has a text form: a failing list is printed, and a
//! printed list runs again. Operations name tables, keys, snapshots and open handles by small
//! numbers out of fixed sets, so that every sublist of a list makes sense too: an operation on
//! something that does not exist has an outcome like any other. The shrinker relies on this.
//!
//! A new kind of operation needs a variant here, its line in `text`, a weight in `generate`, its
//! meaning in [`model`](crate::model), and its execution in [`session`](crate::session).

mod generate;
mod text;

use std::ops::{Bound, RangeBounds};

pub use generate::{Generator, Mix};
pub use text::{parse_list, print_list};

/// The tables of every database in the randomized tests, by keyspace and name.
pub const TABLES: [(&str, &str); 4] = [
    ("app", "mails"),
    ("app", "users"),
    ("log", "events"),
    ("log", "quiet"),
];
/// The keyspaces of the tables.
pub const KEYSPACES: [&str; 2] = ["app", "log"];
/// Number of different keys in all operations.
pub const KEYS: u8 = 80;
/// Number of handles of each kind that may be open at once: views, iterators, snapshots, pins and
/// transactions.
pub const SLOTS: u8 = 4;

/// A table: a position in [`TABLES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableNo(pub u8);

impl TableNo {
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLES.len() as u8).map(Self)
    }

    /// Returns the position in [`TABLES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the merge operator with which the table is created.
    pub fn merge_operator(self) -> Option<&'static str> {
        [None, Some("append"), Some("max"), None][self.index()]
    }

    /// Returns the name of the table's keyspace.
    pub fn keyspace(self) -> &'static str {
        TABLES[self.index()].0
    }

    /// Returns the position of the table's keyspace in [`KEYSPACES`].
    pub fn keyspace_index(self) -> usize {
        let mut keyspaces = KEYSPACES.iter();
        let index = keyspaces.position(|name| *name == self.keyspace());
        index.expect("every table is of a keyspace")
    }

    /// Returns the name of the table in its keyspace.
    pub fn name(self) -> &'static str {
        TABLES[self.index()].1
    }
}

/// A key out of a small set, so that operations meet the same keys again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u8);

impl Key {
    /// Returns the bytes of the key. Key 0 is the empty key; keys 1 and 2 consist of 0xff bytes;
    /// keys 3 to 15 have another key as a prefix; the rest are plain.
    pub fn bytes(self) -> Vec<u8> {
        match self.0 {
            0 => Vec::new(),
            1..=2 => vec![0xff; usize::from(self.0)],
            3..=15 => format!("key{:02}/", 3 * self.0).into_bytes(),
            _ => format!("key{:02}", self.0 - 16).into_bytes(),
        }
    }
}

/// A value; the number and the length determine all bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Val {
    /// Distinguishes the value from others. Values with odd numbers do not compress.
    pub number: u32,
    /// The length in bytes.
    pub bytes: u16,
}

impl Val {
    /// Generates the bytes of the value.
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

/// Bounds of a range. The lower bound may lie above the upper one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds(pub Bound<Key>, pub Bound<Key>);

impl Bounds {
    /// The range of all keys.
    pub const ALL: Self = Self(Bound::Unbounded, Bound::Unbounded);

    /// Returns whether a key lies within the range.
    pub fn contain(self, key: &[u8]) -> bool {
        let (lower, upper) = self.bytes();
        let bounds = (
            lower.as_ref().map(Vec::as_slice),
            upper.as_ref().map(Vec::as_slice),
        );
        RangeBounds::<[u8]>::contains(&bounds, key)
    }

    /// Returns the first key of the range, and the first key after it (`None` if the range has no
    /// upper bound). The range is empty if the second key is not above the first one. Every range
    /// has this form, because each key has a successor: the key with a zero byte appended.
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

    /// Returns the bounds in the form that the store takes.
    pub fn bytes(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (self.0.map(Key::bytes), self.1.map(Key::bytes))
    }
}

/// The ends from which a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Ascending.
    Front,
    /// Descending.
    Back,
    /// From both ends in turn, until they meet.
    Both,
}

/// One change of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Put(TableNo, Key, Val),
    Delete(TableNo, Key),
    /// Changes a key's value by the table's merge operator.
    Merge(TableNo, Key, Val),
    /// Sets a key, with a TTL in milliseconds.
    PutWithTtl(TableNo, Key, Val, u32),
    /// Removes a range of keys.
    DeleteRange(TableNo, Bounds),
}

impl Write {
    /// Returns the table that the write changes.
    pub fn table(&self) -> TableNo {
        match self {
            Self::Put(table, ..)
            | Self::Delete(table, ..)
            | Self::Merge(table, ..)
            | Self::PutWithTtl(table, ..)
            | Self::DeleteRange(table, _) => *table,
        }
    }

    /// Returns the keys that the write changes, ascending by number.
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

/// A read of a key or of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Get(TableNo, Key),
    Range(TableNo, Bounds, Ends),
}

/// One operation on a database. A `keyspace` is a position in [`KEYSPACES`]. A `name` is the number
/// in the name of a snapshot: see [`snapshot_name`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Creates a table, or finds that it exists.
    CreateTable(TableNo),
    /// Drops a table. Snapshots keep their content of it.
    DropTable(TableNo),
    /// Writes a batch, which often is a single write.
    Write(Vec<Write>),
    /// Writes in a transaction that begins and ends with this operation.
    Transact {
        writes: Vec<Write>,
        /// Whether the transaction commits; otherwise it is rolled back.
        commit: bool,
    },
    /// Removes everything from a table.
    Truncate(TableNo),
    /// Writes entries into SSTables, and ingests these into a table. An entry without a value is a
    /// deletion. The entries are in any order; if a key occurs several times, its last entry
    /// counts.
    Ingest(TableNo, Vec<(Key, Option<Val>)>),
    /// Moves the clock forward, by milliseconds.
    Advance(u32),
    /// Creates a snapshot of a keyspace, which expires in `ms` milliseconds, or never.
    CreateSnapshot {
        keyspace: u8,
        name: u8,
        ms: Option<u32>,
    },
    CreateTableSnapshot {
        table: TableNo,
        name: u8,
    },
    /// Makes a snapshot expire in `ms` milliseconds, or never.
    RenewSnapshot {
        keyspace: u8,
        name: u8,
        ms: Option<u32>,
    },
    DeleteSnapshot {
        keyspace: u8,
        name: u8,
    },
    Flush,
    /// Merges runs until the picker picks no more.
    Compact,
    /// Makes all writes durable.
    Sync,
    /// Closes the database with all open handles, and opens it again.
    Reopen,
    /// Reads a key or a range of the current content.
    Read(Read),
    /// Reads everything, snapshots included, and verifies the files.
    ReadAll,
    /// Backs the database up, and reads everything in the backup.
    Backup,
    /// Opens a view, to be kept open under this slot number.
    OpenView(u8),
    /// Reads the view that the test keeps open under this slot number.
    ReadView(u8, Read),
    /// Closes the view under this slot number.
    CloseView(u8),
    /// Opens a snapshot, to be kept open under a slot number.
    OpenSnapshot {
        /// The slot number of the open snapshot, an index below [`SLOTS`]: later operations find it
        /// by this number.
        slot: u8,
        keyspace: u8,
        name: u8,
    },
    /// Reads the snapshot that the test keeps open under this slot number.
    ReadSnapshot(u8, Read),
    /// Closes the open snapshot under this slot number.
    CloseSnapshot(u8),
    /// Pins the files of all tables of a snapshot, to be kept under a slot number.
    Pin {
        /// The slot number of the pins, an index below [`SLOTS`]: later operations find them by
        /// this number.
        slot: u8,
        keyspace: u8,
        name: u8,
    },
    /// Reads a table whose files are pinned under this slot number, from these files alone, not
    /// through the database.
    ReadPinned(u8, Read),
    /// Releases the pinned files under this slot number.
    Unpin(u8),
    /// Opens an iterator over a range, to be kept open under this slot number.
    OpenRange(u8, TableNo, Bounds),
    /// Continues an open iterator. The fields are the slot number, the number of entries to read,
    /// and the ends from which to read them.
    ReadOn(u8, u8, Ends),
    /// Closes the open iterator under this slot number.
    CloseRange(u8),
    /// Begins a transaction, to be kept open under this slot number.
    Begin(u8),
    /// Writes in the transaction that the test keeps open under this slot number.
    WriteIn(u8, Write),
    /// Reads in the transaction that the test keeps open under this slot number, own writes
    /// included.
    ReadIn(u8, Read),
    /// Guards a key in the transaction under this slot number: if the transaction writes anything,
    /// its commit is refused if another commit has written the key since the transaction began.
    Guard(u8, TableNo, Key),
    /// Guards a range of keys in the transaction under this slot number: if the transaction writes
    /// anything, its commit is refused if another commit has written one of the keys since the
    /// transaction began.
    GuardRange(u8, TableNo, Bounds),
    /// Commits the transaction under this slot number. If the transaction has writes, the commit is
    /// refused if, since the transaction began, another commit has written a key that the
    /// transaction writes or guards. Two merges into the same key do not conflict, unless the
    /// transaction guards the key.
    Commit(u8),
    /// Rolls the transaction under this slot number back.
    Rollback(u8),
}

/// Returns the name of the snapshot with this number.
pub fn snapshot_name(name: u8) -> String {
    format!("s{name}")
}

impl Operation {
    /// Returns whether the operation commits writes to tables, which a flush writes to files.
    /// [`Commit`](Self::Commit) does not count: the lists of operations for which this is used have
    /// none.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::Truncate(_)
                | Self::Ingest(..)
                | Self::Transact { commit: true, .. }
        )
    }

    /// Returns whether the operation may have a place in the commit order. A
    /// [`Transact`](Self::Transact) that rolls back counts, too.
    pub fn is_commit(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::Truncate(_)
                | Self::Ingest(..)
                | Self::Transact { .. }
                | Self::Commit(_)
                | Self::CreateSnapshot { .. }
                | Self::RenewSnapshot { .. }
                | Self::CreateTableSnapshot { .. }
                | Self::DeleteSnapshot { .. }
        )
    }
}
