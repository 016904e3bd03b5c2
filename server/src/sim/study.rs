//! Runs every point of a scenario under every policy, on all cores.

use super::result::{BoundResult, PointResult, PolicyResult, StudyResult};
use anyhow::{Result, anyhow};
use ebb_scheduler::planning::offline_bound;
use ebb_scheduler::policy;
use ebb_scheduler::sim::scenario::Scenario;
use ebb_scheduler::sim::{JobRecord, Metrics, SimError, SimReport, simulate};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Told as runs end.
pub trait Progress: Sync {
    /// One more of the runs is done.
    fn run_done(&self);
}

/// One simulation, or the bound of one where there is no policy.
#[derive(Clone, Copy)]
struct Run {
    point: usize,
    policy: Option<usize>,
    replica: u32,
}

/// Runs the scenario; `threads` at once, at least one.
///
/// # Errors
/// When there is no such policy, or a drawn job cannot be simulated.
pub fn run(scenario: &Scenario, threads: usize, progress: &dyn Progress) -> Result<StudyResult> {
    let policies = (scenario.policies.iter())
        .map(|name| policy::by_name(name).ok_or_else(|| anyhow!("there is no policy {name:?}")))
        .collect::<Result<Vec<_>>>()?;
    let mut runs = Vec::new();
    for point in 0..scenario.points.len() {
        for replica in 0..scenario.replicas {
            let bound = scenario.offline_bound.then_some(None);
            let policies = (0..policies.len()).map(Some).chain(bound);
            runs.extend(policies.map(|policy| Run {
                point,
                policy,
                replica,
            }));
        }
    }

    let before_s = cpu_s();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(runs.len()));
    let bounds = Mutex::new(Vec::new());
    let work = || -> Result<(), SimError> {
        while let Some(&run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let seed = scenario.seed.wrapping_add(run.replica.into());
            let (config, jobs) = scenario.points[run.point].draw(seed);
            let Some(policy) = run.policy else {
                let bound = offline_bound(&config, &jobs);
                progress.run_done();
                bounds
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .push(((run.point, run.replica), bound));
                continue;
            };
            let report = simulate(&config, jobs, policies[policy].as_ref())?;
            let metrics = Metrics::of(&report);
            let listed = |record: &&JobRecord| scenario.points[run.point].is_listed(record.job.id);
            let listed: Vec<JobRecord> = report.jobs.iter().filter(listed).copied().collect();
            let first = (run.replica == 0).then_some((report, config));
            progress.run_done();
            done.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push((run, (metrics, listed), first));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;

    let mut done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(run, ..)| (run.point, run.policy, run.replica));
    let mut done = done.into_iter();
    let mut bounds = bounds
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    bounds.sort_by_key(|(run, _)| *run);
    let of_point = scenario.replicas as usize;
    let bounds = bounds.chunks(of_point).map(|bounds| {
        let bounds = bounds.iter().map(|(_, bound)| *bound);
        BoundResult::new(bounds.collect())
    });
    let points = scenario.points.iter().map(|point| PointResult {
        bound: None,
        set: point.set.iter().cloned().collect(),
        policies: (scenario.policies.iter())
            .map(|policy| {
                let mut replicas = Vec::new();
                let mut first: Option<(SimReport, _)> = None;
                let mut listed = Vec::new();
                for (_, one, whole) in done.by_ref().take(scenario.replicas as usize) {
                    replicas.push(one.0);
                    listed.push(one.1);
                    first = first.or(whole);
                }
                let (first, config) = first.expect("every run has ended");
                PolicyResult::new(policy, point, (replicas, &listed), first, &config)
            })
            .collect(),
    });
    let mut points: Vec<PointResult> = points.collect();
    for (point, bound) in points.iter_mut().zip(bounds) {
        point.set_bound(bound);
    }
    Ok(StudyResult {
        title: scenario.title.clone(),
        replicas: scenario.replicas,
        points,
        cpu_s: cpu_s() - before_s,
    })
}

/// CPU time of this process, in seconds.
fn cpu_s() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

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
