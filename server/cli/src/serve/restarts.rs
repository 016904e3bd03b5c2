//! The jobs that a start of the server runs again.

use ebb_jobs::JobError;
use ebb_jobs::history::JobRecord;
use ebb_server::jobs::Restart;
use ebb_server::node::Node;
use tracing::{error, info, warn};

use super::log_levels::JOBS;

/// Starts the jobs again that the last process over this directory left unfinished. A job that cannot start
/// is logged, and the server starts without it.
///
/// If a failed write has led to this start (`has_reopened`), the last program has parked its jobs and could not
/// record it, so this records it.
pub(super) fn restart_jobs(node: &Node, has_reopened: bool) {
    for job in listed(node.unfinished()) {
        let (application, id) = (&job.application, &job.id);
        if has_reopened && let Err(error) = node.note_parked(id) {
            warn!(
                target: JOBS,
                "the history does not show that {application} {id} was parked: {error}"
            );
        }
        match node.restart(id) {
            Ok(Restart::Runs(_)) => info!(target: JOBS, "{application} {id} is restarted"),
            Ok(Restart::HadSucceeded(_)) => {
                info!(target: JOBS, "{application} {id} had succeeded: its output is there");
            }
            Ok(Restart::GivenUp(cause)) => {
                warn!(target: JOBS, "{application} {id} is given up: {cause}");
            }
            Err(error) => warn!(target: JOBS, "{application} {id} cannot be restarted: {error}"),
        }
    }
}

/// Returns the unfinished jobs. If the history of jobs cannot be read, for example because it is damaged or the
/// disk has a bad sector, this is logged, and all jobs stay unfinished: it must not keep the server from
/// serving tables.
fn listed(unfinished: Result<Vec<JobRecord>, JobError>) -> Vec<JobRecord> {
    unfinished.unwrap_or_else(|error| {
        error!(
            target: JOBS,
            "the history of jobs cannot be read, so unfinished jobs are not restarted: {error}"
        );
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    /// Regression: a bad sector below the history of jobs kept the server from its start.
    #[test]
    fn a_history_that_the_disk_does_not_return_leaves_all_jobs_unfinished() {
        const EIO: i32 = 5;
        let failed = ebb_storage::Error::Io {
            action: "read",
            path: "000012.sst".into(),
            source: Arc::new(io::Error::from_raw_os_error(EIO)),
        };
        assert_eq!(listed(Err(failed.into())), []);
    }
}
