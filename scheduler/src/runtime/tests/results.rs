//! The output of jobs.

use super::*;
use crate::policy::{Fifo, all};

#[test]
fn word_count_equals_an_independent_count_whatever_the_memory_and_the_combiner() {
    let text = generated_text(3, 400_000);
    let expected = count_independently(&text);
    for (task_memory_bytes, maps, reduces) in [(TASK_MEMORY_BYTES_MIN, 3, 2), (16 << 20, 7, 3)] {
        for combine in [false, true] {
            let runtime = TestRuntime::start(RuntimeOptions {
                task_memory_bytes,
                ..options()
            });
            let output = VecOutput::new();
            let mut spec = word_count(&text, maps, reduces, &output);
            if combine {
                spec = spec.combiner(Arc::new(Sum));
            }
            let report = runtime.succeed(spec);
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
            assert!(runtime.has_no_spills(), "spill files are removed");
        }
    }
}

/// A mapper that emits each word as a key, with the number 1, in eight bytes, as the value.
fn one_each(_: &[u8], text: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    (text.split(|byte| *byte == b' '))
        .filter(|word| !word.is_empty())
        .try_for_each(|word| emit.emit(word, &1_u64.to_le_bytes()))
}

fn add(into: &mut [u8], value: &[u8]) -> bool {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let sum = number(into) + number(value);
    into.copy_from_slice(&sum.to_le_bytes());
    true
}

#[test]
fn values_are_combined_in_place_before_the_reduce_and_the_count_is_the_same() {
    let text = generated_text(7, 400_000);
    let expected = count_independently(&text);
    let total = |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
        let mut sum = 0_u64.to_le_bytes();
        while let Some(value) = values.next_value()? {
            add(&mut sum, value);
        }
        emit.emit(key, u64::from_le_bytes(sum).to_string().as_bytes())
    };
    for task_memory_bytes in [TASK_MEMORY_BYTES_MIN, 16 << 20] {
        let runtime = TestRuntime::start(RuntimeOptions {
            task_memory_bytes,
            ..options()
        });
        let output = VecOutput::new();
        let mut spec = word_count(&text, 3, 2, &output);
        spec.mapper = Arc::new(one_each);
        spec.reducer = Some(Arc::new(total));
        let report = runtime.succeed(spec.in_place_combiner(Arc::new(add)));
        assert_eq!(counts(&output), expected);
        let c = report.counters;
        assert_eq!(c.map_output_records, expected.values().sum::<u64>());
        // Each map emits a word once, after its combination.
        assert!(c.reduce_input_records <= 3 * expected.len() as u64);
    }
}

#[test]
fn every_policy_and_the_unmanaged_runtime_complete_several_jobs_at_once() {
    let text = generated_text(4, 60_000);
    let expected = count_independently(&text);
    let managed = all()
        .into_iter()
        .map(|policy| (policy, Management::Managed));
    let unmanaged: (Arc<dyn crate::policy::Policy>, _) = (Arc::new(Fifo), Management::Unmanaged);
    for (policy, management) in managed.chain([unmanaged]) {
        let runtime = TestRuntime::start(RuntimeOptions {
            policy,
            management,
            ..options()
        });
        let outputs: Vec<VecOutput> = (0..4).map(|_| VecOutput::new()).collect();
        let jobs: Vec<JobHandle> = (outputs.iter().enumerate())
            .map(|(n, output)| {
                let spec = word_count(&text, 4, 2, output);
                runtime.begin(if n % 2 == 0 { spec.goal_s(60.0) } else { spec })
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
    let runtime = TestRuntime::start(options());
    let output = VecOutput::new();
    let input = Arc::new(VecInput::lines("b a\nc", 2));
    let spec = JobSpec::new(
        "split",
        input,
        Arc::new(WordCount),
        Arc::new(output.clone()),
    );
    runtime.succeed(spec);
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
    let runtime = TestRuntime::start(options());
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
        runtime.succeed(spec);
        assert_eq!(output.rows(), Some(Vec::new()));
    }
}

/// An output that records the name of the thread that committed it, and whether that thread was in
/// the idle class.
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
        let idle = ebb_threads::current_class() == SchedulingClass::Idle;
        *self.thread.lock().unwrap() = Some((name.unwrap_or_default(), idle));
        self.rows.commit()
    }

    fn abort(&self) {
        self.rows.abort();
    }
}

/// Regression: a commit to a table takes a place in the store's commit queue. In the idle class it
/// kept that place while it waited for a core, and every transaction behind it waited too.
#[test]
fn a_commit_runs_at_ordinary_priority() {
    let runtime = TestRuntime::start(RuntimeOptions {
        throttles: Throttles::default(),
        ..options()
    });
    let output = Arc::new(CommitWitness::default());
    let mut spec = word_count("a b a", 1, 1, &VecOutput::new());
    spec.output = output.clone();
    runtime.succeed(spec);
    let witness = output.thread.lock().unwrap().clone();
    assert_eq!(witness, Some(("ebb-commit".to_owned(), false)));
}
