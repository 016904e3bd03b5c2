//! The size of a scenario: of one run, and of all runs together, whose results are kept
//! until the last run has ended.

use super::error::FieldError;
use super::listed::ListedJob;
use super::numbers::{FieldResult, count};
use crate::sim::bounds::{
    COPIES_MAX, CYCLES_MAX, JOBS_MAX, KEPT_MAX, REPLICAS_MAX, RUNS_MAX, SAMPLES_MAX, TASKS_MAX,
};
use crate::sim::{Recording, SimConfig, Workload};

/// The size of a simulation run at one point of a scenario (a combination of swept values): how many
/// nodes, jobs and records it keeps in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Number of nodes plus number of steps in the series of their availability: the
    /// parts of a run that do not depend on its jobs.
    fixed: u64,
    /// Number of jobs that the file lists one by one; others are generated.
    listed: u64,
    /// Number of jobs of a run, including the mean number of generated ones.
    jobs: u64,
    /// Number of tasks that are recorded.
    recorded: u64,
    /// Upper bound on the number of times that the shares of all jobs are recorded. It is reached if
    /// some job is unfinished until the horizon.
    samples: u64,
}

impl Size {
    /// Computes the size of a run. Fails if it is larger than allowed. For generated jobs it takes
    /// their mean number.
    pub fn of_run(
        config: &SimConfig,
        steps: u64,
        listed: &[ListedJob],
        workload: Option<&Workload>,
    ) -> FieldResult<Self> {
        let cycles = config.horizon_s / config.cycle_s;
        if cycles > CYCLES_MAX {
            let what = format!(
                "makes {cycles:.0} control cycles until run.horizon_s; at most {CYCLES_MAX}: take \
                 longer cycles, or simulate for a shorter time"
            );
            return Err(FieldError::new("run.cycle_s", what));
        }
        let Recording {
            tasks: records_tasks,
            shares_every_s,
        } = config.recording;
        // Samples are taken in control cycles, so there is at most one per cycle.
        let samples = shares_every_s.map_or(0.0, |every_s| {
            (config.horizon_s / every_s.max(config.cycle_s)).ceil()
        });
        if samples > SAMPLES_MAX {
            let what = format!(
                "makes {samples:.0} samples until run.horizon_s; at most {SAMPLES_MAX}: take \
                 fewer, or simulate for a shorter time"
            );
            return Err(FieldError::new("run.shares_every_s", what));
        }
        let nodes = config.nodes.len() as u64;
        let (mut tasks, mut copies) = (0, 0);
        for (index, (job, replicas)) in listed.iter().enumerate() {
            let field = |name: &str| format!("job[{index}].{name}");
            tasks += job.tasks();
            if tasks > TASKS_MAX {
                // The error names the field to which the job owes most of its tasks.
                let larger = if job.reduces > job.maps {
                    "reduces"
                } else {
                    "maps"
                };
                let what = format!("{tasks} tasks with the jobs above; at most {TASKS_MAX}");
                return Err(FieldError::new(field(larger), what));
            }
            // A node holds at most one copy of a split.
            copies += u64::from(job.maps) * nodes.min((*replicas).into());
            if copies > COPIES_MAX {
                let what = format!(
                    "the splits of the jobs up to this one have {copies} copies; at most \
                     {COPIES_MAX}: ask for fewer maps, or fewer replicas"
                );
                return Err(FieldError::new(field("maps"), what));
            }
        }
        let jobs = listed.len() as u64;
        if jobs > JOBS_MAX {
            let what = format!("{jobs} jobs are listed; at most {JOBS_MAX}");
            return Err(FieldError::new("job", what));
        }
        let mut size = Self {
            fixed: nodes + steps,
            listed: jobs,
            jobs,
            recorded: 0,
            samples: samples as u64,
        };
        if let Some(workload) = workload {
            // Mean numbers, as far as they are known before the jobs are drawn; the draw is checked
            // by itself. Each of the numbers is bounded, so their sums are far below the limit of 64
            // bits.
            let generated = workload.rate_per_s * workload.span_s;
            let maps = generated * workload.maps_mean;
            // `listed` does not count generated jobs: no result is kept for each of them.
            size.jobs += generated.ceil() as u64;
            tasks += (maps * (1.0 + workload.reduces_per_map)).ceil() as u64;
            copies += (maps * nodes.min(workload.replicas.into()) as f64).ceil() as u64;
            // Tasks and copies grow with the size of the jobs, the number of jobs does not.
            for (field, what, amount, most) in [
                ("workload", "jobs", size.jobs, JOBS_MAX),
                ("workload.maps_mean", "tasks", tasks, TASKS_MAX),
                ("workload.maps_mean", "copies of splits", copies, COPIES_MAX),
            ] {
                if amount > most {
                    let what = format!(
                        "makes about {amount} {what} with the listed jobs; at most {most}: \
                         generate fewer or smaller jobs"
                    );
                    return Err(FieldError::new(field, what));
                }
            }
        }
        if records_tasks {
            size.recorded = tasks;
        }
        Ok(size)
    }

    /// Returns a measure of the memory, not in bytes, of one drawn run: the number of nodes, plus
    /// the number of steps in the series of their availability, plus the number of jobs. The sum is
    /// approximate, because it takes the mean number of generated jobs.
    pub const fn of_draw(&self) -> u64 {
        self.fixed + self.jobs
    }

    /// Returns a measure of the memory, not in bytes, that one point (combination of swept values)
    /// needs until all runs have ended: the number of nodes, plus the number of steps in the series
    /// of their availability, plus the number of listed jobs.
    pub const fn kept(&self) -> u64 {
        self.fixed + self.listed
    }
}

/// Fails if there are too many runs, or if too many of their results are kept.
pub(super) fn check_all(
    points: impl Iterator<Item = Size> + Clone,
    policies: usize,
    replicas: u32,
) -> FieldResult<()> {
    count("replicas", replicas, REPLICAS_MAX.into())?;
    let (policies, replicas) = (policies as u64, u64::from(replicas));
    let count = points.clone().count() as u64;
    let runs = count * policies * replicas;
    if runs > RUNS_MAX {
        let what = format!(
            "{count} points, {policies} policies and {replicas} replicas are {runs} runs; at \
             most {RUNS_MAX}: ask for fewer of either"
        );
        return Err(FieldError::new("replicas", what));
    }
    let sum = |of: &dyn Fn(Size) -> u64| points.clone().map(of).fold(0, u64::saturating_add);
    let parts = [
        ("nodes", sum(&|size| size.kept())),
        ("replicas", sum(&|size| size.listed * policies * replicas)),
        ("run.tasks", sum(&|size| size.recorded * policies)),
        ("run.shares_every_s", sum(&|size| size.samples * policies)),
    ];
    let all = parts.iter().map(|(_, amount)| amount).sum::<u64>();
    if all <= KEPT_MAX {
        return Ok(());
    }
    let largest = parts.into_iter().max_by_key(|(_, amount)| *amount);
    let (field, amount) = largest.unwrap_or(("replicas", all));
    let what = format!(
        "{all} nodes, jobs, steps, tasks and samples are kept until all runs have ended, {amount} \
         of them for this; at most {KEPT_MAX}: ask for less of it, or for fewer points or policies"
    );
    Err(FieldError::new(field, what))
}
