//! Runs against a real store, with a few thousand operations each.

use ebb_storage::{ErrorKind, Keyspace, TableOptions};
use ebb_test_support::wait::{HANG, until};

use super::*;
use crate::ycsb::{
    Distribution, Latencies, LatencyFrom, LoadOptions, Operation, Stamp, Workload, key, load,
    write_value,
};

const RECORDS: u64 = 500;
const VALUE_BYTES: usize = 100;

struct Store {
    keyspace: Keyspace,
    table: Table,
    db: Db,
    _dir: tempfile::TempDir,
}

fn loaded() -> Store {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), ebb_storage::Options::default()).unwrap();
    let keyspace = db.keyspace("app").unwrap();
    let table = keyspace.table("t", TableOptions::default()).unwrap();
    let options = LoadOptions {
        value_bytes: VALUE_BYTES,
        ..LoadOptions::default()
    };
    let loaded = AtomicU64::new(0);
    let report = load(&db, &table, 0..RECORDS, &options, |records| {
        loaded.fetch_max(records, Ordering::Relaxed);
    });
    assert_eq!(report.unwrap().records, RECORDS);
    assert_eq!(loaded.into_inner(), RECORDS);
    Store {
        keyspace,
        table,
        db,
        _dir: dir,
    }
}

fn options(workload: &str) -> RunOptions {
    RunOptions {
        value_bytes: VALUE_BYTES,
        ..RunOptions::new(workload.parse().unwrap())
    }
}

impl Store {
    fn start(&self, options: RunOptions) -> Driver {
        Driver::start(&self.db, &self.table, &ReadFrom::Live, options).unwrap()
    }

    fn run_from(&self, read_from: &ReadFrom, workload: &str, operations: u64) -> Report {
        let options = RunOptions {
            operations_max: Some(operations),
            ..options(workload)
        };
        let driver = Driver::start(&self.db, &self.table, read_from, options).unwrap();
        driver.join().unwrap()
    }

    fn run(&self, workload: &str, operations: u64) -> Report {
        self.run_from(&ReadFrom::Live, workload, operations)
    }
}

#[test]
fn every_workload_runs_its_operations_and_reads_right_values() {
    let store = loaded();
    for workload in Workload::ALL {
        let report = store.run(workload.name, 2_000);
        assert_eq!(report.operations, 2_000, "{workload}");
        assert_eq!((report.mismatches, report.not_found), (0, 0), "{workload}");
        for (share, operation) in workload.mix {
            let done = report.latencies[operation].latencies.count;
            let expected = u64::from(*share) * 20;
            assert!(
                done.abs_diff(expected) < 150,
                "{workload} {operation} {done}"
            );
        }
        let in_timeline: u64 = report.timeline.iter().map(|interval| interval.ops).sum();
        assert_eq!(in_timeline, 2_000, "no operation is lost between intervals");
        assert!(report.driver_cpu_s > 0.0);
    }
}

#[test]
fn inserts_add_records_that_the_next_run_finds() {
    let store = loaded();
    let report = store.run("d", 2_000);
    let inserted = report.latencies[&Operation::Insert].latencies.count;
    assert!(inserted > 0);
    assert_eq!(store.run("c", 10).records, RECORDS + inserted);
}

#[test]
fn wrong_and_missing_records_are_counted() {
    let store = loaded();
    let mut value = Vec::new();
    let stamp = Stamp {
        number: 1,
        version: 0,
    };
    write_value(&mut value, stamp, VALUE_BYTES);
    // Leaves out the first and the last records, which are read to count the records.
    for number in 100..200 {
        store.table.put(&key(number), &value).unwrap();
    }
    for number in 300..310 {
        store.table.delete(&key(number)).unwrap();
    }
    let report = RunOptions {
        operations_max: Some(2_000),
        distribution: Some(Distribution::Uniform),
        ..options("c")
    };
    let report = store.start(report).join().unwrap();
    assert!((300..500).contains(&report.mismatches), "{report:?}");
    assert!((10..100).contains(&report.not_found), "{report:?}");
    let scans = store.run("e", 500);
    assert!(scans.mismatches > 0 && scans.not_found > 0, "{scans:?}");
}

#[test]
fn a_snapshot_shows_nothing_of_the_run_that_reads_it() {
    let store = loaded();
    store.keyspace.create_snapshot("before").unwrap();
    let before = ReadFrom::Snapshot("before".into());
    for workload in ["a", "d", "e", "f"] {
        let report = store.run_from(&before, workload, 1_000);
        assert_eq!((report.mismatches, report.not_found), (0, 0), "{workload}");
        assert_eq!(report.version_read_max, 0, "{workload}");
    }
    assert!(store.run("c", 1_000).version_read_max > 0);
    let missing = ReadFrom::Snapshot("never".into());
    let error = Driver::start(&store.db, &store.table, &missing, options("c")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn an_open_loop_keeps_its_rate_and_ends_in_time() {
    let store = loaded();
    let driver = store.start(RunOptions {
        pace: Pace::steady(400.0),
        duration: Some(Duration::from_millis(500)),
        ..options("a")
    });
    let timeline = driver.timeline();
    let report = driver.join().unwrap();
    let due = report.operations + report.operations_unserved;
    assert!((198..=201).contains(&due), "{due}");
    let intervals = timeline.since(0);
    let ended: u64 = intervals.iter().map(|interval| interval.ops).sum();
    assert_eq!(ended, report.operations);
    for interval in intervals {
        assert_eq!(interval.target_ops_per_s, Some(400.0));
    }
}

#[test]
fn the_timeline_grows_during_the_run() {
    let store = loaded();
    let driver = store.start(RunOptions {
        interval: Duration::from_millis(5),
        ..options("b")
    });
    let timeline = driver.timeline();
    until("three intervals to end", || timeline.since(0).len() >= 3);
    assert!(!driver.wait_for_end(Duration::ZERO));
}

#[test]
fn waiting_for_due_operations_counts_as_cpu_time_of_the_driver() {
    let store = loaded();
    let driver = store.start(RunOptions {
        // After its first operation the worker only waits.
        pace: Pace::steady(1e-6),
        threads: 1,
        ..options("b")
    });
    // The worker publishes its CPU time between two waits.
    let published_ns = || driver.shared.slots[0].cpu_ns();
    for _ in 0..5 {
        let before_ns = published_ns();
        until("the worker to wait", || published_ns() > before_ns);
    }
    driver.stop();
    let report = driver.join().unwrap();
    assert!(
        report.pacing_cpu_s > 0.0 && report.pacing_cpu_s < report.driver_cpu_s,
        "{report:?}"
    );
}

#[test]
fn sections_count_the_operations_due_in_them_and_batches_end_with_their_last() {
    let store = loaded();
    let section_ends = [100, 300].map(Duration::from_millis).to_vec();
    let report = store.start(RunOptions {
        pace: Pace::steady(5000.0),
        burst: 10,
        duration: Some(Duration::from_millis(400)),
        section_ends,
        ..options("a")
    });
    let report = report.join().unwrap();
    let [first, second] = &report.sections[..] else {
        panic!("{} sections", report.sections.len());
    };
    let operations = [first, second].map(|section| section.latencies.len());
    assert_eq!(operations, [500, 1000], "{}", report.operations);
    for section in [first, second] {
        assert_eq!(section.dispatch.len(), section.latencies.len());
        assert_eq!(section.batches.len() * 10, section.latencies.len());
        assert!(section.batches.min() >= section.latencies.min());
        assert!(section.dispatch.max() <= section.latencies.max());
        assert!(section.dispatch.mean() <= section.latencies.mean());
    }
    assert!(store.run("c", 10).sections.is_empty(), "of a closed loop");
}

/// Operations are due faster than they can end, so each has to wait for all operations before
/// it. A closed loop would not count this wait, only the few microseconds of each operation.
#[test]
fn an_open_loop_counts_the_wait_that_an_overload_causes() {
    let store = loaded();
    let report = store.start(RunOptions {
        pace: Pace::steady(1e8),
        section_ends: vec![Duration::from_millis(300)],
        duration: Some(Duration::from_millis(300)),
        ..options("a")
    });
    let report = report.join().unwrap();
    assert!(report.operations_unserved > 1_000_000);
    // Operations that no thread took have waited for half of the run, on average.
    let waited_ns = report.sections[0].latencies.mean();
    assert!((1e8..2e8).contains(&waited_ns), "{waited_ns}");
}

#[test]
fn latencies_from_the_start_leave_out_the_wait_of_an_overload() {
    let store = loaded();
    let run = |latency_from| {
        // All operations are due at once, so the last one waits for all others.
        let driver = store.start(RunOptions {
            pace: Pace::steady(1e9),
            operations_max: Some(2_000),
            threads: 1,
            latency_from,
            section_ends: vec![Duration::from_secs(1)],
            ..options("thesis-d")
        });
        let report = driver.join().unwrap();
        // Latencies of a section always count from when operations were due.
        let from_due = Latencies::from(&report.sections[0].latencies);
        (report, from_due)
    };
    let (report, from_due) = run(LatencyFrom::Due);
    assert_eq!(report.latencies_all, from_due);

    let (report, from_due) = run(LatencyFrom::Start);
    let from_start = report.latencies_all;
    assert_eq!((from_start.count, from_due.count), (2_000, 2_000));
    // The latencies of one thread add up to at most the length of the run, except for rounding.
    let all_s = from_start.mean_us * 2_000.0 / 1e6;
    assert!(all_s <= report.elapsed_s * 1.01, "{report:?}");
    assert!(from_due.mean_us > 2.0 * from_start.mean_us, "{report:?}");
}

#[test]
fn a_run_ends_by_its_flag_by_stop_and_by_drop() {
    let store = loaded();
    let by_flag = options("b");
    let flag = by_flag.stop.clone();
    let driver = store.start(by_flag);
    until("an operation to begin", || driver.operations() > 0);
    assert!(!driver.wait_for_end(Duration::ZERO));
    assert_eq!(driver.progress(), 0.0, "it has no end of its own");
    flag.store(true, Ordering::Relaxed);
    assert!(driver.join().unwrap().operations > 0);

    // A run also ends while its thread waits for the next operation to be due.
    let idle = store.start(RunOptions {
        pace: Pace::steady(1e-6),
        ..options("b")
    });
    until("the only operation to begin", || idle.operations() == 1);
    assert!(!idle.wait_for_end(Duration::ZERO));
    idle.stop();
    assert!(idle.wait_for_end(HANG));
    assert_eq!(idle.join().unwrap().operations, 1);

    drop(store.start(options("b")));
}

#[test]
fn a_watch_sets_the_writes_of_its_window_apart() {
    let store = loaded();
    let driver = store.start(options("a"));
    // Half of the operations are writes.
    let more_operations = || {
        let before = driver.operations();
        until("operations", || driver.operations() > before + 200);
    };
    more_operations();
    let watch = driver.watch("event");
    more_operations();
    drop(watch);
    driver.stop();
    let report = driver.join().unwrap();
    let group = &report.watches["event"];
    assert_eq!(group.windows.len(), 1);
    assert!(group.writes.count > 0);
    assert!(group.writes.count < report.latencies_writes.count);
    assert!(group.windows[0].closed_s > group.windows[0].opened_s);
}

#[test]
fn invalid_runs_are_refused() {
    let store = loaded();
    let empty = store.keyspace.table("empty", TableOptions::default());
    let empty = empty.unwrap();
    let without_threads = RunOptions {
        threads: 0,
        ..options("c")
    };
    let too_short = RunOptions {
        value_bytes: 8,
        ..options("c")
    };
    for (table, options) in [
        (&empty, options("c")),
        (&store.table, without_threads),
        (&store.table, too_short),
    ] {
        let started = Driver::start(&store.db, table, &ReadFrom::Live, options);
        let error = started.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
}
