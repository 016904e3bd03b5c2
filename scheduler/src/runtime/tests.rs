//! Tests of the runtime as a whole.

mod chains;
mod failures;
mod floor;
mod global_sort;
mod hanging;
mod journal;
mod leases;
mod management;
mod manual_clock;
mod many_jobs;
mod memory;
mod processes;
mod results;

use super::clock::{Clock, MonotonicClock};
use super::pacing::attempt::Attempt;
use super::pacing::attempt_state::AttemptState;
use super::pacing::pacer::{Pacer, SETTLE_EVERY};
use super::pacing::reads::ReadBudget;
use super::*;
use ebb_test_support::wait;
use ebb_threads::thread_cpu;
pub(super) use manual_clock::ManualClock;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

struct WordCount;

impl Mapper for WordCount {
    fn map(&self, _key: &[u8], text: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        for word in text
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty())
        {
            emit.emit(word, b"1")?;
        }
        Ok(())
    }
}

struct Sum;

impl Reducer for Sum {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let mut sum = 0_u64;
        while let Some(value) = values.next_value()? {
            let text = std::str::from_utf8(value).map_err(TaskError::failed)?;
            sum += text.parse::<u64>().map_err(TaskError::failed)?;
        }
        emit.emit(key, sum.to_string().as_bytes())
    }
}

/// A mapper that swaps key and value of each record.
fn swap(key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    emit.emit(value, key)
}

/// A reducer that writes each value of a key as a row.
fn each(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    while let Some(value) = values.next_value()? {
        emit.emit(key, value)?;
    }
    Ok(())
}

/// Returns lines of frequent and rare words, some lines empty; about `bytes` bytes in all.
fn generated_text(seed: u64, bytes: usize) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut text = String::new();
    while text.len() < bytes {
        for _ in 0..rng.random_range(0..12) {
            let rare = rng.random_bool(0.3);
            let word: u32 = rng.random_range(0..if rare { 20_000 } else { 40 });
            text += &format!("w{word} ");
        }
        text.push('\n');
    }
    text
}

fn count_independently(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_owned()).or_insert(0) += 1;
    }
    counts
}

fn counts(output: &VecOutput) -> BTreeMap<String, u64> {
    let rows = output.rows().expect("the job committed");
    let n = rows.len();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let counts: BTreeMap<_, _> = rows
        .into_iter()
        .map(|(k, v)| (text(k), text(v).parse().unwrap()))
        .collect();
    assert_eq!(counts.len(), n, "every key is reduced once");
    counts
}

/// A capacity source that returns the capacity that the test sets, and keeps the latest request.
struct TestCapacity {
    capacity: Mutex<Capacity>,
    request: Mutex<Option<CapacityRequest>>,
}

impl TestCapacity {
    fn new(capacity: Capacity) -> Arc<Self> {
        let (capacity, request) = (Mutex::new(capacity), Mutex::default());
        Arc::new(Self { capacity, request })
    }

    fn change(&self, change: impl FnOnce(&mut Capacity)) {
        change(&mut self.capacity.lock().unwrap());
    }

    /// Returns the latest request; `None` before the first one.
    fn request(&self) -> Option<CapacityRequest> {
        *self.request.lock().unwrap()
    }

    fn held_bytes(&self) -> u64 {
        self.request().map_or(0, |request| request.held_bytes)
    }
}

impl CapacitySource for TestCapacity {
    fn capacity(&self, request: CapacityRequest) -> Capacity {
        *self.request.lock().unwrap() = Some(request);
        self.capacity.lock().unwrap().clone()
    }
}

/// Returns options for two cores, without the idle class and without speculation. Threads of the
/// idle class hardly advance beside a build, and the runtime then starts second attempts at their
/// slow tasks. Tests of either feature turn it on.
fn options() -> RuntimeOptions {
    RuntimeOptions {
        throttles: Throttles {
            idle_class: false,
            ..Throttles::default()
        },
        speculation: false,
        ..RuntimeOptions::new(2)
    }
}

/// Returns `options` with this capacity and short control cycles.
fn with_capacity(capacity: &Arc<TestCapacity>, options: RuntimeOptions) -> RuntimeOptions {
    RuntimeOptions {
        capacity: capacity.clone(),
        cycle_s: 0.01,
        ..options
    }
}

/// A runtime with a directory of its own for spill files.
struct TestRuntime {
    runtime: Runtime,
    // Declared after the runtime, so that it is removed when no task uses it any more.
    spills: TempDir,
}

impl TestRuntime {
    fn start(options: RuntimeOptions) -> Self {
        Self::start_with_clock(options, Arc::new(MonotonicClock::default()))
    }

    /// Starts a runtime with these options, except for their spill directory.
    fn start_with_clock(options: RuntimeOptions, clock: Arc<dyn Clock>) -> Self {
        let spills = tempfile::tempdir().unwrap();
        let options = RuntimeOptions {
            spill_dir: spills.path().to_path_buf(),
            ..options
        };
        let runtime = Runtime::start_with_clock(options, clock).unwrap();
        Self { runtime, spills }
    }

    /// Submits a job, which must be accepted.
    #[track_caller]
    fn begin(&self, spec: JobSpec) -> JobHandle {
        self.submit(spec).unwrap()
    }

    /// Runs a job, which must succeed.
    #[track_caller]
    fn succeed(&self, spec: JobSpec) -> JobReport {
        let report = self.begin(spec).wait();
        assert_eq!(report.outcome, Outcome::Succeeded);
        report
    }

    fn has_no_spills(&self) -> bool {
        std::fs::read_dir(&self.spills).unwrap().next().is_none()
    }
}

impl Deref for TestRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// Returns the cause of a failure.
fn cause(report: &JobReport) -> &str {
    match &report.outcome {
        Outcome::Failed { cause } => cause,
        other => panic!("{other:?}"),
    }
}

/// Checks that a job has failed, and that its cause contains all `parts`.
#[track_caller]
fn assert_cause(report: &JobReport, parts: &[&str]) {
    let cause = cause(report);
    let missing = parts.iter().find(|part| !cause.contains(**part));
    assert_eq!(missing, None, "{cause}");
}

fn word_count(text: &str, maps: usize, reduces: u32, output: &VecOutput) -> JobSpec {
    let input = Arc::new(VecInput::lines(text, maps));
    JobSpec::new(
        "word count",
        input,
        Arc::new(WordCount),
        Arc::new(output.clone()),
    )
    .reducer(Arc::new(Sum), reduces)
}

fn one_map(mapper: impl Mapper + 'static, output: impl Output + 'static) -> JobSpec {
    let input = Arc::new(VecInput::lines("a", 1));
    JobSpec::new("one map", input, Arc::new(mapper), Arc::new(output))
}

/// A mapper that computes until it is cancelled.
fn spin(_: &[u8], _: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    loop {
        for n in 0..1000_u64 {
            std::hint::black_box(n.wrapping_mul(n));
        }
        emit.checkpoint()?;
    }
}

fn spinning_job(tasks: usize, output: &VecOutput) -> JobSpec {
    let records = (0..tasks).map(|n| (vec![n as u8], Vec::new())).collect();
    let input = Arc::new(VecInput::new(records, tasks));
    JobSpec::new("spin", input, Arc::new(spin), Arc::new(output.clone()))
}

/// Runs `body` in an attempt that never waits for CPU.
pub(super) fn with_attempt<T>(body: impl FnOnce(&Attempt<'_>) -> T) -> T {
    let reads = Arc::<ReadBudget>::default();
    let clock = Arc::new(ManualClock::default());
    let pacer = Pacer::new(clock, false, None, reads, Arc::default());
    let attempt_state = AttemptState::default();
    body(&Attempt::start(&pacer, &attempt_state, &|| true).expect("nothing is cancelled"))
}

/// Waits until `tasks` tasks of the job run.
#[track_caller]
fn until_running(job: &JobHandle, tasks: u32) {
    let is_reached = || job.status().tasks_running == tasks;
    wait::until("the tasks of the job to run", is_reached);
}

/// Waits until the job has a share of this many hundredths of a core.
#[track_caller]
fn until_share(job: &JobHandle, hundredths: u32) {
    let is_reached = || job.status().share_hundredths == hundredths;
    wait::until("the job to have its share", is_reached);
}

/// Waits until the runtime has completed `cycles` more control cycles.
fn pass_cycles(runtime: &Runtime, cycles: usize) {
    let before = runtime.cycles().len();
    wait::until("more control cycles", || {
        runtime.cycles().len() >= before + cycles
    });
}

/// The most CPU time that a thread used between two checkpoints, in nanoseconds.
#[derive(Default)]
struct LongestStep(AtomicU64);

impl LongestStep {
    /// Computes until `checkpoint` returns an error, and returns that error.
    fn spin(&self, mut checkpoint: impl FnMut() -> Result<(), TaskError>) -> TaskError {
        // The first step includes all earlier CPU time of the thread.
        let mut before = Duration::ZERO;
        loop {
            for n in 0..1000_u64 {
                std::hint::black_box(n.wrapping_mul(n));
            }
            let checked = checkpoint();
            let now = thread_cpu();
            let step_ns = now.saturating_sub(before).as_nanos() as u64;
            self.0.fetch_max(step_ns, Ordering::SeqCst);
            before = now;
            if let Err(error) = checked {
                return error;
            }
        }
    }

    /// Returns the most CPU time, in seconds, that one settlement can charge a job for a thread:
    /// all that the thread used since its last settlement. A settlement is due [`SETTLE_EVERY`]
    /// after the last one, but only happens at a checkpoint. A step is the longest CPU time between
    /// two checkpoints. The charge is at most [`SETTLE_EVERY`] plus three steps: the step in which
    /// the thread waited after the last settlement, and two until the checkpoint at which the next
    /// settlement happens.
    fn charge_s_max(&self) -> f64 {
        let step_s = self.0.load(Ordering::SeqCst) as f64 / 1e9;
        SETTLE_EVERY.as_secs_f64() + 3.0 * step_s
    }
}

/// Advances the clock by one second, in steps of 10 ms, beside a job or lease that computes with a
/// share of 30 hundredths of a core. After each step, waits until the job or lease has used up its
/// share so far. `used_s` returns the CPU time of the job or lease. Returns this CPU time after the
/// clock has stood still for some control cycles.
fn pass_a_second(runtime: &Runtime, clock: &ManualClock, used_s: impl Fn() -> f64) -> f64 {
    for _ in 0..100 {
        clock.advance_s(0.01);
        // Each charge is rounded down to nanoseconds.
        wait::until("the share to be used", || {
            used_s() >= 0.30 * clock.now_s() - 1e-4
        });
    }
    pass_cycles(runtime, 20);
    used_s()
}

#[test]
fn runtime_and_handles_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Runtime>();
    shareable::<JobHandle>();
}
