//! RocksDB, tuned as its guide recommends (README.md has the reasons one by one).

use anyhow::Result;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, Options, ReadOptions,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};

use super::{Durability, Engine, See, Settings, Snapshot};

/// Read-ahead of full scans, in bytes.
const READAHEAD_BYTES: usize = 2 << 20;

/// A database with the default column family.
pub struct RocksDb {
    db: DB,
    write: WriteOptions,
}

impl RocksDb {
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let mut table = BlockBasedOptions::default();
        // 0: the cache estimates the size of its entries itself.
        let cache = Cache::new_hyper_clock_cache(settings.cache_bytes as usize, 0);
        table.set_block_cache(&cache);
        table.set_block_size(4096);
        table.set_bloom_filter(10.0, false);

        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_max_background_jobs(2);
        options.set_bytes_per_sync(1 << 20);
        // One open memtable and three that wait for their flush, as in ebb.
        options.set_write_buffer_size(settings.memtable_bytes as usize);
        options.set_max_write_buffer_number(4);
        options.set_memtable_prefix_bloom_ratio(0.02);
        options.set_memtable_whole_key_filtering(true);
        // By measurement, pipelining helps writers that do not wait for an fsync, and does not help
        // those that do.
        options.set_enable_pipelined_write(settings.durability == Durability::Os);
        // Level 1 is as large as level 0 at its merge; files are as large as a memtable.
        options.set_max_bytes_for_level_base(4 * settings.memtable_bytes);
        options.set_target_file_size_base(settings.memtable_bytes);

        let mut write = WriteOptions::default();
        write.set_sync(settings.durability == Durability::Sync);
        Ok(Self {
            db: DB::open(&options, &settings.dir)?,
            write,
        })
    }
}

impl Engine for RocksDb {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        let value = self.db.get_pinned(key)?;
        Ok(value.inspect(|value| see(key, value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn put_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn scan(&self, from: &[u8], entries_max: usize, see: See<'_>) -> Result<()> {
        let mut entries = self.db.raw_iterator();
        entries.seek(from);
        show(entries, entries_max, see)
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        let mut entries = self.db.raw_iterator_opt(full_scan());
        entries.seek_to_first();
        show(entries, usize::MAX, see)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(RocksDbSnapshot {
            snapshot: self.db.snapshot(),
        }))
    }

    fn settle(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }
}

struct RocksDbSnapshot<'a> {
    snapshot: rocksdb::Snapshot<'a>,
}

impl Snapshot for RocksDbSnapshot<'_> {
    fn get(&self, key: &[u8], see: See<'_>) -> Result<bool> {
        let value = self.snapshot.get_pinned(key)?;
        Ok(value.inspect(|value| see(key, value)).is_some())
    }

    fn scan_all(&self, see: See<'_>) -> Result<()> {
        let mut entries = self.snapshot.raw_iterator_opt(full_scan());
        entries.seek_to_first();
        show(entries, usize::MAX, see)
    }

    fn release(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Options of a full scan: with read-ahead, and without filling the block cache.
fn full_scan() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.fill_cache(false);
    options.set_readahead_size(READAHEAD_BYTES);
    options
}

fn show(mut entries: DBRawIterator<'_>, entries_max: usize, see: See<'_>) -> Result<()> {
    for _ in 0..entries_max {
        let Some((key, value)) = entries.item() else {
            entries.status()?;
            break;
        };
        see(key, value);
        entries.next();
    }
    Ok(())
}
