//! The reason why a job that could run makes little progress.

use std::fmt;

use ebb_colocate::{CpuLimit, Governor, LoadSample, Quantile};
use ebb_scheduler::runtime::{JobState, JobStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The time over which the progress of a job is judged, in seconds. It is as long as the time constant with
/// which the governor smooths the CPU use of other processes (the governor measures which cores are free).
pub(crate) const WINDOW_S: f64 = 2.0;
/// A job counts as making progress if it uses at least this fraction (0 to 1) of the cores that it could
/// use. A job that uses less is taken to wait for something.
const PROGRESS_RATIO: f64 = 0.5;
/// The least fraction (0 to 1) of the free cores that messages about the guard show as a percentage. If the
/// guard allows less, the message is that it has stopped jobs.
const ALLOWED_RATIO_MIN: f64 = 0.01;

/// The reason why a job that could run makes little progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Wait {
    /// The scheduling policy gives cores to other jobs first.
    Jobs {
        /// The cores that are left for all jobs, less this job's share: the part that other jobs may use.
        share_cores: f64,
        /// Cores that are left for all jobs.
        left_cores: f64,
    },
    /// Other processes of the machine use the cores.
    Others {
        /// Cores that other processes use.
        used_cores: f64,
        /// Cores that the server may run on.
        cores: f64,
    },
    /// The load, which is all of the server but its jobs, uses the cores.
    Load {
        /// Cores that the load uses.
        used_cores: f64,
        /// The number of cores to compare `used_cores` with. This is the limit of the server's
        /// cgroup if the cgroup has used up the limit, or if the limit is lower than the number of
        /// cores that other processes leave. Otherwise it is the number of cores that the server
        /// may run on.
        cores: f64,
    },
    /// The guard, which limits jobs to keep the latency objective of the load, keeps them off cores that are
    /// free.
    Guard {
        /// The quantile of the objective: `p50`, `p99` or `p99.9`.
        quantile: String,
        /// The fraction (0 to 1) of the free cores that jobs may use.
        allowed_ratio: f64,
        /// (objective - latency) / objective; negative if the objective is missed.
        slack_ratio: f64,
    },
    /// The limit on CPU of the server's cgroup (`cpu.max`) is used up, or leaves too few cores for the job.
    Limit {
        /// The limit in cores.
        cores: f64,
        /// The fraction (0 to 1) of the latest periods in which the cgroup used up its limit and had to wait
        /// for the next period.
        throttled_ratio: f64,
    },
}

/// The use of the machine's cores beside a job, which may explain why the job makes little progress.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    /// Cores that all jobs together may use at most.
    pub(crate) job_cores: u32,
    /// Cores that the server may run on.
    pub(crate) cores: f64,
    pub(crate) load: LoadSample,
    /// The quantile of the latency objective, and the slack, (objective - latency) / objective, at the latest
    /// decision of the guard, which limits jobs to keep the objective. `None` without an objective, and
    /// before the first decision.
    pub(crate) guard: Option<(Quantile, f64)>,
}

impl Beside {
    /// Returns the use of the cores in the governor's latest control cycle; `None` before the first cycle.
    pub(crate) fn latest(governor: &Governor) -> Option<Self> {
        Some(Self::of(governor, governor.latest()?))
    }

    /// Returns the use of the cores in the control cycles after `t_s`, in seconds of the runtime's time;
    /// `None` if there was no cycle. The cores of the load and of other processes and the guard's limit are
    /// means over the cycles; all other values are the latest ones.
    pub(crate) fn since(governor: &Governor, t_s: f64) -> Option<Self> {
        let samples = governor.history_after(t_s);
        let last = *samples.last()?;
        let count = samples.len() as f64;
        let mean = |of: fn(&LoadSample) -> f64| samples.iter().map(of).sum::<f64>() / count;
        let load = LoadSample {
            transactional_cores: mean(|load| load.transactional_cores),
            others_cores: mean(|load| load.others_cores),
            allowed: mean(|load| load.allowed),
            ..last
        };
        Some(Self::of(governor, load))
    }

    fn of(governor: &Governor, load: LoadSample) -> Self {
        let guard = governor.objective().zip(governor.latest_guarded());
        Self {
            job_cores: governor.machine().cores,
            cores: governor.reachable_cores(),
            load,
            guard: guard.map(|(objective, sample)| (objective.quantile, sample.slack)),
        }
    }
}

/// Returns the number of a job's tasks that run or could run now. While maps are left, these are
/// the maps that are not done; after that, the reduces that are not done. Returns 0 for a job that
/// waits for another job, stops or has ended.
pub(crate) fn runnable_tasks(status: &JobStatus) -> u32 {
    let is_ready = matches!(status.state, JobState::Waiting | JobState::Running);
    if !is_ready || !status.follows.is_empty() || status.maps_total == 0 {
        return 0;
    }
    match status.maps_total.saturating_sub(status.maps_done) {
        0 => status.reduces_total.saturating_sub(status.reduces_done),
        maps => maps,
    }
}

impl Wait {
    /// Returns the reason why a running job with `tasks` runnable tasks used only `used_cores`
    /// lately; `None` if it used at least half of the cores that its tasks could use. Other jobs
    /// are the reason if the job's share, `share_hundredths` of a core, is less than half of the
    /// cores that it would get alone. Otherwise [`of`](Self::of) finds the reason; `None` if it finds none.
    pub(crate) fn now(
        tasks: u32,
        (used_cores, share_hundredths): (f64, u32),
        beside: &Beside,
    ) -> Option<Self> {
        let could_cores = f64::from(tasks.min(beside.job_cores));
        let share_cores = in_cores(share_hundredths);
        let left_cores = in_cores(beside.load.capacity_hundredths);
        // Alone it would have all that is left, whatever takes the rest of the machine.
        let others_first = share_cores < could_cores.min(left_cores) * PROGRESS_RATIO;
        if !others_first || used_cores >= could_cores * PROGRESS_RATIO {
            return Self::of(tasks, used_cores, beside);
        }
        Some(Self::Jobs {
            share_cores: left_cores - share_cores,
            left_cores,
        })
    }

    /// Returns the reason why a job with `tasks` runnable tasks used only `used_cores`. `None` if
    /// the job used at least half of the cores that its tasks could use, or if `beside` shows no
    /// reason.
    pub(crate) fn of(tasks: u32, used_cores: f64, beside: &Beside) -> Option<Self> {
        let could_cores = f64::from(tasks.min(beside.job_cores));
        let needed_cores = could_cores * PROGRESS_RATIO;
        if used_cores >= needed_cores {
            return None;
        }
        let LoadSample {
            transactional_cores: load,
            others_cores: others,
            allowed,
            cpu_limit,
            ..
        } = beside.load;
        let is_throttled = cpu_limit.is_some_and(|limit| limit.is_used_up());
        let left_by_others = beside.cores - others;
        // Another limit leaves more than other processes do.
        let limit = cpu_limit.filter(|limit| is_throttled || limit.cores < left_by_others);
        let free = limit.map_or(left_by_others, |limit| limit.cores.min(left_by_others)) - load;
        let free = free.clamp(0.0, f64::from(beside.job_cores));
        if !is_throttled {
            if free * allowed >= needed_cores {
                return None;
            }
            // The guard takes a larger part than what is not free.
            if let Some((quantile, slack_ratio)) = beside.guard
                && allowed < free / could_cores
            {
                return Some(Self::Guard {
                    quantile: quantile.to_string(),
                    allowed_ratio: allowed,
                    slack_ratio,
                });
            }
        }
        Some(match limit {
            Some(limit) if load < limit.cores / 2.0 => Self::Limit {
                cores: limit.cores,
                throttled_ratio: limit.throttled_ratio,
            },
            None if load < others => Self::Others {
                used_cores: others,
                cores: beside.cores,
            },
            limit => Self::Load {
                used_cores: load,
                cores: limit.map_or(beside.cores, |limit| limit.cores),
            },
        })
    }
}

/// Writes a clause in the present tense, or with `{:#}` in the past tense.
impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tense = |present, past| if f.alternate() { past } else { present };
        let is = tense("is", "was");
        let text = match self {
            Self::Jobs {
                share_cores,
                left_cores,
            } => {
                let left = counted(*left_cores);
                format!("other jobs come first: they get {share_cores:.2} of {left} left for jobs")
            }
            Self::Others { used_cores, cores } => {
                let (uses, all) = (tense("use", "used"), counted(*cores));
                format!("other processes {uses} {used_cores:.2} of {all}")
            }
            Self::Load { used_cores, cores } => {
                let (uses, all) = (tense("uses", "used"), counted(*cores));
                format!("the load {uses} {used_cores:.2} of {all}")
            }
            Self::Guard {
                quantile,
                allowed_ratio,
                slack_ratio,
            } => {
                let (leaves, stops) = (tense("leaves", "left"), tense("has stopped", "stopped"));
                let how = if *allowed_ratio >= ALLOWED_RATIO_MIN {
                    let percent = allowed_ratio * 100.0;
                    format!("{leaves} jobs {percent:.0}% of what is free, to keep {quantile} below")
                } else if *slack_ratio < 0.0 {
                    format!("{stops} jobs, {quantile} {is} above")
                } else {
                    format!("{stops} jobs until {quantile} {is} well below")
                };
                format!("the guard {how} the objective")
            }
            Self::Limit {
                cores,
                throttled_ratio,
            } => {
                let limit = CpuLimit {
                    cores: *cores,
                    throttled_ratio: *throttled_ratio,
                };
                // A limit that leaves too little for the job's tasks need not have stopped a thread.
                let used_up = if limit.is_used_up() { " used up:" } else { "" };
                let cores = counted(*cores);
                format!("the cgroup's limit (cpu.max) {is}{used_up} {cores}")
            }
        };
        f.write_str(&text)
    }
}

fn in_cores(hundredths: u32) -> f64 {
    f64::from(hundredths) / 100.0
}

/// Returns a number of cores as text, with at most two digits behind the point.
fn counted(cores: f64) -> String {
    let rounded = (cores * 100.0).round() / 100.0;
    format!("{rounded} core{}", if rounded == 1.0 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the use of a machine with two cores. The load uses `load` of them, and other processes
    /// use `others`. The guard, which limits jobs to keep the latency objective, lets jobs use the
    /// fraction `allowed` of the free cores. `limit` has the cores of the cgroup's limit, and the
    /// fraction of periods in which the limit was used up.
    fn beside(load: f64, others: f64, allowed: f64, limit: Option<(f64, f64)>) -> Beside {
        let limit = limit.map(|(cores, throttled_ratio)| CpuLimit {
            cores,
            throttled_ratio,
        });
        Beside {
            job_cores: 2,
            cores: 2.0,
            load: LoadSample {
                transactional_cores: load,
                others_cores: others,
                allowed,
                cpu_limit: limit,
                ..LoadSample::default()
            },
            guard: Some((Quantile::P99, -0.5)),
        }
    }

    #[test]
    fn the_largest_taker_of_cores_is_the_reason() {
        let reason = |load, others, allowed, limit| {
            let wait = Wait::of(8, 0.05, &beside(load, others, allowed, limit));
            wait.expect("a reason").to_string()
        };
        let others = reason(0.0, 1.95, 1.0, None);
        assert_eq!(others, "other processes use 1.95 of 2 cores");
        let load = reason(1.8, 0.1, 1.0, None);
        assert_eq!(load, "the load uses 1.80 of 2 cores");
        let guard = reason(0.3, 0.9, 0.0, None);
        let stopped = "the guard has stopped jobs, p99 is above the objective";
        assert_eq!(guard, stopped);
        // Without the guard there would be nothing for jobs, either.
        assert!(reason(1.95, 0.1, 0.0, None).starts_with("the load"));

        let limit = reason(0.1, 0.0, 1.0, Some((0.5, 0.0)));
        assert_eq!(limit, "the cgroup's limit (cpu.max) is 0.5 cores");
        let used_up = "the cgroup's limit (cpu.max) is used up: ";
        let throttled = reason(0.1, 0.0, 1.0, Some((1.0, 0.6)));
        assert_eq!(throttled, format!("{used_up}1 core"));
        let load = reason(0.9, 0.0, 1.0, Some((1.0, 0.6)));
        assert_eq!(load, "the load uses 0.90 of 1 core");
        assert!(reason(0.0, 1.9, 1.0, Some((1.0, 0.0))).starts_with("other"));
    }

    #[test]
    fn a_job_with_little_of_what_is_left_for_jobs_waits_for_other_jobs() {
        let mut beside = beside(0.0, 1.2, 1.0, None);
        beside.load.capacity_hundredths = 70;
        let reason = |share_hundredths| Wait::now(8, (0.0, share_hundredths), &beside).unwrap();
        let first = "other jobs come first: they get 0.70 of 0.7 cores left for jobs";
        assert_eq!(reason(0).to_string(), first);
        let object = json!({"kind": "jobs", "share_cores": 0.7, "left_cores": 0.7});
        assert_eq!(json!(reason(0)), object);
        assert!(reason(70).to_string().starts_with("other processes use"));
        assert_eq!(Wait::now(0, (0.0, 0), &beside), None, "it has no task");
        beside.load.capacity_hundredths = 0;
        let nothing = Wait::now(8, (0.0, 0), &beside).unwrap();
        assert!(nothing.to_string().starts_with("other processes use"));
    }

    #[test]
    fn a_job_waits_for_nothing_that_progresses_or_has_no_task_or_finds_free_cores() {
        let starved = beside(0.0, 1.95, 1.0, None);
        assert!(Wait::of(8, 0.9, &starved).is_some());
        assert_eq!(Wait::of(8, 1.0, &starved), None);
        assert_eq!(Wait::of(1, 0.5, &starved), None);
        assert_eq!(Wait::of(0, 0.0, &starved), None);
        for free in [beside(0.2, 0.3, 1.0, None), beside(0.0, 0.0, 0.6, None)] {
            assert_eq!(Wait::of(8, 0.0, &free), None, "{free:?}");
        }
    }

    /// The guard's fraction applies to the cores that jobs can use, and not to all free cores. Here
    /// it leaves jobs 0.3 of 2 cores, which is 0.6, and not 0.3 of 8 cores, which would be 2.4.
    #[test]
    fn free_cores_beyond_those_on_which_jobs_run_do_not_hide_the_guard() {
        let many = Beside {
            cores: 8.0,
            ..beside(0.0, 0.0, 0.3, None)
        };
        let wait = Wait::of(8, 0.5, &many).unwrap().to_string();
        assert!(wait.starts_with("the guard leaves jobs 30%"), "{wait}");
    }

    #[test]
    fn a_reason_has_two_tenses_and_a_kind_with_numbers() {
        let wait = Wait::of(8, 0.0, &beside(0.0, 1.95, 1.0, None)).unwrap();
        assert_eq!(format!("{wait:#}"), "other processes used 1.95 of 2 cores");
        let object = json!({"kind": "others", "used_cores": 1.95, "cores": 2.0});
        assert_eq!(json!(wait), object);
        let guard = Wait::of(2, 0.0, &beside(0.0, 0.0, 0.1, None)).unwrap();
        assert_eq!(
            guard.to_string(),
            "the guard leaves jobs 10% of what is free, to keep p99 below the objective"
        );
        assert_eq!(json!(guard)["allowed_ratio"], 0.1);
        let limit = |throttled_ratio| {
            let beside = beside(0.1, 0.0, 1.0, Some((0.5, throttled_ratio)));
            format!("{:#}", Wait::of(2, 0.0, &beside).unwrap())
        };
        let was = "the cgroup's limit (cpu.max) was";
        assert_eq!(limit(0.0), format!("{was} 0.5 cores"));
        assert_eq!(limit(0.6), format!("{was} used up: 0.5 cores"));
    }
}
