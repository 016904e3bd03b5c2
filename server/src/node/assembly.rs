//! The assembly of database, governor and runtime, in one place.

use std::sync::Arc;

use ebb_colocate::{ColocateError, Colocated, ColocatedOptions};
use ebb_jobs::{Failure, SpillPlace, disk_reserve_bytes};
use ebb_scheduler::runtime::{FixedCapacity, Runtime, RuntimeOptions, SpillSpace};
use ebb_storage::Db;

use super::options::NodeOptions;
use super::store::StoreRequests;

/// Returns the disk space for spills and outputs of the jobs. If the node has a database, jobs must
/// leave it a reserve of free space: see [`disk_reserve_bytes`].
pub(super) fn spill_space(db: Option<&Db>, runtime: &RuntimeOptions) -> SpillSpace {
    let space = runtime.spill_space.clone();
    match db {
        Some(db) => space.leaving(disk_reserve_bytes(db)),
        None => space,
    }
}

/// Starts the runtime of the jobs, and the co-location loop, which measures how many cores they may
/// use. There is no loop if the options fix the number of cores.
pub(super) fn start(
    db: Option<&Db>,
    spills: &SpillPlace,
    options: NodeOptions,
) -> Result<(Arc<Runtime>, Option<Colocated>), ColocateError> {
    let runtime = RuntimeOptions {
        spill_dir: spills.directory().to_path_buf(),
        spill_space: spills.space().clone(),
        is_disk_full: |error| Failure::of(error) == Failure::DiskFull,
        ..options.colocated.runtime
    };
    if let Some(hundredths) = options.fixed_hundredths {
        let runtime = Runtime::start(RuntimeOptions {
            capacity: Arc::new(FixedCapacity::new(hundredths)),
            ..runtime
        })?;
        return Ok((Arc::new(runtime), None));
    }
    let requests = options.colocated.requests;
    let colocated = Colocated::new(ColocatedOptions {
        requests: requests.or_else(|| Some(Box::new(StoreRequests::new(db?)))),
        runtime,
        ..options.colocated
    })?;
    Ok((Arc::clone(colocated.runtime()), Some(colocated)))
}
