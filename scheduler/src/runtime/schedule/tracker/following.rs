//! A job that follows others: it waits until they have succeeded, then its input, which
//! they write, is split. No policy sees it before.
//!
//! ```text
//!   following ──all succeeded──> splitting ──ok──> tasks
//!       └── one did not ──> stopping <── failed ──┘
//! ```

use super::{Stage, Tracker};
use crate::model::{Job, JobId};
use crate::runtime::error::TaskError;
use crate::runtime::job::profile::JobProfile;
use crate::runtime::job::report::Outcome;
use crate::runtime::schedule::task_set::TaskSet;

impl Tracker {
    /// A job that follows at least one other, by [`Tracker::follow`]; how many maps
    /// it will have is not known yet.
    pub fn following(job: Job, reduces: u32, profile: &JobProfile) -> Self {
        Self {
            stage: Stage::Following,
            ..Self::new(job, 0, reduces, profile)
        }
    }

    /// Makes the job wait for another one.
    pub fn follow(&mut self, other: JobId) {
        self.follows.insert(other);
    }

    /// Jobs that it waits for.
    pub fn follows(&self) -> impl Iterator<Item = JobId> {
        self.follows.iter().copied()
    }

    /// A job ended: well, or for the given reason. Once all that this one follows
    /// have ended well it goes on; when one has not, this one fails too. True when
    /// either happened.
    pub fn other_ended(&mut self, other: JobId, why_not: Option<&str>) -> bool {
        if self.stage != Stage::Following || !self.follows.remove(&other) {
            return false;
        }
        match why_not {
            Some(why_not) => self.stop(Outcome::Failed {
                cause: format!("{other}, which this job follows, {why_not}"),
            }),
            None if self.follows.is_empty() => self.stage = Stage::Splitting { claimed: false },
            None => return false,
        }
        true
    }

    /// The input was split for `maps` maps, which are believed to take as long as
    /// in `profile`; or it could not be.
    pub fn split_done(&mut self, split: Result<(u32, JobProfile), &TaskError>) {
        self.is_splitting = false;
        match split {
            _ if self.stage != (Stage::Splitting { claimed: true }) => {}
            Ok((maps, profile)) => {
                self.maps = TaskSet::new(maps, profile.map_task_cpu_s);
                self.reduces = TaskSet::new(self.reduces.total(), profile.reduce_task_cpu_s);
                self.stage = Stage::Tasks;
                self.commit_when_done();
            }
            Err(error) => self.stop(Outcome::Failed {
                cause: format!("splitting the input: {error}"),
            }),
        }
    }
}
