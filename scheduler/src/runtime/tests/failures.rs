//! Jobs that fail, and the jobs beside them.

use super::*;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_panicking_mapper_fails_its_own_job_only_and_leaves_nothing() {
    let runtime = TestRuntime::start(options());
    let text = generated_text(5, 50_000);
    let (good, bad) = (VecOutput::new(), VecOutput::new());
    let panics = |_: &[u8], text: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
        assert!(!text.contains(&b'7'), "seven is too many");
        Ok(())
    };
    let input = Arc::new(VecInput::lines(&text, 6));
    let bad_spec = JobSpec::new("bad", input, Arc::new(panics), Arc::new(bad.clone()));
    let bad_job = runtime.begin(bad_spec.goal_s(30.0));
    let good_job = runtime.begin(word_count(&text, 4, 2, &good));

    let report = bad_job.wait();
    assert_cause(&report, &["seven is too many", "attempt 4"]);
    assert_eq!(report.met, Some(false));
    assert!(report.counters.attempts_failed >= u64::from(ATTEMPTS_MAX));
    assert_eq!((bad.rows(), bad.has_staged()), (None, false));
    assert_eq!(bad_job.status().state, JobState::Failed);

    assert_eq!(good_job.wait().outcome, Outcome::Succeeded);
    assert_eq!(counts(&good), count_independently(&text));
    assert!(runtime.has_no_spills());
}

#[test]
fn a_flaky_task_is_tried_again_and_its_failed_attempts_leave_no_trace() {
    let runtime = TestRuntime::start(options());
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
    let report = runtime.succeed(spec);
    let counters = report.counters;
    assert_eq!((counters.attempts_failed, counters.tasks_retried), (3, 3));
    assert_eq!(counts(&output), count_independently(&text));
}

#[test]
fn a_failing_reducer_leaves_no_rows_and_a_succeeding_job_leaves_all() {
    let runtime = TestRuntime::start(options());
    let output = VecOutput::new();
    let job = |reducer: Arc<dyn Reducer>| JobSpec {
        reducer: Some(reducer),
        ..word_count("b a b\na b", 2, 1, &output)
    };
    let fails_at_b =
        |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
            if key == b"b" {
                Err(TaskError::failed("no b"))
            } else {
                Sum.reduce(key, values, emit)
            }
        };
    let report = runtime.begin(job(Arc::new(fails_at_b))).wait();
    assert!(matches!(report.outcome, Outcome::Failed { .. }));
    assert_eq!((output.rows(), output.has_staged()), (None, false));

    runtime.succeed(job(Arc::new(Sum)));
    assert_eq!(counts(&output), count_independently("b a b\na b"));
}

#[test]
fn an_output_that_refuses_early_refuses_the_job() {
    struct RefusingOutput;
    impl Output for RefusingOutput {
        fn check(&self) -> Result<(), TaskError> {
            Err(TaskError::failed("the name is taken"))
        }

        fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
            VecOutput::new().open(partition, attempt)
        }

        fn commit(&self) -> Result<(), TaskError> {
            Ok(())
        }

        fn abort(&self) {}
    }
    let runtime = TestRuntime::start(options());
    let refused = runtime.submit(one_map(WordCount, RefusingOutput));
    assert!(matches!(refused, Err(SubmitError::Output(_))));
    assert!(runtime.has_no_spills());
}

#[test]
fn a_combiner_or_partitioner_that_breaks_its_contract_fails_the_job() {
    struct WrongPartitioner;
    impl Partitioner for WrongPartitioner {
        fn partition(&self, _key: &[u8], partitions: u32) -> u32 {
            partitions
        }
    }
    let runtime = TestRuntime::start(options());
    let renames = |_: &[u8], _: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
        emit.emit(b"x", b"1")
    };
    let output = VecOutput::new();
    let with_combiner = word_count("a b", 1, 1, &output).combiner(Arc::new(renames));
    let mut with_partitioner = word_count("a b", 1, 1, &output);
    with_partitioner.partitioning = Partitioning::By(Arc::new(WrongPartitioner));
    assert_cause(&runtime.begin(with_combiner).wait(), &["combiner"]);
    assert_cause(&runtime.begin(with_partitioner).wait(), &["partitioner"]);
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let runtime = TestRuntime::start(options());
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
    let mut idle = spec();
    idle.profile.map_task_cpu_s = 0.0;
    assert!(matches!(refusal(idle), SubmitError::Profile(_)));
    assert!(runtime.has_no_spills());
    let no_cores = RuntimeOptions::new(0);
    assert!(matches!(
        Runtime::start(no_cores),
        Err(RuntimeError::Option {
            option: "cores",
            ..
        })
    ));
    let too_little = RuntimeOptions {
        memory_bytes: Some((16 << 20) - 1),
        ..RuntimeOptions::new(1)
    };
    assert_eq!(
        Runtime::start(too_little).err().unwrap().to_string(),
        "memory_bytes must be at least task_memory_bytes, got 16777215"
    );
}

#[test]
fn a_failure_of_every_attempt_fails_its_job_at_the_first() {
    let runtime = TestRuntime::start(options());
    for is_invalid in [true, false] {
        let refuses = move |_: &[u8], text: &[u8], _: &mut dyn Emit| match text {
            b"b" if is_invalid => Err(TaskError::invalid("line 2: b is no number")),
            b"b" => Err(TaskError::fatal("line 2: b is no number")),
            _ => Ok(()),
        };
        let input = Arc::new(VecInput::lines("a\nb\nc", 1));
        let output = Arc::new(VecOutput::new());
        let spec = JobSpec::new("bad", input, Arc::new(refuses), output);
        let report = runtime.begin(spec).wait();
        let cause = cause(&report);
        assert!(
            cause.ends_with("attempt 1: line 2: b is no number"),
            "{cause}"
        );
        assert_eq!(report.invalid_input, is_invalid, "the records are at fault");
        assert_eq!(report.counters.attempts_failed, 1);
    }
}

/// Regression: a job that met a full disk or a quota wrote everything again, four times in all.
#[test]
fn a_write_that_finds_no_space_fails_its_job_at_the_first_attempt() {
    let runtime = TestRuntime::start(options());
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let fails = move |_: &[u8], _: &[u8], _: &mut dyn Emit| {
            Err::<(), _>(TaskError::io("writing x")(kind.into()))
        };
        let report = runtime.begin(one_map(fails, VecOutput::new())).wait();
        assert_cause(&report, &["attempt 1: writing x: "]);
        assert_eq!(report.counters.attempts_failed, 1);
        assert!(report.disk_full);
    }
}

/// Regression: a job spilled until the disk was full, and the writes of the database failed.
#[test]
fn a_job_that_would_spill_into_the_reserve_fails_at_once_and_leaves_nothing() {
    let free_bytes = Arc::<AtomicU64>::default();
    let found = Arc::clone(&free_bytes);
    let options = RuntimeOptions {
        spill_space: SpillSpace::new(move |_| Ok(found.load(Ordering::SeqCst))),
        ..options()
    };
    let runtime = TestRuntime::start(options);
    let output = VecOutput::new();
    let run = || runtime.begin(word_count("b a b", 1, 1, &output)).wait();
    let report = run();
    assert_cause(&report, &["attempt 1: the disk is full"]);
    assert!(report.disk_full && !report.invalid_input && runtime.has_no_spills());
    free_bytes.store(u64::MAX, Ordering::SeqCst);
    assert_eq!(run().outcome, Outcome::Succeeded);
}

/// Regression: a misspelt column, which only the commit could notice, was reported as a failed job
/// without invalid input.
#[test]
fn a_commit_that_finds_invalid_input_or_a_full_disk_reports_it() {
    struct Refusing(bool);
    impl Output for Refusing {
        fn open(&self, partition: u32, attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
            VecOutput::new().open(partition, attempt)
        }

        fn commit(&self) -> Result<(), TaskError> {
            Err(if self.0 {
                TaskError::invalid("no record has it")
            } else {
                TaskError::failed(io::Error::new(io::ErrorKind::StorageFull, "no space"))
            })
        }

        fn abort(&self) {}
    }
    let runtime = TestRuntime::start(options());
    let nothing = |_: &[u8], _: &[u8], _: &mut dyn Emit| Ok(());
    for is_invalid in [true, false] {
        let report = runtime.begin(one_map(nothing, Refusing(is_invalid))).wait();
        let cause = cause(&report);
        assert!(cause.starts_with("committing the output: no "), "{cause}");
        assert_eq!(
            (report.invalid_input, report.disk_full),
            (is_invalid, !is_invalid)
        );
    }
}
