//! Builds that have stopped or failed.

use super::*;
use crate::executor::harness::Server;

/// Returns builds without a thread.
fn builds(catalog: &Arc<Catalog>, is_stopped: bool) -> Shared {
    Shared {
        catalog: Arc::clone(catalog),
        thread: Mutex::default(),
        idle_class: false,
        stop: AtomicBool::new(is_stopped),
        state: Mutex::new(State::Idle),
        failures: Arc::default(),
        idle: Condvar::new(),
    }
}

/// Regression: a build encoded long decimals without a look at its stop flag. All rows of a large
/// partition have the same entry in an index on a column of the partition key, so no batch was sent
/// for minutes.
#[test]
fn a_stopped_scan_ends_before_it_encodes_a_long_decimal() {
    let table = "CREATE TABLE t (k decimal, j int, v decimal, PRIMARY KEY ((k, j)))";
    let indexes = ["CREATE INDEX ON t (k)", "CREATE INDEX ON t (v)"];
    let mut server = Server::with(&[table, indexes[0], indexes[1]]);
    let long = "7".repeat(2000);
    let insert = format!("INSERT INTO t (k, j, v) VALUES ({long}, 1, {long})");
    server.run(&insert);
    let catalog = server.executor.catalog();
    let table = catalog.state().table("ks", "t").unwrap().clone();
    for index in table.schema().indexes() {
        for is_stopped in [false, true] {
            let shared = builds(catalog, is_stopped);
            let pace = ScanPace::new(&shared);
            let (building, mut entries) = ([index.id], Vec::new());
            let goes_on = |_: &mut Vec<Vec<u8>>, _: &[u8]| true;
            let scanned = scan_some(
                &pace,
                &table,
                &building,
                PARTITIONS_START,
                &mut entries,
                goes_on,
            );
            assert_eq!(scanned.is_err(), is_stopped, "{}", index.name);
            assert_eq!(entries.len(), usize::from(!is_stopped), "{}", index.name);
        }
    }
}

/// Regression: while a table had damage, each attempt at its index, one a minute, committed the entries of
/// all rows before the damage again.
#[test]
fn an_attempt_goes_on_behind_the_entries_that_a_failed_one_has_committed() {
    const BATCHES: usize = 3;
    let table = "CREATE TABLE t (k int PRIMARY KEY, v int)";
    let mut server = Server::with(&[table, "CREATE INDEX ON t (v)"]);
    for k in 0..BATCHES * ENTRIES_PER_COMMIT {
        server.run(&format!("INSERT INTO t (k, v) VALUES ({k}, 7)"));
    }
    let catalog = server.executor.catalog();
    let table = catalog.state().table("ks", "t").unwrap().clone();
    let index = table.schema().indexes()[0].id;
    // The last row is damaged, so the last batch is not full.
    let rows = table.rows();
    let mut stored = rows.range::<&[u8], _>(PARTITIONS_START..);
    let (last, _) = stored.next_back().unwrap().unwrap();
    rows.put(&last, b"no row").unwrap();
    let shared = builds(catalog, false);
    let mut progress = Progress {
        from: PARTITIONS_START.to_vec(),
        losses: catalog.losses(),
    };
    let written = || catalog.db().stats().operations_written;
    let mut attempt = || {
        let before = written();
        let is_built = build_indexes(&shared, &table, &[index], &mut progress).is_ok();
        (is_built, (written() - before) as usize)
    };
    assert_eq!(attempt(), (false, (BATCHES - 1) * ENTRIES_PER_COMMIT));
    assert_eq!(attempt(), (false, 0));
    rows.delete(&last).unwrap();
    let (is_built, entries) = attempt();
    // Marking the index as built may write a few records.
    let rest = ENTRIES_PER_COMMIT - 1;
    assert!(is_built && (rest..rest + 9).contains(&entries), "{entries}");
}

/// Regression: after the loss of a file was accepted, which may have had entries that a failed attempt had
/// committed, the next attempt went on behind these entries, and the index counted as built.
#[test]
fn an_attempt_begins_anew_once_a_loss_was_accepted() {
    let table = "CREATE TABLE t (k int PRIMARY KEY, v int)";
    let server = Server::with(&[table, "CREATE INDEX ON t (v)"]);
    let catalog = server.executor.catalog();
    let building = Building {
        table: Arc::clone(catalog.state().table("ks", "t").unwrap()),
        indexes: vec![1],
    };
    let changes: [fn(&Catalog); 2] = [|_| (), |catalog| drop(catalog.begin_loss())];
    let committed = [PARTITIONS_START, b"k"].concat();
    let begins = changes.map(|change| {
        let mut failed = vec![FailedBuild {
            of: building.clone(),
            at: Instant::now(), // clock: handed to code that takes an instant
            progress: Progress {
                from: committed.clone(),
                losses: catalog.losses(),
            },
        }];
        change(catalog);
        let progress = take_progress(&mut failed, &building, catalog.losses());
        assert_eq!(progress.losses, catalog.losses());
        progress.from
    });
    assert_eq!(begins, [committed, PARTITIONS_START.to_vec()]);
}

/// Regression: the acceptance of a loss may have removed entries that a running attempt had committed. The
/// attempt went on, and marked the index as built. So did one that ran between the rewrites of two files.
#[test]
fn an_attempt_beside_an_accepted_loss_leaves_the_index_unfinished() {
    let mut server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    server.run("INSERT INTO t (k, v) VALUES (1, 7)");
    let catalog = server.executor.catalog();
    // Not by CREATE INDEX, which would build the index.
    let changed = catalog.change(|schema| {
        let target = ebb_model::schema::IndexTarget::Simple;
        schema.create_index(("ks", "t"), None, ("v", target), false)
    });
    assert!(changed.unwrap().unwrap());
    let building = Building::all(catalog).remove(0);
    let shared = builds(catalog, false);
    let begin = || take_progress(&mut Vec::new(), &building, catalog.losses());
    let attempt = |mut progress: Progress| build(&shared, &building, &mut progress);
    let is_unfinished = || Building::all(catalog).contains(&building);

    let progress = begin();
    let loss = catalog.begin_loss();
    attempt(progress).unwrap();
    assert!(is_unfinished(), "a loss has begun since");
    let refused = attempt(begin()).unwrap_err().message;
    assert!(refused.contains("lost parts"), "{refused}");
    drop(loss);
    attempt(begin()).unwrap();
    assert!(!is_unfinished());
}
