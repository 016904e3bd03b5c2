//! ebb, with its default options except for the sizes in [`Settings`].

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use ebb_storage::{Db, Keyspace, Options, SnapshotTable, Table, TableOptions, WriteBatch};

use super::{Counts, Durability, Engine, See, Settings, Snapshot};

const KEYSPACE: &str = "peers";
const TABLE: &str = "records";

/// A database with one table.
pub struct Ebb {
    db: Db,
    keyspace: Keyspace,
    table: Table,
    snapshots: AtomicU64,
}

impl Ebb {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let options = Options {
            durability: match settings.durability {
                Durability::Os => ebb_storage::Durability::Os,
                Durability::Sync => ebb_storage::Durability::Sync,
            },
            memtable_bytes: settings.memtable_bytes as usize,
            file_bytes: settings.memtable_bytes,
            cache_bytes: settings.cache_bytes,
            ..Options::default()
        };
        let db = Db::open(&settings.dir, options)?;
        let keyspace = db.keyspace(KEYSPACE)?;
        // Defaults of ebb: 4 KiB blocks, lz4 on all levels, 10 filter bits per key.
        let table = keyspace.table(TABLE, TableOptions::default())?;
        Ok(Self {
            db,
            keyspace,
            table,
            snapshots: AtomicU64::new(0),
        })
    }
}

impl Engine for Ebb {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        let value = self.table.get(key)?;
        Ok(value.inspect(|value| see(key, value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.table.put(key, value)?)
    }

    fn put_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in entries {
            batch.put(&self.table, key, value);
        }
        Ok(self.db.write(batch)?)
    }

    fn scan(&self, from: &[u8], entries_max: usize, see: See<'_>) -> Result<()> {
        for entry in self.table.range(from..).take(entries_max) {
            let (key, value) = entry?;
            see(&key, &value);
        }
        Ok(())
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        for entry in self.table.range::<&[u8], _>(..) {
            let (key, value) = entry?;
            see(&key, &value);
        }
        Ok(())
    }

    /// Creates a named snapshot, which would survive a restart: ebb has no cheaper kind that may be
    /// held for long.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        let number = self.snapshots.fetch_add(1, Ordering::Relaxed);
        let name = format!("s{number}");
        self.keyspace.create_snapshot(&name)?;
        let table = self.keyspace.snapshot(&name)?.table(TABLE)?;
        Ok(Box::new(EbbSnapshot {
            keyspace: &self.keyspace,
            name,
            table,
        }))
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.compact()?)
    }

    fn counts(&self) -> Option<Counts> {
        let stats = self.db.stats();
        Some(Counts {
            written_bytes: stats.wal_bytes_written + stats.flush_bytes + stats.compaction_bytes,
            write_wait_max_us: stats.write_wait_us_max,
        })
    }
}

struct EbbSnapshot<'a> {
    keyspace: &'a Keyspace,
    name: String,
    table: SnapshotTable,
}

impl Snapshot for EbbSnapshot<'_> {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        let value = self.table.get(key)?;
        Ok(value.inspect(|value| see(key, value)).is_some())
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        for entry in self.table.scan::<&[u8], _>(..) {
            let (key, value) = entry?;
            see(&key, &value);
        }
        Ok(())
    }

    fn release(self: Box<Self>) -> Result<()> {
        let Self {
            keyspace,
            name,
            table,
        } = *self;
        drop(table);
        Ok(keyspace.delete_snapshot(&name)?)
    }
}
