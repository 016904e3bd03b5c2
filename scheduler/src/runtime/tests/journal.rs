//! Events for journals, and measurements for the next execution of a job.

use super::*;
use crate::model::{JobId, TaskKind};
use std::sync::Mutex;

/// A journal that keeps a line for each event, in order.
#[derive(Default)]
struct Book {
    lines: Mutex<Vec<String>>,
    /// True if the journal panics at every second event.
    torn: bool,
}

impl Book {
    fn write(&self, line: String) {
        let n = {
            let mut lines = self.lines.lock().unwrap();
            lines.push(line);
            lines.len()
        };
        assert!(!self.torn || n.is_multiple_of(2), "a torn page");
    }

    /// Returns the lines about `job`, without the job's id.
    fn about(&self, job: &JobHandle) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let prefix = format!("{} ", job.id());
        let about = lines.iter().filter_map(|line| line.strip_prefix(&prefix));
        about.map(str::to_owned).collect()
    }
}

impl JobJournal for Book {
    fn submitted(&self, job: &JobStatus) {
        self.write(format!("{} submitted {}", job.id, job.name));
    }

    fn attempt_ended(&self, job: JobId, attempt: &AttemptRecord) {
        let (kind, outcome) = (attempt.kind, &attempt.outcome);
        self.write(format!(
            "{job} {kind:?} {} {} {outcome:?}",
            attempt.index, attempt.attempt
        ));
    }

    fn ended(&self, report: &JobReport, measured: &MeasuredProfile) {
        assert_eq!(measured.map.bytes_in, report.bytes_in);
        self.write(format!("{} ended {:?}", report.id, report.outcome));
    }
}

fn with_book(torn: bool) -> (TestRuntime, Arc<Book>) {
    let book = Arc::new(Book {
        torn,
        ..Book::default()
    });
    (TestRuntime::start(options()), book)
}

#[test]
fn a_journal_gets_each_event_once_before_the_wait_ends() {
    let (runtime, book) = with_book(false);
    let output = VecOutput::new();
    let mut spec = word_count("a\nb\na", 3, 2, &output);
    spec.journal = Some(book.clone());
    let job = runtime.begin(spec);
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    let lines = book.about(&job);
    assert_eq!(lines.first().unwrap(), "submitted word count");
    assert_eq!(lines.last().unwrap(), "ended Succeeded");
    let mut tasks = lines[1..lines.len() - 1].to_vec();
    tasks.sort();
    let expected = ["Map 0", "Map 1", "Map 2", "Reduce 0", "Reduce 1"];
    assert_eq!(tasks, expected.map(|task| format!("{task} 1 Done")));

    let fails = |_: &[u8], _: &[u8], _: &mut dyn Emit| Err(TaskError::failed("no"));
    let mut spec = word_count("a", 1, 1, &output);
    spec.mapper = Arc::new(fails);
    spec.journal = Some(book.clone());
    let job = runtime.begin(spec);
    assert!(matches!(job.wait().outcome, Outcome::Failed { .. }));
    let lines = book.about(&job);
    assert_eq!(lines.len(), 2 + ATTEMPTS_MAX as usize);
    assert_eq!(lines[4], r#"Map 0 4 Failed { cause: "no" }"#);

    // A job without a journal causes no events.
    let job = runtime.begin(word_count("a", 1, 1, &output));
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    assert!(book.about(&job).is_empty());
}

#[test]
fn a_journal_that_panics_does_not_disturb_the_jobs() {
    let (runtime, book) = with_book(true);
    let output = VecOutput::new();
    let mut spec = word_count("a b\na", 2, 1, &output);
    spec.journal = Some(book.clone());
    let job = runtime.begin(spec);
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    assert_eq!(counts(&output), count_independently("a b\na"));
    assert_eq!(book.about(&job).len(), 5);
}

#[test]
fn attempts_and_measures_of_a_job_show_its_bytes_cpu_and_memory() {
    let runtime = TestRuntime::start(RuntimeOptions {
        task_memory_bytes: 64 << 10,
        ..options()
    });
    let output = VecOutput::new();
    let text = generated_text(9, 300_000);
    let job = runtime.begin(word_count(&text, 2, 2, &output));
    let report = job.wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let attempts = job.attempts();
    assert_eq!(attempts.len(), 4);
    for attempt in &attempts {
        assert!(attempt.ended_s >= attempt.started_s);
        assert!(attempt.cpu_s >= attempt.shuffle_cpu_s && attempt.cpu_s > 0.0);
        assert!(attempt.bytes_in > 0 && attempt.bytes_out > 0);
        assert!((1..64 << 10).contains(&attempt.memory_bytes_max));
    }
    let measured = job.measured();
    assert_eq!(measured.map.tasks, 2);
    assert_eq!(measured.map.bytes_in, report.counters.map_input_bytes);
    assert_eq!(measured.split_bytes, measured.map.bytes_in);
    assert_eq!(measured.map.bytes_out, report.counters.map_output_bytes);
    assert_eq!(measured.reduce.bytes_in, report.counters.reduce_input_bytes);
    assert_eq!(measured.reduce.bytes_out, report.counters.output_bytes);
    assert!(measured.map.shuffle_cpu_s > 0.0 && measured.map.spilled_bytes > 0);
    let total_s = measured.map.cpu_s + measured.reduce.cpu_s;
    assert!(total_s <= report.cpu_s + 1e-6);
    let of = |kind| attempts.iter().filter(move |attempt| attempt.kind == kind);
    let longest_s = of(TaskKind::Map).map(|map| map.cpu_s).fold(0.0, f64::max);
    assert_eq!(measured.map.cpu_s_max, longest_s);

    // The estimates of a job that has not started come from `measured`.
    let mut again = word_count(&text, 4, 2, &output);
    again.measured = Some(measured);
    let splits = again.input.splits().unwrap();
    let estimates = again.estimates(&splits);
    let per_map_s = measured.map.cpu_s / 4.0;
    assert!((estimates.map_task_cpu_s - per_map_s).abs() < per_map_s * 0.01);
}
