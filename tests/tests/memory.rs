//! A database whose indexes and filters alone exceed its memory budget many times keeps to the
//! budget, as counted by the allocator.

use ebb_storage::{
    Db, Maintenance, Options, SortedWriter, SortedWriterOptions, SsTableOptions, TableOptions,
};
use ebb_tests::memory;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const KEYS: u32 = 1_000_000;
const MIB: usize = 1 << 20;

fn key(i: u32) -> [u8; 8] {
    (u64::from(i) * 0x0001_0000_0001).to_be_bytes()
}

#[test]
fn a_database_with_more_index_than_memory_keeps_to_its_budget() {
    // Memtables get 1 MiB of the budget, the least that they may have, and the cache gets the rest.
    let budget_bytes = 3 * MIB;
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        memory_bytes: Some(budget_bytes as u64),
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    // Small blocks need a large index: one key fills such a block, so the index has a million
    // blocks. With the filter it is cut into about 1,200 partitions, which take 17 MiB.
    let sstable = SsTableOptions {
        block_bytes: 64,
        ..SsTableOptions::default()
    };
    let sorted = SortedWriterOptions {
        sstable: sstable.clone(),
        ..SortedWriterOptions::default()
    };
    let form = TableOptions {
        sstable,
        ..TableOptions::default()
    };
    // Ingested, because puts would go through the small memtables to many files.
    let mut sorted = SortedWriter::create(dir.path().join("sorted"), "part", sorted).unwrap();
    for i in 0..KEYS {
        sorted.put(&key(i), b"v").unwrap();
    }
    let files = sorted.finish().unwrap();
    let db_dir = dir.path().join("db");
    let db = Db::open(&db_dir, options.clone()).unwrap();
    let app = db.keyspace("app").unwrap();
    let table = app.table("t", form).unwrap();
    table.ingest(&files).unwrap();
    drop((table, app, db));

    let before = memory::bytes();
    let db = Db::open(&db_dir, options).unwrap();
    let table = db.existing_keyspace("app").unwrap();
    let table = table.existing_table("t").unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    memory::reset_peak();
    for round in 0..60_000 {
        let i = rng.random_range(0..KEYS);
        assert_eq!(table.get(&key(i)).unwrap().unwrap(), "v");
        if round % 100 == 0 {
            let entries: Vec<_> = table.range(key(i)..).take(5).map(Result::unwrap).collect();
            assert_eq!(entries.len(), 5.min((KEYS - i) as usize));
        }
    }
    let stats = db.stats();
    // Only a tenth of the partitions fits into the cache, so about nine in ten of the gets have to
    // read one. The bound, eight reads of each partition, is far below that, and far above the one
    // read of each that a large cache would need.
    assert!(stats.index_reads > 10_000, "{}", stats.index_reads);
    let counted = stats.memtable_bytes + stats.cache_bytes + stats.open_table_bytes;
    assert!(counted <= budget_bytes as u64, "{counted} bytes");
    // Half, because nothing is written after the opening: the memtables' third is empty.
    assert!(
        counted >= budget_bytes as u64 / 2,
        "the budget is not used: {counted} bytes"
    );
    // The cache's own tables, and the buffers of a read, come on top.
    let peak = memory::peak_bytes() - before;
    assert!(peak <= budget_bytes + MIB, "{peak} bytes");
}
