//! The end of a server, within its grace.
//!
//! ```text
//!   stop ─┬─> jobs park ──────────────────────┬─> HTTP drains ─> the log syncs ─> close ─> exit
//!         └─> CQL: scans end, others finish ──┘
//!             3/5 of the grace                    4/5                             5/5
//! ```
//!
//! After a failed write the store only closes: it can neither sync its log nor install files. The process may
//! then start the server again (`reopen`).
//!
//! Work that does not end within its part of the grace ends with the process, as in a crash: the log
//! restores the memtables, and the next server starts jobs again that were not parked. Only the sync of
//! the log has no limit, because acknowledged writes may wait for it.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ebb_cql_server::serve::CqlServer;
use ebb_server::http::HttpServer;
use ebb_server::node::{Node, Stop};
use ebb_storage::Db;
use tracing::warn;

use super::log_levels::{CQL, HTTP, JOBS, STORAGE};

/// The time for a shutdown, from its start.
struct Grace {
    begun: Instant,
    time: Duration,
}

impl Grace {
    /// Returns the time that is left for a step of the shutdown. The step has to end when `fifths`
    /// fifths of the time for the whole shutdown have passed.
    fn left(&self, fifths: u32) -> Duration {
        (self.time / 5 * fifths).saturating_sub(self.begun.elapsed())
    }
}

/// Stops the servers and the jobs, and closes the database. Returns after `grace` at the latest, unless the
/// sync of the log takes longer. Threads that still run at the return are left behind.
///
/// `failed_write` has the cause if the server ends because a failed write has stopped all writes of the
/// store.
///
/// # Errors
/// When `failed_write` has a cause, when the memtables cannot be written to files, or when the
/// system refuses a thread. If the time is up before the memtables are written, also when the log
/// could not be synced.
pub(super) fn shut_down(
    node: Arc<Node>,
    cql: CqlServer,
    http: HttpServer,
    grace: Duration,
    failed_write: &OnceLock<String>,
) -> Result<()> {
    let grace = Grace {
        begun: Instant::now(),
        time: grace,
    };
    // Beside the end of CQL: the node is not ready any more from now on, and clients that do not read
    // their results take no time from jobs.
    let jobs = Arc::clone(&node);
    let parked = begin("ebb-park", move || jobs.shutdown(Stop::Park))?;
    if !cql.drain(grace.left(3)) {
        warn!(target: CQL, "some requests did not end in time");
    }
    if parked.recv_timeout(grace.left(4)).is_err() {
        warn!(target: JOBS, "some jobs were not parked in time");
    }
    // After the jobs: clients that wait for a job receive that it is parked.
    if !http.drain(grace.left(4)) {
        warn!(target: HTTP, "some commands were not answered in time");
    }
    let is_writable = failed_write.get().is_none();
    let synced = node.db().filter(|_| is_writable).map_or(Ok(()), Db::sync);
    let closed = begin("ebb-close", move || {
        let flushed = node.db().filter(|_| is_writable).map_or(Ok(()), Db::flush);
        // The last one closes the database, which waits for merges to stop.
        drop(node);
        flushed
    })?;
    let closed = closed.recv_timeout(grace.left(5));
    if let Some(cause) = failed_write.get() {
        bail!("the server stopped, and its store takes no more writes: {cause}");
    }
    match closed {
        Ok(flushed) => flushed?,
        Err(_) => {
            warn!(
                target: STORAGE,
                "some memtables were not written in time: the next start reads the log"
            );
            synced?;
        }
    }
    Ok(())
}

/// Starts a thread, and returns the channel that receives the result of its work.
fn begin<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Receiver<T>> {
    let (sender, result) = channel();
    let run = move || {
        // The receiver is gone if the result comes too late.
        let _ = sender.send(work());
    };
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(run).context("cannot start a thread")?;
    Ok(result)
}
