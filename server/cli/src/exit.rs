//! The message and the exit code of an error.

use std::io;
use std::process::ExitCode;

use anyhow::Error;
use ebb_jobs::Failure;
use ebb_scheduler::queueing::ModelError;
use ebb_scheduler::sim::SimError;
use ebb_server::http::ClientError;
use ebb_text::LoadError;

use super::error::CliError;
use super::open_files;
use super::print::{StdoutError, notice};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const LOCKED: u8 = 4;
const CORRUPT: u8 = 5;
const JOB_FAILED: u8 = 6;
const GOAL_MISSED: u8 = 7;
const DISK_FULL: u8 = 8;

/// The exit codes, as `ebb --help` lists them.
pub(super) const HELP: &str = "\
Exit codes:
  0  done
  1  another error, such as an I/O error or an output that exists
  2  invalid arguments, see --help; or invalid input
  3  not found: the database, keyspace, table, snapshot, key, job, backup, token or query
  4  the data directory is in use by another process
  5  a file or a row of the database is damaged
  6  the job failed, or a job or load was cancelled; nothing was written, except by publish
  7  the job succeeded, but after its goal; its output is complete
  8  the disk is full; the last write left nothing behind";

/// Prints an error on stderr, and returns its exit code. If the error is only that the reader of stdout
/// has closed it, as `head` does, prints nothing and returns success.
pub(super) fn report(error: &Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    notice(message(error));
    ExitCode::from(code(error))
}

/// Returns whether an error is only that the reader of stdout has closed it.
pub(super) fn is_closed_pipe(error: &Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<StdoutError>()
            .is_some_and(StdoutError::is_closed)
    })
}

/// Returns the message of an error with its causes, except for causes whose words the message has
/// already. Adds advice if no more files can be opened.
fn message(error: &Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !message.contains(&cause) {
            message.push_str(": ");
            message.push_str(&cause);
        }
    }
    if let Some(advice) = open_files::advice(&message) {
        message.push_str("; ");
        message.push_str(advice);
    }
    message
}

fn code(error: &Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(FAILED)
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(error) = cause.downcast_ref::<CliError>() {
        return Some(match error {
            CliError::Usage(_) => USAGE,
            CliError::Damaged(_) => CORRUPT,
            CliError::NotFound(_) => NOT_FOUND,
            CliError::JobFailed(_) => JOB_FAILED,
            CliError::DiskFull(_) => DISK_FULL,
            CliError::GoalMissed(_) => GOAL_MISSED,
        });
    }
    if let Some(ClientError::Refused(problem)) = cause.downcast_ref() {
        return Some(code_of_failure(problem.failure));
    }
    if let Some(ClientError::System { source, .. }) = cause.downcast_ref()
        && source.kind() == io::ErrorKind::InvalidInput
    {
        // The address, the token or a file of TLS that the user gave.
        return Some(USAGE);
    }
    if let Some(error) = cause.downcast_ref::<LoadError>() {
        return Some(match error {
            LoadError::Row { .. } | LoadError::File { .. } | LoadError::Duplicate { .. } => USAGE,
            LoadError::Cancelled => JOB_FAILED,
            LoadError::Store(error) => code_of(error)?,
            // The next cause in the chain is the error of the system, which decides.
            LoadError::Read { .. } | LoadError::Scratch { .. } | LoadError::Thread { .. } => {
                return None;
            }
        });
    }
    if cause.is::<SimError>() || cause.is::<ModelError>() {
        return Some(USAGE);
    }
    Failure::of_cause(cause).map(code_of_failure)
}

fn code_of_failure(failure: Failure) -> u8 {
    match failure {
        Failure::Invalid => USAGE,
        Failure::NotFound => NOT_FOUND,
        Failure::Locked => LOCKED,
        Failure::Corrupt => CORRUPT,
        Failure::DiskFull => DISK_FULL,
        Failure::Closed | Failure::Other => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::super::print::to_stdout;
    use super::*;
    use ebb_scheduler::runtime::{SpillSpace, SubmitError, TaskError};
    use ebb_server::http::{ClientTls, JobsClient};

    fn storage(error: ebb_storage::Error) -> Error {
        Error::new(error).context("opening")
    }

    #[test]
    fn the_kind_of_a_storage_error_decides_however_deep_it_is() {
        let path = || std::path::PathBuf::from("d");
        let not_found = ebb_storage::Error::NoDatabase { path: path() };
        let corrupt = ebb_storage::Error::Corruption {
            path: path(),
            offset: 7,
            detail: "bad".into(),
        };
        assert_eq!(code(&storage(not_found)), NOT_FOUND);
        assert_eq!(
            code(&storage(ebb_storage::Error::Locked { path: path() })),
            LOCKED
        );
        assert_eq!(
            code(&storage(ebb_storage::Error::DiskFull { path: path() })),
            DISK_FULL
        );
        let at_submission = SubmitError::Input(TaskError::failed(corrupt));
        assert_eq!(code(&Error::new(at_submission)), CORRUPT);
        assert_eq!(code(&anyhow::anyhow!("anything")), FAILED);
    }

    #[test]
    fn an_address_that_is_none_is_an_invalid_argument_and_no_password_is_printed() {
        let refused = JobsClient::at("http://ada:secret@db:9043", None, &ClientTls::default());
        let error = Error::new(refused.unwrap_err());
        assert_eq!(code(&error), USAGE);
        let told = message(&error);
        assert!(told.contains("http://db:9043"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }

    #[test]
    fn a_load_onto_a_full_disk_exits_with_8() {
        let path = || std::path::PathBuf::from("spill");
        let scratch = |kind: io::ErrorKind| LoadError::Scratch {
            path: path(),
            source: kind.into(),
        };
        let full = [
            LoadError::Store(ebb_storage::Error::DiskFull { path: path() }),
            scratch(io::ErrorKind::StorageFull),
            scratch(io::ErrorKind::QuotaExceeded),
        ];
        for error in full {
            let said = error.to_string();
            assert_eq!(code(&Error::new(error).context("loading")), 8, "{said}");
        }
        let refused = scratch(io::ErrorKind::PermissionDenied);
        assert_eq!(code(&Error::new(refused)), FAILED);
    }

    #[test]
    fn space_that_a_job_does_not_get_is_a_full_disk() {
        let space = SpillSpace::new(|_| Ok(0));
        let refused = space.grant().take(std::path::Path::new("spill"), 1);
        assert_eq!(code(&Error::new(refused.unwrap_err())), DISK_FULL);
        let failed = CliError::DiskFull("job grep failed".to_string());
        assert_eq!(code(&Error::new(failed)), DISK_FULL);
    }

    #[test]
    fn each_cause_is_in_the_message_once() {
        let source = io::Error::other("the disk is full");
        let submit = SubmitError::Output(TaskError::io("writing x")(source));
        let told = message(&Error::new(submit).context("cannot run"));
        assert_eq!(
            told,
            "cannot run: preparing the output: writing x: the disk is full"
        );
    }

    #[test]
    fn an_error_of_too_many_open_files_names_the_limit_to_raise() {
        let refused = |code| {
            let source = io::Error::from_raw_os_error(code);
            message(&Error::new(source).context("cannot open rows.csv"))
        };
        let told = refused(24);
        assert!(told.contains("ulimit -n"), "{told}");
        let told = refused(23);
        assert!(told.contains("fs.file-max"), "{told}");
        assert!(!refused(2).contains(';'), "another error has no advice");
        // The error of a job is only text.
        let text = format!("job grep failed: {}", io::Error::from_raw_os_error(24));
        let failed = CliError::JobFailed(text);
        let told = message(&Error::new(failed));
        assert!(told.contains("ulimit -n"), "{told}");
        // The message of the store has the advice already.
        let stored = ebb_storage::Error::Io {
            action: "open",
            path: "d".into(),
            source: io::Error::from_raw_os_error(24).into(),
        };
        let told = message(&storage(stored));
        assert_eq!(told.matches("ulimit -n").count(), 1, "{told}");
    }

    #[test]
    fn only_a_closed_stdout_is_passed_over() {
        let error = |kind: io::ErrorKind| to_stdout(Err(kind.into())).unwrap_err();
        let closed = error(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&closed));
        assert!(is_closed_pipe(&closed.context("printing")));
        let full = error(io::ErrorKind::StorageFull);
        assert!(!is_closed_pipe(&full));
        assert_eq!(code(&full), DISK_FULL);
        // Regression: any other pipe or connection that broke counted as success, too.
        let other = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(!is_closed_pipe(&Error::new(other).context("sending")));
    }
}
