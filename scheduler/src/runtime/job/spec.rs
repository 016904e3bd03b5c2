//! The description of a job at its submission.

use super::functions::{Mapper, Reducer};
use super::in_place_combiner::{InPlaceCombiner, SortedCombiner};
use super::input::{Input, Split};
use super::journal::JobJournal;
use super::output::Output;
use super::partitioner::Partitioning;
use super::profile::{JobProfile, MeasuredProfile};
use super::task_notes::TaskNotes;
use super::task_processes::TaskProcesses;
use crate::model::JobId;
use crate::runtime::error::SubmitError;
use std::sync::Arc;

/// The number of records that [`JobSpec::globally_sorted`] samples: with ten reduces, the part of
/// each differs from an even part by at most about a tenth.
pub const SAMPLE_RECORDS: u32 = 10_000;

/// A job: its functions, input, output and goal.
#[derive(Clone)]
pub struct JobSpec {
    /// A name for display; need not be unique.
    pub name: String,
    /// The source of the records.
    pub input: Arc<dyn Input>,
    /// The function for each record.
    pub mapper: Arc<dyn Mapper>,
    /// Combines the records of a key, in spills and merges before the reduce; `None` for no
    /// combiner.
    pub combiner: Option<Arc<dyn Reducer>>,
    /// Combines the values of a key in a map's buffer; `None` for no such combiner.
    pub in_place_combiner: Option<Arc<dyn InPlaceCombiner>>,
    /// Reduces each key's values. If it is `None`, the maps' output is the result.
    pub reducer: Option<Arc<dyn Reducer>>,
    /// The assignment of keys to reduce tasks.
    pub partitioning: Partitioning,
    /// Number of reduce tasks: at least 1 with a reducer, 0 without.
    pub reduces: u32,
    /// The sink of the results.
    pub output: Arc<dyn Output>,
    /// Completion time goal in seconds after submission, positive. The default policy runs a job
    /// without a goal as early as possible, behind the jobs whose goals can be met.
    pub goal_s: Option<f64>,
    /// First estimates of task lengths.
    pub profile: JobProfile,
    /// The task lengths of an earlier execution of the same job; `None` if they are unknown. If
    /// that execution had an input of [similar size](MeasuredProfile::reaches), its task lengths
    /// are scaled to the present input and replace `profile`.
    pub measured: Option<MeasuredProfile>,
    /// The facts about the input that the job's tasks gather in addition to their rows, such as the
    /// columns that occur. They are complete when the output is committed. `None` if the tasks
    /// gather no facts.
    pub notes: Option<Arc<dyn TaskNotes>>,
    /// The listener for the job's events; `None` for no listener.
    pub journal: Option<Arc<dyn JobJournal>>,
    /// The most cores that the job may use, at least 1; `None` for all cores of the runtime.
    pub cores: Option<u32>,
    /// The processes that run the job's tasks; `None` for threads of this process.
    pub processes: Option<Arc<TaskProcesses>>,
    /// Jobs of the same runtime that have to succeed before this one starts. Its input is split
    /// only then, so it may read their output. If one of them fails or is cancelled, this job
    /// fails.
    pub after: Vec<JobId>,
}

impl JobSpec {
    /// Creates a job of maps only, without a goal.
    pub fn new(
        name: impl Into<String>,
        input: Arc<dyn Input>,
        mapper: Arc<dyn Mapper>,
        output: Arc<dyn Output>,
    ) -> Self {
        Self {
            name: name.into(),
            input,
            mapper,
            combiner: None,
            in_place_combiner: None,
            reducer: None,
            partitioning: Partitioning::default(),
            reduces: 0,
            output,
            goal_s: None,
            profile: JobProfile::default(),
            measured: None,
            notes: None,
            journal: None,
            cores: None,
            processes: None,
            after: Vec::new(),
        }
    }

    /// Runs `reducer` in `reduces` tasks.
    #[must_use]
    pub fn reducer(mut self, reducer: Arc<dyn Reducer>, reduces: u32) -> Self {
        self.reducer = Some(reducer);
        self.reduces = reduces;
        self
    }

    /// Runs `combiner` on the maps' output, in spills and in the merges before the reduce.
    #[must_use]
    pub fn combiner(mut self, combiner: Arc<dyn Reducer>) -> Self {
        self.combiner = Some(combiner);
        self
    }

    /// Combines the values of a key wherever they meet before the reduce: in a map's buffer, and, if
    /// the job has no [`combiner`](Self::combiner), at spills and merges.
    #[must_use]
    pub fn in_place_combiner(mut self, combiner: Arc<dyn InPlaceCombiner>) -> Self {
        (self.combiner).get_or_insert_with(|| Arc::new(SortedCombiner(Arc::clone(&combiner))));
        self.in_place_combiner = Some(combiner);
        self
    }

    /// Sorts the rows of all reduces globally, one reduce after the other: keys are assigned by
    /// ranges, which a sample of [`SAMPLE_RECORDS`] records determines.
    #[must_use]
    pub fn globally_sorted(mut self) -> Self {
        self.partitioning = Partitioning::SampledRanges {
            records: SAMPLE_RECORDS,
        };
        self
    }

    /// Sets the goal, `goal_s` seconds after submission.
    #[must_use]
    pub fn goal_s(mut self, goal_s: f64) -> Self {
        self.goal_s = Some(goal_s);
        self
    }

    /// Runs the tasks in child processes, one task at a time in each. A child serves several tasks
    /// of this job, one after the other. It builds input, mapper, combiner, partitioner and reducer
    /// by itself; they must equal those given here. The parent, this process, splits the input and
    /// writes the output.
    #[must_use]
    pub fn in_processes(mut self, processes: Arc<TaskProcesses>) -> Self {
        self.processes = Some(processes);
        self
    }

    /// Limits the job to `cores` cores at a time.
    #[must_use]
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = Some(cores);
        self
    }

    /// Starts the job only when `job`, and all jobs of earlier calls, have succeeded.
    #[must_use]
    pub fn after(mut self, job: JobId) -> Self {
        self.after.push(job);
        self
    }

    /// Returns estimates of the task lengths if maps read `splits`: from `measured` if it applies
    /// to an input of this size, otherwise `profile`.
    pub(in crate::runtime) fn estimates(&self, splits: &[Split]) -> JobProfile {
        let bytes = splits.iter().map(|split| split.bytes).sum();
        self.measured.map_or(self.profile, |measured| {
            measured.estimates(bytes, splits.len() as u32, self.reduces, self.profile)
        })
    }

    pub(in crate::runtime) fn check(&self) -> Result<(), SubmitError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if let Some(goal_s) = self.goal_s.filter(|&goal_s| !positive(goal_s)) {
            return Err(SubmitError::Goal(goal_s));
        }
        if self.reducer.is_some() && self.reduces == 0 {
            return Err(SubmitError::NoReduces);
        }
        let combines = self.combiner.is_some() || self.in_place_combiner.is_some();
        if self.reducer.is_none() && (self.reduces > 0 || combines) {
            return Err(SubmitError::NoReducer);
        }
        for cpu_s in [self.profile.map_task_cpu_s, self.profile.reduce_task_cpu_s] {
            if !positive(cpu_s) {
                return Err(SubmitError::Profile(cpu_s));
            }
        }
        Ok(())
    }
}
