//! Limits on requests that wait for the disk, and the only way onto a thread for blocking work.

use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use ebb_jobs::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::problem::{Problem, broken};
use super::slow;

/// A kind of work that may wait for the disk or for a lock. Each kind has a number of threads of its own, so
/// that work that hangs takes no threads of other kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// Checks of access tokens, which come before all other work of a request over TCP.
    Tokens,
    /// Health checks.
    Health,
    /// Scrapes of the metrics. A scraper sends the next scrape even if the last one is still waiting.
    Scrapes,
    /// Entries in the audit log. The log writes one entry after the other, so further threads would only wait
    /// for each other.
    AuditEntries,
    /// Storing of responses that are sent again for repeated requests.
    StoredResponses,
    /// Reads of the names in the schema, of roles, and of the statistics of tables and of the database. They
    /// wait while a change of the schema waits for the disk.
    SchemaReads,
    /// Requests that create, renew or delete a snapshot. They wait while a change of the schema takes long.
    SnapshotChanges,
    /// Reads of rows. A scan keeps its thread while it passes over deleted rows. The limit on threads also
    /// bounds the memory of the rows that are read at once.
    Rows,
    /// Reads of the history of jobs, and of profiles.
    JobReads,
    /// Requests that start, end or change a job.
    JobChanges,
    /// Estimates and what-if questions.
    Plans,
    /// Reads of the load and of the forecast.
    Load,
    /// Lists of the queries of CQL.
    Queries,
    /// Lists of the backups, whose folder may lie on another disk.
    BackupLists,
    /// Work that may read or write whole tables.
    Long,
}

impl WorkKind {
    /// All kinds, in the order of their declarations.
    const ALL: [Self; 15] = [
        Self::Tokens,
        Self::Health,
        Self::Scrapes,
        Self::AuditEntries,
        Self::StoredResponses,
        Self::SchemaReads,
        Self::SnapshotChanges,
        Self::Rows,
        Self::JobReads,
        Self::JobChanges,
        Self::Plans,
        Self::Load,
        Self::Queries,
        Self::BackupLists,
        Self::Long,
    ];

    /// Returns the most threads that work of this kind may take at once.
    const fn threads(self) -> usize {
        match self {
            Self::Health | Self::Scrapes | Self::AuditEntries | Self::Queries => 1,
            Self::Plans | Self::Load | Self::BackupLists => 2,
            Self::Tokens
            | Self::SchemaReads
            | Self::SnapshotChanges
            | Self::JobReads
            | Self::JobChanges
            | Self::Long => 4,
            Self::StoredResponses | Self::Rows => 8,
        }
    }

    /// Returns the most requests of this kind that may wait for a thread.
    const fn waiting_max(self) -> usize {
        match self {
            // As many as one token may send at once. A hundred of the connections over TCP are left to requests
            // without a token, such as health checks.
            Self::Tokens => 400,
            // A client should not wait for minutes before its work begins.
            Self::Long => 0,
            // About half of the connections over the socket, so that one kind leaves the other half to other work.
            _ => 64,
        }
    }

    /// Returns the most requests of this kind that may run or wait.
    pub(super) const fn places(self) -> usize {
        self.threads() + self.waiting_max()
    }
}

/// The number of threads for blocking work: as many as all kinds of work may take together, so that work with
/// a permit never waits for a thread. A thread is only started once it is needed.
pub(super) const BLOCKING_THREADS_MAX: usize = {
    let (mut sum, mut index) = (0, 0);
    while index < WorkKind::ALL.len() {
        let kind = WorkKind::ALL[index];
        assert!(kind as usize == index);
        sum += kind.threads();
        index += 1;
    }
    sum
};

/// The `Retry-After` time, in seconds, in the response to a request that is refused because too much work of
/// its kind waits.
const RETRY_AFTER_S: u64 = 1;

/// The permits of all kinds of work. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct WorkLimits(Arc<[WorkLimit; WorkKind::ALL.len()]>);

/// The permits of one kind of work.
#[derive(Debug)]
struct WorkLimit {
    /// A permit for each request that may run or wait. Work that is never refused needs none.
    places: Arc<Semaphore>,
    /// A permit for each thread that this kind of work may take.
    threads: Arc<Semaphore>,
}

impl Default for WorkLimits {
    fn default() -> Self {
        let limits = WorkKind::ALL.map(|kind| WorkLimit {
            places: Arc::new(Semaphore::new(kind.places())),
            threads: Arc::new(Semaphore::new(kind.threads())),
        });
        Self(Arc::new(limits))
    }
}

impl WorkLimits {
    /// Runs `work`, which may wait for the disk, on a thread for blocking work, and returns its result. If
    /// all threads of the kind are busy, waits for one without blocking a thread.
    ///
    /// # Errors
    /// 503 when too much work of the kind waits already; 500 when `work` panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        kind: WorkKind,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.place(kind)?;
        self.on_thread(kind, Some(place), work).await
    }

    /// Runs `work` as [`run`](Self::run) does, but never refuses it, however much work waits. This is for
    /// work that must follow a request that was not refused, such as storing its response.
    ///
    /// # Errors
    /// 500 when `work` panics.
    pub(super) async fn run_unrefused<T: Send + 'static>(
        &self,
        kind: WorkKind,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        self.on_thread(kind, None, work).await
    }

    /// Takes a permit for a request of this kind to run or to wait. Dropping the permit returns it.
    ///
    /// # Errors
    /// 503 when all permits are taken.
    pub(super) fn place(&self, kind: WorkKind) -> Result<OwnedSemaphorePermit, Problem> {
        let places = Arc::clone(&self.limit(kind).places);
        places.try_acquire_owned().map_err(|_| {
            let text = "too many requests of this kind run or wait: retry later";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Problem::new(status, Failure::Other, text).retry_after(RETRY_AFTER_S)
        })
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        kind: WorkKind,
        place: Option<OwnedSemaphorePermit>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let submitted = Instant::now();
        let threads = Arc::clone(&self.limit(kind).threads);
        let thread = threads.acquire_owned().await.map_err(broken)?;
        let done = spawn_blocking(move || {
            // Held until the end, because the thread may outlast the request.
            let _permits = (place, thread);
            let queued = submitted.elapsed();
            let done = work();
            (done, queued, submitted.elapsed().saturating_sub(queued))
        });
        let (done, queued, worked) = done.await.map_err(broken)?;
        slow::note(queued, worked);
        Ok(done)
    }

    fn limit(&self, kind: WorkKind) -> &WorkLimit {
        &self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::iter::from_fn;
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn a_full_limit_refuses_its_own_kind_only_and_never_what_must_follow() {
        let limits = WorkLimits::default();
        for kind in WorkKind::ALL {
            let places: Vec<_> = from_fn(|| limits.place(kind).ok()).collect();
            assert_eq!(places.len(), kind.places(), "{kind:?}");
            for other in WorkKind::ALL {
                let done = limits.run(other, || ()).await;
                assert_eq!(done.is_err(), other == kind, "{kind:?}, {other:?}");
            }
            let refused = limits.run(kind, || ()).await.unwrap_err();
            let expected = (503, Some(RETRY_AFTER_S));
            assert_eq!((refused.status, refused.retry_after_s), expected);
            assert_eq!(limits.run_unrefused(kind, || 7).await, Ok(7), "{kind:?}");
            drop(places);
            assert_eq!(limits.run(kind, || 7).await, Ok(7), "{kind:?}");
        }
    }

    /// Adds the names of the files below `dir` that contain `text` to `found`.
    fn add_files_with(text: &str, dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_files_with(text, &path, found);
            } else if fs::read_to_string(&path).unwrap().contains(text) {
                let name = path.file_name().unwrap();
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }

    /// Regression: some routes, and the checks of tokens, took threads for blocking work without a limit.
    #[test]
    fn only_this_module_takes_threads_for_blocking_work() {
        let mut found = Vec::new();
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
        add_files_with("spawn_blocking", &dir, &mut found);
        assert_eq!(found, ["work_limits.rs"], "others call `WorkLimits::run`");
    }
}
