use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier, Once};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use ebb_colocate::LoadSample;
use ebb_jobs::history::{
    BackupRequest, JobRecord, MaintenanceOptions, OutputMark, RecordState, STARTS_MAX,
    SYSTEM_KEYSPACE, now_unix_ms,
};
use ebb_jobs::launch::OpenJob;
use ebb_jobs::pi::Variant;
use ebb_jobs::request::{
    ApplicationRequest, GrepRequest, InputRequest, JobRequest, KeySelection, OutputPlace,
    PiRequest, TableInput, TextInput, WordcountRequest,
};
use ebb_jobs::{Chain, Failure, FilesTarget, Outline, Work, disk_reserve_bytes};
use ebb_scheduler::runtime::{
    Emit, Input, JobReport, JobSpec, Outcome, RecordSink, SpillSpace, Split, SubmitError,
    TaskError, VecInput, VecOutput,
};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Keyspace, Maintenance, NAME_BYTES_MAX, SeqNo, TableOptions};
use ebb_test_support::wait::until;
use tempfile::TempDir;

use super::drive::AcceptedJob;
use super::expect::prospect;
use super::*;
use crate::jobs::{Beside, JobView, Jobs, ReadJobs, Wait};

fn open(data: &Path) -> Node {
    Node::open(data, Options::default(), NodeOptions::for_tests()).unwrap()
}

/// Starts a node over a database with a table of words. The directory of the database lasts as
/// long as the first value.
fn node_with_words() -> (TempDir, Node) {
    let dir = tempfile::tempdir().unwrap();
    let node = with_words(dir.path());
    (dir, node)
}

/// Starts a node over a database with a table of words, in the directory `data`.
fn with_words(data: &Path) -> Node {
    let node = open(data);
    let app = node.db().unwrap().keyspace("app").unwrap();
    let words = app.table("words", TableOptions::default()).unwrap();
    for n in 0..200_u32 {
        words.put(&n.to_be_bytes(), b"ebb flow ebb").unwrap();
    }
    node
}

fn wordcount(output: OutputPlace) -> JobRequest {
    let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
    let table = TableInput::new("app.words".parse().unwrap());
    JobRequest::new(
        application,
        vec![InputRequest::Table(table)],
        output.into(),
        "/",
    )
}

fn table(name: &str) -> OutputPlace {
    OutputPlace::Table(name.parse().unwrap())
}

/// Returns the request of a job that does not end in the time of a test.
fn endless(output: OutputPlace) -> JobRequest {
    let application = ApplicationRequest::Pi(PiRequest {
        points: 1 << 50,
        seed: 1,
        variant: Variant::Plain,
    });
    JobRequest::new(application, Vec::new(), output.into(), "/")
}

fn app(node: &Node) -> Keyspace {
    node.db().unwrap().existing_keyspace("app").unwrap()
}

fn snapshots(node: &Node) -> usize {
    app(node).snapshots().len()
}

/// Starts a job, and waits until it has succeeded.
fn succeed(node: &Node, request: JobRequest) -> RunningJob {
    let job = node.submit(request).unwrap();
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    job
}

/// Starts an unfinished job again.
fn restart(node: &Node, id: &str) -> RunningJob {
    let Restart::Runs(job) = node.restart(id).unwrap() else {
        panic!("job {id} does not run");
    };
    job
}

/// Leaves an unfinished job with a snapshot of its own, as a killed process does. Returns its record.
fn leave_unfinished(node: &Node, output: &str) -> JobRecord {
    let request = wordcount(table(output));
    let mut launched = OpenJob::open(&request, &[], &node.site, &permit_all).unwrap();
    let history = History::open(node.db().unwrap()).unwrap();
    let own = launched.own_snapshots();
    let record = history.begin(&request, own, None).unwrap();
    launched.keep();
    record
}

/// Deletes a snapshot and creates another one of the same name. Returns the sequence number of the new one.
fn replace_snapshot(node: &Node, name: &str) -> SeqNo {
    let app = app(node);
    app.delete_snapshot(name).unwrap();
    let options = ebb_storage::SnapshotOptions::default();
    app.create_snapshot_with(name, options).unwrap()
}

#[test]
fn many_jobs_run_at_once_and_each_is_recorded_under_its_own_id() {
    let (_dir, node) = node_with_words();
    let endless = node.submit(endless(table("app.pi"))).unwrap();
    // The jobs have a goal: without one they would wait for the first job.
    let count = |n| JobRequest {
        goal_s: Some(3600.0),
        ..wordcount(table(&format!("app.c{n}")))
    };
    let counts: Vec<_> = (0..4).map(|n| node.submit(count(n)).unwrap()).collect();
    for job in &counts {
        let end = job.wait();
        assert_eq!(end.report.outcome, Outcome::Succeeded);
        assert!(end.unrecorded.is_none() && !end.parked);
        assert_eq!(node.job(job.id()).unwrap().state, RecordState::Succeeded);
        let attempts = node.attempts(job.id()).unwrap();
        assert_eq!(attempts.len() as u32, end.report.tasks);
        assert!(attempts.iter().all(|attempt| attempt.job == 1));
    }
    assert_eq!(snapshots(&node), 0, "their own went with them");
    assert!(endless.wait_timeout(Duration::ZERO).is_none());
    assert_eq!(node.jobs().unwrap().len(), 5);
    assert_eq!(node.unfinished().unwrap(), [], "it runs here");
    assert_eq!(node.running(endless.id()).unwrap().progress().steps, 1);
    let refused = node.discard(endless.id()).unwrap_err().to_string();
    assert!(refused.contains("is running"), "{refused}");
    assert!(node.restart(endless.id()).is_err());

    assert!(node.cancel(endless.id()).unwrap());
    assert_eq!(endless.wait().report.outcome, Outcome::Cancelled);
    let id = endless.id();
    let refused = node.cancel(id).unwrap_err().to_string();
    let ended = format!("pi {id} was cancelled: there is nothing to cancel");
    assert_eq!(refused, ended);
    assert!(node.running(endless.id()).is_none());
    let record = node.job("last").unwrap();
    assert_eq!(record.state, RecordState::Succeeded);
    assert_eq!(
        node.job(endless.id()).unwrap().state,
        RecordState::Cancelled
    );
    assert!(node.cancel("17").is_err());
}

#[test]
fn a_job_without_cores_reports_who_uses_them_and_its_record_keeps_that() {
    let (_dir, node) = node_with_words();
    let job = node.submit(endless(table("app.pi"))).unwrap();
    let beside = |others_cores| Beside {
        job_cores: 2,
        cores: 2.0,
        load: LoadSample {
            others_cores,
            allowed: 1.0,
            ..LoadSample::default()
        },
        guard: None,
    };
    let waits = |used_cores, others_cores| {
        let beside = beside(others_cores);
        job.progress_beside(Some(used_cores), Some(&beside)).waits
    };
    let starved = waits(0.02, 1.95).unwrap();
    let text = starved.to_string();
    assert_eq!(text, "other processes use 1.95 of 2 cores");
    assert_eq!(waits(2.0, 1.95), None, "it progresses");
    assert_eq!(waits(0.02, 0.0), None, "the cores are free");
    assert_eq!(job.progress_beside(None, None).waits, None);
    job.cancel();
    job.wait();
    assert_eq!(waits(0.02, 1.95), None, "it has ended");

    let mut record = node.job(job.id()).unwrap();
    record.report.as_mut().unwrap()["waited"] = serde_json::json!(starved);
    let remembered = JobView::remembered(record);
    assert_eq!(remembered.waited().map(Wait::to_string), Some(text));
    assert_eq!(remembered.waits(), None);
}

#[test]
fn what_is_refused_leaves_no_record_and_no_snapshot() {
    let (_dir, node) = node_with_words();
    let app = node.db().unwrap().keyspace("app").unwrap();
    let taken = app.table("taken", TableOptions::default()).unwrap();
    taken.put(b"k", b"v").unwrap();
    assert!(node.submit(wordcount(table("app.taken"))).is_err());
    assert!(node.submit(wordcount(table("none.x"))).is_err());
    assert!(node.submit(wordcount(table("ebb_system.x"))).is_err());
    let mut none = wordcount(table("app.x"));
    none.inputs.clear();
    assert!(node.submit(none).is_err());
    assert!(node.estimate(&wordcount(table("app.taken"))).is_err());
    node.estimate(&wordcount(table("app.x"))).unwrap();
    assert_eq!((node.jobs().unwrap().len(), snapshots(&node)), (0, 0));
}

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
    assert!(other.cancel());
    other.wait();
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

#[test]
fn the_bytes_of_a_jobs_tables_are_those_of_all_rows_whatever_keys_it_reads() {
    let (_dir, node) = node_with_words();
    let bytes = |request: &JobRequest| {
        let open_job = OpenJob::open(request, &[], &node.site, &permit_all).unwrap();
        open_job.tables_bytes().unwrap()
    };
    // The table has 200 rows, each with a key of 4 bytes and a value of 12 bytes.
    let all_rows = 200 * (4 + 12);
    let mut request = wordcount(table("app.counts"));
    assert_eq!(bytes(&request), all_rows);
    let mut no_rows = TableInput::new("app.words".parse().unwrap());
    no_rows.keys = KeySelection::Prefix("no key".to_string());
    request.inputs = vec![InputRequest::Table(no_rows)];
    assert_eq!(bytes(&request), all_rows);
    assert_eq!(bytes(&endless(table("app.pi"))), 0, "it reads no table");
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

#[test]
fn a_what_if_does_not_look_at_the_output_which_a_submission_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let node = with_words(&dir.path().join("data"));
    // This records a profile of such jobs, which a what-if needs.
    succeed(&node, wordcount(table("app.counts")));
    let there = dir.path().join("out.tsv");
    std::fs::write(&there, "kept").unwrap();
    let request = wordcount(OutputPlace::File(there.clone()));
    assert!(node.sized(&request, &permit_all).unwrap().maps > 0);
    for refused in [
        node.submit(request.clone()).err(),
        node.estimate(&request).err(),
    ] {
        let refused = refused.expect("the output is there").to_string();
        assert!(refused.contains("exists already"), "{refused}");
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "kept");
    assert_eq!((node.jobs().unwrap().len(), snapshots(&node)), (1, 0));
}

#[test]
fn no_job_puts_its_output_into_the_directory_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let [data, link, out] = ["data", "link", "out"].map(|name| dir.path().join(name));
    let node = open(&data);
    std::fs::create_dir(&out).unwrap();
    symlink(&out, &link).unwrap();
    let to = |path: &str| JobRequest {
        directory: dir.path().to_path_buf(),
        ..endless(OutputPlace::File(path.into()))
    };
    let cancelled = node.submit(to("link/cancelled")).unwrap();
    assert!(cancelled.cancel());
    cancelled.wait();
    let parked = node.submit(to("link/parked")).unwrap();
    node.shutdown(Stop::Park);
    let [cancelled, parked] = [cancelled, parked].map(|job| job.id().to_string());
    drop(node);

    std::fs::remove_file(&link).unwrap();
    symlink(&data, &link).unwrap();
    let node = open(&data);
    for refused in [
        node.submit(to("data/new")).err(),
        node.submit(to("out/../link/new")).err(),
        node.estimate(&to("link/new")).err(),
        node.retry(&cancelled).err(),
        node.restart(&parked).err(),
    ] {
        let refused = refused.expect("the output lies there").to_string();
        let reason = "lies in the directory of the database";
        assert!(refused.contains(reason), "{refused}");
    }
    assert_eq!(node.job(&parked).unwrap().state, RecordState::Failed);
    assert_eq!(node.jobs().unwrap().len(), 2);
}

#[test]
fn an_output_table_with_too_long_a_name_is_refused_before_the_job_runs() {
    let (_dir, node) = node_with_words();
    let name = format!("app.{}", "t".repeat(NAME_BYTES_MAX + 1));
    let refused = node.submit(wordcount(table(&name))).err();
    let refused = refused.expect("no table has such a name").to_string();
    assert!(refused.contains("more than 128 bytes"), "{refused}");
    assert_eq!((node.jobs().unwrap().len(), snapshots(&node)), (0, 0));
    let name = format!("app.{}", "t".repeat(NAME_BYTES_MAX));
    succeed(&node, wordcount(table(&name)));
}

#[test]
fn a_parked_job_starts_again_on_the_next_node_over_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let id = {
        let node = with_words(dir.path());
        // Never more than a hundredth of a core: it does not end before it is parked.
        let job = node.submit(endless(table("app.pi"))).unwrap();
        node.shutdown(Stop::Park);
        let end = job.wait();
        assert!(end.parked && end.unrecorded.is_none());
        let closed = node.submit(wordcount(table("app.late")));
        assert!(closed.is_err(), "it takes no more");
        job.id().to_string()
    };
    let node = open(dir.path());
    let unfinished = node.unfinished().unwrap();
    assert_eq!(unfinished.len(), 1);
    assert_eq!((&unfinished[0].id, unfinished[0].starts), (&id, 1));
    let job = restart(&node, &id);
    assert_eq!((job.id(), job.record().starts), (&id[..], 2));
    assert!(job.cancel());
    job.wait();
    assert_eq!(node.job(&id).unwrap().state, RecordState::Cancelled);
    assert!(node.restart(&id).is_err(), "it has ended");
    assert_eq!(node.unfinished().unwrap(), []);
}

#[test]
fn a_job_may_be_parked_more_often_than_its_process_may_be_killed() {
    let (dir, node) = node_with_words();
    let job = node.submit(endless(table("app.pi"))).unwrap();
    let id = job.id().to_string();
    node.shutdown(Stop::Park);
    drop((job, node));
    for starts in 2..=STARTS_MAX + 2 {
        let node = open(dir.path());
        let job = restart(&node, &id);
        assert_eq!(
            (job.record().starts, job.record().parks),
            (starts, starts - 1)
        );
        node.shutdown(Stop::Park);
    }
}

/// Regression: restarting an unfinished job on a node that shuts down recorded the job as failed, and deleted
/// its snapshots.
#[test]
fn a_restart_on_a_node_that_shuts_down_leaves_the_job_and_its_snapshots_for_the_next_node() {
    let (dir, node) = node_with_words();
    let left = leave_unfinished(&node, "app.counts");
    let restart_is_refused = || {
        let refused = node.restart(&left.id).err();
        let refused = refused.expect("the node shuts down");
        let is_shutdown = matches!(refused, JobError::Submit(SubmitError::ShuttingDown));
        assert!(is_shutdown, "{refused}");
        assert_eq!(snapshots(&node), 1);
        node.job(&left.id).unwrap()
    };
    // The shutdown begins after the restart has found the node open.
    node.runtime().shutdown();
    let parked = restart_is_refused();
    assert_eq!(parked.state, RecordState::Started);
    assert_eq!((parked.starts, parked.parks), (2, 1));
    assert_eq!(parked.own_snapshots, left.own_snapshots);
    node.shutdown(Stop::Park);
    assert_eq!(
        restart_is_refused(),
        parked,
        "a closed node changes nothing"
    );
    drop(node);

    let node = open(dir.path());
    let job = restart(&node, &left.id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    assert_eq!(snapshots(&node), 0);
}

/// A chain with a length of two jobs. It returns `job` at each call, also at a third one, and calls `between`
/// before each job but the first.
struct TwoJobs {
    job: JobSpec,
    between: Box<dyn FnMut() + Send>,
}

impl Chain for TwoJobs {
    fn name(&self) -> &str {
        "two jobs"
    }

    fn length(&self) -> u32 {
        2
    }

    fn outline(&self) -> Outline {
        unreachable!("it is not estimated")
    }

    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError> {
        if done.is_some() {
            (self.between)();
        }
        Ok(Some(self.job.clone()))
    }

    fn describe(&self) -> Result<Vec<u8>, TaskError> {
        unreachable!("its tasks run on threads")
    }

    fn described_job(&self, _: &[u8]) -> Result<JobSpec, TaskError> {
        unreachable!("its tasks run on threads")
    }
}

/// Starts a chain of two jobs on a node over a table of words. `between` is called once the first job has
/// succeeded, before the second one is submitted.
fn start_two_jobs(node: &Node, between: impl FnMut() + Send + 'static) -> RunningJob {
    let request = wordcount(table("app.counts"));
    let mut open_job = OpenJob::open(&request, &[], &node.site, &permit_all).unwrap();
    let Some(Work::Job(mut spec)) = open_job.work.take() else {
        panic!("it is a single job");
    };
    spec.output = Arc::new(VecOutput::new());
    open_job.work = Some(Work::Chain(Box::new(TwoJobs {
        job: *spec,
        between: Box::new(between),
    })));
    let history = node.history().unwrap().unwrap();
    let begun = history.begin(&request, open_job.own_snapshots(), None);
    let (record, claim) = node.claim(&begun.unwrap().id).unwrap();
    let known = prospect(node, &request, &open_job, None).unwrap();
    let accepted = AcceptedJob::submit(node, request, record, &mut open_job, known).unwrap();
    accepted.begin(node, open_job, Arc::new(claim))
}

/// Starts a chain of two jobs, and waits until the first job has succeeded. The second job starts
/// when the sender sends a message.
fn hold_between_jobs(node: &Node) -> (RunningJob, Sender<()>) {
    let (reached, is_between) = mpsc::channel();
    let (resume, resumed) = mpsc::channel();
    let job = start_two_jobs(node, move || {
        reached.send(()).unwrap();
        resumed.recv().unwrap();
    });
    is_between.recv().unwrap();
    (job, resume)
}

/// Regression: a cancel between two jobs of a chain returned false ("too late"), and yet the job was
/// cancelled.
#[test]
fn a_cancel_between_two_jobs_of_a_chain_is_in_time() {
    let (_dir, node) = node_with_words();
    let (job, resume) = hold_between_jobs(&node);
    assert!(node.cancel(job.id()).unwrap());
    resume.send(()).unwrap();
    assert_eq!(job.wait().report.outcome, Outcome::Cancelled);
    assert_eq!(node.job(job.id()).unwrap().state, RecordState::Cancelled);
}

/// Regression: a stopping node accepted the cancellation of a job that it was parking, and parked the job all the
/// same, so the job started again on the next node.
#[test]
fn a_job_that_is_cancelled_while_it_is_being_parked_does_not_start_again() {
    let (dir, node) = node_with_words();
    let (job, resume) = hold_between_jobs(&node);
    let accepted = thread::scope(|scope| {
        scope.spawn(|| node.shutdown(Stop::Park));
        until("the shutdown to stop the job", || {
            job.stopped() == Some(Stop::Park)
        });
        let accepted = node.cancel(job.id());
        resume.send(()).unwrap();
        accepted
    });
    assert!(accepted.unwrap());
    let end = job.wait();
    assert_eq!(end.report.outcome, Outcome::Cancelled);
    assert!(!end.parked);
    assert_eq!(snapshots(&node), 0);
    let id = job.id().to_string();
    drop((job, node));
    let node = open(dir.path());
    assert_eq!(node.job(&id).unwrap().state, RecordState::Cancelled);
    assert_eq!(node.unfinished().unwrap(), []);
}

#[test]
fn the_cancellation_of_a_job_that_is_parked_already_is_refused() {
    let (_dir, node) = node_with_words();
    let refused = |job: &RunningJob, reason: &str| {
        assert!(!job.cancel());
        let refused = node.cancel(job.id()).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    };
    let job = node.submit(endless(table("app.pi"))).unwrap();
    // The decision that the thread of the job makes before it records that the job is parked.
    assert!(job.settle(|_| true));
    refused(&job, "is parked for a later start");
    assert_eq!(job.stopped(), None);
    job.handle().cancel();
    job.wait();
    let job = node.submit(endless(table("app.pi"))).unwrap();
    node.shutdown(Stop::Park);
    refused(&job, "is unfinished and does not run");
    assert_eq!(node.job(job.id()).unwrap().state, RecordState::Started);
}

/// Regression: a chain failed for good if the runtime accepted no more jobs when its second job was to
/// begin. The reasons are a shutdown, as here, and hanging tasks.
#[test]
fn a_chain_whose_second_job_is_not_accepted_is_left_for_the_next_node() {
    let (dir, node) = node_with_words();
    let runtime = Arc::clone(node.runtime());
    let job = start_two_jobs(&node, move || {
        runtime.shutdown();
    });
    let id = job.id().to_string();
    let end = job.wait();
    assert!(end.parked, "{end:?}");
    let Outcome::Failed { cause } = &end.report.outcome else {
        panic!("the report lacks the reason: {end:?}");
    };
    assert!(cause.starts_with("job 2 of the chain: "), "{cause}");
    let parked = node.job(&id).unwrap();
    assert_eq!((parked.state, parked.parks), (RecordState::Started, 1));
    assert_eq!(snapshots(&node), 1);
    drop(node);

    let node = open(dir.path());
    let job = restart(&node, &id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    assert_eq!(snapshots(&node), 0);
}

/// Regression: a restart that failed while the inputs and the output of the job were opened, for example on a
/// full disk, deleted the snapshots that the job's record names.
#[test]
fn a_job_that_is_opened_again_and_does_not_start_keeps_its_snapshots() {
    let (_dir, node) = node_with_words();
    let left = leave_unfinished(&node, "app.counts");
    let request = wordcount(table("app.counts"));
    let open_again =
        || OpenJob::open(&request, &left.own_snapshots, &node.site, &permit_all).unwrap();
    let opened = open_again();
    assert_eq!(opened.own_snapshots(), left.own_snapshots);
    drop(opened);
    assert_eq!(snapshots(&node), 1);
    let mut started = open_again();
    started.delete_snapshots_at_end();
    drop(started);
    assert_eq!(snapshots(&node), 0);
}

/// Regression: if the end of a job could not be recorded, its snapshots were deleted all the same, and its
/// next start found them gone.
#[test]
fn a_job_whose_end_is_not_in_the_history_keeps_its_snapshots() {
    let (_dir, node) = node_with_words();
    node.history().unwrap();
    let system = node.db().unwrap().existing_keyspace(SYSTEM_KEYSPACE);
    let system = system.unwrap();
    let unrecorded = |mut spec: JobSpec| {
        // From the first record that is mapped on, each write of the job's record fails.
        let map = move |_: &[u8], _: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
            let _ = system.drop_table("jobs");
            Ok(())
        };
        spec.mapper = Arc::new(map);
        spec
    };
    let request = wordcount(table("app.counts"));
    let job = node.submit_changed(request, unrecorded).unwrap();
    assert!(job.wait().unrecorded.is_some());
    assert_eq!(snapshots(&node), 1);
}

/// Regression: restarting an unfinished job on a full disk recorded the job as failed, and deleted its
/// snapshots.
#[test]
fn a_restart_on_a_full_disk_leaves_the_job_and_its_snapshots() {
    let disk = MemDisk::new();
    let open = || {
        let options = Options {
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            ..with_cql_tables(Options::default(), &GracePeriods::default())
        };
        let db = Db::open("/db", options).unwrap();
        Node::start(Some(db), NodeOptions::for_tests()).unwrap()
    };
    let node = open();
    let app = node.db().unwrap().keyspace("app").unwrap();
    let words = app.table("words", TableOptions::default()).unwrap();
    words.put(b"a", b"ebb flow ebb").unwrap();
    let left = leave_unfinished(&node, "app.counts");
    drop((node, app, words));
    // Too little for ordinary writes. The first write after an opening looks at the free space.
    disk.set_capacity_bytes(Some(disk.used_bytes() + (64 << 10)));
    let node = open();
    let refused = node.restart(&left.id).err().expect("the disk is full");
    assert_eq!(Failure::of(&refused), Failure::DiskFull, "{refused}");
    assert_eq!(node.job(&left.id).unwrap(), left);
    assert_eq!(snapshots(&node), 1);
    disk.set_capacity_bytes(None);
    drop(node);
    let node = open();
    let job = restart(&node, &left.id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
}

/// Regression: a job that the store refused a write for lack of space ended like any other failed job.
#[test]
fn a_job_to_which_the_store_gives_no_space_ends_as_one_of_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    for is_full in [true, false] {
        let refuses = move |_: &[u8], _: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
            let path = "rows.sst".into();
            Err(if is_full {
                TaskError::failed(ebb_storage::Error::DiskFull { path })
            } else {
                TaskError::failed(ebb_storage::Error::NoDatabase { path })
            })
        };
        let input = Arc::new(VecInput::lines("a", 1));
        let output = Arc::new(VecOutput::new());
        let spec = JobSpec::new("refused", input, Arc::new(refuses), output);
        let report = node.runtime().submit(spec).unwrap().wait();
        assert_eq!(report.disk_full, is_full, "{:?}", report.outcome);
    }
}

/// Regression: the reserve of disk space for the database limited only the spills of a job. The
/// files of its output could use up the reserve.
#[test]
fn a_file_of_a_job_leaves_the_disk_space_that_the_node_reserves() {
    let dir = tempfile::tempdir().unwrap();
    let words = dir.path().join("words");
    std::fs::write(&words, "ebb\nflow\n").unwrap();
    let mut options = NodeOptions::for_tests();
    options.colocated.runtime.spill_space = SpillSpace::new(|_| Ok(1));
    let node = Node::open(&dir.path().join("data"), Options::default(), options).unwrap();
    let application = ApplicationRequest::Grep(GrepRequest {
        pattern: "ebb".to_string(),
        regex: false,
    });
    let input = InputRequest::Text(TextInput {
        paths: vec![words],
        skip_bad: false,
    });
    let out = dir.path().join("out.tsv");
    let output = OutputPlace::File(out.clone()).into();
    let job = node.submit(JobRequest::new(application, vec![input], output, "/"));
    let end = job.unwrap().wait();
    let Outcome::Failed { cause } = &end.report.outcome else {
        panic!("{end:?}")
    };
    let expected = format!("the disk is full: 1 bytes are free at {}", out.display());
    assert!(cause.contains(&expected), "{cause}");
    let reserve_bytes = disk_reserve_bytes(node.db().unwrap());
    let expected = format!("jobs leave {reserve_bytes} to the database");
    assert!(cause.contains(&expected), "{cause}");
    assert!(!out.exists());
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
    assert!(job.cancel());
    job.wait();
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
        let recorded = History::open(node.db().unwrap()).unwrap().jobs();
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
fn a_job_into_the_table_of_a_running_job_is_refused_until_that_one_has_ended() {
    let (_dir, node) = node_with_words();
    let first = node.submit(endless(table("app.out"))).unwrap();
    let refused = node.submit(wordcount(table("app.out"))).err();
    let refused = refused.expect("the rows would be mixed").to_string();
    let expected = format!("job {} writes to table app.out", first.id());
    assert!(refused.contains(&expected), "{refused}");
    assert_eq!((node.jobs().unwrap().len(), snapshots(&node)), (1, 0));
    assert!(first.cancel());
    first.wait();
    succeed(&node, wordcount(table("app.out")));
}

#[test]
fn an_unfinished_job_stays_so_while_another_one_writes_to_its_table() {
    let (dir, node) = node_with_words();
    let parked = node.submit(endless(table("app.out"))).unwrap();
    let id = parked.id().to_string();
    node.shutdown(Stop::Park);
    drop((parked, node));
    let node = open(dir.path());
    let before = node.job(&id).unwrap();
    let other = node.submit(endless(table("app.out"))).unwrap();
    let refused = node.restart(&id).err();
    let refused = refused.expect("the rows would be mixed").to_string();
    let expected = format!("job {} writes to table app.out", other.id());
    assert!(refused.contains(&expected), "{refused}");
    assert_eq!(node.job(&id).unwrap(), before);
    assert!(other.cancel());
    other.wait();
    let job = restart(&node, &id);
    assert!(job.cancel());
    job.wait();
}

#[test]
fn rows_of_one_job_are_not_taken_for_those_of_another_that_was_killed_before_it_wrote_its_own() {
    let (_dir, node) = node_with_words();
    // The state that a killed process leaves: the job was about to put its rows in place, and has not.
    let request = wordcount(table("app.out"));
    let history = History::open(node.db().unwrap()).unwrap();
    let killed = history.begin(&request, Vec::new(), None).unwrap();
    history.begin_commit(&killed, None).unwrap();
    let id = &killed.id;
    let other = wordcount(table("app.out"));
    let refused = node.submit(other.clone()).err();
    let refused = refused.expect("the rows would be taken for those of the killed job");
    let expected = format!("wordcount {id} is unfinished, and may have put its rows into table");
    assert!(refused.to_string().contains(&expected), "{refused}");
    // Another unfinished job waits for that one, too, and stays as it is.
    let waits = history.begin(&other, Vec::new(), None).unwrap();
    assert!(node.restart(&waits.id).is_err());
    assert_eq!(node.job(&waits.id).unwrap(), waits);
    succeed(&node, wordcount(table("app.elsewhere")));

    // It has no rows, so it runs.
    let job = restart(&node, id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    assert_eq!(node.job(id).unwrap().starts, 2);
}

/// Regression: a restart took any file or folder with the name of the output for the output of the
/// interrupted job, and recorded that the job had succeeded.
#[test]
fn an_interrupted_job_has_succeeded_only_if_the_file_or_folder_in_its_place_is_its_own() {
    for is_folder in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let node = with_words(&dir.path().join("data"));
        let history = History::open(node.db().unwrap()).unwrap();
        let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
        let (place, target) = if is_folder {
            (
                OutputPlace::Folder(own.clone()),
                FilesTarget::Folder(own.clone()),
            )
        } else {
            (
                OutputPlace::File(own.clone()),
                FilesTarget::File(own.clone()),
            )
        };
        let request = wordcount(place);
        // The output of another job, with the same rows.
        succeed(&node, request.clone());
        std::fs::rename(&own, &other).unwrap();
        succeed(&node, request.clone());
        let written = target.written().unwrap().expect("the job has written it");
        // The state that a process leaves if it is killed before it records the end of the job.
        let interrupted = || {
            let record = history.begin(&request, Vec::new(), None).unwrap();
            let mark = Some(OutputMark::File(written));
            history.begin_commit(&record, mark).unwrap();
            record.id
        };
        let id = interrupted();
        let restarted = node.restart(&id).unwrap();
        assert!(matches!(restarted, Restart::HadSucceeded(_)));
        assert_eq!(node.job(&id).unwrap().state, RecordState::Succeeded);

        let id = interrupted();
        std::fs::rename(&own, dir.path().join("away")).unwrap();
        std::fs::rename(&other, &own).unwrap();
        let Restart::GivenUp(cause) = node.restart(&id).unwrap() else {
            panic!("the output is that of another job");
        };
        let expected = format!("{} is not known to be that output", request.output.to);
        assert!(cause.contains(&expected), "{cause}");
        assert_eq!(node.job(&id).unwrap().state, RecordState::Failed);
        assert!(own.exists(), "it is kept");
    }
}

/// Regression: a restart took the rows in any table with the name of the output for those of the
/// interrupted job, and recorded that the job had succeeded. A parked job put its rows into that
/// table.
#[test]
fn an_interrupted_job_has_succeeded_only_if_the_table_with_the_rows_is_its_own() {
    let (_dir, node) = node_with_words();
    let history = History::open(node.db().unwrap()).unwrap();
    let request = wordcount(table("app.out"));
    succeed(&node, request.clone());
    let tables = node.job("last").unwrap().tables;
    // The state that a killed process leaves. With `commits`, it was about to put rows in place.
    let interrupted = |commits: bool| {
        let tables = tables.clone();
        let begun = history.begin_claimed(&request, Vec::new(), tables, None, |_| Some(()));
        let (record, ()) = begun.unwrap();
        if commits {
            history.begin_commit(&record, None).unwrap();
        }
        record.id
    };
    let id = interrupted(true);
    let restarted = node.restart(&id).unwrap();
    assert!(matches!(restarted, Restart::HadSucceeded(_)));
    assert_eq!(node.job(&id).unwrap().state, RecordState::Succeeded);

    let app = app(&node);
    app.drop_table("out").unwrap();
    let other = app.create_table("out", TableOptions::default()).unwrap();
    other.put(b"k", b"theirs").unwrap();
    let [killed, parked] = [true, false].map(interrupted);
    for id in [killed, parked] {
        let refused = node.restart(&id).err();
        let refused = refused.expect("another table has the name").to_string();
        let expected = "table app.out was replaced";
        assert!(refused.starts_with(expected), "{refused}");
        assert_eq!(node.job(&id).unwrap().state, RecordState::Failed);
        // The parked job finds an empty table.
        other.delete(b"k").unwrap();
    }
    assert_eq!(other.range::<&[u8], _>(..).count(), 0);
    assert_eq!(snapshots(&node), 0);

    let id = interrupted(true);
    app.drop_table("out").unwrap();
    // The name is free, so it runs.
    let job = restart(&node, &id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
}

/// A killed process may leave a table that the record of its job does not have: the commit had just
/// created the table.
#[test]
fn a_job_that_was_killed_when_it_had_created_its_table_writes_that_table() {
    let (_dir, node) = node_with_words();
    let history = History::open(node.db().unwrap()).unwrap();
    let app = app(&node);
    for (name, commits, has_row, is_started) in [
        ("created", true, false, true),
        // Others have created these.
        ("early", false, false, false),
        ("filled", true, true, false),
    ] {
        let request = wordcount(table(&format!("app.{name}")));
        let killed = history.begin(&request, Vec::new(), None).unwrap();
        if commits {
            history.begin_commit(&killed, None).unwrap();
        }
        let output = app.create_table(name, TableOptions::default()).unwrap();
        if has_row {
            output.put(b"k", b"theirs").unwrap();
        }
        let restarted = node.restart(&killed.id);
        if is_started {
            let Ok(Restart::Runs(job)) = restarted else {
                panic!("{name}: it does not run");
            };
            assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
            assert_eq!(output.get(b"ebb").unwrap().unwrap(), "400");
            let tables = node.job(&killed.id).unwrap().tables;
            assert_eq!(tables.output, Some(output.number()));
        } else {
            let refused = restarted.err().expect(name).to_string();
            let expected = format!("table app.{name} was replaced");
            assert!(refused.starts_with(&expected), "{refused}");
            assert_eq!(output.get(b"ebb").unwrap(), None);
            let state = node.job(&killed.id).unwrap().state;
            assert_eq!(state, RecordState::Failed);
        }
    }
}

/// Regression: the table was looked up by name at the end of the job, so the rows went into the
/// table of another user.
#[test]
fn a_job_whose_output_table_is_replaced_while_it_runs_fails() {
    let (_dir, node) = node_with_words();
    let (keyspace, once) = (app(&node), Once::new());
    let options = TableOptions::default;
    let first = keyspace.create_table("out", options()).unwrap().number();
    let replacing = |mut spec: JobSpec| {
        let map = move |_: &[u8], _: &[u8], _: &mut dyn Emit| -> Result<(), TaskError> {
            once.call_once(|| {
                keyspace.drop_table("out").unwrap();
                keyspace.create_table("out", options()).unwrap();
            });
            Ok(())
        };
        spec.mapper = Arc::new(map);
        spec
    };
    let request = wordcount(table("app.out"));
    let job = node.submit_changed(request, replacing).unwrap();
    let end = job.wait();
    let Outcome::Failed { cause } = &end.report.outcome else {
        panic!("{end:?}")
    };
    assert!(cause.contains("table app.out was replaced"), "{cause}");
    assert_eq!(node.job(job.id()).unwrap().tables.output, Some(first));
}

#[test]
fn a_claimed_job_is_neither_started_nor_discarded() {
    let (_dir, node) = node_with_words();
    let request = wordcount(table("app.counts"));
    let history = History::open(node.db().unwrap()).unwrap();
    let id = history.begin(&request, Vec::new(), None).unwrap().id;
    let (_, claim) = node.claim(&id).unwrap();
    for refused in [node.restart(&id).err(), node.discard(&id).err()] {
        let refused = refused.expect("it is claimed").to_string();
        assert!(refused.contains("is running"), "{refused}");
    }
    assert_eq!(node.job(&id).unwrap().state, RecordState::Started);
    drop(claim);
    node.discard(&id).unwrap();
    assert_eq!(node.job(&id).unwrap().state, RecordState::Cancelled);
}

#[test]
fn a_snapshot_that_a_job_left_with_its_end_goes_and_one_that_has_its_name_now_stays() {
    // The record of an earlier build has no number of the commit.
    for has_number in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let record = {
            let node = with_words(dir.path());
            // The state that a process leaves if it is killed once the end is recorded.
            let mut record = leave_unfinished(&node, "app.counts");
            if !has_number {
                record.own_snapshots[0].seq = None;
            }
            // Its recorded end must be later than its recorded start.
            until("the clock to pass the start of the job", || {
                now_unix_ms() > record.started_unix_ms
            });
            let history = History::open(node.db().unwrap()).unwrap();
            history.end(&record, RecordState::Failed, None).unwrap();
            record
        };
        let name = &record.own_snapshots[0].name;
        let node = open(dir.path());
        assert_eq!(snapshots(&node), 0, "nobody needs it");
        app(&node).create_snapshot(name).unwrap();
        drop(node);
        let node = open(dir.path());
        let names = app(&node).snapshot_names();
        assert_eq!(names, std::slice::from_ref(name), "it is another");
    }
}

/// Regression: the record of a job identified the snapshot made for the job by its name alone. If that was
/// deleted and another snapshot got the name, a restart of the job read the other one, and a discard of the
/// job deleted it.
#[test]
fn a_job_does_not_read_or_delete_a_snapshot_that_has_the_name_of_its_own() {
    let (_dir, node) = node_with_words();
    let outputs = ["app.first", "app.second", "app.third"];
    let [discarded, replaced, deleted] = outputs.map(|output| leave_unfinished(&node, output));
    let others = ["run-1", "run-2"].map(|name| replace_snapshot(&node, name));
    app(&node).delete_snapshot("run-3").unwrap();

    node.discard(&discarded.id).unwrap();
    for (record, name) in [(replaced, "run-2"), (deleted, "run-3")] {
        let refused = node.restart(&record.id).err();
        let refused = refused.expect("its snapshot is gone").to_string();
        let missing = format!("snapshot {name} of keyspace app, which was made for the job");
        assert!(refused.starts_with(&missing), "{refused}");
        assert_eq!(node.job(&record.id).unwrap().state, RecordState::Failed);
    }
    let left = ["run-1", "run-2"].map(|name| app(&node).snapshot_seq(name).unwrap());
    assert_eq!(left, others);
}

/// Regression: if the snapshot made for a job was deleted while the job ran, and another snapshot got the
/// name, the end of the job deleted the other one.
#[test]
fn the_end_of_a_job_leaves_a_snapshot_that_has_the_name_of_its_own() {
    let (_dir, node) = node_with_words();
    let request = wordcount(table("app.counts"));
    let launched = OpenJob::open(&request, &[], &node.site, &permit_all).unwrap();
    let other = replace_snapshot(&node, "run-1");
    drop(launched);
    assert_eq!(app(&node).snapshot_seq("run-1").unwrap(), other);
}

/// Regression: each opening of a database deleted the snapshots that had the name of one made for an ended
/// job and were older than the end of the job, also if they were not made for the job.
#[test]
fn an_opening_leaves_a_snapshot_that_took_the_name_of_a_jobs_own_before_the_job_ended() {
    let dir = tempfile::tempdir().unwrap();
    let other = {
        let node = with_words(dir.path());
        let record = leave_unfinished(&node, "app.counts");
        let other = replace_snapshot(&node, "run-1");
        let created = app(&node).snapshot_info("run-1").unwrap().created;
        until("the clock to pass the creation of the snapshot", || {
            UNIX_EPOCH + Duration::from_millis(now_unix_ms()) > created
        });
        let history = History::open(node.db().unwrap()).unwrap();
        history.end(&record, RecordState::Failed, None).unwrap();
        other
    };
    let node = open(dir.path());
    assert_eq!(app(&node).snapshot_seq("run-1").unwrap(), other);
}

#[test]
fn snapshots_of_a_parked_job_wait_for_it_and_go_when_it_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    {
        let node = with_words(dir.path());
        leave_unfinished(&node, "app.counts");
        let history = History::open(node.db().unwrap()).unwrap();
        let request = wordcount(table("app.counts"));
        history.begin(&request, Vec::new(), None).unwrap();
    }
    let node = open(dir.path());
    assert_eq!(snapshots(&node), 1);
    // This row is written after the snapshot, so the job must not see it.
    let app = node.db().unwrap().keyspace("app").unwrap();
    let words = app.existing_table("words").unwrap();
    words.put(b"later", b"later").unwrap();
    let unfinished = node.unfinished().unwrap();
    node.discard(&unfinished[1].id).unwrap();
    let job = restart(&node, &unfinished[0].id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    let counts = app.existing_table("counts").unwrap();
    assert_eq!(counts.get(b"ebb").unwrap().unwrap(), "400");
    assert_eq!(counts.get(b"later").unwrap(), None);
    assert_eq!(snapshots(&node), 0);
    let states: Vec<_> = (node.jobs().unwrap().iter()).map(|job| job.state).collect();
    assert_eq!(states, [RecordState::Succeeded, RecordState::Cancelled]);
}

#[test]
fn a_goal_counts_from_the_latest_start_of_a_job() {
    let (_dir, node) = node_with_words();
    let request = JobRequest {
        goal_s: Some(3600.0),
        ..endless(table("app.pi"))
    };
    let first = node.submit(request.clone()).unwrap();
    assert_eq!(first.begun_unix_ms(), first.record().started_unix_ms);
    // The state that a killed process leaves.
    let history = History::open(node.db().unwrap()).unwrap();
    let request = JobRequest {
        output: table("app.again").into(),
        ..request
    };
    let record = history.begin(&request, Vec::new(), None).unwrap();
    until("the clock to pass the first start", || {
        now_unix_ms() > record.started_unix_ms
    });
    let again = restart(&node, &record.id);
    assert_eq!(again.record().started_unix_ms, record.started_unix_ms);
    assert!(again.begun_unix_ms() > record.started_unix_ms);
    for job in [first, again] {
        job.cancel();
        job.wait();
    }
}

#[test]
fn a_submission_is_found_behind_a_job_that_began_while_the_clock_was_wrong() {
    let (_dir, node) = node_with_words();
    let history = History::open(node.db().unwrap()).unwrap();
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

#[test]
fn a_node_without_a_database_runs_jobs_and_remembers_none() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(None, NodeOptions::command().at_normal_priority()).unwrap();
    assert!(node.governor().is_none());
    let pi = |name: &str| JobRequest {
        application: ApplicationRequest::Pi(PiRequest {
            points: 1,
            seed: 1,
            variant: Variant::Plain,
        }),
        ..endless(OutputPlace::File(dir.path().join(name)))
    };
    let [first, second] = ["a.tsv", "b.tsv"].map(|name| node.submit(pi(name)).unwrap());
    assert!(second.id() > first.id());
    for job in [first, second] {
        assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
    }
    assert!(dir.path().join("b.tsv").exists());
    assert_eq!(node.jobs().unwrap(), []);
    let refused = node.submit(wordcount(table("app.counts"))).err().unwrap();
    assert!(refused.to_string().contains("no database"), "{refused}");
}

#[test]
fn a_job_that_its_caller_changes_is_listed_and_recorded_with_its_request() {
    let (_dir, node) = node_with_words();
    let request = wordcount(table("app.counts"));
    let named = |mut spec: JobSpec| {
        spec.name = "the first".to_string();
        spec
    };
    let job = node.submit_changed(request.clone(), named).unwrap();
    assert_eq!(job.handle().status().name, "the first");
    let end = job.wait();
    assert_eq!(end.report.outcome, Outcome::Succeeded);
    let record = node.job(job.id()).unwrap();
    assert_eq!(record.application, "wordcount");
    assert_eq!(record.state, RecordState::Succeeded);
    assert_eq!(job.request(), &request);
}
