//! Shares, goals, and the end of jobs by cancellation or shutdown.

use super::*;
use crate::policy::{ClusterView, Decision, Fifo, Policy};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_cancelled_job_stops_and_shutdown_cancels_the_rest() {
    let runtime = TestRuntime::start(options());
    let output = VecOutput::new();
    let job = runtime.begin(spinning_job(2, &output));
    wait::until("the job to start", || {
        job.status().state == JobState::Running
    });
    assert_eq!(job.wait_timeout(Duration::from_millis(1)), None);
    assert!(runtime.cancel(job.id()));
    let report = job.wait();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(job.wait_timeout(Duration::ZERO), Some(report.clone()));
    assert!(!job.cancel(), "it has ended");
    assert_eq!(report.counters.tasks_done, 0);
    assert_eq!((output.rows(), output.has_staged()), (None, false));

    let rest = runtime.begin(spinning_job(3, &output));
    runtime.shutdown();
    assert_eq!(rest.wait().outcome, Outcome::Cancelled);
    assert!(matches!(
        runtime.submit(spinning_job(1, &output)),
        Err(SubmitError::ShuttingDown)
    ));
    assert!(runtime.has_no_spills());
}

/// An input that reads for ever and never finds a record.
struct WithoutRecords;

impl Input for WithoutRecords {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        VecInput::new(vec![(Vec::new(), Vec::new())], 1).splits()
    }

    fn read(&self, _split: &Split, _record: RecordSink<'_>) -> Result<(), TaskError> {
        Err(TaskError::failed("the runtime passes a checkpoint"))
    }

    fn read_with_checkpoints(
        &self,
        _split: &Split,
        _record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        loop {
            checkpoint()?;
        }
    }
}

/// Regression: a job among very many deleted rows could not be cancelled.
#[test]
fn a_job_is_cancelled_while_its_input_reads_without_a_record() {
    let runtime = TestRuntime::start(options());
    let output = VecOutput::new();
    let mut spec = spinning_job(1, &output);
    spec.input = Arc::new(WithoutRecords);
    let job = runtime.begin(spec);
    wait::until("the job to use CPU", || job.status().cpu_s > 0.0);
    assert!(job.cancel());
    assert_eq!(job.wait().outcome, Outcome::Cancelled);
}

#[test]
fn a_paced_job_uses_no_more_than_its_share() {
    let clock = Arc::new(ManualClock::default());
    let options = RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(30)),
        cycle_s: 0.01,
        ..options()
    };
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let (output, longest) = (VecOutput::new(), Arc::new(LongestStep::default()));
    let mapper = {
        let longest = Arc::clone(&longest);
        move |_: &[u8], _: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
            Err(longest.spin(|| emit.checkpoint()))
        }
    };
    let mut spec = spinning_job(2, &output);
    spec.mapper = Arc::new(mapper);
    let job = runtime.begin(spec);
    until_share(&job, 30);
    let cpu_s = pass_a_second(&runtime, &clock, || job.status().cpu_s);
    assert!(job.used_lately(0.9).is_some_and(|cores| cores > 0.0));
    assert_eq!(
        job.used_lately(60.0),
        None,
        "it was submitted less than 60 s ago"
    );
    assert!(job.cancel());
    let report = job.wait();
    assert_eq!(job.used_lately(0.5), None, "it has ended");
    let granted_s = 0.30 * runtime.now_s();
    // The two tasks are charged after the use.
    let late_s = 2.0 * longest.charge_s_max();
    assert!(
        cpu_s <= granted_s + late_s,
        "{cpu_s} s of CPU of {granted_s} s, {late_s} s may be late"
    );
    let history = runtime.cycles();
    assert!(history.iter().all(|cycle| cycle.capacity_hundredths == 30));
    assert!(
        history
            .iter()
            .flat_map(|cycle| &cycle.jobs)
            .any(|sample| sample.share_hundredths == 30)
    );
    let sampled_s: f64 = history
        .iter()
        .flat_map(|cycle| &cycle.jobs)
        .map(|sample| sample.used_cpu_s)
        .sum();
    assert!(sampled_s <= report.cpu_s + 1e-6);
}

#[test]
fn a_job_on_one_core_leaves_the_others_to_the_jobs_behind_it() {
    let runtime = TestRuntime::start(RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(200)),
        ..options()
    });
    let output = VecOutput::new();
    let one = runtime.begin(spinning_job(4, &output).cores(1));
    let other = runtime.begin(spinning_job(4, &output));
    wait::until("both jobs to have a core", || {
        let shares = [&one, &other].map(|job| job.status().share_hundredths);
        shares == [100, 100] && other.status().tasks_running > 0
    });
    assert_eq!(one.status().tasks_running, 1);
    assert!(one.cancel() && other.cancel());
}

#[test]
fn an_urgent_job_takes_the_share_of_one_that_can_wait() {
    let runtime = TestRuntime::start(RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(100)),
        ..options()
    });
    let output = VecOutput::new();
    let patient = runtime.begin(spinning_job(2, &output).goal_s(1e6));
    until_running(&patient, 2);
    assert_eq!(patient.status().share_hundredths, 100);
    let urgent = runtime.begin(spinning_job(1, &output).goal_s(100.0));
    until_running(&urgent, 1);
    assert_eq!(urgent.status().share_hundredths, 100);
    assert_eq!(patient.status().share_hundredths, 0);
    assert_eq!(patient.status().tasks_running, 2, "paused, not killed");
    assert!(urgent.cancel());
    until_share(&patient, 100);
}

/// Returns a capacity source without CPU now, and with a core by forecast.
fn without_cpu() -> Arc<TestCapacity> {
    TestCapacity::new(Capacity {
        cpu_hundredths: 0,
        ..Capacity::cpu(100)
    })
}

#[test]
fn without_capacity_a_job_pauses_and_with_it_continues() {
    let ebb = without_cpu();
    let runtime = TestRuntime::start(with_capacity(&ebb, options()));
    let output = VecOutput::new();
    let job = runtime.begin(word_count("a b a", 1, 1, &output).goal_s(100.0));
    pass_cycles(&runtime, 6);
    assert_eq!(job.status().state, JobState::Waiting);
    ebb.change(|left| left.cpu_hundredths = 200);
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

/// A policy and capacity source that panics while `broken` is true.
struct Fragile {
    broken: AtomicBool,
}

impl Fragile {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            broken: AtomicBool::new(true),
        })
    }

    fn check(&self) {
        assert!(!self.broken.load(Ordering::SeqCst), "it is broken");
    }
}

impl Policy for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        self.check();
        Fifo.decide(view)
    }
}

impl CapacitySource for Fragile {
    fn capacity(&self, _request: CapacityRequest) -> Capacity {
        self.check();
        Capacity::cpu(200)
    }
}

/// Regression: a panic on the control thread left every job waiting forever.
#[test]
fn a_panic_in_policy_or_capacity_fails_the_jobs_and_the_runtime_goes_on() {
    let (policy, capacity) = (Fragile::new(), Fragile::new());
    let with_policy = RuntimeOptions {
        policy: policy.clone(),
        ..options()
    };
    let with_capacity = RuntimeOptions {
        capacity: capacity.clone(),
        ..options()
    };
    for (options, fragile, who) in [
        (with_policy, policy, "the policy fragile"),
        (with_capacity, capacity, "the capacity source"),
    ] {
        let runtime = TestRuntime::start(options);
        let output = VecOutput::new();
        let jobs: Vec<JobHandle> = (0..2)
            .map(|_| runtime.begin(word_count("a b", 2, 1, &output)))
            .collect();
        for job in jobs {
            let report = job.wait();
            let cause = cause(&report);
            assert_eq!(cause, format!("{who} panicked: it is broken"));
        }
        assert_eq!((output.rows(), output.has_staged()), (None, false));

        fragile.broken.store(false, Ordering::SeqCst);
        let next = runtime.begin(word_count("a b", 2, 1, &output));
        assert_eq!(next.wait().outcome, Outcome::Succeeded);
        runtime.shutdown();
        assert!(runtime.has_no_spills());
    }
}

#[test]
fn a_change_of_capacity_applies_at_once_after_replan_however_long_the_cycle() {
    let ebb = without_cpu();
    let runtime = TestRuntime::start(RuntimeOptions {
        capacity: ebb.clone(),
        cycle_s: 3600.0,
        ..options()
    });
    let output = VecOutput::new();
    let job = runtime.begin(word_count("a b a", 1, 1, &output));
    wait::until("the capacity source to be called", || {
        ebb.request().is_some()
    });
    assert_eq!(job.status().state, JobState::Waiting);
    ebb.change(|left| left.cpu_hundredths = 200);
    runtime.replan();
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

#[test]
fn without_bytes_to_read_a_job_pauses_and_with_them_continues() {
    let drought = TestCapacity::new(Capacity {
        read_bytes_per_s: Some(0),
        ..Capacity::cpu(200)
    });
    let runtime = TestRuntime::start(with_capacity(&drought, options()));
    let output = VecOutput::new();
    let job = runtime.begin(word_count("a b a", 2, 1, &output));
    pass_cycles(&runtime, 6);
    assert_eq!(job.status().maps_done, 0);
    drought.change(|left| left.read_bytes_per_s = Some(1 << 20));
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

#[test]
fn without_throttles_tasks_are_ordinary_threads() {
    let options = RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(1)),
        throttles: Throttles {
            idle_class: false,
            cpu_pacing: false,
            yield_every: None,
        },
        ..options()
    };
    let runtime = TestRuntime::start_with_clock(options, Arc::<ManualClock>::default());
    assert_eq!(runtime.scheduling_class(), SchedulingClass::Normal);
    let output = VecOutput::new();
    let job = runtime.begin(spinning_job(1, &output));
    // A paced task would pause after its first step, because the clock stands still.
    wait::until("the job to use CPU", || job.status().cpu_s > 0.2);
    assert!(job.cancel());
}

#[test]
fn goals_use_the_clock_of_the_runtime() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_s(50.0);
    let runtime = TestRuntime::start_with_clock(options(), clock.clone());
    let output = VecOutput::new();
    let job = runtime.begin(word_count("a", 1, 1, &output).goal_s(10.0));
    assert_eq!(job.status().goal_s, Some(60.0));
    // Only time pays a task's debt, so the clock must advance.
    wait::until("the job to end", || {
        clock.advance_s(0.001);
        job.status().finished_s.is_some()
    });
    let report = job.wait();
    assert_eq!(report.submitted_s, 50.0);
    assert_eq!(report.met, Some(report.finished_s <= 60.0));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["outcome"]["kind"], "succeeded");
    assert!(
        serde_json::to_string(&runtime.status())
            .unwrap()
            .contains("\"state\":\"succeeded\"")
    );
}
