//! Jobs whose process ended shortly before or after their output was put in place.

use std::process::Stdio;
use std::time::Duration;

use ebb_jobs::history::{History, JobRecord, JobTables, OwnSnapshot};
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_storage::{Db, Options};
use ebb_test_support::wait::until;
use serde_json::{Value, json};

use crate::place::{Place, Running};

/// Opens the database and its history of jobs, calls `f`, and closes them again.
fn with_history<T>(place: &Place, f: impl FnOnce(&History) -> T) -> T {
    let done = {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        f(&History::open(&db).unwrap())
    };
    place.until_unlocked();
    done
}

/// Returns the record that a job keeps of the snapshot `run-7`, as if the job had created this
/// snapshot to read its input.
fn own() -> Vec<OwnSnapshot> {
    vec![OwnSnapshot {
        input: 0,
        keyspace: "app".to_string(),
        name: "run-7".to_string(),
        seq: None,
    }]
}

/// Leaves an unfinished job in the history, as a killed process does, and returns its record. The
/// request is that of the latest job in the history, altered by `changed`. The job has a snapshot
/// of its own, `run-7`. With `commits`, the process was about to put the job's output in place.
fn left(place: &Place, commits: bool, changed: impl FnOnce(&mut JobRequest)) -> JobRecord {
    (place.ebb("snapshot create --table app.lines run-7")).ok();
    with_history(place, |history| {
        let mut request = history.jobs().unwrap().pop().unwrap().request().unwrap();
        changed(&mut request);
        let record = history.begin(&request, own(), None).unwrap();
        if commits {
            history.begin_commit(&record, None).unwrap();
        }
        record
    })
}

fn last(place: &Place) -> Value {
    let jobs = place.ebb("jobs --json").json();
    jobs.as_array().unwrap().last().unwrap().clone()
}

fn snapshots(place: &Place) -> Vec<Value> {
    let listed = place.ebb("snapshot list --json").json();
    let all = listed.as_array().unwrap().iter();
    all.map(|snapshot| snapshot["name"].clone()).collect()
}

#[test]
fn a_job_that_was_killed_when_its_output_appeared_has_succeeded() {
    let place = Place::with_corpus();
    let job = "run grep --table app.lines --pattern Ebb --output found.tsv";
    let output = place.path("found.tsv");
    let was_in_time = (0..100).any(|_| {
        let _ = std::fs::remove_file(&output);
        let mut command = place.command(job);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        until("the output of the job", || {
            // The job records its end within milliseconds after its output appears, which is as
            // short as the time between two looks of `until`.
            (0..20).any(|_| {
                std::thread::park_timeout(Duration::from_micros(100));
                output.exists() || child.has_ended()
            })
        });
        child.kill();
        last(&place)["state"] == "started"
    });
    assert!(
        was_in_time,
        "every job recorded its end before it was killed"
    );
    let found = place.read("found.tsv");
    assert!(found.lines().count() > 100);

    let again = place.ebb("jobs restart");
    assert!(again.stderr.contains("had succeeded"), "{}", again.stderr);
    let said = again.ok();
    assert!(said.contains("grep succeeded"), "{said}");
    assert!(said.contains("file found.tsv"), "{said}");
    assert_eq!(place.read("found.tsv"), found);
    let recorded = last(&place);
    assert_eq!(
        (&recorded["state"], &recorded["starts"]),
        (&json!("succeeded"), &json!(1))
    );
    assert_eq!(snapshots(&place), ["s"], "its own went with it");
    // A new run with the same output is refused, as after any other job.
    let said = place.ebb(job).fails(1);
    assert!(said.contains("found.tsv exists"), "{said}");
}

#[test]
fn rows_in_a_table_are_those_of_the_job_that_came_to_put_them_there() {
    let place = Place::with_corpus();
    let job = "run grep --table app.lines --pattern Ebb";
    place.ebb(&format!("{job} --output app.found")).ok();
    // The number of starts does not matter: the last one has committed.
    let recorded = left(&place, false, |_| {});
    with_history(&place, |history| {
        // The job that has just run wrote its rows into the table with this number.
        let tables = history.jobs().unwrap().remove(0).tables;
        let again = |job: &JobRecord| history.begin_again(job, own(), tables.clone());
        let recorded = again(&again(&recorded).unwrap()).unwrap();
        history.begin_commit(&recorded, None).unwrap();
    });
    let restarted = place.ebb("jobs restart --json").json();
    assert_eq!(restarted["outcome"]["kind"], "succeeded");
    assert_eq!(restarted["output"], "table app.found");
    assert_eq!(restarted["job"], last(&place)["id"]);
    let shown = place.ebb("jobs last").ok();
    assert!(shown.contains("succeeded"), "{shown}");
    assert_eq!(snapshots(&place), ["s"]);
}

#[test]
fn a_job_that_came_to_it_and_has_no_output_starts_again() {
    let place = Place::with_corpus();
    let job = "run grep --table app.lines --pattern Ebb";
    place.ebb(&format!("{job} --output found.tsv")).ok();
    left(&place, true, |request| {
        request.output.to = OutputPlace::File("again.tsv".into());
    });
    let restarted = place.ebb("jobs restart");
    assert!(
        restarted.stderr.contains("starting grep"),
        "{}",
        restarted.stderr
    );
    restarted.ok();
    assert_eq!(place.read("again.tsv"), place.read("found.tsv"));
    assert_eq!(last(&place)["starts"], 2);
}

#[test]
fn an_output_of_another_process_is_kept_and_fails_the_job() {
    let place = Place::with_corpus();
    let job = "run grep --table app.lines --pattern Ebb";
    place.ebb(&format!("{job} --output found.tsv")).ok();
    place.write("mine.tsv", "mine");
    left(&place, false, |request| {
        request.output.to = OutputPlace::File("mine.tsv".into());
    });
    let said = place.ebb("jobs restart").fails(1);
    assert!(said.contains("mine.tsv exists"), "{said}");
    assert_eq!(place.read("mine.tsv"), "mine");
    assert_eq!(last(&place)["state"], "failed");
    assert_eq!(snapshots(&place), ["s"]);
    // A job that is given up leaves no snapshot, either.
    let recorded = left(&place, false, |_| {});
    with_history(&place, |history| {
        let again = |job: &JobRecord| history.begin_again(job, own(), JobTables::default());
        again(&again(&recorded).unwrap()).unwrap();
    });
    place.ebb("jobs restart").fails(2);
    assert_eq!(snapshots(&place), ["s"]);
}
