//! `ebb jobs list`: the list of jobs, a line each, no longer than a terminal is wide.

use anyhow::Result;
use ebb_jobs::history::{DAMAGED_KEPT_MAX, JobRecord};
use ebb_jobs::request::{InputRequest, OutputPlace};
use ebb_server::jobs::{BeyondHorizon, JobView};

use super::source::JobSource;
use super::state::JobState;
use super::{started, took_s};
use crate::attached::Attached;
use crate::escape::escaped_line;
use crate::print::{LINE_CHARS_MAX, Printer, counted, table};
use crate::run::goal_of;

const EXAMPLES: &str = "\
Examples:
  ebb jobs list --limit 10
  ebb jobs list --state failed --application wordcount
  EBB_TOKEN=... ebb jobs list --server http://10.0.0.5:9043 --json | jq '.[].id'

Without options the same as ebb jobs.";

/// List jobs, the oldest first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// List only jobs in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<JobState>,
    /// List only jobs of this application.
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    /// List only the latest N of the jobs that the other options choose.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print a JSON array: id, application, request, state, times, report.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let all = JobSource::of(&args.attached)?.list()?;
    print(&chosen(all, args), args.json)
}

/// Returns the jobs that the options choose.
fn chosen(mut jobs: Vec<JobView>, args: &Args) -> Vec<JobView> {
    jobs.retain(|job| {
        let application = args.application.as_ref();
        application.is_none_or(|name| job.record.application == *name)
            && args.state.is_none_or(|state| JobState::of(job) == state)
    });
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    jobs.split_off(jobs.len().saturating_sub(limit))
}

pub(super) fn print(jobs: &[JobView], json: bool) -> Result<()> {
    let mut printer = Printer::new();
    if json {
        let records: Vec<_> = jobs.iter().map(|job| &job.record).collect();
        printer.json(&records)?;
    } else {
        printer.lines(lines(jobs))?;
    }
    printer.finish()
}

const HEAD: [&str; 9] = [
    "id",
    "application",
    "state",
    "started",
    "took s",
    "goal",
    "rows",
    "input",
    "output",
];
const INPUT: usize = 7;
const OUTPUT: usize = 8;

/// The least width of the columns input and output together, in characters. If the other columns are wide, a
/// line exceeds [`LINE_CHARS_MAX`] rather than cut these columns further.
const NAMES_CHARS_MIN: usize = 16;

/// Returns the lines of the list, with a head, or a sentence if the list is empty. Inputs and outputs are cut to
/// the width that the other columns leave. Lines below a job give the reason why it makes little progress, the
/// prediction that it does not end within a week, and the number of damaged places that a backup or a verification
/// found.
pub(super) fn lines(jobs: &[JobView]) -> Vec<String> {
    if jobs.is_empty() {
        return vec!["there are no jobs to list".to_string()];
    }
    let mut rows: Vec<_> = jobs.iter().map(row).collect();
    // Before the widths are measured: an escape is longer than what it stands for.
    for cell in rows.iter_mut().flatten() {
        *cell = escaped_line(cell);
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(HEAD[column].len())
    };
    // Two blanks stand between columns.
    let others: usize = (0..INPUT).map(|column| width(column) + 2).sum();
    let room = (LINE_CHARS_MAX.saturating_sub(others + 2)).max(NAMES_CHARS_MIN);
    // Short outputs leave their room to the inputs, and the other way round.
    let input = width(INPUT).min((room / 2).max(room.saturating_sub(width(OUTPUT))));
    for row in &mut rows {
        row[INPUT] = cut(&row[INPUT], input);
        row[OUTPUT] = cut(&row[OUTPUT], room - input);
    }
    let mut lines = table(&HEAD, &["took s", "goal", "rows"], &rows).into_iter();
    let mut listed = Vec::from_iter(lines.next());
    for (line, job) in lines.zip(jobs) {
        listed.push(line);
        listed.extend(job.waits().map(|waits| format!("  waits: {waits}")));
        let beyond = job.beyond_horizon.as_ref().map(beyond_text);
        listed.extend(beyond.map(|beyond| format!("  predicted end: {beyond}")));
        let damage = damage(&job.record);
        listed.extend(damage.map(|damage| format!("  damaged or missing: {damage}")));
    }
    listed
}

fn row(view: &JobView) -> Vec<String> {
    let job = &view.record;
    let report = job.report.as_ref();
    let rows = report.and_then(|report| report["counters"]["output_records"].as_u64());
    let [goal, input, output] = asked(job);
    // The year and the second would take the room of the names.
    let started = started(job.started_unix_ms);
    let minute = started.get(5..16).unwrap_or(&started);
    vec![
        job.id.clone(),
        job.application.clone(),
        JobState::of(view).to_string(),
        format!("{minute}Z"),
        took_s(job).map_or_else(String::new, |took_s| format!("{took_s:.2}")),
        goal,
        rows.map(|rows| rows.to_string()).unwrap_or_default(),
        input,
        output,
    ]
}

/// Returns the prediction that a job does not end within a week as text, with `late` if the job will miss its
/// goal. The console has the same words.
pub(super) fn beyond_text(beyond: &BeyondHorizon) -> &'static str {
    if beyond.is_late() {
        "not within a week, late"
    } else {
        "not within a week"
    }
}

/// Returns the goal, the inputs and the output of a job. A text is empty if the job has no goal, inputs or
/// output. The inputs and the output are also empty if this build cannot read the request.
pub(super) fn asked(job: &JobRecord) -> [String; 3] {
    if let Some(backup) = job.backup_request() {
        return [String::new(), String::new(), backup.target];
    }
    if let Some(backup) = job.restored_backup() {
        return [String::new(), backup.to_string(), String::new()];
    }
    let goal = goal_of(job).unwrap_or_default();
    let Ok(request) = job.request() else {
        return [goal, String::new(), String::new()];
    };
    let inputs: Vec<_> = request.inputs.iter().map(input_name).collect();
    let output = match &request.output.to {
        OutputPlace::Table(name) => name.to_string(),
        OutputPlace::File(path) => path.display().to_string(),
        OutputPlace::Iceberg(target) => target.to_string(),
        OutputPlace::Folder(path) => format!("{}/", path.display()),
        OutputPlace::Terminal | OutputPlace::Spool(_) => "-".to_string(),
    };
    [goal, inputs.join(", "), output]
}

/// Returns the number of damaged or missing files that a backup found or a restore left, or of damaged places
/// and missing files that a verification found, as text; `None` if there are none. A list as long as the history
/// keeps may have been longer. The console has the same words.
fn damage(job: &JobRecord) -> Option<String> {
    let (count, what) = if let Some(report) = job.restoration_report() {
        (report.restore?.left.len(), "file")
    } else if let Some(report) = job.verification_report() {
        (report.verify?.findings.len(), "place")
    } else {
        (job.backup_report()?.backup?.damaged.len(), "file")
    };
    let least = if count >= DAMAGED_KEPT_MAX {
        "at least "
    } else {
        ""
    };
    (count > 0).then(|| format!("{least}{}", counted(count as u64, what)))
}

/// Returns the name of an input: its table, its first file with the number of further files, or the number of
/// generated records.
fn input_name(input: &InputRequest) -> String {
    let paths = match input {
        InputRequest::Table(table) => return table.table.to_string(),
        InputRequest::Generated(generated) => return format!("{} drawn", generated.records),
        InputRequest::Text(text) => &text.paths,
        InputRequest::Csv(csv) => &csv.paths,
        InputRequest::JsonLines(json) => &json.paths,
    };
    match &paths[..] {
        [] => String::new(),
        [path] => path.display().to_string(),
        [path, others @ ..] => format!("{} +{}", path.display(), others.len()),
    }
}

/// Cuts a text to `chars_max` characters, which must be at least 2. The end of the text is kept, because a
/// path ends with the name of the file, and a table's name with the table.
fn cut(text: &str, chars_max: usize) -> String {
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.to_string();
    }
    let end: String = text.chars().skip(chars + 2 - chars_max).collect();
    format!("..{end}")
}

#[cfg(test)]
mod tests {
    use ebb_jobs::history::{JobTables, RecordState};
    use serde_json::{Value, json};

    use super::*;

    fn job(request: Value) -> JobView {
        JobView::remembered(JobRecord {
            id: "1795293012345".into(),
            application: "wordcount".into(),
            request,
            own_snapshots: Vec::new(),
            tables: JobTables::default(),
            state: RecordState::Succeeded,
            started_unix_ms: 1_795_293_012_345,
            restarted_unix_ms: None,
            starts: 1,
            parks: 0,
            commits: true,
            written_us: None,
            written_file: None,
            ended_unix_ms: Some(1_795_293_112_345),
            report: Some(json!({"counters": {"output_records": 1_234_567}})),
            attempts_dropped: 0,
            submission: None,
        })
    }

    /// Regression: only the head of the table was printed.
    #[test]
    fn an_empty_list_is_a_sentence() {
        assert_eq!(lines(&[]), ["there are no jobs to list"]);
    }

    /// Regression: a job that was predicted not to end within a week looked like one without a prediction.
    #[test]
    fn a_job_that_does_not_end_within_a_week_is_listed_with_that() {
        let listed = |goal_unix_ms: Option<u64>| {
            let mut job = job(json!({}));
            job.beyond_horizon = Some(BeyondHorizon {
                horizon_unix_ms: 604_800_000,
                goal_unix_ms,
                method: "lookahead/fair".to_string(),
            });
            lines(&[job]).remove(2)
        };
        let within = "  predicted end: not within a week";
        assert_eq!(listed(Some(600_000)), format!("{within}, late"));
        // A goal after the horizon may still be met.
        for goal_unix_ms in [None, Some(700_000_000)] {
            assert_eq!(listed(goal_unix_ms), within);
        }
        assert_eq!(lines(&[job(json!({}))]).len(), 2);
    }

    #[test]
    fn a_verification_is_listed_with_its_damage() {
        let mut verification = job(json!({"application": {"verify": {"by": "uid 7"}}}));
        verification.record.application = "verify".into();
        verification.record.report = Some(json!({
            "outcome": {"kind": "succeeded"},
            "verify": {"files": 2, "bytes": 9, "entries": 1, "runs": 1, "bookmarks": 0,
                "wal_records": 0, "wal_torn_bytes": 0, "findings": [
                    {"path": "/d/7.sst", "offset": 0, "detail": "it is missing"},
                ]},
        }));
        let listed = lines(std::slice::from_ref(&verification));
        assert_eq!(listed[2], "  damaged or missing: 1 place");
        // Regression: of more places the history has the first hundred, which were all that were counted.
        let report = verification.record.report.as_mut().unwrap();
        let findings = report.pointer_mut("/verify/findings").unwrap();
        let many = vec![findings[0].clone(); DAMAGED_KEPT_MAX];
        *findings = json!(many);
        let listed = lines(&[verification]);
        assert_eq!(listed[2], "  damaged or missing: at least 100 places");
    }

    #[test]
    fn a_restore_is_listed_with_its_backup_and_the_files_that_it_left() {
        let mut restore =
            job(json!({"application": {"restore": {"by": "uid 7"}}, "backup": "nightly"}));
        restore.record.application = "restore".into();
        let file = json!({"table": "app.t", "path": "/d/7.sst", "detail": "it is missing"});
        restore.record.report = Some(json!({
            "outcome": {"kind": "succeeded"}, "restore": {"restored": [], "left": [file]},
        }));
        let listed = lines(&[restore]);
        assert!(listed[1].contains("nightly"), "{listed:?}");
        assert_eq!(listed[2], "  damaged or missing: 1 file");
    }

    #[test]
    fn a_backup_is_listed_with_its_target_and_its_damage() {
        let mut backup = job(json!({
            "application": {"backup": {"by": "uid 7"}}, "output": {"to": {"folder": "/b/nightly"}},
        }));
        backup.record.application = "backup".into();
        backup.record.report = Some(json!({
            "outcome": {"kind": "succeeded"},
            "backup": {"files": 2, "bytes": 9, "linked_bytes": 0, "copied_bytes": 9, "damaged": [
                {"path": "/b/nightly/7.sst", "offset": 0, "detail": "it is missing"},
            ]},
        }));
        let listed = lines(&[backup]);
        assert!(listed[1].ends_with("/b/nightly"), "{listed:?}");
        assert_eq!(listed[2], "  damaged or missing: 1 file");
    }

    #[test]
    fn goal_input_and_output_are_listed_and_long_names_are_cut_to_a_terminals_width() {
        let request = |inputs: Value, to: Value| {
            json!({
                "application": {"wordcount": {"reduces": 1}}, "inputs": inputs,
                "output": {"to": to}, "directory": "/", "goal_s": 90.0,
            })
        };
        let table = json!([{"table": {"table": "app.lines"}}]);
        let long = format!("/{}/tail.txt", "long/".repeat(40));
        let files = json!([{"text": {"paths": [long, "b.txt"]}}]);
        let listed = |request: Value| lines(&[job(request)]).remove(1);
        for (request, end) in [
            (
                request(table, json!({"table": "app.counts"})),
                "  11-21T20:30Z  100.00  1m 30s  1234567  app.lines  app.counts",
            ),
            (request(files.clone(), json!("terminal")), "tail.txt +1  -"),
            (
                request(
                    files.clone(),
                    json!({"spool": "/data/spill/.ebb-job-x/rows"}),
                ),
                "tail.txt +1  -",
            ),
            (
                request(files, json!({"file": long})),
                "..l.txt +1  ..tail.txt",
            ),
            (json!({"version": 2}), "  100.00        1234567"),
            (
                request(json!([]), json!({"file": "/d/e\u{1b}[31m\nf.tsv"})),
                "1m\\u000af.tsv",
            ),
            // The outline that a role sees which may not read the inputs.
            (
                json!({"application": {"wordcount": {}}, "goal_s": 90.0}),
                "  100.00  1m 30s  1234567",
            ),
        ] {
            let line = listed(request);
            assert!(line.ends_with(end), "{line}");
            assert!(line.chars().count() <= LINE_CHARS_MAX, "{line}");
        }
    }
}
