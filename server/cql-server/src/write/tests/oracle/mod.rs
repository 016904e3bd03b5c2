//! Random statements through the executor, compared with a simple model of Cassandra's rules. The
//! test provides the merge operator, to check what merges may purge. The meaning of all kinds of
//! statements is checked in `tests/oracle`.

mod garbage;
mod generate;
mod model;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{ManualClock, Options};
use ebb_tables::GracePeriods;

use crate::executor::harness::Server;
use crate::testing;

/// Returns a server over the contents of a disk. `change` may change the options for CQL tables.
fn open(
    disk: &MemDisk,
    clock: &ManualClock,
    change: impl FnOnce(Options, &GracePeriods) -> Options,
) -> Server {
    let catalog = testing::open(disk, clock, change);
    Server::over(catalog, clock.clone(), Some("ks".to_owned()))
}

/// A snapshot, with the rows that reads of the snapshot must always return.
struct ExpectedSnapshot {
    name: String,
    shown: Vec<String>,
}
