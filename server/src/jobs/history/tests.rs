use ebb_scheduler::model::{JobId, TaskKind};
use ebb_scheduler::runtime::{AttemptOutcome, AttemptRecord, JobJournal};
use ebb_storage::Options;
use serde_json::json;

use super::*;

#[test]
fn a_job_that_began_is_unfinished_until_it_ends_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::default()).unwrap();
    let db = open();
    assert!(History::existing(&db).unwrap().is_none());
    let history = History::open(&db).unwrap();
    let first = history
        .begin("grep", json!({"pattern": "x"}), "/d")
        .unwrap();
    let second = history.begin("sort", json!({}), "/d").unwrap();
    let third = history.begin("pi", json!({}), "/d").unwrap();
    assert!(first.id < second.id && second.id < third.id);
    history.forget(&third.id).unwrap();
    let report = Some(json!({"cpu_s": 1.5}));
    history
        .end(&second, NotedState::Succeeded, report.clone())
        .unwrap();
    drop((history, db));
    let db = open();
    let history = History::existing(&db).unwrap().unwrap();
    assert_eq!(history.unfinished().unwrap(), [first]);
    let jobs = history.jobs().unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!(
        (jobs[1].state, &jobs[1].report),
        (NotedState::Succeeded, &report)
    );
    assert!(jobs[1].ended_unix_ms.is_some());
}

#[test]
fn ended_jobs_are_forgotten_in_the_end_and_unfinished_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    let unfinished = history.begin("first", json!(null), "/d").unwrap();
    for n in 0..ENDED_JOBS_MAX + 5 {
        let job = history.begin("next", json!(n), "/d").unwrap();
        history.end(&job, NotedState::Failed, None).unwrap();
    }
    let jobs = history.jobs().unwrap();
    assert_eq!(jobs.len(), ENDED_JOBS_MAX + 1);
    assert_eq!(jobs[0], unfinished);
    assert_eq!(jobs[1].arguments, json!(5));
}

fn attempt(index: u32, outcome: AttemptOutcome) -> AttemptRecord {
    AttemptRecord {
        kind: TaskKind::Map,
        index,
        attempt: 1,
        started_s: 0.5,
        ended_s: 1.5 + f64::from(index),
        cpu_s: 0.25,
        shuffle_cpu_s: 0.125,
        bytes_in: 1 << 20,
        bytes_out: 100,
        spilled_bytes: 50,
        memory_bytes_max: 1 << 16,
        outcome,
    }
}

fn failed(cause: &str) -> AttemptOutcome {
    AttemptOutcome::Failed {
        cause: cause.to_string(),
    }
}

#[test]
fn attempts_are_kept_in_their_order_and_go_with_their_job() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    let first = history.begin("sort", json!({}), "/d").unwrap();
    let second = history.begin("sort", json!({}), "/d").unwrap();
    let mut expected = Vec::new();
    let recorder = Recorder::start(&history, &first).unwrap();
    for n in 0..700 {
        let outcome = match n % 3 {
            0 => AttemptOutcome::Done,
            1 => failed(&format!("reason {n}: \"quoted\"")),
            _ => AttemptOutcome::LeftBehind,
        };
        let record = attempt(n, outcome);
        recorder.attempt_ended(JobId(u64::from(n / 400) + 1), &record);
        let job = u64::from(n / 400) + 1;
        expected.push(NotedAttempt { job, record });
    }
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.attempts_dropped, 0);
    let other = Recorder::start(&history, &second).unwrap();
    other.attempt_ended(JobId(1), &attempt(9, AttemptOutcome::Stopped));
    drop(other);

    assert_eq!(history.attempts(&first.id).unwrap(), expected);
    assert_eq!(history.attempts(&second.id).unwrap().len(), 1);
    history.forget(&first.id).unwrap();
    assert_eq!(history.attempts(&first.id).unwrap(), []);
    assert_eq!(history.attempts(&second.id).unwrap().len(), 1);
    // What a start left is not mixed with what the next one leaves.
    let again = history.begin_again(&second).unwrap();
    assert_eq!(again.starts, 2);
    assert_eq!(history.attempts(&second.id).unwrap(), []);
    assert_eq!(history.jobs().unwrap(), [again]);
}

#[test]
fn a_cause_that_holds_a_long_record_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    let job = history.begin("sort", json!({}), "/d").unwrap();
    let recorder = Recorder::start(&history, &job).unwrap();
    recorder.attempt_ended(JobId(1), &attempt(0, failed(&"\u{e4}".repeat(5000))));
    recorder.finish().unwrap();
    let kept = history.attempts(&job.id).unwrap();
    let expected = format!("{}...", "\u{e4}".repeat(500));
    assert_eq!(kept[0].record.outcome, failed(&expected));
}

#[test]
fn of_very_many_attempts_the_first_are_kept_and_the_others_counted() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    let job = history.begin("sort", json!({}), "/d").unwrap();
    let recorder = Recorder::start(&history, &job).unwrap();
    for n in 0..ATTEMPTS_KEPT_MAX + 7 {
        recorder.attempt_ended(JobId(1), &attempt(n, AttemptOutcome::Done));
    }
    assert_eq!(recorder.finish().unwrap().attempts_dropped, 7);
    let kept = history.attempts(&job.id).unwrap();
    let indices = kept.iter().map(|attempt| attempt.record.index);
    assert!(indices.eq(0..ATTEMPTS_KEPT_MAX));
}

#[test]
fn a_note_of_before_attempts_were_kept_still_reads() {
    let old = r#"{"id":"1","application":"grep","arguments":{},"directory":"/d","state":"started",
        "started_unix_ms":7,"ended_unix_ms":null,"report":null}"#;
    let job: NotedJob = serde_json::from_str(old).unwrap();
    assert_eq!((job.starts, job.attempts_dropped), (1, 0));
}

#[test]
fn the_same_work_is_known_best_and_otherwise_the_latest_of_the_application() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    let measured = |cpu_s: f64| {
        let mut measured = MeasuredProfile::default();
        let mut task = attempt(0, AttemptOutcome::Done);
        task.cpu_s = cpu_s;
        measured.add(&task);
        measured
    };
    let note = |application: &str, work: Value, cpu_s: f64| {
        let job = history.begin(application, json!({}), "/d").unwrap();
        let jobs = vec![(application.to_string(), measured(cpu_s))];
        (history.note_profile(&job, &work, "app.t", jobs, Some(cpu_s))).unwrap();
    };
    let known = |application: &str, work: Value| {
        let known = history.known_profile(application, &work).unwrap()?;
        let measured = known.noted.measured(application).unwrap();
        Some((measured.map.cpu_s, known.is_same_work))
    };
    assert_eq!(known("sort", json!({"by": "a"})), None);
    note("sort", json!({"by": "a"}), 1.0);
    note("sort", json!({"by": "b"}), 2.0);
    note("sorting", json!({"by": "c"}), 3.0);
    assert_eq!(known("sort", json!({"by": "a"})), Some((1.0, true)));
    note("sort", json!({"by": "a"}), 4.0);
    assert_eq!(known("sort", json!({"by": "a"})), Some((4.0, true)));
    let same = history.known_profile("sort", &json!({"by": "a"})).unwrap();
    assert_eq!(same.unwrap().noted.took_over_estimate, [1.0, 4.0]);
    let (_, is_same_work) = known("sort", json!({"by": "c"})).unwrap();
    assert!(!is_same_work);
    assert_eq!(known("grep", json!({})), None);
    for n in 0..200 {
        note("sort", json!(n), 5.0);
    }
    let all = history.profiles().unwrap();
    let of = |name: &str| all.iter().filter(|p| p.application == name).count();
    assert_eq!((of("sort"), of("sorting")), (100, 1));
}
