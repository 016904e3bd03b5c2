//! `system_views.jobs`: the jobs over the tables, as [`JobList`] returns them.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ebb_cql::protocol::ErrorResponse;
use ebb_model::access::ActingRole;

use super::cells::{int, text, timestamp};
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::Result;

/// A job that runs, or that has ended and is still listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// The unique id of the job.
    pub id: String,
    pub application: String,
    /// The request as JSON, without its options if the role that reads may not see them.
    pub request: String,
    /// The time of the first start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The number of times that the job was started, from 1.
    pub starts: u32,
    /// The state of the job in one word.
    pub state: &'static str,
    /// The time at which the job ended, in milliseconds since 1970; `None` while it runs.
    pub ended_unix_ms: Option<u64>,
}

/// A source of jobs.
pub trait JobList: Debug + Send + Sync {
    /// Returns all jobs, or a message if they cannot be read. A job has the details that `role` may
    /// see. `role` is `None` for a client of a server without authentication, which may see
    /// everything.
    fn jobs(&self, role: Option<&ActingRole>) -> Result<Vec<JobRow>, String>;
}

pub(super) const JOBS: Definition = Definition {
    keyspace: "system_views",
    name: "jobs",
    comment: "jobs over tables, running and ended",
    columns: &[
        "id text",
        "application text",
        "ended timestamp",
        "request text",
        "started timestamp",
        "starts int",
        "state text",
    ],
    primary_key: &["id"],
    rows: jobs,
};

fn jobs(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let Some(list) = &facts.jobs else {
        return Ok(());
    };
    let time = |ms: u64| -> Bytes {
        let time: Option<SystemTime> = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        timestamp(time.unwrap_or(UNIX_EPOCH))
    };
    for job in list
        .jobs(facts.role.as_ref())
        .map_err(ErrorResponse::server)?
    {
        let mut cells = vec![
            ("id", text(&job.id)),
            ("application", text(&job.application)),
            ("request", text(&job.request)),
            ("started", time(job.started_unix_ms)),
            ("starts", int(i32::try_from(job.starts).unwrap_or(i32::MAX))),
            ("state", text(job.state)),
        ];
        cells.extend(job.ended_unix_ms.map(|ended| ("ended", time(ended))));
        rows.push(cells)?;
    }
    Ok(())
}
