//! Random lists of operations.

use std::collections::BTreeSet;
use std::ops::Bound;

use rand::RngExt;

use super::{Bounds, Ends, KEYS, Key, Operation, Read, SLOTS, TABLES, TableNo, Val, Write};
use crate::seed::Rng;

/// The composition of random lists of operations: the weight of each kind (its relative frequency),
/// and the limits of values and snapshots.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// The weight of single writes.
    pub write: u32,
    /// The weight of batches.
    pub batch: u32,
    /// The weight of transactions that begin and end in one operation.
    pub transact: u32,
    /// The weight of steps of the clock.
    pub advance: u32,
    /// The weight of truncations of a table.
    pub truncate: u32,
    /// The weight of drops of a table. A dropped table is soon created again.
    pub drop: u32,
    /// The weight of ingested files.
    pub ingest: u32,
    /// The weight of snapshots that are created, renewed or deleted.
    pub snapshot: u32,
    /// The weight of flushes. Merges and syncs have the same weight each.
    pub maintain: u32,
    /// The weight of reopenings.
    pub reopen: u32,
    /// The weight of reads of the current content: of single keys or of ranges.
    pub read: u32,
    /// The weight of views, snapshots, pins, iterators and transactions that are opened, used or
    /// closed.
    pub hold: u32,
    /// The weight of reads of everything.
    pub read_all: u32,
    /// The weight of backups.
    pub backup: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: u16,
    /// The most snapshots that exist at a time.
    pub snapshots_max: usize,
}

impl Mix {
    /// All kinds of operations except drops. A handle that was opened before a drop still reads the
    /// dropped table, but operations name a table in the same way before the drop and after it is
    /// created again. So the expected outcome would be ambiguous.
    pub const EVERYTHING: Self = Self {
        write: 120,
        batch: 50,
        transact: 8,
        advance: 6,
        truncate: 1,
        drop: 0,
        ingest: 6,
        snapshot: 40,
        maintain: 8,
        reopen: 4,
        read: 80,
        hold: 100,
        read_all: 2,
        backup: 1,
        value_bytes_max: 3000,
        snapshots_max: 8,
    };

    /// Operations that change the disk, with reads of the current content in between.
    pub const CHANGES_AND_READS: Self = Self {
        read: 120,
        read_all: 4,
        value_bytes_max: 3000,
        ..Self::CHANGES
    };

    /// Operations that change the disk, and no reads: the test that runs them reads the content
    /// itself.
    pub const CHANGES: Self = Self {
        write: 100,
        batch: 40,
        transact: 12,
        advance: 8,
        truncate: 2,
        drop: 3,
        ingest: 10,
        snapshot: 45,
        maintain: 11,
        reopen: 3,
        read: 0,
        hold: 0,
        read_all: 0,
        backup: 2,
        value_bytes_max: 700,
        snapshots_max: 5,
    };
}

/// Draws operations one after another. It tracks the existing snapshots, so that most operations
/// find the snapshot that they name.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    mix: Mix,
    /// Snapshots that were created and not deleted, by keyspace and name. They may have expired.
    snapshots: BTreeSet<(u8, u8)>,
    /// Number of values drawn so far. Each value gets the next number, so all are different.
    values: u32,
    /// The table that was dropped last, until it is created again.
    dropped: Option<TableNo>,
}

impl Generator {
    /// Creates a generator that draws from `rng`.
    pub fn new(rng: Rng, mix: Mix) -> Self {
        Self {
            rng,
            mix,
            snapshots: BTreeSet::new(),
            values: 0,
            dropped: None,
        }
    }

    /// Returns a list that begins with the creation of all tables, and has `operations` more
    /// operations.
    pub fn list(&mut self, operations: usize) -> Vec<Operation> {
        let mut list: Vec<_> = TableNo::all().map(Operation::CreateTable).collect();
        list.extend((0..operations).map(|_| self.operation()));
        list
    }

    /// Draws the next operation.
    pub fn operation(&mut self) -> Operation {
        let mix = self.mix;
        // A dropped table comes back soon, or operations on it would find nothing. If a second table
        // is dropped before that, the first one stays away until it is dropped again.
        if let Some(table) = self.dropped
            && self.rng.random_bool(0.3)
        {
            self.dropped = None;
            return Operation::CreateTable(table);
        }
        // In the order of the `match` below. `maintain` is the weight of each of three operations.
        let weights = [
            mix.write,
            mix.batch,
            mix.transact,
            mix.advance,
            mix.truncate,
            mix.drop,
            mix.ingest,
            mix.snapshot,
            3 * mix.maintain,
            mix.reopen,
            mix.read,
            mix.hold,
            mix.read_all,
            mix.backup,
        ];
        // The weights are stretches of a line, and the kind is the stretch in which `at` lies.
        let mut at = self.rng.random_range(0..weights.iter().sum());
        let kind = weights.iter().position(|weight| {
            let is_here = at < *weight;
            if !is_here {
                at -= weight;
            }
            is_here
        });
        match kind.expect("the number lies below the sum of the weights") {
            0 => Operation::Write(vec![self.write()]),
            1 => {
                let writes = self.rng.random_range(2..8);
                Operation::Write((0..writes).map(|_| self.write()).collect())
            }
            2 => {
                let writes = self.rng.random_range(1..6);
                Operation::Transact {
                    writes: (0..writes).map(|_| self.write()).collect(),
                    commit: self.rng.random_bool(0.8),
                }
            }
            // Times to live go up to 1000 ms, so values are read before and after their expiry.
            3 => Operation::Advance(self.rng.random_range(1..400)),
            4 => Operation::Truncate(self.table()),
            5 => {
                let table = self.table();
                self.dropped = Some(table);
                Operation::DropTable(table)
            }
            6 => self.ingest(),
            7 => self.snapshot(),
            8 => match self.rng.random_range(0..3) {
                0 => Operation::Flush,
                1 => Operation::Compact,
                _ => Operation::Sync,
            },
            9 => Operation::Reopen,
            10 => Operation::Read(self.read()),
            11 => self.hold(),
            12 => Operation::ReadAll,
            _ => Operation::Backup,
        }
    }

    fn table(&mut self) -> TableNo {
        // The last table gets few writes.
        let quiet = TABLES.len() as u8 - 1;
        if self.rng.random_bool(0.03) {
            TableNo(quiet)
        } else {
            TableNo(self.rng.random_range(0..quiet))
        }
    }

    fn key(&mut self) -> Key {
        Key(self.rng.random_range(0..KEYS))
    }

    fn value(&mut self) -> Val {
        self.values += 1;
        let longest = self.mix.value_bytes_max;
        let bytes = match self.rng.random_range(0..20) {
            0 => 0,
            1 => self.rng.random_range(longest / 2..=longest),
            _ => self.rng.random_range(1..120),
        };
        Val {
            number: self.values,
            bytes,
        }
    }

    fn write(&mut self) -> Write {
        let (table, key) = (self.table(), self.key());
        match self.rng.random_range(0..24) {
            23 => Write::DeleteRange(table, self.bounds()),
            0..=2 => Write::PutWithTtl(table, key, self.value(), self.rng.random_range(0..1000)),
            3..=8 if table.merge_operator().is_some() => Write::Merge(table, key, self.value()),
            _ => self.plain_write(),
        }
    }

    fn plain_write(&mut self) -> Write {
        let (table, key) = (self.table(), self.key());
        if self.rng.random_bool(0.75) {
            Write::Put(table, key, self.value())
        } else {
            Write::Delete(table, key)
        }
    }

    fn ingest(&mut self) -> Operation {
        let entries = self.rng.random_range(1..12);
        let entry = |_| {
            let delete = self.rng.random_bool(0.2);
            (self.key(), (!delete).then(|| self.value()))
        };
        let entries = (0..entries).map(entry).collect();
        Operation::Ingest(self.table(), entries)
    }

    fn snapshot(&mut self) -> Operation {
        if !self.snapshots.is_empty() && self.rng.random_bool(0.1) {
            let (keyspace, name) = self.known_snapshot();
            let expires = self.rng.random_bool(0.8);
            let ms = expires.then(|| self.rng.random_range(0..1000));
            return Operation::RenewSnapshot { keyspace, name, ms };
        }
        let (there, max) = (self.snapshots.len(), self.mix.snapshots_max);
        // Deletions are rare until half of the maximum exists.
        let goes = if 2 * there < max { 0.2 } else { 0.4 };
        if there >= max || (there > 0 && self.rng.random_bool(goes)) {
            let (keyspace, name) = self.known_snapshot();
            self.snapshots.remove(&(keyspace, name));
            return Operation::DeleteSnapshot { keyspace, name };
        }
        // Now and then the name is in use, and the creation is refused.
        let name = self.snapshot_name();
        let table = self.table();
        let keyspace = u8::from(table.index() >= 2);
        self.snapshots.insert((keyspace, name));
        match self.rng.random_range(0..10) {
            0..3 => Operation::CreateTableSnapshot { table, name },
            drawn => {
                let expires = drawn < 5;
                let ms = expires.then(|| self.rng.random_range(0..1500));
                Operation::CreateSnapshot { keyspace, name, ms }
            }
        }
    }

    fn known_snapshot(&mut self) -> (u8, u8) {
        if self.snapshots.is_empty() || self.rng.random_bool(0.03) {
            return (self.rng.random_range(0..2), self.snapshot_name());
        }
        let at = self.rng.random_range(0..self.snapshots.len());
        *self
            .snapshots
            .iter()
            .nth(at)
            .expect("it lies below the length")
    }

    /// Draws the number of a snapshot's name. There are several times as many numbers as there may
    /// be snapshots at once, so that most names are not in use.
    fn snapshot_name(&mut self) -> u8 {
        let names = 4 * self.mix.snapshots_max.clamp(10, 60);
        self.rng.random_range(0..names as u8)
    }

    fn bounds(&mut self) -> Bounds {
        let mut bound = || match self.rng.random_range(0..3) {
            0 => Bound::Included(Key(self.rng.random_range(0..KEYS))),
            1 => Bound::Excluded(Key(self.rng.random_range(0..KEYS))),
            _ => Bound::Unbounded,
        };
        Bounds(bound(), bound())
    }

    fn ends(&mut self) -> Ends {
        [Ends::Front, Ends::Back, Ends::Both][self.rng.random_range(0..3)]
    }

    fn read(&mut self) -> Read {
        if self.rng.random_bool(0.7) {
            Read::Get(self.table(), self.key())
        } else {
            Read::Range(self.table(), self.bounds(), self.ends())
        }
    }

    fn hold(&mut self) -> Operation {
        let slot = self.rng.random_range(0..SLOTS);
        match self.rng.random_range(0..32) {
            0 => Operation::OpenView(slot),
            1 => Operation::CloseView(slot),
            2..=6 => Operation::ReadView(slot, self.read()),
            7 => {
                let (keyspace, name) = self.known_snapshot();
                Operation::OpenSnapshot {
                    slot,
                    keyspace,
                    name,
                }
            }
            8 => Operation::CloseSnapshot(slot),
            9..=12 => Operation::ReadSnapshot(slot, self.read()),
            13 => Operation::OpenRange(slot, self.table(), self.bounds()),
            14 => Operation::CloseRange(slot),
            15..=17 => Operation::ReadOn(slot, self.rng.random_range(1..10), self.ends()),
            18 => Operation::Begin(slot),
            19 => Operation::Commit(slot),
            20 if self.rng.random_bool(0.3) => Operation::Rollback(slot),
            21 if self.rng.random_bool(0.3) => {
                Operation::GuardRange(slot, self.table(), self.bounds())
            }
            21 => Operation::Guard(slot, self.table(), self.key()),
            22..=23 => Operation::ReadIn(slot, self.read()),
            24 => {
                let (keyspace, name) = self.known_snapshot();
                Operation::Pin {
                    slot,
                    keyspace,
                    name,
                }
            }
            25 => Operation::Unpin(slot),
            26..=29 => Operation::ReadPinned(slot, self.read()),
            _ => Operation::WriteIn(slot, self.write()),
        }
    }
}
