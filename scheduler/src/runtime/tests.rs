//! Claims about the runner as a whole.

use super::*;
use crate::policy::{Fifo, by_name};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

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

/// Lines of words, frequent and rare, some empty; about `bytes` long.
fn generated_text(seed: u64, bytes: usize) -> String {
    println!("seed {seed}");
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

fn options(spill_dir: &Path) -> RuntimeOptions {
    RuntimeOptions {
        spill_dir: spill_dir.to_path_buf(),
        ..RuntimeOptions::new(2)
    }
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

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// Polls until `done`, for at most ten seconds. A test's own waiting: there is
/// no event to wait for when watching progress.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn word_count_equals_an_independent_count_whatever_the_memory_and_the_combiner() {
    let text = generated_text(3, 400_000);
    let expected = count_independently(&text);
    for (task_memory_bytes, maps, reduces) in [(TASK_MEMORY_BYTES_MIN, 3, 2), (16 << 20, 7, 3)] {
        for combine in [false, true] {
            let spills = tempfile::tempdir().unwrap();
            let runtime = Runtime::start(RuntimeOptions {
                task_memory_bytes,
                ..options(spills.path())
            })
            .unwrap();
            let output = VecOutput::new();
            let mut spec = word_count(&text, maps, reduces, &output);
            if combine {
                spec = spec.combiner(Arc::new(Sum));
            }
            let report = runtime.submit(spec).unwrap().wait();
            assert_eq!(report.outcome, Outcome::Succeeded);
            assert_eq!(
                counts(&output),
                expected,
                "{task_memory_bytes} bytes, combiner {combine}"
            );
            assert_eq!(report.tasks, maps as u32 + reduces);
            let c = report.counters;
            assert_eq!(c.map_input_records, text.lines().count() as u64);
            assert_eq!(c.map_output_records, expected.values().sum::<u64>());
            assert_eq!(c.reduce_groups, expected.len() as u64);
            assert_eq!(c.output_records, expected.len() as u64);
            assert_eq!(c.tasks_done, u64::from(report.tasks));
            assert_eq!(report.bytes_in, c.map_input_bytes);
            assert_eq!(c.spills > 10, task_memory_bytes == TASK_MEMORY_BYTES_MIN);
            if !combine {
                assert_eq!(c.reduce_input_records, c.map_output_records);
            } else {
                assert!(c.reduce_input_records < c.map_output_records);
            }
            assert!(is_empty(spills.path()), "spill files are removed");
        }
    }
}

#[test]
fn every_policy_and_the_unmanaged_runtime_complete_several_jobs_at_once() {
    let text = generated_text(4, 60_000);
    let expected = count_independently(&text);
    let policies =
        ["fifo", "resource-aware", "reverse-adaptive"].map(|name| by_name(name).unwrap());
    let managed = policies.map(|policy| (policy, Management::Managed));
    let unmanaged: (Arc<dyn crate::policy::Policy>, _) = (Arc::new(Fifo), Management::Unmanaged);
    for (policy, management) in managed.into_iter().chain([unmanaged]) {
        let spills = tempfile::tempdir().unwrap();
        let runtime = Runtime::start(RuntimeOptions {
            policy,
            management,
            ..options(spills.path())
        })
        .unwrap();
        let outputs: Vec<VecOutput> = (0..4).map(|_| VecOutput::new()).collect();
        let jobs: Vec<JobHandle> = (outputs.iter().enumerate())
            .map(|(n, output)| {
                let spec = word_count(&text, 4, 2, output);
                runtime
                    .submit(if n % 2 == 0 { spec.goal_s(60.0) } else { spec })
                    .unwrap()
            })
            .collect();
        for (job, output) in jobs.iter().zip(&outputs) {
            assert_eq!(job.wait().outcome, Outcome::Succeeded);
            assert_eq!(counts(output), expected);
        }
        let status = runtime.status();
        assert_eq!(status.jobs.len(), 4);
        assert!(
            status
                .jobs
                .iter()
                .all(|job| job.state == JobState::Succeeded && job.maps_done == 4)
        );
    }
}

#[test]
fn a_job_of_maps_only_writes_the_maps_output() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let output = VecOutput::new();
    let input = Arc::new(VecInput::lines("b a\nc", 2));
    let spec = JobSpec::new(
        "split",
        input,
        Arc::new(WordCount),
        Arc::new(output.clone()),
    );
    assert_eq!(
        runtime.submit(spec).unwrap().wait().outcome,
        Outcome::Succeeded
    );
    let keys: Vec<_> = output
        .rows()
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, [b"b", b"a", b"c"]);
}

#[test]
fn an_empty_input_gives_an_empty_output() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    for reduces in [0, 2] {
        let output = VecOutput::new();
        let input = Arc::new(VecInput::lines("", 3));
        let mut spec = JobSpec::new(
            "nothing",
            input,
            Arc::new(WordCount),
            Arc::new(output.clone()),
        );
        if reduces > 0 {
            spec = spec.reducer(Arc::new(Sum), reduces);
        }
        assert_eq!(
            runtime.submit(spec).unwrap().wait().outcome,
            Outcome::Succeeded
        );
        assert_eq!(output.rows(), Some(Vec::new()));
    }
}

#[test]
fn a_panicking_mapper_fails_its_own_job_only_and_leaves_nothing() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let text = generated_text(5, 50_000);
    let (good, bad) = (VecOutput::new(), VecOutput::new());
    let panics = |_: &[u8], text: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
        assert!(!text.contains(&b'7'), "seven is too many");
        Ok(())
    };
    let input = Arc::new(VecInput::lines(&text, 6));
    let bad_spec = JobSpec::new("bad", input, Arc::new(panics), Arc::new(bad.clone()));
    let bad_job = runtime.submit(bad_spec.goal_s(30.0)).unwrap();
    let good_job = runtime.submit(word_count(&text, 4, 2, &good)).unwrap();

    let report = bad_job.wait();
    let Outcome::Failed { cause } = &report.outcome else {
        panic!("{report:?}")
    };
    assert!(
        cause.contains("seven is too many") && cause.contains("attempt 4"),
        "{cause}"
    );
    assert_eq!(report.met, Some(false));
    assert!(report.counters.attempts_failed >= u64::from(ATTEMPTS_MAX));
    assert_eq!((bad.rows(), bad.has_staged()), (None, false));
    assert_eq!(bad_job.status().state, JobState::Failed);

    assert_eq!(good_job.wait().outcome, Outcome::Succeeded);
    assert_eq!(counts(&good), count_independently(&text));
    assert!(is_empty(spills.path()));
}

#[test]
fn a_flaky_task_is_tried_again_and_its_failed_attempts_leave_no_trace() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let text = generated_text(6, 50_000);
    let failures_left = Arc::new(AtomicU32::new(3));
    let flaky = {
        let failures_left = Arc::clone(&failures_left);
        move |key: &[u8], text: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
            WordCount.map(key, text, emit)?;
            let taken = |n: u32| n.checked_sub(1);
            match failures_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken) {
                Ok(3) => panic!("once by panic"),
                Ok(_) => Err(TaskError::failed("flaky")),
                Err(_) => Ok(()),
            }
        }
    };
    let output = VecOutput::new();
    let mut spec = word_count(&text, 1, 2, &output);
    spec.mapper = Arc::new(flaky);
    let report = runtime.submit(spec).unwrap().wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(
        (
            report.counters.attempts_failed,
            report.counters.tasks_retried
        ),
        (3, 3)
    );
    assert_eq!(counts(&output), count_independently(&text));
}

#[test]
fn a_failing_reducer_leaves_no_file_and_a_succeeding_job_leaves_one() {
    let spills = tempfile::tempdir().unwrap();
    let results = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let target = results.path().join("counts.tsv");
    let text_job = |reducer: Arc<dyn Reducer>| {
        let output = Arc::new(TextOutput::new(&target));
        let input = Arc::new(VecInput::lines("b a b\na b", 2));
        JobSpec::new("text", input, Arc::new(WordCount), output).reducer(reducer, 1)
    };
    let fails_at_b =
        |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
            if key == b"b" {
                Err(TaskError::failed("no b"))
            } else {
                Sum.reduce(key, values, emit)
            }
        };
    let report = runtime
        .submit(text_job(Arc::new(fails_at_b)))
        .unwrap()
        .wait();
    assert!(matches!(report.outcome, Outcome::Failed { .. }));
    assert!(
        is_empty(results.path()),
        "neither the target nor a temporary file"
    );

    let report = runtime.submit(text_job(Arc::new(Sum))).unwrap().wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "a\t2\nb\t3\n");

    let refused = runtime.submit(text_job(Arc::new(Sum)));
    assert!(matches!(refused, Err(SubmitError::Output(_))));
}

/// Computes until it is cancelled.
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

#[test]
fn a_cancelled_job_stops_and_shutdown_cancels_the_rest() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let output = VecOutput::new();
    let job = runtime.submit(spinning_job(2, &output)).unwrap();
    eventually("it starts", || job.status().state == JobState::Running);
    assert_eq!(job.wait_timeout(Duration::from_millis(1)), None);
    assert!(runtime.cancel(job.id()));
    let report = job.wait();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(job.wait_timeout(Duration::ZERO), Some(report.clone()));
    assert!(!job.cancel(), "it has ended");
    assert_eq!(report.counters.tasks_done, 0);
    assert_eq!((output.rows(), output.has_staged()), (None, false));

    let rest = runtime.submit(spinning_job(3, &output)).unwrap();
    runtime.shutdown();
    assert_eq!(rest.wait().outcome, Outcome::Cancelled);
    assert!(matches!(
        runtime.submit(spinning_job(1, &output)),
        Err(SubmitError::ShuttingDown)
    ));
    assert!(is_empty(spills.path()));
}

#[test]
fn a_paced_job_uses_no_more_than_its_share() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(30)),
        ..options(spills.path())
    })
    .unwrap();
    let output = VecOutput::new();
    let job = runtime.submit(spinning_job(2, &output)).unwrap();
    let submitted_s = job.status().submitted_s;
    eventually("a second passes", || runtime.now_s() - submitted_s > 1.0);
    // CPU first: a slow machine only adds time.
    let cpu_s = job.status().cpu_s;
    let elapsed_s = runtime.now_s() - submitted_s;
    assert!(job.cancel());
    let _ = job.wait();
    println!(
        "{cpu_s:.3} s of CPU in {elapsed_s:.3} s, class {:?}",
        runtime.scheduling_class()
    );
    assert!(
        cpu_s <= 0.30 * elapsed_s + 0.10,
        "{cpu_s} s of CPU in {elapsed_s} s at 30 hundredths"
    );
    let history = runtime.history();
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
    assert!(sampled_s <= cpu_s + 0.10);
}

#[test]
fn an_urgent_job_takes_the_share_of_one_that_can_wait() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(100)),
        ..options(spills.path())
    })
    .unwrap();
    let output = VecOutput::new();
    let patient = runtime
        .submit(spinning_job(2, &output).goal_s(1e6))
        .unwrap();
    eventually("it has it all", || patient.status().tasks_running == 2);
    assert_eq!(patient.status().share_hundredths, 100);
    // A goal inside the coming cycle, and soon past: nothing of it can wait.
    let urgent = runtime
        .submit(spinning_job(1, &output).goal_s(0.2))
        .unwrap();
    eventually("the urgent job runs", || urgent.status().tasks_running == 1);
    assert_eq!(urgent.status().share_hundredths, 100);
    assert_eq!(patient.status().share_hundredths, 0);
    assert_eq!(patient.status().tasks_running, 2, "paused, not killed");
    assert!(urgent.cancel());
    eventually("the share comes back", || {
        patient.status().share_hundredths == 100
    });
}

#[test]
fn runtime_and_handles_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Runtime>();
    shareable::<JobHandle>();
}

/// Nothing at first, then all.
struct Ebb(AtomicU32);

impl CapacitySource for Ebb {
    fn capacity_hundredths(&self, _now_s: f64) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    fn forecast(&self) -> Arc<crate::availability::Availability> {
        Arc::new(crate::availability::Availability::constant(100.0).unwrap())
    }
}

#[test]
fn without_capacity_a_job_rests_and_with_it_goes_on() {
    let spills = tempfile::tempdir().unwrap();
    let ebb = Arc::new(Ebb(AtomicU32::new(0)));
    let runtime = Runtime::start(RuntimeOptions {
        capacity: ebb.clone(),
        cycle_s: 0.01,
        ..options(spills.path())
    })
    .unwrap();
    let output = VecOutput::new();
    let job = runtime
        .submit(word_count("a b a", 1, 1, &output).goal_s(100.0))
        .unwrap();
    eventually("some cycles pass", || runtime.history().len() > 5);
    assert_eq!(job.status().state, JobState::Waiting);
    ebb.0.store(200, Ordering::SeqCst);
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
}

#[test]
fn goals_follow_the_clock_that_was_given() {
    let spills = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    clock.advance_s(50.0);
    let runtime = Runtime::start_with_clock(options(spills.path()), clock.clone()).unwrap();
    let output = VecOutput::new();
    let job = runtime
        .submit(word_count("a", 1, 1, &output).goal_s(10.0))
        .unwrap();
    assert_eq!(job.status().goal_s, Some(60.0));
    // A task's debt is paid by time, which has to pass.
    eventually("it ends", || {
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

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let output = VecOutput::new();
    let spec = || word_count("a", 1, 1, &output);
    let refusal = |spec| runtime.submit(spec).err().expect("refused");
    for goal_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            refusal(spec().goal_s(goal_s)),
            SubmitError::Goal(_)
        ));
    }
    assert!(matches!(
        refusal(spec().reducer(Arc::new(Sum), 0)),
        SubmitError::NoReduces
    ));
    let mut headless = spec();
    headless.reducer = None;
    assert!(matches!(refusal(headless), SubmitError::NoReducer));
    let profile = JobProfile {
        map_task_cpu_s: 0.0,
        ..JobProfile::default()
    };
    assert!(matches!(
        refusal(spec().profile(profile)),
        SubmitError::Profile(_)
    ));
    assert!(is_empty(spills.path()));
    let no_cores = RuntimeOptions::new(0);
    assert!(matches!(
        Runtime::start(no_cores),
        Err(RuntimeError::Option {
            option: "cores",
            ..
        })
    ));
}

#[test]
fn a_combiner_or_partitioner_that_breaks_its_contract_fails_the_job() {
    struct Astray;
    impl Partitioner for Astray {
        fn partition(&self, _key: &[u8], partitions: u32) -> u32 {
            partitions
        }
    }
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let renames = |_: &[u8], _: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
        emit.emit(b"x", b"1")
    };
    let output = VecOutput::new();
    let with_combiner = word_count("a b", 1, 1, &output).combiner(Arc::new(renames));
    let mut with_partitioner = word_count("a b", 1, 1, &output);
    with_partitioner.partitioner = Arc::new(Astray);
    for (spec, part) in [
        (with_combiner, "combiner"),
        (with_partitioner, "partitioner"),
    ] {
        let Outcome::Failed { cause } = runtime.submit(spec).unwrap().wait().outcome else {
            panic!()
        };
        assert!(cause.contains(part), "{cause}");
    }
}

/// Remembers the thread that committed it and what class that ran in.
#[derive(Default)]
struct CommitWitness {
    rows: VecOutput,
    thread: std::sync::Mutex<Option<(String, bool)>>,
}

impl Output for CommitWitness {
    fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        self.rows.open(partition, attempt)
    }

    fn commit(&self) -> Result<(), TaskError> {
        let name = std::thread::current().name().map(str::to_owned);
        let idle = super::class::current_class() == SchedulingClass::Idle;
        *self.thread.lock().unwrap() = Some((name.unwrap_or_default(), idle));
        self.rows.commit()
    }

    fn abort(&self) {
        self.rows.abort();
    }
}

/// A commit to a table takes a place in the store's commit queue. Under the idle
/// class it kept that place while it waited for a core, and every transaction
/// behind it waited too.
#[test]
fn a_commit_runs_at_ordinary_priority() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(options(spills.path())).unwrap();
    let output = Arc::new(CommitWitness::default());
    let mut spec = word_count("a b a", 1, 1, &VecOutput::new());
    spec.output = output.clone();
    assert_eq!(
        runtime.submit(spec).unwrap().wait().outcome,
        Outcome::Succeeded
    );
    let witness = output.thread.lock().unwrap().clone();
    assert_eq!(witness, Some(("ebb-commit".to_owned(), false)));
}
