//! The memory of all tasks of a runtime.

use super::*;
use crate::model::JobId;
use crate::policy::{ClusterView, Decision, Fair, Fifo, Policy};
use ebb_test_support::seed::for_seeds;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const TASK_MEMORY_BYTES: usize = 1 << 20;

/// Returns options of a runtime with memory for `tasks` tasks at a time.
fn memory_for(tasks: u32) -> RuntimeOptions {
    RuntimeOptions {
        task_memory_bytes: TASK_MEMORY_BYTES,
        memory_bytes: Some(u64::from(tasks) * TASK_MEMORY_BYTES as u64),
        ..options()
    }
}

#[test]
fn all_tasks_of_all_jobs_together_stay_within_the_memory() {
    let test = "all_tasks_of_all_jobs_together_stay_within_the_memory";
    for_seeds(test, 1, |seed| {
        for management in [Management::Managed, Management::Unmanaged] {
            let runtime = TestRuntime::start(RuntimeOptions {
                cores: 8,
                management,
                capacity: Arc::new(FixedCapacity::new(800)),
                ..memory_for(2)
            });
            let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let mapper = {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                move |key: &[u8], text: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    let mapped = WordCount.map(key, text, emit);
                    running.fetch_sub(1, Ordering::SeqCst);
                    mapped
                }
            };
            let mapper: Arc<dyn Mapper> = Arc::new(mapper);
            let text = generated_text(seed, 200_000);
            let jobs: Vec<(JobHandle, VecOutput)> = (0..3)
                .map(|_| {
                    let output = VecOutput::new();
                    let mut spec = word_count(&text, 6, 2, &output);
                    spec.mapper = Arc::clone(&mapper);
                    (runtime.begin(spec), output)
                })
                .collect();
            let expected = count_independently(&text);
            for (job, output) in jobs {
                assert_eq!(job.wait().outcome, Outcome::Succeeded);
                assert_eq!(counts(&output), expected);
            }
            assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
            assert_eq!(runtime.status().memory_bytes, 0);
            wait::until("the last control cycle to end", || {
                let history = runtime.cycles();
                history.last().is_some_and(|cycle| cycle.jobs.is_empty())
            });
            let history = runtime.cycles();
            let most_bytes = history.iter().map(|cycle| cycle.memory_bytes).max();
            let task_bytes = TASK_MEMORY_BYTES as u64;
            assert!((task_bytes..=2 * task_bytes).contains(&most_bytes.unwrap()));
        }
    });
}

/// Returns a capacity source of two cores and `memory_bytes` of memory for tasks.
pub(super) fn with_memory(memory_bytes: u64) -> Arc<TestCapacity> {
    TestCapacity::new(Capacity {
        memory_bytes: Some(memory_bytes),
        ..Capacity::cpu(200)
    })
}

#[test]
fn without_memory_a_job_pauses_and_with_it_continues() {
    let memory = with_memory(0);
    let runtime = TestRuntime::start(with_capacity(&memory, memory_for(1)));
    let output = VecOutput::new();
    let job = runtime.begin(word_count("a b a", 2, 1, &output));
    memory.change(|left| left.memory_bytes = Some(TASK_MEMORY_BYTES as u64 - 1));
    pass_cycles(&runtime, 6);
    assert!(job.status().share_hundredths > 0);
    assert_eq!(job.status().tasks_running, 0);
    memory.change(|left| left.memory_bytes = Some(1 << 40));
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    assert_eq!(counts(&output), count_independently("a b a"));
}

#[test]
fn the_capacity_source_gets_the_memory_that_tasks_hold() {
    let memory = with_memory(1 << 40);
    let runtime = TestRuntime::start(with_capacity(&memory, memory_for(1)));
    let (gate, output) = (Gate::default(), VecOutput::new());
    let mut spec = gate.word_count("a", &output);
    let waiting = Arc::clone(&spec.mapper);
    spec.mapper = Arc::new(move |key: &[u8], text: &[u8], emit: &mut dyn Emit| {
        emit.emit(&vec![b'x'; 50_000], b"1")?;
        waiting.map(key, text, emit)
    });
    let job = runtime.begin(spec);
    wait::until("a record to be held", || memory.held_bytes() >= 50_000);
    assert!(memory.held_bytes() <= TASK_MEMORY_BYTES as u64);
    gate.open();
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    wait::until("nothing to be held", || memory.held_bytes() == 0);
}

/// A gate for tasks, which reach checkpoints while they wait for it to open.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn pass(&self, emit: &mut dyn Emit) -> Result<(), TaskError> {
        while !self.0.load(Ordering::SeqCst) {
            emit.checkpoint()?;
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns a job that counts the words of `text`, one line per map. Its maps wait until the
    /// test opens the gate.
    fn word_count(&self, text: &str, output: &VecOutput) -> JobSpec {
        let gate = self.clone();
        let mapper = move |key: &[u8], text: &[u8], emit: &mut dyn Emit| {
            gate.pass(emit)?;
            WordCount.map(key, text, emit)
        };
        let mut spec = word_count(text, text.lines().count(), 1, output);
        spec.mapper = Arc::new(mapper);
        spec
    }
}

#[test]
fn with_memory_for_one_task_jobs_that_have_a_share_take_turns() {
    let options = RuntimeOptions {
        policy: Arc::new(Fair),
        ..memory_for(1)
    };
    let runtime = TestRuntime::start(options);
    let (gate, output) = (Gate::default(), VecOutput::new());
    let submit = || {
        let spec = gate.word_count("a\nb\nc\nd\ne\nf", &output);
        runtime.begin(spec)
    };
    let first = submit();
    until_running(&first, 1);
    let second = submit();
    wait::until("both jobs to have a share", || {
        [&first, &second].map(|job| job.status().share_hundredths > 0) == [true; 2]
    });
    assert_eq!(second.status().tasks_running, 0);
    gate.open();
    let ended = [first, second].map(|job| {
        assert_eq!(job.wait().outcome, Outcome::Succeeded);
        let attempts = job.attempts().into_iter();
        attempts.map(|attempt| attempt.ended_s).collect::<Vec<_>>()
    });
    assert!(
        ended[1][0] < ended[0][5],
        "not one after the other: {ended:?}"
    );
}

/// A policy that gives all slots to the one job that the test chooses.
#[derive(Default)]
struct ChosenJob(AtomicU64);

impl ChosenJob {
    fn choose(&self, job: &JobHandle) {
        self.0.store(job.id().0, Ordering::SeqCst);
    }
}

impl Policy for ChosenJob {
    fn name(&self) -> &'static str {
        "chosen"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let chosen = JobId(self.0.load(Ordering::SeqCst));
        let mut only = view.clone();
        only.jobs.retain(|job| job.job.id == chosen);
        Fifo.decide(&only)
    }
}

/// A runtime on the test's clock, with one core for analytics and little memory.
struct ScarceMemory {
    clock: Arc<ManualClock>,
    chosen: Arc<ChosenJob>,
    runtime: TestRuntime,
}

impl ScarceMemory {
    /// Returns a runtime with memory for `tasks` tasks.
    fn new(tasks: u32) -> Self {
        let (clock, chosen) = (Arc::<ManualClock>::default(), Arc::<ChosenJob>::default());
        let options = RuntimeOptions {
            policy: chosen.clone(),
            capacity: Arc::new(FixedCapacity::new(100)),
            cycle_s: 0.01,
            stall_s: 1e9,
            ..memory_for(tasks)
        };
        let runtime = TestRuntime::start_with_clock(options, clock.clone());
        Self {
            clock,
            chosen,
            runtime,
        }
    }

    /// Submits a job, makes the policy choose it, and waits until `tasks` of its tasks run and hold
    /// the memory.
    fn hold(&self, spec: JobSpec, tasks: u32) -> JobHandle {
        let job = self.runtime.begin(spec);
        self.chosen.choose(&job);
        until_running(&job, tasks);
        job
    }

    /// Advances the clock until `done` returns true.
    #[track_caller]
    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        wait::until(what, || {
            self.clock.advance_s(0.005);
            done()
        });
    }

    /// Advances the clock until one task of the job runs.
    #[track_caller]
    fn until_running(&self, job: &JobHandle) {
        let runs = || job.status().tasks_running == 1;
        self.until("the job to take the memory", runs);
    }

    /// Lets the policy choose a word count until it ends, checks that it has counted the words of
    /// `text`, and returns its report.
    #[track_caller]
    fn finish(&self, job: &JobHandle, output: &VecOutput, text: &str) -> JobReport {
        self.chosen.choose(job);
        self.until("the job to end", || job.status().finished_s.is_some());
        let report = job.wait();
        assert_eq!(report.outcome, Outcome::Succeeded);
        assert_eq!(counts(output), count_independently(text));
        report
    }
}

/// Returns the number of the job's preempted attempts.
fn preempted(job: &JobHandle) -> usize {
    let attempts = job.attempts().into_iter();
    attempts
        .filter(|attempt| attempt.outcome == AttemptOutcome::Preempted)
        .count()
}

#[test]
fn an_urgent_job_takes_the_memory_of_a_paused_one_and_both_succeed() {
    let scarce = ScarceMemory::new(1);
    let (gate, outputs) = (Gate::default(), [VecOutput::new(), VecOutput::new()]);
    let patient = scarce.hold(gate.word_count("a b a\nb\nc", &outputs[0]), 1);
    let urgent = gate.word_count("d\nd e", &outputs[1]).goal_s(60.0);
    let urgent = scarce.runtime.begin(urgent);
    scarce.chosen.choose(&urgent);
    wait::until("the other job to rest", || {
        patient.status().share_hundredths == 0 && urgent.status().share_hundredths == 100
    });
    assert_eq!(
        urgent.status().tasks_running,
        0,
        "not for a whole cycle yet"
    );
    scarce.until_running(&urgent);
    assert_eq!(preempted(&patient), 1);
    assert_eq!(patient.status().tasks_running, 0);
    gate.open();
    scarce.finish(&urgent, &outputs[1], "d d e");
    let counters = scarce.finish(&patient, &outputs[0], "a b a b c").counters;
    assert_eq!((counters.attempts_failed, counters.tasks_done), (0, 4));
    assert_eq!((preempted(&patient), preempted(&urgent)), (1, 0));
    let history = scarce.runtime.cycles();
    let most_bytes = history.iter().map(|cycle| cycle.memory_bytes).max();
    assert_eq!(most_bytes, Some(TASK_MEMORY_BYTES as u64));
    scarce.runtime.shutdown();
    assert!(scarce.runtime.has_no_spills());
}

/// Regression: a map that waited for another map's sample of the keys, for a global sort, came to
/// no checkpoint until that map had ended, and so kept its memory for as long as its job paused.
#[test]
fn a_map_that_waits_for_a_sample_gives_up_its_memory() {
    let scarce = ScarceMemory::new(2);
    let (gate, outputs) = (Gate::default(), [VecOutput::new(), VecOutput::new()]);
    let mut sort = gate.word_count("a\nb", &outputs[0]);
    sort.reduces = 2;
    let patient = scarce.hold(sort.globally_sorted(), 2);
    let urgent = gate.word_count("d", &outputs[1]);
    let urgent = scarce.runtime.begin(urgent);
    scarce.chosen.choose(&urgent);
    scarce.until_running(&urgent);
    assert_eq!(
        (patient.status().tasks_running, preempted(&patient)),
        (1, 1)
    );
    gate.open();
    scarce.finish(&urgent, &outputs[1], "d");
    scarce.finish(&patient, &outputs[0], "a b");
}

/// If there is memory, a job runs one task more than are needed to use up its share of CPU, but no
/// attempt of another job is preempted for that task.
#[test]
fn a_job_takes_memory_for_no_more_tasks_than_its_share_fills() {
    let scarce = ScarceMemory::new(2);
    let (gate, outputs) = (Gate::default(), [VecOutput::new(), VecOutput::new()]);
    let patient = scarce.hold(gate.word_count("a\nb", &outputs[0]), 2);
    let urgent = gate.word_count("d\ne", &outputs[1]);
    let urgent = scarce.runtime.begin(urgent);
    scarce.chosen.choose(&urgent);
    scarce.until_running(&urgent);
    let cycles = scarce.runtime.cycles().len();
    scarce.until("more control cycles", || {
        scarce.runtime.cycles().len() > cycles + 5
    });
    let running = [&patient, &urgent].map(|job| job.status().tasks_running);
    assert_eq!((running, preempted(&patient)), ([1, 1], 1));
    gate.open();
    scarce.finish(&urgent, &outputs[1], "d e");
    scarce.finish(&patient, &outputs[0], "a b");
}

/// The policy gives all CPU to one of two jobs and then to the other, again and again. There is
/// memory for one task, so each job's attempt is stopped again and again, but the job does not
/// fail.
#[test]
fn a_job_that_is_preempted_again_and_again_does_not_fail() {
    let scarce = ScarceMemory::new(1);
    let (gate, outputs) = (Gate::default(), [VecOutput::new(), VecOutput::new()]);
    let first = scarce.hold(gate.word_count("a", &outputs[0]), 1);
    let second = scarce.runtime.begin(gate.word_count("b b", &outputs[1]));
    let rounds = ATTEMPTS_MAX as usize + 1;
    for _ in 0..rounds {
        for job in [&second, &first] {
            scarce.chosen.choose(job);
            scarce.until_running(job);
        }
    }
    gate.open();
    for (job, output, text) in [(&first, &outputs[0], "a"), (&second, &outputs[1], "b b")] {
        scarce.finish(job, output, text);
        assert_eq!(preempted(job), rounds);
    }
}

#[test]
fn memory_that_the_load_needs_is_freed_and_all_attempts_restart_when_it_returns() {
    let task_bytes = TASK_MEMORY_BYTES as u64;
    let clock = Arc::<ManualClock>::default();
    let memory = with_memory(2 * task_bytes);
    let options = RuntimeOptions {
        stall_s: 1e9,
        policy: Arc::new(Fair),
        ..with_capacity(&memory, memory_for(2))
    };
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let (gate, outputs) = (Gate::default(), [VecOutput::new(), VecOutput::new()]);
    let running = |job: &JobHandle| job.status().tasks_running;
    let soon = runtime.begin(gate.word_count("a", &outputs[0]).goal_s(10.0));
    let late = runtime.begin(gate.word_count("b b", &outputs[1]).goal_s(99.0));
    wait::until("both jobs to run", || running(&soon) + running(&late) == 2);

    memory.change(|left| left.memory_bytes = Some(task_bytes));
    // The clock stands still, so these cycles take no time.
    pass_cycles(&runtime, 6);
    assert_eq!(
        running(&soon) + running(&late),
        2,
        "not for a whole cycle yet"
    );
    let until = |what: &str, done: &dyn Fn() -> bool| {
        wait::until(what, || {
            clock.advance_s(0.005);
            done()
        });
    };
    until("the job with the later goal to give way", &|| {
        running(&late) == 0
    });
    assert_eq!((running(&soon), preempted(&soon)), (1, 0));
    memory.change(|left| left.memory_bytes = Some(0));
    until("nothing to be held", &|| runtime.status().memory_bytes == 0);
    assert_eq!((preempted(&soon), preempted(&late)), (1, 1));

    memory.change(|left| left.memory_bytes = Some(1 << 40));
    gate.open();
    for (job, output, word) in [(soon, &outputs[0], "a"), (late, &outputs[1], "b b")] {
        until("the job to end", &|| job.status().finished_s.is_some());
        let report = job.wait();
        assert_eq!(report.outcome, Outcome::Succeeded);
        assert_eq!(report.counters.attempts_failed, 0);
        assert_eq!(counts(output), count_independently(word));
    }
}
