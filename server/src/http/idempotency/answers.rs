//! The responses of a server by key: in memory, and in a table of the database.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_jobs::history::{SYSTEM_KEYSPACE, Submission, now_unix_ms};
use ebb_storage::Db;
use tracing::warn;

use super::remembered::{Remembered, Step, StoredResponse};
use super::rows::{ResponseRows, TABLE};

/// The responses by key.
#[derive(Debug)]
pub(in crate::http) struct Answers {
    remembered: Mutex<Remembered>,
    /// The table; `None` without a database. Its lock is taken before that of `remembered`, and held until
    /// the rows are written, so that no row is deleted after another thread has replaced it.
    rows: Mutex<Option<ResponseRows>>,
}

/// The execution of a request with a key. If it is dropped before its end, because the handler panicked or
/// gave no response to keep, a retry is executed.
#[derive(Debug)]
pub(super) struct Execution {
    answers: Arc<Answers>,
    by: Submission,
    has_ended: bool,
}

impl Answers {
    /// Reads the responses of earlier servers. If that fails, a log line names the error, retries of requests
    /// to those servers are executed, and responses are kept in memory only.
    pub(in crate::http) fn open(db: Option<&Db>) -> Self {
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
                    remembered.end(&by, response);
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
            rows: Mutex::new(rows),
        }
    }

    /// Returns the next step for a request.
    pub(super) fn begin(&self, by: &Submission) -> Step {
        lock(&self.remembered).begin(by, now_unix_ms())
    }

    /// Begins the execution of a request, after [`begin`](Self::begin) returned it as the next
    /// step.
    pub(super) fn execution(self: &Arc<Self>, by: Submission) -> Execution {
        Execution {
            answers: Arc::clone(self),
            by,
            has_ended: false,
        }
    }
}

impl Execution {
    /// Stores the response, also in the table unless `is_in_history`: the record of a job has its key. It
    /// waits for the database.
    pub(super) fn end(mut self, response: StoredResponse, is_in_history: bool) {
        let mut rows = lock(&self.answers.rows);
        let dropped = lock(&self.answers.remembered).end(&self.by, response.clone());
        self.has_ended = true;
        let Some(rows) = rows.as_mut() else { return };
        let added = (!is_in_history).then_some((&self.by, &response));
        if let Err(error) = rows.change(added, &dropped) {
            warn!(
                target: "http",
                "after a restart, a retry of a request with an Idempotency-Key will be executed again, \
                 because its response cannot be stored: {error}"
            );
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.answers.remembered).abandon(&self.by.key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
