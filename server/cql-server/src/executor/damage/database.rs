//! A database of several runs whose tables have small blocks.

use std::path::{Path, PathBuf};

use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Compression, Db, FileSystem, ManualClock, Options, SsTableOptions, Table, TieredPicker,
};

use crate::executor::harness::Server;
use crate::testing::{BEGIN_MS, open};

const SCHEMA: [&str; 7] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE ks",
    "CREATE TABLE t (k int, c int, s int STATIC, v int, l list<int>, PRIMARY KEY (k, c)) \
     WITH gc_grace_seconds = 0",
    "CREATE INDEX by_v ON t (v)",
    "CREATE INDEX by_c ON t (c)",
    "CREATE TABLE counters (k int PRIMARY KEY, hits counter)",
    "CREATE TABLE other (k int PRIMARY KEY, v int)",
];

pub(super) const PARTITIONS: i32 = 8;
/// The number of rows of a partition.
pub(super) const ROWS: i32 = 6;
/// The number of distinct values of the indexed column: 0 to 6.
pub(super) const VALUES: i32 = 7;
/// For each sorted run, in the order of their flushes, the timestamp of most writes in the run.
const TIMESTAMPS: [i32; 5] = [1000, 2000, 3000, 1500, 9000];

pub(super) fn opened(disk: &MemDisk) -> Server {
    let clock = ManualClock::at_ms(BEGIN_MS);
    let catalog = open(disk, &clock, |options| Options {
        file_bytes: 4 << 10,
        // Reads meet the damage on the disk: no cache may hide it.
        cache_bytes: 0,
        compaction: TieredPicker {
            runs_before_merge: 2,
            ..TieredPicker::default()
        }
        .into(),
        ..options
    });
    Server::over(catalog, clock, Some("ks".to_owned()))
}

pub(super) fn db_of(server: &Server) -> Db {
    server.executor.catalog().db().clone()
}

pub(super) fn rows_of(server: &Server, table: &str) -> Table {
    let state = server.executor.catalog().state();
    state.table("ks", table).unwrap().rows().clone()
}

/// Makes new files of the tables have small blocks.
fn use_small_blocks(db: &Db) {
    let keyspace = db.existing_keyspace("ks").unwrap();
    for table in ["t", "counters"] {
        let options = keyspace.existing_table(table).unwrap().options();
        let sstable = SsTableOptions {
            block_bytes: 256,
            compression: Compression::None,
            bottom_compression: None,
            ..options.sstable.clone()
        };
        keyspace.alter_table(table, sstable).unwrap();
    }
}

/// Returns the statements whose flush writes the sorted run number `round`, counted from 0. Most of
/// them have the timestamp `at`, which does not always increase from run to run.
fn writes(round: i32, at: i32) -> Vec<String> {
    let mut all = Vec::new();
    for (k, c) in (0..PARTITIONS).flat_map(|k| (0..ROWS).map(move |c| (k, c))) {
        let (v, row) = ((k + c + round) % VALUES, format!("k = {k} AND c = {c}"));
        let update = format!("UPDATE t USING TIMESTAMP {at} SET v = {v}");
        all.extend(match round {
            0 => Some(format!(
                "INSERT INTO t (k, c, s, v, l) VALUES ({k}, {c}, {k}, {v}, [{c}, {k}]) \
                 USING TIMESTAMP {at}"
            )),
            1 if (k + c) % 3 == 0 => Some(format!("{update}, l = l + [9] WHERE {row}")),
            2 if (k + 2 * c) % 5 == 1 => {
                Some(format!("DELETE FROM t USING TIMESTAMP {at} WHERE {row}"))
            }
            3 if (k + c) % 2 == 0 => Some(format!("{update} WHERE {row}")),
            4 if c == k % ROWS => Some(format!("{update} WHERE {row}")),
            _ => None,
        });
    }
    for k in 0..PARTITIONS {
        let by = k + round;
        all.push(format!(
            "UPDATE counters SET hits = hits + {by} WHERE k = {k}"
        ));
        let delete = format!("DELETE FROM t USING TIMESTAMP {at} WHERE k = {k}");
        all.extend(match (round, k % 4) {
            (0, _) => Some(format!("INSERT INTO other (k, v) VALUES ({k}, {k})")),
            (1, 0) => Some(format!("UPDATE t SET s = 100 WHERE k = {k}")),
            (2, 1) => Some(format!("{delete} AND c >= 4")),
            (2, 3) => Some(delete),
            _ => None,
        });
    }
    all
}

/// Creates a database of several runs, and a backup at "/copied" that consists of files of its own,
/// so that damage to the files of the database does not reach it.
pub(super) fn database() -> MemDisk {
    let disk = MemDisk::new();
    let mut server = opened(&disk);
    SCHEMA.iter().for_each(|text| server.run(text));
    server.wait_until_all_built();
    let db = db_of(&server);
    for (round, at) in (0..).zip(TIMESTAMPS) {
        use_small_blocks(&db);
        writes(round, at).iter().for_each(|text| server.run(text));
        if round == 3 {
            // Dropping an index writes a range tombstone of the engine.
            server.run("DROP INDEX by_c");
        }
        db.flush().unwrap();
    }
    // The tables' records stay in the log, so that no damage takes a table out of service.
    for table in ["t", "counters", "other"] {
        server.run(&format!("ALTER TABLE {table} WITH comment = 'again'"));
    }
    db.backup("/linked").unwrap();
    drop((server, db));
    disk.create_dir_all(Path::new("/copied")).unwrap();
    for path in disk.list(Path::new("/linked")).unwrap() {
        let copy = Path::new("/copied").join(path.file_name().unwrap());
        let bytes = disk.read_all(&path).unwrap();
        disk.create(&copy).unwrap().append(&bytes).unwrap();
    }
    disk
}

/// Returns the files of a table: those that remain when all other tables are dropped.
pub(super) fn files_of(disk: &MemDisk, table: &str) -> Vec<PathBuf> {
    let disk = disk.fork();
    let db = db_of(&opened(&disk));
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).unwrap();
        for other in keyspace.tables() {
            if (&*name, &*other) != ("ks", table) {
                keyspace.drop_table(&other).unwrap();
            }
        }
    }
    drop(db);
    let mut files = disk.list(Path::new("/db")).unwrap();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "sst"));
    files.sort();
    files
}
