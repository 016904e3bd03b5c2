//! Jobs from their submission to their end, and what is refused before they start.

use std::os::unix::fs::symlink;

use ebb_colocate::LoadSample;
use ebb_jobs::request::KeySelection;
use ebb_storage::NAME_BYTES_MAX;

use super::*;
use crate::jobs::{Beside, Wait};

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
    assert_refused(node.discard(endless.id()), "is running");
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
    assert_refused(node.submit(request.clone()), "exists already");
    assert_refused(node.estimate(&request), "exists already");
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
    cancel(&cancelled);
    let parked = node.submit(to("link/parked")).unwrap();
    node.shutdown(Stop::Park);
    let [cancelled, parked] = [cancelled, parked].map(|job| job.id().to_string());
    drop(node);

    std::fs::remove_file(&link).unwrap();
    symlink(&data, &link).unwrap();
    let node = open(&data);
    let reason = "lies in the directory of the database";
    assert_refused(node.submit(to("data/new")), reason);
    assert_refused(node.submit(to("out/../link/new")), reason);
    assert_refused(node.estimate(&to("link/new")), reason);
    assert_refused(node.retry(&cancelled), reason);
    assert_refused(node.restart(&parked), reason);
    assert_eq!(node.job(&parked).unwrap().state, RecordState::Failed);
    assert_eq!(node.jobs().unwrap().len(), 2);
}

#[test]
fn an_output_table_with_too_long_a_name_is_refused_before_the_job_runs() {
    let (_dir, node) = node_with_words();
    let name = format!("app.{}", "t".repeat(NAME_BYTES_MAX + 1));
    assert_refused(node.submit(wordcount(table(&name))), "more than 128 bytes");
    assert_eq!((node.jobs().unwrap().len(), snapshots(&node)), (0, 0));
    let name = format!("app.{}", "t".repeat(NAME_BYTES_MAX));
    succeed(&node, wordcount(table(&name)));
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
    let history = open_history(&node);
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
    assert_refused(node.submit(wordcount(table("app.counts"))), "no database");
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
