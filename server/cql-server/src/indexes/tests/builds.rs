//! Builds of indexes over existing rows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_cql::protocol::Response;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{FileSystem, ManualClock, Options, WriteBatch};
use ebb_test_support::seed::number;
use ebb_test_support::wait::{self, HANG};

use super::*;
use crate::testing::{BEGIN_MS, open};

fn pause() {
    std::thread::park_timeout(Duration::from_micros(500));
}

/// Sets a flag when it is dropped, so that the threads of a test end even if the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn older_rows_are_found_after_the_build_and_after_a_restart() {
    let disk = MemDisk::new();
    let clock = ManualClock::at_ms(BEGIN_MS);
    let start = || {
        let catalog = open(&disk, &clock, |options| options);
        Server::over(catalog, clock.clone(), Some("ks".to_owned()))
    };
    let mut server = start();
    server.keyspace = None;
    server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    server.run("USE ks");
    server.run(TABLE);
    for k in 0..2000 {
        insert(&mut server, &[(k, 1, &format!("{}", k % 500))]);
    }
    server.run("DELETE FROM t WHERE k = 507");
    // A snapshot from before the index reads without it.
    server.run("CREATE SNAPSHOT early ON KEYSPACE ks");
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    assert_eq!(server.rows("SELECT count(*) FROM t WHERE v = 7"), "3");
    assert_eq!(entries(&server, "t"), 1999);
    server.run("CREATE SNAPSHOT late ON KEYSPACE ks");
    server.run("TRUNCATE t");
    assert_eq!(
        (
            entries(&server, "t"),
            server.rows("SELECT k FROM t WHERE v = 7")
        ),
        (0, String::new())
    );
    let early = "SELECT count(*) FROM t USING SNAPSHOT early WHERE v = 7";
    assert_eq!(server.refused(early), FILTERING);
    assert_eq!(server.rows(&format!("{early} ALLOW FILTERING")), "3");
    assert_eq!(
        server.rows("SELECT count(*) FROM t USING SNAPSHOT late WHERE v = 7"),
        "3"
    );
    insert(&mut server, &[(1, 1, "7")]);
    drop(server);
    let mut server = start();
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "1");
    assert_eq!(
        server.rows("SELECT count(*) FROM t USING SNAPSHOT late WHERE v = 7"),
        "3"
    );
    server.run("DROP INDEX t_v_idx");
    assert_eq!(entries(&server, "t"), 0);
}

/// Regression: a build judged expiry by the time of readers. If the clock had been set back, the index
/// lacked the rows that readers see again after a restart.
#[test]
fn an_index_that_is_built_after_the_clock_was_set_back_has_all_rows_after_a_restart() {
    let disk = MemDisk::new();
    let clock = ManualClock::at_ms(BEGIN_MS);
    let start = |keyspace| {
        let catalog = open(&disk, &clock, |options| options);
        Server::over(catalog, clock.clone(), keyspace)
    };
    let (by_key, by_index) = (
        "SELECT k FROM t WHERE k = 1 AND c = 1",
        "SELECT k FROM t WHERE v = 7",
    );
    let mut server = start(None);
    server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    server.run("USE ks");
    server.run(TABLE);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 7) USING TTL 1000");
    clock.set_ms(BEGIN_MS + 3_600_000);
    assert_eq!(server.rows(by_key), "");
    clock.set_ms(BEGIN_MS);
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    // Until the restart expiry does not follow the clock back.
    assert_eq!(server.rows(by_key), "");
    assert_eq!(server.rows(by_index), "");
    drop(server);
    let mut server = start(Some("ks".to_owned()));
    assert_eq!(server.rows(by_key), "1");
    assert_eq!(server.rows(by_index), "1");
}

/// Regression: a build left out values that had just expired, so a client that names an earlier time
/// found them by their key but not by the index.
#[test]
fn an_index_has_the_values_that_expired_less_than_a_minute_before_the_build() {
    let mut server = Server::with(&[TABLE]);
    server.run("INSERT INTO t (k, c, v) VALUES (1, 1, 7) USING TTL 10");
    server.run("INSERT INTO t (k, c, v) VALUES (2, 1, 7) USING TTL 40");
    server.clock.advance_ms(80_000);
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    // Before both expiries. The first is more than a minute ago.
    let now_s = i32::try_from(BEGIN_MS / 1000 + 5).unwrap();
    let mut found = |text: &str| {
        let prepared = server.prepare(text).unwrap();
        let parameters = QueryParameters {
            now_s: Some(now_s),
            ..QueryParameters::default()
        };
        match server.execute(&prepared, parameters).unwrap() {
            Response::Rows(rows) => rows.cells().count(),
            other => panic!("{text}: {other:?}"),
        }
    };
    assert_eq!(found("SELECT k FROM t WHERE k = 2"), 1);
    assert_eq!(found("SELECT k FROM t WHERE v = 7"), 1);
}

/// Creates a server with two rows and an index, in the state after a crash just after CREATE INDEX:
/// the index is in the schema, and no thread builds it.
fn with_unfinished_index(disk: &MemDisk, clock: &ManualClock) -> Server {
    let catalog = open(disk, clock, |options| options);
    let mut server = Server::over(catalog, clock.clone(), None);
    server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    server.run("USE ks");
    server.run(TABLE);
    insert(&mut server, &[(1, 1, "7"), (2, 1, "7")]);
    let changed = server.executor.catalog().change(|schema| {
        let target = ebb_model::schema::IndexTarget::Simple;
        schema.create_index(("ks", "t"), None, ("v", target), false)
    });
    assert!(changed.unwrap().unwrap());
    server
}

/// A build that a crash interrupts starts anew, and no SELECT reads the unfinished index.
#[test]
fn an_unfinished_index_is_rejected_and_built_at_the_next_start() {
    let (disk, clock) = (MemDisk::new(), ManualClock::at_ms(BEGIN_MS));
    let mut server = with_unfinished_index(&disk, &clock);
    let catalog = Arc::clone(server.executor.catalog());
    insert(&mut server, &[(3, 1, "7")]);
    assert_eq!(entries(&server, "t"), 1);
    let by = "SELECT k FROM t WHERE v = 7";
    assert_eq!(
        server.refused(by),
        "The secondary index 't_v_idx' is not yet available"
    );
    assert_eq!(server.rows(&format!("{by} ALLOW FILTERING")), "1 | 2 | 3");
    server.run("CREATE SNAPSHOT half ON TABLE ks.t");
    let half = "SELECT k FROM t USING SNAPSHOT half WHERE v = 7";
    assert_eq!(server.refused(half), FILTERING);
    let version = catalog.state().version();
    drop((server, catalog));
    let catalog = open(&disk, &clock, |options| options);
    let mut server = Server::over(catalog, clock, Some("ks".to_owned()));
    server.wait_until_built("ks", "t");
    assert_eq!(server.rows(by), "1 | 2 | 3");
    assert_eq!(server.refused(half), FILTERING);
    assert_eq!(server.executor.catalog().state().version(), version);
}

/// Regression: each view of a build put its first blocks into the block cache, so the build of an index
/// over a large table displaced the blocks that reads need.
#[test]
fn a_build_puts_no_rows_into_the_block_cache() {
    const ROWS: i32 = 200;
    const PAD_BYTES: usize = 1000;
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int, pad text)"]);
    for k in 0..ROWS {
        let pad = format!("{k:>PAD_BYTES$}");
        server.run(&format!(
            "INSERT INTO t (k, v, pad) VALUES ({k}, {k}, '{pad}')"
        ));
    }
    let catalog = Arc::clone(server.executor.catalog());
    catalog.db().flush().unwrap();
    let before = catalog.db().stats().cache_bytes;
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    let added = catalog.db().stats().cache_bytes.saturating_sub(before);
    // The change of the schema may read its own records.
    let rows_bytes = ROWS as u64 * PAD_BYTES as u64;
    assert!(added < rows_bytes / 4, "{added} bytes");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "7");
}

/// Unless the catalog announces the table, its index is not built before the next start.
#[test]
fn an_unfinished_index_is_built_once_the_record_of_its_table_is_readable() {
    let (disk, clock) = (MemDisk::new(), ManualClock::at_ms(BEGIN_MS));
    let server = with_unfinished_index(&disk, &clock);
    let catalog = Arc::clone(server.executor.catalog());
    let rows = catalog.state().table("ks", "t").unwrap().rows().clone();
    let record = rows.get(SCHEMA_KEY).unwrap().unwrap();
    rows.put(SCHEMA_KEY, b"{}").unwrap();
    drop((rows, server, catalog));
    let catalog = open(&disk, &clock, |options| options);
    let mut server = Server::over(catalog, clock, Some("ks".to_owned()));
    let catalog = Arc::clone(server.executor.catalog());
    assert_eq!(catalog.unreadable().len(), 1);
    let ks = catalog.db().existing_keyspace("ks").unwrap();
    let rows = ks.existing_table("t").unwrap();
    rows.put(SCHEMA_KEY, &record).unwrap();
    catalog.reread().unwrap();
    server.wait_until_built("ks", "t");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "1 | 2");
}

/// Writers that began before the index was created may write no entries for it, so the build waits
/// for them. Readers remove stale entries at the same time.
#[test]
fn a_build_beside_writers_and_readers_misses_no_row() {
    const KEYS: i32 = 40;
    const VALUES: i32 = 7;
    let rounds = number("EBB_ROUNDS").unwrap_or(10);
    let mut server = Server::with(&[TABLE]);
    let stop = AtomicBool::new(false);
    let catalog = Arc::clone(server.executor.catalog());
    let client = || {
        Server::over(
            Arc::clone(&catalog),
            ManualClock::at_ms(BEGIN_MS),
            Some("ks".to_owned()),
        )
    };
    std::thread::scope(|scope| {
        let _stop = SetOnDrop(&stop);
        // With 421 and increments that are coprime to the modulus, a writer passes all numbers below
        // it, and so each value of each row.
        for (writer, increment) in (0..).zip([11, 13, 17]) {
            let (mut client, stop) = (client(), &stop);
            scope.spawn(move || {
                let mut at = writer;
                while !stop.load(Ordering::Relaxed) {
                    // Leaves time to the build and to the reader.
                    pause();
                    at = (at * 421 + increment) % (KEYS * 3 * VALUES);
                    let (k, c, v) = (at % KEYS, at / KEYS % 3, at % VALUES);
                    client.run(&match at % 11 {
                        0 => format!("DELETE FROM t WHERE k = {k}"),
                        1 => format!("DELETE v FROM t WHERE k = {k} AND c = {c}"),
                        2 => format!("UPDATE t SET v = {v} WHERE k = {k} AND c = {c} IF v != {v}"),
                        _ => format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, {v})"),
                    });
                }
            });
        }
        let (mut reader, stopped) = (client(), &stop);
        scope.spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                pause();
                for v in 0..VALUES {
                    let text = format!("SELECT k, c FROM t WHERE v = {v} ALLOW FILTERING");
                    drop(reader.page(&text, &[], None, None));
                }
            }
        });
        for round in 0..rounds {
            server.run("CREATE INDEX ON t (v)");
            server.wait_until_built("ks", "t");
            for v in 0..VALUES {
                // Both reads use one snapshot, because writers may change the rows in between.
                let snapshot = format!("s{round}_{v}");
                server.run(&format!("CREATE SNAPSHOT {snapshot} ON TABLE ks.t"));
                let at = format!("SELECT k, c FROM t USING SNAPSHOT {snapshot} WHERE");
                let by_index = server.rows(&format!("{at} v = {v}"));
                let walked = format!("{at} v >= {v} AND v <= {v} ALLOW FILTERING");
                assert_eq!(by_index, server.rows(&walked), "round {round}, value {v}");
                server.run(&format!("DROP SNAPSHOT {snapshot} ON TABLE ks.t"));
            }
            server.run("DROP INDEX t_v_idx");
        }
    });
}

/// A writer with the earlier schema commits rows without entries of the index, so the build has to
/// read them.
#[test]
fn a_build_waits_for_writers_with_an_earlier_schema() {
    let mut server = Server::with(&[TABLE]);
    let earlier = server.executor.catalog().state();
    server.run("CREATE INDEX ON t (v)");
    let by = "SELECT k FROM t WHERE v = 7";
    let refused = "The secondary index 't_v_idx' is not yet available";
    assert_eq!(server.refused(by), refused);
    server.put("t", &[("k", "9"), ("c", "1"), ("v", "7")]);
    drop(earlier);
    server.wait_until_built("ks", "t");
    assert_eq!(server.rows(by), "9");
}

/// Regression: the build of a table that was dropped marked the index of a new table with the same id
/// as built, although it had read none of the new table's rows. If the dropped table had rows, the build
/// could not write their entries, and the build of the new table waited for a minute.
#[test]
fn the_build_of_a_dropped_table_neither_ends_nor_delays_that_of_a_table_with_its_id() {
    let table = format!("{TABLE} WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18");
    let dropped_rows: [&[(i32, i32, &str)]; 2] = [&[], &[(2, 1, "7")]];
    for rows in dropped_rows {
        let mut server = Server::with(&[table.as_str()]);
        insert(&mut server, rows);
        let catalog = Arc::clone(server.executor.catalog());
        // The build has its table, and waits for this state.
        let earlier = catalog.state();
        server.run("CREATE INDEX ON t (v)");
        server.run("DROP TABLE t");
        server.run(&table);
        insert(&mut server, &[(1, 1, "7")]);
        let changed = catalog.change(|schema| {
            let target = ebb_model::schema::IndexTarget::Simple;
            schema.create_index(("ks", "t"), None, ("v", target), false)
        });
        assert!(changed.unwrap().unwrap());
        drop(earlier);
        server.wait_until_built("ks", "t");
        assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "1");
    }
}

const BUILDS: &str = "SELECT table_name, index_name, last_error FROM system_views.index_builds";

/// Waits until the build of the only unfinished index has failed.
#[track_caller]
fn until_failed(server: &mut Server) {
    wait::until("the build to fail", || {
        !server.rows(BUILDS).ends_with("null")
    });
}

/// Clients can read the failure in `system_views.index_builds` while the callback that logs it
/// runs.
#[test]
fn a_failed_build_is_logged_and_displayed() {
    let disk = MemDisk::new();
    let clock = ManualClock::at_ms(BEGIN_MS);
    let catalog = open(&disk, &clock, |options| options);
    let mut server = Server::over(catalog, clock, None);
    let (seen, is_seen) = channel();
    let is_seen = Mutex::new(is_seen);
    let (sender, failures) = channel();
    server.executor = server.executor.telling(move |failure| {
        let seen = is_seen.lock().unwrap().recv_timeout(HANG).is_ok();
        sender.send((seen, failure.to_owned())).unwrap();
    });
    server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    server.run("USE ks");
    server.run(TABLE);
    insert(&mut server, &[(1, 1, "7")]);
    let earlier = server.executor.catalog().state();
    server.run("CREATE INDEX ON t (v)");
    assert_eq!(server.rows(BUILDS), "t t_v_idx null");
    disk.fail_next(FaultOp::Append, 1, std::io::ErrorKind::Other);
    // The build waits for the earlier state.
    drop(earlier);
    until_failed(&mut server);
    // The callback has waited for this message.
    seen.send(()).unwrap();
    let (was_seen, failure) = failures.recv_timeout(HANG).unwrap();
    assert!(was_seen, "{failure}");
    let begin = "the indexes of ks.t cannot be built, and are tried again: ";
    let error = failure.strip_prefix(begin).expect("it says which ones");
    assert_eq!(server.rows(BUILDS), format!("t t_v_idx {error}"));
}

/// A build that stopped at the damage as at the last row would make an index without the later
/// rows.
#[test]
fn a_build_that_meets_damage_fails_and_names_the_file() {
    let disk = MemDisk::new();
    let clock = ManualClock::at_ms(BEGIN_MS);
    let catalog = open(&disk, &clock, |options| Options {
        // The build reads the damaged block from the disk.
        cache_bytes: 0,
        ..options
    });
    let mut server = Server::over(catalog, clock, None);
    server.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    server.run("USE ks");
    server.run(TABLE);
    for k in 0..2000 {
        insert(&mut server, &[(k, 1, "7")]);
    }
    server.executor.catalog().db().flush().unwrap();
    let mut files = disk.list(Path::new("/db")).unwrap();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "sst"));
    files.sort_by_key(|path| disk.file_len(path).unwrap());
    let of_table = files.pop().unwrap();
    // Data blocks are most of the file and its first part. This byte is in one of them, behind the
    // block with the record of the schema, and rows come before it and after it.
    let byte = disk.file_len(&of_table).unwrap() / 3;
    disk.flip_bit(&of_table, byte, 3).unwrap();
    server.run("CREATE INDEX ON t (v)");
    until_failed(&mut server);
    let shown = server.rows(BUILDS);
    assert!(shown.contains(&of_table.display().to_string()), "{shown}");
}

/// Damages the first row of a table, so that no index of the table can be built.
fn damage_first_row(server: &Server, table: &str) {
    let catalog = server.executor.catalog();
    let rows = catalog.state().table("ks", table).unwrap().rows().clone();
    let stored = rows.range::<&[u8], _>(PARTITIONS_START..).next();
    let (key, _) = stored.unwrap().unwrap();
    let mut damage = WriteBatch::new();
    damage.put(&rows, &key, b"no row");
    catalog.db().write(damage).unwrap();
}

/// Regression: after a failed build of a table, the build of a new table with the same id waited for up to
/// a minute.
#[test]
fn a_failed_build_does_not_delay_a_later_table_with_the_same_id() {
    let table = format!("{TABLE} WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18");
    let mut server = Server::with(&[table.as_str()]);
    insert(&mut server, &[(1, 1, "7")]);
    damage_first_row(&server, "t");
    server.run("CREATE INDEX ON t (v)");
    until_failed(&mut server);
    server.run("DROP TABLE t");
    server.run(&table);
    insert(&mut server, &[(2, 1, "7")]);
    server.run("CREATE INDEX ON t (v)");
    server.wait_until_built("ks", "t");
    assert_eq!(server.rows("SELECT k FROM t WHERE v = 7"), "2");
    assert_eq!(server.rows(BUILDS), "");
}

/// A row of the first table is damaged: the index of that table cannot be built, but the index of
/// the second table can.
#[test]
fn a_failed_build_does_not_delay_other_tables() {
    const TABLES: [&str; 2] = [
        "CREATE TABLE first (k int PRIMARY KEY, v int)",
        "CREATE TABLE second (k int PRIMARY KEY, v int)",
    ];
    let mut server = Server::with(&TABLES);
    for table in ["first", "second"] {
        server.run(&format!("INSERT INTO {table} (k, v) VALUES (1, 7)"));
    }
    damage_first_row(&server, "first");
    server.run("CREATE INDEX ON first (v)");
    until_failed(&mut server);
    server.run("CREATE INDEX ON second (v)");
    server.wait_until_built("ks", "second");
    assert_eq!(server.rows("SELECT k FROM second WHERE v = 7"), "1");
    assert!(server.rows(BUILDS).starts_with("first first_v_idx "));
    // A new table of the same name has no failure, and its build starts at once.
    server.run("DROP TABLE first");
    server.run(TABLES[0]);
    let earlier = server.executor.catalog().state();
    server.run("CREATE INDEX ON first (v)");
    assert_eq!(server.rows(BUILDS), "first first_v_idx null");
    drop(earlier);
    server.wait_until_built("ks", "first");
    assert_eq!(server.rows(BUILDS), "");
}
