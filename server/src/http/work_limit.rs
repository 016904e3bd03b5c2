//! Limits on requests that wait for the disk.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Problem, broken};

/// Permits for one kind of work on threads for blocking work. While the disk hangs, this work takes no more of
/// these threads than there are permits, and leaves the others to other requests.
#[derive(Debug, Clone)]
pub(super) struct WorkLimit(Arc<Semaphore>);

impl WorkLimit {
    /// Creates this number of permits.
    pub(super) fn new(permits: usize) -> Self {
        Self(Arc::new(Semaphore::new(permits)))
    }

    /// Waits for a permit, which takes no thread. The permit is returned when the result is dropped. The closure
    /// that runs on the thread must own the result, because the thread may outlast the request.
    ///
    /// # Errors
    /// When the semaphore is closed, which it never is.
    pub(super) async fn begin(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        permit.map_err(broken)
    }
}
