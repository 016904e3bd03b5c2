//! Runs every point of a scenario under every policy, on all cores.

use anyhow::{Result, anyhow};
use ebb_scheduler::planning::{OfflineBound, offline_bound};
use ebb_scheduler::queueing::policy_by_name;
use ebb_scheduler::sim::scenario::Scenario;
use ebb_scheduler::sim::{JobRecord, Metrics, SimError, simulate};
use ebb_threads::process_cpu;
use indicatif::ProgressBar;

use super::parallel::in_parallel;
use super::result::{BoundResult, FirstReplica, PointResult, PolicyResult, StudyResult};

/// A listener to the progress of a study. Threads call it concurrently.
pub trait Progress: Sync {
    /// Called when a run has ended.
    fn run_done(&self);
}

impl Progress for ProgressBar {
    fn run_done(&self) {
        self.inc(1);
    }
}

/// One simulation under a policy or, without a policy, the computation of the lower bound on missed
/// goals.
#[derive(Clone, Copy)]
struct Run {
    point: usize,
    policy: Option<usize>,
    replica: u32,
}

/// The result of a run.
enum RunOutcome {
    Bound(OfflineBound),
    Simulated {
        metrics: Metrics,
        /// A record of each job that the scenario lists; jobs that it generates have none.
        listed: Vec<JobRecord>,
        /// The detailed records of the first replica; `None` for other replicas.
        first: Option<Box<FirstReplica>>,
    },
}

/// Runs the scenario on `threads` threads, at least one.
///
/// # Errors
/// If a policy does not exist, or a drawn job cannot be simulated.
pub fn run(scenario: &Scenario, threads: usize, progress: &dyn Progress) -> Result<StudyResult> {
    // Before any simulation, so that an unknown name fails at once.
    let policies = (scenario.policies.iter())
        .map(|name| policy_by_name(name).ok_or_else(|| anyhow!("there is no policy {name:?}")))
        .collect::<Result<Vec<_>>>()?;
    let mut runs = Vec::new();
    for point in 0..scenario.points.len() {
        let bound = scenario.offline_bound.then_some(None);
        for policy in (0..policies.len()).map(Some).chain(bound) {
            runs.extend((0..scenario.replicas).map(|replica| Run {
                point,
                policy,
                replica,
            }));
        }
    }

    let before = process_cpu();
    let one = |run: &Run| -> Result<RunOutcome, SimError> {
        let point = &scenario.points[run.point];
        // The seed depends on the replica only. So all policies, and the bound, have the same jobs,
        // and are compared replica by replica.
        let (config, jobs) = point.draw(scenario.seed.wrapping_add(run.replica.into()))?;
        let Some(policy) = run.policy else {
            let bound = offline_bound(&config, &jobs);
            progress.run_done();
            return Ok(RunOutcome::Bound(bound));
        };
        let report = simulate(&config, jobs, policies[policy].as_ref())?;
        let metrics = Metrics::of(&report);
        let listed = (report.jobs.iter()).filter(|record| point.is_listed(record.job.id));
        let listed = listed.copied().collect();
        // Results have tasks and shares of one replica. Those of the others are dropped at once.
        let first = (run.replica == 0).then(|| FirstReplica {
            tasks: report.tasks,
            shares: report.shares,
            pools: config.nodes.iter().map(|node| node.pool).collect(),
            availability: config.availability,
        });
        progress.run_done();
        Ok(RunOutcome::Simulated {
            metrics,
            listed,
            first: first.map(Box::new),
        })
    };
    // The results have the order of `runs`: by point, then by policy (the bound last), then by
    // replica. The loops below take them in this order.
    let mut done = in_parallel(&runs, threads, one)?.into_iter();
    let points = scenario.points.iter().map(|point| {
        let mut result = PointResult {
            bound: None,
            set: point.set.iter().cloned().collect(),
            policies: Vec::new(),
        };
        for policy in &scenario.policies {
            let (mut replicas, mut listed, mut first) = (Vec::new(), Vec::new(), None);
            for done in done.by_ref().take(scenario.replicas as usize) {
                let RunOutcome::Simulated {
                    metrics,
                    listed: jobs,
                    first: of_first,
                } = done
                else {
                    unreachable!("bounds come behind all policies");
                };
                replicas.push(metrics);
                listed.push(jobs);
                first = first.or(of_first);
            }
            let first = first.expect("every run has ended");
            let all = (replicas, &listed[..]);
            let of_policy = PolicyResult::new(policy, point, all, *first);
            result.policies.push(of_policy);
        }
        if scenario.offline_bound {
            // The loop above took all simulated runs of the point, so only bounds come now.
            let bounds = done.by_ref().take(scenario.replicas as usize);
            let bounds = bounds.filter_map(|done| match done {
                RunOutcome::Bound(bound) => Some(bound),
                RunOutcome::Simulated { .. } => None,
            });
            result.set_bound(BoundResult::new(bounds.collect()));
        }
        result
    });
    let points = points.collect();
    Ok(StudyResult {
        title: scenario.title.clone(),
        replicas: scenario.replicas,
        points,
        cpu_s: (process_cpu() - before).as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Count(AtomicUsize);

    impl Progress for Count {
        fn run_done(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const SMALL: &str = r#"
policies = ["fifo", "reverse-adaptive"]
replicas = 3
[[nodes]]
count = 4
[applications.a]
map_s = 60
task_log_sd = 0.5
[workload]
application = "a"
span_s = 7200
load = 0.7
maps_mean = 6
maps_log_sd = 0.8
goal_factor = [1.5, 4.0]
[[job]]
name = "first"
application = "a"
maps = 5
[sweep]
"workload.load" = [0.4, 0.8]
"#;

    #[test]
    fn the_result_does_not_depend_on_the_number_of_threads() {
        let scenario = Scenario::parse("small", SMALL).unwrap();
        let study = |threads| {
            let count = Count(AtomicUsize::new(0));
            let study = run(&scenario, threads, &count).unwrap();
            assert_eq!(count.0.into_inner(), 2 * 2 * 3);
            study
        };
        let (one, three) = (study(1), study(3));
        assert_eq!(one.points.len(), 2);
        assert_eq!(one.points[1].label(), "load 0.8");
        for (a, b) in one.points.iter().zip(&three.points) {
            for (a, b) in a.policies.iter().zip(&b.policies) {
                assert_eq!((&a.policy, &a.replicas), (&b.policy, &b.replicas));
                assert_eq!(a.jobs.len(), 1);
                assert_eq!(a.jobs[0].name, "first");
                assert_eq!(a.jobs[0].record, b.jobs[0].record);
            }
        }
        let replicas = &one.points[0].policies[0].replicas;
        assert_ne!(replicas[0], replicas[1], "each replica has its own seed");
    }
}
