//! The progress of a backup, a restore or a verification in a server, shown while the request for it waits.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use ebb_server::http::JobsClient;

use super::attached::Attached;
use super::progress::{byte_bar, spinner};

/// The time between two requests for the progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Makes a request for work that the server lists as a job of `application`, and shows the progress of the
/// job until the response comes. Shows the text `what` until the progress is known. Shows nothing if stderr
/// is no terminal.
///
/// # Errors
/// The error of `request`. Also the error of the second connection to the server, which fetches the
/// progress.
pub(super) fn with_server_progress<T, E>(
    attached: &Attached,
    application: &'static str,
    what: &'static str,
    request: impl FnOnce() -> Result<T, E>,
) -> Result<T>
where
    anyhow::Error: From<E>,
{
    // A client makes one request at a time.
    let watcher = if stderr().is_terminal() {
        attached.server()?
    } else {
        None
    };
    let Some(watcher) = watcher else {
        return Ok(request()?);
    };
    // An error is that of the request, too.
    let others = running(&watcher, application).unwrap_or_default();
    let (done, ended) = channel();
    let response = thread::scope(|scope| {
        scope.spawn(move || follow(&watcher, application, what, &others, &ended));
        let response = request();
        drop(done);
        response
    });
    Ok(response?)
}

/// Returns the ids of the running jobs of an application.
fn running(server: &JobsClient, application: &str) -> Result<Vec<String>> {
    let jobs = server.running(application)?.into_iter();
    Ok(jobs.map(|job| job.record.id).collect())
}

/// Shows the progress of the newest running job of an application, except for the jobs with the ids
/// `others`, until the other end of `ended` is dropped.
fn follow(
    server: &JobsClient,
    application: &str,
    what: &'static str,
    others: &[String],
    ended: &Receiver<()>,
) {
    let (mut bar, mut has_bytes) = (spinner(what), false);
    while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        let jobs = server.running(application).unwrap_or_default();
        let own = jobs
            .into_iter()
            .find(|job| !others.contains(&job.record.id));
        let Some(bytes) = own.and_then(|job| job.run?.progress.bytes) else {
            continue;
        };
        if !has_bytes {
            bar.finish_and_clear();
            bar = byte_bar(bytes.bytes_total);
            has_bytes = true;
        }
        bar.set_length(bytes.bytes_total);
        bar.set_position(bytes.bytes_done);
    }
    bar.finish_and_clear();
}
