//! The outputs of jobs: whose rows a table, file or folder has, and the disk space that jobs leave.

use std::sync::Once;

use ebb_jobs::history::OutputMark;
use ebb_jobs::request::{GrepRequest, TextInput};
use ebb_jobs::{FilesTarget, disk_reserve_bytes};
use ebb_scheduler::runtime::{SpillSpace, VecInput};

use super::*;

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
    let cause = cause(&end);
    let expected = format!("the disk is full: 1 bytes are free at {}", out.display());
    assert!(cause.contains(&expected), "{cause}");
    let reserve_bytes = disk_reserve_bytes(node.db().unwrap());
    let expected = format!("jobs leave {reserve_bytes} to the database");
    assert!(cause.contains(&expected), "{cause}");
    assert!(!out.exists());
}

#[test]
fn a_job_into_the_table_of_a_running_job_is_refused_until_that_one_has_ended() {
    let (_dir, node) = node_with_words();
    let first = node.submit(endless(table("app.out"))).unwrap();
    let reason = format!("job {} writes to table app.out", first.id());
    assert_refused(node.submit(wordcount(table("app.out"))), &reason);
    assert_eq!((node.jobs().unwrap().len(), snapshots(&node)), (1, 0));
    cancel(&first);
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
    let reason = format!("job {} writes to table app.out", other.id());
    assert_refused(node.restart(&id), &reason);
    assert_eq!(node.job(&id).unwrap(), before);
    cancel(&other);
    let job = restart(&node, &id);
    cancel(&job);
}

#[test]
fn rows_of_one_job_are_not_taken_for_those_of_another_that_was_killed_before_it_wrote_its_own() {
    let (_dir, node) = node_with_words();
    // The state that a killed process leaves: the job was about to put its rows in place, and has not.
    let request = wordcount(table("app.out"));
    let history = open_history(&node);
    let killed = history.begin(&request, Vec::new(), None).unwrap();
    history.begin_commit(&killed, None).unwrap();
    let id = &killed.id;
    let other = wordcount(table("app.out"));
    let reason = format!("wordcount {id} is unfinished, and may have put its rows into table");
    assert_refused(node.submit(other.clone()), &reason);
    // Another unfinished job waits for that one, too, and stays as it is.
    let waits = history.begin(&other, Vec::new(), None).unwrap();
    assert!(node.restart(&waits.id).is_err());
    assert_eq!(node.job(&waits.id).unwrap(), waits);
    succeed(&node, wordcount(table("app.elsewhere")));

    // It has no rows, so it runs.
    succeed_again(&node, id);
    assert_eq!(node.job(id).unwrap().starts, 2);
}

/// Regression: a restart took any file or folder with the name of the output for the output of the
/// interrupted job, and recorded that the job had succeeded.
#[test]
fn an_interrupted_job_has_succeeded_only_if_the_file_or_folder_in_its_place_is_its_own() {
    for is_folder in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let node = with_words(&dir.path().join("data"));
        let history = open_history(&node);
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
        let Restart::HadSucceeded(record) = node.restart(&id).unwrap() else {
            panic!("its output is in place");
        };
        assert_eq!(record.state, RecordState::Succeeded);
        // Regression: the response was the record before this end.
        assert_eq!(*record, node.job(&id).unwrap());

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
    let history = open_history(&node);
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
    succeed_again(&node, &id);
}

/// A killed process may leave a table that the record of its job does not have: the commit had just
/// created the table.
#[test]
fn a_job_that_was_killed_when_it_had_created_its_table_writes_that_table() {
    let (_dir, node) = node_with_words();
    let history = open_history(&node);
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
    let cause = cause(&end);
    assert!(cause.contains("table app.out was replaced"), "{cause}");
    assert_eq!(node.job(job.id()).unwrap().tables.output, Some(first));
}
