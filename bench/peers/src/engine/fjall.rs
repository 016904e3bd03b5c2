//! Fjall 3.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fjall::compaction::Leveled;
use fjall::config::{CompressionPolicy, PartitioningPolicy, PinningPolicy};
use fjall::{
    CompressionType, Database, Iter, Keyspace, KeyspaceCreateOptions, PersistMode, Readable,
};

use super::{Durability, Engine, See, Settings, Snapshot};

/// The interval at which [`Fjall::has_work`] is polled: Fjall has no call that waits for its
/// merges.
const POLL: Duration = Duration::from_millis(2);
/// The time without work after which none is about to start: the end of a flush or of a merge sends
/// a message, and the next merge is picked on its arrival.
const QUIET: Duration = Duration::from_millis(50);

/// A database with one keyspace.
pub struct Fjall {
    db: Database,
    keyspace: Keyspace,
    durability: Durability,
}

impl Fjall {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let db = Database::builder(&settings.dir)
            .cache_size(settings.cache_bytes)
            .open()?;
        let keyspace = db.keyspace("records", || {
            // Fjall's defaults: 4 KiB blocks, filters of 10 bits per key (more in level 0), and
            // each write is handed to the operating system.
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.memtable_bytes)
                .compaction_strategy(std::sync::Arc::new(
                    Leveled::default().with_table_target_size(settings.memtable_bytes),
                ))
                // By default Fjall leaves the first levels uncompressed.
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
                // The other engines also keep indexes and filters in memory.
                .index_block_pinning_policy(PinningPolicy::all(true))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_partitioning_policy(PartitioningPolicy::all(false))
                .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        })?;
        Ok(Self {
            db,
            keyspace,
            durability: settings.durability,
        })
    }

    fn has_work(&self) -> bool {
        self.db.outstanding_flushes() > 0
            || self.keyspace.sealed_memtable_count() > 0
            || self.db.active_compactions() > 0
    }
}

impl Engine for Fjall {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        let value = self.keyspace.get(key)?;
        Ok(value.inspect(|value| see(key, value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.durability {
            Durability::Os => Ok(self.keyspace.insert(key, value)?),
            // A batch syncs as it is written; an insert would hand the entry to
            // the operating system first, and need a second call.
            Durability::Sync => {
                let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
                batch.insert(&self.keyspace, key, value);
                Ok(batch.commit()?)
            }
        }
    }

    fn put_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = self.db.batch().durability(Some(match self.durability {
            Durability::Os => PersistMode::Buffer,
            Durability::Sync => PersistMode::SyncData,
        }));
        for (key, value) in entries {
            batch.insert(&self.keyspace, key.as_slice(), value.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn scan(&self, from: &[u8], entries_max: usize, see: See<'_>) -> Result<()> {
        show(self.keyspace.range(from..), entries_max, see)
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        show(self.keyspace.iter(), usize::MAX, see)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(FjallSnapshot {
            keyspace: &self.keyspace,
            snapshot: self.db.snapshot(),
        }))
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable()?;
        let mut quiet_since = Instant::now();
        let mut merges = self.db.compactions_completed();
        while quiet_since.elapsed() < QUIET {
            thread::park_timeout(POLL);
            let merges_now = self.db.compactions_completed();
            if self.has_work() || merges_now != merges {
                (quiet_since, merges) = (Instant::now(), merges_now);
            }
        }
        Ok(())
    }
}

struct FjallSnapshot<'a> {
    keyspace: &'a Keyspace,
    snapshot: fjall::Snapshot,
}

impl Snapshot for FjallSnapshot<'_> {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        let value = self.snapshot.get(self.keyspace, key)?;
        Ok(value.inspect(|value| see(key, value)).is_some())
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        show(self.snapshot.iter(self.keyspace), usize::MAX, see)
    }

    fn release(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn show(entries: Iter, entries_max: usize, see: See<'_>) -> Result<()> {
    for entry in entries.take(entries_max) {
        let (key, value) = entry.into_inner()?;
        see(&key, &value);
    }
    Ok(())
}
