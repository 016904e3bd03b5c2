use super::*;
use crate::model::JobId;
use ebb_test_support::seed::for_seeds;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

const PAUSED: (bool, bool) = (false, true);
const RESTING: (bool, bool) = (false, false);
const RUNNING: (bool, bool) = (true, false);

/// Returns a job whose running attempts, started at `started_s`, hold memory. `starts` more tasks
/// of the job wait only for memory.
fn holder(
    id: u64,
    goal_s: Option<f64>,
    (has_share, is_paused): (bool, bool),
    starts: u32,
    started_s: &[f64],
) -> Holder {
    let attempt = |(index, &started_s)| ActiveAttempt {
        index,
        attempt: 1,
        started_s,
        is_finishing: false,
    };
    Holder {
        job: Job::new(JobId(id), 0.0, goal_s),
        has_share,
        is_paused,
        starts,
        attempts: ((0..).zip(started_s).map(attempt))
            .map(|attempt| (TaskKind::Map, attempt))
            .collect(),
    }
}

fn space(attempts_max: u32) -> Space {
    Space {
        attempts_max,
        left_behind: 0,
        is_exceeded: false,
    }
}

/// Returns the job and the task of each preempted attempt, in the order of preemption.
fn given_up(space: Space, holders: &[Holder]) -> Vec<(u64, u32)> {
    let ids = preempt(space, holders).into_iter();
    ids.map(|(task, _)| (task.job.0, task.index)).collect()
}

#[test]
fn a_start_preempts_the_newest_attempt_of_the_latest_goal() {
    let mut jobs = [
        holder(1, Some(50.0), PAUSED, 0, &[1.0]),
        holder(2, Some(90.0), PAUSED, 0, &[2.0, 4.0, 3.0]),
        holder(3, Some(10.0), RUNNING, 2, &[]),
    ];
    assert_eq!(given_up(space(4), &jobs), [(2, 1), (2, 2)]);
    assert_eq!(
        given_up(space(5), &jobs),
        [(2, 1)],
        "no more than necessary"
    );
    assert_eq!(given_up(space(6), &jobs), []);
    jobs[0].job.goal_s = None;
    assert_eq!(given_up(space(5), &jobs), [(1, 0)], "no goal is the latest");
    jobs[0].attempts[0].1.is_finishing = true;
    assert_eq!(given_up(space(5), &jobs), [(2, 1)]);
}

#[test]
fn a_start_preempts_no_job_that_had_a_share_in_the_last_cycle() {
    for state in [RUNNING, RESTING] {
        let jobs = [
            holder(1, None, state, 0, &[1.0, 2.0]),
            holder(2, Some(1.0), RUNNING, 1, &[]),
        ];
        assert_eq!(given_up(space(2), &jobs), []);
    }
}

#[test]
fn no_attempt_is_preempted_if_no_task_could_start_then() {
    let jobs = [
        holder(1, None, PAUSED, 0, &[1.0]),
        holder(2, None, RUNNING, 0, &[1.0, 2.0]),
        holder(3, Some(1.0), RUNNING, 1, &[]),
    ];
    assert_eq!(given_up(space(2), &jobs), []);
    let mut left_behind = space(3);
    left_behind.left_behind = 1;
    assert_eq!(given_up(left_behind, &jobs), []);
    assert_eq!(given_up(space(3), &jobs), [(1, 0)]);
}

#[test]
fn the_load_preempts_all_attempts_and_those_with_a_share_last() {
    let jobs = [
        holder(1, Some(9.0), RUNNING, 0, &[1.0, 2.0]),
        holder(2, Some(5.0), RESTING, 0, &[1.0]),
        holder(3, Some(1.0), PAUSED, 0, &[1.0]),
    ];
    let exceeded = |attempts_max| Space {
        is_exceeded: true,
        ..space(attempts_max)
    };
    assert_eq!(given_up(space(0), &jobs), [], "not for a whole cycle");
    let order = [(3, 0), (2, 0), (1, 1), (1, 0)];
    for attempts_max in 0..=4 {
        let going = 4 - attempts_max as usize;
        assert_eq!(given_up(exceeded(attempts_max), &jobs), order[..going]);
    }
}

/// Draws a random memory limit, and random jobs that hold memory or wait for it.
fn random_jobs(rng: &mut ChaCha8Rng) -> (Space, Vec<Holder>) {
    let jobs = (0..rng.random_range(0..6)).map(|id| {
        let has_share = rng.random_bool(0.5);
        let goal_s = rng
            .random_bool(0.7)
            .then(|| f64::from(rng.random_range(0..4)));
        let starts = rng.random_range(0..4);
        let started_s: Vec<f64> = (0..rng.random_range(0..5))
            .map(|_| f64::from(rng.random_range(0..4)))
            .collect();
        let paused = !has_share && rng.random_bool(0.6);
        let mut job = holder(id, goal_s, (has_share, paused), starts, &started_s);
        for (_, attempt) in &mut job.attempts {
            attempt.is_finishing = rng.random_bool(0.2);
        }
        job
    });
    let jobs = jobs.collect();
    let space = Space {
        attempts_max: rng.random_range(0..12),
        left_behind: rng.random_range(0..3),
        is_exceeded: rng.random_bool(0.5),
    };
    (space, jobs)
}

#[test]
fn each_preemption_is_needed_allowed_and_in_order() {
    let test = "each_preemption_is_needed_allowed_and_in_order";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..5000 {
            let (space, mut jobs) = random_jobs(&mut rng);
            let going = preempt(space, &jobs);
            let story = format!("{space:?} {jobs:#?}: {going:?}");
            jobs.shuffle(&mut rng);
            assert_eq!(preempt(space, &jobs), going, "order of jobs: {story}");

            let unique: BTreeSet<_> = going.iter().copied().collect();
            assert_eq!(unique.len(), going.len(), "{story}");
            let holder = |task: TaskId| jobs.iter().find(|job| job.job.id == task.job).unwrap();
            let attempt = |&(task, number): &(TaskId, u32)| {
                let mut attempts = holder(task).attempts.iter();
                let (_, attempt) = attempts
                    .find(|(kind, a)| {
                        (*kind, a.index, a.attempt) == (task.kind, task.index, number)
                    })
                    .expect("a victim is an attempt of its job");
                *attempt
            };
            assert!(!going.iter().any(|id| attempt(id).is_finishing), "{story}");

            let held = jobs.iter().map(|job| job.attempts.len()).sum::<usize>() as i64;
            let room = i64::from(space.attempts_max) - i64::from(space.left_behind) - held;
            let starts = jobs
                .iter()
                .filter(|job| job.has_share)
                .map(|job| job.starts);
            let starts = i64::from(starts.sum::<u32>());
            let room_after = room + going.len() as i64;
            let only_paused = going.iter().all(|(task, _)| holder(*task).is_paused);
            if !space.is_exceeded {
                assert!(only_paused, "{story}");
            }
            if !only_paused {
                assert!(room_after <= 0, "more than the load needs: {story}");
            }
            assert!(
                going.is_empty() || room_after <= starts.max(0),
                "too many: {story}"
            );

            let could_go =
                |job: &Holder| job.attempts.iter().filter(|(_, a)| !a.is_finishing).count();
            let paused = jobs.iter().filter(|job| job.is_paused).map(could_go);
            let paused = paused.sum::<usize>() as i64;
            // Attempts that stay although they could have been preempted.
            let stays = |job: &Holder| {
                let going = &unique;
                let id = job.job.id;
                (job.attempts.iter())
                    .filter(|(kind, a)| {
                        let (job, kind, index) = (id, *kind, a.index);
                        !a.is_finishing
                            && !going.contains(&(TaskId { job, kind, index }, a.attempt))
                    })
                    .map(|(_, a)| *a)
                    .collect::<Vec<_>>()
            };
            let goal_s = |job: &Holder| job.job.goal_s.unwrap_or(f64::INFINITY);
            for job in &jobs {
                for stayed in stays(job) {
                    if space.is_exceeded {
                        assert!(room_after >= 0, "it could have gone: {story}");
                    }
                    if job.is_paused {
                        let is_futile = starts == 0 || room + paused <= 0;
                        assert!(
                            only_paused && (is_futile || room_after >= starts),
                            "{story}"
                        );
                    }
                    for id in &going {
                        let gone = holder(id.0);
                        if gone.job.id == job.job.id {
                            assert!(attempt(id).started_s >= stayed.started_s, "{story}");
                        } else if gone.is_paused == job.is_paused && gone.has_share == job.has_share
                        {
                            assert!(goal_s(gone) >= goal_s(job), "{story}");
                        }
                    }
                }
            }
        }
    });
}

/// An attempt in a model without threads.
struct Run {
    index: u32,
    attempt: u32,
    started_s: f64,
    /// The number of cycles with a share that remain until the attempt's end.
    left: u32,
    /// The number of cycles until the attempt notices that it was stopped; `None` if it was not
    /// stopped.
    stops_in: Option<u32>,
}

/// A job and its attempts in a model without threads.
struct Work {
    job: Job,
    pending: Vec<u32>,
    runs: Vec<Run>,
    has_share: bool,
    had_share: bool,
}

impl Work {
    fn holder(&self) -> Holder {
        let active = self.runs.iter().filter(|run| run.stops_in.is_none());
        let attempt = |run: &Run| ActiveAttempt {
            index: run.index,
            attempt: run.attempt,
            started_s: run.started_s,
            is_finishing: false,
        };
        let place = TASKS_AT_ONCE.saturating_sub(self.runs.len());
        Holder {
            job: self.job,
            has_share: self.has_share,
            is_paused: !self.has_share && !self.had_share,
            starts: place.min(self.pending.len()) as u32,
            attempts: active.map(|run| (TaskKind::Map, attempt(run))).collect(),
        }
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && self.runs.is_empty()
    }
}

/// The most tasks of a job that run at once while it has a share.
const TASKS_AT_ONCE: usize = 2;
/// The most cycles that a task takes.
const CYCLES_MAX: u32 = 6;
/// The most cycles until an attempt notices that it was stopped.
const STOPPING_MAX: u32 = 3;

/// Jobs arrive at random, and those with the earliest goals have a share: a job that arrives later
/// may take it from another. Once no more jobs arrive, the one with the earliest goal keeps its
/// share until it ends; then the next one does. So all jobs must end.
#[test]
fn all_jobs_end_under_a_policy_that_leaves_some_job_its_share() {
    let test = "all_jobs_end_under_a_policy_that_leaves_some_job_its_share";
    for_seeds(test, 300, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let attempts_max = rng.random_range(1..5);
        let shares = rng.random_range(1..4);
        let mut jobs: Vec<Work> = Vec::new();
        let (mut tasks, mut starts, mut preempted) = (0, 0, 0);
        let mut cycle = 0_u32;
        while cycle < 60 || jobs.iter().any(|job| !job.is_done()) {
            // Jobs arrive in the first 60 cycles. Then each task has ten times `CYCLES_MAX`, because
            // tasks also wait, and start again if they are preempted.
            assert!(cycle < 60 + 60 * tasks, "{tasks} tasks do not end");
            if cycle < 60 && rng.random_bool(0.1) {
                let id = JobId(jobs.len() as u64);
                let n = rng.random_range(1..6);
                tasks += n;
                jobs.push(Work {
                    job: Job::new(id, f64::from(cycle), Some(rng.random_range(0.0..900.0))),
                    pending: (0..n).collect(),
                    runs: Vec::new(),
                    has_share: false,
                    had_share: false,
                });
            }
            let mut by_goal: Vec<&mut Work> =
                jobs.iter_mut().filter(|job| !job.is_done()).collect();
            by_goal.sort_by(|a, b| a.job.goal_s.partial_cmp(&b.job.goal_s).unwrap());
            for (rank, job) in by_goal.into_iter().enumerate() {
                job.had_share = std::mem::replace(&mut job.has_share, rank < shares);
            }
            let mut held: usize = jobs.iter().map(|job| job.runs.len()).sum();
            let from = cycle as usize % jobs.len().max(1);
            jobs.rotate_left(from);
            for job in jobs.iter_mut().filter(|job| job.has_share) {
                while held < attempts_max as usize && job.runs.len() < TASKS_AT_ONCE {
                    let Some(index) = job.pending.pop() else {
                        break;
                    };
                    starts += 1;
                    held += 1;
                    job.runs.push(Run {
                        index,
                        attempt: starts,
                        started_s: f64::from(cycle),
                        left: rng.random_range(1..=CYCLES_MAX),
                        stops_in: None,
                    });
                }
            }
            let holders: Vec<Holder> = jobs.iter().map(Work::holder).collect();
            for (task, attempt) in preempt(space(attempts_max), &holders) {
                preempted += 1;
                let job = jobs.iter_mut().find(|job| job.job.id == task.job).unwrap();
                let run = job.runs.iter_mut().find(|run| run.attempt == attempt);
                run.unwrap().stops_in = Some(rng.random_range(0..=STOPPING_MAX));
            }
            for job in &mut jobs {
                for run in &mut job.runs {
                    match &mut run.stops_in {
                        Some(cycles) if *cycles > 0 => *cycles -= 1,
                        Some(_) => job.pending.push(run.index),
                        None => run.left -= u32::from(job.has_share),
                    }
                }
                let pending = &job.pending;
                job.runs
                    .retain(|run| run.left > 0 && !pending.contains(&run.index));
            }
            cycle += 1;
        }
        assert_eq!(starts, tasks + preempted, "each attempt ends once");
    });
}
