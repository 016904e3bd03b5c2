//! The versions of a table, and the removal of files that no version needs any more.

use std::path::Path;
use std::sync::Arc;

use super::{TABLE, explore, spawn};
use crate::db::TableCore;
use crate::file_system::FileSystem;
use crate::key::{FileNumber, Kind, RunId, SeqNo};
use crate::memtable::Memtable;
use crate::read::MergeOperators;
use crate::runs::{FileMeta, Run, RunFile, RunMeta};
use crate::simulation::MemDisk;
use crate::snapshots::Lifetime;
use crate::sstable::{BlockCache, SsTable, SsTableWriter};
use crate::table_store::LocalTables;
use crate::version::TableVersion;

const OLD: &str = "/000001.sst";
const NEW: &str = "/000002.sst";

/// A model of a table with one run of one file. A merge replaces the run while readers may read it.
struct Files {
    disk: MemDisk,
    table: Arc<TableCore>,
}

fn run(disk: &MemDisk, number: u64, path: &str) -> Arc<Run> {
    let path = Path::new(path);
    let mut writer = SsTableWriter::create(disk, path, (number, 1), Default::default()).unwrap();
    writer.add(b"k", SeqNo(1), Kind::Put, b"v").unwrap();
    writer.finish().unwrap();
    let cache = Arc::new(BlockCache::new(0));
    let table = SsTable::open(disk, path, number, cache).unwrap();
    let meta = RunMeta {
        id: RunId(number),
        smallest_seq: SeqNo(1),
        largest_seq: SeqNo(1),
        files: vec![FileMeta::of(FileNumber(number), &table)],
        keys: None,
        ingested_at: None,
        kept_for: Vec::new(),
    };
    let tables = Arc::new(LocalTables::new(Arc::new(disk.clone()), "/"));
    Run::new(
        meta,
        vec![RunFile::new(Ok(table), FileNumber(number), tables)],
    )
}

impl Files {
    fn new() -> Arc<Self> {
        let disk = MemDisk::new();
        let table = TableCore::new(
            0,
            TABLE,
            ("app", "users"),
            Lifetime::default(),
            Default::default(),
            &MergeOperators::none(),
            TableVersion::new(Memtable::default(), vec![run(&disk, 1, OLD)]),
        );
        Arc::new(Self { disk, table })
    }

    fn has(&self, path: &str) -> bool {
        self.disk.exists(Path::new(path)).unwrap()
    }

    /// Merges in the engine's own order: first gives readers the new version of the table, then
    /// marks the old file as obsolete. The last holder of the file removes it.
    fn merge(&self) {
        let old = self.table.version().runs[0].clone();
        let new = run(&self.disk, 2, NEW);
        let replace =
            |version: &TableVersion| Some(version.compacted(&[old.id()], None, None, Some(&new)).0);
        self.table.update(replace);
        old.retire();
        drop(old);
        self.table.release_retired();
    }

    fn read(&self) {
        let version = self.table.version();
        let path = if version.runs[0].id() == RunId(1) {
            OLD
        } else {
            NEW
        };
        assert!(self.has(path), "{path} is gone, which a reader holds");
        // A switch to another thread.
        drop(self.table.peek());
        assert!(self.has(path), "{path} is gone, which a reader holds");
    }
}

fn reader_beside_a_merge(merge: impl Fn(&Files) + Copy + Send + Sync + 'static) {
    explore(move || {
        let files = Files::new();
        let reader = spawn(&files, Files::read);
        merge(&files);
        reader.join().unwrap();
        let held = files.table.release_retired();
        assert_eq!(held, 0, "an old version is still held");
        assert!(!files.has(OLD), "a file that is no longer needed is left");
        assert!(files.has(NEW), "a live file is gone");
    });
}

/// A file stays while a reader has it, and is removed after a merge replaced it.
#[test]
fn loom_a_file_goes_once_its_last_reader_is_done() {
    reader_beside_a_merge(Files::merge);
}

/// Deliberate fault: the files of merged runs are removed at once, while a reader holds them.
#[test]
#[should_panic(expected = "which a reader holds")]
fn loom_a_file_removed_at_once_is_caught() {
    reader_beside_a_merge(|files| {
        files.merge();
        let _ = files.disk.remove(Path::new(OLD));
    });
}

/// Deliberate fault: the old files are never marked as obsolete.
#[test]
#[should_panic(expected = "is left")]
fn loom_a_file_that_is_never_retired_is_caught() {
    reader_beside_a_merge(|files| {
        let new = run(&files.disk, 2, NEW);
        let replace =
            |version: &TableVersion| Some(version.compacted(&[RunId(1)], None, None, Some(&new)).0);
        files.table.update(replace);
        files.table.release_retired();
    });
}
