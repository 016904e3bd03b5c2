//! Where requests run that are not for the thread that received them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::options::ServeOptions;
use crate::call::Lane;

/// What a scan may leave for its reader: a page is cut at this size.
pub(super) const PAGE_BYTES: usize = 1 << 20;

/// The lanes of a server.
pub(super) struct Lanes {
    scans: Semaphore,
    schema: Semaphore,
    results: Arc<Semaphore>,
}

/// What a request left for its reader. The memory counts until this is dropped.
pub(super) struct Waiting<T> {
    pub value: T,
    /// None for what is small.
    pub _memory: Option<OwnedSemaphorePermit>,
}

impl Lanes {
    pub(super) fn new(options: &ServeOptions) -> Self {
        let results = options.lane_result_bytes_max.div_ceil(PAGE_BYTES);
        Self {
            scans: Semaphore::new(options.scans_max.max(1)),
            schema: Semaphore::new(1),
            results: Arc::new(Semaphore::new(results.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Runs something when it is its turn; `None` when it panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Waiting<T>> {
        let never = "the semaphores of the lanes are not closed";
        // Memory first: whoever waits for it keeps nobody from running.
        let memory = self.results.clone().acquire_owned().await.expect(never);
        let turn = match lane {
            Lane::Inline | Lane::Write => None,
            Lane::Scan => Some(self.scans.acquire().await.expect(never)),
            Lane::Schema => Some(self.schema.acquire().await.expect(never)),
        };
        let value = spawn_blocking(work).await.ok()?;
        drop(turn);
        Some(Waiting {
            value,
            _memory: Some(memory),
        })
    }
}
