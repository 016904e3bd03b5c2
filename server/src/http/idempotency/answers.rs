//! The responses of a server by key: in memory, and in a table of the database.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_jobs::history::{SYSTEM_KEYSPACE, Submission, now_unix_ms};
use ebb_storage::Db;
use tracing::warn;

use super::remembered::{Remembered, Step, StoredResponse};
use super::rows::{ResponseRows, TABLE};
use crate::http::problem::Problem;
use crate::http::work_limits::{WorkKind, WorkLimits};

/// The responses to requests with an `Idempotency-Key`, which are sent again in response to retries.
#[derive(Debug)]
pub(in crate::http) struct Answers {
    /// The responses in memory. A thread that writes or deletes a row of the database does not hold
    /// this lock, so requests with different keys do not wait for each other. Instead, the key of
    /// the row stays reserved: no other request can write a new row for the key before an old row
    /// is deleted.
    remembered: Mutex<Remembered>,
    /// The table of responses; `None` without a database, or if the table could not be read at the start.
    rows: Option<ResponseRows>,
    /// The limits on threads that store a response.
    limits: WorkLimits,
}

/// The execution of a request with a key. If this is dropped without a call of [`end`](Self::end), because
/// the handler panicked or the request failed, the key becomes free, and a retry is executed.
#[derive(Debug)]
pub(super) struct Execution {
    answers: Arc<Answers>,
    by: Submission,
    /// The reserved keys: a request with one of them is refused until this is dropped. While the
    /// request is executed, its own key is reserved. After [`end`](Self::end), these are the keys
    /// of older responses that were dropped for the new one, and whose rows are being deleted.
    taken: Vec<String>,
}

impl Answers {
    /// Reads the responses that earlier processes of this server stored in the database. If that fails, logs
    /// the error and keeps responses in memory only: a retry of a request to an earlier process is then
    /// executed again.
    pub(in crate::http) fn open(db: Option<&Db>, limits: WorkLimits) -> Self {
        let rows = db.map(ResponseRows::open).transpose();
        let read = rows.and_then(|rows| {
            let all = rows.as_ref().map(ResponseRows::all).transpose()?;
            Ok((rows, all.unwrap_or_default()))
        });
        let (rows, all) = read.unwrap_or_else(|error| {
            warn!(
                target: "http",
                "responses to requests with an Idempotency-Key are not kept over restarts, because \
                 their table cannot be read: {error}"
            );
            Default::default()
        });
        let mut remembered = Remembered::default();
        let now_ms = now_unix_ms();
        let mut damaged = Vec::new();
        for row in all {
            match row {
                Ok((by, response)) => {
                    // A clock that was ahead must not keep a response for longer.
                    let at_unix_ms = response.at_unix_ms.min(now_ms);
                    let response = StoredResponse {
                        at_unix_ms,
                        ..response
                    };
                    let dropped = remembered.end(&by, response);
                    // Their rows expire by themselves.
                    remembered.release(&dropped);
                }
                Err(key) => damaged.push(key),
            }
        }
        if let [first, ..] = &damaged[..] {
            warn!(
                target: "http",
                "rows of {SYSTEM_KEYSPACE}.{TABLE} are damaged, or of another version: {}, such as {first:?}; \
                 retries of their requests are executed",
                damaged.len()
            );
        }
        Self {
            remembered: Mutex::new(remembered),
            rows,
            limits,
        }
    }

    /// Returns the next step for a request: to execute it, to repeat a stored response, or to refuse it.
    pub(super) fn begin(&self, by: &Submission) -> Step {
        lock(&self.remembered).begin(by, now_unix_ms())
    }

    /// Returns the execution of a request for which [`begin`](Self::begin) has returned [`Step::Execute`].
    pub(super) fn execution(self: &Arc<Self>, by: Submission) -> Execution {
        Execution {
            answers: Arc::clone(self),
            taken: vec![by.key.clone()],
            by,
        }
    }
}

impl Execution {
    /// Stores the response in memory, so that a retry gets it, and in the table, so that a retry after a
    /// restart does. If `is_in_history`, the history has the idempotency key in the record of a job, and the
    /// response is not stored in the table. If the table cannot be written, this is only logged.
    ///
    /// # Errors
    /// When the thread that stores the response panics.
    pub(super) async fn end(
        self,
        response: StoredResponse,
        is_in_history: bool,
    ) -> Result<(), Problem> {
        let limits = self.answers.limits.clone();
        let store = move || self.store(response, is_in_history);
        limits.run_unrefused(WorkKind::StoredResponses, store).await
    }

    /// Stores the response, as described at [`end`](Self::end). Waits for the disk.
    fn store(mut self, response: StoredResponse, is_in_history: bool) {
        let rows = self.answers.rows.as_ref();
        // First the row, while the key is taken: a later row of this key must not be replaced by it.
        if let Some(rows) = rows.filter(|_| !is_in_history)
            && let Err(error) = rows.put(&self.by, &response)
        {
            warn!(
                target: "http",
                "after a restart, a retry of a request with an Idempotency-Key will be executed again, \
                 because its response cannot be stored: {error}"
            );
        }
        self.taken = lock(&self.answers.remembered).end(&self.by, response);
        if self.taken.is_empty() {
            return;
        }
        if let Some(rows) = rows
            && let Err(error) = rows.delete(&self.taken)
        {
            warn!(
                target: "http",
                "the rows of {} responses of {SYSTEM_KEYSPACE}.{TABLE} cannot be deleted, and stay until \
                 they expire: {error}",
                self.taken.len()
            );
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        lock(&self.answers.remembered).release(&self.taken);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
