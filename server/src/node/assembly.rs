//! Database, governor and runtime put together: the one place where that is done.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ebb_colocate::{
    ColocateError, Colocated, ColocatedOptions, Governor, GuardWatch, Latencies, LatencySource,
};
use ebb_scheduler::runtime::{FixedCapacity, Runtime, RuntimeOptions};
use ebb_storage::Db;

use super::options::NodeOptions;
use super::store::StoreRequests;

/// What runs jobs, and what says how much they may use.
pub(super) enum Assembly {
    /// What is left of the machine.
    Colocated(Box<Colocated>),
    /// The same at all times.
    Fixed(Arc<Runtime>),
}

impl Assembly {
    pub(super) fn start(
        db: Option<&Db>,
        spill_dir: &Path,
        options: NodeOptions,
    ) -> Result<Self, ColocateError> {
        let runtime = RuntimeOptions {
            spill_dir: spill_dir.to_path_buf(),
            ..options.colocated.runtime
        };
        if let Some(hundredths) = options.fixed_hundredths {
            let runtime = Runtime::start(RuntimeOptions {
                capacity: Arc::new(FixedCapacity::new(hundredths)),
                ..runtime
            })?;
            return Ok(Self::Fixed(Arc::new(runtime)));
        }
        let requests = options.colocated.requests;
        let colocated = Colocated::new(ColocatedOptions {
            requests: requests.or_else(|| Some(Box::new(StoreRequests::new(db?)))),
            runtime,
            ..options.colocated
        })?;
        Ok(Self::Colocated(Box::new(colocated)))
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        match self {
            Self::Colocated(colocated) => colocated.runtime(),
            Self::Fixed(runtime) => runtime,
        }
    }

    /// None where what jobs may use is fixed.
    pub(super) fn governor(&self) -> Option<&Arc<Governor>> {
        match self {
            Self::Colocated(colocated) => Some(colocated.governor()),
            Self::Fixed(_) => None,
        }
    }

    /// Where a server enters the latencies of its requests; none where what jobs may use
    /// is fixed.
    pub(super) fn latencies(&self) -> Option<Latencies> {
        match self {
            Self::Colocated(colocated) => Some(colocated.latencies()),
            Self::Fixed(_) => None,
        }
    }

    /// Lets the guard see the latencies of the load.
    pub(super) fn watch(
        &self,
        source: impl LatencySource + 'static,
    ) -> io::Result<Option<GuardWatch>> {
        match self {
            Self::Colocated(colocated) => colocated.watch(source).map(Some),
            Self::Fixed(_) => Ok(None),
        }
    }
}
