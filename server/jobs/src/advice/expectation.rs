//! The estimate of a job before it starts, or why there is none.

use ebb_scheduler::runtime::{JobProfile, MeasuredProfile, SubmitError};
use serde::{Deserialize, Serialize};

use super::free_cores::FreeCores;
use super::lateness::{Lateness, PredictedJob, PublicationFacts};
use super::{Advice, PlannedJobs, Question, advise};
use crate::chain::{Outline, Stage, Work};
use crate::error::JobError;
use crate::history::{KnownProfile, ProfileRecord};
use crate::options::one;

/// Advice on a job, and the measurements that it is based on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobAdvice {
    #[serde(flatten)]
    pub advice: Advice,
    /// The number of cores that the job may use.
    pub cores: u32,
    /// Number of jobs of the runtime that run one after the other: 1, or those of a chain.
    #[serde(default = "one")]
    pub jobs: u32,
    /// Number of map tasks, of all jobs of a chain together.
    pub maps: u32,
    /// Number of reduce tasks, of all jobs of a chain together.
    pub reduces: u32,
    /// The id of the earlier job whose profile the advice is based on.
    pub profile_of: String,
    /// True if the job `profile_of` did the same work; false if it did other work of the same
    /// application.
    pub is_same_work: bool,
    /// The lateness, if the job has a goal and `median_s` is later than the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
}

/// The reason why there is no estimate for an application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyUnknown {
    /// No run of the application has left a profile with the measurements of its job and the size of
    /// its input.
    #[error(
        "how long {0} takes is not known: a run that succeeds leaves a profile in the database"
    )]
    NoProfile(String),
    /// The job uses no database, and only a database can contain profiles.
    #[error(
        "how long {0} takes is not known: profiles are kept in a database, and this job uses \
         none"
    )]
    NoDatabase(String),
    /// The application is a chain of jobs, and the estimate is to be of a single job. Contains the name of the
    /// application.
    #[error(
        "how long {0} takes beside other jobs is not known: it is a chain of jobs; ebb run --dry-run estimates how \
         long it takes without other jobs"
    )]
    Chain(String),
    /// The input of the application has no splits, so there is nothing to read.
    #[error("how long {0} takes is not known: there is nothing to read")]
    NothingToRead(String),
    /// The known profile is of an input that is more than ten times larger or smaller, in bytes,
    /// than the input of the job.
    #[error(
        "how long {name} takes is not known: it reads {asked_bytes} bytes, too far from the \
         {known_bytes} bytes of job {profile_of}, which was measured"
    )]
    FarOff {
        /// The name of the application.
        name: String,
        /// The id of the earlier job that the profile is of.
        profile_of: String,
        /// The size in bytes of the input of the earlier job.
        known_bytes: u64,
        /// The size in bytes of the input of the job to be estimated.
        asked_bytes: u64,
    },
}

/// The job whose length is to be estimated, and the parameters of the estimate.
pub struct Expected<'a> {
    /// The name of the application.
    pub name: &'a str,
    /// The job or chain to run.
    pub work: &'a Work,
    /// The profile of an earlier execution: `Some(None)` if the node's database contains no profile
    /// of the application, `None` if the node has no database.
    pub known: Option<Option<&'a KnownProfile>>,
    /// The number of cores that the job may use.
    pub cores: u32,
    /// Cores that the process may run on. The CPU use of other processes is measured over
    /// these cores.
    pub machine_cores: u32,
    /// The goal: the number of seconds from the start of the job within which it is to end; `None`
    /// if the job has no goal.
    pub goal_s: Option<f64>,
    /// The facts from which a publication of the job's tables is predicted.
    pub publications: &'a PublicationFacts,
}

/// The number of a job's tasks and their CPU times, estimated from the profile of an earlier job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizedJob {
    /// Number of map tasks.
    pub maps: u32,
    /// CPU time of a map task in seconds.
    pub map_task_cpu_s: f64,
    /// Number of reduce tasks.
    pub reduces: u32,
    /// CPU time of a reduce task in seconds.
    pub reduce_task_cpu_s: f64,
    /// The number of cores that the job may use.
    pub cores: u32,
}

/// The basis of an estimate: the jobs of the runtime that are to run, and the profile of an earlier job of the
/// same application.
struct Basis<'a> {
    stages: Vec<PlannedJobs>,
    known: &'a KnownProfile,
}

impl<'a> Expected<'a> {
    /// Returns the number of tasks of a single job and their CPU times, or the reason why these are not
    /// known: also [`WhyUnknown::Chain`].
    ///
    /// # Errors
    /// When the input cannot be split.
    pub fn sized(&self) -> Result<Result<SizedJob, WhyUnknown>, JobError> {
        if matches!(self.work, Work::Chain(_)) {
            return Ok(Err(WhyUnknown::Chain(self.name.to_string())));
        }
        let sized = |basis: Basis<'_>| {
            let job = &basis.stages[0];
            let JobProfile {
                map_task_cpu_s,
                reduce_task_cpu_s,
            } = job.estimates();
            SizedJob {
                maps: job.maps,
                map_task_cpu_s,
                reduces: job.reduces,
                reduce_task_cpu_s,
                cores: self.cores,
            }
        };
        Ok(self.basis()?.map(sized))
    }

    fn basis(&self) -> Result<Result<Basis<'a>, WhyUnknown>, JobError> {
        let name = self.name.to_string();
        let unknown = |why| Ok(Err(why));
        let Some(known) = self.known else {
            return unknown(WhyUnknown::NoDatabase(name));
        };
        let Outline { input, stages } = self.work.outline();
        let first = &stages[0].names;
        let measured = known.and_then(|known| Some((known, known.profile.typical(first)?)));
        let Some((known, measured)) = measured else {
            return unknown(WhyUnknown::NoProfile(name));
        };
        let splits = input.splits().map_err(SubmitError::Input)?;
        let maps = splits.len() as u32;
        let bytes_in: u64 = splits.iter().map(|split| split.bytes).sum();
        if maps == 0 {
            return unknown(WhyUnknown::NothingToRead(name));
        }
        if !measured.reaches(bytes_in) {
            return unknown(match measured.split_bytes {
                // A build that did not keep the size wrote the profile.
                0 => WhyUnknown::NoProfile(name),
                known_bytes => WhyUnknown::FarOff {
                    name,
                    profile_of: known.profile.job.clone(),
                    known_bytes,
                    asked_bytes: bytes_in,
                },
            });
        }
        let stages = planned(&stages, (maps, bytes_in), &known.profile, measured);
        Ok(Ok(Basis { stages, known }))
    }

    /// Returns the advice, or the reason why there is none. May wait for a fifth of a second, until
    /// `free` is measured.
    ///
    /// # Errors
    /// When the input cannot be split.
    pub fn expect(&self, free: FreeCores) -> Result<Result<JobAdvice, WhyUnknown>, JobError> {
        let Basis { stages, known } = match self.basis()? {
            Ok(basis) => basis,
            Err(why) => return Ok(Err(why)),
        };
        let total = |of: fn(&PlannedJobs) -> u32| stages.iter().map(of).sum::<u32>();
        let jobs = total(|stage| stage.jobs);
        let maps = total(|stage| stage.jobs * stage.maps);
        let reduces = total(|stage| stage.jobs * stage.reduces);
        let advice = advise(&Question {
            stages,
            is_same_work: known.is_same_work,
            took_over_estimate: known.profile.took_over_estimate.clone(),
            free_cores: free.of(self.cores, self.machine_cores),
            goal_s: self.goal_s,
        });
        let tasks_cpu_s =
            f64::from(maps) * advice.map_task_cpu_s + f64::from(reduces) * advice.reduce_task_cpu_s;
        let lateness = self.goal_s.and_then(|goal_s| {
            let job = PredictedJob {
                application: self.name,
                goal_s,
                end_s: advice.median_s,
                cpu_s: tasks_cpu_s * advice.learned_factor,
                cores: self.cores,
                free_cores: advice.free_cores,
            };
            job.lateness(self.publications)
        });
        Ok(Ok(JobAdvice {
            advice,
            cores: self.cores,
            jobs,
            maps,
            reduces,
            profile_of: known.profile.job.clone(),
            is_same_work: known.is_same_work,
            lateness,
        }))
    }
}

/// Returns the jobs of `stages` as `profile` measured them. The first job has the size `(maps, bytes_in)`, and was
/// measured as `first`. The inputs of later jobs are the rows of the jobs before, and are taken as in proportion to
/// the input of the first one. A profile has the first 100 jobs of a chain: a job that it lacks is taken for one of
/// the stage before.
fn planned(
    stages: &[Stage],
    (maps, bytes_in): (u32, u64),
    profile: &ProfileRecord,
    first: MeasuredProfile,
) -> Vec<PlannedJobs> {
    let growth = first.growth(bytes_in);
    let (mut maps, mut measured) = (maps, first);
    let mut planned = Vec::new();
    for stage in stages {
        measured = profile.typical(&stage.names).unwrap_or(measured);
        let bytes_in = growth.map_or(0.0, |growth| measured.split_bytes as f64 * growth);
        planned.push(PlannedJobs {
            jobs: stage.names.len() as u32,
            maps,
            reduces: stage.reduces,
            // A size that is rounded down could be less than a tenth of the measured one.
            bytes_in: bytes_in.ceil() as u64,
            measured,
        });
        maps = stage.reduces;
    }
    planned
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::TaskMeasures;

    use super::*;

    fn measured(cpu_s: f64, split_bytes: u64) -> MeasuredProfile {
        MeasuredProfile {
            map: TaskMeasures {
                tasks: 1,
                cpu_s,
                ..TaskMeasures::default()
            },
            split_bytes,
            ..MeasuredProfile::default()
        }
    }

    fn stage(names: &[&str], reduces: u32) -> Stage {
        let names = names.iter().map(|name| (*name).to_string());
        Stage {
            names: names.collect(),
            reduces,
        }
    }

    /// The input has twice the bytes of the measured one. The iteration of 2 s is the typical one, and the profile
    /// lacks the last job.
    #[test]
    fn the_jobs_of_a_chain_grow_with_the_input_of_the_first_one() {
        let typical = measured(2.0, 300);
        let jobs = [
            ("links", measured(4.0, 1000)),
            ("step 1", measured(1.0, 300)),
            ("step 2", measured(9.0, 300)),
            ("step 3", typical),
        ];
        let jobs = jobs.map(|(name, measured)| (name.to_string(), measured));
        let profile = ProfileRecord {
            application: "pagerank".to_string(),
            input: "app.links".to_string(),
            job: "1".to_string(),
            recorded_unix_ms: 0,
            measured: jobs.to_vec(),
            took_over_estimate: Vec::new(),
        };
        let stages = [
            stage(&["links"], 2),
            stage(&["step 1", "step 2", "step 3", "step 4"], 2),
            stage(&["ranks"], 0),
        ];
        let links = measured(4.0, 1000);
        let found = planned(&stages, (5, 2000), &profile, links);
        let planned_jobs = |jobs, (maps, reduces), bytes_in, measured| PlannedJobs {
            jobs,
            maps,
            reduces,
            bytes_in,
            measured,
        };
        let expected = [
            planned_jobs(1, (5, 2), 2000, links),
            planned_jobs(4, (2, 2), 600, typical),
            planned_jobs(1, (2, 0), 600, typical),
        ];
        assert_eq!(found, expected);
    }
}
