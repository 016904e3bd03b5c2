//! A node over a database with a table of words.

mod jobs;
mod outputs;
mod records;
mod snapshots;
mod stops;

use std::thread;
use std::time::Duration;

use ebb_jobs::history::{JobRecord, RecordState, SYSTEM_KEYSPACE, now_unix_ms};
use ebb_jobs::launch::OpenJob;
use ebb_jobs::pi::Variant;
use ebb_jobs::request::{
    ApplicationRequest, InputRequest, OutputPlace, PiRequest, TableInput, WordcountRequest,
};
use ebb_scheduler::runtime::{Emit, Outcome, TaskError, VecOutput};
use ebb_storage::{Keyspace, TableOptions};
use ebb_test_support::wait::until;
use tempfile::TempDir;

use super::*;
use crate::jobs::{JobEnd, JobView, Jobs, ReadJobs};

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

fn open_history(node: &Node) -> History {
    History::open(node.db().unwrap()).unwrap()
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

/// Starts an unfinished job again, and waits until it has succeeded.
fn succeed_again(node: &Node, id: &str) {
    let job = restart(node, id);
    assert_eq!(job.wait().report.outcome, Outcome::Succeeded);
}

/// Cancels a job, and waits until it has ended.
fn cancel(job: &RunningJob) {
    assert!(job.cancel());
    job.wait();
}

/// Asserts that a call failed with an error whose text contains `reason`.
#[track_caller]
fn assert_refused<T>(result: Result<T, JobError>, reason: &str) {
    let refused = result.err().expect(reason).to_string();
    assert!(refused.contains(reason), "{refused}");
}

/// Returns the cause of the failure of a job.
#[track_caller]
fn cause(end: &JobEnd) -> &str {
    match &end.report.outcome {
        Outcome::Failed { cause } => cause,
        _ => panic!("{end:?}"),
    }
}

/// Leaves an unfinished job with a snapshot of its own, as a killed process does. Returns its record.
fn leave_unfinished(node: &Node, output: &str) -> JobRecord {
    let request = wordcount(table(output));
    let mut launched = OpenJob::open(&request, &[], &node.site, &permit_all).unwrap();
    let history = open_history(node);
    let own = launched.own_snapshots();
    let record = history.begin(&request, own, None).unwrap();
    launched.keep();
    record
}
