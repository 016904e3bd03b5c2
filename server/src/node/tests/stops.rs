//! Jobs that are stopped before their end: cancelled, parked, or killed with their process, and started
//! again. Some are chains of jobs, which are stopped between two of them.

use std::sync::mpsc::{self, Sender};

use ebb_jobs::history::STARTS_MAX;
use ebb_jobs::{Chain, Failure, Outline, Work};
use ebb_scheduler::runtime::{JobReport, SubmitError};
use ebb_storage::Maintenance;
use ebb_storage::simulation::{FaultOp, MemDisk};

use super::*;
use crate::node::drive::AcceptedJob;
use crate::node::expect::prospect;

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
    cancel(&job);
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

/// Opens a node over the database on a simulated disk.
fn open_on(disk: &MemDisk) -> Node {
    let options = Options {
        disk: Arc::new(disk.clone()),
        maintenance: Maintenance::Manual,
        ..with_cql_tables(Options::default(), &GracePeriods::default())
    };
    let db = Db::open("/db", options).unwrap();
    Node::start(Some(db), NodeOptions::for_tests()).unwrap()
}

/// Regression: after a failed write a node cannot record that it parks its jobs. The third start after such
/// writes gave the job up, as if the job had ended the processes.
#[test]
fn parks_that_could_not_be_recorded_do_not_count_against_a_job() {
    let disk = MemDisk::new();
    let mut node = open_on(&disk);
    let keyspace = node.db().unwrap().keyspace("app").unwrap();
    keyspace.table("words", TableOptions::default()).unwrap();
    drop(keyspace);
    let mut job = node.submit(endless(table("app.pi"))).unwrap();
    let id = job.id().to_string();
    for starts in 2..=STARTS_MAX + 2 {
        disk.fail_next(FaultOp::Append, 1, io::ErrorKind::Other);
        let words = app(&node).existing_table("words").unwrap();
        until("the writes to stop", || words.put(b"a", b"ebb").is_err());
        node.shutdown(Stop::Park);
        assert!(job.wait().unrecorded.is_some());
        drop((words, job, node));
        node = open_on(&disk);
        let left = node.job(&id).unwrap();
        assert_eq!((left.starts, left.parks), (starts - 1, starts - 2));
        node.note_parked(&id).unwrap();
        let noted = node.job(&id).unwrap();
        assert_eq!(noted.parks, starts - 1);
        // Each start is noted once.
        node.note_parked(&id).unwrap();
        assert_eq!(node.job(&id).unwrap(), noted);
        job = restart(&node, &id);
    }
    cancel(&job);
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
    succeed_again(&node, &left.id);
    assert_eq!(snapshots(&node), 0);
}

/// Regression: restarting an unfinished job on a full disk recorded the job as failed, and deleted its
/// snapshots.
#[test]
fn a_restart_on_a_full_disk_leaves_the_job_and_its_snapshots() {
    let disk = MemDisk::new();
    let node = open_on(&disk);
    let app = node.db().unwrap().keyspace("app").unwrap();
    let words = app.table("words", TableOptions::default()).unwrap();
    words.put(b"a", b"ebb flow ebb").unwrap();
    let left = leave_unfinished(&node, "app.counts");
    drop((node, app, words));
    // Too little for ordinary writes. The first write after an opening looks at the free space.
    disk.set_capacity_bytes(Some(disk.used_bytes() + (64 << 10)));
    let node = open_on(&disk);
    let refused = node.restart(&left.id).err().expect("the disk is full");
    assert_eq!(Failure::of(&refused), Failure::DiskFull, "{refused}");
    assert_eq!(node.job(&left.id).unwrap(), left);
    assert_eq!(snapshots(&node), 1);
    disk.set_capacity_bytes(None);
    drop(node);
    let node = open_on(&disk);
    succeed_again(&node, &left.id);
}

#[test]
fn a_claimed_job_is_neither_started_nor_discarded() {
    let (_dir, node) = node_with_words();
    let request = wordcount(table("app.counts"));
    let history = open_history(&node);
    let id = history.begin(&request, Vec::new(), None).unwrap().id;
    let (_, claim) = node.claim(&id).unwrap();
    assert_refused(node.restart(&id), "is running");
    assert_refused(node.discard(&id), "is running");
    assert_eq!(node.job(&id).unwrap().state, RecordState::Started);
    drop(claim);
    node.discard(&id).unwrap();
    assert_eq!(node.job(&id).unwrap().state, RecordState::Cancelled);
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
        assert_refused(node.cancel(job.id()), reason);
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
    let cause = cause(&end);
    assert!(cause.starts_with("job 2 of the chain: "), "{cause}");
    let parked = node.job(&id).unwrap();
    assert_eq!((parked.state, parked.parks), (RecordState::Started, 1));
    assert_eq!(snapshots(&node), 1);
    drop(node);

    let node = open(dir.path());
    succeed_again(&node, &id);
    assert_eq!(snapshots(&node), 0);
}
