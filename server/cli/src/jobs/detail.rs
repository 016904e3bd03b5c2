//! The view of one job: its counters, its attempts, and a timeline.

use ebb_jobs::history::{DAMAGED_KEPT_MAX, JobAttempt, JobRecord, RecordState};
use ebb_scheduler::runtime::AttemptOutcome;
use ebb_server::jobs::{JobProgress, JobView};
use ebb_storage::RestoredFile;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use super::list::{asked, beyond_text};
use super::state::JobState;
use super::timeline::timeline;
use super::{started, took_s};
use crate::print::{counted, table};

/// The greatest number of attempts that each of the two printed lists shows: the slowest attempts, and the
/// latest failed ones.
const LISTED_MAX: usize = 15;

/// The greatest number of characters that are shown of the cause of a failed attempt.
const CAUSE_CHARS_MAX: usize = 200;

pub(super) fn object(job: &JobView, attempts: &[JobAttempt]) -> Value {
    let mut object = json!(job.record);
    if let Some(run) = &job.run {
        object["progress"] = json!(run.progress);
    }
    if let Some(prediction) = &job.prediction {
        object["prediction"] = json!(prediction);
    }
    if let Some(beyond) = &job.beyond_horizon {
        object["beyond_horizon"] = json!(beyond);
    }
    object["attempts"] = json!(attempts);
    object
}

/// Returns the lines of text that describe a job.
pub(super) fn lines(view: &JobView, attempts: &[JobAttempt]) -> Vec<String> {
    let job = &view.record;
    let took = took_s(job).map_or_else(String::new, |took_s| format!(" after {took_s:.2} s"));
    let (application, id, state) = (&job.application, &job.id, JobState::of(view));
    let mut lines = vec![format!("{application} {id}: {state}{took}")];
    lines.extend(view.run.as_ref().map(|run| progress(&run.progress)));
    lines.extend(view.waits().map(|waits| format!("  waits    {waits}")));
    lines.extend(predicted_end(view).map(|end| format!("  end      {end}")));
    let mut begun = format!("  started  {}", started(job.started_unix_ms));
    if let Some(directory) = job.request["directory"].as_str() {
        begun += &format!(" in {directory}");
    }
    if job.starts > 1 {
        begun += &format!(", {} times", job.starts);
    }
    if let Some(latest) = job.restarted_unix_ms {
        begun += &format!(", the latest {}", started(latest));
    }
    lines.push(begun);
    let [mut goal, input, output] = asked(job);
    // A job that is started again is submitted anew, and its goal counts from then.
    if job.starts > 1 && !goal.is_empty() {
        goal += " from the latest start";
    }
    // Before the job's end all values of the report are absent, and so are the lines that show them.
    let report = job.report.as_ref().unwrap_or(&Value::Null);
    // A cancelled job is reported as not in time, but did not miss its goal: a user ended it.
    let is_judged = !goal.is_empty() && job.state != RecordState::Cancelled;
    if let Some(met) = report["met"].as_bool().filter(|_| is_judged) {
        goal += if met { ", met" } else { ", missed" };
    }
    for (name, text) in [("goal  ", goal), ("input ", input), ("output", output)] {
        if !text.is_empty() {
            lines.push(format!("  {name}   {text}"));
        }
    }
    if let Some(cause) = report["outcome"]["cause"].as_str() {
        lines.push(format!("  cause    {cause}"));
    }
    if let (Some(tasks), Some(cpu_s)) = (report["tasks"].as_u64(), report["cpu_s"].as_f64()) {
        let tasks = counted(tasks, "task");
        lines.push(format!("  work     {tasks}, {cpu_s:.2} s of CPU"));
    }
    // `#` is the past tense.
    lines.extend(view.waited().map(|waited| format!("  waited   {waited:#}")));
    lines.extend(counters(&report["counters"]));
    lines.extend(maintenance(job));
    if job.attempts_dropped > 0 {
        let missing = counted(job.attempts_dropped, "attempt");
        lines.push(format!("  missing  {missing}, not in the history"));
    }
    if !attempts.is_empty() {
        lines.push(String::new());
        lines.extend(slowest(attempts));
        lines.extend(failed(attempts));
        lines.push(String::new());
        lines.extend(timeline(attempts));
    }
    lines
}

/// Returns the predicted end of a job that runs, and whether the job is late by it, as text; `None` without a
/// prediction.
fn predicted_end(view: &JobView) -> Option<String> {
    if let Some(beyond) = &view.beyond_horizon {
        return Some(beyond_text(beyond).to_string());
    }
    let prediction = view.prediction.as_ref()?;
    let is_late = prediction.slack_s.is_some_and(|slack_s| slack_s < 0.0);
    let late = if is_late { ", late" } else { "" };
    let at = started(prediction.finish_unix_ms);
    Some(format!("predicted {at}{late}"))
}

/// Returns the lines about a backup, a restore or a verification: the user who requested it, its limit of
/// bytes per second and, once it has ended, the number of its files and bytes, the bytes of the log that it left
/// unchecked, and each damage that it found or restored. Returns none for other jobs.
fn maintenance(job: &JobRecord) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(options) = job.maintenance_options() {
        lines.push(format!("  by       {}", options.by));
        let rate = options.rate_bytes_per_s.map(|rate| HumanBytes(rate.get()));
        lines.extend(rate.map(|rate| format!("  rate     {rate} per second")));
    }
    let made = job.backup_report().and_then(|report| report.backup);
    let made = made.map(|made| (made.files, made.bytes, made.damaged));
    let verified = job.verification_report().and_then(|report| report.verify);
    let read = verified.clone();
    let read = read.map(|read| (read.files, read.bytes, read.findings));
    if let Some((files, bytes, damaged)) = made.or(read) {
        let (files, bytes) = (counted(files, "file"), HumanBytes(bytes));
        lines.push(format!("  files    {files}, {bytes}"));
        let more = more_of("damaged", damaged.len());
        let damaged = damaged.iter().map(|finding| {
            let (path, offset) = (finding.path.display(), finding.offset);
            format!("  damaged  {path} at offset {offset}: {}", finding.detail)
        });
        lines.extend(damaged.chain(more));
    }
    let unchecked_bytes = verified.map_or(0, |read| read.wal_unchecked_bytes);
    if unchecked_bytes > 0 {
        let unchecked = HumanBytes(unchecked_bytes);
        lines.push(format!("  log      {unchecked} were not checked"));
    }
    let files = job.restoration_report().and_then(|report| report.restore);
    let files = files.unwrap_or_default();
    let file = |what, file: &RestoredFile| {
        let path = file.path.display();
        format!("  {what}  {path} of {}: {}", file.table, file.detail)
    };
    lines.extend(
        files
            .restored
            .iter()
            .map(|restored| file("restored", restored)),
    );
    lines.extend(more_of("restored", files.restored.len()));
    lines.extend(files.left.iter().map(|left| file("damaged", left)));
    lines.extend(more_of("damaged", files.left.len()));
    lines
}

/// Returns a line for a list of `count` files or places, each `damaged` or `restored`, that is as long as the history
/// keeps; `None` for a shorter list, which is complete.
fn more_of(what: &str, count: usize) -> Option<String> {
    let text = "there may be more: the history keeps the first";
    (count >= DAMAGED_KEPT_MAX).then(|| format!("  {what}  {text} {DAMAGED_KEPT_MAX}"))
}

/// Returns the line about the progress of a running job.
fn progress(progress: &JobProgress) -> String {
    if let Some(bytes) = &progress.bytes {
        let [done, total] = [bytes.bytes_done, bytes.bytes_total].map(HumanBytes);
        let per_s = HumanBytes(bytes.bytes_per_s as u64);
        return format!("  progress {done} of {total}, {per_s} per second");
    }
    let JobProgress {
        step,
        steps,
        status,
        ..
    } = progress;
    let mut told = "  progress ".to_string();
    if *steps > 1 {
        told += &format!("job {step} of {steps}: ");
    }
    told += &format!("{} of {} maps", status.maps_done, status.maps_total);
    if status.reduces_total > 0 {
        told += &format!(
            ", {} of {} reduces",
            status.reduces_done, status.reduces_total
        );
    }
    let cores = f64::from(status.share_hundredths) / 100.0;
    told += &format!("; {} running on {cores:.1} cores", status.tasks_running);
    told
}

/// Returns the lines of the counters that are not zero.
fn counters(counters: &Value) -> Vec<String> {
    let counters = counters.as_object().into_iter().flatten();
    let rows: Vec<_> = (counters.filter_map(|(name, value)| Some((name, value.as_u64()?))))
        .filter(|(_, value)| *value > 0)
        .map(|(name, value)| {
            let value = match name {
                name if name.contains("bytes") => HumanBytes(value).to_string(),
                name if name.ends_with("_ns") => format!("{:.3} s", value as f64 / 1e9),
                _ => HumanCount(value).to_string(),
            };
            let name = name.trim_end_matches("_ns").replace('_', " ");
            vec!["  counted".to_string(), name, value]
        })
        .collect();
    let mut lines = table(&["", "", "value"], &["value"], &rows);
    lines.drain(..1);
    lines
}

/// Names the task of an attempt: `map 3`, or `2: map 3` if the attempt is of the second job in a chain
/// of jobs.
fn task(attempt: &JobAttempt, is_chain: bool) -> String {
    let kind = attempt.record.kind;
    let of = if is_chain {
        format!("{}: ", attempt.job)
    } else {
        String::new()
    };
    format!("{of}{kind} {}", attempt.record.index)
}

fn is_chain(attempts: &[JobAttempt]) -> bool {
    attempts.iter().any(|attempt| attempt.job > 1)
}

fn slowest(attempts: &[JobAttempt]) -> Vec<String> {
    let head = [
        "task", "attempt", "from s", "took s", "CPU s", "in", "out", "spilled", "memory", "ended",
    ];
    let took_s = |attempt: &JobAttempt| attempt.record.ended_s - attempt.record.started_s;
    let mut slowest: Vec<_> = attempts.iter().collect();
    slowest.sort_by(|a, b| took_s(b).total_cmp(&took_s(a)));
    let row = |attempt: &&JobAttempt| {
        let record = &attempt.record;
        let ended = match record.outcome {
            AttemptOutcome::Done => "done",
            AttemptOutcome::Failed { .. } => "failed",
            AttemptOutcome::LeftBehind => "left behind",
            AttemptOutcome::Stopped => "stopped",
            AttemptOutcome::Preempted => "preempted",
        };
        let bytes = |bytes: u64| HumanBytes(bytes).to_string();
        vec![
            task(attempt, is_chain(attempts)),
            record.attempt.to_string(),
            format!("{:.2}", record.started_s),
            format!("{:.3}", took_s(attempt)),
            format!("{:.3}", record.cpu_s),
            bytes(record.bytes_in),
            bytes(record.bytes_out),
            bytes(record.spilled_bytes),
            bytes(record.memory_bytes_max),
            ended.to_string(),
        ]
    };
    let rows: Vec<_> = slowest.iter().take(LISTED_MAX).map(row).collect();
    let mut told = counted(attempts.len() as u64, "attempt");
    told += if attempts.len() > LISTED_MAX {
        "; the slowest, --json has all:"
    } else {
        ", the slowest first:"
    };
    let mut lines = vec![told];
    let cells = table(&head, &head[1..9], &rows).into_iter();
    lines.extend(cells.map(|line| format!("  {line}")));
    lines
}

/// Returns the lines on failed attempts: their number, and the causes of the latest [`LISTED_MAX`], the
/// latest last. Returns none if no attempt failed.
fn failed(attempts: &[JobAttempt]) -> Vec<String> {
    let causes = attempts.iter().filter_map(|attempt| {
        let cause = match &attempt.record.outcome {
            AttemptOutcome::Failed { cause } => &cause[..],
            AttemptOutcome::LeftBehind => "it hung, and its thread was left behind",
            AttemptOutcome::Done | AttemptOutcome::Stopped | AttemptOutcome::Preempted => {
                return None;
            }
        };
        let task = task(attempt, is_chain(attempts));
        let shown: String = cause.chars().take(CAUSE_CHARS_MAX).collect();
        let more = if shown.len() < cause.len() { "..." } else { "" };
        let number = attempt.record.attempt;
        Some(format!("  {task}, attempt {number}: {shown}{more}"))
    });
    let causes: Vec<_> = causes.collect();
    if causes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), format!("{} failed:", causes.len())];
    lines.extend_from_slice(&causes[causes.len().saturating_sub(LISTED_MAX)..]);
    lines
}

#[cfg(test)]
mod tests {
    use super::super::timeline::testing::attempt;
    use super::*;
    use ebb_jobs::history::JobTables;
    use ebb_scheduler::model::TaskKind;
    use ebb_server::jobs::{BeyondHorizon, Prediction};

    fn record(report: Value) -> JobRecord {
        JobRecord {
            id: "1795293012345".into(),
            application: "sort".into(),
            request: json!({"directory": "/d"}),
            own_snapshots: Vec::new(),
            tables: JobTables::default(),
            state: RecordState::Failed,
            started_unix_ms: 1_795_293_012_345,
            restarted_unix_ms: None,
            starts: 2,
            parks: 0,
            commits: false,
            written_us: None,
            written_file: None,
            ended_unix_ms: Some(1_795_293_013_595),
            report: Some(report),
            attempts_dropped: 1234,
            submission: None,
        }
    }

    #[test]
    fn a_job_is_shown_with_its_counters_its_slowest_attempts_and_its_failures() {
        let report = json!({
            "tasks": 2, "cpu_s": 0.5,
            "outcome": {"kind": "failed", "cause": "m1 of J1, attempt 4: no number"},
            "counters": {"map_input_records": 12345, "spilled_bytes": 2048, "spills": 0},
        });
        let mut broken = attempt(TaskKind::Map, 1, 0.5, 0.75);
        broken.record.outcome = AttemptOutcome::Failed {
            cause: "no number".into(),
        };
        let attempts = [attempt(TaskKind::Map, 0, 0.0, 1.0), broken];
        let told = lines(&JobView::remembered(record(report)), &attempts).join("\n");
        for part in [
            "sort 1795293012345: failed after 1.25 s",
            "in /d, 2 times",
            "cause    m1 of J1, attempt 4: no number",
            "2 tasks, 0.50 s of CPU",
            "12,345",
            "2.00 KiB",
            "missing  1,234 attempts, not in the history",
            "2 attempts, the slowest first:",
            "1 failed:",
            "  map 1, attempt 1: no number",
        ] {
            assert!(told.contains(part), "{part:?} in {told}");
        }
        assert!(!told.contains("spills"), "{told}");
        let slow = told.find("map 0").unwrap();
        assert!(slow < told.find("map 1 ").unwrap(), "{told}");
    }

    #[test]
    fn a_job_that_was_started_again_is_timed_and_judged_from_its_latest_start() {
        let report = json!({"outcome": {"kind": "succeeded"}, "met": true});
        let job = JobRecord {
            request: json!({"application": {"sort": {}}, "goal_s": 20.0}),
            state: RecordState::Succeeded,
            restarted_unix_ms: Some(1_795_293_110_345),
            ended_unix_ms: Some(1_795_293_122_345),
            ..record(report)
        };
        let told = |job: JobRecord| lines(&JobView::remembered(job), &[]).join("\n");
        let shown = told(job.clone());
        for part in [
            "sort 1795293012345: succeeded after 12.00 s",
            "2 times, the latest 2026-11-21T20:31:50Z",
            "goal     20s from the latest start, met",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        let cancelled = JobRecord {
            state: RecordState::Cancelled,
            report: Some(json!({"outcome": {"kind": "cancelled"}, "met": false})),
            ..job
        };
        let shown = told(cancelled);
        assert!(!shown.contains("missed"), "{shown}");
    }

    #[test]
    fn a_job_is_timed_by_the_runtime_while_the_clock_is_set() {
        // Regression: a job of eight seconds was shown with "after 7208.11 s".
        for ended_unix_ms in [1_795_293_012_345 + 7_208_110, 1_795_289_412_345] {
            let report = json!({
                "outcome": {"kind": "cancelled"}, "submitted_s": 17.5, "finished_s": 25.75,
            });
            let job = JobRecord {
                ended_unix_ms: Some(ended_unix_ms),
                ..record(report)
            };
            let shown = lines(&JobView::remembered(job), &[]);
            assert_eq!(shown[0], "sort 1795293012345: failed after 8.25 s");
        }
    }

    #[test]
    fn a_backup_is_shown_with_its_user_its_sizes_and_its_damage() {
        let shown = |damaged: usize| {
            let finding = json!({"path": "/b/7.sst", "offset": 9, "detail": "block checksum"});
            let made = json!({"files": 2, "bytes": 2048, "linked_bytes": 0, "copied_bytes": 2048,
                "damaged": vec![finding; damaged]});
            let backup = JobRecord {
                application: "backup".into(),
                request: json!({
                    "application": {"backup": {"by": "cron", "rate_bytes_per_s": 1024}},
                    "output": {"to": {"folder": "/b"}},
                }),
                state: RecordState::Succeeded,
                starts: 1,
                ..record(json!({"outcome": {"kind": "succeeded"}, "backup": made}))
            };
            lines(&JobView::remembered(backup), &[]).join("\n")
        };
        let told = shown(1);
        for part in [
            "backup 1795293012345: succeeded after 1.25 s",
            "output   /b",
            "by       cron",
            "rate     1.00 KiB per second",
            "files    2 files, 2.00 KiB",
            "damaged  /b/7.sst at offset 9: block checksum",
        ] {
            assert!(told.contains(part), "{part:?} in {told}");
        }
        // Regression: a list that the history had cut looked like a complete one.
        let more = "damaged  there may be more: the history keeps the first 100";
        assert!(!told.contains(more), "{told}");
        assert!(shown(DAMAGED_KEPT_MAX).contains(more));
    }

    #[test]
    fn a_restore_is_shown_with_its_files_and_the_list_that_may_have_had_more() {
        let file = json!({"table": "app.t", "path": "/d/7.sst", "detail": "block checksum"});
        let files = json!({"restored": vec![file.clone(); DAMAGED_KEPT_MAX], "left": [file]});
        let restore = JobRecord {
            application: "restore".into(),
            request: json!({"application": {"restore": {"by": "ada"}}, "backup": "nightly"}),
            state: RecordState::Succeeded,
            ..record(json!({"outcome": {"kind": "succeeded"}, "restore": files}))
        };
        let shown = lines(&JobView::remembered(restore), &[]).join("\n");
        for part in [
            "restored  /d/7.sst of app.t: block checksum",
            "restored  there may be more: the history keeps the first 100",
            "damaged  /d/7.sst of app.t: block checksum",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        assert!(!shown.contains("damaged  there may be more"), "{shown}");
    }

    /// Returns a view of a job that has not ended.
    fn unfinished() -> JobView {
        JobView::remembered(JobRecord {
            state: RecordState::Started,
            ended_unix_ms: None,
            report: None,
            starts: 1,
            attempts_dropped: 0,
            ..record(Value::Null)
        })
    }

    /// Regression: a job that was predicted not to end within a week looked like one without a prediction.
    #[test]
    fn a_job_is_shown_with_its_predicted_end_also_if_that_is_not_within_a_week() {
        let shown = |job: &JobView| lines(job, &[]).remove(1);
        let mut job = unfinished();
        assert!(shown(&job).starts_with("  started"));
        job.beyond_horizon = Some(BeyondHorizon {
            horizon_unix_ms: 1_795_897_812_345,
            goal_unix_ms: Some(1_795_293_612_345),
            method: "lookahead/fair".to_string(),
        });
        let expected = "  end      not within a week, late";
        assert_eq!(shown(&job), expected);
        let object = object(&job, &[]);
        assert_eq!(object["beyond_horizon"], json!(job.beyond_horizon));
        job.beyond_horizon = None;
        for (slack_s, late) in [(Some(-3.0), ", late"), (Some(3.0), ""), (None, "")] {
            job.prediction = Some(Prediction {
                finish_unix_ms: 1_795_293_110_345,
                low_unix_ms: 1_795_293_109_345,
                high_unix_ms: 1_795_293_111_345,
                goal_unix_ms: None,
                slack_s,
                method: "lookahead/fair".to_string(),
            });
            let expected = format!("  end      predicted 2026-11-21T20:31:50Z{late}");
            assert_eq!(shown(&job), expected);
        }
    }

    #[test]
    fn a_job_without_a_report_or_attempts_is_shown_by_its_note() {
        let unfinished = unfinished();
        let told = lines(&unfinished, &[]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(told[0], "sort 1795293012345: unfinished");
        assert_eq!(object(&unfinished, &[])["attempts"], json!([]));
    }
}
