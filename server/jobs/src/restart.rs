//! Decisions about jobs that did not succeed. They are made from the record of the job, and the node
//! carries them out.
//!
//! [`fate`] decides about a job whose record has no end:
//!
//! ```text
//!   the record cannot be read ────────────────────────> nothing: an error
//!   it was about to put its output in place, and ─────> it succeeded
//!   that output exists
//!   its process ended too often, its output was ──────> it failed
//!   for a terminal that is gone, no request starts
//!   it (a backup, a restore or a verification), or a
//!   file that is not known to be its output is in the
//!   place of that output
//!   else ─────────────────────────────────────────────> it starts again
//! ```
//!
//! [`lacks_park`] decides whether a park of the job is to be recorded first, for a process that could not record it.
//!
//! [`check_output`] decides whether a job that starts again may write to the table of its output.
//!
//! [`unsettled_writer`] decides whether another job may write to the table of such a job before its restart.
//!
//! [`request_to_retry`] decides about a job that failed or was cancelled: whether its request may be
//! submitted again, as another job.

use ebb_tables::names::TableName;
use ebb_text::counts::counted;

use super::error::JobError;
use super::history::{JobRecord, JobTables, RecordState, STARTS_MAX};
use super::request::{JobRequest, OutputPlace};

/// The decision about an unfinished job.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// The job starts again.
    Start(Box<JobRequest>),
    /// The job had succeeded; its process ended before the success was recorded.
    Succeeded,
    /// The job does not start again, for this reason.
    GiveUp(String),
}

/// The content of the place where an unfinished job was about to put its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundOutput {
    /// Nothing, or nothing that prevents the job from putting its output there.
    Nothing,
    /// The output of the job.
    Own,
    /// A file or folder that is not known to be the output of the job: another job or program wrote it, or it was
    /// changed, or an earlier build made the record, without the identity of the file.
    Unknown,
}

/// Decides whether an unfinished job starts again. `found_output` returns what exists in the place of its output.
///
/// # Errors
/// When the job has ended, when this build cannot read its request, or when `found_output` fails.
pub fn fate(
    record: &JobRecord,
    found_output: impl FnOnce(&JobRequest) -> Result<FoundOutput, JobError>,
) -> Result<Fate, JobError> {
    let JobRecord {
        id,
        application,
        starts,
        parks,
        ..
    } = record;
    if record.state != RecordState::Started {
        return Err(ended(record, "start again"));
    }
    if record.is_maintenance() {
        return Ok(Fate::GiveUp(format!(
            "the process of {application} {id} ended before the {application} did: start another"
        )));
    }
    let request = record.request()?;
    let found = if record.commits {
        found_output(&request)?
    } else {
        FoundOutput::Nothing
    };
    if found == FoundOutput::Own {
        return Ok(Fate::Succeeded);
    }
    // A process that parked the job stopped for another reason.
    if starts.saturating_sub(*parks) >= STARTS_MAX {
        let parked = if *parks == 0 {
            String::new()
        } else {
            format!(" (and parked {})", counted(*parks, "time"))
        };
        return Ok(Fate::GiveUp(format!(
            "{application} {id} was started {starts} times{parked}, and each time its process ended \
             before the job: not started again"
        )));
    }
    if request.output.to.is_for_terminal() {
        return Ok(Fate::GiveUp(format!(
            "the rows of {application} {id} were for the terminal of a process that is gone: \
             not started again"
        )));
    }
    if found == FoundOutput::Unknown {
        let place = &request.output.to;
        return Ok(Fate::GiveUp(format!(
            "{application} {id} was interrupted while it put its output in place, and {place} is not known to \
             be that output: to run the job again, move {place} away and run `ebb jobs retry {id}`"
        )));
    }
    Ok(Fate::Start(Box::new(request)))
}

/// Returns whether the record of a job has no park for its last start. A process whose store takes no more writes
/// parks its jobs, too, but cannot record it. Each start without a park counts against [`STARTS_MAX`] in [`fate`].
pub fn lacks_park(record: &JobRecord) -> bool {
    record.state == RecordState::Started && !record.is_maintenance() && record.starts > record.parks
}

/// Checks that a job that starts again writes into the table of its last start, or creates its
/// table. `request` is the request of the job `record`, `last` is the number that
/// [`last_output_table`](crate::launch::last_output_table) returns, and `opened` are the tables that
/// the job has opened for the new start.
///
/// # Errors
/// When the table was created after the last start, possibly by another user. A job whose process
/// ended after its commit had created a table of CQL, and before this was recorded, fails, too.
pub fn check_output(
    record: &JobRecord,
    request: &JobRequest,
    last: Option<u32>,
    opened: &JobTables,
) -> Result<(), JobError> {
    if opened.output.is_none() || opened.output == last {
        return Ok(());
    }
    let JobRecord {
        id, application, ..
    } = record;
    let place = &request.output.to;
    Err(JobError::State(format!(
        "{place} was replaced: it was created after the last start of {application} {id}; to write \
         into it, run `ebb jobs retry {id}`"
    )))
}

/// Returns the unfinished job among `jobs`, other than `id`, that may have put its rows into the plain table
/// `table` (one that was not created by CQL). Until its restart has decided about these rows, no other job
/// may write there, because rows of a plain table do not show which job has written them. Jobs that write
/// into CQL tables are not returned: the rows show by their timestamp which job has written them.
pub fn unsettled_writer<'a>(
    jobs: &'a [JobRecord],
    id: &str,
    table: &TableName,
) -> Option<&'a JobRecord> {
    let is_into_table = |job: &JobRecord| {
        // A job whose request this build cannot read does not start again.
        let request = job.request().ok();
        request.is_some_and(|request| request.output.to == OutputPlace::Table(table.clone()))
    };
    jobs.iter().find(|job| {
        let may_have_rows =
            job.state == RecordState::Started && job.commits && job.written_us.is_none();
        may_have_rows && job.id != id && is_into_table(job)
    })
}

/// Returns the request of a job that failed or was cancelled, so that the caller can submit it again.
///
/// # Errors
/// When the job has succeeded or has not ended; when it is a backup, a restore or a verification; when its output
/// was the terminal of a client; or when this build cannot read its request.
pub fn request_to_retry(record: &JobRecord) -> Result<JobRequest, JobError> {
    let JobRecord {
        id, application, ..
    } = record;
    match record.state {
        RecordState::Failed | RecordState::Cancelled => {}
        RecordState::Succeeded => return Err(ended(record, "retry")),
        RecordState::Started => {
            return Err(JobError::State(format!(
                "{application} {id} is unfinished: restart it, which keeps its id and snapshots"
            )));
        }
    }
    if record.is_maintenance() {
        return Err(JobError::senseless(format!(
            "{application} {id} was not started by a job request: start another"
        )));
    }
    let request = record.request()?;
    if let OutputPlace::Spool(_) = request.output.to {
        return Err(JobError::senseless(format!(
            "the rows of {application} {id} were for the terminal of a command that has ended: run it again"
        )));
    }
    Ok(request)
}

/// Returns the error that the job has ended, and so does not allow the change `change` (a verb such as
/// "cancel").
pub fn ended(record: &JobRecord, change: &'static str) -> JobError {
    JobError::Ended {
        application: record.application.clone(),
        id: record.id.clone(),
        how: match record.state {
            RecordState::Started => "is unfinished",
            RecordState::Succeeded => "has succeeded",
            RecordState::Failed => "has failed",
            RecordState::Cancelled => "was cancelled",
        },
        change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ApplicationRequest, WordcountRequest};

    fn record(to: OutputPlace, starts: u32, commits: bool) -> JobRecord {
        let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
        let request = JobRequest::new(application, Vec::new(), to.into(), "/d");
        JobRecord {
            id: "7".to_string(),
            application: "wordcount".to_string(),
            request: request.to_json(),
            own_snapshots: Vec::new(),
            tables: JobTables::default(),
            state: RecordState::Started,
            started_unix_ms: 0,
            restarted_unix_ms: None,
            starts,
            parks: 0,
            commits,
            written_us: None,
            written_file: None,
            ended_unix_ms: None,
            report: None,
            attempts_dropped: 0,
            submission: None,
        }
    }

    #[test]
    fn a_job_starts_again_unless_it_is_done_or_must_not() {
        use FoundOutput::{Nothing, Own, Unknown};
        let file = || OutputPlace::File("x.tsv".into());
        for (record, output, expected) in [
            (record(file(), 1, false), Nothing, "start"),
            (record(file(), 1, false), Unknown, "start"),
            (record(file(), 1, true), Nothing, "start"),
            (record(file(), 1, true), Own, "succeeded"),
            (record(file(), 1, true), Unknown, "give up"),
            (record(file(), STARTS_MAX, true), Own, "succeeded"),
            (record(file(), STARTS_MAX, false), Nothing, "give up"),
            (record(OutputPlace::Terminal, 1, false), Nothing, "give up"),
            (
                record(OutputPlace::Spool("/d/rows".into()), 1, false),
                Nothing,
                "give up",
            ),
        ] {
            let found = match fate(&record, |_| Ok(output)).unwrap() {
                Fate::Start(_) => "start",
                Fate::Succeeded => "succeeded",
                Fate::GiveUp(_) => "give up",
            };
            assert_eq!(found, expected, "{record:?}, found: {output:?}");
        }
    }

    #[test]
    fn only_starts_that_were_not_parked_count_against_a_job() {
        for (starts, parks, is_started) in [
            (STARTS_MAX, 1, true),
            (STARTS_MAX + 40, 41, true),
            (STARTS_MAX + 40, 40, false),
        ] {
            let record = JobRecord {
                parks,
                ..record(OutputPlace::File("x.tsv".into()), starts, false)
            };
            let fate = fate(&record, |_| Ok(FoundOutput::Nothing)).unwrap();
            assert_eq!(matches!(fate, Fate::Start(_)), is_started, "{fate:?}");
        }
    }

    #[test]
    fn each_start_of_an_unfinished_job_may_be_parked_once() {
        for (state, starts, parks, expected) in [
            (RecordState::Started, 1, 0, true),
            (RecordState::Started, 1, 1, false),
            (RecordState::Started, 3, 2, true),
            (RecordState::Failed, 1, 0, false),
        ] {
            let mut record = JobRecord {
                state,
                parks,
                ..record(OutputPlace::File("x.tsv".into()), starts, false)
            };
            assert_eq!(lacks_park(&record), expected, "{record:?}");
            record.application = "backup".to_string();
            assert!(!lacks_park(&record), "{record:?}");
        }
    }

    #[test]
    fn a_job_starts_again_into_the_table_of_its_last_start_or_one_that_it_creates() {
        let to = OutputPlace::Table("app.out".parse().unwrap());
        let job = record(to, 1, true);
        let request = job.request().unwrap();
        for (last, output, is_permitted) in [
            (None, None, true),
            (Some(7), None, true),
            (Some(7), Some(7), true),
            (Some(7), Some(8), false),
            (None, Some(8), false),
        ] {
            let opened = JobTables {
                inputs: vec![9],
                output,
            };
            let checked = check_output(&job, &request, last, &opened);
            assert_eq!(checked.is_ok(), is_permitted, "{last:?} {output:?}");
            if let Err(error) = checked {
                let error = error.to_string();
                assert!(error.starts_with("table app.out was replaced"), "{error}");
            }
        }
    }

    #[test]
    fn a_plain_table_waits_for_an_unfinished_job_that_may_have_rows_in_it() {
        let table: TableName = "app.out".parse().unwrap();
        let other: TableName = "app.other".parse().unwrap();
        let commits = record(OutputPlace::Table(table.clone()), 1, true);
        let changed = |change: fn(&mut JobRecord)| {
            let mut job = commits.clone();
            change(&mut job);
            job
        };
        for (job, expected) in [
            (commits.clone(), true),
            (changed(|job| job.commits = false), false),
            (changed(|job| job.state = RecordState::Cancelled), false),
            (changed(|job| job.written_us = Some(1)), false),
            (changed(|job| job.request["version"] = 2.into()), false),
            (record(OutputPlace::Terminal, 1, true), false),
        ] {
            let jobs = [job];
            let found = unsettled_writer(&jobs, "8", &table);
            assert_eq!(found.is_some(), expected, "{jobs:?}");
            assert_eq!(unsettled_writer(&jobs, "7", &table), None, "its own");
            assert_eq!(unsettled_writer(&jobs, "8", &other), None);
        }
    }

    #[test]
    fn backups_and_verifications_do_not_start_again() {
        for application in ["backup", "restore", "verify"] {
            let mut record = record(OutputPlace::File("x".into()), 1, false);
            record.application = application.to_string();
            let fate = fate(&record, |_| Ok(FoundOutput::Own)).unwrap();
            assert!(matches!(fate, Fate::GiveUp(_)), "{application}: {fate:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_and_what_has_ended_is_left_alone() {
        let mut newer = record(OutputPlace::Terminal, STARTS_MAX, false);
        newer.request["version"] = 2.into();
        let output = |_: &JobRequest| Ok(FoundOutput::Own);
        let error = fate(&newer, output).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
        let mut ended = record(OutputPlace::Terminal, 1, false);
        ended.state = RecordState::Cancelled;
        let error = fate(&ended, output).unwrap_err().to_string();
        let expected = "wordcount 7 was cancelled: there is nothing to start again";
        assert_eq!(error, expected);
    }

    #[test]
    fn only_a_job_that_failed_or_was_cancelled_is_retried() {
        let retried = |state, application: &str| {
            let mut record = record(OutputPlace::File("x.tsv".into()), 1, false);
            record.state = state;
            record.application = application.to_string();
            let request = request_to_retry(&record).map_err(|error| error.to_string())?;
            assert_eq!(request.to_json(), record.request);
            Ok::<_, String>(())
        };
        for state in [RecordState::Failed, RecordState::Cancelled] {
            assert_eq!(retried(state, "wordcount"), Ok(()));
            for application in ["backup", "restore", "verify"] {
                let error = retried(state, application).unwrap_err();
                assert!(error.contains("start another"), "{error}");
            }
        }
        let mut spooled = record(OutputPlace::Spool("/d/rows".into()), 1, false);
        spooled.state = RecordState::Cancelled;
        let error = request_to_retry(&spooled).unwrap_err().to_string();
        assert!(error.contains("for the terminal of a command"), "{error}");
        let error = retried(RecordState::Succeeded, "wordcount").unwrap_err();
        assert!(
            error.contains("has succeeded: there is nothing to retry"),
            "{error}"
        );
        let error = retried(RecordState::Started, "wordcount").unwrap_err();
        assert!(error.contains("restart it"), "{error}");
    }
}
