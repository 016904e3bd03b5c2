//! A runtime that lives for weeks, whose jobs come and go by id.

use super::*;
use crate::model::JobId;

fn jobs_remembered(max: usize, spills: &Path) -> Runtime {
    let options = RuntimeOptions {
        ended_jobs_max: max,
        cycle_s: 0.01,
        ..options(spills)
    };
    Runtime::start(options).unwrap()
}

#[test]
fn jobs_are_listed_watched_cancelled_and_discarded_by_id() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = jobs_remembered(10, spills.path());
    let output = VecOutput::new();
    let spinning = runtime.submit(spinning_job(1, &output)).unwrap().id();
    let counting = runtime
        .submit(word_count("a b a", 1, 1, &output))
        .unwrap()
        .id();
    assert_eq!(
        runtime.jobs().iter().map(|job| job.id).collect::<Vec<_>>(),
        [spinning, counting]
    );
    // It may have ended by now: then it is not watched but reported.
    let report = match runtime.job(counting) {
        Some(job) => job.wait(),
        None => runtime.report(counting).expect("it is one or the other"),
    };
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(runtime.report(counting), Some(report));
    assert!(runtime.job(counting).is_none());

    assert_eq!(runtime.report(spinning), None);
    assert!(!runtime.discard(spinning), "it runs");
    let watched = runtime.job(spinning).unwrap();
    assert!(runtime.cancel(spinning));
    assert_eq!(watched.wait().outcome, Outcome::Cancelled);

    assert!(runtime.discard(counting) && !runtime.discard(counting));
    assert_eq!(runtime.report(counting), None);
    let left = runtime.jobs();
    assert_eq!(
        left.iter()
            .map(|job| (job.id, job.state))
            .collect::<Vec<_>>(),
        [(spinning, JobState::Cancelled)]
    );
    let after_it = word_count("a", 1, 1, &output).after(counting);
    assert!(matches!(runtime.submit(after_it), Err(SubmitError::Follows(id)) if id == counting));
    for unknown in [JobId(0), JobId(99)] {
        assert!(runtime.job(unknown).is_none() && runtime.report(unknown).is_none());
        assert!(!runtime.cancel(unknown) && !runtime.discard(unknown));
    }
}

#[test]
fn of_many_jobs_the_latest_are_remembered_and_of_the_others_nothing_is_left() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = jobs_remembered(3, spills.path());
    let first = runtime
        .submit(word_count("a", 1, 1, &VecOutput::new()))
        .unwrap();
    let first_report = first.wait();
    for _ in 0..40 {
        let output = VecOutput::new();
        let jobs = [(); 5].map(|()| runtime.submit(word_count("a b", 2, 1, &output)).unwrap());
        for job in jobs {
            assert_eq!(job.wait().outcome, Outcome::Succeeded);
        }
        drop(runtime.lease("query", LeaseOptions::default()).unwrap());
    }
    assert_eq!(runtime.jobs().len(), 3);
    assert_eq!(runtime.report(first.id()), None);
    assert_eq!(first.wait(), first_report, "a handle still knows");
    assert!(is_empty(spills.path()));
    wait::until("threads to be joined", || {
        runtime.shared.lock().workers.len() <= 2
    });
    let state = runtime.shared.lock();
    assert!(state.jobs.is_empty() && state.news.is_empty() && state.commits.is_empty());
}

#[test]
fn no_more_than_the_beginning_of_a_long_cause_is_kept() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = jobs_remembered(3, spills.path());
    let mut spec = word_count("a", 1, 1, &VecOutput::new());
    spec.mapper = Arc::new(
        |_: &[u8], _: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
            Err(TaskError::failed("é".repeat(100_000)))
        },
    );
    let job = runtime.submit(spec).unwrap();
    let Outcome::Failed { cause } = job.wait().outcome else {
        panic!("each attempt fails")
    };
    assert!(cause.contains("attempt 4: éé") && cause.ends_with("é ..."));
    assert!((4000..4200).contains(&cause.len()), "{} bytes", cause.len());
    let of_attempt = |attempt: &AttemptRecord| match &attempt.outcome {
        AttemptOutcome::Failed { cause } => cause.len(),
        _ => 0,
    };
    assert!(
        job.attempts()
            .iter()
            .map(of_attempt)
            .all(|bytes| (4000..4200).contains(&bytes))
    );
}
