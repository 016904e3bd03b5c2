//! The ended jobs that the history keeps. There is no clock here: times are milliseconds since 1970.

use std::time::Duration;

use super::{JobRecord, RecordState, Submission};

/// The number of ended jobs whose records are kept. More records are kept for the retries of up to
/// [`KEYS_MAX`] requests, and for two backups: the latest one without damage, and the latest one
/// without damage whose time is not in the future. A time in the future was recorded while the
/// clock was ahead.
pub(super) const ENDED_JOBS_MAX: usize = 1000;

/// The time during which a request that was executed is not executed again with the same `Idempotency-Key`.
pub const KEY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The largest number of requests with an `Idempotency-Key` whose jobs the history keeps for [`KEY_LIFETIME`], and
/// the largest number of responses that a server keeps for so long. Beyond that, the oldest are dropped, so that
/// clients cannot fill the disk.
pub const KEYS_MAX: usize = 10_000;

impl JobRecord {
    /// Returns the request that submitted the job, if at `now_unix_ms` a retry of that request still has to return
    /// this job.
    pub fn submission_at(&self, now_unix_ms: u64) -> Option<&Submission> {
        let age_ms = now_unix_ms.saturating_sub(self.started_unix_ms);
        let is_recent = u128::from(age_ms) <= KEY_LIFETIME.as_millis();
        self.submission.as_ref().filter(|_| is_recent)
    }
}

/// Returns the jobs whose records are to be deleted before another job begins at `now_unix_ms`, the oldest first.
/// `jobs` are all jobs of the history, the oldest first.
pub(super) fn forgettable(jobs: &[JobRecord], now_unix_ms: u64) -> Vec<&JobRecord> {
    let good_backups = || {
        let jobs = jobs.iter().rev();
        jobs.filter_map(|job| Some((&job.id, job.good_backup_unix_ms()?)))
    };
    // The last one does not count until its time comes if the clock was ahead when it was made.
    let is_of_past = |(_, unix_ms): &(&String, u64)| *unix_ms <= now_unix_ms;
    let kept = [good_backups().next(), good_backups().find(is_of_past)];
    let is_kept = |id: &String| kept.iter().flatten().any(|(kept, _)| *kept == id);
    let (mut ended, mut keys) = (0, 0);
    let mut found = Vec::new();
    for job in jobs.iter().rev() {
        if job.state == RecordState::Started || is_kept(&job.id) {
            continue;
        }
        ended += 1;
        let has_key = job.submission_at(now_unix_ms).is_some();
        keys += usize::from(has_key);
        let may_be_retried = has_key && keys <= KEYS_MAX;
        // The job that begins needs one of the places.
        if ended >= ENDED_JOBS_MAX && !may_be_retried {
            found.push(job);
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START_MS: u64 = 1_800_000_000_000;

    #[test]
    fn the_oldest_of_too_many_submissions_are_forgotten() {
        let job = |number: usize| JobRecord {
            state: RecordState::Succeeded,
            submission: Some(Submission::new(&[1; 32], &[2; 32])),
            ..JobRecord::started(format!("{number:013}"), "pi", json!({}), START_MS)
        };
        let jobs: Vec<_> = (0..KEYS_MAX + 2).map(job).collect();
        assert_eq!(forgettable(&jobs, START_MS), [&jobs[0], &jobs[1]]);
        let next_day = START_MS + 24 * 3600 * 1000 + 1;
        let forgotten = forgettable(&jobs, next_day).len();
        assert_eq!(forgotten, jobs.len() + 1 - ENDED_JOBS_MAX);
    }
}
