//! Jobs that follow others.

use super::*;
use crate::model::JobId;

/// An input that reads the output of another job, once that is committed.
struct OutputOf(VecOutput);

impl OutputOf {
    fn rows(&self) -> Result<VecInput, TaskError> {
        let rows = self.0.rows();
        let rows = rows.ok_or_else(|| TaskError::failed("it is not committed yet"))?;
        Ok(VecInput::new(rows, 3))
    }
}

impl Input for OutputOf {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        self.rows()?.splits()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.rows()?.read(split, record)
    }
}

/// Returns a job that reads the number of each word and counts, for each number, the words
/// that have it.
fn counts_of_counts(counts: &VecOutput, output: &VecOutput) -> JobSpec {
    let ones = |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
        let mut n = 0_u32;
        while values.next_value()?.is_some() {
            n += 1;
        }
        emit.emit(key, n.to_string().as_bytes())
    };
    let input = Arc::new(OutputOf(counts.clone()));
    let output = Arc::new(output.clone());
    JobSpec::new("counts of counts", input, Arc::new(swap), output).reducer(Arc::new(ones), 2)
}

#[test]
fn a_chain_is_submitted_at_once_and_each_job_reads_the_output_of_the_one_before() {
    let runtime = TestRuntime::start(options());
    let text = generated_text(8, 40_000);
    let (first_rows, second_rows) = (VecOutput::new(), VecOutput::new());
    let first = runtime.begin(word_count(&text, 4, 2, &first_rows));
    let spec = || counts_of_counts(&first_rows, &second_rows).after(first.id());
    let second = runtime.begin(spec().goal_s(1e6));
    let third = counts_of_counts(&second_rows, &VecOutput::new());
    let third = third.after(first.id()).after(second.id());
    let third = runtime.begin(third);
    assert_eq!(third.wait().outcome, Outcome::Succeeded);
    assert_eq!(second.wait().met, Some(true));
    assert!(first.wait().finished_s <= second.attempts()[0].started_s);

    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for count in count_independently(&text).into_values() {
        *expected.entry(count.to_string()).or_default() += 1;
    }
    assert_eq!(counts(&second_rows), expected);

    let late = runtime.begin(spec());
    assert_eq!(
        late.wait().outcome,
        Outcome::Succeeded,
        "the first has succeeded"
    );
}

#[test]
fn a_job_that_follows_an_unsuccessful_one_fails_with_its_cause() {
    let runtime = TestRuntime::start(options());
    let (rows, nothing) = (VecOutput::new(), VecOutput::new());
    let failing = |_: &[u8], _: &[u8], _: &mut dyn Emit| Err(TaskError::failed("no words"));
    let mut spec = word_count("a", 1, 1, &rows);
    spec.mapper = Arc::new(failing);
    let first = runtime.begin(spec);
    let second = runtime.begin(counts_of_counts(&rows, &nothing).after(first.id()));
    let third = runtime.begin(counts_of_counts(&rows, &nothing).after(second.id()));
    let causes = [&first, &second, &third].map(|job| cause(&job.wait()).to_owned());
    assert_eq!(
        causes[1],
        format!("job-1, which this job follows, failed: {}", causes[0])
    );
    assert_eq!(
        causes[2],
        format!("job-2, which this job follows, failed: {}", causes[1])
    );

    let spinning = runtime.begin(spinning_job(1, &nothing));
    let follower = runtime.begin(counts_of_counts(&rows, &nothing).after(spinning.id()));
    assert_eq!(follower.status().follows, [spinning.id()]);
    assert!(spinning.cancel());
    assert_eq!(
        follower.wait().outcome,
        Outcome::Failed {
            cause: "job-4, which this job follows, was cancelled".to_owned()
        }
    );
    let late = runtime.begin(counts_of_counts(&rows, &nothing).after(first.id()));
    assert!(matches!(late.wait().outcome, Outcome::Failed { .. }));
    let unknown = counts_of_counts(&rows, &nothing).after(JobId(77));
    let refusal = runtime.submit(unknown).err().expect("refused");
    assert_eq!(
        refusal.to_string(),
        "the job is to follow job-77, which was never submitted to this runtime, or ended long ago"
    );
    assert_eq!((nothing.rows(), nothing.has_staged()), (None, false));
    runtime.shutdown();
    assert!(runtime.has_no_spills());
}

#[test]
fn a_job_that_waits_for_another_can_be_cancelled() {
    let runtime = TestRuntime::start(options());
    let nothing = VecOutput::new();
    let first = runtime.begin(spinning_job(1, &nothing));
    let second = runtime.begin(counts_of_counts(&nothing, &nothing).after(first.id()));
    assert!(second.cancel());
    assert_eq!(second.wait().outcome, Outcome::Cancelled);
    assert!(first.cancel());
    assert_eq!(first.wait().outcome, Outcome::Cancelled);
    assert!(runtime.has_no_spills());
}
