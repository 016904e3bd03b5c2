//! Random statements through the executor, held against a plain model of Cassandra's rules,
//! with a merge operator of the test's choice: what merges may purge. What statements of
//! every kind mean, `tests/oracle` looks at.

mod garbage;
mod generate;
mod model;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{ManualClock, Options};
use ebb_tables::GracePeriods;

use crate::executor::harness::Server;
use crate::testing;

/// A server over what the disk has. `change` is told the options for CQL tables.
fn open(
    disk: &MemDisk,
    clock: &ManualClock,
    change: impl FnOnce(Options, &GracePeriods) -> Options,
) -> Server {
    let catalog = testing::open(disk, clock, change);
    Server::over(catalog, clock.clone(), Some("ks".to_owned()))
}

/// What a snapshot must show for ever.
struct Taken {
    name: String,
    shown: Vec<String>,
}
