//! The estimate of a job before it starts, or why there is none.

use ebb_scheduler::runtime::{JobProfile, JobSpec, MeasuredProfile, SubmitError};
use serde::{Deserialize, Serialize};

use super::free_cores::FreeCores;
use super::lateness::{Lateness, PredictedJob};
use super::{Advice, Question, advise};
use crate::chain::Work;
use crate::error::JobError;
use crate::history::{KnownProfile, ProfileRecord};

/// Advice on a job, and the measurements that it is based on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobAdvice {
    #[serde(flatten)]
    pub advice: Advice,
    /// The number of cores that the job may use.
    pub cores: u32,
    /// Number of map tasks.
    pub maps: u32,
    /// Number of reduce tasks.
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
    /// The application is a chain of jobs, and the input sizes of its later jobs are not known.
    /// Contains the name of the application.
    #[error(
        "how long {0} takes is not known: it is a chain of jobs, each of which reads the output of the one before"
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
    /// The profiles of earlier jobs that published tables as Iceberg tables. Empty if the job has no
    /// goal, or if no other engine could run it over published copies of its inputs.
    pub publications: &'a [ProfileRecord],
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

/// The basis of an estimate: a job, the size of its input, and the profile of an earlier job of the
/// same application.
struct Basis<'a> {
    spec: &'a JobSpec,
    maps: u32,
    bytes_in: u64,
    known: &'a KnownProfile,
    measured: MeasuredProfile,
}

impl<'a> Expected<'a> {
    /// Returns the number of tasks and their CPU times, or the reason why these are not
    /// known.
    ///
    /// # Errors
    /// When the input cannot be split.
    pub fn sized(&self) -> Result<Result<SizedJob, WhyUnknown>, JobError> {
        let sized = |basis: Basis<'_>| {
            let (maps, reduces) = (basis.maps, basis.spec.reduces);
            let otherwise = JobProfile::default();
            let estimates = (basis.measured).estimates(basis.bytes_in, maps, reduces, otherwise);
            SizedJob {
                maps,
                map_task_cpu_s: estimates.map_task_cpu_s,
                reduces,
                reduce_task_cpu_s: estimates.reduce_task_cpu_s,
                cores: self.cores,
            }
        };
        Ok(self.basis()?.map(sized))
    }

    fn basis(&self) -> Result<Result<Basis<'a>, WhyUnknown>, JobError> {
        let name = self.name.to_string();
        let unknown = |why| Ok(Err(why));
        let spec: &JobSpec = match self.work {
            Work::Job(spec) => spec,
            Work::Chain(_) => return unknown(WhyUnknown::Chain(name)),
        };
        let Some(known) = self.known else {
            return unknown(WhyUnknown::NoDatabase(name));
        };
        let measured = known.and_then(|known| Some((known, known.profile.measured(&spec.name)?)));
        let Some((known, measured)) = measured else {
            return unknown(WhyUnknown::NoProfile(name));
        };
        let splits = spec.input.splits().map_err(SubmitError::Input)?;
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
        Ok(Ok(Basis {
            spec,
            maps,
            bytes_in,
            known,
            measured,
        }))
    }

    /// Returns the advice, or the reason why there is none. May wait for a fifth of a second, until
    /// `free` is measured.
    ///
    /// # Errors
    /// When the input cannot be split.
    pub fn expect(&self, free: FreeCores) -> Result<Result<JobAdvice, WhyUnknown>, JobError> {
        let Basis {
            spec,
            maps,
            bytes_in,
            known,
            measured,
        } = match self.basis()? {
            Ok(basis) => basis,
            Err(why) => return Ok(Err(why)),
        };
        let advice = advise(&Question {
            maps,
            reduces: spec.reduces,
            bytes_in,
            measured,
            is_same_work: known.is_same_work,
            took_over_estimate: known.profile.took_over_estimate.clone(),
            free_cores: free.of(self.cores, self.machine_cores),
            goal_s: self.goal_s,
        });
        let tasks_cpu_s = f64::from(maps) * advice.map_task_cpu_s
            + f64::from(spec.reduces) * advice.reduce_task_cpu_s;
        let lateness = self.goal_s.and_then(|goal_s| {
            let job = PredictedJob {
                goal_s,
                end_s: advice.median_s,
                cpu_s: tasks_cpu_s * advice.learned_factor,
                cores: self.cores,
                free_cores: advice.free_cores,
                bytes_in,
            };
            job.lateness(self.publications)
        });
        Ok(Ok(JobAdvice {
            advice,
            cores: self.cores,
            maps,
            reduces: spec.reduces,
            profile_of: known.profile.job.clone(),
            is_same_work: known.is_same_work,
            lateness,
        }))
    }
}
