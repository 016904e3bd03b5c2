//! The history of jobs: their records, profiles and attempts, and how running jobs are listed.

use std::sync::Barrier;

use ebb_jobs::history::{BackupRequest, MaintenanceOptions};
use ebb_scheduler::runtime::{Input, RecordSink, Split};

use super::*;

/// Regression: the time for which a job waited for other jobs was recorded as an error of its estimate.
#[test]
fn only_a_job_that_ran_alone_shows_how_wrong_its_estimate_was() {
    let (_dir, node) = node_with_words();
    let count = |name: &str| {
        let request = JobRequest {
            goal_s: Some(3600.0),
            ..wordcount(table(name))
        };
        succeed(&node, request);
        let profiles = node.profiles().unwrap();
        let profile = (profiles.iter()).find(|profile| profile.application == "wordcount");
        profile.unwrap().took_over_estimate.len()
    };
    assert_eq!(count("app.first"), 0, "there was no estimate");
    assert_eq!(count("app.second"), 1);
    let other = node.submit(endless(table("app.pi"))).unwrap();
    assert_eq!(count("app.third"), 1);
    cancel(&other);
    assert_eq!(count("app.fourth"), 2);
}

#[test]
fn the_record_of_a_job_has_the_numbers_of_its_tables_also_of_the_one_that_it_creates() {
    let (_dir, node) = node_with_words();
    let words = app(&node).existing_table("words").unwrap().number();
    let job = node.submit(wordcount(table("app.out"))).unwrap();
    let at_start = job.record().tables.clone();
    assert_eq!((at_start.inputs, at_start.output), (vec![words], None));
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    let out = app(&node).existing_table("out").unwrap().number();
    let at_end = node.job(job.id()).unwrap().tables;
    assert_eq!((at_end.inputs, at_end.output), (vec![words], Some(out)));
}

/// Regression: the profile of a job over a table replaced that of a job over a dropped table of its
/// name, and took over the errors of its estimates.
#[test]
fn a_table_with_the_name_of_a_dropped_one_has_profiles_of_its_own() {
    let (_dir, node) = node_with_words();
    let profiles_after = |output: &str| {
        succeed(&node, wordcount(table(output)));
        node.profiles().unwrap().len()
    };
    assert_eq!(profiles_after("app.first"), 1);
    assert_eq!(profiles_after("app.second"), 1, "the same work");
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    app.drop_table("words").unwrap();
    let words = app.table("words", TableOptions::default()).unwrap();
    words.put(b"k", b"ebb").unwrap();
    assert_eq!(profiles_after("app.third"), 2);
}

/// Regression: if attempts at tasks could not be written, the end of the job was reported as missing in
/// the history, and its profile was not written.
#[test]
fn a_job_whose_attempts_cannot_be_written_has_its_end_and_its_profile_in_the_history() {
    let (_dir, node) = node_with_words();
    node.history().unwrap();
    // From now on each write of attempts fails, and other writes succeed.
    let system = node.db().unwrap().existing_keyspace(SYSTEM_KEYSPACE);
    system.unwrap().drop_table("attempts").unwrap();
    let job = node.submit(wordcount(table("app.counts"))).unwrap();
    let end = job.wait();
    assert_eq!(end.report.outcome, Outcome::Succeeded);
    assert_eq!(end.unrecorded, None);
    let record = node.job(job.id()).unwrap();
    assert_eq!(record.state, RecordState::Succeeded);
    assert_eq!(record.attempts_dropped, u64::from(end.report.tasks));
    assert_eq!(node.profiles().unwrap().len(), 1);
}

#[test]
fn the_view_of_a_job_that_has_just_ended_has_the_record_of_its_end() {
    let (_dir, node) = node_with_words();
    let job = node.submit(endless(table("app.pi"))).unwrap();
    let running = node.present_view(&job).unwrap();
    assert_eq!(
        (running.record.state, running.end),
        (RecordState::Started, None)
    );
    cancel(&job);
    let ended = node.present_view(&job).unwrap();
    assert_eq!(ended.record, node.job(job.id()).unwrap());
    assert_eq!(ended.record.state, RecordState::Cancelled);
    assert!(ended.end.is_some() && ended.run.is_some());
}

/// Regression: a job that ended while a list of jobs was made was listed as unfinished.
#[test]
fn a_job_that_has_ended_since_its_record_was_read_is_shown_with_its_end() {
    let (_dir, node) = node_with_words();
    let job = node.submit(wordcount(table("app.counts"))).unwrap();
    job.wait();
    let of_start = job.record().clone();
    assert_eq!(of_start.state, RecordState::Started);
    let view = node.view_of(of_start).unwrap().unwrap();
    assert_eq!(view.record.state, RecordState::Succeeded);
    assert_eq!(view, JobView::remembered(node.job(job.id()).unwrap()));
}

/// An input that waits twice at a barrier before it is split.
struct HeldInput {
    input: Arc<dyn Input>,
    barrier: Arc<Barrier>,
}

impl Input for HeldInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        self.barrier.wait();
        self.barrier.wait();
        self.input.splits()
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.input.read(split, record)
    }
}

/// Regression: while a new job was being started, it was listed as unfinished. A cancellation was
/// refused because the job did not run, and a discard because it ran.
#[test]
fn a_new_job_is_listed_once_it_has_started() {
    let (_dir, node) = node_with_words();
    let barrier = Arc::new(Barrier::new(2));
    let hold = |mut spec: JobSpec| {
        spec.input = Arc::new(HeldInput {
            input: Arc::clone(&spec.input),
            barrier: Arc::clone(&barrier),
        });
        spec
    };
    let request = wordcount(table("app.counts"));
    let (job, recorded, shown) = thread::scope(|scope| {
        let submitted = scope.spawn(|| node.submit_changed(request, hold));
        barrier.wait();
        let recorded = open_history(&node).jobs();
        let shown = (node.list(), node.unfinished(), node.job("last"));
        barrier.wait();
        (submitted.join().unwrap().unwrap(), recorded, shown)
    });
    assert_eq!(recorded.unwrap().len(), 1);
    assert_eq!(shown.0.unwrap(), []);
    assert_eq!(shown.1.unwrap(), []);
    assert!(shown.2.is_err());
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    assert_eq!(node.list().unwrap().len(), 1);
}

#[test]
fn a_submission_is_found_behind_a_job_that_began_while_the_clock_was_wrong() {
    let (_dir, node) = node_with_words();
    let history = open_history(&node);
    let by = Submission::new(&[1; 32], &[2; 32]);
    let request = wordcount(table("app.counts"));
    let job = history.begin(&request, Vec::new(), Some(by.clone()));
    let job = job.unwrap();
    // Regression: a backup that began in 1970 hid all jobs before it, and a retry of one was executed again.
    let backup = BackupRequest {
        target: "nightly".to_owned(),
        options: MaintenanceOptions {
            by: "cron".to_owned(),
            rate_bytes_per_s: None,
        },
    };
    assert!(history.begin_backup(&backup, 7).unwrap().id > job.id);
    let found = |now_unix_ms| {
        let found = node.submitted(&by.key, now_unix_ms).unwrap();
        found.map(|found| found.id)
    };
    let last_ms = job.started_unix_ms + 24 * 3600 * 1000;
    assert_eq!(found(last_ms).as_ref(), Some(&job.id));
    assert_eq!(found(last_ms + 1), None);
}
