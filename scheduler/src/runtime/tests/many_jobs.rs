//! Many jobs in one runtime: they are listed and cancelled by id, and few ended ones are kept.

use super::*;
use crate::model::JobId;

fn jobs_remembered(max: usize) -> TestRuntime {
    TestRuntime::start(RuntimeOptions {
        ended_jobs_max: max,
        cycle_s: 0.01,
        ..options()
    })
}

#[test]
fn jobs_are_listed_and_cancelled_by_id() {
    let runtime = jobs_remembered(10);
    let output = VecOutput::new();
    let spinning = runtime.begin(spinning_job(1, &output));
    let counting = runtime.begin(word_count("a b a", 1, 1, &output));
    let listed = |runtime: &Runtime| {
        let jobs = runtime.status().jobs.into_iter();
        jobs.map(|job| (job.id, job.state)).collect::<Vec<_>>()
    };
    let ids: Vec<_> = listed(&runtime).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [spinning.id(), counting.id()]);
    assert_eq!(counting.wait().outcome, Outcome::Succeeded);
    assert!(!runtime.cancel(counting.id()), "it has ended");
    assert!(runtime.cancel(spinning.id()));
    assert_eq!(spinning.wait().outcome, Outcome::Cancelled);
    assert_eq!(
        listed(&runtime),
        [
            (spinning.id(), JobState::Cancelled),
            (counting.id(), JobState::Succeeded)
        ]
    );
    for unknown in [JobId(0), JobId(99)] {
        assert!(!runtime.cancel(unknown));
    }
}

#[test]
fn of_many_ended_jobs_the_latest_are_kept_and_nothing_of_the_others() {
    let runtime = jobs_remembered(3);
    let first = runtime.begin(word_count("a", 1, 1, &VecOutput::new()));
    let first_report = first.wait();
    for _ in 0..40 {
        let output = VecOutput::new();
        let jobs = [(); 5].map(|()| runtime.begin(word_count("a b", 2, 1, &output)));
        for job in jobs {
            assert_eq!(job.wait().outcome, Outcome::Succeeded);
        }
        drop(runtime.lease("query", LeaseOptions::default()).unwrap());
    }
    let listed = runtime.status().jobs;
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|job| job.id != first.id()));
    assert_eq!(
        first.wait(),
        first_report,
        "its handle still has the report"
    );
    let after_it = word_count("a", 1, 1, &VecOutput::new()).after(first.id());
    assert!(matches!(runtime.submit(after_it), Err(SubmitError::Follows(id)) if id == first.id()));
    assert!(runtime.has_no_spills());
    wait::until("threads to be joined", || {
        runtime.shared.lock().workers.len() <= 2
    });
    let state = runtime.shared.lock();
    assert!(state.jobs.is_empty() && state.notifications.is_empty() && state.commits.is_empty());
}

#[test]
fn only_the_beginning_of_a_long_cause_is_kept() {
    let runtime = jobs_remembered(3);
    let mut spec = word_count("a", 1, 1, &VecOutput::new());
    spec.mapper = Arc::new(
        |_: &[u8], _: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
            Err(TaskError::failed("é".repeat(100_000)))
        },
    );
    let job = runtime.begin(spec);
    let report = job.wait();
    let cause = cause(&report);
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
