use ebb_scheduler::model::{JobId, TaskKind};
use ebb_scheduler::runtime::{
    AttemptOutcome, AttemptRecord, JobJournal, Outcome, Output, OutputWriter, TaskError, VecOutput,
};
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_storage::{
    BackupInfo, Finding, Maintenance, Options, RestoreReport, RestoredFile, VerifyReport,
};
use ebb_test_support::wait::until;
use serde_json::json;
use std::io;
use std::sync::Arc;
use tempfile::TempDir;

use super::retention::{ENDED_JOBS_MAX, forgettable};
use super::*;
use crate::pi::Variant;
use crate::request::{ApplicationRequest, OutputPlace, PiRequest};

/// Returns a request for an estimate of pi, which differs from other requests by its `seed`.
fn pi(seed: u64) -> JobRequest {
    let application = ApplicationRequest::Pi(PiRequest {
        points: 1,
        seed,
        variant: Variant::Plain,
    });
    JobRequest::new(application, Vec::new(), OutputPlace::Terminal.into(), "/d")
}

/// Opens the history of an empty database, in a directory that lasts as long as the first value.
fn opened() -> (TempDir, History) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    (dir, history)
}

fn begin(history: &History, seed: u64) -> JobRecord {
    history.begin(&pi(seed), Vec::new(), None).unwrap()
}

#[test]
fn a_job_that_began_is_unfinished_until_it_ends_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::default()).unwrap();
    let db = open();
    assert!(History::existing(&db).unwrap().is_none());
    let history = History::open(&db).unwrap();
    let first = begin(&history, 1);
    let second = begin(&history, 1);
    let third = begin(&history, 1);
    assert!(first.id < second.id && second.id < third.id);
    history.forget(&third.id).unwrap();
    let report = Some(json!({"cpu_s": 1.5}));
    history
        .end(&second, RecordState::Succeeded, report.clone())
        .unwrap();
    drop((history, db));
    let db = open();
    let history = History::existing(&db).unwrap().unwrap();
    let jobs = history.jobs().unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0], first);
    assert_eq!(history.job(&first.id).unwrap(), Some(first));
    assert_eq!(history.job("17").unwrap(), None);
    assert_eq!(
        (jobs[1].state, &jobs[1].report),
        (RecordState::Succeeded, &report)
    );
    assert!(jobs[1].ended_unix_ms.is_some());
}

#[test]
fn a_job_is_claimed_before_its_record_can_be_read_under_an_id_whose_claim_is_free() {
    let (_dir, history) = opened();
    let mut refused = Vec::new();
    let claim = |id: &str| {
        assert_eq!(history.job(id).unwrap(), None);
        if refused.len() < 2 {
            refused.push(id.to_string());
            return None;
        }
        Some(id.to_string())
    };
    let begun = history.begin_claimed(&pi(1), Vec::new(), JobTables::default(), None, claim);
    let (job, claimed) = begun.unwrap();
    assert_eq!(job.id, claimed);
    assert!(refused[0] < refused[1] && refused[1] < job.id);
    assert_eq!(history.jobs().unwrap(), [job]);
}

#[test]
fn a_job_that_starts_again_keeps_its_first_start_beside_its_latest() {
    let (_dir, history) = opened();
    let first = begin(&history, 1);
    assert_eq!(first.begun_unix_ms(), first.started_unix_ms);
    let begun = history.begin_again(&first, Vec::new(), JobTables::default());
    let again = begun.unwrap();
    assert_eq!(again.started_unix_ms, first.started_unix_ms);
    assert_eq!(again.restarted_unix_ms, Some(again.begun_unix_ms()));
    history.end(&again, RecordState::Failed, None).unwrap();
    let ended = history.job(&first.id).unwrap().unwrap();
    assert_eq!(ended.begun_unix_ms(), again.begun_unix_ms());
    // Records of earlier builds have no time of a later start.
    let mut earlier = serde_json::to_value(&again).unwrap();
    earlier.as_object_mut().unwrap().remove("restarted_unix_ms");
    let earlier: JobRecord = serde_json::from_value(earlier).unwrap();
    assert_eq!(
        (earlier.starts, earlier.begun_unix_ms()),
        (2, first.started_unix_ms)
    );
}

#[test]
fn a_job_that_starts_again_over_another_table_has_no_numbers_of_its_inputs() {
    let (_dir, history) = opened();
    let tables = |inputs: &[u32], output| JobTables {
        inputs: inputs.to_vec(),
        output: Some(output),
    };
    let begun = history.begin_claimed(&pi(1), Vec::new(), tables(&[7], 1), None, |_| Some(()));
    let (job, ()) = begun.unwrap();
    let again = |job: &JobRecord, tables| history.begin_again(job, Vec::new(), tables).unwrap();
    let same = again(&job, tables(&[7], 2));
    assert_eq!(same.tables, tables(&[7], 2));
    let other = again(&same, tables(&[8], 2));
    assert_eq!(other.tables, tables(&[], 2));
    assert_eq!(again(&other, tables(&[8], 2)).tables, tables(&[], 2));
    // Records of earlier builds have no numbers of tables.
    let mut earlier = serde_json::to_value(&job).unwrap();
    earlier.as_object_mut().unwrap().remove("tables");
    let earlier: JobRecord = serde_json::from_value(earlier).unwrap();
    assert_eq!(earlier.tables, JobTables::default());
}

#[test]
fn ended_jobs_are_forgotten_in_the_end_and_unfinished_ones_are_not() {
    let (_dir, history) = opened();
    let unfinished = begin(&history, 1);
    for n in 0..ENDED_JOBS_MAX + 5 {
        let job = begin(&history, n as u64);
        history.end(&job, RecordState::Failed, None).unwrap();
    }
    let jobs = history.jobs().unwrap();
    assert_eq!(jobs.len(), ENDED_JOBS_MAX + 1);
    assert_eq!(jobs[0], unfinished);
    assert_eq!(jobs[1].request().unwrap(), pi(5));
}

/// Regression: 1,000 later jobs displaced the key of a request, and a retry of the request started a second job.
#[test]
fn a_submission_is_kept_for_a_day_and_over_a_restart_however_many_jobs_end_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::open(dir.path(), Options::default()).unwrap();
    let db = open();
    let history = History::open(&db).unwrap();
    let by = Submission::new(&[1; 32], &[2; 32]);
    let first = history.begin(&pi(1), Vec::new(), Some(by.clone())).unwrap();
    history.end(&first, RecordState::Succeeded, None).unwrap();
    for n in 0..ENDED_JOBS_MAX {
        let job = begin(&history, n as u64);
        history.end(&job, RecordState::Succeeded, None).unwrap();
    }
    drop((history, db));
    let db = open();
    let history = History::existing(&db).unwrap().unwrap();
    let jobs = history.jobs().unwrap();
    assert_eq!(jobs[0].id, first.id);
    assert_eq!(jobs[0].submission, Some(by));
    assert_eq!(jobs.len(), 1 + ENDED_JOBS_MAX);
    let last_ms = first.started_unix_ms + KEY_LIFETIME.as_millis() as u64;
    assert_eq!(forgettable(&jobs, last_ms), [&jobs[1]]);
    assert_eq!(forgettable(&jobs, last_ms + 1), [&jobs[0], &jobs[1]]);
    // The same job two days ago.
    let two_days_ms = 2 * 24 * 3600 * 1000;
    let old = JobRecord {
        started_unix_ms: first.started_unix_ms - two_days_ms,
        ..jobs[0].clone()
    };
    history.put(&old).unwrap();
    begin(&history, 1);
    assert_eq!(history.job(&first.id).unwrap(), None);
}

/// Records a backup and its end, and returns its record.
fn back_up(history: &History, started_unix_ms: u64, report: &BackupReport) -> JobRecord {
    let request = BackupRequest {
        target: "nightly".to_string(),
        options: MaintenanceOptions {
            by: "cron".to_string(),
            rate_bytes_per_s: None,
        },
    };
    let job = history.begin_backup(&request, started_unix_ms).unwrap();
    assert_eq!(job.backup_request(), Some(request));
    history.end_backup(&job, report).unwrap();
    let ended = history.job(&job.id).unwrap().unwrap();
    assert_eq!(ended.backup_report().as_ref(), Some(report));
    ended
}

#[test]
fn the_last_backup_without_damage_is_remembered_whatever_comes_after_it() {
    let (_dir, history) = opened();
    let good_backups = || -> Vec<u64> {
        let times = history.good_backups_unix_ms();
        times.collect::<Result<_>>().unwrap()
    };
    assert!(good_backups().is_empty());
    let made = |damaged: Vec<Finding>| {
        BackupReport::finished(BackupInfo {
            damaged,
            ..BackupInfo::default()
        })
    };
    let damage = Finding {
        path: "7.sst".into(),
        offset: 0,
        detail: "it is missing".to_string(),
    };
    let good = made(Vec::new());
    back_up(&history, 5, &good);
    let last_good = back_up(&history, 7, &good);
    for (worse, state) in [
        (made(vec![damage]), RecordState::Succeeded),
        (
            BackupReport::failed("no space".to_string()),
            RecordState::Failed,
        ),
        (BackupReport::cancelled(), RecordState::Cancelled),
        (
            BackupReport::finished(BackupInfo {
                older_stays: true,
                ..BackupInfo::default()
            }),
            RecordState::Failed,
        ),
    ] {
        assert_eq!(back_up(&history, 9, &worse).state, state);
        assert_eq!(good_backups(), [7, 5]);
    }
    // Regression: a backup that was recorded while the clock was ahead displaced the last one before.
    let in_year_2100 = 4_102_444_800_000;
    let ahead = back_up(&history, in_year_2100, &good);
    for n in 0..ENDED_JOBS_MAX {
        let job = begin(&history, n as u64);
        history.end(&job, RecordState::Succeeded, None).unwrap();
    }
    let jobs = history.jobs().unwrap();
    let backups: Vec<_> = jobs.iter().filter(|job| job.is_backup()).collect();
    assert_eq!(backups, [&last_good, &ahead]);
    assert_eq!(good_backups(), [in_year_2100, 7]);
}

#[test]
fn a_verification_is_recorded_with_its_options_and_its_first_findings() {
    let (_dir, history) = opened();
    let options = MaintenanceOptions {
        by: "cron".to_string(),
        rate_bytes_per_s: None,
    };
    let finding = |number: u64| Finding {
        path: format!("{number}.sst").into(),
        offset: 0,
        detail: "it is missing".to_string(),
    };
    let found = VerifyReport {
        findings: (0..150).map(finding).collect(),
        ..VerifyReport::default()
    };
    for (report, state, kept) in [
        (
            VerificationReport::finished(found),
            RecordState::Succeeded,
            Some(100),
        ),
        (
            VerificationReport::failed("no lock".to_string()),
            RecordState::Failed,
            None,
        ),
        (
            VerificationReport::cancelled(),
            RecordState::Cancelled,
            None,
        ),
    ] {
        let make = |id| JobRecord::of_verification(id, &options, 7);
        let begun = history.begin_maintenance(|_| Some(()), make);
        let (job, ()) = begun.unwrap();
        assert!(job.is_maintenance() && !job.is_backup());
        assert_eq!(job.maintenance_options().as_ref(), Some(&options));
        history.end_verification(&job, &report).unwrap();
        let ended = history.job(&job.id).unwrap().unwrap();
        assert_eq!((ended.state, ended.started_unix_ms), (state, 7));
        let recorded = ended.verification_report().unwrap();
        assert_eq!(recorded.outcome, report.outcome);
        assert_eq!(recorded.verify.map(|read| read.findings.len()), kept);
    }
}

#[test]
fn a_restore_is_recorded_with_its_backup_and_its_first_files() {
    let (_dir, history) = opened();
    let request = RestoreRequest {
        backup: "monday".to_string(),
        options: MaintenanceOptions {
            by: "cron".to_string(),
            rate_bytes_per_s: None,
        },
    };
    let file = |number: u64| RestoredFile {
        table: "app.t".to_string(),
        path: format!("{number}.sst").into(),
        detail: "it is missing".to_string(),
    };
    let restored = RestoreReport {
        restored: (0..150).map(file).collect(),
        left: vec![file(150)],
    };
    for (report, state, kept) in [
        (
            RestorationReport::finished(restored),
            RecordState::Succeeded,
            Some((100, 1)),
        ),
        (
            RestorationReport::ended(Outcome::Cancelled),
            RecordState::Cancelled,
            None,
        ),
    ] {
        let make = |id| JobRecord::of_restore(id, &request, 7);
        let (job, ()) = history.begin_maintenance(|_| Some(()), make).unwrap();
        assert!(job.is_maintenance() && !job.is_backup());
        assert_eq!(job.maintenance_options().as_ref(), Some(&request.options));
        assert_eq!(job.restored_backup(), Some("monday"));
        history.end_restore(&job, &report).unwrap();
        let ended = history.job(&job.id).unwrap().unwrap();
        assert_eq!(ended.state, state);
        let files = ended.restoration_report().unwrap().restore;
        assert_eq!(
            files.map(|files| (files.restored.len(), files.left.len())),
            kept
        );
    }
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
    let (_dir, history) = opened();
    let first = begin(&history, 1);
    let second = begin(&history, 1);
    let mut expected = Vec::new();
    let recorder = Recorder::start(&history, &first).unwrap();
    // More attempts than one commit of the recorder has at most (256).
    for n in 0..700 {
        let outcome = match n % 3 {
            0 => AttemptOutcome::Done,
            1 => failed(&format!("reason {n}: \"quoted\"")),
            _ => AttemptOutcome::LeftBehind,
        };
        let record = attempt(n, outcome);
        recorder.attempt_ended(JobId(u64::from(n / 400) + 1), &record);
        let job = u64::from(n / 400) + 1;
        expected.push(JobAttempt { job, record });
    }
    let recorded = recorder.finish();
    assert_eq!(recorded.attempts_dropped, 0);
    assert!(recorded.failure.is_none());
    let other = Recorder::start(&history, &second).unwrap();
    other.attempt_ended(JobId(1), &attempt(9, AttemptOutcome::Stopped));
    // A recorder writes its attempts even if it is dropped without `finish`.
    drop(other);

    assert_eq!(history.attempts(&first.id).unwrap(), expected);
    assert_eq!(history.attempts(&second.id).unwrap().len(), 1);
    let page = |after: Option<&str>, count_max| {
        let page = history.attempts_after(&first.id, after, count_max).unwrap();
        let last = page.last().map(|(place, _)| place.clone());
        let attempts: Vec<_> = page.into_iter().map(|(_, attempt)| attempt).collect();
        (attempts, last)
    };
    let (begin, last) = page(None, 300);
    let (rest, end) = page(last.as_deref(), 1000);
    assert_eq!([begin, rest].concat(), expected);
    assert_eq!(page(end.as_deref(), 1000), (Vec::new(), None));
    // Clients send the place, and may send any text. None leads to the attempts of another job.
    for no_place in ["~", "/", "0/0"] {
        let (found, _) = page(Some(no_place), 1000);
        let is_of_it = |attempt| expected.contains(attempt);
        assert!(found.iter().all(is_of_it), "{no_place}");
    }
    history.forget(&first.id).unwrap();
    assert_eq!(history.attempts(&first.id).unwrap(), []);
    assert_eq!(history.attempts(&second.id).unwrap().len(), 1);
    // The attempts of the first start are not mixed with those of the second one.
    let begun = history.begin_again(&second, Vec::new(), JobTables::default());
    let again = begun.unwrap();
    assert_eq!(again.starts, 2);
    assert_eq!(history.attempts(&second.id).unwrap(), []);
    assert_eq!(history.jobs().unwrap(), [again]);
}

#[test]
fn a_cause_that_holds_a_long_record_is_cut() {
    let (_dir, history) = opened();
    let job = begin(&history, 1);
    let recorder = Recorder::start(&history, &job).unwrap();
    recorder.attempt_ended(JobId(1), &attempt(0, failed(&"\u{e4}".repeat(5000))));
    recorder.finish();
    let kept = history.attempts(&job.id).unwrap();
    let expected = format!("{}...", "\u{e4}".repeat(500));
    assert_eq!(kept[0].record.outcome, failed(&expected));
}

#[test]
fn of_very_many_attempts_the_first_are_kept_and_the_others_counted() {
    let (_dir, history) = opened();
    let job = begin(&history, 1);
    let recorder = Recorder::start(&history, &job).unwrap();
    for n in 0..ATTEMPTS_KEPT_MAX + 7 {
        recorder.attempt_ended(JobId(1), &attempt(n, AttemptOutcome::Done));
    }
    assert_eq!(recorder.finish().attempts_dropped, 7);
    let kept = history.attempts(&job.id).unwrap();
    let indices = kept.iter().map(|attempt| attempt.record.index);
    assert!(indices.eq(0..ATTEMPTS_KEPT_MAX));
}

#[test]
fn a_history_of_another_version_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let job = begin(&History::open(&db).unwrap(), 1);
    let format = db.existing_keyspace(SYSTEM_KEYSPACE).unwrap();
    let format = format.existing_table("format").unwrap();
    for other in ["0", "2", "10"] {
        format.put(b"version", other.as_bytes()).unwrap();
        let opened = History::open(&db).unwrap_err();
        let existing = History::existing(&db).unwrap_err();
        for error in [opened, existing] {
            assert!(matches!(error, HistoryError::Version { .. }), "{error}");
        }
        assert_eq!(format.get(b"version").unwrap().unwrap(), other);
    }
    format.put(b"version", b"1").unwrap();
    let history = History::existing(&db).unwrap().unwrap();
    assert_eq!(history.jobs().unwrap(), [job]);
}

#[test]
fn the_error_of_a_row_that_is_no_job_names_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let history = History::open(&db).unwrap();
    let jobs = db.existing_keyspace(SYSTEM_KEYSPACE).unwrap();
    let jobs = jobs.existing_table("jobs").unwrap();
    jobs.put(b"0000000000007", b"{}").unwrap();
    let error = history.jobs().unwrap_err().to_string();
    assert!(
        error.contains("0000000000007") && error.contains("ebb_system.jobs"),
        "{error}"
    );
}

#[test]
fn the_same_work_is_known_best_and_otherwise_the_latest_of_the_application() {
    let (_dir, history) = opened();
    let measured = |cpu_s: f64| {
        let mut measured = MeasuredProfile::default();
        let mut task = attempt(0, AttemptOutcome::Done);
        task.cpu_s = cpu_s;
        measured.add(&task);
        measured
    };
    let record = |application: &str, work: Value, cpu_s: f64| {
        let job = JobRecord {
            application: application.to_string(),
            ..begin(&history, 1)
        };
        let jobs = vec![(application.to_string(), measured(cpu_s))];
        (history.record_profile(&job, &work, "app.t", jobs, Some(cpu_s))).unwrap();
    };
    let known = |application: &str, work: Value| {
        let known = history
            .known_profile(application, application, &work)
            .unwrap()?;
        let measured = known.profile.measured(application).unwrap();
        Some((measured.map.cpu_s, known.is_same_work))
    };
    assert_eq!(known("sort", json!({"by": "a"})), None);
    record("sort", json!({"by": "a"}), 1.0);
    record("sort", json!({"by": "b"}), 2.0);
    record("sorting", json!({"by": "c"}), 3.0);
    assert_eq!(known("sort", json!({"by": "a"})), Some((1.0, true)));
    record("sort", json!({"by": "a"}), 4.0);
    assert_eq!(known("sort", json!({"by": "a"})), Some((4.0, true)));
    let same = history
        .known_profile("sort", "sort", &json!({"by": "a"}))
        .unwrap();
    assert_eq!(same.unwrap().profile.took_over_estimate, [1.0, 4.0]);
    let (_, is_same_work) = known("sort", json!({"by": "c"})).unwrap();
    assert!(!is_same_work);
    assert_eq!(known("grep", json!({})), None);
    for n in 0..200 {
        record("sort", json!(n), 5.0);
    }
    let all = history.profiles().unwrap();
    let of = |name: &str| all.iter().filter(|p| p.application == name).count();
    assert_eq!((of("sort"), of("sorting")), (100, 1));
}

#[test]
fn a_job_that_read_nothing_hides_no_profile_of_its_application() {
    let (_dir, history) = opened();
    for (work, split_bytes) in [("large", 100), ("empty", 0)] {
        let job = JobRecord {
            application: "sort".to_string(),
            ..begin(&history, 1)
        };
        let measured = MeasuredProfile {
            split_bytes,
            ..MeasuredProfile::default()
        };
        let jobs = vec![("sort".to_string(), measured)];
        (history.record_profile(&job, &json!(work), work, jobs, None)).unwrap();
    }
    let known = |work: &str| {
        let known = history.known_profile("sort", "sort", &json!(work));
        known.unwrap().expect("a profile").profile.input
    };
    assert_eq!(known("other"), "large");
    assert_eq!(known("empty"), "empty");
}

/// Opens a history on a disk in memory, which may fill up.
fn history_on(disk: &MemDisk) -> History {
    let options = Options {
        disk: Arc::new(disk.clone()),
        ..Options::default()
    };
    History::open(&Db::open("/db", options).unwrap()).unwrap()
}

/// Regression: after a write that failed, the recorder wrote no attempt any more, did not count the lost
/// ones, and lost the measurements of the job.
#[test]
fn an_attempt_that_cannot_be_written_is_counted_and_later_ones_are_written() {
    let disk = MemDisk::new();
    let history = history_on(&disk);
    let job = begin(&history, 1);
    let recorder = Recorder::start(&history, &job).unwrap();
    disk.fail_next(FaultOp::Append, 1, io::ErrorKind::StorageFull);
    recorder.attempt_ended(JobId(1), &attempt(0, AttemptOutcome::Done));
    until("the write to fail", || disk.armed_faults() == 0);
    recorder.attempt_ended(JobId(1), &attempt(1, AttemptOutcome::Done));
    let recorded = recorder.finish();
    assert_eq!(recorded.attempts_dropped, 1);
    let Some(HistoryError::Store(error)) = recorded.failure else {
        panic!("the failure is not reported");
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    let kept = history.attempts(&job.id).unwrap();
    let indices: Vec<_> = kept.iter().map(|attempt| attempt.record.index).collect();
    assert_eq!(indices, [1]);
}

#[test]
fn that_an_output_is_put_in_place_is_on_the_disk_before_it_is() {
    /// An output whose commit checks the history as a crash of the machine at this moment would leave it.
    struct Looks(MemDisk, JobRecord);
    impl Output for Looks {
        fn open(&self, _: u32, _: u32) -> std::result::Result<Box<dyn OutputWriter>, TaskError> {
            unreachable!("nothing is written")
        }

        fn commit(&self) -> std::result::Result<(), TaskError> {
            let after = self.0.fork();
            after.restart(7);
            let noted = history_on(&after).jobs().unwrap();
            let commits = JobRecord {
                commits: true,
                ..self.1.clone()
            };
            assert_eq!(noted, [commits]);
            Ok(())
        }

        fn abort(&self) {}
    }

    let disk = MemDisk::new();
    let history = history_on(&disk);
    let job = begin(&history, 1);
    let note = CommitRecord::default();
    let output = RecordedOutput::new(Arc::new(Looks(disk, job.clone())), note.clone());
    note.set(&history, &job);
    output.commit().unwrap();
    // The record of a new start has no commit of the last one.
    let noted = history.jobs().unwrap().remove(0);
    let begun = history.begin_again(&noted, Vec::new(), JobTables::default());
    let again = begun.unwrap();
    assert!(!again.commits);
    assert_eq!(history.jobs().unwrap(), [again]);
}

#[test]
fn an_output_whose_commit_cannot_be_recorded_is_not_put_in_place() {
    let disk = MemDisk::new();
    let history = history_on(&disk);
    let job = begin(&history, 1);
    let (rows, note) = (VecOutput::new(), CommitRecord::default());
    let output = RecordedOutput::new(Arc::new(rows.clone()), note.clone());
    note.set(&history, &job);
    let mut writer = output.open(0, 1).unwrap();
    writer.write(b"k", b"v").unwrap();
    writer.finish().unwrap();
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let error = output.commit().unwrap_err().to_string();
    assert!(error.contains("history of jobs"), "{error}");
    assert_eq!(rows.rows(), None);
    disk.set_capacity_bytes(None);
    output.commit().unwrap();
    assert_eq!(rows.rows().unwrap().len(), 1);
}

/// Regression: a full disk refused the record of a job's end. A cancelled job started again with
/// the next process, and so did a job without snapshots that had failed because the disk was full.
/// A job could not be discarded, although this frees the space that its snapshots pin. A job that a
/// shutdown could not park was counted like one whose process had ended while it ran.
#[test]
fn a_job_ends_or_is_parked_on_a_full_disk() {
    for state in [
        RecordState::Succeeded,
        RecordState::Failed,
        RecordState::Cancelled,
    ] {
        ends_on_a_full_disk(state);
    }
}

/// Checks that the end of a job without snapshots, in the state `state`, and the parking of another job are
/// recorded on a full disk.
fn ends_on_a_full_disk(state: RecordState) {
    let disk = MemDisk::new();
    let open = || {
        let options = Options {
            disk: Arc::new(disk.clone()),
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        History::open(&Db::open("/db", options).unwrap()).unwrap()
    };
    let [job, parked] = [1, 2].map(|seed| begin(&open(), seed));
    // Too little for ordinary writes. The first write after an opening looks at the free space.
    disk.set_capacity_bytes(Some(disk.used_bytes() + (64 << 10)));
    let history = open();
    let refused = history.begin(&pi(3), Vec::new(), None);
    refused.unwrap_err();
    history.end(&job, state, None).unwrap();
    history.park(&parked).unwrap();
    drop(history);
    let jobs = open().jobs().unwrap();
    assert_eq!(jobs[0].state, state);
    assert_eq!((jobs[1].state, jobs[1].parks), (RecordState::Started, 1));
}
