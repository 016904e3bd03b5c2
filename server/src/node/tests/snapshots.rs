//! The snapshots that nodes make for jobs, and others that have their names.

use std::time::UNIX_EPOCH;

use ebb_storage::SeqNo;

use super::*;

/// Deletes a snapshot and creates another one of the same name. Returns the sequence number of the new one.
fn replace_snapshot(node: &Node, name: &str) -> SeqNo {
    let app = app(node);
    app.delete_snapshot(name).unwrap();
    let options = ebb_storage::SnapshotOptions::default();
    app.create_snapshot_with(name, options).unwrap()
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
            let history = open_history(&node);
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
        let history = open_history(&node);
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
        let history = open_history(&node);
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
    succeed_again(&node, &unfinished[0].id);
    let counts = app.existing_table("counts").unwrap();
    assert_eq!(counts.get(b"ebb").unwrap().unwrap(), "400");
    assert_eq!(counts.get(b"later").unwrap(), None);
    assert_eq!(snapshots(&node), 0);
    let states: Vec<_> = (node.jobs().unwrap().iter()).map(|job| job.state).collect();
    assert_eq!(states, [RecordState::Succeeded, RecordState::Cancelled]);
}
