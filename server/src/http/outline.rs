//! The outline of a job, for roles that may not read what the job reads.
//!
//! The options of a job may contain values of rows, as a pattern or a condition does, and its
//! errors quote rows. So a token of a role shows both only of jobs whose inputs the role may read.
//! A permission on a table counts only if the job reads the table that has the name now, and not a
//! dropped one. The outline of any other job has the application, the goal, the state, the times
//! and the counters. The outline of a backup or a verification also has the options, which are
//! names, and the names of damaged files. It lacks the descriptions of the damage, which may have
//! keys of rows. The table `system_views.jobs` of CQL follows the same rule by
//! [`request_shown_to`].

use std::borrow::Cow;
use std::iter::repeat;

use ebb_jobs::history::{JobAttempt, JobRecord};
use ebb_scheduler::runtime::{AttemptOutcome, Outcome};
use ebb_storage::Db;
use ebb_tables::names::TableName;
use serde_json::{Value, json};

use super::permits::{check_admin, check_recorded_input};
use super::problem::Problem;
use crate::jobs::JobView;
use crate::tokens::Principal;

/// The text in place of an error that the client may not see.
const HIDDEN: &str = "not shown: the role of this token may not read what the job reads";
/// The lists of damaged files in the reports of backups, verifications and restores, as JSON pointers.
const DAMAGE: [&str; 4] = [
    "/backup/damaged",
    "/verify/findings",
    "/restore/restored",
    "/restore/left",
];

/// The inputs of a job, in so far as they decide who may see its options and errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reads {
    /// The tables that the job reads, possibly none, with their numbers; `None` for an unknown
    /// number. The job has no other inputs.
    Tables(Vec<(TableName, Option<u32>)>),
    /// Files of the server's machine, as a backup or a verification reads them, or inputs that this
    /// build cannot parse. A principal with a role sees the options and errors only with scope
    /// `admin`.
    Others,
}

impl Reads {
    /// Returns the inputs of a job.
    pub(super) fn of(record: &JobRecord) -> Self {
        match record.request() {
            Ok(request) if !request.reads_files() => {
                let numbers = record.tables.inputs.iter().copied().map(Some);
                let numbers = numbers.chain(repeat(None));
                Self::Tables(request.tables_read().cloned().zip(numbers).collect())
            }
            _ => Self::Others,
        }
    }

    /// Returns whether the principal may see the options and the errors of a job with this input. A
    /// principal without a role may, whatever the scope of its token.
    pub(super) fn are_open_to(&self, principal: &Principal, db: Option<&Db>) -> bool {
        principal.role.is_none() || self.check(principal, db).is_ok()
    }

    /// Checks that the principal may read the input.
    ///
    /// # Errors
    /// 403; the text names the scope or the permission that is missing.
    pub(super) fn check(&self, principal: &Principal, db: Option<&Db>) -> Result<(), Problem> {
        match self {
            Self::Tables(tables) => {
                let mut tables = tables.iter();
                tables.try_for_each(|(table, number)| {
                    check_recorded_input(principal, table, *number, db)
                })
            }
            Self::Others => check_admin(principal),
        }
    }
}

/// Returns whether the principal may see the options and the errors of a job.
pub(super) fn is_open_to(principal: &Principal, record: &JobRecord, db: Option<&Db>) -> bool {
    // Without a role the request need not be parsed.
    principal.role.is_none() || Reads::of(record).are_open_to(principal, db)
}

/// Returns the view of a job as the principal may see it: the [`outline`], if the principal may not read what
/// the job reads.
pub(super) fn shown_to(principal: &Principal, view: JobView, db: Option<&Db>) -> JobView {
    if is_open_to(principal, &view.record, db) {
        view
    } else {
        outline(view)
    }
}

/// Returns the request of a job in the history of `db` as the principal may see it: without its
/// options, if the principal may not read what the job reads.
pub fn request_shown_to<'r>(
    principal: &Principal,
    record: &'r JobRecord,
    db: Option<&Db>,
) -> Cow<'r, Value> {
    if is_open_to(principal, record, db) {
        Cow::Borrowed(&record.request)
    } else {
        Cow::Owned(outline_of_request(record))
    }
}

/// Returns the request of a job without its options: only the application and the goal. A backup or
/// a verification keeps its options.
fn outline_of_request(record: &JobRecord) -> Value {
    if record.is_maintenance() {
        return record.request.clone();
    }
    let application = record.application.clone();
    let goal_s = record.request.get("goal_s").cloned();
    json!({"application": {(application): {}}, "goal_s": goal_s})
}

/// Returns the view of a job without the options of its request, its inputs and the texts of its errors, for
/// a client that may not read what the job reads.
pub(super) fn outline(mut view: JobView) -> JobView {
    view.record.request = outline_of_request(&view.record);
    // Its hash of the request would confirm guesses of the options.
    view.record.submission = None;
    let report = view.record.report.as_mut();
    if let Some(cause) = report.and_then(|report| report.pointer_mut("/outcome/cause")) {
        *cause = Value::from(HIDDEN);
    }
    for list in DAMAGE {
        let report = view.record.report.as_mut();
        let files = report.and_then(|report| report.pointer_mut(list)?.as_array_mut());
        let details = (files.into_iter().flatten()).filter_map(|file| file.get_mut("detail"));
        details.for_each(|detail| *detail = Value::from(HIDDEN));
    }
    if let Some(run) = &mut view.run {
        run.inputs.clear();
        if let Some(estimate) = &mut run.estimate {
            estimate.inputs.clear();
        }
        if let Some(cause) = &mut run.progress.status.cause {
            HIDDEN.clone_into(cause);
        }
    }
    if let Some(end) = &mut view.end
        && let Outcome::Failed { cause } = &mut end.report.outcome
    {
        HIDDEN.clone_into(cause);
    }
    view
}

/// Returns an attempt at a task without its error, for a client that may not read the job's inputs.
pub(super) fn outline_of_attempt(mut attempt: JobAttempt) -> JobAttempt {
    if let AttemptOutcome::Failed { cause } = &mut attempt.record.outcome {
        HIDDEN.clone_into(cause);
    }
    attempt
}
