//! The attempts at tasks, in table `attempts`: a row per attempt with the key `JOB/NUMBER`,
//! so that the attempts of a job lie together and in their order.

use std::ops::Bound;

use ebb_scheduler::runtime::AttemptRecord;
use ebb_storage::{Db, Table, WriteBatch};
use serde::{Deserialize, Serialize};

use super::{Result, read_row};

/// The largest number of attempts that are recorded per job. Later attempts are only counted.
pub const ATTEMPTS_KEPT_MAX: u32 = 10_000;

/// An attempt at a task of a recorded job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobAttempt {
    /// The number of the job in its chain, from 1; 1 for a single job.
    pub job: u64,
    /// The outcome of the attempt, and its resource use.
    #[serde(flatten)]
    pub record: AttemptRecord,
}

#[derive(Debug, Clone)]
pub(super) struct AttemptTable {
    pub(super) db: Db,
    pub(super) table: Table,
}

impl AttemptTable {
    /// Adds attempts of the job with the id `job`, numbered from `first` on, in one commit.
    pub(super) fn add(&self, job: &str, first: u32, attempts: &[JobAttempt]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (number, attempt) in (first..).zip(attempts) {
            let value = serde_json::to_vec(attempt).expect("a record has text keys only");
            batch.put(&self.table, format!("{job}/{number:08}").as_bytes(), &value);
        }
        Ok(self.db.write(batch)?)
    }

    /// Returns the attempts of a job, in the order in which they ended.
    pub(super) fn of(&self, job: &str) -> Result<Vec<JobAttempt>> {
        let mut attempts = Vec::new();
        for row in self.table.prefix(format!("{job}/").as_bytes()) {
            let (key, value) = row?;
            attempts.push(read_row("attempts", &key, &value)?);
        }
        Ok(attempts)
    }

    /// Returns at most `count_max` attempts of a job, in the order in which they ended, each with
    /// its number: the digits at the end of its row's key. With `after`, only attempts with greater
    /// numbers.
    pub(super) fn after(
        &self,
        job: &str,
        after: Option<&str>,
        count_max: usize,
    ) -> Result<Vec<(String, JobAttempt)>> {
        let before = format!("{job}/{}", after.unwrap_or_default());
        let number_at = job.len() + 1;
        // '0' comes right after '/', so no text after the '/' leads out of the job's rows.
        let end = format!("{job}0");
        let rows = (Bound::Excluded(before), Bound::Excluded(end));
        let mut attempts = Vec::new();
        for row in self.table.range(rows).take(count_max) {
            let (key, value) = row?;
            let number = String::from_utf8_lossy(key.get(number_at..).unwrap_or_default());
            attempts.push((number.into_owned(), read_row("attempts", &key, &value)?));
        }
        Ok(attempts)
    }

    /// Adds deletions of all attempts of a job to `batch`.
    pub(super) fn forget(&self, job: &str, batch: &mut WriteBatch) {
        // '0' comes right after '/'.
        let all = format!("{job}/")..format!("{job}0");
        batch.delete_range(&self.table, all);
    }
}
