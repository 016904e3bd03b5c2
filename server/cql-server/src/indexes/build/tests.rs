//! Scans of builds that have stopped.

use super::*;
use crate::executor::harness::Server;

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
            let shared = Shared {
                catalog: Arc::clone(catalog),
                thread: Mutex::default(),
                idle_class: false,
                stop: AtomicBool::new(is_stopped),
                state: Mutex::new(State::Idle),
                failures: Arc::default(),
                idle: Condvar::new(),
            };
            let pace = ScanPace::new(&shared);
            let (building, mut entries) = ([index.id], Vec::new());
            let goes_on = |_: &mut Vec<Vec<u8>>| true;
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
