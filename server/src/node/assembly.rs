//! The assembly of database, governor and runtime, in one place.

use std::path::Path;
use std::sync::Arc;

use ebb_colocate::{ColocateError, Colocated, ColocatedOptions};
use ebb_scheduler::runtime::{FixedCapacity, Runtime, RuntimeOptions};
use ebb_storage::Db;

use super::options::NodeOptions;
use super::store::StoreRequests;

/// Starts the runtime of the jobs, and the co-location loop, which measures how many cores they may
/// use. There is no loop if the options fix the number of cores.
pub(super) fn start(
    db: Option<&Db>,
    spill_dir: &Path,
    options: NodeOptions,
) -> Result<(Arc<Runtime>, Option<Colocated>), ColocateError> {
    let runtime = options.colocated.runtime;
    let spill_space = match db {
        // Jobs stop to spill while twice the store's low-water mark is free: a job fails before its
        // spills make the store refuse writes.
        Some(db) => (runtime.spill_space).leaving(db.low_water_bytes().saturating_mul(2)),
        None => runtime.spill_space,
    };
    let runtime = RuntimeOptions {
        spill_dir: spill_dir.to_path_buf(),
        spill_space,
        ..runtime
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
