//! The form of files: compressed differently in the oldest run, and changed while a table has
//! files.

use crate::common::one_table::{self, rows, table_options};
use crate::common::{Content, assert_is, manual};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    CompactionOptions, Compression, Db, Error, FilterPrefix, Maintenance, Options, SsTableOptions,
    Table, TieredPicker,
};

/// A part size, in bytes, that is so large that each merge has a single part.
const WHOLE: u64 = 64 << 20;
const PARTS: u64 = 16 << 10;

fn sstable(bottom_compression: Option<Compression>) -> SsTableOptions {
    SsTableOptions {
        bottom_compression,
        ..SsTableOptions::default()
    }
}

fn options(mem: &MemDisk, part_bytes: u64) -> Options {
    Options {
        memtable_bytes: 64 << 20,
        maintenance: Maintenance::Manual,
        compaction: CompactionOptions {
            part_bytes,
            ..TieredPicker {
                runs_before_merge: 2,
                ..TieredPicker::default()
            }
            .into()
        },
        ..manual(mem)
    }
}

fn open(mem: &MemDisk, form: SsTableOptions) -> (Db, Table) {
    open_with(options(mem, WHOLE), form)
}

fn open_with(options: Options, form: SsTableOptions) -> (Db, Table) {
    let (db, _, table) = one_table::open(options, table_options(form));
    (db, table)
}

/// Writes a run of text that zstd compresses better than LZ4.
fn flush_text(db: &Db, table: &Table, round: u32) {
    for number in 0..3000_u32 {
        let text = format!(
            "{{\"id\":{number},\"of\":\"round {round}\",\"hash\":\"{:08x}\",\"state\":\"open\"}}",
            number.wrapping_mul(2_654_435_761)
        );
        let key = format!("{:05}", number * 7 + round);
        table.put(key.as_bytes(), text.as_bytes()).unwrap();
    }
    db.flush().unwrap();
}

/// Returns the sizes of the table's runs in bytes, newest first.
fn bytes(db: &Db) -> Vec<u64> {
    let stats = db.stats();
    stats.tables[0].runs.iter().map(|run| run.bytes).collect()
}

/// Returns the bytes of two flushed runs together, the bytes of the run into which they are merged,
/// and its rows.
fn flushed_and_merged(form: SsTableOptions, part_bytes: u64) -> (u64, u64, Content) {
    let mem = MemDisk::new();
    let (db, table) = open_with(options(&mem, part_bytes), form.clone());
    (1..3).for_each(|round| flush_text(&db, &table, round));
    let flushed = bytes(&db).iter().sum();
    db.compact().unwrap();
    let merged = bytes(&db);
    assert_eq!(merged.len(), 1);
    let there = rows(&table);
    drop((db, table));
    let (db, table) = open(&mem, form);
    assert_eq!(rows(&table), there, "after it was opened again");
    db.verify().unwrap();
    (flushed, merged[0], there)
}

#[test]
fn the_oldest_run_has_a_compression_of_its_own() {
    for part_bytes in [WHOLE, PARTS] {
        the_oldest_run_is_compressed(part_bytes);
    }
}

fn the_oldest_run_is_compressed(part_bytes: u64) {
    let flushed_and_merged = |form| flushed_and_merged(form, part_bytes);
    let zstd = Some(Compression::Zstd);
    let (flushed, merged, there) = flushed_and_merged(sstable(None));
    let (flushed_above, merged_at_bottom, same) = flushed_and_merged(sstable(zstd));
    assert_eq!(
        (flushed, &there),
        (flushed_above, &same),
        "flushes are as without"
    );
    assert!(
        merged_at_bottom * 10 < merged * 9,
        "{merged_at_bottom} of {merged} bytes at the bottom"
    );
    let all = SsTableOptions {
        compression: Compression::Zstd,
        ..sstable(None)
    };
    let (flushed_so, merged_so, same) = flushed_and_merged(all);
    assert!(
        flushed_so * 10 < flushed * 9,
        "{flushed_so} of {flushed} bytes"
    );
    assert_eq!((merged_so, there), (merged_at_bottom, same));
}

#[test]
fn a_merge_above_an_older_run_is_not_at_the_bottom() {
    let merged_above = |form| {
        let (db, table) = open(&MemDisk::new(), form);
        let snapshots = db.keyspace("app").unwrap();
        flush_text(&db, &table, 0);
        // The run of before stays for it.
        snapshots.create_snapshot("before").unwrap();
        (1..4).for_each(|round| flush_text(&db, &table, round));
        db.compact().unwrap();
        let bytes = bytes(&db);
        assert_eq!(bytes.len(), 2, "one of each side of the snapshot");
        bytes
    };
    let (plain, other) = (
        merged_above(sstable(None)),
        merged_above(sstable(Some(Compression::Zstd))),
    );
    assert_eq!(plain[0], other[0]);
}

#[test]
fn an_altered_form_is_that_of_new_files_and_is_kept() {
    let mem = MemDisk::new();
    let (db, table) = open(&mem, sstable(None));
    (1..3).for_each(|round| flush_text(&db, &table, round));
    db.compact().unwrap();
    let (before, there) = (bytes(&db)[0], rows(&table));
    let app = db.keyspace("app").unwrap();
    let zstd = SsTableOptions {
        compression: Compression::Zstd,
        ..sstable(None)
    };
    app.alter_table("users", zstd.clone()).unwrap();
    assert_eq!(table.options().sstable, zstd);
    assert_eq!((bytes(&db)[0], rows(&table)), (before, there.clone()));
    drop((db, table, app));

    let (db, table) = open(&mem, zstd);
    (1..3).for_each(|round| flush_text(&db, &table, round));
    db.compact().unwrap();
    assert_eq!(rows(&table), there);
    let after: u64 = bytes(&db).iter().sum();
    assert!(after * 10 < before * 9, "{after} of {before} bytes");
}

#[test]
fn an_invalid_alteration_is_refused_with_advice() {
    let (db, table) = open(&MemDisk::new(), sstable(None));
    let app = db.keyspace("app").unwrap();
    let refused = |name: &str, form: SsTableOptions| app.alter_table(name, form).unwrap_err();
    let other_prefix = SsTableOptions {
        filter_prefix: Some(FilterPrefix::Bytes(2)),
        ..sstable(None)
    };
    let no_block = SsTableOptions {
        block_bytes: 0,
        ..sstable(None)
    };
    for (error, expected) in [
        (refused("users", other_prefix), "copy what there is"),
        (refused("users", no_block), "block_bytes is 0"),
    ] {
        assert!(matches!(error, Error::InvalidRequest(_)));
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_is!(refused("u", sstable(None)), Error::NotFound { .. });
    assert_eq!(table.options().sstable, sstable(None));
}
