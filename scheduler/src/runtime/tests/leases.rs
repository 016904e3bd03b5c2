//! Leases: work of the caller under shares like those of jobs.

use super::*;
use crate::availability::Availability;
use crate::model::{Job, JobId, TaskId, TaskKind};
use crate::policy::{Fair, Fifo, all};
use crate::runtime::pacing::bucket::{Bucket, Verdict};
use crate::runtime::schedule::live_view::{LiveJob, Slot, live_view};
use crate::runtime::schedule::tracker::{Tracker, Work};
use ebb_test_support::seed::for_seeds;
use ebb_threads::current_class;
use rustix::thread::sched_getaffinity;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

/// Returns a capacity source with `cpu_hundredths` now, and two cores by forecast.
fn with_cpu(cpu_hundredths: u32) -> Arc<TestCapacity> {
    TestCapacity::new(Capacity {
        cpu_hundredths,
        ..Capacity::cpu(200)
    })
}

/// Returns options with the policy of equal shares and short control cycles.
fn fair_options(left: &Arc<TestCapacity>) -> RuntimeOptions {
    RuntimeOptions {
        policy: Arc::new(Fair),
        ..with_capacity(left, options())
    }
}

fn start(left: &Arc<TestCapacity>) -> TestRuntime {
    TestRuntime::start(fair_options(left))
}

fn lease(runtime: &Runtime, name: &str) -> Lease {
    runtime.lease(name, LeaseOptions::default()).unwrap()
}

/// Starts a thread that computes under the lease until the lease is cancelled or `stop` is set. The
/// thread returns the CPU time that it used, in seconds.
fn spinning(lease: &Lease, stop: &Arc<AtomicBool>) -> JoinHandle<Result<f64, TaskError>> {
    let (lease, stop) = (lease.clone(), Arc::clone(stop));
    spawn(move || {
        let thread = lease.enter()?;
        while !stop.load(Ordering::SeqCst) {
            for n in 0..1000_u64 {
                std::hint::black_box(n.wrapping_mul(n));
            }
            thread.checkpoint()?;
        }
        Ok(thread.used_cpu_s())
    })
}

fn status(lease: &Lease) -> JobStatus {
    lease.status().expect("the runtime is there")
}

#[test]
fn two_threads_of_a_lease_use_no_more_than_its_share() {
    let clock = Arc::new(ManualClock::default());
    let options = fair_options(&with_cpu(30));
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let (lease, longest) = (lease(&runtime, "query"), Arc::new(LongestStep::default()));
    let threads = [(); 2].map(|()| {
        let (lease, longest) = (lease.clone(), Arc::clone(&longest));
        spawn(move || {
            let thread = lease.enter().unwrap();
            let ended = longest.spin(|| thread.checkpoint());
            assert!(matches!(ended, TaskError::Cancelled));
            thread.used_cpu_s()
        })
    });
    wait::until("both threads to be in, with a share", || {
        let status = status(&lease);
        (status.tasks_running, status.share_hundredths) == (2, 30)
    });
    let cpu_s = pass_a_second(&runtime, &clock, || status(&lease).cpu_s);
    let status = status(&lease);
    assert_eq!(status.share_hundredths, 30);
    assert_eq!((status.state, status.is_lease), (JobState::Running, true));
    assert!(lease.cancel());
    let used_s: f64 = threads.map(|thread| thread.join().unwrap()).iter().sum();
    let granted_s = 0.30 * runtime.now_s();
    // The two threads are charged after the use.
    let late_s = 2.0 * longest.charge_s_max();
    assert!(
        cpu_s <= granted_s + late_s,
        "{cpu_s} s of CPU of {granted_s} s, {late_s} s may be late"
    );
    drop(lease);
    wait::until("a control cycle without the lease", || {
        (runtime.cycles().last()).is_some_and(|cycle| cycle.jobs.is_empty())
    });
    let history = runtime.cycles();
    let samples = history.iter().flat_map(|cycle| &cycle.jobs);
    let sampled_s: f64 = samples.map(|sample| sample.used_cpu_s).sum();
    assert!(
        sampled_s >= used_s - 1e-6,
        "{sampled_s} s seen of {used_s} s"
    );
}

#[test]
fn a_lease_shares_with_jobs_and_leaves_them_its_share_when_it_is_dropped() {
    let runtime = start(&with_cpu(100));
    let output = VecOutput::new();
    let job = runtime.begin(spinning_job(2, &output));
    until_share(&job, 100);
    let (lease, stop) = (lease(&runtime, "export"), Arc::default());
    let thread = spinning(&lease, &stop);
    wait::until("each to have half a core", || {
        let shares = [&job.status(), &status(&lease)].map(|status| status.share_hundredths);
        shares == [50, 50]
    });
    let names = runtime.status().jobs.into_iter().map(|job| job.name);
    assert_eq!(names.collect::<Vec<_>>(), ["spin", "export"]);
    stop.store(true, Ordering::SeqCst);
    thread.join().unwrap().unwrap();
    drop(lease);
    until_share(&job, 100);
    assert_eq!(runtime.status().jobs.len(), 1, "nothing is left of a lease");
    assert!(job.cancel());
}

/// Regression: a query that waited for its client kept a share that jobs could have used.
#[test]
fn a_lease_without_a_thread_has_no_share_until_one_enters() {
    let runtime = start(&with_cpu(100));
    let output = VecOutput::new();
    let job = runtime.begin(spinning_job(1, &output));
    let lease = lease(&runtime, "query");
    wait::until("the lease to be without a share", || {
        let shares = [&job.status(), &status(&lease)].map(|status| status.share_hundredths);
        shares == [100, 0]
    });
    assert_eq!(status(&lease).state, JobState::Waiting);
    for _ in 0..3 {
        let thread = lease.enter().unwrap();
        wait::until("the lease to have a share", || {
            status(&lease).share_hundredths == 50
        });
        thread.checkpoint().unwrap();
    }
    assert!(job.cancel());
}

#[test]
fn without_capacity_or_bytes_a_lease_pauses_and_with_them_continues() {
    let left = with_cpu(0);
    left.change(|left| left.read_bytes_per_s = Some(0));
    let runtime = start(&left);
    let (lease, is_in) = (lease(&runtime, "backup"), Arc::new(AtomicBool::new(false)));
    let thread = {
        let (lease, is_in) = (lease.clone(), Arc::clone(&is_in));
        spawn(move || {
            let thread = lease.enter()?;
            is_in.store(true, Ordering::SeqCst);
            // More bytes than are read between two settlements.
            (0..100).try_for_each(|_| thread.read(64 << 10))
        })
    };
    pass_cycles(&runtime, 6);
    assert_eq!(status(&lease).tasks_running, 1);
    left.change(|left| left.cpu_hundredths = 200);
    pass_cycles(&runtime, 6);
    assert!(!is_in.load(Ordering::SeqCst), "there is nothing to read");
    left.change(|left| left.read_bytes_per_s = Some(1 << 32));
    thread.join().unwrap().unwrap();
    assert!(is_in.load(Ordering::SeqCst));
}

#[test]
fn a_holder_that_panics_gives_back_its_task_its_class_and_with_the_lease_the_share() {
    let options = RuntimeOptions {
        throttles: Throttles::default(),
        ..fair_options(&with_cpu(100))
    };
    let runtime = TestRuntime::start(options);
    let lease = lease(&runtime, "torn");
    let before = current_class();
    let held = lease.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let thread = held.enter().unwrap();
        thread.checkpoint().unwrap();
        panic!("a row is torn");
    }));
    assert!(panicked.is_err());
    assert_eq!(status(&lease).tasks_running, 0);
    if runtime.shared.can_raise {
        assert_eq!(current_class(), before);
    }
    // Other holders of the lease can still use it.
    lease.enter().unwrap().checkpoint().unwrap();
    drop(lease);
    let output = VecOutput::new();
    let job = runtime.begin(word_count("a b a", 2, 1, &output));
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

/// Regression: a backup waited for a core that the load used while another core was idle.
#[test]
fn a_thread_under_a_lease_is_tied_to_a_core_only_beside_others() {
    let options = RuntimeOptions {
        throttles: Throttles::default(),
        ..fair_options(&with_cpu(100))
    };
    let runtime = TestRuntime::start(options);
    if !runtime.shared.can_raise {
        return;
    }
    let cores = || sched_getaffinity(None).unwrap().count();
    let before = cores();
    let lease = lease(&runtime, "backup");
    let thread = lease.enter().unwrap();
    assert_eq!(cores(), before);
    let may_use = |expected: u32| {
        thread.checkpoint().unwrap();
        cores() == expected
    };
    let task = runtime.shared.cores.reserve(JobId(99));
    wait::until("the thread to be tied", || may_use(1));
    drop(task);
    wait::until("the thread to be free again", || may_use(before));
}

/// Regression: while jobs had no CPU time, a backup did not notice that its client had gone.
#[test]
fn a_thread_that_waits_for_a_share_gives_up_when_its_work_is_no_longer_needed() {
    let clock = Arc::new(ManualClock::default());
    let options = fair_options(&with_cpu(0));
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let lease = lease(&runtime, "backup");
    let thread = {
        let lease = lease.clone();
        spawn(move || lease.enter_while(&|| false).map(drop))
    };
    wait::until("the thread to give up", || {
        clock.advance_s(1.0);
        thread.is_finished()
    });
    assert!(matches!(thread.join().unwrap(), Err(TaskError::Cancelled)));
    assert_eq!(status(&lease).tasks_running, 0);
}

#[test]
fn a_cancelled_lease_refuses_its_threads_and_is_listed_until_it_is_dropped() {
    let runtime = start(&with_cpu(100));
    let (lease, stop) = (lease(&runtime, "query"), Arc::default());
    let thread = spinning(&lease, &stop);
    wait::until("the thread to be in", || status(&lease).tasks_running == 1);
    assert!(runtime.cancel(lease.id()));
    assert!(!lease.cancel(), "it was cancelled before");
    assert!(matches!(thread.join().unwrap(), Err(TaskError::Cancelled)));
    assert!(matches!(lease.enter(), Err(TaskError::Cancelled)));
    pass_cycles(&runtime, 6);
    assert_eq!(status(&lease).state, JobState::Stopping);
    drop(lease);
    assert!(runtime.status().jobs.is_empty());
}

/// A shutdown must not wait for a lease that is still held, by the calling thread or another.
#[test]
fn a_shutdown_does_not_wait_for_leases_and_refuses_them() {
    let left = with_cpu(100);
    let runtime = start(&left);
    let (lease, stop) = (lease(&runtime, "query"), Arc::default());
    let thread = spinning(&lease, &stop);
    wait::until("the thread to be in", || status(&lease).tasks_running == 1);
    left.change(|left| left.cpu_hundredths = 0);
    runtime.shutdown();
    assert!(matches!(thread.join().unwrap(), Err(TaskError::Cancelled)));
    assert!(matches!(lease.enter(), Err(TaskError::Cancelled)));
    assert_eq!(lease.status(), None);
    assert!(!lease.cancel());
    let refused = runtime.lease("late", LeaseOptions::default());
    assert!(matches!(refused, Err(SubmitError::ShuttingDown)));
}

#[test]
fn a_lease_without_a_sensible_goal_or_cost_is_refused() {
    let runtime = start(&with_cpu(100));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let with_goal = LeaseOptions {
            goal_s: Some(bad),
            ..LeaseOptions::default()
        };
        let refused = runtime.lease("no goal", with_goal);
        assert!(matches!(refused, Err(SubmitError::Goal(_))));
        let with_cost = LeaseOptions {
            cpu_s: bad,
            ..LeaseOptions::default()
        };
        let refused = runtime.lease("no cost", with_cost);
        assert!(matches!(refused, Err(SubmitError::Profile(_))));
    }
    assert!(runtime.status().jobs.is_empty());
}

#[test]
fn a_job_that_follows_a_lease_starts_when_the_lease_is_dropped() {
    let runtime = start(&with_cpu(100));
    let (lease, output) = (lease(&runtime, "export"), VecOutput::new());
    let spec = word_count("a b a", 2, 1, &output).after(lease.id());
    let job = runtime.begin(spec);
    pass_cycles(&runtime, 6);
    assert_eq!(job.status().follows, [lease.id()]);
    drop(lease);
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

/// The length of a step of the model in seconds, about a millisecond. Sums and differences of its
/// multiples are exact, so the time between two cycles is never a little less than a cycle.
const STEP_S: f64 = 1.0 / 1024.0;
const CYCLE_S: f64 = 10.0 * STEP_S;
const CORES: u32 = 4;

/// A random job or lease of the model.
struct ModelJob {
    tracker: Tracker,
    bucket: Bucket,
    /// The threads at work: for each the task, the number of the attempt, and its state.
    threads: Vec<(TaskId, u32, Arc<AttemptState>)>,
    /// CPU time that a task of the job needs, in seconds; `None` if this is no job but a lease, a
    /// share of CPU for threads of the caller.
    task_s: Option<f64>,
    /// True for a lease under which the same threads always work; false if threads enter and leave
    /// it at random.
    is_steady: bool,
    share_hundredths: u32,
    /// The number of consecutive control cycles up to now that began without a thread at work; 0
    /// once a thread enters the lease.
    idle_cycles: u32,
    granted_s: f64,
    used_s: f64,
}

impl ModelJob {
    fn new(id: u64, rng: &mut ChaCha8Rng) -> Self {
        let goal_s = rng.random_bool(0.5).then(|| rng.random_range(0.1..5.0));
        let job = Job::new(JobId(id), 0.0, goal_s);
        let task_s = rng.random_bool(0.5).then(|| rng.random_range(0.01..0.3));
        let cpu_s = rng.random_range(0.01..3.0);
        let mut job = Self {
            tracker: match task_s {
                Some(_) => Tracker::new(job, rng.random_range(1..6), 0, &JobProfile::default()),
                None => Tracker::leased(job, cpu_s, CYCLE_S),
            },
            bucket: Bucket::new(0.0),
            threads: Vec::new(),
            task_s,
            is_steady: task_s.is_none() && rng.random_bool(0.5),
            share_hundredths: 0,
            idle_cycles: 0,
            granted_s: 0.0,
            used_s: 0.0,
        };
        if job.is_steady {
            let threads = rng.random_range(1..4);
            (0..threads).for_each(|_| job.threads.extend(job.tracker.enter(0.0)));
        }
        job
    }

    fn start_cycle(&mut self, share_hundredths: u32, now_s: f64) {
        self.share_hundredths = share_hundredths;
        let rate = f64::from(share_hundredths) / 100.0;
        self.bucket.set_rate(rate, BURST_S, now_s);
        self.granted_s += rate * CYCLE_S;
        let tasks = match share_hundredths {
            0 => 0,
            share => (share.div_ceil(100) + 1).min(CORES) as usize,
        };
        while self.task_s.is_some()
            && self.threads.len() < tasks
            && let Some(Work::Task {
                task,
                attempt,
                attempt_state,
            }) = self.tracker.claim(true, now_s)
        {
            self.threads.push((task, attempt, attempt_state));
        }
    }

    /// Simulates one step: threads enter and leave a lease at random. Each thread uses the whole
    /// step as CPU time, unless the token bucket is in debt. Then the tasks that have used their
    /// CPU time end.
    fn step(&mut self, now_s: f64, rng: &mut ChaCha8Rng) {
        match (self.task_s, self.is_steady) {
            (None, false) if self.threads.len() < 3 && rng.random_bool(0.01) => {
                self.threads.extend(self.tracker.enter(now_s));
                self.idle_cycles = 0;
            }
            (None, false) if !self.threads.is_empty() && rng.random_bool(0.02) => {
                let (task, attempt, _) = self.threads.swap_remove(0);
                self.tracker.leave(task, attempt);
            }
            _ => {}
        }
        for (_, _, state) in &self.threads {
            if self.bucket.verdict(now_s) == Verdict::Go {
                self.bucket.charge(STEP_S, now_s);
                state.charge_s(STEP_S);
                self.used_s += STEP_S;
            }
        }
        let Some(task_s) = self.task_s else { return };
        let is_done = |state: &AttemptState| state.used_s() >= task_s;
        for (task, attempt, _) in self.threads.extract_if(.., |(_, _, state)| is_done(state)) {
            self.tracker
                .task_done(task, attempt, &Counters::default(), now_s);
        }
    }
}

/// Random jobs and leases, on a clock that stands still between steps, under every policy. Shares
/// never exceed the capacity, no job or lease uses more than its share, a lease whose threads stay
/// uses all of its share, and a lease that was without threads for a whole cycle has none.
#[test]
fn random_leases_and_jobs_use_their_shares_and_shares_fit_the_capacity() {
    let test = "random_leases_and_jobs_use_their_shares_and_shares_fit_the_capacity";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut steady_s = 0.0;
        // Three or four worlds for each of the twelve policies.
        for policy in all().iter().cycle().take(45) {
            let mut world: Vec<ModelJob> = (1..=rng.random_range(1..6))
                .map(|id| ModelJob::new(id, &mut rng))
                .collect();
            let capacity = rng.random_range(0..=100 * CORES);
            for cycle in 0..60 {
                let now_s = f64::from(cycle) * CYCLE_S;
                for job in &mut world {
                    // No attempt stalls for 1e9 s, so none is given up.
                    job.tracker.watch(now_s, job.share_hundredths > 0, 1e9);
                    let is_idle = job.threads.is_empty();
                    job.idle_cycles = if is_idle { job.idle_cycles + 1 } else { 0 };
                }
                let live: Vec<LiveJob> = world.iter().filter_map(|d| d.tracker.live()).collect();
                let forecast = Arc::new(Availability::constant(f64::from(capacity)).unwrap());
                let cycle = (now_s, CYCLE_S);
                let view = live_view(cycle, 0.05, Slot::new(10), capacity, forecast, &live);
                let placement = policy.decide(&view).placement;
                let claimants: Vec<Claimant> = (live.iter())
                    .map(|job| Claimant {
                        job: job.job,
                        slots: placement.slots(job.job.id),
                        runnable_tasks: job.runnable_tasks(),
                        speculative: 0,
                    })
                    .collect();
                let granted: BTreeMap<JobId, u32> =
                    shares(capacity, 10, &claimants).into_iter().collect();
                assert!(granted.values().sum::<u32>() <= capacity);
                for job in &mut world {
                    let share = granted.get(&job.tracker.job.id).copied().unwrap_or(0);
                    if job.task_s.is_none() && job.idle_cycles > 1 {
                        assert_eq!(share, 0, "no thread entered for a whole cycle");
                    }
                    job.start_cycle(share, now_s);
                }
                for step in 0..10 {
                    let now_s = now_s + f64::from(step) * STEP_S;
                    world.iter_mut().for_each(|job| job.step(now_s, &mut rng));
                }
            }
            for job in &world {
                let who = format!("{} under {}", job.tracker.job.id, policy.name());
                let (used_s, granted_s) = (job.used_s, job.granted_s);
                // Only the share fills the token bucket, so a burst is part of `granted_s`. A
                // thread may overdraw the bucket by one step. A steady lease leaves only the tokens
                // of the last step unused: three steps at most, because its share is at most three
                // cores, one for each thread. One more step is for rounding.
                let at_once_s = 4.0 * STEP_S;
                assert!(
                    used_s <= granted_s + at_once_s,
                    "{who}: {used_s} of {granted_s}"
                );
                if job.is_steady {
                    steady_s += used_s;
                    assert!(
                        used_s >= granted_s - at_once_s,
                        "{who}: {used_s} of {granted_s}"
                    );
                }
            }
        }
        assert!(steady_s > 1.0, "leases had a share: {steady_s} s");
    });
}

#[test]
fn a_lease_is_planned_with_its_remaining_work() {
    let mut tracker = Tracker::leased(Job::new(JobId(1), 0.0, Some(9.0)), 4.0, 1.0);
    let threads: Vec<_> = (0..2).filter_map(|_| tracker.enter(0.0)).collect();
    threads[0].2.charge_s(3.0);
    let live = tracker.live().unwrap();
    let left_s: f64 = live
        .running
        .iter()
        .map(|(_, used_s)| live.map_cpu_s - used_s)
        .sum();
    assert_eq!((live.runnable_tasks(), left_s), (2, 1.0));
    let (task, attempt, _) = threads[0];
    tracker.leave(task, attempt);
    threads[1].2.charge_s(2.0);
    let live = tracker.live().unwrap();
    assert_eq!(
        live.running,
        [(TaskKind::Map, 5.0)],
        "more than the estimate"
    );
    assert_eq!(live.map_cpu_s, 5.0);
    // A task without a thread is taken again: there are no more tasks than threads at a time.
    assert_eq!(tracker.enter(1.0).unwrap().0, task);
}

#[test]
fn under_fifo_an_older_job_comes_before_a_lease() {
    let runtime = TestRuntime::start(RuntimeOptions {
        policy: Arc::new(Fifo),
        ..with_capacity(&with_cpu(100), options())
    });
    let output = VecOutput::new();
    let job = runtime.begin(spinning_job(2, &output));
    until_share(&job, 100);
    let lease = lease(&runtime, "query");
    let waiting = spinning(&lease, &Arc::default());
    pass_cycles(&runtime, 6);
    assert_eq!(status(&lease).share_hundredths, 0);
    assert!(job.cancel());
    wait::until("the lease to have its turn", || status(&lease).cpu_s > 0.01);
    assert!(lease.cancel());
    assert!(waiting.join().unwrap().is_err());
}
