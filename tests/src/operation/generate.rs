//! Random lists of operations.

use std::collections::BTreeSet;
use std::ops::Bound;

use rand::RngExt;

use super::{Bounds, Ends, KEYS, Key, Operation, Read, SLOTS, TABLES, TableNo, Val, Write};
use crate::seed::Rng;

/// How often which kind of operation comes, against the others.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Single writes.
    pub write: u32,
    /// Batches.
    pub batch: u32,
    /// Transactions of their own.
    pub transact: u32,
    /// Steps of the clock.
    pub advance: u32,
    /// Tables truncated.
    pub truncate: u32,
    /// Tables dropped, and made again soon.
    pub drop: u32,
    /// Files ingested.
    pub ingest: u32,
    /// Snapshots created, renewed, deleted.
    pub snapshot: u32,
    /// Flushes, compactions, syncs, each.
    pub maintain: u32,
    /// Reopenings.
    pub reopen: u32,
    /// Reads of what is there now.
    pub read: u32,
    /// Views, snapshots, pins, iterators, transactions: taken, used, let go.
    pub hold: u32,
    /// Reads of everything.
    pub read_all: u32,
    /// Backups.
    pub backup: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: u16,
    /// Snapshots at a time.
    pub snapshots_max: usize,
}

impl Mix {
    /// All kinds, but for drops: what is held on a table goes on with the table
    /// that it was of, which a name does not say.
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

    /// What changes the disk, with reads of what is there between.
    pub const CHANGES_AND_READS: Self = Self {
        read: 120,
        read_all: 4,
        value_bytes_max: 3000,
        ..Self::CHANGES
    };

    /// What changes the disk; the proof itself reads.
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

/// Draws operations one after another; it keeps in mind which snapshots there
/// are, so that most operations find what they name.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    mix: Mix,
    snapshots: BTreeSet<(u8, u8)>,
    values: u32,
    dropped: Option<TableNo>,
}

impl Generator {
    /// Draws from `rng`.
    pub fn new(rng: Rng, mix: Mix) -> Self {
        Self {
            rng,
            mix,
            snapshots: BTreeSet::new(),
            values: 0,
            dropped: None,
        }
    }

    /// A list that first makes the tables.
    pub fn list(&mut self, operations: usize) -> Vec<Operation> {
        let mut list: Vec<_> = TableNo::all().map(Operation::CreateTable).collect();
        list.extend((0..operations).map(|_| self.operation()));
        list
    }

    /// The next operation.
    pub fn operation(&mut self) -> Operation {
        let mix = self.mix;
        if let Some(table) = self.dropped
            && self.rng.random_bool(0.3)
        {
            self.dropped = None;
            return Operation::CreateTable(table);
        }
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
        let mut at = self.rng.random_range(0..weights.iter().sum());
        let kind = weights.iter().position(|weight| match at < *weight {
            true => true,
            false => {
                at -= weight;
                false
            }
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
        // The last table is a quiet one.
        let quiet = TABLES.len() as u8 - 1;
        match self.rng.random_bool(0.03) {
            true => TableNo(quiet),
            false => TableNo(self.rng.random_range(0..quiet)),
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
        match self.rng.random_bool(0.75) {
            true => Write::Put(table, key, self.value()),
            false => Write::Delete(table, key),
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
        // Up to half as many as there may be they come faster than they go.
        let goes = if 2 * there < max { 0.2 } else { 0.4 };
        if there >= max || (there > 0 && self.rng.random_bool(goes)) {
            let (keyspace, name) = self.known_snapshot();
            self.snapshots.remove(&(keyspace, name));
            return Operation::DeleteSnapshot { keyspace, name };
        }
        // A name in use now and then, which is refused.
        let name = self.snapshot_name();
        let table = self.table();
        let keyspace = u8::from(table.index() >= 2);
        self.snapshots.insert((keyspace, name));
        match self.rng.random_range(0..10) {
            0..3 => Operation::CreateTableSnapshot { table, name },
            3..5 => Operation::CreateExpiringSnapshot {
                keyspace,
                name,
                ms: self.rng.random_range(0..1500),
            },
            _ => Operation::CreateSnapshot { keyspace, name },
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

    /// Out of a few more than there may be.
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
        match self.rng.random_bool(0.7) {
            true => Read::Get(self.table(), self.key()),
            false => Read::Range(self.table(), self.bounds(), self.ends()),
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
